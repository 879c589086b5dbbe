/* test_plan_invariants.c: what must hold for the cost of any layout of any model on any cluster, whatever the
 * constants.
 *
 * Cases are drawn by a counter-based generator, so that a case is its number: LS_TEST_CASE=N runs that one alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "plan/cost/cost_case.h"
#include "sample.h"

enum { CASES = 2500, CASES_LONG = 40000, PURPOSE = 0x504c414e };

typedef struct draw {
    ls_rng_key key;
    uint64_t next;
} draw;

typedef struct drawn_case {
    uint64_t number;
    ls_plan_task task;
    ls_knobs layout;
} drawn_case;

static long below(draw *d, long n) { return (long)ls_rng_below(d->key, d->next++, (uint64_t)n); }
static long between(draw *d, long least, long most) { return least + below(d, most - least + 1); }
static double real(draw *d, double least, double most) {
    return least + (most - least) * (double)below(d, 1 << 20) / (1 << 20);
}
static bool chance(draw *d, int per_cent) { return below(d, 100) < per_cent; }

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void draw_shape(draw *d, ls_shape *shape) {
    static const size_t heads[] = {4, 8, 12, 16, 32, 40, 64, 96}, widths[] = {32, 64, 128};
    memset(shape, 0, sizeof *shape);
    shape->arch = chance(d, 50) ? LS_ARCH_GPT2 : LS_ARCH_LLAMA;
    shape->H = heads[below(d, 8)];
    shape->head_size = widths[below(d, 3)];
    shape->C = shape->H * shape->head_size;
    shape->kv_heads = chance(d, 50) ? shape->H : shape->H / 4;
    shape->hidden = chance(d, 50) ? 4 * shape->C : (shape->C * 7 / 2 + 63) / 64 * 64;
    shape->L = (size_t)between(d, 2, 96);
    shape->V = (size_t)between(d, 256, 260000);
    shape->tied = chance(d, 50);
}

static int rows_of_chips(void) {
    int n = 0;
    while (ls_chip_row(n)) n++;
    return n;
}

static void draw_link(draw *d, ls_link *link) {
    int n = 0;
    while (ls_link_row(n)) n++;
    assert_int_equal(ls_link_find(ls_link_row((int)below(d, n))->name, link), LS_OK);
    link->bandwidth *= real(d, .3, 3);
    link->start_seconds *= real(d, 0, 3);
    link->latency_seconds *= real(d, 0, 3);
}

static void draw_site(draw *d, ls_site *site) {
    static const int nodes[] = {1, 2, 4, 8, 16, 72};
    assert_int_equal(ls_chip_find(ls_chip_row((int)below(d, rows_of_chips()))->name, &site->chip), LS_OK);
    for (int i = 0; i < LS_PLAN_TYPES; i++) site->chip.peak_flops[i] *= real(d, .3, 3);
    site->chip.memory_bandwidth *= real(d, .3, 3);
    site->node = nodes[below(d, 6)];
    draw_link(d, &site->inside);
    draw_link(d, &site->between);
}

static void draw_layout(draw *d, const ls_shape *shape, ls_knobs *l) {
    static const ls_schedule_kind kinds[] = {LS_SCHEDULE_NAIVE, LS_SCHEDULE_GPIPE, LS_SCHEDULE_1F1B, LS_SCHEDULE_1F1B,
                                             LS_SCHEDULE_ZERO_BUBBLE};
    *l = (ls_knobs){.virtual_stages = 1, .context = chance(d, 20) ? 2 : 1};
    l->tp = 1 << below(d, 5);
    while (shape->H % (size_t)l->tp != 0) l->tp /= 2;
    while (shape->kv_heads % (size_t)l->tp != 0 && (size_t)l->tp % shape->kv_heads != 0) l->tp /= 2;
    l->pp = (int)between(d, 1, shape->L < 12 ? (long)shape->L : 12);
    if (chance(d, 40)) l->pp = 1;
    l->dp = (int)(chance(d, 30) ? 1 : between(d, 1, 64));
    l->schedule = kinds[below(d, 5)];
    int most = (int)shape->L / l->pp;
    if (l->pp > 1 && most > 1 && chance(d, 35)) {
        l->virtual_stages = (int)between(d, 2, most < 5 ? most : 5);
        l->schedule = LS_SCHEDULE_INTERLEAVED;
    }
    l->micro = (size_t)between(d, 1, 8);
    l->zero = (int)below(d, 4);
    l->recompute = (ls_recompute)below(d, LS_RECOMPUTE_KINDS);
    l->sequence_parallel = l->tp > 1 && chance(d, 50);
    l->tp_overlap = chance(d, 20);
    l->type = (ls_plan_type)below(d, LS_PLAN_TYPES);
    l->pure_16bit = l->type != LS_PLAN_FP32 && chance(d, 10);
    l->gather_8bit = chance(d, 10);
    l->stages_across = l->pp > 1 && chance(d, 50);
}

static drawn_case make_case(uint64_t number) {
    drawn_case c = {.number = number};
    draw d = {ls_rng_key_make(1, PURPOSE, number), 0};
    draw_shape(&d, &c.task.shape);
    draw_layout(&d, &c.task.shape, &c.layout);
    ls_knobs *l = &c.layout;
    c.task.seq = (size_t)1 << between(&d, 7, 14);
    c.task.shape.T = c.task.seq;
    c.task.global_batch = (size_t)l->dp * l->micro * (size_t)between(&d, 1, chance(&d, 20) ? 200 : 24);
    if (chance(&d, 20)) c.task.global_batch += (size_t)below(&d, l->dp * (long)l->micro);
    ls_cluster *cluster = &c.task.cluster;
    int chips = ls_plan_chips(l), stacks = 0;
    cluster->sites = (l->stages_across ? l->pp : l->dp) % 2 == 0 && chance(&d, 15) ? 2 : 1;
    for (int i = 0; i < cluster->sites; i++) {
        draw_site(&d, &cluster->site[i]);
        cluster->site[i].chips = chips / cluster->sites;
    }
    if (cluster->sites == 2) draw_link(&d, &cluster->across);
    while (ls_stack_row(stacks)) stacks++;
    assert_int_equal(ls_stack_find(ls_stack_row((int)below(&d, stacks))->name, &c.task.stack), LS_OK);
    return c;
}

static void describe(const drawn_case *c, char *text, size_t room) {
    const ls_knobs *l = &c->layout;
    const ls_site *s = &c->task.cluster.site[0];
    snprintf(text, room,
             "LS_TEST_CASE=%llu: L %zu C %zu H %zu V %zu tied %d, seq %zu batch %zu, dp %d tp %d pp %d v %d ctx %d "
             "micro %zu %s zero %d recompute %d sp %d %s, %d sites, node %d, %s, %s and %s, %s",
             (unsigned long long)c->number, c->task.shape.L, c->task.shape.C, c->task.shape.H, c->task.shape.V,
             c->task.shape.tied, c->task.seq, c->task.global_batch, l->dp, l->tp, l->pp, l->virtual_stages, l->context,
             l->micro, ls_schedule_kind_name(l->schedule), l->zero, l->recompute, l->sequence_parallel,
             ls_plan_type_name(l->type), c->task.cluster.sites, s->node, s->chip.name, s->inside.name, s->between.name,
             c->task.stack.name);
}

static _Noreturn void broken(const drawn_case *c, const char *what, double a, double b) {
    char text[512];
    describe(c, text, sizeof text);
    fail_msg("%s: %.17g against %.17g\n%s", what, a, b, text);
    abort();
}

/* a is at most b, but for rounding. */
static void at_most(const drawn_case *c, const char *what, double a, double b) {
    if (!(a <= b * (1 + 1e-9) + 1e-15)) broken(c, what, a, b);
}

/* A long course is not simulated to its end but continued at the pace it has reached, which is that well known. And the
 * reduction overlaps with the backward pass of the busiest stage: which of two nearly equal ones that is may change,
 * and with it the stage with one layer more, where they do not divide evenly. */
static double course_error(const drawn_case *c, const ls_prediction *p) {
    if (c->layout.pp == 1) return 0;
    bool even = c->task.shape.L % (size_t)(c->layout.pp * c->layout.virtual_stages) == 0;
    double stage = !even ? .02 : c->layout.dp * c->layout.context > 1 ? 1e-3 : 0;
    if (ls_plan_sites_differ(&c->task.cluster)) stage += .1; /* whole layers go to the faster one, or stay */
    if (p->micros <= 4 * c->layout.pp || c->layout.schedule == LS_SCHEDULE_NAIVE ||
        c->layout.schedule == LS_SCHEDULE_GPIPE)
        return stage;
    return stage + (c->layout.schedule == LS_SCHEDULE_INTERLEAVED ? .04 : .01);
}

static ls_prediction predicted(const drawn_case *c) {
    ls_prediction p = {0};
    if (ls_plan_check(&c->task, &c->layout) != LS_OK || ls_plan_predict(&c->task, &c->layout, &p) != LS_OK) {
        char text[512];
        describe(c, text, sizeof text);
        fail_msg("%s\n%s", ls_status_message(), text);
    }
    return p;
}

static void for_all(void check(const drawn_case *c, const ls_prediction *p)) {
    const char *one = getenv("LS_TEST_CASE"), *is_long = getenv("LS_TEST_LONG");
    uint64_t first = one ? strtoull(one, NULL, 10) : 0, count = one ? 1 : is_long ? CASES_LONG : CASES;
    for (uint64_t i = first; i < first + count; i += (uint64_t)sample_every(4)) {
        drawn_case c = make_case(i);
        ls_prediction p = predicted(&c);
        check(&c, &p);
    }
}

/* ---- one prediction ---------------------------------------------------------------------------------------------- */

static void check_numbers(const drawn_case *c, const ls_prediction *p) {
    double time = 0, memory = 0;
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        if (!isfinite(p->time[k]) || p->time[k] < 0) broken(c, ls_time_kind_name((ls_time_kind)k), p->time[k], 0);
        time += p->time[k];
    }
    for (int k = 0; k < LS_MEMORY_KINDS; k++) {
        if (!isfinite(p->memory[k]) || p->memory[k] < 0)
            broken(c, ls_memory_kind_name((ls_memory_kind)k), p->memory[k], 0);
        memory += p->memory[k];
    }
    if (!(fabs(time - p->seconds) <= 1e-9 * time)) broken(c, "kinds of time and the step", time, p->seconds);
    if (!(fabs(memory - p->memory_bytes) <= 1e-9 * memory)) broken(c, "kinds of memory", memory, p->memory_bytes);
    if (!(p->seconds > 0) || !(p->memory_bytes > 0)) broken(c, "a step that takes nothing", p->seconds, 0);
    if (p->heaviest_stage < 0 || p->heaviest_stage >= c->layout.pp) broken(c, "heaviest stage", p->heaviest_stage, 0);
}

static void check_exposed(const drawn_case *c, const ls_prediction *p) {
    at_most(c, "exposed reduction, all of it", p->time[LS_TIME_DP], p->link_dp);
    at_most(c, "nothing, hidden reduction", 0, p->hidden_dp);
    if (!(fabs(p->hidden_dp + p->time[LS_TIME_DP] - p->link_dp) <= 1e-9 * p->link_dp + 1e-15))
        broken(c, "hidden and exposed reduction, all of it", p->hidden_dp + p->time[LS_TIME_DP], p->link_dp);
    if (c->layout.dp * c->layout.context == 1 && p->time[LS_TIME_GATHER] != 0)
        broken(c, "one replica gathers", p->time[LS_TIME_GATHER], 0);
    if (c->layout.tp == 1 && p->time[LS_TIME_TP] != 0) broken(c, "tp 1 exchanges", p->time[LS_TIME_TP], 0);
    if (c->layout.pp == 1 && p->time[LS_TIME_BUBBLE] + p->time[LS_TIME_P2P] != 0 && !c->layout.stages_across)
        broken(c, "pp 1 has a bubble", p->time[LS_TIME_BUBBLE] + p->time[LS_TIME_P2P], 0);
}

static double fastest_peak(const drawn_case *c) {
    double peak = 0;
    for (int s = 0; s < c->task.cluster.sites; s++)
        for (int t = 0; t < LS_PLAN_TYPES; t++)
            if (c->task.cluster.site[s].chip.peak_flops[t] > peak) peak = c->task.cluster.site[s].chip.peak_flops[t];
    return peak;
}

/* With causal attention, which half of the scores need not be made for. */
static void check_peak(const drawn_case *c, const ls_prediction *p) {
    double n = (double)c->task.seq * (double)c->task.global_batch;
    double scores =
        12 * n * (double)c->task.seq * (double)ls_shape_query_width(&c->task.shape) * (double)c->task.shape.L;
    double chips = ls_plan_chips(&c->layout);
    at_most(c, "FLOPs at the peak, the step", (p->model_flops - scores / 2) / (chips * fastest_peak(c)), p->seconds);
}

static void check_again(const drawn_case *c, const ls_prediction *p) {
    ls_prediction again;
    memset(&again, 0xa5, sizeof again);
    if (ls_plan_predict(&c->task, &c->layout, &again) != LS_OK) fail_msg("%s", ls_status_message());
    if (again.seconds != p->seconds || memcmp(again.time, p->time, sizeof again.time) != 0 ||
        memcmp(again.memory, p->memory, sizeof again.memory) != 0)
        broken(c, "the same case twice", again.seconds, p->seconds);
    drawn_case named = *c;
    snprintf(named.task.shape.name, sizeof named.task.shape.name, "another");
    snprintf(named.task.cluster.name, sizeof named.task.cluster.name, "another");
    again = predicted(&named);
    if (again.seconds != p->seconds || again.memory_bytes != p->memory_bytes)
        broken(c, "the same case by another name", again.seconds, p->seconds);
}

static void check_single(const drawn_case *c, const ls_prediction *p) {
    check_numbers(c, p);
    check_exposed(c, p);
    check_peak(c, p);
    check_again(c, p);
}

static void test_single(void **state) {
    (void)state;
    for_all(check_single);
}

/* ---- better hardware --------------------------------------------------------------------------------------------- */

typedef enum part { MEMORY_BANDWIDTH, INSIDE, BETWEEN, ACROSS, PEAK, LATENCY, PARTS } part;

static const char *const part_names[PARTS] = {
    "memory bandwidth", "bandwidth inside nodes", "bandwidth between nodes", "bandwidth between sites", "peak",
    "less latency"};

static void improve(ls_cluster *cluster, part which, double by) {
    for (int i = 0; i < cluster->sites; i++) {
        ls_site *s = &cluster->site[i];
        if (which == MEMORY_BANDWIDTH) s->chip.memory_bandwidth *= by;
        if (which == INSIDE) s->inside.bandwidth *= by;
        if (which == BETWEEN) s->between.bandwidth *= by;
        for (int t = 0; which == PEAK && t < LS_PLAN_TYPES; t++) s->chip.peak_flops[t] *= by;
        if (which == LATENCY) {
            s->inside.latency_seconds /= by, s->inside.start_seconds /= by;
            s->between.latency_seconds /= by, s->between.start_seconds /= by;
        }
    }
    if (which == ACROSS) cluster->across.bandwidth *= by;
}

static void check_hardware(const drawn_case *c, const ls_prediction *p) {
    draw d = {ls_rng_key_make(2, PURPOSE, c->number), 0};
    for (int i = 0; i < PARTS; i++) {
        drawn_case better = *c;
        improve(&better.task.cluster, (part)i, chance(&d, 50) ? real(&d, 1, 1.2) : real(&d, 1, 8));
        ls_prediction q = predicted(&better);
        at_most(c, part_names[i], q.seconds, p->seconds * (1 + course_error(c, p)));
        bool moves = c->task.shape.L % (size_t)c->layout.pp != 0 || ls_plan_sites_differ(&c->task.cluster);
        if (q.memory_bytes > p->memory_bytes * 1.0000001 && !moves)
            broken(c, "memory of better hardware", q.memory_bytes, p->memory_bytes);
    }
}

static void test_hardware(void **state) {
    (void)state;
    for_all(check_hardware);
}

/* A row of chips in one node, and the same spread over nodes, where the network is no faster than the node. */
static void check_nodes(const drawn_case *c, const ls_prediction *p) {
    (void)p;
    drawn_case inside = *c, across = *c;
    if (c->layout.tp < 2 || c->task.cluster.sites > 1) return;
    draw d = {ls_rng_key_make(3, PURPOSE, c->number), 0};
    ls_site *in = &inside.task.cluster.site[0], *out = &across.task.cluster.site[0];
    if (ls_plan_link_rate(&in->between) > ls_plan_link_rate(&in->inside)) return;
    if (in->between.latency_seconds < in->inside.latency_seconds) return;
    if (in->between.start_seconds < in->inside.start_seconds) return;
    in->node = c->layout.tp * (int)between(&d, 1, 4);
    out->node = 1 << below(&d, 4);
    while (out->node >= c->layout.tp) out->node /= 2;
    ls_prediction a = predicted(&inside), b = predicted(&across);
    at_most(c, "tp inside a node, across nodes", a.time[LS_TIME_TP], b.time[LS_TIME_TP]);
    if (c->layout.pp == 1) at_most(c, "a step with tp inside a node, across nodes", a.seconds, b.seconds);
}

static void test_nodes(void **state) {
    (void)state;
    for_all(check_nodes);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static double state_bytes(const ls_prediction *p) {
    return p->memory[LS_MEMORY_WEIGHTS] + p->memory[LS_MEMORY_GRADIENTS] + p->memory[LS_MEMORY_OPTIMIZER];
}

/* Which stage is the heaviest may change with what is kept where; one stage has no choice. */
static void check_memory(const drawn_case *c, const ls_prediction *p) {
    (void)p;
    drawn_case one = *c;
    one.layout.pp = one.layout.virtual_stages = 1;
    one.layout.schedule = LS_SCHEDULE_1F1B;
    one.task.cluster.sites = 1;
    one.task.cluster.site[0].chips = ls_plan_chips(&one.layout);
    double last = 0;
    for (int zero = 0; zero <= 3; zero++) {
        one.layout.zero = zero;
        ls_prediction q = predicted(&one);
        if (zero > 0) at_most(&one, "state with one more level of ZeRO", state_bytes(&q), last);
        last = state_bytes(&q);
    }
    one.layout.zero = c->layout.zero;
    double all = 0;
    for (int r = 0; r < LS_RECOMPUTE_KINDS; r++) {
        one.layout.recompute = (ls_recompute)r;
        ls_prediction q = predicted(&one);
        if (r > 0) at_most(&one, "activations with more recomputation", q.memory[LS_MEMORY_ACTIVATIONS], all);
        all = q.memory[LS_MEMORY_ACTIVATIONS];
    }
}

static void check_micro(const drawn_case *c, const ls_prediction *p) {
    drawn_case more = *c;
    if (c->task.shape.L % (size_t)(c->layout.pp * c->layout.virtual_stages) != 0) return; /* stages may change */
    if (ls_plan_sites_differ(&c->task.cluster)) return;                                   /* and so may shares */
    more.layout.micro = 2 * c->layout.micro;
    if ((size_t)more.layout.dp * more.layout.micro <= more.task.global_batch) {
        ls_prediction q = predicted(&more);
        at_most(c, "memory of a micro-batch, of twice that in the same batch", p->memory_bytes, q.memory_bytes);
    }
    more.layout.micro = c->layout.micro + 1;
    more.task.global_batch = (size_t)p->micros * more.layout.micro * (size_t)more.layout.dp;
    ls_prediction q = predicted(&more);
    if (!(q.memory_bytes > p->memory_bytes))
        broken(c, "memory of a larger micro-batch", q.memory_bytes, p->memory_bytes);
    if (!(q.memory[LS_MEMORY_ACTIVATIONS] + q.memory[LS_MEMORY_WORK] >
          p->memory[LS_MEMORY_ACTIVATIONS] + p->memory[LS_MEMORY_WORK]) &&
        q.heaviest_stage == p->heaviest_stage)
        broken(c, "activations of a larger micro-batch", q.memory[LS_MEMORY_ACTIVATIONS],
               p->memory[LS_MEMORY_ACTIVATIONS]);
}

static void test_memory(void **state) {
    (void)state;
    for_all(check_memory);
    for_all(check_micro);
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

/* Chunks that are equal but for the ends, whole rounds, and links and hosts that take no time: interleaving does not
 * idle more. */
static void check_virtual(const drawn_case *c, const ls_prediction *p) {
    (void)p;
    drawn_case plain = *c, cut = *c;
    draw d = {ls_rng_key_make(4, PURPOSE, c->number), 0};
    int pp = (int)between(&d, 2, 8), v = (int)between(&d, 2, 4), rounds = (int)between(&d, 1, 12);
    plain.layout.pp = pp;
    plain.layout.virtual_stages = 1;
    plain.layout.schedule = LS_SCHEDULE_1F1B;
    plain.layout.zero = c->layout.zero < 2 ? c->layout.zero : 1;
    plain.layout.stages_across = false;
    plain.task.shape.L = (size_t)(pp * v * (int)between(&d, 1, 4));
    plain.task.shape.V = 256;
    plain.task.global_batch = (size_t)(pp * rounds) * c->layout.micro * (size_t)c->layout.dp;
    ls_cluster *cluster = &plain.task.cluster;
    cluster->sites = 1;
    cluster->site[0].chips = ls_plan_chips(&plain.layout);
    cut = plain;
    cut.layout.virtual_stages = v;
    cut.layout.schedule = LS_SCHEDULE_INTERLEAVED;
    ls_prediction a = predicted(&plain), b = predicted(&cut);
    /* Idle time without the way of the first micro-batch. */
    at_most(&cut, "bubble of virtual stages, of one", b.time[LS_TIME_BUBBLE], a.time[LS_TIME_BUBBLE]);
    ls_link *links[] = {&cluster->site[0].inside, &cluster->site[0].between};
    for (int i = 0; i < 2; i++) links[i]->bandwidth *= 1e9, links[i]->start_seconds = links[i]->latency_seconds = 0;
    cut.task.cluster = plain.task.cluster;
    cut.task.stack.chunk_pause_seconds = 0;
    a = predicted(&plain), b = predicted(&cut);
    at_most(&cut, "step with virtual stages, with one, links for free", b.seconds,
            a.seconds * (1 + course_error(&cut, &b)));
}

static void test_virtual(void **state) {
    (void)state;
    for_all(check_virtual);
}

/* More micro-batches of the same size take longer, and their bubble is a smaller part of the step. */
static void check_more_work(const drawn_case *c, const ls_prediction *p) {
    drawn_case more = *c;
    more.task.global_batch = c->task.global_batch + (size_t)c->layout.dp * c->layout.micro * (size_t)c->layout.pp;
    ls_prediction q = predicted(&more);
    bool unlike = ls_plan_sites_differ(&c->task.cluster); /* then the faster one may take what is more */
    if (unlike ? q.seconds < p->seconds * (1 - 1e-9) : !(q.seconds > p->seconds))
        broken(c, "a step with more to do", q.seconds, p->seconds);
    if (c->layout.schedule == LS_SCHEDULE_1F1B && !unlike)
        at_most(c, "share of the bubble with more micro-batches", q.time[LS_TIME_BUBBLE] / q.seconds,
                p->time[LS_TIME_BUBBLE] / p->seconds);
}

static void test_more_work(void **state) {
    (void)state;
    for_all(check_more_work);
}

/* ---- unlike sites ------------------------------------------------------------------------------------------------ */

/* Two sites, one of them faster: no slower than two of the slower one, no faster than two of the faster one. */
static void check_unlike(const drawn_case *c, const ls_prediction *p) {
    (void)p;
    drawn_case slow = *c, mixed = *c, fast = *c;
    draw d = {ls_rng_key_make(5, PURPOSE, c->number), 0};
    const ls_knobs *l = &c->layout;
    if ((l->stages_across ? l->pp : l->dp) % 2 != 0 || c->number % 3 != 0) return; /* some are enough */
    slow.task.shape.V = 256; /* the ends cost nothing: unlike stages are balanced with them, like ones are not */
    slow.task.cluster.sites = 2;
    slow.task.cluster.site[0].chips = ls_plan_chips(l) / 2;
    slow.task.cluster.site[0].chip.memory_bytes *= 1e3; /* or the slower one may have to take more */
    slow.task.cluster.site[1] = slow.task.cluster.site[0];
    draw_link(&d, &slow.task.cluster.across);
    fast = mixed = slow;
    double by = real(&d, 1, 4);
    int which = chance(&d, 50);
    for (int i = 0; i < 2; i++) {
        for (int t = 0; t < LS_PLAN_TYPES; t++) fast.task.cluster.site[i].chip.peak_flops[t] *= by;
        fast.task.cluster.site[i].chip.memory_bandwidth *= by;
    }
    mixed.task.cluster.site[which] = fast.task.cluster.site[which];
    ls_prediction a = predicted(&slow), b = predicted(&mixed), f = predicted(&fast);
    double error = course_error(c, &a) + (l->pp > 1 ? .01 * l->virtual_stages : 0);
    at_most(&mixed, "unlike sites, two of the slower", b.seconds, a.seconds * (1 + error));
    if (c->task.shape.L % (size_t)(l->pp * l->virtual_stages) != 0) return; /* whose turn a layer left over is */
    at_most(&mixed, "two of the faster site, unlike ones", f.seconds, b.seconds * (1 + error));
}

static void test_unlike(void **state) {
    (void)state;
    for_all(check_unlike);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single), cmocka_unit_test(test_hardware), cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_virtual),  cmocka_unit_test(test_more_work),
        cmocka_unit_test(test_unlike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
