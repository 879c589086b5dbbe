/* image_blocks.h: image models as lists of blocks. For model.c, which builds models, and for shape files and their
 * checks, because sizes that a file does not give follow from here.
 *
 *     lenet   conv1 5×5 to 6 channels, padding 2 │ conv2 5×5 to 16 │ fc1 120 │ fc2 84 │ fc3: the classes
 *             each convolution followed by its activation and by pooling 2×2, fc1 and fc2 by their activation;
 *             ReLU and maxima, or sigmoids and means (image.sigmoid)
 *     resnet18  stem 7×7 to 64 channels, stride 2, pooling 3×3, stride 2; for small images 3×3, stride 1, no pooling │
 *             eight residual blocks of two 3×3 convolutions: 64, 64, 128, 128, 256, 256, 512, 512 channels, the third,
 *             fifth and seventh with stride 2 and a 1×1 convolution on the skip path │ mean over the image, the classes
 *     mlp     fc1, fc2, … with ReLU │ the classes */
#ifndef LS_MODEL_IMAGE_BLOCKS_H
#define LS_MODEL_IMAGE_BLOCKS_H

#include "nn/blocks.h"

/* Sets what the family decides in an image shape: L, two less than the number of its blocks, the width C in front of
 * its last block, and 1 for the members about heads and positions. LS_ERR_INPUT if the images of a LeNet are below
 * 12 × 12 pixels, or an MLP has no hidden layer. */
ls_status ls_image_shape_fill(ls_shape *shape);

/* Sets kind, label and extents of each block of a new image model, whose shape must be checked; declares no
 * parameters. */
void ls_image_blocks(ls_model *model);

#endif
