/* run.h: the fields of an ls_run (lockstep.h), the interface between the files of this folder. The parent fills the
 * first part before it forks the workers, which inherit it; each worker opens the rest for itself. The commands of the
 * program print them. */
#ifndef LS_API_RUN_H
#define LS_API_RUN_H

#include "comm/launch/placement.h"
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
    bool launched; /* by mpirun or srun: workers inherit nothing, each opens all */
    ls_start start;
    ls_settings settings;
    json_t *layout_file;
    ls_layout_request request;
    ls_layout layout;
    ls_device_choice chosen;       /* the kind of device that computes */
    double speeds[LS_WORKERS_MAX]; /* of the DP groups, once --shares auto has measured them */
    char *out;                     /* folder; owned */
    ls_tokenizer *tokenizer;
    ls_frame frame; /* around each document */
    ls_trainer_data data;
    ls_identity *identity;
    bool is_trial;                    /* made for a comparison, without a folder */
    bool may_share;                   /* groups may be redistributed during the run (run/shares.h) */
    bool has_shares;                  /* they were, and the layout has the new shares */
    int shared_times;                 /* number of redistributions */
    double shared_s;                  /* time of the last one, by ls_clock_seconds() */
    double began_s;                   /* when this worker began */
    struct ls_run_attempts *attempts; /* of the supervisor; NULL: there is none */
    bool worked;                      /* ls_run_workers() was called */

    /* of one worker */
    ls_world *world;
    bool recovers;         /* it continues from the state that the previous workers left */
    ls_left_numbers taken; /* the numbers in that state */
    ls_recovery recovery;
    ls_ends ends; /* of a job of mpirun or srun */
    ls_device *device;
    ls_trainer *trainer;
    ls_tokens prompt; /* of samples */
    ls_loop loop;
    bool refused_resize;                    /* a resize was refused, because the caller makes the steps */
    char identity_hash[LS_HASH_TEXT_BYTES]; /* "": not yet */
    char hint[LS_UNIT_HINT_MAX];            /* a sentence about the matrix unit, or empty */
    char agree_hint[LS_UNIT_HINT_MAX];      /* which option makes other machines compute the same bits, or empty */

    /* of the first worker */
    ls_run_dir *dir;
    ls_store *store;
    ls_metrics *metrics;
    ls_identity *parent_identity;

    ls_loaded loaded; /* zeros in a training run */
};

/* Returns whether the run is one of eval or generate. */
static inline bool ls_run_is_loaded(const ls_run *run) { return run->loaded.partition != NULL; }

/* Opens a run of train for a comparison, without a folder. */
ls_status ls_run_open_trial(const ls_run_setup *setup, ls_run **out);

/* ---- verification ------------------------------------------------------------------------------------------------ */

/* Fills the request from the options of verify, all but the caller's functions. `fault` is memory for one of
 * LS_FAULT_BITS, and must live as long as the request. */
ls_status ls_verify_request_read(const ls_options *options, ls_verify_fault *fault, ls_verify_request *out);
/* Reads the fault of LS_FAULT_BITS, for tests, into `fault`, and points *out to it; none: leaves *out unchanged. */
ls_status ls_verify_read_fault(ls_verify_fault *fault, const ls_verify_fault **out);

/* ---- between the files of a run ---------------------------------------------------------------------------------- */

/* Makes r->layout from r->request, again after each change of it. */
ls_status ls_run_make_layout(ls_run *run);
/* Opens text and token files; tokenizes texts that are not in the cache, and reports it. */
ls_status ls_run_open_corpus(ls_run *run, const char *paths, ls_split split, ls_corpus **out);
/* Opens tokenizer and data, and makes the identity, which depends on them. */
ls_status ls_run_open_data(ls_run *run);
/* Opens the run directory, of a new or a resumed run; without --out, the first free runs/MODEL-N. */
ls_status ls_run_open_folder(ls_run *run);
/* Closes the run directory after a failure; removes it if the run has made no step. */
void ls_run_abandon(ls_run *run);
/* Reports an event to the caller, if it listens, and returns the caller's status. */
ls_status ls_run_tell(const ls_run *run, ls_run_event event);

/* Compiles the missing kernels of the chosen device and reports it. Called before workers start. */
ls_status ls_run_prepare_device(ls_run *r, ls_unit unit);
/* Fails with LS_ERR_INPUT outside the function that ls_run_workers() calls. */
ls_status ls_run_check_works(const ls_run *run);

/* ---- run_attempts.c ---------------------------------------------------------------------------------------------- */

/* Returns whether the run gets a supervisor: with --restarts above 0, unless one worker runs under a limit on files or
 * address space, which shared memory would exceed. */
bool ls_run_is_supervised(const ls_run *run);
/* Forks the workers, each of which calls `fn`, and forks them again when one is lost, up to --restarts times. */
ls_status ls_run_supervise(ls_run *run, ls_worker_fn fn, void *arg);

/* ---- loaded.c and generate.c: runs of eval and generate ---------------------------------------------------------- */

/* Loads the model with its weights into run->loaded. ls_run_unload() releases it, also after a failure. */
ls_status ls_run_load(ls_run *run);
/* Evaluates the model of eval on all its data: every token but the first is scored once, in windows that overlap if
 * --stride is below --seq (data/windows.h); of an image model, the test images. The loss is exact: it does not depend
 * on micro-batch or threads. */
ls_status ls_run_score(ls_run *run, ls_evaluation *out);
void ls_run_unload(ls_run *run);

/* Appends the ids of a prompt with the tokens before it; at least one id, also for an empty text or NULL. */
ls_status ls_run_encode(const ls_run *run, const char *text, ls_tokens *out);
/* Returns the options of sampling: temperature, top-k, top-p, seed, limit, cache. */
ls_generate_options ls_generate_options_from(const ls_options *options);

#endif
