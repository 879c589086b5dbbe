/* slow.c: whether one worker held up the others.
 *
 * In every step a worker is compared with those that do the same work: the same stage, per gradient group. Where a
 * stage has one worker only, stages are compared with each other; they are never quite equal, so a slow one has to be
 * slower to be named. A single step says nothing: what counts is a stretch of steps in which most are slow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "observe/diagnose/rules.h"

/* ---- means ------------------------------------------------------------------------------------------------------- */

/* Returns whether the layout is known and has this number of workers. */
static bool has_mesh(const ls_run_log *run, int workers) {
    return run->dp * run->tp * run->pp == workers && run->dp > 0;
}

/* Returns the number of gradient groups (fixed parts of the global batch) that a worker computes; 1 if unknown. */
static double groups_of(const ls_run_log *run, int rank, int workers) {
    if (!has_mesh(run, workers)) return 1;
    int share = run->share[rank / run->tp % run->dp];
    return share > 0 ? share : 1;
}

/* Returns the pipeline stage of a worker; 0 if the mesh is unknown. */
static int stage_of(const ls_run_log *run, int rank, int workers) {
    return has_mesh(run, workers) ? rank / (run->tp * run->dp) : 0;
}

/* Adds a step to the sums of every worker; *waits counts the waiting times that were recorded. */
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

/* Turns the sums into means of a step and shares. Without recorded waits, `wait_ms` and `busy` become NaN. */
static void finish_usage(ls_usage *out, bool has_wait) {
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

/* Compares the mean compute time per gradient group of each worker with the median of its stage. */
static void compare_means(const ls_run_log *run, ls_usage *out) {
    double peer[LS_WORKERS_MAX];
    for (int w = 0; w < out->workers; w++) {
        size_t n = 0;
        for (int p = 0; p < out->workers; p++)
            if (p != w && stage_of(run, p, out->workers) == stage_of(run, w, out->workers))
                peer[n++] = out->worker[p].busy_ms / groups_of(run, p, out->workers);
        out->worker[w].relative = out->worker[w].busy_ms / groups_of(run, w, out->workers) / ls_median(peer, n);
    }
}

/* Returns whether usage record i counts. The first one, which warms up caches and pages, does not if there are
 * others. */
static bool counts_in_means(const ls_run_log *run, size_t i) {
    return i > 0 || run->usage_count < 3 || run->usage_of_trace;
}

/* Fills *out from the usage records; out->workers stays 0 for a single worker, or without records. */
static ls_status measure_usage(const ls_run_log *run, ls_usage *out) {
    size_t waits = 0;
    int workers = run->usage_count > 0 ? run->usage[run->usage_count - 1].workers : 0;
    *out = (ls_usage){.of_trace = run->usage_of_trace, .waited_ms = (double)NAN, .busy = (double)NAN};
    if (workers < 2) return LS_OK;
    out->worker = calloc((size_t)workers, sizeof *out->worker);
    if (!out->worker) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", workers);
    out->workers = workers;
    /* A run that went on with another number of workers is judged by the last. */
    for (size_t i = 0; i < run->usage_count; i++) {
        if (run->usage[i].workers != workers || !counts_in_means(run, i)) continue;
        add_step(run, &run->usage[i], out, &waits);
        out->steps++;
    }
    finish_usage(out, waits > 0);
    compare_means(run, out);
    return LS_OK;
}

static const double SLOW = 1.3, SLOW_STAGE = 1.6; /* times its peers */
static const double TWICE = 2, SHORT_MS = 1e3;    /* what lasts less than that must be so many times as slow: below */
static const double INSTANT_MS = 100;             /* what lasts less than that is chance, however slow */
static const double WAITING = 0.08;               /* of the time of all workers, that waiting must cost */
static const double QUEUING = 0.05;               /* of the time of each worker, from which on cores are shared */
enum { LEAST_STEPS = 5, MISS = 2 };               /* MISS: what a step that was not slow takes back */

/* A stretch of steps in which a worker was mostly slow: the one with the largest sum, where a slow step counts 1 and
 * another -MISS. */
typedef struct slowness {
    size_t first, last, steps, slow; /* usage records; steps among them, and slow ones of these */
    long long sum;
    bool alone; /* no other worker is on its stage, so it was compared with all workers */
} slowness;

/* State of the comparison of workers, step by step. */
typedef struct watch {
    const ls_run_log *run;
    int workers;
    bool shared; /* others use the cores as well: all_workers_queue() */
    slowness now[LS_WORKERS_MAX], best[LS_WORKERS_MAX];
    double cost[LS_WORKERS_MAX];       /* by worker: computing per group in this step; 0: not known */
    double sorted[2 * LS_WORKERS_MAX]; /* those of a stage, or of all */
    double *value;                     /* of the steps of one worker */
} watch;

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Copies the known costs of a stage (-1: of all workers) to `out`, sorted; returns how many. */
static size_t collect_costs(const watch *w, int stage, double *out) {
    size_t n = 0;
    for (int r = 0; r < w->workers; r++)
        if (w->cost[r] > 0 && (stage < 0 || stage_of(w->run, r, w->workers) == stage)) out[n++] = w->cost[r];
    (void)ls_median(out, n); /* sorts */
    return n;
}

/* Returns the median of n ≥ 2 sorted values, leaving out one that equals x. */
static double median_without(const double *sorted, size_t n, double x) {
    size_t at = 0;
    while (at + 1 < n && sorted[at] < x) at++;
    size_t low = (n - 2) / 2, high = (n - 1) / 2;
    return 0.5 * sorted[low + (low >= at)] + 0.5 * sorted[high + (high >= at)];
}

/* Extends the current stretch of a worker by usage record i, or begins a new one; `best` keeps the one with the
 * largest sum. */
static void count_slow_step(slowness *now, slowness *best, size_t i, bool slow, bool alone) {
    if (now->sum <= 0) *now = (slowness){.first = i};
    now->last = i;
    now->steps++;
    now->slow += slow;
    now->sum += slow ? 1 : -MISS;
    now->alone = alone;
    if (now->sum > best->sum) *best = *now;
}

/* Returns how many ms of a worker's busy time it waited for a core; 0 if unknown. */
static double queued_ms_while_busy(const ls_run_log *run, const ls_run_log_usage *u, int r) {
    double busy = (double)ls_run_log_busy(run, u)[r], cpu = (double)ls_run_log_times(run, u, LS_USAGE_CPU)[r];
    double queued = (double)ls_run_log_times(run, u, LS_USAGE_QUEUED)[r];
    if (!(queued > 0) || !(cpu >= 0) || !(busy > cpu)) return 0;
    return queued < busy - cpu ? queued : busy - cpu;
}

/* Returns whether all workers wait for cores, each for at least the share QUEUING of its time: then other processes use
 * the machine, and delays are random. A worker that waits alone is on a busy machine or core. */
static bool all_workers_queue(const watch *w) {
    double least = (double)INFINITY;
    for (int r = 0; r < w->workers; r++) {
        double queued = 0, all = 0;
        for (size_t i = 0; i < w->run->usage_count; i++) {
            const ls_run_log_usage *u = &w->run->usage[i];
            if (u->workers != w->workers || !counts_in_means(w->run, i)) continue;
            double busy = (double)ls_run_log_busy(w->run, u)[r], wait = (double)ls_run_log_wait(w->run, u)[r];
            double in_line = (double)ls_run_log_times(w->run, u, LS_USAGE_QUEUED)[r];
            if (in_line > 0) queued += in_line;
            if (busy + wait > 0) all += busy + wait;
        }
        if (!(queued >= least * all)) least = all > 0 ? queued / all : 0;
    }
    return least >= QUEUING;
}

/* Sets each worker's cost in this step: its computing per gradient group in ms, without time in which it waited for a
 * core if other processes use the cores; 0 if unknown. */
static void read_costs(watch *w, const ls_run_log_usage *u) {
    const float *busy = ls_run_log_busy(w->run, u);
    for (int r = 0; r < w->workers; r++) {
        double computed = (double)busy[r] - (w->shared ? queued_ms_while_busy(w->run, u, r) : 0);
        double cost = computed / groups_of(w->run, r, w->workers);
        w->cost[r] = cost > 0 ? cost : 0;
    }
}

/* Compares every worker with its stage, or, if it is alone there, with all workers, and counts the step in its
 * stretch. Ranks of a stage are consecutive. */
static void judge_step(watch *w, size_t i) {
    double *all = w->sorted, *peers = w->sorted + w->workers;
    read_costs(w, &w->run->usage[i]);
    size_t all_count = collect_costs(w, -1, all), peer_count = 0;
    for (int r = 0, stage = -1; r < w->workers; r++) {
        if (stage_of(w->run, r, w->workers) != stage) {
            stage = stage_of(w->run, r, w->workers);
            peer_count = collect_costs(w, stage, peers);
        }
        bool alone = peer_count < 2;
        size_t n = alone ? all_count : peer_count;
        if (!(w->cost[r] > 0) || n < 2) continue;
        double beside = w->cost[r] / median_without(alone ? all : peers, n, w->cost[r]);
        count_slow_step(&w->now[r], &w->best[r], i, beside >= (alone ? SLOW_STAGE : SLOW), alone);
    }
}

/* ---- the stretch ------------------------------------------------------------------------------------------------- */

/* Returns the median over the stretch of the worker's cost divided by that of its peers. */
static double median_slowdown(watch *w, int rank, const slowness *s) {
    size_t n = 0;
    for (size_t i = s->first; i <= s->last; i++) {
        if (w->run->usage[i].workers != w->workers || !counts_in_means(w->run, i)) continue;
        read_costs(w, &w->run->usage[i]);
        size_t peers = collect_costs(w, s->alone ? -1 : stage_of(w->run, rank, w->workers), w->sorted);
        if (w->cost[rank] > 0 && peers > 1)
            w->value[n++] = w->cost[rank] / median_without(w->sorted, peers, w->cost[rank]);
    }
    return ls_median(w->value, n);
}

/* Returns the waiting of the other workers in the stretch as a share of all workers' time; sets *waited_ms to its
 * total. */
static double waited_share(const watch *w, const slowness *s, int rank, double *waited_ms) {
    double all = 0;
    *waited_ms = 0;
    for (size_t i = s->first; i <= s->last; i++) {
        const ls_run_log_usage *u = &w->run->usage[i];
        if (u->workers != w->workers || !counts_in_means(w->run, i)) continue;
        const float *busy = ls_run_log_busy(w->run, u), *wait = ls_run_log_wait(w->run, u);
        double longest = 0;
        for (int r = 0; r < w->workers; r++)
            if ((double)busy[r] > longest) longest = (double)busy[r];
        for (int r = 0; r < w->workers; r++) {
            /* Without figures for waiting: a worker that is done waits for the last one. */
            double wait_ms = isnan(wait[r]) ? longest - (double)busy[r] : (double)wait[r];
            if (!(wait_ms >= 0) || isnan(busy[r])) continue;
            if (r != rank) *waited_ms += wait_ms;
            all += (double)busy[r] + wait_ms;
        }
    }
    return all > 0 ? *waited_ms / all : 0;
}

/* Returns whether the stretch may be a passing disturbance: other work that takes a core, or half of it, for a second
 * is no fault of the worker. A worker slowed to less than half is slow by itself, unless the stretch is an instant. */
static bool is_passing(watch *w, const slowness *s, int rank) {
    double all = 0, steps = (double)(w->run->usage[s->last].step - w->run->usage[s->first].step + 1);
    size_t n = 0;
    for (size_t i = s->first; i <= s->last; i++) {
        const ls_run_log_usage *u = &w->run->usage[i];
        if (u->workers != w->workers || !counts_in_means(w->run, i)) continue;
        double busy = (double)ls_run_log_busy(w->run, u)[rank], wait = (double)ls_run_log_wait(w->run, u)[rank];
        all += busy > 0 ? busy : 0;
        all += wait > 0 ? wait : 0;
        n++;
    }
    double lasts_ms = n > 0 ? all / (double)n * steps : 0;
    if (n == 0 || lasts_ms >= SHORT_MS) return false;
    return lasts_ms < INSTANT_MS || median_slowdown(w, rank, s) < TWICE * (s->alone ? SLOW_STAGE / SLOW : 1);
}

/* ---- the finding ------------------------------------------------------------------------------------------------- */

/* Sets the advice: another division of blocks, other shares, or a look at the machine. */
static void advise_slow_worker(const ls_case *c, ls_finding *f, const slowness *s) {
    bool on_gpu = c->run->device.is_gpu;
    const char *where = on_gpu ? "the GPU of" : "the machine of";
    const char *what = on_gpu ? "clocks, temperature, other processes: nvidia-smi" : "frequency, other jobs, --pin";
    if (s->alone)
        LS_ACTION(f,
                  "divide the blocks differently with --stages (layout.json has the current division), or check what "
                  "else runs on %s worker %d",
                  where, f->worker);
    else if (c->run->dp > 1)
        LS_ACTION(f,
                  "check what else runs on %s worker %d (%s); if it stays slow, "
                  "--shares auto gives its replica fewer gradient groups without changing the result",
                  where, f->worker, what);
    else
        LS_ACTION(f, "check what else runs on %s worker %d (%s)", where, f->worker, what);
}

/* Adds the finding. `share` and `waited_ms`: what the others waited in the stretch. */
static void add_slow_worker(ls_case *c, watch *w, int rank, double share, double waited_ms) {
    const slowness *s = &w->best[rank];
    const ls_run_log *run = c->run;
    double mean = 0;
    char time[LS_SPELL_MAX];
    for (int r = 0; r < w->workers; r++) mean += c->out->usage.worker[r].busy_ms / w->workers;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_SLOW_WORKER, run->usage[s->first].step, run->usage[s->last].step,
                                   median_slowdown(w, rank, s));
    f->worker = rank;
    LS_TITLE(f, "worker %d is slow: its compute time is %.2f times that of %s", rank, f->size,
             s->alone ? "the other stages" : "the other workers");
    LS_EVIDENCE(f, "in %zu of %zu steps from step %lld to %lld", s->slow, s->steps, f->step, f->last_step);
    LS_EVIDENCE(f, "the others waited %s in these steps, %.0f %% of all workers' time", ls_spell(waited_ms / 1e3, time),
                100 * share);
    LS_EVIDENCE(f, "mean of all steps: worker %d computes for %.1f ms, the average worker for %.1f ms", rank,
                c->out->usage.worker[rank].busy_ms, mean);
    advise_slow_worker(c, f, s);
}

/* Finds the worker whose slow stretch has the largest sum, and adds a finding if at least LEAST_STEPS steps and a tenth
 * of all are slow in it, the others' waiting costs at least the share WAITING, and it is not passing. */
static void judge_slowness(ls_case *c, watch *w) {
    const ls_run_log *run = c->run;
    const ls_usage *usage = &c->out->usage;
    int slowest = 0;
    for (size_t i = 0; i < run->usage_count; i++)
        if (run->usage[i].workers == w->workers && counts_in_means(run, i)) judge_step(w, i);
    for (int r = 1; r < w->workers; r++)
        if (w->best[r].sum > w->best[slowest].sum) slowest = r;
    size_t least = usage->steps / 10 > LEAST_STEPS ? usage->steps / 10 : LEAST_STEPS;
    if (w->best[slowest].slow < least) return;
    double waited_ms, share = waited_share(w, &w->best[slowest], slowest, &waited_ms);
    if (share >= WAITING && !is_passing(w, &w->best[slowest], slowest))
        add_slow_worker(c, w, slowest, share, waited_ms);
}

ls_status ls_diagnose_usage(ls_case *c) {
    LS_TRY(measure_usage(c->run, &c->out->usage));
    watch w = {.run = c->run, .workers = c->out->usage.workers};
    if (w.workers < 2 || ls_case_shares_gpus(c)) return LS_OK;
    w.shared = all_workers_queue(&w);
    w.value = calloc(c->run->usage_count, sizeof *w.value);
    if (!w.value) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu steps", c->run->usage_count);
    judge_slowness(c, &w);
    free(w.value);
    return LS_OK;
}

bool ls_case_shares_gpus(const ls_case *c) {
    const ls_run_log *run = c->run;
    int workers = run->usage_count > 0 ? run->usage[run->usage_count - 1].workers : 0;
    return run->device.is_gpu && run->device.gpus > 0 && workers > run->device.gpus;
}

/* The host synchronises once a step, between backward and the update. If it hardly waits there, the GPU had finished
 * before the next kernel was launched, so it lacks work; a trace has the gaps themselves. */
void ls_diagnose_gpu(ls_case *c) {
    static const double SELDOM = .03, OFTEN = .2;
    const ls_run_log *run = c->run;
    ls_gpu_usage *gpu = &c->out->gpu;
    double mfu = 0, waits = 0;
    size_t mfus = 0, timed = 0;
    *gpu = (ls_gpu_usage){.mfu = (double)NAN, .waits = (double)NAN, .idle = (double)NAN};
    if (!run->device.is_gpu) return;
    for (size_t i = run->step_count > 2; i < run->step_count; i++) {
        const ls_run_log_step *s = &run->steps[i];
        if (s->mfu > 0) mfu += s->mfu;
        mfus += s->mfu > 0;
        if (!(s->gpu_wait_ms >= 0) || !(s->ms > 0)) continue;
        waits += s->gpu_wait_ms < s->ms ? s->gpu_wait_ms / s->ms : 1;
        timed++;
    }
    gpu->steps = mfus > timed ? mfus : timed;
    if (mfus > 0) gpu->mfu = mfu / (double)mfus;
    if (timed > 0) gpu->waits = waits / (double)timed;
    if (run->device.traced_us > 0) gpu->idle = run->device.idle_us / run->device.traced_us;
    gpu->lacks_work = isfinite(gpu->idle) ? gpu->idle > OFTEN : gpu->waits < SELDOM;
    if (gpu->lacks_work)
        snprintf(gpu->action, sizeof gpu->action,
                 "the GPU waits for the host to launch kernels; make kernels larger with a larger --micro-batch or "
                 "--seq, fewer workers per GPU, or a larger model");
}
