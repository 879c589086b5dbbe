/* weights_eos.c: the tokens that end a text, as the files of a model name them. */
#include <stdlib.h>

#include "interop/copies.h"
#include "interop/weights_file.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

static void add(const json_t *value, size_t V, int32_t *ids, size_t room, size_t *count) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id >= 0 && (uint64_t)id < V && *count < room) ids[(*count)++] = (int32_t)id;
}

static void take(const json_t *config, size_t V, int32_t *ids, size_t room, size_t *count) {
    const json_t *value = json_object_get(config, "eos_token_id");
    *count = 0;
    add(value, V, ids, room, count);
    for (size_t i = 0; i < json_array_size(value); i++) add(json_array_get(value, i), V, ids, room, count);
}

ls_status ls_weights_eos(const ls_weights *weights, int32_t *ids, size_t room, size_t *count) {
    size_t V = weights->model->shape.V;
    char *path = NULL;
    json_t *config = NULL;
    take(weights->token_ids, V, ids, room, count);
    if (!ls_path_is_folder(weights->path) || !ls_path_has(weights->path, LS_GENERATION_CONFIG)) return LS_OK;
    LS_TRY(ls_path_join(weights->path, LS_GENERATION_CONFIG, &path));
    ls_status status = ls_json_load_file(path, CONFIG_BYTES_MAX, &config);
    if (status == LS_OK && json_object_get(config, "eos_token_id")) take(config, V, ids, room, count);
    json_decref(config);
    free(path);
    return status;
}
