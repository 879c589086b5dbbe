/* run.h: the fields of an ls_run (lockstep.h), shared by the files of this folder. A training run has two phases: the
 * parent fills the first part of the struct and forks the workers, which inherit it; each worker then opens the rest
 * for itself, and rank 0 also the folder. A run of eval or generate is one process and uses `loaded` instead. The
 * commands of the program read the fields to print them. */
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

/* Of a run of eval or generate: a model with weights, ready to run forward in this process; zeros in a training run. */
typedef struct ls_loaded {
    ls_placement placement; /* cores of the threads */
    ls_device *device;
    ls_model *model;
    ls_policy policy; /* from the options, else from the run that the weights come from, else fp32 */
    ls_partition *partition;
    size_t T, micro;    /* tokens of a sequence, and sequences of a micro-batch */
    ls_windows windows; /* of the last evaluation of text */
    int64_t right;      /* images of the last evaluation whose class was predicted correctly */
} ls_loaded;

struct ls_run {
    /* the same in all workers */
    ls_run_setup setup;
    ls_options options; /* of this run, with those of the run before; values that were left open are filled in */
    ls_workers_options workers;
    bool launched;  /* by mpirun or srun: workers inherit nothing, and each opens everything */
    ls_start start; /* where the model begins: its shape, and the source of its weights, if any */
    ls_settings settings;
    json_t *layout_file;           /* of --layout; the request borrows texts from it; NULL: none */
    ls_layout_request request;     /* the layout as far as options and file fix it */
    ls_layout layout;              /* the one that is used, made from the request */
    ls_device_choice chosen;       /* the kind of device that computes */
    double speeds[LS_WORKERS_MAX]; /* of the replicas (index dp), once --shares auto has measured them */
    char *out;                     /* folder; owned */
    ls_tokenizer *tokenizer;
    ls_frame frame; /* tokens before and after each document */
    ls_trainer_data data;
    ls_identity *identity; /* what can change the result: the options of which --resume requires the same values */
    bool is_trial;         /* made for a comparison (verify): without a folder, and without a supervisor */
    bool may_share;        /* groups may be redistributed during the run (run/shares.h) */
    bool has_shares;       /* they were redistributed, and `layout` has the new shares */
    int shared_times;      /* number of redistributions so far */
    double shared_s;       /* time of the last one, by ls_clock_seconds() */
    double began_s;        /* when this worker began, by ls_clock_seconds() */
    struct ls_run_attempts *attempts; /* of the supervisor, which workers inherit; NULL: none */
    bool worked;                      /* ls_run_workers() was called */

    /* of one worker */
    ls_world *world;
    bool recovers; /* continues from the state that previous workers left, or, if that is unusable, a checkpoint */
    ls_left_numbers taken; /* its numbers; from a checkpoint only saved_step and settled */
    ls_recovery recovery;
    ls_ends ends; /* of a job of mpirun or srun: records why a worker ended */
    ls_device *device;
    ls_trainer *trainer; /* NULL outside the function that ls_run_workers() calls */
    ls_tokens prompt;    /* of the samples that --sample-every generates */
    ls_loop loop;
    bool refused_resize;                    /* a resize was refused, because the caller makes the steps */
    char identity_hash[LS_HASH_TEXT_BYTES]; /* "": not yet */
    char hint[LS_UNIT_HINT_MAX];            /* a sentence about the matrix unit, or empty */
    char agree_hint[LS_UNIT_HINT_MAX];      /* which option makes other machines compute the same bits, or empty */

    /* used by rank 0 alone; forked workers may inherit `dir` from the parent */
    ls_run_dir *dir;
    ls_store *store;
    ls_metrics *metrics;
    ls_identity *parent_identity; /* of the run that this one was forked from, in every worker; NULL: no fork */

    ls_loaded loaded; /* zeros in a training run */
};

/* Returns whether the run is one of eval or generate. */
static inline bool ls_run_is_loaded(const ls_run *run) { return run->loaded.partition != NULL; }

/* Opens a run of train as ls_run_open() does, but without a folder and without a supervisor, to compare its results
 * with another layout's. */
ls_status ls_run_open_trial(const ls_run_setup *setup, ls_run **out);

/* ---- verification ------------------------------------------------------------------------------------------------ */

/* Fills the request from the options of "verify", all but the callbacks. `fault` is memory for the fault of
 * LS_FAULT_BITS (planted by tests), and must live as long as the request. */
ls_status ls_verify_request_read(const ls_options *options, ls_verify_fault *fault, ls_verify_request *out);
/* Reads the fault that tests plant with the environment variable LS_FAULT_BITS into `fault`, and points *out to it; if
 * it is not set, both stay unchanged. */
ls_status ls_verify_read_fault(ls_verify_fault *fault, const ls_verify_fault **out);

/* ---- between the files of a run ---------------------------------------------------------------------------------- */

/* Makes run->layout from run->request; to be called again after each change of the request. LS_ERR_INPUT if no legal
 * layout matches. */
ls_status ls_run_make_layout(ls_run *run);
/* Opens the text and token files of a list of paths as one corpus; tokenizes texts that are not in the cache, and
 * reports that. `split` selects training or validation files of folders. The caller closes *out. */
ls_status ls_run_open_corpus(ls_run *run, const char *paths, ls_split split, ls_corpus **out);
/* Opens the tokenizer and all data into run->tokenizer and run->data, and makes run->identity, which depends on them.
 * May take long: texts that are not in the cache are tokenized. */
ls_status ls_run_open_data(ls_run *run);
/* Opens the run directory into run->dir and locks it: --out, new or resumed; without --out, creates the first free
 * runs/MODEL-N and sets run->out to it. */
ls_status ls_run_open_folder(ls_run *run);
/* Closes run->dir after a failure, and removes the directory if the run has made no step. Does nothing without one. */
void ls_run_abandon(ls_run *run);
/* Passes an event to the callback of the setup, if there is one, and returns its status: not LS_OK ends the run. */
ls_status ls_run_tell(const ls_run *run, ls_run_event event);

/* Compiles the kernels that the chosen device and matrix unit need and that are not cached, and reports it. Called
 * before workers start. */
ls_status ls_run_prepare_device(ls_run *r, ls_unit unit);
/* Fails with LS_ERR_INPUT unless called inside the function that ls_run_workers() calls. */
ls_status ls_run_check_works(const ls_run *run);

/* ---- run_attempts.c ---------------------------------------------------------------------------------------------- */

/* Returns whether the parent supervises the workers and restarts lost ones: with --restarts above 0, unless a single
 * worker that would not be forked runs under a limit on files or address space, which shared memory would exceed; that
 * is logged. */
bool ls_run_is_supervised(const ls_run *run);
/* Forks the workers, each of which calls `fn`, and forks them again when one is lost or has wrong numbers, up to
 * --restarts times in all, and when the run is resized or its groups are redistributed, as often as that happens. Opens
 * the run directory in this process first. Returns when the last set of workers has ended. */
ls_status ls_run_supervise(ls_run *run, ls_worker_fn fn, void *arg);

/* ---- loaded.c and generate.c: runs of eval and generate ---------------------------------------------------------- */

/* Loads model, weights and device of eval or generate into run->loaded. ls_run_unload() releases it, also after a
 * failure. */
ls_status ls_run_load(ls_run *run);
/* Evaluates the model of eval on all its data: every token but the first is scored once, in windows that overlap if
 * --stride is below --seq (data/windows.h); of an image model, the test images. The loss is exact: it does not depend
 * on micro-batch or threads. */
ls_status ls_run_score(ls_run *run, ls_evaluation *out);
void ls_run_unload(ls_run *run);

/* Appends the ids of a prompt to `out`, after the tokens that a document of this model begins with; at least one id,
 * also for an empty text or NULL. Special tokens in the text count only in a loaded model. */
ls_status ls_run_encode(const ls_run *run, const char *text, ls_tokens *out);
/* Returns the options of sampling (temperature, top-k, top-p, seed, limit, cache); the caller sets the tokenizer. */
ls_generate_options ls_generate_options_from(const ls_options *options);

#endif
