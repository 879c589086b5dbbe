/* fuzz_shape.c: any bytes as a shape file: JSON or YAML, ours or Hugging Face's. What is accepted passes the check and
 * reads back as itself.
 *
 *     clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Iinclude -Isrc tests/fuzz/fuzz_shape.c … */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/shape_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_back(const ls_shape *shape, json_t *json, const char *source) {
    ls_shape back;
    if (!json) abort();
    if (ls_shape_from_json(json, source, &back) != LS_OK) abort();
    if (back.V != shape->V || back.C != shape->C || back.L != shape->L || back.H != shape->H || back.T != shape->T ||
        back.hidden != shape->hidden || back.eps != shape->eps || back.tied != shape->tied)
        abort();
    json_decref(json);
}

static void try_as(const char *source, const char *text, size_t bytes) {
    ls_shape shape;
    if (ls_shape_parse(source, text, bytes, &shape) != LS_OK) return;
    if (ls_shape_check(&shape) != LS_OK) abort();
    read_back(&shape, ls_shape_to_json(&shape), "back.json");
    if (shape.H == shape.kv_heads && shape.H * shape.head_size == shape.C)
        read_back(&shape, ls_shape_to_hf(&shape), "hf.json");
}

/* The first byte chooses how the file is named. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const sources[] = {"a.json", "a.yaml", "a"};
    if (bytes == 0) return 0;
    char *text = malloc(bytes > 1 ? bytes - 1 : 1); /* no room behind the last byte */
    if (!text) return 0;
    memcpy(text, data + 1, bytes - 1);
    try_as(sources[data[0] % 3], text, bytes - 1);
    free(text);
    return 0;
}
