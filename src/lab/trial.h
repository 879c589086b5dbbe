/* trial.h: some steps of training under a layout, in workers of their own: what verify and scale are made of. */
#ifndef LS_LAB_TRIAL_H
#define LS_LAB_TRIAL_H

#include "lab/lab_model.h"

/* Where trials run: in processes that are forked for each of them, or in those that a launcher has started, which then
 * make every call together. */
typedef struct ls_trial_place {
    const ls_options *options;
    ls_world *world; /* the launcher's; NULL: forked */
} ls_trial_place;

/* Which kernels the workers use. */
typedef enum ls_trial_isa {
    LS_TRIAL_NATIVE, /* the best there are */
    LS_TRIAL_PORTABLE,
    LS_TRIAL_MIXED, /* others on every worker, as far as the machine has them */
    LS_TRIAL_ISAS
} ls_trial_isa;

typedef struct ls_trial {
    const ls_settings *settings;
    ls_trainer_data data;
    ls_weights *weights; /* to begin with; NULL: from the seed */
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
/* Whether this process tells the user. */
bool ls_trial_is_first(const ls_trial_place *place);
/* Starts the workers of the layout. Of a launcher's workers one works alone where the layout has one, and the others
 * wait. */
ls_status ls_trial_run(const ls_trial_place *place, const ls_trial *trial);
/* The same in workers that are there: what each of them does. World NULL: one worker alone. */
ls_status ls_trial_work(const ls_trial *trial, ls_world *world, ls_device *device);

/* "portable" */
const char *ls_trial_isa_name(ls_trial_isa isa);

/* calloc() and free() of memory that forked processes share with this one: what the workers write there, the caller of
 * ls_trial_run() reads. */
void *ls_trial_alloc(size_t count, size_t bytes);
void ls_trial_free(void *memory);

#endif
