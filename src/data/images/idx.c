/* idx.c: parses the IDX files of MNIST and similar sets: two zero bytes, the type (8: bytes), the number of dimensions,
 * each dimension as a big-endian 32-bit number, then the values, with the last dimension varying fastest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/images/sources.h"

enum { TYPE_BYTES = 8, CLASSES_DEFAULT = 10, CLASSES_MAX = 256 };
/* Limit of 16 GiB of pixels. */
#define EXPANDED_MAX ((size_t)1 << 34)

/* Returns the 32-bit number at these four bytes. */
static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

ls_status ls_idx_parse(const char *path, const uint8_t *data, size_t bytes, unsigned dims, ls_idx *out) {
    size_t header = 4 + 4 * (size_t)dims;
    const char *what = dims == 1 ? "labels" : "images";
    *out = (ls_idx){0};
    if (bytes < 4 || data[0] || data[1] || data[2] != TYPE_BYTES || data[3] != dims)
        return ls_fail(
            LS_ERR_INPUT,
            "%.*s is not an IDX file of %s: it should begin with the bytes 00 00 08 %02x, not %02x %02x %02x "
            "%02x (%zu bytes in all)",
            LS_IMAGES_SHOWN, path, what, dims, bytes > 0 ? data[0] : 0, bytes > 1 ? data[1] : 0,
            bytes > 2 ? data[2] : 0, bytes > 3 ? data[3] : 0, bytes);
    if (bytes < header)
        return ls_fail(LS_ERR_INPUT, "%.*s is truncated: an IDX header of %zu bytes was expected, %zu are there",
                       LS_IMAGES_SHOWN, path, header, bytes);
    for (unsigned i = 0; i < dims; i++) out->size[i] = big_endian(data + 4 + 4 * i);
    if (!out->size[0]) return ls_fail(LS_ERR_INPUT, "%.*s has no %s: its header says 0", LS_IMAGES_SHOWN, path, what);
    if (dims == 3) LS_TRY(ls_picture_check_size(path, out->size[2], out->size[1]));
    uint64_t values = out->size[0];
    if (dims == 3) values *= (uint64_t)out->size[1] * out->size[2]; /* below 2^56: sides are limited */
    if (bytes - header != values)
        return ls_fail(LS_ERR_INPUT, "%.*s is %s: its header says %" PRIu32 " %s, %" PRIu64 " bytes, but %zu follow",
                       LS_IMAGES_SHOWN, path, bytes - header < values ? "truncated" : "too long", out->size[0], what,
                       values, bytes - header);
    out->values = data + header;
    return LS_OK;
}

/* Maps a file. Decompresses it into memory if it is gzip; fails if that would need more than EXPANDED_MAX bytes. The
 * caller releases *out with ls_map_close() in both cases. */
static ls_status open_expanded(const char *path, ls_map *out) {
    ls_map file;
    LS_TRY(ls_map_open(path, &file));
    if (!ls_gzip_is(file.data, file.bytes)) {
        *out = file;
        return LS_OK;
    }
    ls_status status = ls_gzip_expand(path, file.data, file.bytes, EXPANDED_MAX, out);
    ls_map_close(&file);
    return status;
}

/* Copies the labels to images->labels; fails for one that is not below `classes`. */
static ls_status copy_labels(ls_images *images, const char *path, const ls_idx *idx, uint32_t classes) {
    images->labels = malloc(idx->size[0] * sizeof *images->labels);
    if (!images->labels) return ls_fail(LS_ERR_RESOURCE, "out of memory for %" PRIu32 " labels", idx->size[0]);
    for (uint32_t i = 0; i < idx->size[0]; i++) {
        if (idx->values[i] >= classes)
            return ls_fail(LS_ERR_INPUT,
                           "%.*s: label %" PRIu32 " is %u, but there are %" PRIu32 " classes (0 … %" PRIu32
                           "): damaged, or of a set with more classes",
                           LS_IMAGES_SHOWN, path, i, idx->values[i], classes, classes - 1);
        images->labels[i] = idx->values[i];
    }
    return LS_OK;
}

ls_status ls_images_open_idx(ls_images *images, const ls_images_options *options, const char *pixels,
                             const char *labels) {
    uint32_t classes = options->classes ? options->classes : CLASSES_DEFAULT;
    ls_images_piece *piece;
    ls_map label_map = {0};
    ls_idx of_pixels, of_labels;
    ls_status status;
    if (classes > CLASSES_MAX)
        return ls_fail(LS_ERR_INPUT, "%" PRIu32 " classes are too many for IDX files, whose labels are bytes", classes);
    LS_TRY(ls_images_add_pieces(images, 1, &piece));
    LS_TRY(open_expanded(pixels, &piece->map));
    LS_TRY(ls_idx_parse(pixels, piece->map.data, piece->map.bytes, 3, &of_pixels));
    LS_TRY(open_expanded(labels, &label_map));
    LS_TRY_OUT(ls_idx_parse(labels, label_map.data, label_map.bytes, 1, &of_labels));
    if (of_labels.size[0] != of_pixels.size[0]) {
        status = ls_fail(LS_ERR_INPUT, "%.*s has %" PRIu32 " images, but %.*s has %" PRIu32 " labels", LS_IMAGES_SHOWN,
                         pixels, of_pixels.size[0], LS_IMAGES_SHOWN, labels, of_labels.size[0]);
        goto out;
    }
    LS_TRY_OUT(copy_labels(images, labels, &of_labels, classes));
    images->about = (ls_images_about){.format = "IDX",
                                      .count = of_pixels.size[0],
                                      .channels = 1,
                                      .height = of_pixels.size[1],
                                      .width = of_pixels.size[2],
                                      .mean = {0.1307},
                                      .std = {0.3081}};
    piece->pixels = of_pixels.values;
    piece->count = of_pixels.size[0];
    piece->stride_bytes = (size_t)of_pixels.size[1] * of_pixels.size[2];
    status = ls_images_name_classes(images, classes, NULL);
out:
    ls_map_close(&label_map);
    return status;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Finds a file such as "train-images" under one of its usual names, with "-" or "." and with or without .gz. *out is
 * only valid on true. */
static bool find_idx_file(const char *folder, const char *stem, unsigned dims, ls_path *out) {
    for (int i = 0; i < 4; i++) {
        *out = ls_path_format("%s/%s%cidx%u-ubyte%s", folder, stem, i % 2 ? '.' : '-', dims, i / 2 ? ".gz" : "");
        if (ls_file_exists(out->text)) return true;
    }
    return false;
}

bool ls_idx_is_folder(const char *folder) {
    ls_path path;
    return find_idx_file(folder, "train-images", 3, &path) || find_idx_file(folder, "t10k-images", 3, &path);
}

ls_status ls_images_open_idx_folder(ls_images *images, const ls_images_options *options) {
    const char *part = options->part == LS_IMAGES_TRAIN ? "train" : "t10k";
    ls_path pixels, labels;
    char stem[32];
    (void)snprintf(stem, sizeof stem, "%s-images", part);
    if (!find_idx_file(options->source, stem, 3, &pixels))
        return ls_fail(LS_ERR_INPUT, "folder %.*s has no %s-idx3-ubyte (nor with .gz)", LS_IMAGES_SHOWN,
                       options->source, stem);
    (void)snprintf(stem, sizeof stem, "%s-labels", part);
    if (!find_idx_file(options->source, stem, 1, &labels))
        return ls_fail(LS_ERR_INPUT, "folder %.*s has no %s-idx1-ubyte (nor with .gz)", LS_IMAGES_SHOWN,
                       options->source, stem);
    return ls_images_open_idx(images, options, pixels.text, labels.text);
}
