/* windows.c: see windows.h. */
#include "data/windows.h"

#include <assert.h>
#include <inttypes.h>

ls_status ls_windows_init(ls_windows *windows, uint64_t tokens, uint64_t length, uint64_t stride) {
    assert(stride >= 1 && stride <= length);
    if (tokens < 2)
        return ls_fail(LS_ERR_INPUT, "the data has %" PRIu64 " token%s; at least 2 are needed to predict one", tokens,
                       tokens == 1 ? "" : "s");
    *windows = (ls_windows){.tokens = tokens, .length = length, .stride = stride, .count = 1};
    uint64_t targets = tokens - 1;
    if (targets > length) windows->count += (targets - length - 1) / stride + 1;
    return LS_OK;
}

ls_token_window ls_windows_get(const ls_windows *windows, uint64_t k) {
    assert(k < windows->count);
    uint64_t begin = k * windows->stride, left = windows->tokens - 1 - begin;
    ls_token_window window = {.begin = begin, .length = (size_t)(left < windows->length ? left : windows->length)};
    if (k > 0) window.context = (size_t)(windows->length - windows->stride);
    assert(window.context < window.length);
    return window;
}

size_t ls_windows_alike(const ls_windows *windows, uint64_t k, size_t most) {
    ls_token_window first = ls_windows_get(windows, k);
    size_t n = 1;
    for (; n < most && k + n < windows->count; n++) {
        ls_token_window next = ls_windows_get(windows, k + n);
        if (next.length != first.length || next.context != first.context) break;
    }
    return n;
}
