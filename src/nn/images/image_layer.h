/* image_layer.h: what blocks of image models have in common: parameters of a layer, activation, calls of convolution
 * and pooling, and memory. For the files of this folder. Image models compute in fp32, and slices do not cut them. */
#ifndef LS_NN_IMAGES_IMAGE_LAYER_H
#define LS_NN_IMAGES_IMAGE_LAYER_H

#include "nn/block.h"

/* State of a layer: a convolution or a linear layer with an activation. */
typedef struct ls_image_saved {
    float *act;     /* [images][…] what the activation gives, before pooling */
    uint32_t *taps; /* which tap of each window of a max pooling had the maximum; unset without */
} ls_image_saved;

/* Gradient in front of the activation: [images][…]; between the phases of backward, and while a block runs. */
typedef struct ls_image_grads {
    float *dpre;
} ls_image_grads;

/* Returns the weight of a layer; NULL if the block has none. */
static inline ls_param *ls_image_weight(ls_block *block) { return ls_block_param(block, LS_ROLE_WEIGHT); }
/* Returns the bias of a layer; NULL if the block has none. */
static inline ls_param *ls_image_bias(ls_block *block) { return ls_block_param(block, LS_ROLE_BIAS); }
/* Returns the block's input: x, or the images if the block is the first. */
static inline const float *ls_image_input(const ls_nn *nn, const float *x) { return x ? x : nn->input.images; }

/* Adds a weight of `outputs` × `inputs`, and a bias of zeros. The initial values suit the activation: a deviation of
 * √(2 / inputs) for ReLU (He et al. 2015), √(1 / inputs) for others. */
void ls_image_declare(ls_block *block, size_t outputs, size_t inputs);

/* Applies the activation to n numbers in place; does nothing without one (LS_IMAGE_NONE). */
ls_status ls_image_act_forward(const ls_nn *nn, ls_image_act act, float *y, size_t n);
/* Computes dx from dy and y, the result of the activation. dx may be dy. Without an activation it copies dy, if dx is
 * another tensor. */
ls_status ls_image_act_backward(const ls_nn *nn, ls_image_act act, float *dx, const float *dy, const float *y,
                                size_t n);

/* Returns the call of a convolution with its sizes; the caller sets the tensors. `in` is the extent of an input
 * image, `channels` those of the output. */
ls_conv_call ls_image_conv(ls_extent in, size_t channels, const ls_window *window, size_t images);
/* Returns the call of the block's pooling with its sizes, over nn's images of extent `in`; the caller sets the
 * tensors. It keeps the positions of its maxima in `taps`. */
ls_pooling_call ls_image_pooling(const ls_block *block, const ls_nn *nn, ls_extent in, uint32_t *taps);
/* Computes a step of the gradient of a convolution's weight, and joins it to the slots below. `call` has the sizes, x
 * and dy of the step; an output image has so many positions. */
ls_status ls_image_conv_grad(const ls_nn *nn, const ls_param *w, const ls_grad_step *step, size_t positions,
                             ls_conv_call call);

/* Takes memory from the arena for `elems` numbers of each of nn's images. */
float *ls_image_take(const ls_nn *nn, ls_arena *arena, const char *kind, size_t elems);
/* Takes memory from the arena for the output of the activation and the positions of maxima, if `parts` has
 * LS_SAVE_WIDE (ls_block_kind.carve_saved). */
void ls_image_carve_saved(const ls_block *block, void *saved, const ls_nn *nn, unsigned parts, ls_arena *arena);
/* Takes memory from the arena for the gradient that the first phase of backward leaves (ls_block_kind.carve_kept). */
void ls_image_carve_kept(const ls_block *block, void *kept, const ls_nn *nn, ls_arena *arena);
/* Takes memory from the arena for the gradient in front of the activation; nothing unless for_backward
 * (ls_block_kind.carve_scratch). */
void ls_image_carve_scratch(const ls_block *block, void *scratch, ls_scratch *shared, const ls_nn *nn,
                            bool for_backward, ls_arena *arena);

#endif
