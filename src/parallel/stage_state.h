/* stage_state.h: what a stage is made of; for this folder only. */
#ifndef LS_PARALLEL_STAGE_STATE_H
#define LS_PARALLEL_STAGE_STATE_H

#include "parallel/stage.h"

enum { LS_STAGE_KINDS = 3 }; /* of blocks */

struct ls_stage {
    ls_model *model;
    ls_device *device;
    ls_stage_setup setup;
    ls_arena arena;
    ls_nn nn;

    /* memory of the device */
    ls_scratch scratch[LS_STAGE_KINDS];
    float **stream; /* what each block but the head gives */
    float *d;
    int32_t *ids, *targets;
    double *squares; /* sums of blocks of one parameter */
    size_t squares_elems;
    float *rope_cos, *rope_sin;

    /* memory of the host */
    ls_grad_plan plan;
    size_t done;         /* sequences of this step that are in */
    ls_grad_step *steps; /* of one micro-batch: at most its groups and two parts of groups */
    double *host_squares;
    float *host; /* losses, logits, and pieces of tensors */
    size_t host_elems;
};

/* The layout function; `stage` has everything but memory. */
ls_status ls_stage_layout(ls_arena *arena, void *stage);

#endif
