/* fill.c: fills batches of floats from the bytes of images, with augmentation; see images.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/images/sources.h"

/* The rectangle of an image that goes into the batch; its rows and columns may be outside the image, which gives
 * black pixels. */
typedef struct window {
    int64_t top, left;
    uint32_t height, width;
    bool is_mirrored;
} window;

/* Returns the size of an image as bytes [channels][height][width]. */
static size_t image_bytes(const ls_images_about *about) {
    return (size_t)about->channels * about->height * about->width;
}

/* Reads an image of the caller's own data by its callback, and checks the label. */
static ls_status ask_source(const ls_images *images, uint64_t index, uint8_t *pixels, int32_t *label) {
    LS_TRY(images->source->image(images->source->ctx, index, pixels, label));
    if (*label >= 0 && (uint32_t)*label < images->about.classes) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the caller's data: image %" PRIu64 " has class %" PRId32 ", but there are %" PRIu32,
                   index, *label, images->about.classes);
}

/* Returns the stored pixels of image `index`. `scratch` is for drawings (ls_drawings_get()). Reading those of a file
 * may raise SIGBUS, so callers run under ls_map_guard(). */
static const uint8_t *pixels_of(const ls_images *images, uint64_t index, uint8_t scratch[LS_DRAWINGS_BYTES_MAX]) {
    if (images->drawings) return ls_drawings_get(images->drawings, index, scratch);
    const ls_images_piece *piece = images->pieces;
    for (; index >= piece->count; piece++) index -= piece->count;
    assert(piece < images->pieces + images->piece_count);
    return piece->pixels + index * piece->stride_bytes;
}

/* Returns the class of image `index`; not for the caller's own data. */
static int32_t label_of(const ls_images *images, uint64_t index) {
    return images->drawings ? (int32_t)(index % LS_DRAWINGS_KINDS) : images->labels[index];
}

/* Fails for an image beyond the end. */
static ls_status check_index(const ls_images *images, uint64_t index) {
    if (index < images->about.count) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "there are %" PRIu64 " images: number %" PRIu64 " is not there", images->about.count,
                   index);
}

ls_status ls_images_pixels(const ls_images *images, uint64_t index, uint8_t *out, int32_t *label) {
    uint8_t scratch[LS_DRAWINGS_BYTES_MAX];
    const ls_images_about *about = &images->about;
    LS_TRY(check_index(images, index));
    if (images->source) return ask_source(images, index, out, label);
    memcpy(out, pixels_of(images, index, scratch), image_bytes(about));
    *label = label_of(images, index);
    return LS_OK;
}

/* Arguments of the functions that run under ls_map_guard(), which turns a truncated file into an error. */
typedef struct reading {
    const ls_images *images;
    ls_hash_stream *stream;
    const uint64_t *index;
    size_t n;
    const ls_augment *augment;
    ls_images_layout layout;
    float *out;
    int32_t *labels;
} reading;

/* Adds label and pixels of every image to the stream. Runs under ls_map_guard(). */
static ls_status hash_guarded(void *ctx) {
    const reading *r = ctx;
    const ls_images_about *about = &r->images->about;
    for (uint64_t i = 0; i < about->count; i++) {
        uint32_t label = (uint32_t)label_of(r->images, i);
        uint8_t bytes[4] = {(uint8_t)label, (uint8_t)(label >> 8), (uint8_t)(label >> 16), (uint8_t)(label >> 24)};
        ls_hash_stream_add(r->stream, bytes, sizeof bytes);
        ls_hash_stream_add(r->stream, pixels_of(r->images, i, NULL), image_bytes(about));
    }
    return LS_OK;
}

ls_status ls_images_hash(const ls_images *images, ls_hash128 *out) {
    const ls_images_about *about = &images->about;
    char head[256];
    int length = snprintf(head, sizeof head, "images %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32,
                          about->count, about->channels, about->height, about->width, about->classes);
    if (images->drawings) {
        const ls_drawing_spec *spec = ls_drawings_get_spec(images->drawings);
        length += snprintf(head + length, sizeof head - (size_t)length, " drawings %d %" PRIu64 " %" PRIu32,
                           LS_DRAWINGS_VERSION, spec->seed, spec->part);
        *out = ls_hash_bytes(head, (size_t)length);
        return LS_OK;
    }
    reading r = {.images = images, .stream = ls_hash_stream_create()};
    if (!r.stream) return ls_fail(LS_ERR_RESOURCE, "no memory to hash images");
    ls_hash_stream_add(r.stream, head, (size_t)length);
    ls_status status = ls_map_guard(hash_guarded, &r);
    *out = ls_hash_stream_value(r.stream);
    ls_hash_stream_destroy(r.stream);
    return status;
}

/* ---- augmentation ------------------------------------------------------------------------------------------------ */

ls_status ls_augment_size(const ls_images *images, const ls_augment *augment, uint32_t *height, uint32_t *width) {
    const ls_images_about *about = &images->about;
    *height = about->height;
    *width = about->width;
    if (!augment) return LS_OK;
    if (augment->pad > LS_IMAGES_SIDE_MAX)
        return ls_fail(LS_ERR_INPUT, "%" PRIu32 " pixels of padding are too many: %d is the most", augment->pad,
                       LS_IMAGES_SIDE_MAX);
    if (augment->crop > about->height + 2 * augment->pad || augment->crop > about->width + 2 * augment->pad)
        return ls_fail(LS_ERR_INPUT,
                       "a crop of %" PRIu32 " pixels does not fit: images have %" PRIu32 " × %" PRIu32 " and %" PRIu32
                       " of padding on each side",
                       augment->crop, about->width, about->height, augment->pad);
    if (augment->crop) *height = *width = augment->crop;
    return LS_OK;
}

/* Scales 32 random bits to 0 … spare. */
static uint32_t scale_random(uint32_t word, uint32_t spare) { return (uint32_t)((uint64_t)word * (spare + 1) >> 32); }

/* Chooses the rectangle of image `index`, of height × width, that goes into the batch: by random numbers, or with
 * `fixed` the middle. */
static window choose_window(const ls_images_about *about, const ls_augment *augment, uint64_t index, uint32_t height,
                            uint32_t width) {
    window w = {.height = height, .width = width};
    if (!augment) return w;
    uint32_t rows = about->height + 2 * augment->pad - height, columns = about->width + 2 * augment->pad - width;
    uint32_t word[4], top = rows / 2, left = columns / 2;
    if (!augment->fixed) {
        ls_rng_u32x4(ls_rng_key_make(augment->seed, LS_RNG_PURPOSE_AUGMENT, augment->step), index, word);
        top = scale_random(word[1], rows);
        left = scale_random(word[2], columns);
        w.is_mirrored = augment->flip && word[0] >> 31;
    }
    w.top = (int64_t)top - augment->pad;
    w.left = (int64_t)left - augment->pad;
    return w;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* Fills a row of one channel, out[x·step], with normalized values. Pixels outside the image are black; `row` is NULL
 * if all are. */
static void fill_row(const uint8_t *row, uint32_t row_width, const float value[256], const window *w, size_t step,
                     float *out) {
    for (uint32_t x = 0; x < w->width; x++) {
        int64_t from = w->left + (w->is_mirrored ? w->width - 1 - x : x);
        out[x * step] = value[row && from >= 0 && from < row_width ? row[from] : 0];
    }
}

/* Fills one image of the batch: the window of the pixels, normalized. */
static void fill_image(const ls_images *images, const uint8_t *pixels, const window *w, ls_images_layout layout,
                       float *out) {
    const ls_images_about *about = &images->about;
    size_t plane = (size_t)about->height * about->width, step = layout == LS_IMAGES_NHWC ? about->channels : 1;
    for (uint32_t c = 0; c < about->channels; c++) {
        float *base = layout == LS_IMAGES_NHWC ? out + c : out + c * (size_t)w->height * w->width;
        for (uint32_t y = 0; y < w->height; y++) {
            int64_t from = w->top + y;
            bool is_inside = from >= 0 && from < about->height;
            const uint8_t *row = is_inside ? pixels + c * plane + (size_t)from * about->width : NULL;
            fill_row(row, about->width, images->value[c], w, step, base + (size_t)y * w->width * step);
        }
    }
}

/* Fills the batch. `own` is scratch memory for an image of the caller's own data; NULL for other sources. */
static ls_status fill_all(const reading *r, uint8_t *own) {
    const ls_images *images = r->images;
    uint8_t scratch[LS_DRAWINGS_BYTES_MAX];
    uint32_t height, width;
    int32_t label;
    LS_TRY(ls_augment_size(images, r->augment, &height, &width));
    size_t elems = (size_t)height * width * images->about.channels;
    for (size_t i = 0; i < r->n; i++) {
        uint64_t index = r->index[i];
        LS_TRY(check_index(images, index));
        window w = choose_window(&images->about, r->augment, index, height, width);
        if (own) LS_TRY(ask_source(images, index, own, &label));
        const uint8_t *pixels = own ? own : r->out ? pixels_of(images, index, scratch) : NULL;
        if (r->out) fill_image(images, pixels, &w, r->layout, r->out + i * elems);
        if (r->labels) r->labels[i] = own ? label : label_of(images, index);
    }
    return LS_OK;
}

/* Fills the batch from files or drawings. Runs under ls_map_guard(). */
static ls_status fill_guarded(void *ctx) { return fill_all(ctx, NULL); }

/* Fills the batch from the caller's own data, without a guard, because no file is mapped. */
static ls_status fill_own(const reading *r) {
    uint8_t *own = malloc(image_bytes(&r->images->about));
    ls_status status = own ? fill_all(r, own) : ls_fail(LS_ERR_RESOURCE, "out of memory for an image");
    free(own);
    return status;
}

ls_status ls_images_fill(const ls_images *images, const uint64_t *index, size_t n, const ls_augment *augment,
                         ls_images_layout layout, float *out, int32_t *labels) {
    reading r = {
        .images = images, .index = index, .n = n, .augment = augment, .layout = layout, .out = out, .labels = labels};
    if (images->source) return fill_own(&r);
    LS_TRY(ls_map_guard(fill_guarded, &r));
    for (size_t i = 0; i < images->piece_count; i++) LS_TRY(ls_map_check(&images->pieces[i].map));
    return LS_OK;
}
