/* safetensors_set.c: several safetensors files as one. The names in an index are not believed: each must be that of a
 * file beside the index, and a tensor must be in the file it is said to be in. */
#include "checkpoint/safetensors_set.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors_file.h"

struct ls_safetensors_set {
    char *path;
    ls_safetensors **files;
    const char **file_names; /* of an index; they live only while it is read */
    int file_count;
    const ls_safetensor **tensors, **by_name;
    int count;
};

static ls_status out_of_memory(const char *path) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory to open the tensors of %s", path);
}

static ls_status make_lists(ls_safetensors_set *set, size_t files, size_t tensors) {
    set->files = calloc(files + 1, sizeof *set->files);
    set->file_names = calloc(files + 1, sizeof(const char *));
    set->tensors = calloc(tensors + 1, sizeof(const ls_safetensor *));
    set->by_name = calloc(tensors + 1, sizeof(const ls_safetensor *));
    bool is_made = set->files && set->file_names && set->tensors && set->by_name;
    return is_made ? LS_OK : out_of_memory(set->path);
}

static ls_status open_single(ls_safetensors_set *set, const char *path) {
    ls_safetensors *file;
    LS_TRY(ls_safetensors_open(path, &file));
    ls_status status = make_lists(set, 1, (size_t)ls_safetensors_count(file));
    if (status != LS_OK) {
        ls_safetensors_close(file);
        return status;
    }
    set->files[set->file_count++] = file;
    for (int i = 0; i < ls_safetensors_count(file); i++) set->tensors[set->count++] = ls_safetensors_get(file, i);
    return LS_OK;
}

/* ---- index ------------------------------------------------------------------------------------------------------- */

static ls_status open_shard(ls_safetensors_set *set, const char *index, const char *name, const char *tensor,
                            ls_safetensors **out) {
    /* Tensors of one file mostly follow each other. */
    for (int i = set->file_count - 1; i >= 0; i--) {
        *out = set->files[i];
        if (strcmp(set->file_names[i], name) == 0) return LS_OK;
    }
    if (!ls_folder_is_plain_name(name))
        return ls_fail(LS_ERR_INPUT,
                       "%s: tensor '%.100s' is listed in '%.100s'; it must be a file in the folder of the index", index,
                       tensor, name);
    char *path = ls_folder_beside(index, name);
    if (!path) return out_of_memory(index);
    ls_status status = ls_safetensors_open(path, out);
    if (status != LS_OK)
        status = ls_fail_at(status, "%s lists tensor '%.100s' in %.100s: ", index, tensor, name);
    else {
        set->file_names[set->file_count] = name;
        set->files[set->file_count++] = *out;
    }
    free(path);
    return status;
}

static ls_status read_map(ls_safetensors_set *set, const char *index, json_t *map) {
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        ls_safetensors *file;
        const char *file_name = json_string_value(value);
        if (!file_name)
            return ls_fail(LS_ERR_INPUT, "%s: the file name of tensor '%.100s' is not a string", index, name);
        LS_TRY(open_shard(set, index, file_name, name, &file));
        const ls_safetensor *tensor = ls_safetensors_find(file, name);
        if (!tensor)
            return ls_fail(LS_ERR_INPUT, "%s: tensor '%.100s' is listed in %.100s, which does not have it", index, name,
                           file_name);
        set->tensors[set->count++] = tensor;
    }
    return LS_OK;
}

static ls_status open_index(ls_safetensors_set *set, const char *index) {
    json_t *root, *map;
    LS_TRY(ls_json_load_file(index, LS_SAFETENSORS_HEADER_MAX, &root));
    ls_status status = ls_json_get_object(root, "weight_map", &map);
    if (status != LS_OK) status = ls_fail_at(status, "%s: ", index);
    if (status == LS_OK) status = make_lists(set, json_object_size(map), json_object_size(map));
    if (status == LS_OK) status = read_map(set, index, map);
    json_decref(root);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static ls_status open_folder(ls_safetensors_set *set, const char *folder) {
    char *single = ls_folder_join(folder, "model.safetensors");
    char *index = ls_folder_join(folder, "model.safetensors.index.json");
    ls_status status;
    if (!single || !index)
        status = out_of_memory(folder);
    else if (ls_file_exists(single))
        status = open_single(set, single);
    else if (ls_file_exists(index))
        status = open_index(set, index);
    else
        status = ls_fail(LS_ERR_INPUT, "%s has neither model.safetensors nor model.safetensors.index.json", folder);
    free(single);
    free(index);
    return status;
}

static ls_status open_any(ls_safetensors_set *set, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
    if (S_ISDIR(about.st_mode)) return open_folder(set, path);
    return ends_with(path, ".json") ? open_index(set, path) : open_single(set, path);
}

ls_status ls_safetensors_set_open(const char *path, ls_safetensors_set **out) {
    *out = NULL;
    ls_safetensors_set *set = calloc(1, sizeof *set);
    if (!set) return out_of_memory(path);
    set->path = strdup(path);
    ls_status status = set->path ? open_any(set, path) : out_of_memory(path);
    if (status != LS_OK) {
        ls_safetensors_set_close(set);
        return status;
    }
    for (int i = 0; i < set->count; i++) set->by_name[i] = set->tensors[i];
    ls_safetensors_sort(set->by_name, set->count);
    *out = set;
    return LS_OK;
}

void ls_safetensors_set_close(ls_safetensors_set *set) {
    if (!set) return;
    for (int i = 0; i < set->file_count; i++) ls_safetensors_close(set->files[i]);
    free(set->files);
    free(set->file_names);
    free(set->tensors);
    free(set->by_name);
    free(set->path);
    free(set);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

int ls_safetensors_set_count(const ls_safetensors_set *set) { return set->count; }

const ls_safetensor *ls_safetensors_set_get(const ls_safetensors_set *set, int index) {
    assert(index >= 0 && index < set->count);
    return set->tensors[index];
}

const ls_safetensor *ls_safetensors_set_find(const ls_safetensors_set *set, const char *name) {
    return ls_safetensors_search(set->by_name, set->count, name);
}

ls_status ls_safetensors_set_need(const ls_safetensors_set *set, const char *name, int dims, const int64_t *shape,
                                  const ls_safetensor **out) {
    return ls_safetensors_accept(set->path, name, ls_safetensors_set_find(set, name), dims, shape, out);
}
