/* trial.c: runs trials in forked workers, so that no trial affects the next. */
#include "lab/trial.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/child.h"
#include "base/cpu.h"
#include "base/fpenv.h"
#include "comm/movers/tensors.h"
#include "comm/world/world.h"
#include "device/choose.h"
#include "device/cpu/kernels.h"
#include "observe/trace.h"
#include "run/agree.h"
#include "run/inputs/inputs.h"

ls_trial ls_trial_make(const ls_lab_model *one, const ls_layout *layout, int threads) {
    return (ls_trial){.settings = &one->settings,
                      .data = ls_lab_model_data(one),
                      .weights = one->start.weights,
                      .layout = *layout,
                      .threads = threads};
}

bool ls_trial_is_first(const ls_trial_place *place) { return !place->world || ls_world_rank(place->world) == 0; }

enum { HEAD_BYTES = 64 }; /* header of shared memory: its size, padded to the alignment */

void *ls_trial_alloc(size_t count, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all) || __builtin_add_overflow(all, HEAD_BYTES, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    char *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    memcpy(map, &all, sizeof all);
    return map + HEAD_BYTES;
}

void ls_trial_free(void *memory) {
    size_t all;
    if (!memory) return;
    char *map = (char *)memory - HEAD_BYTES;
    memcpy(&all, map, sizeof all);
    munmap(map, all);
}

/* ---- instruction sets -------------------------------------------------------------------------------------------- */

const char *ls_trial_isa_name(ls_trial_isa isa) {
    static const char *const names[LS_TRIAL_ISAS] = {
        [LS_TRIAL_NATIVE] = "native", [LS_TRIAL_PORTABLE] = "portable", [LS_TRIAL_MIXED] = "mixed"};
    return names[isa];
}

/* Returns the instruction set of a worker's kernels: portable, the best one of this machine, or with LS_TRIAL_MIXED one
 * that depends on the rank. */
static ls_isa choose_isa(ls_trial_isa isa, int rank) {
    ls_isa has[LS_ISA_COUNT];
    int n = 0;
    for (ls_isa i = 0; i < LS_ISA_COUNT; i++)
        if (ls_cpu_use(i)) has[n++] = i;
    return isa == LS_TRIAL_PORTABLE ? LS_ISA_PORTABLE : isa == LS_TRIAL_NATIVE ? has[n - 1] : has[rank % n];
}

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

ls_status ls_trial_work(const ls_trial *trial, ls_world *world, ls_device *device) {
    ls_trainer_place place = {.device = device, .world = world, .layout = trial->layout};
    ls_trainer *t = NULL;
    LS_TRY(ls_trainer_create(trial->settings, &place, &trial->data, &t));
    ls_status status = trial->weights ? ls_weights_load_partition(trial->weights, t->partition)
                                      : ls_partition_init_weights(t->partition, trial->settings->options.seed);
    status = ls_agree(t->world, status);
    if (status == LS_OK && trial->weights) status = ls_partition_settle(t->partition);
    if (status == LS_OK) status = trial->steps(t, trial->ctx);
    ls_trainer_destroy(t);
    return status;
}

typedef struct task {
    const ls_trial_place *place;
    const ls_trial *trial;
    ls_device_choice chosen;
} task;

/* Opens the device of one worker and runs the trial on it: the function of every worker. A forked process uses its
 * instruction set also for the sums of collectives. */
static ls_status run_layout(ls_world *world, void *arg) {
    const task *t = arg;
    const char *trace = t->trial->traced ? t->place->options->trace : NULL;
    ls_isa isa = choose_isa(t->trial->isa, ls_world_rank(world));
    ls_kernels kernels;
    ls_device *device = NULL;
    ls_fpenv_set();
    ls_kernels_fill(&kernels, ls_cpu_isa_mask() & ((2u << isa) - 1));
    if (!t->place->world) LS_TRY(ls_cpu_set_isa(isa));
    LS_TRY(ls_world_open_device(world, t->chosen.name, &kernels, &device));
    ls_status status = ls_device_use_graphs(device, t->place->options->cuda_graphs);
    if (status == LS_OK) status = ls_trace_begin(trace);
    bool alone = ls_layout_workers(&t->trial->layout) == 1;
    if (status == LS_OK) status = ls_trial_work(t->trial, alone ? NULL : world, device);
    if (status == LS_OK) status = ls_trace_end(world, trace);
    ls_device_destroy(device);
    return status;
}

/* ---- one worker, in a process of its own ------------------------------------------------------------------------- */

typedef struct crew_of_one {
    const ls_workers_options *workers;
    task *task;
} crew_of_one;

/* Runs the workers in this child process, for ls_child_run(). */
static ls_status run_workers_here(void *ctx, void *result) {
    const crew_of_one *c = ctx;
    (void)result;
    return ls_workers_run(c->workers, run_layout, c->task);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

ls_status ls_trial_run(const ls_trial_place *place, const ls_trial *trial) {
    task t = {.place = place, .trial = trial};
    int count = ls_layout_workers(&trial->layout);
    ls_world *world = place->world;
    ls_workers_options workers;
    LS_TRY(ls_device_choose(place->options->device, world ? 1 : count, trial->settings->policy.unit, &t.chosen));
    if (world && strcmp(place->options->device, "auto") == 0) LS_TRY(ls_agree_device(world, &t.chosen));
    LS_TRY(ls_device_prepare(t.chosen.name, trial->settings->policy.unit, NULL, NULL));
    if (world && count > 1) return run_layout(world, &t);
    if (world) return ls_agree(world, ls_world_rank(world) == 0 ? run_layout(world, &t) : LS_OK);
    LS_TRY(ls_workers_options_from(place->options, &workers));
    workers.workers = count;
    workers.threads = trial->threads;
    crew_of_one one = {&workers, &t};
    return count == 1 ? ls_child_run("the worker", 0, run_workers_here, &one, NULL, 0)
                      : ls_workers_run(&workers, run_layout, &t);
}
