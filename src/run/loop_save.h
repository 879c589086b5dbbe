/* loop_save.h: the checkpoints of a run, as its loop saves them; private to loop*.c. All calls are collective, except
 * those that say otherwise. */
#ifndef LS_RUN_LOOP_SAVE_H
#define LS_RUN_LOOP_SAVE_H

#include "run/folder/saver.h"
#include "run/validation.h"

typedef struct ls_loop ls_loop;

typedef struct ls_loop_saves {
    bool enabled;
    ls_store *store; /* borrowed; of rank 0, if anything is saved */
    const ls_identity *identity;
    /* private */
    ls_saver *saver;
    bool prepared;        /* whether saves go to the background is decided */
    bool in_progress;     /* a failure now is one of a save */
    double every_s;       /* interval by the clock; 0: the clock does not count */
    int64_t saved_step;   /* the newest step that is saved, or being saved; −1: none */
    int64_t sound_step;   /* the one before, which takes its place if that save fails */
    ls_validation before; /* likewise */
    double saved_s;       /* when the last save began, or the run, by the clock of this worker */
    double longest_s;     /* the longest save so far */
} ls_loop_saves;

ls_status ls_loop_save_begin(ls_loop *loop);
void ls_loop_save_end(ls_loop *loop);

/* Saves after a step if a save is due. A failed save is reported and does not end the run, unless the state is damaged.
 */
ls_status ls_loop_save_as_due(ls_loop *loop);
/* Waits for the save in the background and handles its outcome. */
ls_status ls_loop_settle_save(ls_loop *loop);
/* Saves after a failure, if weights and optimizer state are finite. Keeps all older checkpoints, because the cause may
 * have begun before them. */
ls_status ls_loop_save_last(ls_loop *loop);
/* Returns whether the state is that of the last completed step on all workers, and they can still save it together. Not
 * collective. */
bool ls_loop_may_save(const ls_loop *loop);
/* Returns LS_REQUEST_SAVE and LS_REQUEST_SAVE_BEST as far as the interval has passed. Rank 0 alone has requests. */
int ls_loop_save_requests(const ls_loop *loop, double now_s);
/* Returns the newest step that is certainly saved; −1: none. A save in the background may still fail. Not collective.
 */
int64_t ls_loop_kept_step(const ls_loop *loop);

#endif
