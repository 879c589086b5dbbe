/* images.h: labelled images for training and for tests, from files or from the built-in generator.
 *
 * A source is one of
 *
 *     drawings       generated from seed and number: nothing to download (data/images/drawings.h)
 *     a folder       with MNIST's four names (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…; a dot for the
 *                    second dash and .gz behind it may be), or with CIFAR-10's data_batch_1.bin … and test_batch.bin,
 *                    or with a folder of PNG, PPM or PGM images for each class (data/images/folder.c)
 *     images,labels  a pair of IDX files, gzip or not
 *     a.bin,b.bin    files as those of CIFAR-10, in this order
 *
 * Files that are named individually serve for either part. Gzip needs zlib and PNG needs libpng; without them the error
 * names the library. Opening validates everything: sizes, labels, the bytes of every picture.
 *
 * Pixel x of channel c becomes (x/255 − mean[c]) / std[c], computed in double and rounded once. The constants belong to
 * the format, so that they do not depend on part and count:
 *
 *     drawings            mean 0.3                      std 0.15
 *     IDX                 mean 0.1307                   std 0.3081                    (of MNIST)
 *     CIFAR-10            mean 0.4914 0.4822 0.4465     std 0.2470 0.2435 0.2616
 *     folders             mean 0.5                      std 0.25
 *
 * The training order is that of ls_sampler over count + 1 "tokens" with windows of one: ls_sampler_init(&sampler, seed,
 * count + 1, 1, true). Sample i of the run is image ls_sampler_start(&sampler, i), and each image comes once per epoch.
 *
 * Training and evaluation read them (run/inputs/image.c). Opened images do not change, so any thread may fill
 * batches. */
#ifndef LS_DATA_IMAGES_IMAGES_H
#define LS_DATA_IMAGES_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

enum { LS_IMAGES_CHANNELS_MAX = 3, LS_IMAGES_SIDE_MAX = 4096 };
enum { LS_RNG_PURPOSE_AUGMENT = 0x0D03, LS_RNG_PURPOSE_DRAWING = 0x0D10 /* plus the part */ };

typedef enum ls_images_part { LS_IMAGES_TRAIN, LS_IMAGES_TEST } ls_images_part;
/* Channels last or channels first; rows from top to bottom, pixels from left to right. */
typedef enum ls_images_layout { LS_IMAGES_NHWC, LS_IMAGES_NCHW } ls_images_layout;

/* What to open; all fields but `source` may be 0. Starts as {0}, with a source. */
typedef struct ls_images_options {
    const char *source;
    ls_images_part part;
    uint64_t count;    /* use only the first images; 0: all; for drawings 60,000, and 10,000 for tests */
    uint64_t seed;     /* for drawings */
    uint32_t size;     /* drawings: 16 … 64 pixels per side, 0: 28. Files: the required size, 0: any */
    uint32_t channels; /* drawings: 1 or 3, 0: 3 from size 32 on. Files: the required number, 0: any */
    uint32_t classes;  /* IDX: labels are below it, 0: 10. Others: the required number, 0: any */
} ls_images_options;

/* What an open set is. */
typedef struct ls_images_about {
    const char *format; /* "drawings", "IDX", "CIFAR-10", "pictures", "own data" */
    uint64_t count;
    uint32_t channels, height, width, classes;
    double mean[LS_IMAGES_CHANNELS_MAX], std[LS_IMAGES_CHANNELS_MAX]; /* by channel, of x/255, for normalization */
} ls_images_about;

typedef struct ls_images ls_images;

/* Opens and validates the images. LS_ERR_INPUT names the file, the expected and the found. *out, which the caller
 * closes, is NULL on failure. `options` is not needed afterwards. */
ls_status ls_images_open(ls_images **out, const ls_images_options *options);
/* Opens the caller's own images, with the size and number of classes of `about`; mean and std are those of folders.
 * `source` is borrowed until close; its labels are checked when they are read. */
ls_status ls_images_open_source(ls_images **out, const ls_source *source, const ls_images_about *about);
/* Closes files and frees the images; NULL does nothing. */
void ls_images_close(ls_images *images);

/* Returns size, number and normalization of the images, which belong to them. */
const ls_images_about *ls_images_get_about(const ls_images *images);
/* Returns the name of class `label`: that of its folder, "ring", "airplane", or its number if the format has no
 * names. It belongs to the images. NULL beyond the last class. */
const char *ls_images_class_name(const ls_images *images, uint32_t label);
/* Computes the hash by which two runs compare their data: of shape, classes, labels and pixels in order, whatever the
 * files; reads all. For drawings it is the hash of their specification. Not for the caller's own images, whose source
 * has an identity. */
ls_status ls_images_hash(const ls_images *images, ls_hash128 *out);
/* Copies image `index` as bytes [channels][height][width], and its label. LS_ERR_INPUT beyond the end. */
ls_status ls_images_pixels(const ls_images *images, uint64_t index, uint8_t *out, int32_t *label);

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* Augmentation of training images (rule 12 of docs/reference/arithmetic.md): with w the Philox block `image number` of
 * the key (seed, LS_RNG_PURPOSE_AUGMENT, step),
 *
 *     flip        mirror left to right if w[0] ≥ 2^31
 *     pad, crop   pad the image with `pad` black pixels (x = 0) on all four sides, and take rows from y on and columns
 *                 from x on; with r spare rows and c spare columns, y = ⌊w[1]·(r+1)/2^32⌋ and x = ⌊w[2]·(c+1)/2^32⌋.
 *                 Without `crop` the result has the size of the image, which shifts it by up to `pad` pixels.
 *
 * The crop is applied before the flip. The result does not depend on worker, micro-batch or thread.
 *
 * `fixed`, for tests: take the middle (y = ⌊r/2⌋, x = ⌊c/2⌋) and never mirror. Starts as {0}: no augmentation. */
typedef struct ls_augment {
    uint64_t seed, step; /* of training, below LS_RNG_STEP_LIMIT */
    bool flip, fixed;
    uint32_t pad, crop; /* crop: rows and columns to take; 0: those of the image */
} ls_augment;

/* Computes height and width of the images after augmentation; `augment` may be NULL: none. LS_ERR_INPUT if the crop
 * does not fit, or `pad` is above LS_IMAGES_SIDE_MAX. */
ls_status ls_augment_size(const ls_images *images, const ls_augment *augment, uint32_t *height, uint32_t *width);
/* Fills a batch with images index[0 … n−1] as normalized floats, and their labels. `augment` may be NULL, and so may
 * one of `out` and `labels`. LS_ERR_INPUT beyond the end, or if a file has become shorter. */
ls_status ls_images_fill(const ls_images *images, const uint64_t *index, size_t n, const ls_augment *augment,
                         ls_images_layout layout, float *out, int32_t *labels);

#endif
