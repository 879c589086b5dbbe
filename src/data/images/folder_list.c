/* folder_list.c: which pictures a folder of class folders holds. See images_folder.h. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/images/folder.h"
#include "data/images/parts.h"

enum { CLASSES_MAX = 1 << 20, TEST_EVERY = 10 };

/* Names in order, each in memory of its own. */
typedef struct name_list {
    struct dirent **entries;
    int count;
} name_list;

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* By bytes: the order of the C library's alphasort() depends on the language of the user. */
static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static ls_status read_names(const char *folder, name_list *out) {
    out->count = scandir(folder, &out->entries, is_visible, by_bytes);
    if (out->count >= 0) return LS_OK;
    *out = (name_list){0};
    return ls_fail_errno(LS_ERR_INPUT, "cannot read folder %.*s", LS_IMAGES_SHOWN, folder);
}

static void release_names(name_list *names) {
    for (int i = 0; i < names->count; i++) free(names->entries[i]);
    free(names->entries);
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_picture(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".ppm") || !strcasecmp(dot, ".pgm") ||
                   !strcasecmp(dot, ".pnm"));
}

static ls_status add_class(ls_folder_list *list, const char *name) {
    char **classes = realloc(list->classes, (list->class_count + 1) * sizeof *classes);
    if (classes) list->classes = classes;
    char *copy = classes ? strdup(name) : NULL;
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "no memory for the names of classes");
    list->classes[list->class_count++] = copy;
    return LS_OK;
}

static ls_status read_classes(const char *folder, ls_folder_list *list) {
    char path[LS_IMAGES_PATH_ROOM];
    name_list names;
    ls_status status = LS_OK;
    LS_TRY(read_names(folder, &names));
    for (int i = 0; i < names.count; i++) {
        LS_TRY_OUT(ls_images_join(path, folder, names.entries[i]->d_name));
        /* Files beside the folders (a licence, a list) are not pictures of any class. */
        if (is_folder(path)) LS_TRY_OUT(add_class(list, names.entries[i]->d_name));
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

static ls_status add_entry(ls_folder_list *list, const char *path, int32_t label, uint32_t rank) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 1024;
        ls_folder_entry *entries = realloc(list->entries, room * sizeof *entries);
        if (!entries) return ls_fail(LS_ERR_RESOURCE, "no memory for the names of pictures");
        list->entries = entries;
        list->room = room;
    }
    char *copy = strdup(path);
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "no memory for the names of pictures");
    list->entries[list->count++] = (ls_folder_entry){.path = copy, .label = label, .rank = rank};
    return LS_OK;
}

/* `is_cut`: of a folder without parts, where every tenth picture is for tests. */
static ls_status read_pictures(const char *folder, ls_images_part part, bool is_cut, int32_t label,
                               ls_folder_list *list) {
    char path[LS_IMAGES_PATH_ROOM];
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
        LS_TRY_OUT(ls_images_join(path, folder, names.entries[i]->d_name));
        if (!is_picture(names.entries[i]->d_name) || is_folder(path)) {
            status =
                ls_fail(LS_ERR_INPUT, "%.*s is not a picture: .png, .ppm and .pgm are read; convert it or take it away",
                        LS_IMAGES_SHOWN, path);
            goto out;
        }
        if (!is_cut || is_test == (part == LS_IMAGES_TEST)) LS_TRY_OUT(add_entry(list, path, label, rank++));
    }
out:
    release_names(&names);
    return status;
}

/* A folder of tests may lack a class, but not have one that was never learned. */
static ls_status check_classes(const char *folder, const ls_folder_list *list) {
    char path[LS_IMAGES_PATH_ROOM];
    name_list names;
    ls_status status = LS_OK;
    size_t at = 0;
    LS_TRY(read_names(folder, &names));
    for (int i = 0; i < names.count; i++) {
        const char *name = names.entries[i]->d_name;
        LS_TRY_OUT(ls_images_join(path, folder, name));
        if (!is_folder(path)) continue;
        while (at < list->class_count && strcmp(list->classes[at], name) < 0) at++;
        if (at < list->class_count && strcmp(list->classes[at], name) == 0) continue;
        status = ls_fail(LS_ERR_INPUT, "class '%.*s' of folder %.*s is not among those to train with", 64, name,
                         LS_IMAGES_SHOWN, folder);
        goto out;
    }
out:
    release_names(&names);
    return status;
}

static int by_rank(const void *a, const void *b) {
    const ls_folder_entry *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

/* The folder that holds the classes of `part`, in `out`; is_cut: both parts do. */
static ls_status find_part(const char *folder, ls_images_part part, char out[LS_IMAGES_PATH_ROOM], bool *is_cut) {
    char test[LS_IMAGES_PATH_ROOM], val[LS_IMAGES_PATH_ROOM];
    LS_TRY(ls_images_join(val, folder, "val"));
    LS_TRY(ls_images_join(test, folder, "test"));
    LS_TRY(ls_images_join(out, folder, "train"));
    *is_cut = !is_folder(out);
    if (*is_cut) memcpy(out, folder, strlen(folder) + 1); /* shorter than what fitted above */
    if (*is_cut || part == LS_IMAGES_TRAIN) return LS_OK;
    if (!is_folder(test) && !is_folder(val))
        return ls_fail(LS_ERR_INPUT, "folder %.*s has a folder train, but neither test nor val", LS_IMAGES_SHOWN,
                       folder);
    return ls_images_join(out, folder, is_folder(test) ? "test" : "val");
}

ls_status ls_folder_list_read(const char *folder, ls_images_part part, ls_folder_list *out) {
    char trained[LS_IMAGES_PATH_ROOM], here[LS_IMAGES_PATH_ROOM], path[LS_IMAGES_PATH_ROOM];
    bool is_cut;
    LS_TRY(find_part(folder, LS_IMAGES_TRAIN, trained, &is_cut));
    LS_TRY(find_part(folder, part, here, &is_cut));
    LS_TRY(read_classes(trained, out));
    if (part == LS_IMAGES_TEST) LS_TRY(check_classes(here, out));
    for (size_t i = 0; i < out->class_count; i++) {
        LS_TRY(ls_images_join(path, here, out->classes[i]));
        if (part == LS_IMAGES_TEST && !is_folder(path)) continue;
        LS_TRY(read_pictures(path, part, is_cut, (int32_t)i, out));
    }
    if (!out->count)
        return ls_fail(LS_ERR_INPUT, "folder %.*s holds no pictures to %s with%s", LS_IMAGES_SHOWN, folder,
                       part == LS_IMAGES_TEST ? "test" : "train",
                       is_cut ? ": every tenth of a class is one, or make folders train and test" : "");
    qsort(out->entries, out->count, sizeof *out->entries, by_rank);
    return LS_OK;
}

void ls_folder_list_fini(ls_folder_list *list) {
    for (size_t i = 0; i < list->class_count; i++) free(list->classes[i]);
    for (size_t i = 0; i < list->count; i++) free(list->entries[i].path);
    free(list->classes);
    free(list->entries);
    *list = (ls_folder_list){0};
}
