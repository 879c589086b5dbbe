/* run_maker.h: metrics of runs that never were: seeded, with the noise of real ones, healthy or with one failure.
 *
 * A maker has the settings of a run; make_run() writes its lines, as train would, into one text. The figures of healthy
 * runs (scatter of the loss, norms, update ratios, shares) are those of small GPT-2 and Llama models on a book. */
#ifndef LS_TESTS_RUN_MAKER_H
#define LS_TESTS_RUN_MAKER_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { MAKER_EVENTS_MAX = 64, MAKER_WORKERS_MAX = 16 };

typedef enum failure {
    HEALTHY,
    OVERFLOW_SEED,
    UNDERFLOW_SEED,
    LOST_SEED,
    OUTLIER_SEED,
    DATA_SEED,
    LR_SEED,
    SLOW_SEED,
    FAILURES
} failure;

typedef struct maker {
    uint64_t seed, drawn;
    failure failure;
    int variant;
    /* the run */
    int64_t first, steps, warmup, every; /* every: steps between numerics; 0: none */
    int blocks, workers, pp;
    const char *precision; /* "fp32", "bf16", "fp16" */
    double start, floor, tau, power, scatter, lr, norm;
    double stage_skew;            /* how unequal pipeline stages are */
    int share[MAKER_WORKERS_MAX]; /* gradient groups; 0: as many as the others */
    int scale, start_skips, window;
    bool tells_waiting;
    /* the failure */
    int64_t when;
    int bad_worker, bad_block;
    double strength;
    /* as the run goes */
    int64_t scale_good;
    double excess; /* of the loss, that a failure left behind */
    bool stopped;
    char *text;
    size_t used, room;
} maker;

/* ---- chance ------------------------------------------------------------------------------------------------------ */

static inline double uniform(maker *m) {
    return ((double)ls_rng_u32(ls_rng_key_make(m->seed, 77, 0), m->drawn++) + 0.5) / 4294967296.0;
}
static inline double between(maker *m, double low, double high) { return low + (high - low) * uniform(m); }
static inline int64_t pick(maker *m, int64_t low, int64_t high) {
    return low + (int64_t)floor(uniform(m) * (double)(high - low + 1));
}
static inline bool chance(maker *m, double p) { return uniform(m) < p; }
static inline double gauss(maker *m) {
    double radius = sqrt(-2 * log(uniform(m)));
    return radius * cos(6.283185307179586 * uniform(m));
}
/* Now and then twice as wide: losses of batches have such tails. */
static inline double tailed(maker *m) { return gauss(m) * (chance(m, 0.03) ? 1.8 : 1); }

/* ---- text -------------------------------------------------------------------------------------------------------- */

static inline void put(maker *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void put(maker *m, const char *format, ...) {
    va_list list;
    if (m->room - m->used < 8192) {
        m->room = 2 * m->room + (1 << 16);
        m->text = realloc(m->text, m->room);
        if (!m->text) abort();
    }
    va_start(list, format);
    m->used += (size_t)vsnprintf(m->text + m->used, m->room - m->used, format, list);
    va_end(list);
}

/* Numbers as observe/metrics.c writes them. */
static inline void put_number(maker *m, const char *key, double x) {
    if (isfinite(x))
        put(m, ",\"%s\":%.9g", key, x);
    else
        put(m, ",\"%s\":\"%s\"", key, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

/* ---- a healthy step ---------------------------------------------------------------------------------------------- */

static inline double rate(const maker *m, int64_t step) {
    if (step <= m->warmup) return m->lr * (double)step / (double)(m->warmup > 0 ? m->warmup : 1);
    double x = (double)(step - m->warmup) / (double)(m->first + m->steps - m->warmup);
    return m->lr * (0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979 * (x < 1 ? x : 1))));
}

static inline double healthy_loss(const maker *m, int64_t step) {
    double warm = m->warmup > 0 ? (double)step / (double)m->warmup : 1, t = (double)step * (warm < 1 ? warm : 1);
    return m->floor + (m->start - m->floor) * pow(1 + t / m->tau, -m->power);
}

static inline double healthy_norm(maker *m, int64_t step) {
    double early = 1 + 4 * exp(-(double)step / 15);
    return m->norm * early * exp(0.22 * gauss(m)) * (chance(m, 0.01) ? between(m, 1.5, 3) : 1);
}

static inline void block_name(const maker *m, int b, char name[32]) {
    if (b == 0 || b == m->blocks - 1)
        snprintf(name, 32, "%s", b == 0 ? "embedding" : "head");
    else
        snprintf(name, 32, "blocks.%d", b - 1);
}

typedef struct shares {
    double flushed, high, lost, ratio, grad;
} shares;

static inline shares healthy_shares(maker *m, int64_t step, int b) {
    bool end = b == 0 || b == m->blocks - 1, fp16 = strcmp(m->precision, "fp16") == 0;
    double early = step < 20 ? 2 : 1;
    return (shares){
        .flushed = fp16 ? (end ? between(m, 0.01, 0.25) : between(m, 0.0005, 0.03)) : between(m, 0, 1e-6),
        .high = fp16 ? exp(gauss(m) - 11) : 0,
        .lost = between(m, 0, 0.01),
        .ratio = (end ? 4 : 1) * early * 10 * rate(m, step) * exp(0.2 * gauss(m)) * 0.35,
        .grad = m->norm * exp(0.3 * gauss(m)) / sqrt((double)m->blocks),
    };
}

#endif
