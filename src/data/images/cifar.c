/* cifar.c: the binary files of CIFAR-10: records of a label and 32 × 32 bytes of red, of green and of blue. */
#include <inttypes.h>
#include <stdlib.h>

#include "data/images/sources.h"

enum { BATCHES_MAX = 9 };

static const char *const names[LS_CIFAR_CLASSES] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                    "dog",      "frog",       "horse", "ship", "truck"};

ls_status ls_cifar_parse(const char *path, const uint8_t *data, size_t bytes, uint64_t *count) {
    *count = bytes / LS_CIFAR_RECORD;
    if (!bytes)
        return ls_fail(LS_ERR_INPUT, "%.*s is empty, not a CIFAR-10 file; download it again", LS_IMAGES_SHOWN, path);
    if (bytes % LS_CIFAR_RECORD)
        return ls_fail(LS_ERR_INPUT,
                       "%.*s is truncated or not a CIFAR-10 file: it has %zu bytes, not a multiple of %d (an image "
                       "with its label); download it again",
                       LS_IMAGES_SHOWN, path, bytes, LS_CIFAR_RECORD);
    for (uint64_t i = 0; i < *count; i++) {
        if (data[i * LS_CIFAR_RECORD] >= LS_CIFAR_CLASSES)
            return ls_fail(LS_ERR_INPUT,
                           "%.*s: image %" PRIu64 " has label %u, but labels of CIFAR-10 are 0 to %d; the file is "
                           "damaged or has another format",
                           LS_IMAGES_SHOWN, path, i, data[i * LS_CIFAR_RECORD], LS_CIFAR_CLASSES - 1);
    }
    return LS_OK;
}

ls_status ls_images_open_cifar(ls_images *images, char *const *paths, size_t count) {
    ls_images_piece *pieces;
    uint64_t total = 0, at = 0;
    LS_TRY(ls_images_add_pieces(images, count, &pieces));
    for (size_t i = 0; i < count; i++) {
        LS_TRY(ls_map_open(paths[i], &pieces[i].map));
        LS_TRY(ls_cifar_parse(paths[i], pieces[i].map.data, pieces[i].map.bytes, &pieces[i].count));
        pieces[i].pixels = pieces[i].map.data + 1;
        pieces[i].stride_bytes = LS_CIFAR_RECORD;
        total += pieces[i].count;
    }
    images->labels = malloc((size_t)total * sizeof *images->labels);
    if (!images->labels) return ls_fail(LS_ERR_RESOURCE, "out of memory for %" PRIu64 " labels", total);
    for (size_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < pieces[i].count; k++) images->labels[at++] = pieces[i].map.data[k * LS_CIFAR_RECORD];
    images->about = (ls_images_about){.format = "CIFAR-10",
                                      .count = total,
                                      .channels = 3,
                                      .height = LS_CIFAR_SIDE,
                                      .width = LS_CIFAR_SIDE,
                                      .mean = {0.4914, 0.4822, 0.4465},
                                      .std = {0.2470, 0.2435, 0.2616}};
    return ls_images_name_classes(images, LS_CIFAR_CLASSES, names);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Returns the path of a batch; 0 is test_batch.bin. */
static ls_path batch_path(const char *folder, int batch) {
    return batch ? ls_path_format("%s/data_batch_%d.bin", folder, batch) : ls_path_in(folder, "test_batch.bin");
}

/* Returns whether the folder has the file of this batch; 0 is test_batch.bin. */
static bool has_batch(const char *folder, int batch) { return ls_file_exists(batch_path(folder, batch).text); }

bool ls_cifar_is_folder(const char *folder) {
    for (int batch = 0; batch <= BATCHES_MAX; batch++) {
        if (has_batch(folder, batch)) return true;
    }
    return false;
}

ls_status ls_images_open_cifar_folder(ls_images *images, const ls_images_options *options) {
    ls_path paths[BATCHES_MAX];
    char *list[BATCHES_MAX];
    const char *folder = options->source;
    int first = options->part == LS_IMAGES_TRAIN ? 1 : 0, last = first;
    for (int batch = first; first && batch <= BATCHES_MAX; batch++) {
        if (has_batch(folder, batch)) last = batch;
    }
    for (int i = 0; i <= last - first; i++) {
        paths[i] = batch_path(folder, first + i);
        list[i] = paths[i].text;
        if (!ls_file_exists(list[i]))
            return ls_fail(LS_ERR_INPUT, "%.*s is missing, but other files of CIFAR-10 are there", LS_IMAGES_SHOWN,
                           list[i]);
    }
    return ls_images_open_cifar(images, list, (size_t)(last - first + 1));
}
