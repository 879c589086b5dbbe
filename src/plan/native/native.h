/* native.h: what a layout of this program costs on a machine that was measured by `lockstep probe`.
 *
 * Memory comes from the functions that carve it, so it equals what `lockstep train --dry-run` prints, to the byte. Time
 * comes from running the stages of the layout on a device that only adds up prices (price.h), the traffic that
 * parallel/traffic.h counts, and a course of the schedule's own lists in which workers share the cores. */
#ifndef LS_PLAN_NATIVE_NATIVE_H
#define LS_PLAN_NATIVE_NATIVE_H

#include "plan/native/machine.h"
#include "plan/plan.h"
#include "run/dry_run.h"

typedef struct ls_native_task {
    const ls_settings *settings;
    double memory_bytes; /* for all workers together, of a GPU for those on it; 0: all that the machine has */
} ls_native_task;

/* A run may take nine tenths of the machine's memory, and all that a GPU has free. On GPUs the settings' device is
 * one. */
static inline ls_native_task ls_native_task_of(const ls_settings *settings, const ls_native_machine *machine) {
    return (ls_native_task){.settings = settings, .memory_bytes = machine->is_gpus ? 0 : .9 * machine->memory_bytes};
}

/* The layout fits the task (ls_layout_make), and its micro is set. capacity_bytes is the part of the machine's memory
 * that falls to the heaviest worker. */
ls_status ls_native_predict(const ls_native_machine *machine, const ls_native_task *task, const ls_layout *layout,
                            ls_prediction *out);

/* Operations a second of all GPUs, as measured, with the unit that the policy uses; 0: it is a CPU. */
double ls_native_peak(const ls_native_machine *machine, const ls_policy *policy);

/* A warning where each worker has more slices than tensor cores take without loss. False: there is none. */
bool ls_native_warn_slices(const ls_policy *policy, int slices, int tp, char *text, size_t room);

typedef struct ls_native_choice {
    ls_layout layout;
    ls_prediction prediction;
} ls_native_choice;

enum { LS_NATIVE_KEPT = 8 };

typedef struct ls_native_found {
    int fitting, missing;
    ls_native_choice fits[LS_NATIVE_KEPT]; /* fastest first */
    ls_native_choice lacks;                /* that needs least more than there is; where `missing` > 0 */
    int tried;
    double one_seconds; /* of one worker that keeps everything; 0: it does not fit, or was not asked for */
} ls_native_found;

/* The layout to speak of first: the fastest, or the nearest that does not fit; NULL: there is none. */
static inline const ls_native_choice *ls_native_first(const ls_native_found *found) {
    return found->fitting > 0 ? &found->fits[0] : found->missing > 0 ? &found->lacks : NULL;
}

/* All layouts that the request leaves open: workers up to `workers` (0: the cores), dp, tp, pp, zero, schedule,
 * micro-batch, sequence parallelism, and recomputation where memory asks for it. LS_ERR_INPUT where there is none. */
ls_status ls_native_search(const ls_native_machine *machine, const ls_native_task *task,
                           const ls_layout_request *request, int workers, ls_native_found *out);

/* Searches, and completes the request by the layout that is predicted to be fastest; what it has already stays.
 * LS_ERR_RESOURCE where none fits into the memory, naming the nearest. */
ls_status ls_native_complete(const ls_native_machine *machine, const ls_settings *settings, ls_layout_request *request,
                             ls_native_found *found);

/* course.c: when a stage has done its list. */
typedef struct ls_native_course {
    const ls_schedule *schedule;
    double *const *work, *const *wait; /* by stage and action: computing, and moving data */
    double send_seconds;
    int workers, cores; /* workers of a stage; cores that all stages share */
    double *end;        /* by stage: filled in */
    double *busy;       /* by stage: filled in: what it did, its turns at the cores among it */
    /* By stage and action: filled in, when it began and was done. */
    double *const *action_begin, *const *action_end;
} ls_native_course;
ls_status ls_native_course_run(ls_native_course *course);

#endif
