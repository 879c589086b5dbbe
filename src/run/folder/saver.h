/* saver.h: writes checkpoints in the background, or while training waits.
 *
 * In the background, each worker takes a snapshot of its part at a step boundary (checkpoint/snapshot.h), which is all
 * that training waits for. Then a thread of each worker writes its bytes, forces them to disk and reports that in a
 * small file (checkpoint/parts.h); the thread of rank 0 collects the reports and publishes the checkpoint.
 *
 * If the snapshot does not fit into memory, or the run ends anyway, ls_saver_save() writes from the tensors themselves.
 * The files have the same bytes either way, and a failure never damages a complete checkpoint.
 *
 * The training loop (loop_save.c) decides when to save. Call it from one thread; it starts its own. "Collective": all
 * workers call it at the same place. */
#ifndef LS_RUN_FOLDER_SAVER_H
#define LS_RUN_FOLDER_SAVER_H

#include "checkpoint/store.h"
#include "config/choices.h"
#include "data/tokenizer/tokenizer.h"
#include "run/folder/identity.h"
#include "run/trainer.h"

typedef struct ls_saver ls_saver;

/* Outcome of a save; durations in seconds. */
typedef struct ls_save_outcome {
    int64_t step;              /* that was saved; −1: there was no save */
    ls_status status;          /* on rank 0 with a message in `text` */
    double seconds;            /* until it was on disk */
    bool along;                /* in the background, from a snapshot */
    double stall_s;            /* how long training waited, also for the previous save and for verification */
    char text[LS_MESSAGE_MAX]; /* message of a failure */
} ls_save_outcome;

/* Creates a saver and plans its files; allocates no snapshot. Store, identity and tokenizer are those of rank 0; the
 * others may pass NULL. All are borrowed. Not collective, so the caller agrees on a failure. */
ls_status ls_saver_open(ls_trainer *trainer, ls_store *store, const ls_identity *identity,
                        const ls_tokenizer *tokenizer, ls_saver **out);
/* Waits for a background save of this worker and frees the saver. `failed`: the run has failed, so it does not wait
 * longer than seconds for other workers' parts, which may never come. Keeps the last failure's message. NULL does
 * nothing. */
void ls_saver_close(ls_saver *saver, bool failed);

/* Allocates memory for snapshots, if every machine has enough, so that saves go to the background; call it after the
 * first steps have touched their memory. Otherwise `why` gives the reason, on rank 0 and on a worker whose own
 * allocation failed; it is "" everywhere else. With mode LS_SAVE_STREAM allocates none; with LS_SAVE_SNAPSHOT too
 * little memory is LS_ERR_RESOURCE. Collective. */
ls_status ls_saver_prepare(ls_saver *saver, ls_save_mode mode, char why[LS_MESSAGE_MAX]);
/* Returns whether saves go to the background. */
bool ls_saver_has_snapshot(const ls_saver *saver);

/* Copies the state and starts a save in the background; no other may be running, and there must be a snapshot. Training
 * has waited since `since_s` (ls_clock_seconds()). `sync_fd` is a file to sync to disk before the checkpoint is
 * published, or −1; it is closed when the save ends, also on failure. The state is verified (ls_trainer_prove_state)
 * after it was copied. A failure leaves no files. Collective. */
ls_status ls_saver_begin(ls_saver *saver, double since_s, int sync_fd);
/* Returns whether this worker has started a background save that has not been settled yet. Local: other workers may
 * differ. */
bool ls_saver_is_busy(const ls_saver *saver);
/* Returns true once after a background save has ended on this worker, with its outcome; else false, without waiting.
 * Local. */
bool ls_saver_look(ls_saver *saver, ls_save_outcome *out);
/* Waits for the background save, if there is one, and returns the outcome of the last save, as rank 0 knows it, on all
 * workers (step −1: there was none). *news: it had not been returned on this worker before. Collective. */
ls_status ls_saver_settle(ls_saver *saver, ls_save_outcome *out, bool *news);

/* Saves while training waits, from the tensors themselves; no other save may be running. Parameters and verification as
 * in ls_saver_begin(). *out is unchanged on failure. Collective. */
ls_status ls_saver_save(ls_saver *saver, double since_s, int sync_fd, ls_save_outcome *out);

#endif
