/* step_checks.h: checks of weights and optimizer state around a step, and the end of a run that fails one; private to
 * the trainer. Collective, except where it says otherwise: all workers call these with the same findings. */
#ifndef LS_RUN_STEP_CHECKS_H
#define LS_RUN_STEP_CHECKS_H

#include "run/guard/event.h"
#include "run/settings.h"

typedef struct ls_trainer ls_trainer;

typedef struct ls_step_checks {
    ls_check kind;        /* how weights and optimizer state are checked; never auto */
    int64_t every;        /* steps between full checks of what this worker owns; 0: none */
    int64_t checked_step; /* the last step with a full check after its pass; −1: none */
    bool is_checked;      /* the pass of the last update had one, so its gradient comes from sound weights */
} ls_step_checks;

/* Chooses the checks. Not collective. */
void ls_step_checks_open(ls_trainer *trainer);

/* Verifies weights and optimizer state after each pass and before the gradients are judged, because corrupted weights
 * cause bad gradients. A full check runs every `every` steps; the other steps report what the last update found. Not
 * collective: *found is this worker's, and ls_step_report_damage() follows if any worker found something. */
ls_status ls_step_check_state(ls_trainer *trainer, bool *found);
/* Agrees on the finding and fails with it. */
ls_status ls_step_report_damage(ls_trainer *trainer);
/* Checks the memory before a bad value is attributed to a learning rate, a processor or a machine, because corrupted
 * memory can cause any of these symptoms. Fails if a hash differs. */
ls_status ls_step_judge_memory(ls_trainer *trainer);
/* Notes, before an update, whether its pass was checked. Not collective. */
void ls_step_checks_begin_update(ls_trainer *trainer);
/* Compares replicas after an update. If they differ, fails with the worker whose memory differs from what its update
 * wrote. A block that the update did not change is reported in the next step, when all workers have written this
 * update. */
ls_status ls_step_check_replicas(ls_trainer *trainer);

/* Passes an event of the present step to trainer->events. */
ls_status ls_step_report(ls_trainer *trainer, ls_train_event *event);
/* Fails with the event as the reason. Barrier: rank 0 records the event before any worker exits. `advice` is NULL if
 * only the doctor, which sees the whole run, can give advice. */
ls_status ls_step_end_run(ls_trainer *trainer, const ls_train_event *event, const char *advice);
/* Marks the steps after `sound_step`, which no check has covered, as suspect in the event. Not collective. */
void ls_step_mark_suspect(const ls_trainer *trainer, int64_t sound_step, ls_train_event *event);
/* Sets trainer->failure.blame to the event that ends the run and the worker at fault, −1 if it is not known. */
void ls_step_blame(ls_trainer *trainer, const ls_train_event *event, int worker, int64_t sound_step, bool in_memory);

#endif
