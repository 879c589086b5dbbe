/* images.c: opens a source of images and implements what all sources share. */
#include "data/images/images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/images/sources.h"

enum { FILES_MAX = 64 };

ls_status ls_images_add_pieces(ls_images *images, size_t count, ls_images_piece **out) {
    *out = images->pieces = calloc(count, sizeof *images->pieces);
    if (!images->pieces) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu files of images", count);
    images->piece_count = count;
    return LS_OK;
}

ls_status ls_images_name_classes(ls_images *images, uint32_t classes, const char *const *names) {
    images->class_names = calloc(classes, sizeof *images->class_names);
    if (images->class_names) images->about.classes = classes;
    for (uint32_t i = 0; i < images->about.classes; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%" PRIu32, i);
        images->class_names[i] = strdup(names ? names[i] : number);
        if (!images->class_names[i]) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of classes");
    }
    return images->class_names ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the names of classes");
}

/* Opens files that are named individually: two of IDX, or any number of CIFAR-10. */
static ls_status open_files(ls_images *images, const ls_images_options *options, char *const *paths, size_t count) {
    bool is_cifar = ls_ends_with(paths[0], ".bin");
    for (size_t i = 0; i < count; i++) {
        struct stat about;
        if (stat(paths[i], &about) != 0) return ls_file_fail_open(paths[i]);
    }
    if (is_cifar) return ls_images_open_cifar(images, paths, count);
    if (count != 2)
        return ls_fail(
            LS_ERR_INPUT,
            "'%.*s' names %zu file%s: images are a folder, drawings, IDX files as images,labels, or files of "
            "CIFAR-10 that end in .bin",
            LS_IMAGES_SHOWN, options->source, count, count == 1 ? "" : "s");
    return ls_images_open_idx(images, options, paths[0], paths[1]);
}

/* Opens a source that names files, separated by commas. */
static ls_status open_named_files(ls_images *images, const ls_images_options *options) {
    char *paths[FILES_MAX], *rest = strdup(options->source), *memory = rest;
    size_t count = 0;
    if (!rest) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of files");
    while (rest && count < FILES_MAX) paths[count++] = strsep(&rest, ",");
    ls_status status =
        rest ? ls_fail(LS_ERR_INPUT, "'%.*s…' names more than %d files", LS_IMAGES_SHOWN, options->source, FILES_MAX)
             : open_files(images, options, paths, count);
    free(memory);
    return status;
}

/* Opens the source by its kind: drawings, a folder of one of three kinds, or files. */
static ls_status open_source(ls_images *images, const ls_images_options *options) {
    const char *source = options->source;
    struct stat about;
    if (!source || !*source)
        return ls_fail(LS_ERR_INPUT, "no images are named: give a folder, files, or drawings, which need no download");
    if (strcmp(source, "drawings") == 0) return ls_images_open_drawings(images, options);
    if (stat(source, &about) != 0) return open_named_files(images, options);
    if (!S_ISDIR(about.st_mode)) {
        char *path = strdup(source);
        ls_status status = path ? open_files(images, options, &path, 1) : ls_fail(LS_ERR_RESOURCE, "no memory");
        free(path);
        return status;
    }
    if (ls_idx_is_folder(source)) return ls_images_open_idx_folder(images, options);
    if (ls_cifar_is_folder(source)) return ls_images_open_cifar_folder(images, options);
    return ls_images_open_folder(images, options);
}

/* Fails if the opened images differ from what the options require, and reduces about->count to the number requested. */
static ls_status check_requests(ls_images_about *about, const ls_images_options *options) {
    const char *source = options->source;
    if (options->count > about->count)
        return ls_fail(LS_ERR_INPUT, "%.*s has %" PRIu64 " images, not %" PRIu64, LS_IMAGES_SHOWN, source, about->count,
                       options->count);
    if (options->count) about->count = options->count;
    if (options->size && (options->size != about->height || options->size != about->width))
        return ls_fail(LS_ERR_INPUT,
                       "%.*s has images of %" PRIu32 " × %" PRIu32 " pixels, but size %" PRIu32 " is asked for",
                       LS_IMAGES_SHOWN, source, about->width, about->height, options->size);
    if (options->channels && options->channels != about->channels)
        return ls_fail(LS_ERR_INPUT, "%.*s has images of %" PRIu32 " channel%s, but %" PRIu32 " are asked for",
                       LS_IMAGES_SHOWN, source, about->channels, about->channels == 1 ? "" : "s", options->channels);
    if (options->classes && options->classes != about->classes)
        return ls_fail(LS_ERR_INPUT, "%.*s has %" PRIu32 " classes, but %" PRIu32 " are asked for", LS_IMAGES_SHOWN,
                       source, about->classes, options->classes);
    return LS_OK;
}

/* Computes the normalized value of each pixel value and channel. */
static ls_status make_values(ls_images *images) {
    const ls_images_about *about = &images->about;
    images->value = calloc(about->channels, sizeof *images->value);
    if (!images->value) return ls_fail(LS_ERR_RESOURCE, "out of memory for images");
    for (uint32_t c = 0; c < about->channels; c++)
        for (int x = 0; x < 256; x++) images->value[c][x] = (float)((x / 255.0 - about->mean[c]) / about->std[c]);
    return LS_OK;
}

/* Finishes opening: computes the normalized pixel values if `status` is LS_OK, then returns the images in *out, or
 * closes them on failure. */
static ls_status finish_images(ls_status status, ls_images *images, ls_images **out) {
    if (status == LS_OK) status = make_values(images);
    if (status == LS_OK)
        *out = images;
    else
        ls_images_close(images);
    return status;
}

typedef struct opening {
    ls_images *images;
    const ls_images_options *options;
} opening;

/* Opens the source. Runs under ls_map_guard(), because validation reads mapped files. */
static ls_status open_guarded(void *ctx) {
    const opening *o = ctx;
    return open_source(o->images, o->options);
}

ls_status ls_images_open(ls_images **out, const ls_images_options *options) {
    ls_images *images = calloc(1, sizeof *images);
    *out = NULL;
    if (!images) return ls_fail(LS_ERR_RESOURCE, "out of memory for images");
    ls_status status = ls_map_guard(open_guarded, &(opening){.images = images, .options = options});
    if (status == LS_OK) status = check_requests(&images->about, options);
    return finish_images(status, images, out);
}

ls_status ls_images_open_source(ls_images **out, const ls_source *source, const ls_images_about *about) {
    *out = NULL;
    if (!source->identity || !*source->identity || !source->image || source->count == 0)
        return ls_fail(LS_ERR_INPUT, "own data for an image model needs an identity, a count and the function image");
    ls_images *images = calloc(1, sizeof *images);
    if (!images) return ls_fail(LS_ERR_RESOURCE, "out of memory for images");
    images->about = *about;
    images->about.format = "own data";
    images->about.count = source->count;
    for (int c = 0; c < LS_IMAGES_CHANNELS_MAX; c++) {
        images->about.mean[c] = 0.5;
        images->about.std[c] = 0.25;
    }
    images->source = source;
    return finish_images(ls_images_name_classes(images, about->classes, NULL), images, out);
}

void ls_images_close(ls_images *images) {
    if (!images) return;
    for (size_t i = 0; i < images->piece_count; i++) ls_map_close(&images->pieces[i].map);
    for (uint32_t i = 0; images->class_names && i < images->about.classes; i++) free(images->class_names[i]);
    ls_drawings_destroy(images->drawings);
    free(images->pieces);
    free(images->labels);
    free(images->class_names);
    free(images->value);
    free(images);
}

const ls_images_about *ls_images_get_about(const ls_images *images) { return &images->about; }

const char *ls_images_class_name(const ls_images *images, uint32_t label) {
    return label < images->about.classes ? images->class_names[label] : NULL;
}
