/* loop_save.h: when a run saves checkpoints, and what follows from the outcome of a save; private to loop*.c. The saver
 * (folder/saver.h) writes them. All calls are collective, except those that say otherwise. */
#ifndef LS_RUN_LOOP_SAVE_H
#define LS_RUN_LOOP_SAVE_H

#include "run/folder/saver.h"
#include "run/validation.h"

typedef struct ls_loop ls_loop;

typedef struct ls_loop_saves {
    bool enabled;                /* false: this run saves nothing */
    ls_store *store;             /* borrowed; of rank 0; NULL on other workers, and if nothing is saved */
    const ls_identity *identity; /* borrowed; saved with each checkpoint */
    /* private */
    ls_saver *saver;
    bool prepared;        /* whether saves go to the background is decided */
    bool in_progress;     /* a failure now is one of a save */
    double every_s;       /* interval by the clock, in seconds; 0: the clock does not count. Rank 0 adapts its own to
                             --save-every auto; the others never read theirs */
    int64_t saved_step;   /* the newest step that is saved, or being saved; −1: none */
    int64_t sound_step;   /* the one before, which takes its place if that save fails */
    ls_validation before; /* likewise, the best saved evaluation before that save */
    double saved_s;       /* when the last save began, or the run, by the clock of this worker */
    double longest_s; /* the longest save so far for which training waited, in seconds; not those in the background */
} ls_loop_saves;

/* Opens the saver and sets which step counts as saved. Called by ls_loop_begin(). */
ls_status ls_loop_save_begin(ls_loop *loop);
/* Waits for a save in the background, unless the run has failed, and closes the saver. Not collective. */
void ls_loop_save_end(ls_loop *loop);

/* Saves after a step if a save is due (by steps, by the clock, on request, or for a best evaluation); otherwise only
 * reports a background save that has ended. A failed save is reported and does not end the run, unless the state is
 * damaged or not finite, or a worker has failed. */
ls_status ls_loop_save_as_due(ls_loop *loop);
/* Waits for the save in the background, if there is one, and reports its outcome. A failed save is no failure here. */
ls_status ls_loop_settle_save(ls_loop *loop);
/* Saves after a failure of the run, if weights and optimizer state are finite; otherwise returns LS_OK without saving.
 * Keeps all older checkpoints, because the cause may have begun before them. */
ls_status ls_loop_save_last(ls_loop *loop);
/* Returns whether, after a failure, the state is that of the last completed step on all workers, and they can still
 * save it together: within a step if failure.ended_whole, outside one only with a single worker; never before the first
 * step, after a failed save, or with a damaged state. Not collective. */
bool ls_loop_may_save(const ls_loop *loop);
/* Returns LS_REQUEST_SAVE and LS_REQUEST_SAVE_BEST as far as the interval of --save-every in time has passed at
 * `now_s`; 0 on all ranks but 0, and while a save is in progress. Not collective. */
int ls_loop_save_requests(const ls_loop *loop, double now_s);
/* Returns the newest step that is certainly saved; −1: none. A save in the background may still fail, so its step does
 * not count. Not collective. */
int64_t ls_loop_kept_step(const ls_loop *loop);

#endif
