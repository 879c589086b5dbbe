/* timer.c: warm-up, then samples. bench/comm_openmpi.c and bench/gemm_openblas.c do the same, so that times compare:
 * change all or none. */
#include "lab/timer.h"

#include "base/clock.h"

enum { REPEATS_MAX = 20000 };

/* Measures `repeats` calls in a row; *seconds is that of one. */
static ls_status time_batch(const ls_timer *t, ls_timer_call call, void *ctx, int repeats, double *seconds) {
    if (t->comm) LS_TRY(ls_comm_barrier(t->comm));
    double start = ls_clock_seconds();
    for (int i = 0; i < repeats; i++) LS_TRY(call(ctx));
    *seconds = (ls_clock_seconds() - start) / repeats;
    return LS_OK;
}

/* Makes calls until a batch is long enough; *once is the seconds of one call, by worker 0's clock. */
static ls_status warm_up(const ls_timer *t, ls_timer_call call, void *ctx, double *once) {
    for (int repeats = 1; repeats <= REPEATS_MAX; repeats *= 4) {
        LS_TRY(time_batch(t, call, ctx, repeats, once));
        if (t->comm) LS_TRY(ls_comm_broadcast(t->comm, 0, once, sizeof *once));
        if (*once * repeats >= t->sample_s / 5) break;
    }
    if (*once < 1e-9) *once = 1e-9;
    return LS_OK;
}

ls_status ls_timer_run(const ls_timer *t, ls_timer_call call, void *ctx, ls_timing *out) {
    double once = 0;
    LS_TRY(warm_up(t, call, ctx, &once));
    double calls = t->sample_s / once;
    int repeats = calls < 1 ? 1 : calls > REPEATS_MAX ? REPEATS_MAX : (int)calls;
    double fit = t->total_s / (once * repeats);
    out->samples = fit < t->samples_min ? t->samples_min : fit > t->samples_max ? t->samples_max : (int)fit;
    if (t->comm) LS_TRY(ls_comm_broadcast(t->comm, 0, &out->samples, sizeof out->samples));
    for (int i = 0; i < out->samples; i++) LS_TRY(time_batch(t, call, ctx, repeats, &out->seconds[i]));
    return LS_OK;
}
