/* folder.c: opens a folder with a folder of pictures for each class.
 *
 *     set/train/cat/0001.png      the classes are the folders, in the order of their names (as bytes): cat 0, dog 1
 *     set/train/dog/a.ppm
 *     set/test/cat/9.png          test, or else val, has the test images; its classes must be among train's
 *
 * or without train and test:
 *
 *     set/cat/0001.png            of each class the 10th, 20th, … picture by name is for tests, the others for training
 *
 * Pictures are .png, .ppm and .pgm files of one size; a grey one among colour pictures is read as colour. Names that
 * begin with a dot are ignored; any other file is refused. Image i is picture ⌊i/c⌋ of class i mod c while all c
 * classes have one, so that the first n images include every class. All pixels are kept in memory. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "data/images/sources.h"

typedef struct picture_entry {
    char *path;
    int32_t label;
    uint32_t rank; /* among the pictures of its class that are in this part */
} picture_entry;

/* The pictures of one part, and the classes of the set. Starts as {0}. */
typedef struct picture_list {
    char **classes;
    size_t class_count;
    picture_entry *entries;
    size_t count, capacity;
} picture_list;

/* ---- which pictures there are ------------------------------------------------------------------------------------ */

enum { CLASSES_MAX = 1 << 20, TEST_EVERY = 10 };

/* Names in order, each allocated. */
typedef struct name_list {
    struct dirent **entries;
    int count;
} name_list;

/* Filter for scandir(): skips names that begin with a dot. */
static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Orders by bytes, because the order of alphasort() depends on the user's locale. */
static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Lists the entries of a folder, sorted by bytes; release_names() frees them. */
static ls_status read_names(const char *folder, name_list *out) {
    out->count = scandir(folder, &out->entries, is_visible, by_bytes);
    if (out->count >= 0) return LS_OK;
    *out = (name_list){0};
    return ls_fail_errno(LS_ERR_INPUT, "cannot read folder %.*s", LS_IMAGES_SHOWN, folder);
}

/* Frees the names. */
static void release_names(name_list *names) {
    for (int i = 0; i < names->count; i++) free(names->entries[i]);
    free(names->entries);
}

/* Returns whether the name ends in .png, .ppm, .pgm or .pnm, whatever its case. */
static bool is_picture(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".ppm") || !strcasecmp(dot, ".pgm") ||
                   !strcasecmp(dot, ".pnm"));
}

/* Appends a copy of the name to the classes. */
static ls_status add_class(picture_list *list, const char *name) {
    char **classes = realloc(list->classes, (list->class_count + 1) * sizeof *classes);
    if (classes) list->classes = classes;
    char *copy = classes ? strdup(name) : NULL;
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of classes");
    list->classes[list->class_count++] = copy;
    return LS_OK;
}

/* Lists the folders of the folder as classes; files beside them are ignored. */
static ls_status read_classes(const char *folder, picture_list *list) {
    name_list names;
    ls_status status = LS_OK;
    LS_TRY(read_names(folder, &names));
    for (int i = 0; i < names.count; i++) {
        const char *name = names.entries[i]->d_name;
        /* Files beside the folders (a licence, a list) are ignored. */
        if (ls_folder_exists(ls_path_in(folder, name).text)) LS_TRY_OUT(add_class(list, name));
    }
    if (!list->class_count)
        status = ls_fail(LS_ERR_INPUT,
                         "folder %.*s holds no images: a folder of pictures for each class was expected, or "
                         "the files of MNIST or CIFAR-10",
                         LS_IMAGES_SHOWN, folder);
    else if (list->class_count > CLASSES_MAX)
        status = ls_fail(LS_ERR_INPUT, "folder %.*s holds %zu folders: too many for classes", LS_IMAGES_SHOWN, folder,
                         list->class_count);
out:
    release_names(&names);
    return status;
}

/* Adds a picture to the list; the path is copied. */
static ls_status add_entry(picture_list *list, const char *path, int32_t label, uint32_t rank) {
    picture_entry *entries = ls_list_grow(list->entries, list->count, &list->capacity, sizeof *entries);
    if (entries) list->entries = entries;
    char *copy = entries ? strdup(path) : NULL;
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of pictures");
    list->entries[list->count++] = (picture_entry){.path = copy, .label = label, .rank = rank};
    return LS_OK;
}

/* Lists the pictures of a class. `is_cut`: the folder has no parts, so every tenth picture is for tests. */
static ls_status read_pictures(const char *folder, ls_images_part part, bool is_cut, int32_t label,
                               picture_list *list) {
    name_list names;
    uint32_t rank = 0;
    ls_status status = LS_OK;
    LS_TRY(read_names(folder, &names));
    if (!names.count) {
        status =
            ls_fail(LS_ERR_INPUT, "folder %.*s is empty: pictures of its class were expected", LS_IMAGES_SHOWN, folder);
        goto out;
    }
    for (int i = 0; i < names.count; i++) {
        bool is_test = i % TEST_EVERY == TEST_EVERY - 1;
        ls_path path = ls_path_in(folder, names.entries[i]->d_name);
        if (!is_picture(path.text) || ls_folder_exists(path.text)) {
            status =
                ls_fail(LS_ERR_INPUT, "%.*s is not a picture: .png, .ppm and .pgm are read; convert it or take it away",
                        LS_IMAGES_SHOWN, path.text);
            goto out;
        }
        if (!is_cut || is_test == (part == LS_IMAGES_TEST)) LS_TRY_OUT(add_entry(list, path.text, label, rank++));
    }
out:
    release_names(&names);
    return status;
}

/* Fails if the test folder has a class that train lacks; it may lack some itself. */
static ls_status check_classes(const char *folder, const picture_list *list) {
    name_list names;
    ls_status status = LS_OK;
    size_t at = 0;
    LS_TRY(read_names(folder, &names));
    for (int i = 0; i < names.count; i++) {
        const char *name = names.entries[i]->d_name;
        if (!ls_folder_exists(ls_path_in(folder, name).text)) continue;
        while (at < list->class_count && strcmp(list->classes[at], name) < 0) at++;
        if (at < list->class_count && strcmp(list->classes[at], name) == 0) continue;
        status = ls_fail(LS_ERR_INPUT, "class '%.*s' of folder %.*s is not among those to train with", 64, name,
                         LS_IMAGES_SHOWN, folder);
        break;
    }
    release_names(&names);
    return status;
}

/* Orders entries so that every class comes once before any comes twice, for qsort(). */
static int by_rank(const void *a, const void *b) {
    const picture_entry *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

/* Sets *out to the folder that has the classes of `part`; *is_cut: there is no folder "train", so both parts share
 * it. */
static ls_status find_part(const char *folder, ls_images_part part, ls_path *out, bool *is_cut) {
    static const char *const names[][2] = {[LS_IMAGES_TRAIN] = {"train", "train"}, [LS_IMAGES_TEST] = {"test", "val"}};
    *is_cut = !ls_folder_exists(ls_path_in(folder, "train").text);
    *out = ls_path_format("%s", folder);
    if (*is_cut) return LS_OK;
    for (int i = 0; i < 2; i++) {
        *out = ls_path_in(folder, names[part][i]);
        if (ls_folder_exists(out->text)) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "folder %.*s has a folder train, but neither test nor val", LS_IMAGES_SHOWN, folder);
}

/* Lists all pictures by name, without opening them. On failure free_list() releases the list. */
static ls_status read_list(const char *folder, ls_images_part part, picture_list *out) {
    ls_path trained, here;
    bool is_cut;
    LS_TRY(find_part(folder, LS_IMAGES_TRAIN, &trained, &is_cut));
    LS_TRY(find_part(folder, part, &here, &is_cut));
    LS_TRY(read_classes(trained.text, out));
    if (part == LS_IMAGES_TEST) LS_TRY(check_classes(here.text, out));
    for (size_t i = 0; i < out->class_count; i++) {
        ls_path path = ls_path_in(here.text, out->classes[i]);
        if (part == LS_IMAGES_TEST && !ls_folder_exists(path.text)) continue;
        LS_TRY(read_pictures(path.text, part, is_cut, (int32_t)i, out));
    }
    if (!out->count)
        return ls_fail(LS_ERR_INPUT, "folder %.*s has no %s images: %s", LS_IMAGES_SHOWN, folder,
                       part == LS_IMAGES_TEST ? "test" : "training",
                       is_cut
                           ? "every tenth image of a class is a test image; add images, or make folders train and test"
                           : "put .png, .ppm or .pgm files into the folders of its classes");
    qsort(out->entries, out->count, sizeof *out->entries, by_rank);
    return LS_OK;
}

/* Frees what the list points to, and empties it. */
static void free_list(picture_list *list) {
    for (size_t i = 0; i < list->class_count; i++) free(list->classes[i]);
    for (size_t i = 0; i < list->count; i++) free(list->entries[i].path);
    free(list->classes);
    free(list->entries);
    *list = (picture_list){0};
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

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

/* Reads size and channels of a picture file. */
static ls_status read_picture_header(const char *path, ls_picture *out) {
    ls_map file;
    LS_TRY(ls_map_open(path, &file));
    ls_status status = ls_picture_look(path, file.data, file.bytes, out);
    ls_map_close(&file);
    return status;
}

/* Decodes a picture, which must still have the size found in the first pass. */
static ls_status read_picture(const char *path, const ls_picture *want, uint8_t *out) {
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

/* Reads the headers of the first `count` pictures: all must have one size; the set is in colour if one picture is. */
static ls_status read_all_headers(const picture_list *list, size_t count, ls_picture *out) {
    LS_TRY(read_picture_header(list->entries[0].path, out));
    for (size_t i = 1; i < count; i++) {
        ls_picture picture;
        LS_TRY(read_picture_header(list->entries[i].path, &picture));
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

/* Decodes the first `count` pictures into memory of one piece. */
static ls_status load_all(ls_images *images, const picture_list *list, size_t count, const ls_picture *picture) {
    size_t bytes = (size_t)picture->width * picture->height * picture->channels; /* at most 48 MiB */
    ls_images_piece *piece;
    if (count > SIZE_MAX / bytes) return ls_fail(LS_ERR_RESOURCE, "%zu pictures are too many for memory", count);
    LS_TRY(ls_memory_check(count * bytes));
    LS_TRY(ls_images_add_pieces(images, 1, &piece));
    uint8_t *pixels = calloc(count, bytes);
    piece->map = (ls_map){.data = pixels, .bytes = count * bytes};
    images->labels = calloc(count, sizeof *images->labels);
    if (!pixels || !images->labels) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu pictures", count);
    for (size_t i = 0; i < count; i++) {
        LS_TRY(read_picture(list->entries[i].path, picture, pixels + i * bytes));
        images->labels[i] = list->entries[i].label;
    }
    piece->pixels = pixels;
    piece->stride_bytes = bytes;
    piece->count = count;
    return LS_OK;
}

/* Reads the listed pictures into memory, at most options->count of them, and fills images->about. */
static ls_status load_pictures(ls_images *images, const ls_images_options *options, const picture_list *list) {
    /* A larger count than there are pictures is refused later, by a message with their number. */
    size_t count = options->count && options->count < list->count ? (size_t)options->count : list->count;
    ls_picture picture;
    LS_TRY(read_all_headers(list, count, &picture));
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
    picture_list list = {0};
    ls_status status = read_list(options->source, options->part, &list);
    if (status == LS_OK) status = load_pictures(images, options, &list);
    free_list(&list);
    return status;
}
