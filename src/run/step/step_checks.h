/* step_checks.h: checks weights and optimizer state against their checksums around a step, and ends a run whose check
 * fails; for the files of this folder and the trainer. Collective, except where it says otherwise: all workers call
 * these with the same findings. */
#ifndef LS_RUN_STEP_CHECKS_H
#define LS_RUN_STEP_CHECKS_H

#include "run/guard/event.h"
#include "run/settings.h"

typedef struct ls_trainer ls_trainer;

typedef struct ls_step_checks {
    ls_check kind;        /* how weights and optimizer state are checked: off, replicas or state; never auto */
    int64_t every;        /* steps between full checks of what this worker owns; 0: none */
    int64_t checked_step; /* the last step with a full check after its pass; −1: none */
    bool is_checked;      /* a full check followed the pass of the last update: its gradient comes from sound weights */
} ls_step_checks;

/* Sets trainer->checks by --check and what a check costs (guard/state_check.h). Not collective. */
void ls_step_checks_open(ls_trainer *trainer);

/* Verifies weights and optimizer state of this worker, after each pass and before the gradients are judged, because
 * corrupted weights cause bad gradients. A full check runs every `every` steps; in the other steps *found only repeats
 * what the last update found. Not collective: *found is this worker's. The pass combines the flags of all workers, and
 * if any is set, all workers call ls_step_report_damage(). */
ls_status ls_step_check_state(ls_trainer *trainer, bool *found);
/* Exchanges what ls_step_check_state() found on each worker, reports it as one event, and fails with LS_ERR_FAILED,
 * naming worker and tensor. */
ls_status ls_step_report_damage(ls_trainer *trainer);
/* Checks the memory before a bad value is attributed to a learning rate, a processor or a machine, because corrupted
 * memory can cause any of these symptoms. LS_OK if all checksums agree, or if the state has none; else fails and ends
 * the run with the damage as the reason. */
ls_status ls_step_judge_memory(ls_trainer *trainer);
/* Notes, before an update, whether its pass was fully checked. Not collective. */
void ls_step_checks_begin_update(ls_trainer *trainer);
/* Hashes the state after an update, as far as --check asks for it, and compares replicas. If they differ, fails with
 * the worker whose memory differs from what its update wrote, if that can be found. A block that the update skipped,
 * because it was damaged before, is reported in the next step, when all workers have written this update. */
ls_status ls_step_check_replicas(ls_trainer *trainer);

/* Sets event->step to the present step and passes the event to trainer->events, whose status it returns. Not
 * collective. */
ls_status ls_step_report(ls_trainer *trainer, ls_train_event *event);
/* Returns LS_ERR_FAILED with the event as the message, on all workers. Sets trainer->failure.ended_whole, which says
 * that weights and optimizer state are sound and unchanged: true unless a check found damage. A barrier first: rank 0
 * records the event before any worker exits. `advice` ends the message; NULL if only the doctor, which sees the whole
 * run, can give advice. */
ls_status ls_step_end_run(ls_trainer *trainer, const ls_train_event *event, const char *advice);
/* Sets in the event the steps after `sound_step`, which no check has covered, as suspect; none if that is the last
 * step. Not collective. */
void ls_step_mark_suspect(const ls_trainer *trainer, int64_t sound_step, ls_train_event *event);
/* Sets trainer->failure.blame to the event that ends the run and the worker at fault (−1: not known). `in_memory`:
 * memory still holds the sound state of `sound_step`, except for what the event names. Not collective. */
void ls_step_blame(ls_trainer *trainer, const ls_train_event *event, int worker, int64_t sound_step, bool in_memory);

#endif
