/* probe.c: runs the workers that measure, and turns the measurements into a machine and a cluster. */
#include "lab/probe/probe.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/fpenv.h"
#include "comm/launch/launcher.h"
#include "comm/launch/placement.h"
#include "comm/movers/tensors.h"
#include "comm/world/world.h"
#include "device/choose.h"
#include "device/cpu/kernels.h"
#include "lab/calls.h"
#include "lab/probe/worker.h"
#include "lab/trial.h"

static const double default_seconds = 25;

/* ---- a measurement ----------------------------------------------------------------------------------------------- */

/* Returns whether the time budget is spent, so that a measurement must be as short as possible. */
static bool is_late(const ls_probe_worker *w) { return ls_clock_seconds() >= w->end; }

/* Averages a value over the workers. Collective. */
static ls_status mean_over_workers(const ls_probe_worker *w, double *value) {
    double all[LS_WORKERS_MAX], sum = 0;
    size_t bytes[LS_WORKERS_MAX];
    for (int r = 0; r < w->size; r++) bytes[r] = sizeof *value;
    LS_TRY(ls_comm_all_gather(w->comm, value, all, bytes));
    for (int r = 0; r < w->size; r++) sum += all[r];
    *value = sum / w->size;
    return LS_OK;
}

/* Measures a call that each worker times by itself. */
ls_status ls_probe_time(const ls_probe_worker *w, ls_timer_call call, void *ctx, double *seconds) {
    bool late = is_late(w);
    ls_timer timer = {
        .sample_s = 4e-4, .total_s = w->seconds, .samples_min = late ? 1 : 4, .samples_max = late ? 1 : 64};
    ls_timing timing;
    LS_TRY(ls_comm_barrier(w->comm));
    LS_TRY(ls_timer_run(&timer, call, ctx, &timing));
    *seconds = ls_lower_quartile(timing.seconds, (size_t)timing.samples);
    if (*seconds < 1e-9) *seconds = 1e-9;
    return mean_over_workers(w, seconds);
}

ls_status ls_probe_alloc(ls_probe_worker *w, size_t elems, float **out) {
    void *memory;
    assert(w->blocks < (int)(sizeof w->block / sizeof *w->block));
    if (w->size > 1)
        LS_TRY(ls_world_alloc(w->world, elems * sizeof(float), &memory));
    else
        LS_TRY(ls_device_alloc(w->device, elems * sizeof(float), &memory));
    float *at = *out = w->block[w->blocks++] = memory;
    for (size_t i = 0; i < elems; i++) at[i] = ls_operand_value(i);
    return LS_OK;
}

/* Runs a measurement and frees its memory. */
static ls_status run_measurement(ls_probe_worker *w, ls_status (*measure)(ls_probe_worker *w)) {
    ls_status status = measure(w);
    for (; w->blocks > 0; w->blocks--) {
        if (w->size > 1)
            ls_world_free(w->world, w->block[w->blocks - 1]);
        else
            ls_device_free(w->device, w->block[w->blocks - 1]);
    }
    return status;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* Measures a collective by the clock of rank 0: the lower quartile of some samples, the same on all ranks. */
static ls_status measure_link(const ls_probe_worker *w, ls_link_vector *v, double *seconds) {
    int samples = is_late(w) ? 1 : 5;
    ls_timer timer = {.comm = w->comm, .sample_s = 2e-3, .samples_min = samples, .samples_max = samples};
    ls_timing timing;
    LS_TRY(ls_link_time(&timer, v, &timing));
    *seconds = ls_lower_quartile(timing.seconds, (size_t)timing.samples);
    if (*seconds < 1e-9) *seconds = 1e-9;
    return ls_comm_broadcast(w->comm, 0, seconds, sizeof *seconds);
}

/* Measures all collectives and sizes of one group, and appends them to the machine's links. */
static ls_status measure_group(const ls_probe_worker *w, ls_link_vector *v) {
    ls_native_machine *machine = w->machine;
    for (int op = 0; op < LS_NATIVE_OPS; op++) {
        if (op == LS_NATIVE_SEND && v->size > 2) continue;
        if (machine->links == LS_NATIVE_LINKS_MAX) return LS_OK;
        ls_native_link *link = &machine->link[machine->links];
        *link = (ls_native_link){.workers = w->size, .group = v->size, .op = (ls_native_op)op};
        v->op = link->op;
        for (int s = 0; s < LS_NATIVE_LINK_SIZES; s++) {
            ls_link_resize(v, ls_native_link_bytes[s]);
            LS_TRY(measure_link(w, v, &link->seconds[s]));
        }
        machine->links++;
    }
    return LS_OK;
}

/* Measures collectives of groups of 2, 4, … and all workers. All groups of a size, of adjacent ranks, run concurrently.
 */
static ls_status measure_links(ls_probe_worker *w) {
    size_t elems = ls_native_link_bytes[LS_NATIVE_LINK_SIZES - 1] / sizeof(float);
    ls_link_vector v = {0};
    LS_TRY(ls_probe_alloc(w, elems, &v.in));
    LS_TRY(ls_probe_alloc(w, elems, &v.out));
    for (int group = 2; group <= w->size; group *= 2) {
        if (w->size % group != 0) continue;
        LS_TRY(ls_comm_split(w->comm, w->rank / group, w->rank, &v.comm));
        v.rank = ls_comm_rank(v.comm);
        v.size = group;
        ls_status status = measure_group(w, &v);
        if (status != LS_OK) ls_world_fail(w->world, status); /* otherwise the other workers would wait */
        ls_comm_destroy(v.comm);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

typedef struct job {
    ls_native_machine *machine; /* shared with the parent */
    double seconds, end;        /* as in ls_probe_worker */
    bool computes;              /* false: only collectives are measured */
} job;

/* An empty task. */
static void do_nothing(void *ctx, size_t task, int thread) { (void)ctx, (void)task, (void)thread; }

typedef struct launch {
    ls_pool *pool;
    int tasks;
} launch;

/* Runs empty tasks, to measure the launch of a parallel loop. */
static ls_status start_tasks(void *ctx) {
    const launch *l = ctx;
    ls_pool_run(l->pool, (size_t)l->tasks, do_nothing, NULL);
    return LS_OK;
}

enum { COPY_BYTES = 32 << 20 };

typedef struct copying {
    ls_device *device;
    float *from, *to;
} copying;

/* Copies one large block; an ls_timer_call. */
static ls_status copy_once(void *ctx) {
    const copying *c = ctx;
    return ls_device_copy(c->device, c->to, c->from, COPY_BYTES);
}

/* Measures the bandwidth of copies, read and written bytes together. */
static ls_status measure_copy(ls_probe_worker *w) {
    copying c = {.device = w->device};
    double seconds = 0;
    LS_TRY(ls_probe_alloc(w, COPY_BYTES / sizeof(float), &c.from));
    LS_TRY(ls_probe_alloc(w, COPY_BYTES / sizeof(float), &c.to));
    LS_TRY(ls_probe_time(w, copy_once, &c, &seconds));
    w->rates->copy_bytes_per_second = 2.0 * COPY_BYTES / seconds;
    return LS_OK;
}

/* Measures all operations with this number of workers. */
static ls_status measure_rates(ls_probe_worker *w) {
    launch l = {w->world->pool, ls_world_threads(w->world)};
    w->rates->workers = w->size;
    w->rates->threads = ls_world_threads(w->world);
    LS_TRY(ls_probe_time(w, start_tasks, &l, &w->rates->launch_seconds));
    LS_TRY(run_measurement(w, measure_copy));
    LS_TRY(run_measurement(w, ls_probe_matmuls));
    LS_TRY(run_measurement(w, ls_probe_attention));
    return run_measurement(w, ls_probe_passes);
}

/* Measures in one worker. The results are the same in all workers; the parent uses those of rank 0. */
static ls_status worker_main(ls_world *world, void *arg) {
    const job *j = arg;
    static ls_native_machine own;
    ls_probe_worker w = {.world = world, .comm = ls_world_comm(world), .seconds = j->seconds, .machine = &own};
    ls_status status = LS_OK;
    ls_fpenv_set();
    own = *j->machine;
    w.end = j->end;
    w.rank = ls_world_rank(world);
    w.size = ls_world_size(world);
    w.rates = &own.rates[own.counts];
    LS_TRY(ls_world_open_device(world, "cpu", NULL, &w.device));
    if (j->computes) {
        LS_TRY_OUT(measure_rates(&w));
        own.counts++;
    }
    if (w.size > 1) {
        snprintf(own.transport, sizeof own.transport, "%s", ls_world_transport(world));
        LS_TRY_OUT(run_measurement(&w, measure_links));
    }
    if (w.rank == 0) *j->machine = own;
out:
    if (status != LS_OK) ls_world_fail(world, status);
    ls_device_destroy(w.device);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Tells the callback what is being measured. */
static void report_progress(const ls_probe_options *o, int workers, bool computes) {
    char text[96];
    if (!o->say) return;
    snprintf(text, sizeof text, "%d worker%s: %s", workers, workers == 1 ? "" : "s",
             computes && workers > 1 ? "operations and collectives"
             : computes              ? "operations"
                                     : "collectives");
    o->say(o->ctx, text);
}

/* Starts so many workers, which measure within about `seconds`. */
static ls_status run_count(const ls_probe_options *o, int workers, double seconds, ls_native_machine *shared) {
    /* Measurements per number of workers: matmuls of up to four types, attention, passes. */
    enum { MEASUREMENTS = 198 };
    ls_workers_options options = {.workers = workers, .no_pin = o->no_pin, .forks_one = 1};
    job j = {.machine = shared, .seconds = seconds / MEASUREMENTS, .end = ls_clock_seconds() + seconds};
    j.computes = (workers <= shared->cores || shared->counts == 0) && shared->counts < LS_NATIVE_COUNTS_MAX;
    if (j.seconds > .02) j.seconds = .02;
    report_progress(o, workers, j.computes);
    return ls_workers_run(&options, worker_main, &j);
}

/* Fills in what is known without measuring: CPU, version, instruction set, cores, memory. */
static void describe_machine(ls_native_machine *machine) {
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    ls_placement placement;
    snprintf(machine->cpu, sizeof machine->cpu, "%s", ls_cpu_detect()->model);
    snprintf(machine->version, sizeof machine->version, "%s", LS_VERSION);
    snprintf(machine->isa, sizeof machine->isa, "%s", ls_kernels_get()->isa);
    snprintf(machine->transport, sizeof machine->transport, "none");
    machine->cores = ls_cpu_count();
    if (ls_placement_make(1, 0, false, &placement) == LS_OK) {
        machine->cores = placement.cores;
        ls_placement_free(&placement);
    }
    machine->memory_bytes = pages > 0 && page_bytes > 0 ? (double)pages * (double)page_bytes : 0;
}

/* Measures 1, 2, 4, … workers one after the other, each within its part of the time. */
static ls_status run_counts(const ls_probe_options *o, ls_native_machine *shared) {
    double seconds = o->seconds > 0 ? o->seconds : default_seconds;
    int most = o->workers > 0 ? o->workers : shared->cores > 4 ? shared->cores : 4, runs = 0;
    for (int n = 1; n <= most && n <= shared->cores; n *= 2) runs++;
    for (int n = 1; n <= most; n *= 2) LS_TRY(run_count(o, n, seconds / runs, shared));
    return LS_OK;
}

ls_status ls_probe_run(const ls_probe_options *o, ls_native_machine *out, bool *first) {
    ls_launcher launcher = ls_launcher_detect();
    ls_status status;
    ls_native_machine *shared = ls_trial_alloc(1, sizeof *shared);
    if (!shared) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for %zu bytes of results", sizeof *shared);
    describe_machine(shared);
    bool launched = launcher.kind != LS_LAUNCHER_NONE && !launcher.stale;
    *first = !launched || launcher.rank == 0;
    if (launched) /* a launcher's workers can be used only once */
        status = run_count(o, launcher.size, o->seconds > 0 ? o->seconds : default_seconds, shared);
    else
        status = run_counts(o, shared);
    if (status == LS_OK && *first && o->device && ls_device_is_gpu(o->device)) {
        if (o->say) o->say(o->ctx, "the GPU");
        status = ls_probe_gpu(o->device, launched, &shared->gpu);
    }
    if (o->say) o->say(o->ctx, NULL);
    if (status == LS_OK) *out = *shared;
    for (int i = 0; status == LS_OK && i < out->counts; i++) ls_native_rates_fit(&out->rates[i]);
    if (status == LS_OK) ls_native_rates_fit(&out->gpu.rates);
    ls_trial_free(shared);
    return status;
}

bool ls_probe_is_current(const ls_native_machine *machine) {
    static ls_native_machine now;
    describe_machine(&now);
    return strcmp(now.cpu, machine->cpu) == 0 && strcmp(now.version, machine->version) == 0 &&
           strcmp(now.isa, machine->isa) == 0 && now.cores == machine->cores;
}

/* ---- as a cluster ------------------------------------------------------------------------------------------------ */

/* Returns the FLOP/s of a matmul of 1024 × 768 × 768, or 0 if `type` (fp32, or bf16 with one matrix unit) was not
 * measured. */
static double matmul_rate(const ls_native_rates *r, int type) {
    double flops = 2.0 * 1024 * 768 * 768;
    return r->law[LS_GEMM_NT][type].known ? flops / ls_native_matmul_seconds(r, LS_GEMM_NT, type, 1024, 768, 768, 1)
                                          : 0;
}

/* Returns the FLOP/s of bf16 matmuls with the fastest matrix unit. */
static double best_bf16_rate(const ls_native_rates *r) {
    double best = 0;
    for (int type = 1; type < LS_NATIVE_TYPES; type++)
        if (matmul_rate(r, type) > best) best = matmul_rate(r, type);
    return best;
}

/* Describes the collectives of so many workers as a link; with no measured link, as one of 10 GB/s. */
static void fill_link(const ls_native_machine *machine, int workers, ls_link *link) {
    double large = (double)ls_native_link_bytes[LS_NATIVE_LINK_SIZES - 1], seconds;
    snprintf(link->name, sizeof link->name, "shared memory");
    link->source = "lockstep probe";
    link->share = 1;
    link->bandwidth = 1e10;
    if (machine->links == 0) return;
    seconds = ls_native_link_seconds(machine, LS_NATIVE_ALL_REDUCE, workers, workers, large);
    if (seconds > 0) link->bandwidth = 2 * (workers - 1) * large / workers / seconds;
    link->start_seconds = ls_native_link_seconds(machine, LS_NATIVE_ALL_REDUCE, workers, workers, 0);
    link->latency_seconds = ls_native_link_seconds(machine, LS_NATIVE_SEND, workers, 2, 0);
}

/* Returns rate / peak in the range that cluster files allow for shares. */
static double share_of(double rate, double peak) {
    double share = peak > 0 ? rate / peak : 1;
    return share > 1 ? 1 : share < .001 ? .001 : share;
}

void ls_probe_cluster(const ls_native_machine *machine, ls_cluster *out) {
    const ls_native_rates *r = &machine->rates[machine->counts - 1];
    *out = (ls_cluster){.sites = 1};
    ls_site *site = &out->site[0];
    ls_chip *chip = &site->chip;
    snprintf(out->name, sizeof out->name, "this machine");
    snprintf(chip->name, sizeof chip->name, "%.40s", machine->cpu[0] ? machine->cpu : "CPU");
    chip->source = "lockstep probe";
    chip->is_cpu = true;
    chip->memory_bytes = machine->memory_bytes / r->workers;
    chip->peak_flops[LS_PLAN_FP32] = matmul_rate(r, 0);
    chip->peak_flops[LS_PLAN_BF16] = chip->peak_flops[LS_PLAN_FP16] = best_bf16_rate(r);
    for (int t = 0; t < LS_PLAN_TYPES; t++) chip->share[t] = 1;
    chip->units = r->threads;
    chip->gemm_fill = 32;
    double pairs = 4 * 64 * 1024.0 * 1024.0 / 2, rate = chip->peak_flops[LS_PLAN_FP32];
    chip->attention_share = share_of(pairs / ls_native_attention_seconds(r, false, 0, 64, 1024, 1), rate);
    chip->attention_back_share = share_of(2.5 * pairs / ls_native_attention_seconds(r, true, 0, 64, 1024, 1), rate);
    chip->memory_bandwidth = r->copy_bytes_per_second;
    chip->bandwidth_share = 1;
    chip->launch_seconds = r->launch_seconds;
    site->chips = site->node = r->workers;
    fill_link(machine, r->workers > 1 ? r->workers : 2, &site->inside);
    site->between = site->inside;
}
