/* cmd_demo.c: `lockstep demo` trains one linear layer on 1, 2, 3, 4, 5 and 8 workers and compares bits.
 *
 * Least squares: loss ½‖X·w − Y‖² over samples that are cut into 8 groups. A worker computes the gradients of its
 * groups and adds them up to the subtrees that it holds; the ordered all-reduce ends the sum. Beside it stands what a
 * ring all-reduce of one sum per worker would give for the same gradients: each worker adds its groups in order, and
 * chunk c of the vector then goes round the ring from worker c on, so that every worker count adds in another order.
 *
 *   5 workers, 8 groups:   worker        0     1      2     3     4
 *                          groups        0    1 2     3    4 5   6 7
 *                          hands over    0    1, 2    3    4+5   6+7       (1+2 is no node of the tree)
 */
#include "cli/cli.h"
#include "run/inputs/inputs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "cli/print.h"
#include "numerics/float16.h"
#include "observe/trace.h"

enum { FEATURES = 512, OUTPUTS = 256, GROUPS = 8, GROUP_SAMPLES = 16, STEPS = 20, CASES_MAX = 6 };
enum {
    ELEMS = FEATURES * OUTPUTS,
    SAMPLES = GROUPS * GROUP_SAMPLES,
};
enum { PURPOSE_INPUT = 1, PURPOSE_TRUTH = 2, PURPOSE_NOISE = 3 };
static const float learning_rate = 0x1p-9f; /* below 2 / the largest eigenvalue of XᵀX, about 2⁻⁸ */

/* X and Y. Made by the parent; workers are forked and only read them. */
static float inputs[SAMPLES * FEATURES], targets[SAMPLES * OUTPUTS];

typedef struct hashes {
    char gradient[LS_HASH_CHARS], weights[LS_HASH_CHARS];
} hashes;

/* Worker 0 tells the parent in a shared mapping. */
typedef struct demo_case {
    int workers;
    hashes hashes;
    double seconds;
    int ring_differs;      /* elements */
    uint32_t ring_max_ulp; /* of those */
} demo_case;

typedef struct job {
    demo_case *all;    /* workers together */
    demo_case *on_one; /* where not NULL: every worker first does the whole work alone */
    const char *trace;
} job;

/* ---- the problem ---- */

static ls_status floats_alloc(size_t count, float **out) {
    *out = calloc(count, sizeof **out);
    return *out != NULL ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for %zu numbers", count);
}

/* from −1 to 1 */
static void fill_random(float *values, size_t count, uint64_t seed, uint32_t purpose) {
    ls_rng_key key = ls_rng_key_make(seed, purpose, 0);
    for (size_t i = 0; i < count; i++) values[i] = 2 * ls_rng_uniform_f32(key, i) - 1;
}

static void add_scaled(float *restrict to, float factor, const float *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] += factor * from[i];
}

/* out [samples][OUTPUTS] += x [samples][FEATURES] · w [FEATURES][OUTPUTS] */
static void multiply(const float *x, const float *w, float *out, int samples) {
    for (int k = 0; k < FEATURES; k++)
        for (int s = 0; s < samples; s++) add_scaled(out + s * OUTPUTS, x[s * FEATURES + k], w + k * OUTPUTS, OUTPUTS);
}

static void make_problem(uint64_t seed) {
    static float truth[ELEMS];
    fill_random(inputs, SAMPLES * FEATURES, seed, PURPOSE_INPUT);
    fill_random(targets, SAMPLES * OUTPUTS, seed, PURPOSE_NOISE);
    fill_random(truth, ELEMS, seed, PURPOSE_TRUTH);
    multiply(inputs, truth, targets, SAMPLES);
}

/* out = Xᵀ(X·w − Y) over the samples of one group */
static void group_gradient(const float *w, int group, float *out) {
    float error[GROUP_SAMPLES * OUTPUTS] = {0};
    const float *x = inputs + group * GROUP_SAMPLES * FEATURES;
    multiply(x, w, error, GROUP_SAMPLES);
    add_scaled(error, -1, targets + group * GROUP_SAMPLES * OUTPUTS, GROUP_SAMPLES * OUTPUTS);
    memset(out, 0, ELEMS * sizeof *out);
    for (int k = 0; k < FEATURES; k++)
        for (int s = 0; s < GROUP_SAMPLES; s++)
            add_scaled(out + k * OUTPUTS, x[s * FEATURES + k], error + s * OUTPUTS, OUTPUTS);
}

/* ---- a worker ---- */

typedef struct worker {
    ls_world *world;
    ls_comm *comm;
    ls_tree_node nodes[LS_TREE_COVER_MAX];
    int node_count;
    float *parts[LS_TREE_COVER_MAX];
    float *leaves; /* [GROUPS][ELEMS]: gradients of the groups of a node */
    float *gradient, *weights;
} worker;

/* out = the sum over a node of the tree */
static ls_status node_gradient(const worker *k, ls_tree_node node, float *out) {
    const float *leaves[GROUPS];
    for (int g = 0; g < node.count; g++) {
        float *leaf = k->leaves + (size_t)g * ELEMS;
        group_gradient(k->weights, node.first + g, leaf);
        leaves[g] = leaf;
    }
    return ls_tree_sum(leaves, node.count, out, ELEMS);
}

static ls_status worker_open(worker *k, ls_world *world, ls_comm *comm) {
    int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    void *memory = NULL;
    *k = (worker){.world = world, .comm = comm};
    k->node_count = ls_tree_cover(GROUPS, GROUPS * rank / size, GROUPS * (rank + 1) / size, k->nodes);
    for (int n = 0; n < k->node_count; n++) {
        LS_TRY(ls_world_alloc(world, ELEMS * sizeof(float), &memory));
        k->parts[n] = memory;
    }
    LS_TRY(ls_world_alloc(world, ELEMS * sizeof(float), &memory));
    k->gradient = memory;
    LS_TRY(floats_alloc((size_t)GROUPS * ELEMS, &k->leaves));
    return floats_alloc(ELEMS, &k->weights);
}

static void worker_close(worker *k) {
    for (int n = 0; n < k->node_count; n++) ls_world_free(k->world, k->parts[n]);
    ls_world_free(k->world, k->gradient);
    free(k->leaves);
    free(k->weights);
}

static ls_status worker_step(worker *k) {
    const void *parts[LS_TREE_COVER_MAX] = {NULL};
    for (int n = 0; n < k->node_count; n++) {
        LS_TRY(node_gradient(k, k->nodes[n], k->parts[n]));
        parts[n] = k->parts[n];
    }
    ls_runs runs = {.groups = GROUPS};
    LS_TRY(ls_comm_all_reduce(k->comm, &runs, LS_F32, parts, k->gradient, ELEMS));
    add_scaled(k->weights, -learning_rate, k->gradient, ELEMS);
    return LS_OK;
}

/* All members have the bits of the first, or an error names one that has not. */
static ls_status compare_members(ls_comm *comm, const hashes *mine) {
    size_t bytes[LS_WORKERS_MAX];
    hashes all[LS_WORKERS_MAX];
    int members = ls_comm_size(comm);
    for (int r = 0; r < members; r++) bytes[r] = sizeof *mine;
    LS_TRY(ls_comm_all_gather(comm, mine, all, bytes));
    for (int r = 1; r < members; r++)
        if (memcmp(&all[r], &all[0], sizeof *all) != 0)
            return ls_fail(LS_ERR_FAILED,
                           "of %d workers, %d got different bits from worker 0: the ordered all-reduce is broken",
                           members, r);
    return LS_OK;
}

/* Gradient descent by the members of `comm`. */
static ls_status descend(ls_world *world, ls_comm *comm, demo_case *out) {
    ls_status status = LS_OK;
    hashes mine;
    worker k;
    LS_TRY_OUT(worker_open(&k, world, comm));
    LS_TRY_OUT(ls_comm_barrier(comm));
    double start = ls_clock_seconds();
    for (int step = 0; step < STEPS; step++) {
        LS_TRY_OUT(worker_step(&k));
        if (step == 0) ls_hash_text(ls_hash_f32(k.gradient, ELEMS), mine.gradient);
    }
    double seconds = ls_clock_seconds() - start;
    ls_hash_text(ls_hash_f32(k.weights, ELEMS), mine.weights);
    LS_TRY_OUT(compare_members(comm, &mine));
    if (ls_world_rank(world) == 0) {
        out->hashes = mine;
        out->seconds = seconds;
    }
out:
    worker_close(&k);
    return status;
}

static ls_status worker_main(ls_world *world, void *arg) {
    const job *j = arg;
    if (j->on_one != NULL) {
        ls_comm *alone;
        LS_TRY(ls_comm_split(ls_world_comm(world), ls_world_rank(world), 0, &alone));
        ls_status status = descend(world, alone, j->on_one);
        ls_comm_destroy(alone);
        LS_TRY(status);
    }
    LS_TRY(ls_trace_begin(j->trace));
    LS_TRY(descend(world, ls_world_comm(world), j->all));
    return ls_trace_end(world, j->trace);
}

/* ---- the ring, in plain C ---- */

/* out = what a ring all-reduce of the workers' own sums gives; leaves [GROUPS][ELEMS], sums [workers][ELEMS] */
static void ring_sum(const float *leaves, int workers, float *sums, float *out) {
    for (int r = 0; r < workers; r++) {
        float *sum = sums + (size_t)r * ELEMS;
        int first = GROUPS * r / workers, end = GROUPS * (r + 1) / workers;
        memset(sum, 0, ELEMS * sizeof *sum);
        for (int g = first; g < end; g++) add_scaled(sum, 1, leaves + (size_t)g * ELEMS, ELEMS);
    }
    for (int c = 0; c < workers; c++) {
        size_t lo = (size_t)ELEMS * (size_t)c / (size_t)workers, hi = (size_t)ELEMS * ((size_t)c + 1) / (size_t)workers;
        memcpy(out + lo, sums + (size_t)c * ELEMS + lo, (hi - lo) * sizeof *out);
        for (int hop = 1; hop < workers; hop++)
            add_scaled(out + lo, 1, sums + (size_t)((c + hop) % workers) * ELEMS + lo, hi - lo);
    }
}

/* Floats in the order of their values. */
static int64_t ordinal(float value) {
    uint32_t bits = ls_f32_bits(value);
    return bits >> 31 ? -(int64_t)(bits & 0x7FFFFFFFu) : (int64_t)bits;
}

static void ring_compare(const float *one, const float *many, demo_case *c) {
    for (int i = 0; i < ELEMS; i++) {
        int64_t ulp = llabs(ordinal(one[i]) - ordinal(many[i]));
        if (ulp == 0) continue;
        c->ring_differs++;
        if (ulp > c->ring_max_ulp) c->ring_max_ulp = ulp < UINT32_MAX ? (uint32_t)ulp : UINT32_MAX;
    }
}

static ls_status ring_run(demo_case *cases, int count) {
    float *zero, *leaves, *sums, *one, *many;
    LS_TRY(floats_alloc((size_t)(GROUPS + cases[count - 1].workers + 3) * ELEMS, &zero));
    one = zero + ELEMS;
    many = one + ELEMS;
    leaves = many + ELEMS;
    sums = leaves + (size_t)GROUPS * ELEMS;
    for (int g = 0; g < GROUPS; g++) group_gradient(zero, g, leaves + (size_t)g * ELEMS);
    ring_sum(leaves, 1, sums, one);
    for (int c = 0; c < count; c++) {
        ring_sum(leaves, cases[c].workers, sums, many);
        ring_compare(one, many, &cases[c]);
    }
    free(zero);
    return LS_OK;
}

/* ---- the command ---- */

static ls_status cases_run(const ls_options *opts, demo_case *cases, int count) {
    ls_workers_options options;
    LS_TRY(ls_workers_options_from(opts, &options));
    if (ls_launcher_place().size > 0) {
        /* The launcher's workers can be joined only once: both cases in one run. */
        job both = {.all = &cases[1], .on_one = &cases[0], .trace = opts->trace};
        return ls_workers_run(&options, worker_main, &both);
    }
    for (int c = 0; c < count; c++) {
        options.workers = cases[c].workers;
        LS_TRY(ls_workers_run(&options, worker_main, &(job){.all = &cases[c], .trace = opts->trace}));
    }
    return LS_OK;
}

static ls_status cases_compare(const demo_case *cases, int count) {
    for (int c = 1; c < count; c++)
        if (memcmp(&cases[c].hashes, &cases[0].hashes, sizeof(hashes)) != 0)
            return ls_fail(LS_ERR_FAILED,
                           "the result on %d workers differs from the result on %d: the ordered all-reduce is broken",
                           cases[c].workers, cases[0].workers);
    return LS_OK;
}

static void print_table(const demo_case *cases, int count) {
    printf("A gradient of %d elements, summed from %d groups on different numbers of workers; %d steps of gradient "
           "descent.\n\n",
           ELEMS, GROUPS, STEPS);
    printf("%-7s  %-32s  %-32s  %7s  %s\n", "", "ordered all-reduce", "", "", "ring all-reduce: change from 1 worker");
    printf("%-7s  %-32s  %-32s  %7s  %16s  %12s\n", "workers", "hash of the gradient", "hash of the weights", "time",
           "elements", "largest");
    for (int c = 0; c < count; c++)
        printf("%7d  %-32s  %-32s  %5.2f s  %7d (%4.1f %%)  %8u ulp\n", cases[c].workers, cases[c].hashes.gradient,
               cases[c].hashes.weights, cases[c].seconds, cases[c].ring_differs, 100.0 * cases[c].ring_differs / ELEMS,
               cases[c].ring_max_ulp);
}

static void print_verdict(const demo_case *cases, int count) {
    int most = 0;
    for (int c = 0; c < count; c++) most = cases[c].ring_differs > most ? cases[c].ring_differs : most;
    printf("\nThe ordered all-reduce gave bit-identical results on every number of workers, and so did training with "
           "it.\n");
    if (most > 0)
        printf("A ring all-reduce adds in an order that depends on the number of workers: it changed up to %d of %d "
               "elements.\n",
               most, ELEMS);
}

static json_t *case_json(const void *cases, int c) {
    const demo_case *one = (const demo_case *)cases + c;
    return json_pack("{s:i, s:s, s:s, s:f, s:i, s:I}", "workers", one->workers, "gradient", one->hashes.gradient,
                     "weights", one->hashes.weights, "seconds", one->seconds, "ring_elements_differ", one->ring_differs,
                     "ring_max_ulp", (json_int_t)one->ring_max_ulp);
}

static int cases_choose(const ls_options *opts, demo_case *cases) {
    static const int standard[CASES_MAX] = {1, 2, 3, 4, 5, 8};
    int launched = ls_launcher_place().size, workers = launched > 0 ? launched : (int)opts->workers;
    int count = workers == 0 ? CASES_MAX : workers == 1 ? 1 : 2;
    for (int c = 0; c < count; c++) cases[c] = (demo_case){.workers = standard[c]};
    if (count == 2) cases[1].workers = workers;
    return count;
}

static ls_status tell(const ls_options *opts, const demo_case *cases, int count) {
    ls_status equal = cases_compare(cases, count);
    if (opts->json) {
        LS_TRY(ls_cli_print_json_lines(json_pack("{s:i, s:i, s:i, s:b, s:o}", "elements", ELEMS, "groups", GROUPS,
                                                 "steps", STEPS, "equal", equal == LS_OK, "rows",
                                                 ls_cli_json_list(count, case_json, cases))));
        return equal;
    }
    print_table(cases, count);
    if (equal == LS_OK) print_verdict(cases, count);
    return equal;
}

ls_status ls_cmd_demo(const ls_options *opts) {
    size_t bytes = sizeof(demo_case) * CASES_MAX;
    /* More workers than cores are what is shown here, not something to warn of. */
    if (opts->source[LS_OPT_log_level].origin == LS_ORIGIN_DEFAULT) ls_log_set_level(LS_LOG_ERROR);
    demo_case *cases = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cases == MAP_FAILED) return ls_fail_errno(LS_ERR_RESOURCE, "cannot map %zu bytes for the results", bytes);
    int count = cases_choose(opts, cases);
    make_problem((uint64_t)opts->seed);
    ls_status status = ring_run(cases, count);
    if (status == LS_OK) status = cases_run(opts, cases, count);
    if (status == LS_OK && ls_launcher_place().rank == 0) status = tell(opts, cases, count);
    munmap(cases, bytes);
    return status;
}
