/* layout.c: reading --layout FILE, and flags over it. */
#include "run/inputs/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "comm/wire.h"
#include "model/shape_json.h"
#include "parallel/layout/layout.h"

enum { FILE_BYTES_MAX = 1 << 20 };

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
