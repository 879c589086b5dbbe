/* conformance.c: runs every collective in a world of any size and compares each result with its plain meaning.
 *
 *   conformance [--workers N] [--node-size K] [--seed S] [--buffers shared|private|mixed] [--only NAME] [--some]
 * [--list] conformance --reference [--seed S]
 *
 * Rank 0 prints what was checked, and the hash of sums that must be the same on any number of workers and any
 * transport; --reference prints the hash that they must have. The first difference ends the run with exit status 1 and
 * a message that names the operation, the types, the layout and both values.
 */
#include <errno.h>
#include <inttypes.h>

#include "check_rules.h"
#include "check_traffic.h"

typedef struct check {
    const char *name;
    ls_status (*run)(harness *h);
} check;

/* What others build on comes first, so a failure points at the lowest broken piece. */
static const check checks[] = {
    {"tree", check_tree},
    {"shards", check_shards},
    {"memory", check_memory},
    {"barrier", check_barrier},
    {"send_recv", check_send_recv},
    {"tags", check_tags},
    {"flood", check_flood},
    {"broadcast", check_broadcast},
    {"all_gather", check_all_gather},
    {"all_to_all", check_all_to_all},
    {"1300", check_1300},
    {"all_reduce", check_all_reduce},
    {"reduce_scatter", check_reduce_scatter},
    {"bad_arguments", check_bad_arguments},
    {"split", check_split},
    {"mesh", check_mesh},
    {"in_flight", check_in_flight},
    {"traffic", check_traffic},
    {"bits", check_bits},
};
enum { CHECKS = sizeof checks / sizeof checks[0] };

typedef struct arguments {
    ls_workers_options workers;
    uint64_t seed;
    int buffers;
    const char *only;
    bool list, reference, some;
} arguments;

static ls_status report(harness *h) {
    int64_t mine = (int64_t)h->checks, total = 0;
    const void *parts[1] = {&mine};
    LS_TRY(ls_comm_all_reduce(h->comm, NULL, LS_I64, parts, &total, 1));
    if (h->rank != 0) return LS_OK;
    printf("conformance: transport=%s workers=%d checks=%" PRId64 " hash=%016" PRIx64 "\n",
           ls_world_transport(h->world), h->size, total, h->bits[0] ^ (h->bits[1] << 1));
    for (int i = 0; i < 2; i++) {
        if (h->bits[i] != 0) printf("bits G=%d %016" PRIx64 "\n", bits_groups[i], h->bits[i]);
    }
    fflush(stdout);
    return LS_OK;
}

static ls_status worker(ls_world *world, void *arg) {
    const arguments *args = arg;
    harness h = {.world = world, .seed = args->seed, .buffers = args->buffers, .some = args->some};
    h.comm = ls_world_comm(world);
    h.rank = ls_world_rank(world);
    h.size = ls_world_size(world);
    ls_status status = LS_OK;
    for (int i = 0; i < CHECKS; i++) {
        if (args->only != NULL && strcmp(args->only, checks[i].name) != 0) continue;
        h.draws = ref_mix(args->seed + (uint64_t)i);
        status = checks[i].run(&h);
        areas_free(&h);
        if (status != LS_OK) return ls_fail_at(status, "check %s: ", checks[i].name);
    }
    return report(&h);
}

static ls_status parse_int(const char *text, const char *name, int *out) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || value < 0 || value > 1000000)
        return ls_fail(LS_ERR_INPUT, "%s wants a number from 0 to 1000000, not '%s'", name, text);
    *out = (int)value;
    return LS_OK;
}

static ls_status parse(int argc, char **argv, arguments *args) {
    static const char *const kinds[BUFFERS_COUNT] = {"shared", "private", "mixed"};
    int seed = 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--list") == 0) {
            args->list = true;
            continue;
        }
        if (strcmp(name, "--reference") == 0) {
            args->reference = true;
            continue;
        }
        if (strcmp(name, "--some") == 0) {
            args->some = true;
            continue;
        }
        i++;
        if (strcmp(name, "--workers") == 0) {
            LS_TRY(parse_int(value, name, &args->workers.workers));
        } else if (strcmp(name, "--node-size") == 0) {
            LS_TRY(parse_int(value, name, &args->workers.node_size));
        } else if (strcmp(name, "--slow-link-us") == 0) {
            int latency_us = 0;
            LS_TRY(parse_int(value, name, &latency_us));
            args->workers.link_latency_s = 1e-6 * latency_us;
            args->workers.link_bytes_per_s = 2e9;
        } else if (strcmp(name, "--seed") == 0) {
            LS_TRY(parse_int(value, name, &seed));
        } else if (strcmp(name, "--only") == 0) {
            args->only = value;
        } else if (strcmp(name, "--buffers") == 0) {
            args->buffers = -1;
            for (int k = 0; k < BUFFERS_COUNT; k++) {
                if (strcmp(value, kinds[k]) == 0) args->buffers = k;
            }
            if (args->buffers < 0)
                return ls_fail(LS_ERR_INPUT, "--buffers wants shared, private or mixed, not '%s'", value);
        } else {
            return ls_fail(LS_ERR_INPUT, "unknown option '%s'", name);
        }
    }
    args->seed = ref_mix((uint64_t)seed);
    if (args->only == NULL) return LS_OK;
    for (int i = 0; i < CHECKS; i++) {
        if (strcmp(args->only, checks[i].name) == 0) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "no check is called '%s'; see --list", args->only);
}

static void print_message(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv) {
    ls_message_handler_set(print_message, NULL);
    arguments args = {.buffers = -1, .workers.timeout_s = 60, .workers.threads = 1};
    ls_status status = parse(argc, argv, &args);
    if (status == LS_OK && args.list) {
        for (int i = 0; i < CHECKS; i++) puts(checks[i].name);
        return 0;
    }
    if (status == LS_OK && args.reference) {
        for (int i = 0; i < 2; i++)
            printf("reference G=%d %016" PRIx64 "\n", bits_groups[i], bits_reference(args.seed, bits_groups[i]));
        return 0;
    }
    if (status == LS_OK) status = ls_workers_run(&args.workers, worker, &args);
    if (status != LS_OK && status != LS_ERR_PEER) fprintf(stderr, "error: %s\n", ls_status_message());
    return ls_status_exit_code(status);
}
