/* utilisation.c: how the time of a run was used, and which use takes too much.
 *
 * A worker's step is computing and waiting. Of computing, reading the batch and waiting for a core were recorded. Of
 * waiting, three parts are found, in this order:
 *
 *     late       until the worker that computed longest in the step was done; its reason is what that worker did more:
 *                computing (imbalance), reading (input), waiting for a core (host)
 *     network    the others had come, bytes were in flight, and not because a sender lacked a core
 *     rest       in a pipeline the bubble; without one, workers that are late in turns: imbalance, or time slices of
 *                cores that they share
 *
 * Workers that share a GPU wait for each other's kernels, whatever it looks like from the host: only bytes on a
 * --slow-link count as network.
 *
 * Between steps are evaluations and checkpoints. All are means over workers, as shares of the run's time.
 *
 * Cores that other processes use are no fault of the run: that is only a note. A bubble and a --slow-link are judged as
 * shares of the remaining time, because they exist at any speed. If cores are busy, a bubble is a cause only if the
 * schedule predicts it: stages that wait although there are many micro-batches wait for workers without a core. */
#include <math.h>
#include <string.h>

#include "observe/diagnose/rules.h"

enum { LEAST_STEPS = 5, LEAST_BETWEEN = 3 };
static const double OWN_LEAST = .05; /* however little is left of the time */
static const double PROMISED = .2;   /* share of a step that the schedule leaves a stage idle */
static const double QUIET = .1;      /* share of a machine's time that others may take, or the host */
static const double BRIEF_MS = 1e3;  /* total time of steps; with less, waits are random */

static const struct {
    const char *name;
    ls_cause cause;
    double least; /* share from which on it is a cause */
} uses[LS_USES] = {
    [LS_USE_COMPUTING] = {"computing", LS_CAUSES, 0},
    [LS_USE_NETWORK] = {"waiting for the network", LS_CAUSE_NETWORK, .25},
    [LS_USE_BUBBLE] = {"pipeline bubble", LS_CAUSE_BUBBLE, .25},
    [LS_USE_IMBALANCE] = {"imbalance between workers", LS_CAUSE_IMBALANCE, .3},
    [LS_USE_INPUT] = {"input", LS_CAUSE_INPUT, .15},
    [LS_USE_CHECKPOINTS] = {"checkpoints", LS_CAUSE_CHECKPOINTS, .15},
    [LS_USE_EVALUATION] = {"evaluation", LS_CAUSE_EVALUATION, .3},
    [LS_USE_HOST] = {"host", LS_CAUSE_CORES, .3},
    [LS_USE_GPU] = {"turns at a GPU", LS_CAUSE_GPUS, .3},
};

const char *ls_use_name(ls_use use) { return uses[use].name; }

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static double smaller(double a, double b) { return a < b ? a : b; }
static double positive_part(double x) { return x > 0 ? x : 0; }
/* Returns the time, or 0 if it was not recorded. */
static double ms_or_0(float ms) { return isfinite(ms) ? (double)ms : 0; }

/* The times of one worker in one step, in ms. */
typedef struct worker_step {
    /* queued, queued_wait: without a core while it was busy, and while it waited anyway; computing: busy without input
     * and queued */
    double busy, wait, net, input, queued, queued_wait, computing;
} worker_step;

/* Returns the times of worker w in a step, in ms; 0 if not recorded, but net is then the whole wait. Time without a
 * core is subtracted from computing, wait and net, not from busy; queued and queued_wait have it. */
static worker_step read_worker(const ls_run_log *run, const ls_run_log_usage *u, int w) {
    worker_step out = {.busy = ms_or_0(ls_run_log_times(run, u, LS_USAGE_BUSY)[w]),
                       .wait = ms_or_0(ls_run_log_times(run, u, LS_USAGE_WAIT)[w])};
    float net = ls_run_log_times(run, u, LS_USAGE_NET)[w];
    out.net = isnan(net) ? out.wait : (double)net;
    out.input = smaller(ms_or_0(ls_run_log_times(run, u, LS_USAGE_INPUT)[w]), out.busy);
    /* Busy time off a core was spent waiting for one; the remaining queueing happened while it waited. */
    double queued = ms_or_0(ls_run_log_times(run, u, LS_USAGE_QUEUED)[w]), work = out.busy - out.input;
    float cpu = ls_run_log_times(run, u, LS_USAGE_CPU)[w];
    out.queued = smaller(queued, isnan(cpu) ? work : positive_part(work - (double)cpu));
    out.queued_wait = smaller(queued - out.queued, out.wait);
    out.net *= out.wait > 0 ? 1 - out.queued_wait / out.wait : 1;
    out.wait -= out.queued_wait;
    out.computing = out.busy - out.input - out.queued;
    return out;
}

/* Returns whether the run simulated a slow network (--slow-link). */
static bool has_link(const ls_run_log *run) {
    const char *link = ls_run_log_option_get(run, "slow-link");
    return link && *link;
}

/* Adds the uses of one worker's step, in ms, to `ms`. `longest`: the worker that was busy longest in the step.
 * `in_line`: the longest time for which another worker waited for a core; without a --slow-link, bytes in flight for
 * that long are late because of the core. */
static void add_worker(const ls_case *c, bool net_known, const worker_step *w, const worker_step *longest,
                       double in_line, double *ms) {
    const ls_run_log *run = c->run;
    double late = smaller(w->wait, positive_part(longest->busy - w->busy)), rest = w->wait - late;
    double computing = positive_part(longest->computing - w->computing),
           input = positive_part(longest->input - w->input), queued = positive_part(longest->queued - w->queued),
           more = computing + input + queued;
    ms[LS_USE_COMPUTING] += w->computing;
    ms[LS_USE_INPUT] += w->input + (more > 0 ? late * input / more : 0);
    ms[LS_USE_HOST] += w->queued + w->queued_wait + (more > 0 ? late * queued / more : 0);
    bool turns = ls_case_shares_gpus(c);
    ms[turns ? LS_USE_GPU : LS_USE_IMBALANCE] += more > 0 ? late * computing / more : late;
    double net = net_known || run->pp < 2 ? smaller(w->net, rest) : 0, held = smaller(net, in_line);
    ms[turns && !has_link(run) ? LS_USE_GPU : LS_USE_NETWORK] += net - held;
    ms[LS_USE_HOST] += held;
    ms[turns                ? LS_USE_GPU
       : run->pp > 1        ? LS_USE_BUBBLE
       : run->start.crowded ? LS_USE_HOST
                            : LS_USE_IMBALANCE] += rest - net;
}

/* Computes the shares of uses within steps. Returns false if too few steps were recorded. */
static bool measure_steps(const ls_case *c, ls_utilisation *out) {
    const ls_run_log *run = c->run;
    int workers = run->usage_count > 0 ? run->usage[run->usage_count - 1].workers : 0;
    double ms[LS_USES] = {0}, all = 0;
    size_t at = 0;
    for (size_t i = 0; i < run->usage_count; i++) {
        const ls_run_log_usage *u = &run->usage[i];
        worker_step longest = {0};
        double mean = 0;
        /* The first step warms up caches and pages. */
        if (u->workers != workers || (i == 0 && !run->usage_of_trace)) continue;
        for (int w = 0; w < workers; w++) {
            worker_step one = read_worker(run, u, w);
            if (one.busy > longest.busy) longest = one;
            mean += (one.busy + one.wait + one.queued_wait) / workers;
        }
        out->net_is_known = isfinite(ls_run_log_times(run, u, LS_USAGE_NET)[0]) || workers == 1;
        for (int w = 0; w < workers; w++) {
            worker_step one = read_worker(run, u, w);
            double in_line = 0;
            for (int other = 0; other < workers && !has_link(run); other++) {
                double queued = ms_or_0(ls_run_log_times(run, u, LS_USAGE_QUEUED)[other]);
                if (other != w && queued > in_line) in_line = queued;
            }
            add_worker(c, out->net_is_known, &one, &longest, in_line, ms);
        }
        while (at + 1 < run->step_count && run->steps[at].step < u->step) at++;
        double whole = at < run->step_count && run->steps[at].step == u->step ? run->steps[at].ms : (double)NAN;
        if (!run->usage_of_trace && whole > mean) ms[LS_USE_HOST] += (whole - mean) * workers;
        out->steps++;
    }
    for (int k = 0; k < LS_USES; k++) all += ms[k];
    if (out->steps < LEAST_STEPS || !(all > 0)) return false;
    out->workers = workers;
    out->step_ms = all / workers / (double)out->steps;
    for (int k = 0; k < LS_USES; k++) out->share[k] = ms[k] / all;
    return true;
}

/* Adds checkpoints and evaluations between steps, and scales the other shares. Those at the end of the run do not
 * count, because even a short run has them. */
static void add_between(const ls_case *c, ls_utilisation *out) {
    const ls_run_log *run = c->run;
    double steps_ms = 0, saves_ms = 0, evals_ms = 0;
    long long first = run->step_count > 0 ? run->steps[0].step : 0,
              last = run->step_count > 0 ? run->steps[run->step_count - 1].step : 0;
    for (size_t i = 1; i < run->step_count; i++)
        if (run->steps[i].ms > 0) steps_ms += run->steps[i].ms;
    for (size_t i = 0; i < run->save_count; i++)
        if (run->saves[i].ms > 0 && run->saves[i].step >= first && run->saves[i].step < last)
            saves_ms += run->saves[i].ms, out->saves++;
    for (size_t i = 0; i < run->validation_count; i++)
        if (run->validations[i].ms > 0 && run->validations[i].step < last)
            evals_ms += run->validations[i].ms, out->evals++;
    if (out->saves > 0) out->save_ms = saves_ms / (double)out->saves;
    if (out->evals > 0) out->eval_ms = evals_ms / (double)out->evals;
    double all = steps_ms + saves_ms + evals_ms;
    if (!(all > 0) || !(steps_ms > 0)) return;
    for (int k = 0; k < LS_USES; k++) out->share[k] *= steps_ms / all;
    out->share[LS_USE_CHECKPOINTS] = saves_ms / all;
    out->share[LS_USE_EVALUATION] = evals_ms / all;
}

/* ---- what is too much -------------------------------------------------------------------------------------------- */

/* Returns how many micro-batches a replica has in a step; NaN if unknown. */
static double micro_batches(const ls_run_log *run) {
    double batch = ls_run_log_option_number(run, "global-batch"), micro = ls_run_log_option_number(run, "micro-batch");
    if (run->micro > 0) micro = run->micro;
    return batch > 0 && micro > 0 && run->dp > 0 ? ceil(batch / run->dp / micro) : (double)NAN;
}

/* Returns the name of the pipeline schedule for messages; never NULL. */
static const char *schedule_of(const ls_run_log *run) {
    const char *given = ls_run_log_option_get(run, "schedule");
    return run->schedule[0] ? run->schedule : given ? given : "of the default";
}

/* Returns the bubble of the schedule with equally long stages (interleaving leaves less); infinity if unknown. */
static double promised_bubble(const ls_run_log *run) {
    double micros = micro_batches(run), stages = run->pp;
    if (strcmp(schedule_of(run), "naive") == 0) return (stages - 1) / stages;
    return micros > 0 ? (stages - 1) / (micros + stages - 1) : (double)INFINITY;
}

/* Returns whether the use takes so large a share that it is a cause: at least its limit in `uses` and OWN_LEAST, and
 * one more condition. HOST: more threads than cores. BUBBLE: the host's share is below QUIET, or the schedule promises
 * at least PROMISED. CHECKPOINTS, EVALUATION: there are LEAST_BETWEEN. All others, but not the network of a
 * --slow-link: the steps lasted BRIEF_MS in all; and IMBALANCE: no worker was found slow. */
static bool is_too_much(const ls_case *c, ls_use use) {
    const ls_utilisation *u = &c->out->use;
    bool is_crowded = c->run->start.crowded;
    bool is_made = use == LS_USE_BUBBLE || (use == LS_USE_NETWORK && has_link(c->run)); /* at any load */
    double own = is_crowded || !is_made ? 1 : 1 - u->share[LS_USE_HOST];
    if (use == LS_USE_COMPUTING || u->share[use] < uses[use].least * own || u->share[use] < OWN_LEAST) return false;
    if (use == LS_USE_HOST) return is_crowded;
    bool is_quiet = u->share[LS_USE_HOST] < QUIET;
    if (use == LS_USE_BUBBLE) return is_quiet || promised_bubble(c->run) >= PROMISED;
    if (use == LS_USE_CHECKPOINTS) return u->saves >= LEAST_BETWEEN;
    if (use == LS_USE_EVALUATION) return u->evals >= LEAST_BETWEEN;
    if (!is_made && u->step_ms * (double)u->steps < BRIEF_MS) return false;
    if (use == LS_USE_IMBALANCE) return !ls_case_find(c, LS_CAUSE_SLOW_WORKER);
    return true;
}

/* Returns the interval in steps (1, 2 or 5 times a power of ten) at which something of `one_ms` costs at most 2 % of
 * the time. */
static long long round_interval(const ls_case *c, double one_ms) {
    double steps = one_ms / c->out->use.step_ms * 50;
    long long round = 1;
    while ((double)round * 10 < steps) round *= 10;
    return (double)round >= steps         ? round
           : (double)(2 * round) >= steps ? 2 * round
           : (double)(5 * round) >= steps ? 5 * round
                                          : 10 * round;
}

/* Sets title, evidence and advice for time in which workers wait for bytes in flight. */
static void describe_network(const ls_case *c, ls_finding *f) {
    const ls_utilisation *u = &c->out->use;
    const char *link = ls_run_log_option_get(c->run, "slow-link");
    LS_TITLE(f, "workers wait for the network %.0f %% of the time", 100 * f->share);
    if (u->net_is_known)
        LS_EVIDENCE(f, "in a step of %.1f ms, all workers wait %.1f ms for data in flight", u->step_ms,
                    u->step_ms * f->share);
    else
        LS_EVIDENCE(f,
                    "in a step of %.1f ms, workers wait %.1f ms although they compute for equally long; this run did "
                    "not record whether data was in flight meanwhile",
                    u->step_ms, u->step_ms * f->share);
    if (link && *link) LS_EVIDENCE(f, "the link is --slow-link %s", link);
    LS_ACTION(f, "use fewer workers, a faster link, or a larger --global-batch for each exchange of gradients");
}

/* Sets title, evidence and advice for idle pipeline stages, next to what the schedule predicts. */
static void describe_bubble(const ls_case *c, ls_finding *f) {
    const ls_run_log *run = c->run;
    double micros = micro_batches(run);
    LS_TITLE(f, "pipeline stages are idle %.0f %% of the time", 100 * f->share);
    if (micros > 0)
        LS_EVIDENCE(f,
                    "%d stages, schedule %s, %.0f micro-batches of %.0f sequences per step: with stages of equal "
                    "length the bubble is %.0f %%",
                    run->pp, schedule_of(run), micros,
                    run->micro > 0 ? run->micro : ls_run_log_option_number(run, "micro-batch"),
                    100 * promised_bubble(run));
    LS_EVIDENCE(f, "in a step of %.1f ms, a worker waits %.1f ms for another stage", c->out->use.step_ms,
                c->out->use.step_ms * f->share);
    LS_ACTION(f, "use more micro-batches (a smaller --micro-batch), --schedule 1f1b, or fewer stages (--pp)");
}

/* Sets title, evidence and advice for workers that wait for others with more work. */
static void describe_imbalance(const ls_case *c, ls_finding *f) {
    LS_TITLE(f, "workers wait for each other %.0f %% of the time, because their work is unbalanced", 100 * f->share);
    LS_EVIDENCE(f, "in a step of %.1f ms, a worker waits %.1f ms for the slowest one", c->out->use.step_ms,
                c->out->use.step_ms * f->share);
    int least = c->run->share[0], most = least;
    for (int d = 1; d < c->run->dp; d++) {
        if (c->run->share[d] < least) least = c->run->share[d];
        if (c->run->share[d] > most) most = c->run->share[d];
    }
    if (least < most) LS_EVIDENCE(f, "the replicas have %d to %d gradient groups each (--shares)", least, most);
    LS_ACTION(f, c->run->pp > 1
                     ? "divide the blocks differently with --stages (layout.json has the current division)"
                     : "--shares auto gives faster replicas more gradient groups without changing the result");
}

/* Sets title, evidence and advice (an interval in steps) for the time of checkpoints (`is_save`) or of evaluations. */
static void describe_between(const ls_case *c, ls_finding *f, bool is_save) {
    const ls_utilisation *u = &c->out->use;
    size_t count = is_save ? u->saves : u->evals;
    double ms = is_save ? u->save_ms : u->eval_ms;
    LS_TITLE(f, "%s take %.0f %% of the time", is_save ? "checkpoints" : "evaluations", 100 * f->share);
    LS_EVIDENCE(f, "%zu %s of %.1f ms each; a step takes %.1f ms", count, is_save ? "checkpoints" : "evaluations", ms,
                u->step_ms);
    LS_ACTION(f, "use --%s %lld, which takes about 2 %% of the time%s", is_save ? "save-every" : "eval-every",
              round_interval(c, ms), is_save ? "" : ", or fewer --eval-batches");
}

/* Sets title, evidence and advice for the time for reading batches. */
static void describe_input(const ls_case *c, ls_finding *f) {
    const ls_utilisation *u = &c->out->use;
    LS_TITLE(f, "workers read input %.0f %% of the time", 100 * f->share);
    LS_EVIDENCE(f, "in a step of %.1f ms, reading the batch takes %.1f ms", u->step_ms, u->step_ms * f->share);
    LS_ACTION(f, "put --data on a local disk, or tokenize it once with lockstep tokenize; check what else reads there");
}

/* Sets title, evidence and advice for workers that wait for a core because there are more workers than cores. */
static void describe_cores(const ls_case *c, ls_finding *f) {
    const ls_run_log_start *s = &c->run->start;
    int workers = c->out->use.workers;
    LS_TITLE(f, "workers wait for a core %.0f %% of the time, because there are more workers than cores",
             100 * f->share);
    LS_EVIDENCE(f, "%d worker%s of %d thread%s share fewer cores", workers, workers == 1 ? "" : "s", s->threads,
                s->threads == 1 ? "" : "s");
    LS_EVIDENCE(f, "in a step of %.1f ms, a worker is runnable without a core, or waits for such a worker, for %.1f ms",
                c->out->use.step_ms, c->out->use.step_ms * f->share);
    LS_EVIDENCE(f, "the cores are busy all the time, so fewer workers save communication, not compute");
    LS_ACTION(f, "use as many workers as cores, with --threads 1: the cores do the same work with less communication");
}

/* Sets title, evidence and advice for workers that share a GPU and wait for each other's kernels. */
static void describe_gpus(const ls_case *c, ls_finding *f) {
    int workers = c->out->use.workers, gpus = c->run->device.gpus;
    LS_TITLE(f, "%d workers share %d GPU%s and wait for a time slice %.0f %% of the time", workers, gpus,
             gpus == 1 ? "" : "s", 100 * f->share);
    LS_EVIDENCE(f, "a GPU runs kernels of one process at a time, and each context switch takes time");
    LS_EVIDENCE(f, "in a step of %.1f ms, a worker waits %.1f ms while another worker uses the GPU",
                c->out->use.step_ms, c->out->use.step_ms * f->share);
    LS_ACTION(f,
              "use one worker per GPU, %d instead of %d: each GPU does the same work without context switches and "
              "communication",
              gpus, workers);
}

/* Sets title, evidence and action of the finding for this use. */
static void describe_largest_use(const ls_case *c, ls_finding *f, ls_use use) {
    switch (use) {
    case LS_USE_NETWORK: describe_network(c, f); break;
    case LS_USE_BUBBLE: describe_bubble(c, f); break;
    case LS_USE_IMBALANCE: describe_imbalance(c, f); break;
    case LS_USE_INPUT: describe_input(c, f); break;
    case LS_USE_HOST: describe_cores(c, f); break;
    case LS_USE_GPU: describe_gpus(c, f); break;
    default: describe_between(c, f, use == LS_USE_CHECKPOINTS);
    }
    if (use != LS_USE_HOST && use != LS_USE_GPU)
        LS_EVIDENCE(f, "without it the run would take %.0f %% less time (%.2f times as fast)", 100 * f->share,
                    1 / (1 - f->share));
}

void ls_diagnose_time(ls_case *c) {
    ls_utilisation *u = &c->out->use;
    const ls_run_log *run = c->run;
    ls_use worst = LS_USE_COMPUTING;
    if (!measure_steps(c, u)) {
        *u = (ls_utilisation){0};
        return;
    }
    add_between(c, u);
    for (int i = 0; i < c->out->finding_count; i++)
        if (c->out->finding[i].cause == LS_CAUSE_SLOW_WORKER) c->out->finding[i].share = u->share[LS_USE_IMBALANCE];
    for (int k = 0; k < LS_USES; k++)
        if (is_too_much(c, (ls_use)k) && (worst == LS_USE_COMPUTING || u->share[k] > u->share[worst]))
            worst = (ls_use)k;
    if (!run->start.crowded && u->share[LS_USE_HOST] >= uses[LS_USE_HOST].least)
        LS_TITLE(
            ls_note_add(c, LS_CAUSE_CORES, run->usage[0].step, run->usage[0].step, u->share[LS_USE_HOST]),
            "workers were runnable without a core for %.0f %% of the time: other processes use this machine's cores",
            100 * u->share[LS_USE_HOST]);
    if (worst == LS_USE_COMPUTING) return;
    ls_finding *f = ls_finding_add(c, uses[worst].cause, run->usage[0].step, run->usage[run->usage_count - 1].step,
                                   u->share[worst]);
    f->share = u->share[worst];
    describe_largest_use(c, f, worst);
}
