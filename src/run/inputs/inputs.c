/* inputs.c: opens the model and its tokenizer, and reads the layout and the worker options that options name. */
#include "run/inputs/inputs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/json.h"
#include "comm/world/wire.h"
#include "model/shape_json.h"
#include "run/folder/run_start.h"

/* ---- model ------------------------------------------------------------------------------------------------------- */

ls_status ls_start_open(const char *model, ls_start *out) {
    *out = (ls_start){0};
    return ls_weights_resolve(model, &out->shape, &out->weights);
}

ls_status ls_start_look(const char *model, ls_start *out) {
    *out = (ls_start){0};
    return ls_weights_look(model, &out->shape, &out->weights);
}

ls_status ls_start_open_together(ls_world *world, const char *model, ls_start *start) {
    ls_start_close(start);
    return ls_run_start_model(world, model, &start->shape, &start->weights);
}

void ls_start_close(ls_start *start) {
    ls_weights_close(start->weights);
    *start = (ls_start){0};
}

ls_status ls_start_tokenizer(const ls_start *start, const char *option, ls_tokenizer **out) {
    const char *of_model = start->weights ? ls_weights_tokenizer(start->weights) : NULL;
    const char *name = option ? option : of_model ? of_model : start->shape.V == 256 ? "bytes" : NULL;
    *out = NULL;
    if (!name) return LS_OK;
    LS_TRY(ls_tokenizer_open(name, out));
    if (ls_tokenizer_vocab(*out) <= start->shape.V) return LS_OK;
    unsigned vocab = ls_tokenizer_vocab(*out);
    ls_tokenizer_close(*out);
    *out = NULL;
    return ls_fail(
        LS_ERR_INPUT,
        "the tokenizer %s has %u tokens, but the vocabulary of %s has only %zu: it is the tokenizer of another model",
        name, vocab, start->shape.name, start->shape.V);
}

ls_status ls_cache_dir(char *path, size_t room) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache && *cache ? snprintf(path, room, "%s/lockstep", cache)
                 : home && *home ? snprintf(path, room, "%s/.cache/lockstep", home)
                                 : snprintf(path, room, ".lockstep-cache");
    if (length < 0 || (size_t)length >= room)
        return ls_fail(LS_ERR_INPUT, "the path of the token cache is too long; set XDG_CACHE_HOME to a shorter one");
    return LS_OK;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

enum { FILE_BYTES_MAX = 1 << 20 };

/* Loads a JSON or YAML file of at most 1 MiB; the caller releases *out. */
static ls_status read_file(const char *path, json_t **out) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, FILE_BYTES_MAX, &text, &bytes));
    bool is_json = ls_json_is_format(path, text, bytes);
    ls_status status = is_json ? ls_json_load_text(path, text, bytes, out) : ls_shape_yaml_load(path, text, bytes, out);
    free(text);
    return status;
}

ls_status ls_layout_request_from_options(const ls_options *o, json_t **file, ls_layout_request *out) {
    *file = NULL;
    *out = ls_layout_request_none();
    if (!o->layout) {
        ls_layout_request_add(o, LS_ORIGIN_FILE, out);
        return LS_OK;
    }
    ls_status status = read_file(o->layout, file);
    if (status == LS_OK) status = ls_layout_request_from_json(o->layout, *file, out);
    if (status == LS_OK) {
        ls_layout_request_add(o, o->source[LS_OPT_layout].origin, out);
        return LS_OK;
    }
    json_decref(*file);
    *file = NULL;
    return ls_fail_at(status, "--layout: ");
}

ls_status ls_workers_options_from(const ls_options *options, ls_workers_options *workers) {
    *workers = (ls_workers_options){.workers = (int)options->workers,
                                    .threads = (int)options->threads,
                                    .no_pin = !options->pin,
                                    .timeout_s = options->timeout,
                                    .heap_bytes = options->shm_heap,
                                    .node_size = (int)options->node_size};
    if (!options->slow_link) return LS_OK;
    return ls_options_blame(options, LS_OPT_slow_link,
                            ls_wire_parse(options->slow_link, &workers->link_latency_s, &workers->link_bytes_per_s));
}
