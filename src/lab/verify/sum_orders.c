/* sum_orders.c: adds gradients in other orders, and compares the results. */
#include "lab/verify/sum_orders.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "numerics/float16.h"

enum { PURPOSE_ARRIVAL = 0x0A44, RUNS = 2, WORKERS_MAX = 8 };

/* ---- ways -------------------------------------------------------------------------------------------------------- */

static const char *const names[LS_ORDER_KINDS] = {[LS_ORDER_RING] = "ring",
                                                  [LS_ORDER_ARRIVAL] = "arrival",
                                                  [LS_ORDER_RING16] = "ring, bf16",
                                                  [LS_ORDER_LOCKSTEP] = "lockstep"};

const char *ls_order_kind_name(ls_order_kind kind) { return names[kind]; }

void ls_order_way_text(const ls_order_way *way, char *text, size_t bytes) {
    if (way->kind == LS_ORDER_ARRIVAL)
        snprintf(text, bytes, "arrival, run %d", way->run);
    else
        snprintf(text, bytes, "%s, %d worker%s", ls_order_kind_name(way->kind), way->workers,
                 way->workers == 1 ? "" : "s");
}

/* Appends the ways with 1, 2, 4 and 8 workers, at most one for each group, the first of which is the base of all;
 * returns the new count. */
static int add_counts(ls_order_kind kind, int groups, ls_order_way *ways, int count) {
    int base = count;
    for (int workers = 1; workers <= WORKERS_MAX && workers <= groups; workers *= 2)
        ways[count++] = (ls_order_way){.kind = kind, .workers = workers, .base = base};
    return count;
}

int ls_order_ways(int groups, ls_order_way ways[LS_ORDER_WAYS_MAX]) {
    int count = add_counts(LS_ORDER_RING, groups, ways, 0);
    int first = count;
    for (int run = 1; run <= RUNS; run++, count++)
        ways[count] = (ls_order_way){
            .kind = LS_ORDER_ARRIVAL, .workers = groups, .run = run, .base = run == 1 ? 0 /* ring of one */ : first};
    count = add_counts(LS_ORDER_RING16, groups, ways, count);
    return add_counts(LS_ORDER_LOCKSTEP, groups, ways, count);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Returns the first group of worker w. */
static int first_group(int groups, int workers, int w) { return (int)((int64_t)groups * w / workers); }

/* Returns the first element of chunk c. */
static size_t chunk_begin(size_t elems, int workers, int c) {
    size_t n = (size_t)workers, i = (size_t)c;
    return elems / n * i + elems % n * i / n;
}

/* Returns the sum of one element over the groups of worker w. */
static float own_sum(const float *const *grads, int groups, int workers, int w, size_t at) {
    int end = first_group(groups, workers, w + 1), g = first_group(groups, workers, w);
    float sum = grads[g][at];
    for (g++; g < end; g++) sum += grads[g][at];
    return sum;
}

/* Returns the value rounded to bf16. */
static float round16(float value) { return ls_bf16_to_f32(ls_bf16_from_f32(value)); }

void ls_order_ring(const float *const *grads, int groups, int workers, float *out, size_t elems) {
    for (int c = 0; c < workers; c++)
        for (size_t at = chunk_begin(elems, workers, c); at < chunk_begin(elems, workers, c + 1); at++) {
            float sum = own_sum(grads, groups, workers, (c + 1) % workers, at);
            for (int hop = 2; hop <= workers; hop++) sum += own_sum(grads, groups, workers, (c + hop) % workers, at);
            out[at] = sum;
        }
}

void ls_order_ring16(const float *const *grads, int groups, int workers, float *out, size_t elems) {
    for (int c = 0; c < workers; c++)
        for (size_t at = chunk_begin(elems, workers, c); at < chunk_begin(elems, workers, c + 1); at++) {
            float sum = round16(own_sum(grads, groups, workers, (c + 1) % workers, at));
            for (int hop = 2; hop <= workers; hop++)
                sum = round16(sum + round16(own_sum(grads, groups, workers, (c + hop) % workers, at)));
            out[at] = sum;
        }
}

void ls_order_in_turn(const float *const *grads, const int *turn, int groups, float *out, size_t elems) {
    memcpy(out, grads[turn[0]], elems * sizeof *out);
    for (int i = 1; i < groups; i++)
        for (size_t at = 0; at < elems; at++) out[at] += grads[turn[i]][at];
}

void ls_order_arrival(uint64_t seed, int run, uint64_t step, int groups, int *turn) {
    ls_rng_key key = ls_rng_key_make(seed, PURPOSE_ARRIVAL + (uint32_t)run, step);
    for (int i = 0; i < groups; i++) turn[i] = i;
    for (int i = groups - 1; i > 0; i--) {
        int other = (int)ls_rng_below(key, (uint64_t)i, (uint64_t)i + 1), last = turn[i];
        turn[i] = turn[other];
        turn[other] = last;
    }
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

ls_order_difference ls_order_compare(const float *a, const float *b, size_t elems) {
    ls_order_difference d = {.elems = elems};
    for (size_t i = 0; i < elems; i++) {
        if (ls_f32_bits(a[i]) == ls_f32_bits(b[i]) || (isnan(a[i]) && isnan(b[i]))) continue;
        double x = (double)a[i], y = (double)b[i], far = fabs(x - y);
        d.changed++;
        if (!isfinite(x) || !isfinite(y)) far = (double)INFINITY;
        if (far > d.absolute) d.absolute = far;
        if (far == 0) continue; /* zeros of two signs */
        double larger = fabs(x) > fabs(y) ? fabs(x) : fabs(y);
        double relative = isinf(far) ? far : far / larger;
        if (relative > d.relative) d.relative = relative;
    }
    return d;
}

int64_t ls_order_first_bits(const double *a, const double *b, int64_t steps) {
    for (int64_t s = 0; s < steps; s++)
        if (memcmp(&a[s], &b[s], sizeof a[s]) != 0 && !(isnan(a[s]) && isnan(b[s]))) return s + 1;
    return 0;
}

int64_t ls_order_first_seen(const double *a, const double *b, int64_t steps) {
    for (int64_t s = 0; s < steps; s++) {
        char one[32], other[32];
        snprintf(one, sizeof one, "%.4f", isnan(a[s]) ? (double)NAN : a[s]);
        snprintf(other, sizeof other, "%.4f", isnan(b[s]) ? (double)NAN : b[s]);
        if (strcmp(one, other) != 0) return s + 1;
    }
    return 0;
}
