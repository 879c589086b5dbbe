/* usage.c: how the workers spent their time, in the mean over all steps. */
#include <math.h>
#include <stdlib.h>

#include "observe/diagnose/parts.h"

/* ---- means ------------------------------------------------------------------------------------------------------- */

static bool has_mesh(const ls_run_log *run, int workers) {
    return run->dp * run->tp * run->pp == workers && run->dp > 0;
}

double ls_usage_groups(const ls_run_log *run, int rank, int workers) {
    if (!has_mesh(run, workers)) return 1;
    int share = run->share[rank / run->tp % run->dp];
    return share > 0 ? share : 1;
}

int ls_usage_stage(const ls_run_log *run, int rank, int workers) {
    return has_mesh(run, workers) ? rank / (run->tp * run->dp) : 0;
}

static void add_step(const ls_run_log *run, const ls_run_log_usage *u, ls_usage *out, size_t *waits) {
    const float *busy = ls_run_log_busy(run, u), *wait = ls_run_log_wait(run, u);
    int longest = 0;
    for (int w = 0; w < u->workers; w++) {
        out->worker[w].busy_ms += isnan(busy[w]) ? 0 : (double)busy[w];
        out->worker[w].wait_ms += isnan(wait[w]) ? 0 : (double)wait[w];
        *waits += !isnan(wait[w]);
        if (busy[w] > busy[longest]) longest = w;
    }
    out->worker[longest].slowest++;
}

static void finish(ls_usage *out, bool has_wait) {
    double busy = 0, all = 0;
    for (int w = 0; w < out->workers; w++) {
        ls_usage_worker *one = &out->worker[w];
        one->busy_ms /= (double)out->steps;
        one->wait_ms = has_wait ? one->wait_ms / (double)out->steps : (double)NAN;
        one->busy = one->busy_ms / (one->busy_ms + one->wait_ms);
        busy += one->busy_ms;
        all += one->busy_ms + one->wait_ms;
        if (one->busy_ms > out->worker[out->slowest].busy_ms) out->slowest = w;
    }
    out->busy = busy / all;
    out->waited_ms = 0;
    for (int w = 0; w < out->workers; w++)
        if (w != out->slowest) out->waited_ms += out->worker[w].wait_ms * (double)out->steps;
}

/* By the means: what a worker computes for a group, against the median of its peers. */
static void compare_means(const ls_run_log *run, ls_usage *out) {
    double peer[LS_WORKERS_MAX];
    for (int w = 0; w < out->workers; w++) {
        size_t n = 0;
        for (int p = 0; p < out->workers; p++)
            if (p != w && ls_usage_stage(run, p, out->workers) == ls_usage_stage(run, w, out->workers))
                peer[n++] = out->worker[p].busy_ms / ls_usage_groups(run, p, out->workers);
        out->worker[w].relative = out->worker[w].busy_ms / ls_usage_groups(run, w, out->workers) / ls_median(peer, n);
    }
}

/* The first step warms up caches and pages: it is left out where there are others. */
bool ls_usage_counts(const ls_run_log *run, size_t i) { return i > 0 || run->usage_count < 3 || run->usage_of_trace; }

ls_status ls_usage_measure(const ls_run_log *run, ls_usage *out) {
    size_t waits = 0;
    int workers = run->usage_count > 0 ? run->usage[run->usage_count - 1].workers : 0;
    *out = (ls_usage){.of_trace = run->usage_of_trace, .waited_ms = (double)NAN, .busy = (double)NAN};
    if (workers < 2) return LS_OK;
    out->worker = calloc((size_t)workers, sizeof *out->worker);
    if (!out->worker) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", workers);
    out->workers = workers;
    /* A run that went on with another number of workers is judged by the last. */
    for (size_t i = 0; i < run->usage_count; i++) {
        if (run->usage[i].workers != workers || !ls_usage_counts(run, i)) continue;
        add_step(run, &run->usage[i], out, &waits);
        out->steps++;
    }
    finish(out, waits > 0);
    compare_means(run, out);
    return LS_OK;
}
