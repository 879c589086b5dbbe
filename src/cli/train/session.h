/* session.h: a run of `lockstep train`: what all workers know before they start, and what each of them opens. */
#ifndef LS_CLI_TRAIN_SESSION_H
#define LS_CLI_TRAIN_SESSION_H

#include "run/inputs/model.h"
#include "data/text/corpus.h"
#include "data/images/images.h"
#include "run/folder/run_start.h"
#include "run/loop.h"
#include "run/folder/run_dir.h"

typedef struct ls_train_session {
    /* the same in all workers */
    const ls_options *opts;
    bool launched; /* by mpirun or srun: nothing is shared before the workers run */
    ls_start start;
    ls_settings settings;
    json_t *layout_file;
    ls_layout_request request;
    ls_layout layout;
    double speeds[LS_WORKERS_MAX]; /* of the dp rows, once --shares auto has measured them */
    char *out;                     /* owned */
    ls_tokenizer *tokenizer;
    ls_frame frame; /* around each document */
    ls_corpus *corpus, *val_corpus;
    ls_images *images, *val_images; /* of a model of images, in the place of tokenizer and corpora */
    ls_augment augment;
    ls_identity *identity;

    /* of one worker */
    ls_device *device;
    ls_trainer *trainer;
    ls_tokens prompt;

    /* of the first worker */
    ls_run_dir *dir;
    ls_store *store;
    ls_metrics *metrics;
    ls_identity *parent_identity;
} ls_train_session;

/* From options to everything that needs no workers: model, settings, layout. `pinned` gets values that were left open.
 */
ls_status ls_train_session_open(ls_train_session *session, ls_options *pinned);
/* The layout that the request gives, again after the request has changed. */
ls_status ls_train_session_layout(ls_train_session *session);
/* Tokenizer, data and the identity that follows. */
ls_status ls_train_session_data(ls_train_session *session);
ls_status ls_train_session_dir(ls_train_session *session);
/* After a failure: a run that has done no step leaves nothing behind. */
void ls_train_session_abandon(ls_train_session *session);
void ls_train_session_close(ls_train_session *session);

/* What each worker does; `session` is a ls_train_session (train_worker.c). */
ls_status ls_train_worker(ls_world *world, void *session);

#endif
