/* folder.c: see images_folder.h. Two passes: the headers of all pictures first, so that one of another size is
 * named before memory for all of them is asked for; then the pixels. */
#include "data/images/folder.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "data/images/parts.h"

ls_status ls_picture_check_size(const char *path, uint64_t width, uint64_t height) {
    if (width && height && width <= LS_IMAGES_SIDE_MAX && height <= LS_IMAGES_SIDE_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%.*s has images of %" PRIu64 " × %" PRIu64 " pixels; 1 to %d a side are read",
                   LS_IMAGES_SHOWN, path, width, height, LS_IMAGES_SIDE_MAX);
}

ls_status ls_picture_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out) {
    return (ls_png_is(data, bytes) ? ls_png_look : ls_ppm_look)(path, data, bytes, out);
}

ls_status ls_picture_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out) {
    return (ls_png_is(data, bytes) ? ls_png_decode : ls_ppm_decode)(path, data, bytes, want, out);
}

static ls_status look(const char *path, ls_picture *out) {
    ls_map file;
    LS_TRY(ls_map_open(path, &file));
    ls_status status = ls_picture_look(path, file.data, file.bytes, out);
    ls_map_close(&file);
    return status;
}

static ls_status load(const char *path, const ls_picture *want, uint8_t *out) {
    ls_map file;
    ls_picture now;
    LS_TRY(ls_map_open(path, &file));
    ls_status status = ls_picture_look(path, file.data, file.bytes, &now);
    /* Another process may have written since the first pass. */
    if (status == LS_OK && (now.width != want->width || now.height != want->height || now.channels > want->channels))
        status = ls_fail(LS_ERR_INPUT, "%.*s has changed while it was read", LS_IMAGES_SHOWN, path);
    if (status == LS_OK) status = ls_picture_decode(path, file.data, file.bytes, want, out);
    ls_map_close(&file);
    return status;
}

/* One size for all, and colour where one of them has it. */
static ls_status look_at_all(const ls_folder_list *list, size_t count, ls_picture *out) {
    LS_TRY(look(list->entries[0].path, out));
    for (size_t i = 1; i < count; i++) {
        ls_picture picture;
        LS_TRY(look(list->entries[i].path, &picture));
        if (picture.width != out->width || picture.height != out->height)
            return ls_fail(LS_ERR_INPUT,
                           "images of mixed sizes: %.*s is %" PRIu32 " × %" PRIu32 ", but %.*s is %" PRIu32
                           " × %" PRIu32 ": bring all to one size",
                           LS_IMAGES_SHOWN / 2, list->entries[0].path, out->width, out->height, LS_IMAGES_SHOWN / 2,
                           list->entries[i].path, picture.width, picture.height);
        if (picture.channels > out->channels) out->channels = picture.channels;
    }
    return LS_OK;
}

static ls_status load_all(ls_images *images, const ls_folder_list *list, size_t count, const ls_picture *picture) {
    size_t bytes = (size_t)picture->width * picture->height * picture->channels; /* at most 48 MiB */
    ls_images_piece *piece;
    if (count > SIZE_MAX / bytes) return ls_fail(LS_ERR_RESOURCE, "%zu pictures are too many for memory", count);
    LS_TRY(ls_memory_check(count * bytes));
    LS_TRY(ls_images_add_pieces(images, 1, &piece));
    uint8_t *pixels = calloc(count, bytes);
    piece->map = (ls_map){.data = pixels, .bytes = count * bytes};
    images->labels = calloc(count, sizeof *images->labels);
    if (!pixels || !images->labels) return ls_fail(LS_ERR_RESOURCE, "no memory for %zu pictures", count);
    for (size_t i = 0; i < count; i++) {
        LS_TRY(load(list->entries[i].path, picture, pixels + i * bytes));
        images->labels[i] = list->entries[i].label;
    }
    piece->pixels = pixels;
    piece->stride_bytes = bytes;
    piece->count = count;
    return LS_OK;
}

static ls_status open_list(ls_images *images, const ls_images_options *options, const ls_folder_list *list) {
    /* A count above what is there is refused later, with all that is there known. */
    size_t count = options->count && options->count < list->count ? (size_t)options->count : list->count;
    ls_picture picture;
    LS_TRY(look_at_all(list, count, &picture));
    LS_TRY(load_all(images, list, count, &picture));
    images->about = (ls_images_about){.format = "pictures",
                                      .count = count,
                                      .channels = picture.channels,
                                      .height = picture.height,
                                      .width = picture.width,
                                      .mean = {0.5, 0.5, 0.5},
                                      .std = {0.25, 0.25, 0.25}};
    return ls_images_name_classes(images, (uint32_t)list->class_count, (const char *const *)list->classes);
}

ls_status ls_images_open_folder(ls_images *images, const ls_images_options *options) {
    ls_folder_list list = {0};
    ls_status status = ls_folder_list_read(options->source, options->part, &list);
    if (status == LS_OK) status = open_list(images, options, &list);
    ls_folder_list_fini(&list);
    return status;
}
