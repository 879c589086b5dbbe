/* token_order.c: sorts rows by id, digit after digit from the lowest; each pass keeps the order of equal digits. */
#include "device/cpu/ops/token_order.h"

#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

static size_t digit_of(const ls_embed_tokens *tokens, size_t row, int shift) {
    uint32_t place = (uint32_t)tokens->ids[row] - (uint32_t)tokens->id_begin;
    return place >> shift & (DIGITS - 1);
}

static void sort_by_digit(const ls_embed_tokens *tokens, size_t *to, const size_t *from, size_t n, int shift) {
    size_t starts[DIGITS + 1] = {0};
    for (size_t i = 0; i < n; i++) starts[digit_of(tokens, from[i], shift) + 1]++;
    for (size_t d = 0; d < DIGITS; d++) starts[d + 1] += starts[d];
    for (size_t i = 0; i < n; i++) to[starts[digit_of(tokens, from[i], shift)]++] = from[i];
}

size_t ls_cpu_order_tokens(const ls_embed_tokens *tokens, size_t *rows, size_t *spare) {
    size_t n = 0;
    for (size_t r = 0; r < tokens->rows; r++)
        if (tokens->ids[r] >= tokens->id_begin && tokens->ids[r] < tokens->id_end) rows[n++] = r;
    if (n == 0) return 0;
    uint32_t last = (uint32_t)tokens->id_end - (uint32_t)tokens->id_begin - 1;
    size_t *from = rows, *to = spare;
    for (int shift = 0; shift < 32 && last >> shift > 0; shift += DIGIT_BITS) {
        sort_by_digit(tokens, to, from, n, shift);
        size_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
    return n;
}
