/* diagnose_usage.c: how the workers spent their time, and whether one of them held up the others.
 *
 * Workers are compared with those that do the same work: the same stage, per gradient group. Where a stage has one
 * worker only, stages are compared with each other; they are never quite equal, so a slow one has to be slower to be
 * named. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose_parts.h"

static const double SLOW = 1.3, SLOW_STAGE = 1.6; /* times its peers */
static const double WAITING = 0.08;               /* of the time of all workers, that waiting must cost */
enum { LEAST_STEPS = 5, MISS = 2 };               /* MISS: what a step that was not slow takes back */

/* ---- means ------------------------------------------------------------------------------------------------------- */

static bool has_mesh(const ls_run *run, int workers) { return run->dp * run->tp * run->pp == workers && run->dp > 0; }

/* Gradient groups of the worker; 1 where that is not known. */
static double groups_of(const ls_run *run, int rank, int workers) {
    if (!has_mesh(run, workers)) return 1;
    int share = run->share[rank / run->tp % run->dp];
    return share > 0 ? share : 1;
}

static int stage_of(const ls_run *run, int rank, int workers) {
    return has_mesh(run, workers) ? rank / (run->tp * run->dp) : 0;
}

static void add_step(const ls_run *run, const ls_run_usage *u, ls_usage *out, size_t *waits) {
    const float *busy = ls_run_busy(run, u), *wait = ls_run_wait(run, u);
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
static void compare_means(const ls_run *run, ls_usage *out) {
    double peer[LS_WORKERS_MAX];
    for (int w = 0; w < out->workers; w++) {
        size_t n = 0;
        for (int p = 0; p < out->workers; p++)
            if (p != w && stage_of(run, p, out->workers) == stage_of(run, w, out->workers))
                peer[n++] = out->worker[p].busy_ms / groups_of(run, p, out->workers);
        out->worker[w].relative = out->worker[w].busy_ms / groups_of(run, w, out->workers) / ls_median(peer, n);
    }
}

/* The first step warms up caches and pages: it is left out where there are others. */
static bool counts(const ls_run *run, size_t i) { return i > 0 || run->usage_count < 3 || run->usage_of_trace; }

static ls_status measure(const ls_run *run, ls_usage *out) {
    size_t waits = 0;
    int workers = run->usage_count > 0 ? run->usage[run->usage_count - 1].workers : 0;
    *out = (ls_usage){.of_trace = run->usage_of_trace, .waited_ms = (double)NAN, .busy = (double)NAN};
    if (workers < 2) return LS_OK;
    out->worker = calloc((size_t)workers, sizeof *out->worker);
    if (!out->worker) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", workers);
    out->workers = workers;
    /* A run that went on with another number of workers is judged by the last. */
    for (size_t i = 0; i < run->usage_count; i++) {
        if (run->usage[i].workers != workers || !counts(run, i)) continue;
        add_step(run, &run->usage[i], out, &waits);
        out->steps++;
    }
    finish(out, waits > 0);
    compare_means(run, out);
    return LS_OK;
}

/* ---- a slow worker ----------------------------------------------------------------------------------------------- */

/* Its computing per group against the median of its peers in one step; NaN: there is nothing to compare with. */
static double relative(const ls_run *run, const ls_run_usage *u, int rank, bool *alone) {
    const float *busy = ls_run_busy(run, u);
    double peer[LS_WORKERS_MAX], all[LS_WORKERS_MAX];
    size_t peers = 0, others = 0;
    for (int w = 0; w < u->workers; w++) {
        double x = (double)busy[w] / groups_of(run, w, u->workers);
        if (w == rank || !(x > 0)) continue;
        all[others++] = x;
        if (stage_of(run, w, u->workers) == stage_of(run, rank, u->workers)) peer[peers++] = x;
    }
    *alone = peers == 0;
    double x = (double)busy[rank] / groups_of(run, rank, u->workers);
    return x / (peers > 0 ? ls_median(peer, peers) : ls_median(all, others));
}

typedef struct slowness {
    size_t first, last, steps, slow; /* the stretch in which it was slow; steps of it, and slow ones among them */
    double typical;                  /* median of the slow steps, relative to peers */
    bool alone;
} slowness;

/* The stretch with the largest sum, where a slow step counts 1 and another −MISS. */
static slowness find_slow(const ls_run *run, int rank, int workers, double *value) {
    slowness best = {0};
    int64_t sum = 0, top = 0;
    size_t from = 0, steps = 0, slow = 0;
    for (size_t i = 0; i < run->usage_count; i++) {
        bool alone;
        if (run->usage[i].workers != workers || !counts(run, i)) continue;
        double r = relative(run, &run->usage[i], rank, &alone);
        bool is_slow = r >= (alone ? SLOW_STAGE : SLOW);
        if (sum <= 0) {
            sum = 0;
            from = i;
            steps = slow = 0;
        }
        sum += is_slow ? 1 : -MISS;
        steps++;
        slow += is_slow;
        if (sum <= top) continue;
        top = sum;
        best = (slowness){.first = from, .last = i, .steps = steps, .slow = slow, .alone = alone};
    }
    size_t n = 0;
    for (size_t i = best.first; best.slow > 0 && i <= best.last; i++) {
        bool alone;
        if (run->usage[i].workers != workers || !counts(run, i)) continue;
        double r = relative(run, &run->usage[i], rank, &alone);
        if (isfinite(r)) value[n++] = r;
    }
    best.typical = ls_median(value, n);
    return best;
}

/* What the others waited in the stretch, as a share of all time, and in all. */
static double waited_share(const ls_run *run, const slowness *s, int rank, int workers, double *waited_ms) {
    double all = 0;
    *waited_ms = 0;
    for (size_t i = s->first; i <= s->last; i++) {
        const ls_run_usage *u = &run->usage[i];
        if (u->workers != workers || !counts(run, i)) continue;
        const float *busy = ls_run_busy(run, u), *wait = ls_run_wait(run, u);
        double longest = 0;
        for (int w = 0; w < workers; w++)
            if ((double)busy[w] > longest) longest = (double)busy[w];
        for (int w = 0; w < workers; w++) {
            /* Without figures for waiting: whoever is done waits for the one that is not. */
            double wait_ms = isnan(wait[w]) ? longest - (double)busy[w] : (double)wait[w];
            if (w != rank && wait_ms > 0) *waited_ms += wait_ms;
            all += (double)busy[w] + (wait_ms > 0 ? wait_ms : 0);
        }
    }
    return all > 0 ? *waited_ms / all : 0;
}

static void advise(const ls_case *c, ls_finding *f, const slowness *s) {
    if (s->alone)
        ls_finding_action(f,
                          "another division of the blocks with --stages (see layout.json for the present one), or a "
                          "look at what else "
                          "runs on the machine of worker %d",
                          f->worker);
    else if (c->run->dp > 1)
        ls_finding_action(f,
                          "look at what else runs on the machine of worker %d (frequency, other jobs, --pin); if it "
                          "stays slow, --shares auto "
                          "gives its row fewer groups without changing a result",
                          f->worker);
    else
        ls_finding_action(f, "look at what else runs on the machine of worker %d (frequency, other jobs, --pin)",
                          f->worker);
}

static void add_slow(ls_case *c, int rank, const slowness *s, double share, double waited_ms) {
    const ls_run *run = c->run;
    const ls_usage *usage = &c->out->usage;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_SLOW_WORKER, run->usage[s->first].step);
    f->last_step = run->usage[s->last].step;
    f->worker = rank;
    f->size = s->typical;
    ls_finding_title(f, "worker %d is slow: it computes %.2f times as long as %s", rank, s->typical,
                     s->alone ? "the other stages" : "its peers");
    ls_finding_evidence(f, "in %zu of %zu steps from step %lld to %lld", s->slow, s->steps, (long long)f->step,
                        (long long)f->last_step);
    ls_finding_evidence(f, "the others waited %.1f s in these steps, %.0f %% of all workers' time", waited_ms / 1e3,
                        100 * share);
    ls_finding_evidence(f, "mean of a step: worker %d computes %.1f ms, the mean of all is %.1f ms", rank,
                        usage->worker[rank].busy_ms,
                        usage->busy * (usage->worker[rank].busy_ms + usage->worker[rank].wait_ms));
    advise(c, f, s);
}

ls_status ls_diagnose_usage(ls_case *c) {
    const ls_run *run = c->run;
    ls_usage *usage = &c->out->usage;
    LS_TRY(measure(run, usage));
    if (usage->workers < 2) return LS_OK;
    double *value = calloc(run->usage_count, sizeof *value);
    if (!value) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu steps", run->usage_count);
    slowness worst = {0};
    int slowest = LS_RUN_NONE;
    for (int w = 0; w < usage->workers; w++) {
        slowness s = find_slow(run, w, usage->workers, value);
        if (s.slow > worst.slow) {
            worst = s;
            slowest = w;
        }
    }
    free(value);
    size_t least = usage->steps / 10 > LEAST_STEPS ? usage->steps / 10 : LEAST_STEPS;
    if (slowest == LS_RUN_NONE || worst.slow < least) return LS_OK;
    double waited_ms, share = waited_share(run, &worst, slowest, usage->workers, &waited_ms);
    if (share >= WAITING) add_slow(c, slowest, &worst, share, waited_ms);
    return LS_OK;
}
