/* native.h: predicts time and memory of a layout of this program on a machine that `lockstep probe` measured.
 *
 * Memory comes from the functions that allocate it, so it equals what `lockstep train --dry-run` prints, to the byte.
 * Time comes from running the stages of the layout on a device that only adds up prices (price.h), the traffic that
 * parallel/traffic counts, and a simulation of the schedule in which workers share the cores. */
#ifndef LS_PLAN_NATIVE_NATIVE_H
#define LS_PLAN_NATIVE_NATIVE_H

#include "plan/native/machine.h"
#include "plan/plan.h"
#include "run/dry_run.h"

typedef struct ls_native_task {
    const ls_settings *settings;
    double memory_bytes; /* limit for all workers together (on GPUs, for those of one GPU); 0: what is there or free */
} ls_native_task;

/* Makes a task that may use 90 % of the machine's memory, or all free memory of a GPU; borrows the settings. */
static inline ls_native_task ls_native_task_of(const ls_settings *settings, const ls_native_machine *machine) {
    return (ls_native_task){.settings = settings, .memory_bytes = machine->is_gpus ? 0 : .9 * machine->memory_bytes};
}

/* Predicts a layout that ls_layout_make() made for the task, with its micro-batch set. capacity_bytes is the heaviest
 * worker's part of the memory limit. Does not check that the layout fits. Allocates no tensors. */
ls_status ls_native_predict(const ls_native_machine *machine, const ls_native_task *task, const ls_layout *layout,
                            ls_prediction *out);

/* Returns the measured peak FLOP/s of all GPUs together: of the matrix unit hgmma if the policy uses it, else in fp32;
 * 0 on CPUs. */
double ls_native_peak(const ls_native_machine *machine, const ls_policy *policy);

/* Writes a warning to `text` and returns true if workers have more slices each than tensor cores process at full speed;
 * else returns false and leaves `text`. */
bool ls_native_warn_slices(const ls_policy *policy, int slices, int tp, char *text, size_t room);

typedef struct ls_native_choice {
    ls_layout layout;
    ls_prediction prediction;
} ls_native_choice;

enum { LS_NATIVE_KEPT = 8 };

typedef struct ls_native_found {
    int fitting, missing;                  /* entries of `fits`; layouts that did not fit in memory */
    ls_native_choice fits[LS_NATIVE_KEPT]; /* fastest first, one for each dp, tp, pp, zero and recomputation */
    ls_native_choice lacks;                /* if missing > 0: the layout that exceeds the memory least */
    int tried;                             /* layouts that were predicted */
    double one_seconds; /* of the fastest layout with one worker; 0: none fits, or it was not asked for */
} ls_native_found;

/* Returns the fastest layout that fits, else the nearest that does not; NULL: there is neither. */
static inline const ls_native_choice *ls_native_first(const ls_native_found *found) {
    return found->fitting > 0 ? &found->fits[0] : found->missing > 0 ? &found->lacks : NULL;
}

/* Searches the layouts that the request leaves open: workers up to `workers` (0: the cores, or GPUs), dp, tp, pp, zero,
 * schedule (all but naive), micro-batch (the largest, and halved up to four times), sequence parallelism, and
 * recomputation if memory requires it. tp is a power of two; so is the number of workers, unless it is the largest, or
 * the request gives it or dp, tp or pp. GPUs without measured links: one worker. LS_ERR_INPUT if no layout is possible;
 * that none fits in memory is no error. */
ls_status ls_native_search(const ls_native_machine *machine, const ls_native_task *task,
                           const ls_layout_request *request, int workers, ls_native_found *out);

/* Searches, for train --auto-layout, and replaces all knobs of the request by those of the fastest layout.
 * LS_ERR_RESOURCE if no layout fits; the message names the nearest. */
ls_status ls_native_complete(const ls_native_machine *machine, const ls_settings *settings, ls_layout_request *request,
                             ls_native_found *found);

/* course.c: input and output of ls_native_course_run(); all arrays belong to the caller. */
typedef struct ls_native_course {
    const ls_schedule *schedule;
    double *const *work, *const *wait; /* by stage and action: computing, and moving data */
    double send_seconds;               /* from one stage to the next */
    int workers, cores;                /* workers of a stage; cores that all stages share */
    double *end;                       /* by stage: filled in */
    double *busy;                      /* by stage: filled in: time of its actions, including waits for a core */
    /* By stage and action: filled in, when it began and was done. */
    double *const *action_begin, *const *action_end;
} ls_native_course;
/* Simulates when each action of each stage begins and ends while the workers share the cores. LS_ERR_FAILED if the
 * schedule deadlocks. */
ls_status ls_native_course_run(ls_native_course *course);

#endif
