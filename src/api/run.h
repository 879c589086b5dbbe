/* run.h: the fields of an ls_run (lockstep.h): what all workers share before they start, and what each of them opens.
 * The commands of the program print them. */
#ifndef LS_API_RUN_H
#define LS_API_RUN_H

#include "comm/placement.h"
#include "data/windows.h"
#include "device/choose.h"
#include "lab/verify/verify.h"
#include "run/folder/run_dir.h"
#include "run/folder/run_start.h"
#include "run/inputs/inputs.h"
#include "run/loop.h"
#include "run/progress.h"
#include "run/recover/ends.h"
#include "run/recover/left.h"

/* Of eval and generate: a model with weights, ready to run forward in this process. */
typedef struct ls_loaded {
    ls_placement placement;
    ls_device *device;
    ls_model *model;
    ls_policy policy; /* from the options, else from the run that the weights come from, else fp32 */
    ls_partition *partition;
    size_t T, micro;    /* tokens of a sequence, sequences at a time */
    ls_windows windows; /* of the last evaluation of text */
    int64_t right;      /* of the last evaluation of images */
} ls_loaded;

struct ls_run {
    /* the same in all workers */
    ls_run_setup setup;
    ls_options options; /* of this run, with those of the run before; values that were left open are filled in */
    ls_workers_options workers;
    bool launched; /* by mpirun or srun: nothing is shared before the workers run */
    ls_start start;
    ls_settings settings;
    json_t *layout_file;
    ls_layout_request request;
    ls_layout layout;
    ls_device_choice chosen;       /* what computes */
    double speeds[LS_WORKERS_MAX]; /* of the DP groups, once --shares auto has measured them */
    char *out;                     /* folder; owned */
    ls_tokenizer *tokenizer;
    ls_frame frame; /* around each document */
    ls_trainer_data data;
    ls_identity *identity;
    bool is_trial;                    /* to be compared: it has no folder */
    bool may_share;                   /* groups may be redistributed during the run (run/shares.h), */
    bool has_shares;                  /* and these are in the layout; */
    int shared_times;                 /* how often that was, */
    double shared_s;                  /* and when, by ls_clock_seconds() */
    double began_s;                   /* when this worker began */
    struct ls_run_attempts *attempts; /* of the supervisor; NULL: there is none */
    bool worked;                      /* ls_run_workers() was called */

    /* of one worker */
    ls_world *world;
    bool recovers;         /* it goes on from what the workers before it left, */
    ls_left_numbers taken; /* which was this */
    ls_recovery recovery;
    ls_ends ends; /* of a job of mpirun or srun */
    ls_device *device;
    ls_trainer *trainer;
    ls_tokens prompt; /* of samples */
    ls_loop loop;
    bool refused_resize;                    /* and said so, since the caller makes the steps */
    char identity_hash[LS_HASH_TEXT_BYTES]; /* "": not yet */
    char hint[LS_UNIT_HINT_MAX];            /* a sentence about the matrix unit, or empty */
    char agree_hint[LS_UNIT_HINT_MAX];      /* which option has other machines compute the same bits, or empty */

    /* of the first worker */
    ls_run_dir *dir;
    ls_store *store;
    ls_metrics *metrics;
    ls_identity *parent_identity;

    ls_loaded loaded; /* zeros in a training run */
};

static inline bool ls_run_is_loaded(const ls_run *run) { return run->loaded.partition != NULL; }

/* Opens a run of train for a comparison: it has no folder. */
ls_status ls_run_open_trial(const ls_run_setup *setup, ls_run **out);

/* ---- verification ------------------------------------------------------------------------------------------------ */

/* What the options of verify ask for; `fault` is where one may be kept. The caller adds its functions. */
ls_status ls_verify_request_read(const ls_options *options, ls_verify_fault *fault, ls_verify_request *out);
/* The fault of LS_FAULT_BITS, for tests; *out is left alone where there is none. */
ls_status ls_verify_read_fault(ls_verify_fault *fault, const ls_verify_fault **out);

/* ---- between the files of a run ---------------------------------------------------------------------------------- */

/* Makes the layout again after the request has changed. */
ls_status ls_run_make_layout(ls_run *run);
/* Opens text files and tokenizes those that have no tokens yet. */
ls_status ls_run_open_corpus(ls_run *run, const char *paths, ls_split split, ls_corpus **out);
/* Tokenizer, data and the identity that follows. */
ls_status ls_run_open_data(ls_run *run);
ls_status ls_run_open_folder(ls_run *run);
/* After a failure: a run that has done no step leaves nothing behind. */
void ls_run_abandon(ls_run *run);
/* Reports an event to the caller. */
ls_status ls_run_tell(const ls_run *run, ls_run_event event);

/* Compiles the missing kernels of the chosen device and reports it. Called before workers start. */
ls_status ls_run_prepare_device(ls_run *r, ls_unit unit);
/* Fails with LS_ERR_INPUT outside the function that ls_run_workers() calls. */
ls_status ls_run_check_works(const ls_run *run);

/* run_attempts.c: forks the workers, and forks them again when one is lost, up to --restarts times. True if restarts
 * are requested and the limit on shared memory leaves room for the tensors of at least one worker. */
bool ls_run_is_supervised(const ls_run *run);
ls_status ls_run_supervise(ls_run *run, ls_worker_fn fn, void *arg);

/* loaded.c: the model of eval or generate, and how well it predicts. */
ls_status ls_run_load(ls_run *run);
ls_status ls_run_score(ls_run *run, ls_evaluation *out);
void ls_run_unload(ls_run *run);

/* generate.c: a prompt as ids; at least one. NULL: an empty one. */
ls_status ls_run_encode(const ls_run *run, const char *text, ls_tokens *out);
ls_generate_options ls_generate_options_from(const ls_options *options);

#endif
