/* embed_loops.h: token and position embeddings over a vector of 16 lanes.
 *
 * Included by one file per ISA after its vector type, with LSK_NAME(stem) set. */
#include <string.h>

#include "kernels/embed.h"
#include "kernels/loops/part_loops.h"

LSK_INLINE void sum_part(float *y, const float *a, const float *b, size_t n) {
    store_part(y, v16_add(load_part(a, n), load_part(b, n)), n);
}

LSK_INLINE void sum_row(float *y, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sum_part(y + i, a + i, b + i, LANES);
    if (i < n) sum_part(y + i, a + i, b + i, n - i);
}

/* Whether the table holds the row of token r, and which of its rows that is. */
LSK_INLINE int find_row(const ls_embed_tokens *tokens, size_t r, size_t *row) {
    int32_t id = tokens->ids[r];
    if (id < tokens->id_begin || id >= tokens->id_end) return 0;
    *row = (size_t)(id - tokens->id_begin);
    return 1;
}

static void LSK_NAME(lsk_embed_forward)(float *y, size_t y_stride, const float *token, const float *position,
                                        size_t position0, size_t period, const ls_embed_tokens *tokens) {
    size_t C = tokens->C, at = position ? position0 % period : 0;
    for (size_t r = 0; r < tokens->rows; r++, y += y_stride) {
        size_t row;
        int found = find_row(tokens, r, &row);
        if (found && position)
            sum_row(y, token + row * C, position + at * C, C);
        else if (found)
            memcpy(y, token + row * C, C * sizeof *y);
        if (position && ++at == period) at = 0;
    }
}

static void LSK_NAME(lsk_embed_token_grad)(float *dtoken, const float *dy, size_t dy_stride,
                                           const ls_embed_tokens *tokens, size_t column_begin, size_t column_end) {
    for (size_t r = 0; r < tokens->rows; r++) {
        size_t row;
        if (!find_row(tokens, r, &row)) continue;
        float *to = dtoken + row * tokens->C + column_begin;
        sum_row(to, to, dy + r * dy_stride + column_begin, column_end - column_begin);
    }
}

static void LSK_NAME(lsk_embed_position_grad)(float *dposition, const float *dy, size_t dy_stride, size_t position0,
                                              size_t period, size_t rows, size_t C, size_t column_begin,
                                              size_t column_end) {
    size_t at = position0 % period;
    for (size_t r = 0; r < rows; r++) {
        float *to = dposition + at * C + column_begin;
        sum_row(to, to, dy + r * dy_stride + column_begin, column_end - column_begin);
        if (++at == period) at = 0;
    }
}

static void LSK_NAME(fill)(ls_embed_kernels *t) {
    *t = (ls_embed_kernels){
        .forward = LSK_NAME(lsk_embed_forward),
        .token_grad = LSK_NAME(lsk_embed_token_grad),
        .position_grad = LSK_NAME(lsk_embed_position_grad),
    };
}
