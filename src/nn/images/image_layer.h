/* image_layer.h: what blocks of image models have in common: activation, and memory for it. */
#ifndef LS_NN_IMAGES_IMAGE_LAYER_H
#define LS_NN_IMAGES_IMAGE_LAYER_H

#include "nn/block.h"

/* State of a layer: a convolution or a linear layer with an activation. */
typedef struct ls_image_saved {
    float *act;     /* [images][…] what the activation gives, before pooling */
    uint32_t *taps; /* where each window of the pooling had its maximum */
} ls_image_saved;

/* Gradient in front of the activation: [images][…]; between the phases of backward, and while a block runs. */
typedef struct ls_image_grads {
    float *dpre;
} ls_image_grads;

/* The parameters of a block: a weight and a bias. */
static inline ls_param *ls_image_weight(ls_block *block) { return ls_block_param(block, LS_ROLE_WEIGHT); }
static inline ls_param *ls_image_bias(ls_block *block) { return ls_block_param(block, LS_ROLE_BIAS); }
/* The block's input: images, in the first. */
static inline const float *ls_image_input(const ls_nn *nn, const float *x) { return x ? x : nn->images; }

/* A weight of `outputs` chains over `inputs` numbers, and a bias of zeros. The initial values suit the activation: a
 * deviation of √(2 / inputs) for ReLU (He et al. 2015), √(1 / inputs) for others. */
void ls_image_declare(ls_block *block, size_t outputs, size_t inputs);

/* In place, n numbers. */
ls_status ls_image_act_forward(const ls_nn *nn, ls_image_act act, float *y, size_t n);
/* dx from dy and the activation's result; dx may be dy. Without an activation a copy, where it is another place. */
ls_status ls_image_act_backward(const ls_nn *nn, ls_image_act act, float *dx, const float *dy, const float *y,
                                size_t n);

/* Calls with their sizes; pointers are the caller's. The pooling is the block's, of nn's images of this extent, with
 * `taps` for its maxima. */
ls_conv_call ls_image_conv(ls_extent in, size_t channels, const ls_window *window, size_t images);
ls_pooling_call ls_image_pooling(const ls_block *block, const ls_nn *nn, ls_extent in, uint32_t *taps);
/* A step of the gradient of a convolution's weight; `call` has its sizes, x and dy of the step, whose positions are so
 * many for each image. */
ls_status ls_image_conv_grad(const ls_nn *nn, const ls_param *w, const ls_grad_step *step, size_t positions,
                             ls_conv_call call);

/* For the whole batch of a block with `elems` numbers an image. */
float *ls_image_take(const ls_nn *nn, ls_arena *arena, const char *kind, size_t elems);
/* The state above, as the table of a kind wants it. */
void ls_image_carve_saved(const ls_block *block, void *saved, const ls_nn *nn, unsigned parts, ls_arena *arena);
void ls_image_carve_kept(const ls_block *block, void *kept, const ls_nn *nn, ls_arena *arena);
void ls_image_carve_scratch(const ls_block *block, void *scratch, ls_scratch *shared, const ls_nn *nn,
                            bool for_backward, ls_arena *arena);

#endif
