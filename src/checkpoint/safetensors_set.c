/* safetensors_set.c: opens several safetensors files as one. The index is not trusted: each file must lie beside it,
 * and each tensor must be in the file that the index names. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "checkpoint/safetensors_file.h"

/* Allocates the lists of a set of at most `shards` files and `tensors` tensors. */
static ls_status make_lists(ls_safetensors *set, size_t shards, size_t tensors) {
    set->shards = calloc(shards + 1, sizeof *set->shards);
    set->shard_names = calloc(shards + 1, sizeof(const char *));
    if (set->shards && set->shard_names) return ls_safetensors_make_lists(set, tensors);
    return ls_fail(LS_ERR_RESOURCE, "out of memory to open the tensors of %s", set->path);
}

/* Makes the set of the one file `path`, with all its tensors. */
static ls_status open_single(ls_safetensors *set, const char *path) {
    ls_safetensors *file;
    LS_TRY(ls_safetensors_open(path, &file));
    ls_status status = make_lists(set, 1, (size_t)file->count);
    if (status != LS_OK) {
        ls_safetensors_close(file);
        return status;
    }
    set->shards[set->shard_count++] = file;
    for (; set->count < file->count; set->count++) set->list[set->count] = file->list[set->count];
    return LS_OK;
}

/* ---- index ------------------------------------------------------------------------------------------------------- */

/* Returns in *out the file `name` that the index lists for `tensor`: opens it, unless the set has it already.
 * LS_ERR_INPUT if the name leads out of the folder of the index. */
static ls_status open_shard(ls_safetensors *set, const char *index, const char *name, const char *tensor,
                            ls_safetensors **out) {
    /* Backwards, because tensors of one file mostly follow each other. */
    for (int i = set->shard_count - 1; i >= 0; i--) {
        *out = set->shards[i];
        if (strcmp(set->shard_names[i], name) == 0) return LS_OK;
    }
    if (!ls_folder_is_plain_name(name))
        return ls_fail(LS_ERR_INPUT,
                       "%s: tensor '%.100s' is listed in '%.100s'; it must be a file in the folder of the index", index,
                       tensor, name);
    ls_status status = ls_safetensors_open(ls_path_beside(index, name).text, out);
    if (status != LS_OK) return ls_fail_at(status, "%s lists tensor '%.100s' in %.100s: ", index, tensor, name);
    set->shard_names[set->shard_count] = name;
    set->shards[set->shard_count++] = *out;
    return LS_OK;
}

/* Opens the files that weight_map names, each once, and lists its tensors; LS_ERR_INPUT if a file lacks a tensor. */
static ls_status read_map(ls_safetensors *set, const char *index, json_t *map) {
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
        set->list[set->count++] = tensor;
    }
    return LS_OK;
}

/* Makes the set of the index file `index`. */
static ls_status open_index(ls_safetensors *set, const char *index) {
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

/* Makes the set of a file, of an index (*.json), or of the one of both that a folder has. */
static ls_status open_any(ls_safetensors *set, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return ls_file_fail_open(path);
    if (!S_ISDIR(about.st_mode)) return ls_ends_with(path, ".json") ? open_index(set, path) : open_single(set, path);
    ls_path single = ls_path_in(path, "model.safetensors"), index = ls_path_in(path, "model.safetensors.index.json");
    if (ls_file_exists(single.text)) return open_single(set, single.text);
    if (ls_file_exists(index.text)) return open_index(set, index.text);
    return ls_fail(LS_ERR_INPUT, "%s has neither model.safetensors nor model.safetensors.index.json", path);
}

ls_status ls_safetensors_open_set(const char *path, ls_safetensors **out) {
    LS_TRY(ls_safetensors_new(path, out));
    ls_status status = open_any(*out, path);
    if (status == LS_OK) {
        ls_safetensors_sort(*out);
        return LS_OK;
    }
    ls_safetensors_close(*out);
    *out = NULL;
    return status;
}
