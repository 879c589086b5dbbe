/* saver.h: saves a trainer's state while it goes on training, or while it waits.
 *
 *     begin   all workers, at a step boundary: each copies what it saves (checkpoint/snapshot.h). Training waits for
 * this and for nothing else. then    a thread of each worker writes its bytes to their places, forces them to disk, and
 * says so by a small file (checkpoint/parts.h); the first worker's collects what they say and gives the checkpoint its
 * name.
 *
 * Where the copy does not fit into memory, and where a run ends anyway, ls_saver_save() writes from the tensors
 * themselves. The files are the same bytes either way, and a checkpoint that is complete stays so whatever happens
 * here.
 *
 * One thread, but for its own. "Together": all workers make the call at the same place. */
#ifndef LS_RUN_FOLDER_SAVER_H
#define LS_RUN_FOLDER_SAVER_H

#include "checkpoint/store.h"
#include "config/choices.h"
#include "data/tokenizer/tokenizer.h"
#include "run/folder/identity.h"
#include "run/trainer.h"

typedef struct ls_saver ls_saver;

/* How a save went. */
typedef struct ls_save_outcome {
    int64_t step;
    ls_status status; /* with a message in `text`, where it is the first worker's */
    double seconds;   /* until it was on disk */
    bool along;       /* while training went on, from a copy */
    double stall_s;   /* that training waited: also for the save before, and for proof of what is saved */
    char text[LS_MESSAGE_MAX];
} ls_save_outcome;

/* Store, identity and tokenizer are those of worker 0; the others may give NULL. All are borrowed. */
ls_status ls_saver_open(ls_trainer *trainer, ls_store *store, const ls_identity *identity,
                        const ls_tokenizer *tokenizer, ls_saver **out);
/* Waits for this worker's thread; after a failure of the run not for other workers' bytes, which may never come. NULL
 * does nothing. */
void ls_saver_close(ls_saver *saver, bool failed);

/* Together, once steps have filled the memory that they need: takes memory for copies where there is enough on every
 * machine, or, `why` says it, does not. `why` is empty where all is well, and on workers but the first. */
ls_status ls_saver_prepare(ls_saver *saver, ls_save_mode mode, char why[LS_MESSAGE_MAX]);
/* Whether saves go to the background. */
bool ls_saver_has_snapshot(const ls_saver *saver);
/* What a copy takes of this worker's memory. */
size_t ls_saver_bytes(const ls_saver *saver);

/* Together: begins a save in the background. None is under way. Training waits since `since_s`. `sync_fd` is a file
 * that is forced to disk before the checkpoint counts, or −1; it is closed here. A failure leaves nothing behind. */
ls_status ls_saver_begin(ls_saver *saver, double since_s, int sync_fd);
/* Whether this worker has started a save that has not been settled yet. Local: other workers may differ. */
bool ls_saver_is_busy(const ls_saver *saver);
/* Alone: whether the save that was begun has ended; says how, once. */
bool ls_saver_look(ls_saver *saver, ls_save_outcome *out);
/* Collective: waits for the last save and returns its outcome on all workers (step −1: there was none). *news: it had
 * not been returned before. */
ls_status ls_saver_settle(ls_saver *saver, ls_save_outcome *out, bool *news);

/* Together: the whole of it. None is under way. */
ls_status ls_saver_save(ls_saver *saver, double since_s, int sync_fd, ls_save_outcome *out);

#endif
