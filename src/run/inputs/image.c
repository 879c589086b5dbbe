/* image.c: opens the images to train and evaluate on, and reads how they are augmented. */
#include "run/inputs/inputs.h"

#include <stdlib.h>
#include <string.h>

/* ---- augmentation ------------------------------------------------------------------------------------------------ */

/* Fails with LS_ERR_INPUT: --augment is malformed. */
static ls_status bad_augment(const ls_options *o) {
    return ls_options_fail(o, LS_OPT_augment,
                           "must be none, or a list of flip, shift=PIXELS and crop, e.g. flip,shift=4");
}

/* Reads "shift=4" of `length` characters; returns false for anything else. */
static bool read_shift(const char *word, size_t length, uint32_t *pixels) {
    static const char key[] = "shift=";
    char *end;
    if (length <= strlen(key) || strncmp(word, key, strlen(key)) != 0 || word[strlen(key)] < '0' ||
        word[strlen(key)] > '9')
        return false;
    unsigned long value = strtoul(word + strlen(key), &end, 10);
    *pixels = (uint32_t)value;
    return end == word + length && value >= 1 && value <= LS_IMAGES_SIDE_MAX;
}

/* Fails unless crops make sense: for a square input, and not of drawings, which are as large as the model's input. */
static ls_status check_crop(const ls_options *o, const ls_shape *shape) {
    if (shape->image.height != shape->image.width)
        return ls_options_fail(o, LS_OPT_augment, "crop needs a square input, but the input of %s is %zu × %zu pixels",
                               shape->name, shape->image.height, shape->image.width);
    if (o->data == NULL || strcmp(o->data, "drawings") == 0)
        return ls_options_fail(
            o, LS_OPT_augment,
            "drawings already have the input size of the model, so there is nothing to crop: use shift=2");
    return LS_OK;
}

ls_status ls_image_option_augment(const ls_options *o, const ls_shape *shape, ls_augment *out) {
    *out = (ls_augment){0};
    if (strcmp(o->augment, "none") == 0) return LS_OK;
    for (const char *at = o->augment;; at++) {
        size_t length = strcspn(at, ",");
        bool is_flip = length == strlen("flip") && strncmp(at, "flip", length) == 0;
        bool is_crop = length == strlen("crop") && strncmp(at, "crop", length) == 0;
        if (is_flip && !out->flip)
            out->flip = true;
        else if (is_crop && !out->crop)
            out->crop = (uint32_t)shape->image.height;
        else if (out->pad > 0 || !read_shift(at, length, &out->pad))
            return bad_augment(o);
        at += length;
        if (*at == '\0') break;
    }
    return out->crop ? check_crop(o, shape) : LS_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Fails unless the images have the size of the model's input, or, if `larger`, at least that, the same channels, and no
 * more classes. */
static ls_status check_about(const ls_shape *shape, bool larger, const char *source, const ls_images_about *about) {
    const ls_image_shape *image = &shape->image;
    bool same = about->height == image->height && about->width == image->width;
    bool holds = about->height >= image->height && about->width >= image->width;
    bool suits = about->channels == image->channels && about->classes <= shape->V;
    if (suits && (same || (larger && holds))) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "%s has images of %u × %u pixels, %u channels and %u classes; the input of %s is %zu × %zu pixels, "
                   "%zu channels and %zu classes: use a shape file with matching numbers as --model%s",
                   source, about->height, about->width, about->channels, about->classes, shape->name, image->height,
                   image->width, image->channels, shape->V,
                   suits && holds ? ", or crop the images with --augment crop" : "");
}

ls_status ls_image_option_open(const char *source, const ls_shape *shape, bool larger, ls_images_part part,
                               uint64_t count, ls_images **out) {
    bool drawn = !source || strcmp(source, "drawings") == 0;
    ls_images_options options = {.source = drawn ? "drawings" : source, .part = part, .count = count};
    if (drawn) {
        options.size = (uint32_t)shape->image.height;
        options.channels = (uint32_t)shape->image.channels;
    }
    LS_TRY(ls_images_open(out, &options));
    ls_status status = check_about(shape, larger, options.source, ls_images_get_about(*out));
    if (status == LS_OK) return LS_OK;
    ls_images_close(*out);
    *out = NULL;
    return status;
}

ls_images_about ls_image_option_about(const ls_shape *shape) {
    return (ls_images_about){.channels = (uint32_t)shape->image.channels,
                             .height = (uint32_t)shape->image.height,
                             .width = (uint32_t)shape->image.width,
                             .classes = (uint32_t)shape->V};
}

ls_status ls_image_option_check(const ls_options *o, const ls_shape *shape) {
    /* Looks at flags alone: a file of options, or the environment, may be for several models. */
    static const ls_option_id of_text[] = {LS_OPT_tokenizer, LS_OPT_text_field, LS_OPT_sample_every,
                                           LS_OPT_val_fraction};
    bool images = ls_shape_sees_images(shape);
    for (size_t i = 0; images && i < sizeof of_text / sizeof *of_text; i++)
        if (o->source[of_text[i]].origin == LS_ORIGIN_FLAG)
            return ls_options_fail(o, of_text[i], "%s is an image model and takes no text: omit this option",
                                   shape->name);
    if (!images && o->source[LS_OPT_augment].origin == LS_ORIGIN_FLAG)
        return ls_options_fail(o, LS_OPT_augment, "%s is not an image model: omit this option", shape->name);
    return LS_OK;
}

ls_status ls_image_option_refuse(const ls_shape *shape, const char *what) {
    if (!ls_shape_sees_images(shape)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is an image model: %s supports language models only", shape->name, what);
}
