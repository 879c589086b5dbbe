/* trial.h: runs a few training steps under a layout, in new workers: the unit of work of verify and scale. Each trial
 * has processes of its own, so that none affects the next. Forks, so no thread may have been started. */
#ifndef LS_LAB_TRIAL_H
#define LS_LAB_TRIAL_H

#include "lab/lab_model.h"

/* Where trials run: in processes forked for each trial, or in the processes of a launcher, each of which then calls
 * every function below with the same arguments (collective). */
typedef struct ls_trial_place {
    const ls_options *options;
    ls_world *world; /* the launcher's; NULL: forked */
} ls_trial_place;

/* The kernels that the workers use. */
typedef enum ls_trial_isa {
    LS_TRIAL_NATIVE, /* the most advanced of the machine */
    LS_TRIAL_PORTABLE,
    LS_TRIAL_MIXED, /* a different instruction set on every worker, as far as the machine has them */
    LS_TRIAL_ISAS
} ls_trial_isa;

typedef struct ls_trial {
    const ls_settings *settings;
    ls_trainer_data data;
    ls_weights *weights; /* initial weights; NULL: from the seed */
    ls_layout layout;
    int threads; /* of each worker; 0: the cores are divided among the workers; ignored for a launcher's workers */
    ls_trial_isa isa;
    bool traced; /* into the file of --trace */
    /* The work of a trial, a collective function: all workers of the layout call it, with a trainer that has the
     * initial weights. It must write its results to memory of ls_trial_alloc(). Only forked workers share that memory;
     * a launcher's workers each have their own, and results that the caller reads must be in that of rank 0. */
    ls_status (*steps)(ls_trainer *trainer, void *ctx);
    void *ctx;
} ls_trial;

/* Returns a trial of a model under a layout; the caller sets `steps` and `ctx`. `one` must outlive the trial. */
ls_trial ls_trial_make(const ls_lab_model *one, const ls_layout *layout, int threads);
/* Returns whether this process prints results: the only one, or process 0 of a launcher. */
bool ls_trial_is_first(const ls_trial_place *place);
/* Runs the trial in the workers of the layout and waits for them. If the layout has one worker, rank 0 of a launcher's
 * workers runs it and the others wait; without a launcher it runs in a child process. Returns the status of the trial;
 * of several workers of a launcher each returns its own. */
ls_status ls_trial_run(const ls_trial_place *place, const ls_trial *trial);
/* Runs the trial in the calling worker: creates a trainer, loads or initializes the weights, and calls `trial->steps`.
 * All workers of `world` must call it together; `world` is NULL for a single worker. */
ls_status ls_trial_work(const ls_trial *trial, ls_world *world, ls_device *device);

/* Returns the name of the choice, such as "portable". */
const char *ls_trial_isa_name(ls_trial_isa isa);

/* Allocates zeroed memory that forked processes share with this one, so that the caller of ls_trial_run() can read the
 * results of the workers. Returns NULL with errno set on failure. */
void *ls_trial_alloc(size_t count, size_t bytes);
/* Unmaps it in this process; NULL does nothing. */
void ls_trial_free(void *memory);

#endif
