/* plan.c: which operations and sizes `lockstep bench comm` measures, and the small sums around them. */
#include "cli/bench/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const char *const op_names[LS_BENCH_OP_COUNT] = {
    [LS_BENCH_ALL_REDUCE] = "allreduce",
    [LS_BENCH_REDUCE_SCATTER] = "reducescatter",
    [LS_BENCH_ALL_GATHER] = "allgather",
    [LS_BENCH_SEND_RECV] = "sendrecv",
};

static const size_t all_sizes[LS_BENCH_SIZES_MAX] = {
    4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB,
};

const char *ls_bench_op_name(ls_bench_op op) { return op_names[op]; }

ls_bench_op ls_bench_op_find(const char *name, size_t chars) {
    for (int op = 0; op < LS_BENCH_OP_COUNT; op++)
        if (strlen(op_names[op]) == chars && memcmp(op_names[op], name, chars) == 0) return (ls_bench_op)op;
    return LS_BENCH_OP_COUNT;
}

bool ls_bench_plan_has(const ls_bench_plan *plan, ls_bench_op op) {
    return plan->has_op[op] && (op != LS_BENCH_SEND_RECV || plan->workers > 1);
}

ls_status ls_bench_plan_ops(ls_bench_plan *plan, const char *list) {
    bool all = list == NULL || list[0] == '\0' || strcmp(list, "all") == 0;
    for (int op = 0; op < LS_BENCH_OP_COUNT; op++) plan->has_op[op] = all;
    if (all) return LS_OK;
    for (const char *name = list;; name++) {
        size_t chars = strcspn(name, ",");
        ls_bench_op op = ls_bench_op_find(name, chars);
        if (op == LS_BENCH_OP_COUNT)
            return ls_fail(LS_ERR_INPUT,
                           "'%.*s' is not a collective; choose from allreduce, reducescatter, allgather and sendrecv",
                           (int)chars, name);
        plan->has_op[op] = true;
        name += chars;
        if (*name == '\0') return LS_OK;
    }
}

ls_status ls_bench_plan_sizes(ls_bench_plan *plan, size_t min_bytes, size_t max_bytes) {
    plan->size_count = 0;
    for (int i = 0; i < LS_BENCH_SIZES_MAX; i++)
        if (all_sizes[i] >= min_bytes && all_sizes[i] <= max_bytes) plan->size_bytes[plan->size_count++] = all_sizes[i];
    if (plan->size_count > 0) return LS_OK;
    char min[24], max[24];
    ls_bench_size_text(min_bytes, min);
    ls_bench_size_text(max_bytes, max);
    return ls_fail(LS_ERR_INPUT,
                   "no size between --min-size %s and --max-size %s; available sizes are 4KiB, 16KiB, 64KiB, 256KiB, "
                   "1MiB, 4MiB, 16MiB, 64MiB, 128MiB and 256MiB",
                   min, max);
}

/* Each worker makes its shard (size/W) from the W inputs: it reads `size` bytes. An all-reduce writes the shard to all
 * W outputs. An all-gather reads and writes the whole vector on each worker. */
double ls_bench_traffic_bytes(ls_bench_op op, int workers, size_t size_bytes) {
    double size = (double)size_bytes;
    switch (op) {
    case LS_BENCH_ALL_REDUCE:
    case LS_BENCH_ALL_GATHER: return 2 * workers * size;
    case LS_BENCH_REDUCE_SCATTER: return (workers + 1) * size;
    default: return 0;
    }
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ls_bench_median(double *values, int count) {
    if (count == 0) return 0;
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void ls_bench_size_text(size_t bytes, char text[24]) {
    if (bytes >= MIB && bytes % MIB == 0)
        snprintf(text, 24, "%zuMiB", bytes / MIB);
    else if (bytes >= KIB && bytes % KIB == 0)
        snprintf(text, 24, "%zuKiB", bytes / KIB);
    else
        snprintf(text, 24, "%zuB", bytes);
}

void ls_bench_rounds_median(const ls_bench_round *rounds, int count, ls_bench_round *out) {
    double values[LS_BENCH_ROUNDS_MAX];
    *out = rounds[0];
    for (int op = 0; op < LS_BENCH_OP_COUNT; op++) {
        for (int s = 0; s < LS_BENCH_SIZES_MAX; s++) {
            for (int r = 0; r < count; r++) values[r] = rounds[r].time_us[op][s];
            out->time_us[op][s] = ls_bench_median(values, count);
        }
    }
    for (int r = 0; r < count; r++) values[r] = rounds[r].copy_bytes_per_s;
    out->copy_bytes_per_s = ls_bench_median(values, count);
}
