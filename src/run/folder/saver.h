/* saver.h: writes checkpoints in the background, or while training waits.
 *
 * In the background, each worker takes a snapshot of its part at a step boundary (checkpoint/snapshot.h), which is all
 * that training waits for. Then a thread of each worker writes its bytes, forces them to disk and reports that in a
 * small file (checkpoint/parts.h); the thread of rank 0 collects the reports and publishes the checkpoint.
 *
 * If the snapshot does not fit into memory, or the run ends anyway, ls_saver_save() writes from the tensors themselves.
 * The files have the same bytes either way, and a failure never damages a complete checkpoint.
 *
 * Call it from one thread; it starts its own. "Collective": all workers call it at the same place. */
#ifndef LS_RUN_FOLDER_SAVER_H
#define LS_RUN_FOLDER_SAVER_H

#include "checkpoint/store.h"
#include "config/choices.h"
#include "data/tokenizer/tokenizer.h"
#include "run/folder/identity.h"
#include "run/trainer.h"

typedef struct ls_saver ls_saver;

/* Outcome of a save. */
typedef struct ls_save_outcome {
    int64_t step;
    ls_status status; /* on rank 0 with a message in `text` */
    double seconds;   /* until it was on disk */
    bool along;       /* in the background, from a snapshot */
    double stall_s;   /* how long training waited, also for the previous save and for verification */
    char text[LS_MESSAGE_MAX];
} ls_save_outcome;

/* Store, identity and tokenizer are those of worker 0; the others may give NULL. All are borrowed. */
ls_status ls_saver_open(ls_trainer *trainer, ls_store *store, const ls_identity *identity,
                        const ls_tokenizer *tokenizer, ls_saver **out);
/* Joins this worker's thread; after a failure of the run it does not wait for other workers' parts, which may never
 * come. NULL does nothing. */
void ls_saver_close(ls_saver *saver, bool failed);

/* Collective; call after the first steps have touched their memory: allocates memory for snapshots if every machine has
 * enough. Otherwise `why` gives the reason on rank 0; it is empty on success and on other workers. */
ls_status ls_saver_prepare(ls_saver *saver, ls_save_mode mode, char why[LS_MESSAGE_MAX]);
/* Returns whether saves go to the background. */
bool ls_saver_has_snapshot(const ls_saver *saver);

/* Collective: starts a save in the background; no other may be running. Training has waited since `since_s`. `sync_fd`
 * is a file to force to disk before the checkpoint is published, or −1; it is closed here. A failure leaves nothing. */
ls_status ls_saver_begin(ls_saver *saver, double since_s, int sync_fd);
/* Returns whether this worker has started a save that has not been settled yet. Local: other workers may differ. */
bool ls_saver_is_busy(const ls_saver *saver);
/* Local: returns true once after the save has ended, with its outcome. */
bool ls_saver_look(ls_saver *saver, ls_save_outcome *out);
/* Collective: waits for the last save and returns its outcome on all workers (step −1: there was none). *news: it had
 * not been returned before. */
ls_status ls_saver_settle(ls_saver *saver, ls_save_outcome *out, bool *news);

/* Collective: a whole save, while training waits; no other may be running. */
ls_status ls_saver_save(ls_saver *saver, double since_s, int sync_fd, ls_save_outcome *out);

#endif
