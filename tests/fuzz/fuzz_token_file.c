/* fuzz_token_file.c: any bytes as a token file. The first byte says how many of the others, in eighths, are Megatron's
 * index; 0: none. What is accepted has all its tokens inside the bytes of the tokens, and ids of its type. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/text/token_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_token_layout layout;
    if (!bytes) return 0;
    size_t index_bytes = data[0] ? (bytes - 1) / 8 * (data[0] % 8 + 1) : 0;
    const uint8_t *index = data[0] ? data + 1 : NULL, *tokens = data + 1 + index_bytes;
    size_t token_bytes = bytes - 1 - index_bytes;
    if (ls_token_layout_parse("fuzz", tokens, token_bytes, index, index_bytes, &layout) != LS_OK) return 0;
    size_t width = ls_token_width(layout.type);
    if (layout.tokens < tokens || layout.tokens > tokens + token_bytes) abort();
    if (layout.count > (size_t)(tokens + token_bytes - layout.tokens) / width) abort();
    for (uint64_t at = 0; at < layout.count; at += 64) {
        int64_t ids[64];
        size_t count = layout.count - at < 64 ? (size_t)(layout.count - at) : 64;
        ls_token_load(layout.type, layout.tokens + at * width, count, ids);
        for (size_t i = 0; width == 2 && i < count; i++)
            if (ids[i] < INT16_MIN || ids[i] > UINT16_MAX) abort();
    }
    return 0;
}
