/* image_blocks.c: from the shape of an image model to its blocks. */
#include "model/image_blocks.h"

#include <stdio.h>

enum { RESNET_STEM = 64, RESNET_BLOCKS = 8 };
enum { LENET_BLOCKS = 5, LENET_FC1 = 120, LENET_FC2 = 84 };

/* Returns the extent of a row of `elems` elements. */
static ls_extent flat(size_t elems) { return (ls_extent){.height = 1, .width = 1, .channels = elems}; }

/* Returns a square window with equal stride and padding in both directions. */
static ls_window square(size_t kernel, size_t stride, size_t pad) {
    return (ls_window){kernel, kernel, stride, stride, pad, pad};
}

/* Returns the extent behind a convolution or pooling with this window. */
static ls_extent through(ls_window window, ls_extent in, size_t channels) {
    return (ls_extent){ls_window_rows(&window, in.height), ls_window_columns(&window, in.width), channels};
}

/* Sets kind, label and widths of a block whose layer is set. A classifier's output counts as wide as its input,
 * because its gradient is that of its input. */
static void settle(ls_block *block, const ls_block_kind *kind, const char *stem, int number) {
    const ls_image_layer *layer = &block->image;
    block->kind = kind;
    snprintf(block->label, sizeof block->label, "%s%d", stem, number);
    block->in = ls_extent_elems(layer->in);
    block->out = kind == &ls_block_classifier ? block->in : ls_extent_elems(layer->out);
}

/* Makes the block of a convolution with activation and 2×2 pooling; returns its output extent. */
static ls_extent convolve(ls_block *block, int number, ls_extent in, size_t channels, ls_window conv,
                          const ls_image_shape *image) {
    ls_window window = square(2, 2, 0);
    ls_extent mid = through(conv, in, channels);
    block->image = (ls_image_layer){.in = in,
                                    .mid = mid,
                                    .out = through(window, mid, channels),
                                    .conv = conv,
                                    .window = window,
                                    .act = image->sigmoid ? LS_IMAGE_SIGMOID : LS_IMAGE_RELU,
                                    .pool = image->sigmoid ? LS_POOL_MEAN : LS_POOL_MAX};
    settle(block, &ls_block_conv, "conv", number);
    return block->image.out;
}

/* Makes the block of a linear layer with activation; returns its output extent. */
static ls_extent connect(ls_block *block, int number, ls_extent in, size_t outputs, const ls_image_shape *image) {
    block->image = (ls_image_layer){.in = in, .mid = flat(outputs), .out = flat(outputs)};
    block->image.act = image->sigmoid ? LS_IMAGE_SIGMOID : LS_IMAGE_RELU;
    block->image.place = (uint32_t)number;
    settle(block, &ls_block_dense, "fc", number);
    return block->image.out;
}

/* Makes the last block, which maps to the classes and has the loss. */
static void classify(ls_block *block, int number, ls_extent in, size_t classes) {
    block->image = (ls_image_layer){.in = in, .mid = flat(classes), .out = flat(classes)};
    settle(block, &ls_block_classifier, "fc", number);
}

/* Returns the extent of an input image. */
static ls_extent image_of(const ls_shape *shape) {
    return (ls_extent){shape->image.height, shape->image.width, shape->image.channels};
}

/* Fills the blocks of a LeNet. */
static void lenet(ls_block *block, const ls_shape *shape) {
    ls_extent at = convolve(&block[0], 1, image_of(shape), 6, square(5, 1, 2), &shape->image);
    at = convolve(&block[1], 2, at, 16, square(5, 1, 0), &shape->image);
    at = connect(&block[2], 1, at, LENET_FC1, &shape->image);
    at = connect(&block[3], 2, at, LENET_FC2, &shape->image);
    classify(&block[4], 3, at, shape->V);
}

/* Adds a convolution with batch norm (and ReLU) to the block's list; returns its output extent. */
static ls_extent unit(ls_block *block, ls_extent in, size_t channels, ls_window window, bool relu) {
    ls_extent out = through(window, in, channels);
    block->conv_bn[block->conv_bns++] = (ls_conv_bn){.in = in, .out = out, .window = window, .relu = relu};
    return out;
}

/* Makes the first block of a ResNet; returns its output extent. */
static ls_extent stem(ls_block *block, ls_extent in, bool small) {
    ls_window pool = square(3, 2, 1);
    ls_extent mid = unit(block, in, RESNET_STEM, small ? square(3, 1, 1) : square(7, 2, 3), true);
    block->image = (ls_image_layer){.in = in, .mid = mid, .out = small ? mid : through(pool, mid, RESNET_STEM)};
    block->image.pool = small ? LS_POOL_NONE : LS_POOL_MAX;
    block->image.window = pool;
    settle(block, &ls_block_stem, "stem", 0);
    return block->image.out;
}

/* Makes a residual block, with a 1×1 convolution on the skip path if the extent changes; returns its output extent. */
static ls_extent residual(ls_block *block, int number, ls_extent in, size_t channels, size_t stride) {
    ls_extent mid = unit(block, in, channels, square(3, stride, 1), true);
    ls_extent out = unit(block, mid, channels, square(3, 1, 1), true);
    if (stride != 1 || in.channels != channels) unit(block, in, channels, square(1, stride, 0), false);
    block->image = (ls_image_layer){.in = in, .mid = mid, .out = out};
    settle(block, &ls_block_residual, "res", number);
    return out;
}

/* Fills the blocks of a ResNet-18. */
static void resnet18(ls_block *block, const ls_shape *shape) {
    ls_extent at = stem(&block[0], image_of(shape), shape->image.small);
    for (int i = 0; i < RESNET_BLOCKS; i++) {
        size_t channels = (size_t)RESNET_STEM << i / 2;
        at = residual(&block[1 + i], 1 + i, at, channels, i > 0 && i % 2 == 0 ? 2 : 1);
    }
    ls_block *last = &block[1 + RESNET_BLOCKS];
    classify(last, 1, at, shape->V);
    last->image.pool = LS_POOL_MEAN;
    last->image.window = (ls_window){at.height, at.width, 1, 1, 0, 0};
}

/* Fills the blocks of an MLP. */
static void mlp(ls_block *block, const ls_shape *shape) {
    int count = (int)shape->L + 2;
    ls_extent at = image_of(shape);
    for (int i = 0; i + 1 < count; i++) at = connect(&block[i], i + 1, at, shape->image.hidden[i], &shape->image);
    classify(&block[count - 1], count, at, shape->V);
}

/* ---- sizes that follow from the family ----------------------------------------------------------------------------
 */

/* Sets L and C of a LeNet; fails for images below 12 × 12. */
static ls_status fill_lenet(ls_shape *shape) {
    const ls_image_shape *image = &shape->image;
    if (image->height < 12 || image->width < 12)
        return ls_fail(LS_ERR_INPUT,
                       "shape '%s': images of %zu × %zu are too small for LeNet; it needs at least 12 × 12",
                       shape->name, image->height, image->width);
    shape->L = LENET_BLOCKS - 2;
    shape->C = LENET_FC2;
    return LS_OK;
}

/* Sets L and C of a ResNet-18. */
static ls_status fill_resnet18(ls_shape *shape) {
    shape->L = RESNET_BLOCKS;
    shape->C = (size_t)RESNET_STEM << 3;
    return LS_OK;
}

/* Sets L and C of an MLP by the widths of its hidden layers. */
static ls_status fill_mlp(ls_shape *shape) {
    size_t layers = 0;
    while (layers < LS_SHAPE_LAYERS_MAX && shape->image.hidden[layers] > 0) layers++;
    if (layers == 0) return ls_fail(LS_ERR_INPUT, "shape '%s': an mlp needs at least one hidden layer", shape->name);
    shape->L = layers - 1;
    shape->C = shape->image.hidden[layers - 1];
    return LS_OK;
}

/* ---- the families -------------------------------------------------------------------------------------------------
 */

static const struct {
    void (*build)(ls_block *blocks, const ls_shape *shape);
    ls_status (*fill)(ls_shape *shape); /* L and C */
} families[LS_ARCH_COUNT] = {
    [LS_ARCH_LENET] = {lenet, fill_lenet},
    [LS_ARCH_RESNET18] = {resnet18, fill_resnet18},
    [LS_ARCH_MLP] = {mlp, fill_mlp},
};

void ls_image_blocks(ls_model *model) {
    families[model->shape.arch].build(model->blocks, &model->shape);
    model->blocks[0].in = model->blocks[0].out;
}

ls_status ls_image_shape_fill(ls_shape *shape) {
    shape->T = shape->H = shape->kv_heads = shape->head_size = shape->hidden = 1;
    return families[shape->arch].fill(shape);
}
