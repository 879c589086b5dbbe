/* image.h: --data and --augment of models of images. */
#ifndef LS_RUN_INPUTS_IMAGE_H
#define LS_RUN_INPUTS_IMAGE_H

#include "config/options.h"
#include "data/images/images.h"
#include "nn/shape.h"

/* --augment, of a model that sees images. */
ls_status ls_image_option_augment(const ls_options *options, const ls_shape *shape, ls_augment *out);
/* Images of a size that the model sees, or `larger` where a part of them is taken; `source` NULL: drawings, which have
 * that size. `count`: only the first so many; 0: all. */
ls_status ls_image_option_open(const char *source, const ls_shape *shape, bool larger, ls_images_part part,
                               uint64_t count, ls_images **out);
/* What own data must be for the model: its size, channels and classes. */
ls_images_about ls_image_option_about(const ls_shape *shape);
/* LS_ERR_INPUT where a flag is for the other kind of model. */
ls_status ls_image_option_check(const ls_options *options, const ls_shape *shape);
/* LS_ERR_INPUT where the model sees images: `what` is not for them. */
ls_status ls_image_option_refuse(const ls_shape *shape, const char *what);

#endif
