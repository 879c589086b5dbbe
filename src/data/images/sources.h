/* sources.h: the interface between the sources of images (cifar.c, drawings.c, folder.c, idx.c) and images.c, and the
 * parsers of image files. Private to this folder.
 *
 * Parsers do not trust their input: every length is checked before use. `path` is only for messages. */
#ifndef LS_DATA_IMAGES_SOURCES_H
#define LS_DATA_IMAGES_SOURCES_H

#include "base/files.h"
#include "data/images/images.h"
#include "data/images/drawings.h"
#include "data/text/map_file.h"

enum { LS_IMAGES_SHOWN = 200 };

/* Images that follow each other at a fixed distance in one file (or in memory), and that file. */
typedef struct ls_images_piece {
    ls_map map;            /* the file or memory; belongs to the piece */
    const uint8_t *pixels; /* of the first: [channels][height][width] */
    size_t stride_bytes;
    uint64_t count;
} ls_images_piece;

/* The images of one source, of whichever kind; ls_images_close() frees all. */
struct ls_images {
    ls_images_about about;
    ls_images_piece *pieces; /* none for drawings */
    size_t piece_count;
    int32_t *labels; /* none for drawings */
    char **class_names;
    ls_drawings *drawings;
    const ls_source *source; /* instead of pieces and labels; borrowed */
    float (*value)[256];     /* [channels]: normalized value of each pixel value */
};

/* ---- sources: fill all members but `value`; on failure ls_images_close() releases what they have filled ---------- */

/* Prepares drawings of the size, number and seed of the options; generates none yet. */
ls_status ls_images_open_drawings(ls_images *images, const ls_images_options *options);
/* Returns whether a folder has the images of one part under one of the format's names. */
bool ls_idx_is_folder(const char *folder);
/* Opens the two files of the part in a folder with MNIST's names. */
ls_status ls_images_open_idx_folder(ls_images *images, const ls_images_options *options);
/* Opens a pair of IDX files, gzip or not, by the paths of their pixels and labels. */
ls_status ls_images_open_idx(ls_images *images, const ls_images_options *options, const char *pixels,
                             const char *labels);
/* Returns whether a folder has any of CIFAR-10's files. */
bool ls_cifar_is_folder(const char *folder);
/* Opens data_batch_1.bin … for training, or test_batch.bin. Fails if a batch in between is missing. */
ls_status ls_images_open_cifar_folder(ls_images *images, const ls_images_options *options);
/* Opens these files of CIFAR-10, in this order. */
ls_status ls_images_open_cifar(ls_images *images, char *const *paths, size_t count);
/* Reads the pictures of the part from a folder with a folder for each class, all into memory. */
ls_status ls_images_open_folder(ls_images *images, const ls_images_options *options);

/* Allocates images->pieces: `count` zeroed ones. Call it once. */
ls_status ls_images_add_pieces(ls_images *images, size_t count, ls_images_piece **out);
/* Sets the number of classes and copies their names; NULL: the numbers 0 … classes−1. */
ls_status ls_images_name_classes(ls_images *images, uint32_t classes, const char *const *names);

/* ---- parsers ----------------------------------------------------------------------------------------------------- */

/* An IDX file as parsed. */
typedef struct ls_idx {
    uint32_t size[3];      /* number of images, rows, columns; or number of labels */
    const uint8_t *values; /* inside the file */
} ls_idx;

/* Parses an IDX file of bytes with 3 dimensions (images) or 1 (labels), and checks that exactly as many values follow
 * as its header says. *out points into `data`. */
ls_status ls_idx_parse(const char *path, const uint8_t *data, size_t bytes, unsigned dims, ls_idx *out);

enum { LS_CIFAR_SIDE = 32, LS_CIFAR_CLASSES = 10, LS_CIFAR_RECORD = 1 + 3 * LS_CIFAR_SIDE * LS_CIFAR_SIDE };

/* Checks that the file has whole records with labels below 10, and counts them. */
ls_status ls_cifar_parse(const char *path, const uint8_t *data, size_t bytes, uint64_t *count);

typedef struct ls_picture {
    uint32_t width, height, channels; /* 1 or 3 */
} ls_picture;

/* Reads size and channels of a PNG, PPM or PGM picture from its header; for PPM and PGM also checks the length of the
 * file. */
ls_status ls_picture_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out);
/* Decodes the pixels, [channels][height][width]. `want` has the size that look returned, and its channels, or three; a
 * grey picture then gets three equal channels. */
ls_status ls_picture_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out);

/* Returns whether the file begins with PNG's signature. */
bool ls_png_is(const uint8_t *data, size_t bytes);
/* Reads size and channels of a PNG picture. LS_ERR_INPUT for a damaged one, and in a program built without libpng. */
ls_status ls_png_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out);
/* Decodes a PNG picture as ls_picture_decode() does. */
ls_status ls_png_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out);
/* Reads size and channels of a PPM or PGM picture, and checks the length of the file. */
ls_status ls_ppm_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out);
/* Decodes a PPM or PGM picture as ls_picture_decode() does, scaled to 256 levels. */
ls_status ls_ppm_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out);
/* Fails with LS_ERR_INPUT if a side is 0 or above LS_IMAGES_SIDE_MAX. */
ls_status ls_picture_check_size(const char *path, uint64_t width, uint64_t height);

/* Returns whether the file begins with the signature of gzip. */
bool ls_gzip_is(const uint8_t *data, size_t bytes);
/* Decompresses a gzip file, of one member or more, into memory that ls_map_close() frees. LS_ERR_INPUT if it is
 * damaged, or the result has more than max_bytes. */
ls_status ls_gzip_expand(const char *path, const uint8_t *data, size_t bytes, size_t max_bytes, ls_map *out);

#endif
