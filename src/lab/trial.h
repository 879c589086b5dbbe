/* trial.h: a few training steps under a layout, in new workers: the unit of work of verify and scale. */
#ifndef LS_LAB_TRIAL_H
#define LS_LAB_TRIAL_H

#include "lab/lab_model.h"

/* Where trials run: in processes forked for each trial, or in the processes of a launcher, all of which then make every
 * call together. */
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
    int threads; /* of each worker; 0: the cores shared out; a launcher's workers have the threads that they have */
    ls_trial_isa isa;
    bool traced; /* into the file of --trace */
    /* The steps: all workers of the layout call it together, with a trainer that has the weights to begin with. What it
     * leaves behind has to lie in shared memory. */
    ls_status (*steps)(ls_trainer *trainer, void *ctx);
    void *ctx;
} ls_trial;

ls_trial ls_trial_make(const ls_lab_model *one, const ls_layout *layout, int threads);
/* Whether this process prints results. */
bool ls_trial_is_first(const ls_trial_place *place);
/* Runs the trial in the workers of the layout. If the layout has one worker, one of the launcher's workers runs it and
 * the others wait. */
ls_status ls_trial_run(const ls_trial_place *place, const ls_trial *trial);
/* The same in workers that are there: what each of them does. World NULL: one worker alone. */
ls_status ls_trial_work(const ls_trial *trial, ls_world *world, ls_device *device);

/* "portable" */
const char *ls_trial_isa_name(ls_trial_isa isa);

/* calloc() and free() of memory that forked processes share with this one: the caller of ls_trial_run() reads there
 * what the workers wrote. */
void *ls_trial_alloc(size_t count, size_t bytes);
void ls_trial_free(void *memory);

#endif
