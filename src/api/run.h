/* run.h: the inside of an ls_run (lockstep.h): what all workers know before they start, and what each of them opens.
 * The program's commands read it to print what they want to tell. */
#ifndef LS_API_RUN_H
#define LS_API_RUN_H

#include "api/loaded.h"
#include "lab/verify/verify.h"
#include "run/folder/run_dir.h"
#include "run/folder/run_start.h"
#include "run/inputs/model.h"
#include "run/loop.h"
#include "run/progress/unit_hint.h"

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
    double speeds[LS_WORKERS_MAX]; /* of the DP groups, once --shares auto has measured them */
    char *out;                     /* folder; owned */
    ls_tokenizer *tokenizer;
    ls_frame frame; /* around each document */
    ls_trainer_data data;
    ls_identity *identity;
    bool is_trial; /* to be compared: it has no folder */
    bool worked;   /* ls_run_workers() was called */

    /* of one worker */
    ls_world *world;
    ls_device *device;
    ls_trainer *trainer;
    ls_tokens prompt; /* of samples */
    ls_loop loop;
    char identity_hash[LS_HASH_TEXT_BYTES]; /* "": not yet */
    char hint[LS_UNIT_HINT_MAX];            /* a sentence about the matrix unit, or empty */

    /* of the first worker */
    ls_run_dir *dir;
    ls_store *store;
    ls_metrics *metrics;
    ls_identity *parent_identity;

    /* of eval and generate */
    ls_loaded *loaded;
};

/* A run of train that is opened to be compared, without a folder. */
ls_status ls_run_open_trial(const ls_run_setup *setup, ls_run **out);

/* ---- verification ------------------------------------------------------------------------------------------------ */

/* What the options of verify ask for; `fault` is where one may be kept. The caller adds its functions. */
ls_status ls_verify_request_read(const ls_options *options, ls_verify_fault *fault, ls_verify_request *out);
/* The fault of LS_FAULT_BITS, for tests; *out is left alone where there is none. */
ls_status ls_verify_read_fault(ls_verify_fault *fault, const ls_verify_fault **out);

/* ---- between the files of a run ---------------------------------------------------------------------------------- */

/* The layout that the request gives, again after the request has changed. */
ls_status ls_run_make_layout(ls_run *run);
/* Tokenizer, data and the identity that follows. */
ls_status ls_run_open_data(ls_run *run);
ls_status ls_run_open_folder(ls_run *run);
/* After a failure: a run that has done no step leaves nothing behind. */
void ls_run_abandon(ls_run *run);
/* One line for the caller. */
ls_status ls_run_tell(const ls_run *run, ls_run_event event);

#endif
