/* embed_loops.h: token and position embeddings over a vector of 16 lanes.
 *
 * Included by kernels_loops.h. */
#include <string.h>

#include "device/cpu/loops/part_loops.h"

/* Computes n ≤ 16 elements of y = a + b. */
LSK_INLINE void sum_part(float *y, const float *a, const float *b, size_t n) {
    store_part(y, v16_add(load_part(a, n), load_part(b, n)), n);
}

/* Computes y = a + b; prefetches `next`, the row for the next call, unless it is NULL. */
LSK_INLINE void sum_row(float *y, const float *a, const float *b, size_t n, const float *next) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (next) __builtin_prefetch(next + i);
        sum_part(y + i, a + i, b + i, LANES);
    }
    if (i < n) sum_part(y + i, a + i, b + i, n - i);
}

/* Returns whether the table holds the row of token r, and sets *row to its number there; else *row is unchanged. */
LSK_INLINE int find_row(const ls_embed_tokens *tokens, size_t r, size_t *row) {
    int32_t id = tokens->ids[r];
    if (id < tokens->id_begin || id >= tokens->id_end) return 0;
    *row = (size_t)(id - tokens->id_begin);
    return 1;
}

/* Returns the table row of a later token, to be prefetched, because the hardware prefetcher cannot foresee it; any row
 * if there is none. */
LSK_INLINE const float *row_ahead(const float *table, const ls_embed_tokens *tokens, size_t r) {
    enum { ROWS_AHEAD = 2 };
    size_t row = 0;
    if (r + ROWS_AHEAD < tokens->rows) find_row(tokens, r + ROWS_AHEAD, &row);
    return table + row * tokens->C;
}

/* Computes y = token row + position row; rows of other workers' ids are left as they are: ls_embed_kernels.forward. */
static void LSK_NAME(lsk_embed_forward)(const ls_embed_call *call) {
    const ls_embed_tokens *tokens = call->tokens;
    const float *token = call->token, *position = call->position;
    size_t C = tokens->C, at = position ? call->position0 % call->period : 0;
    float *y = call->y;
    for (size_t r = 0; r < tokens->rows; r++, y += call->y_stride) {
        size_t row;
        int found = find_row(tokens, r, &row);
        if (found && position)
            sum_row(y, token + row * C, position + at * C, C, row_ahead(token, tokens, r));
        else if (found)
            memcpy(y, token + row * C, C * sizeof *y);
        if (position && ++at == call->period) at = 0;
    }
}

/* Adds each row of dy to the row of its id, rows ascending, in a range of columns: ls_embed_kernels.token_grad. */
static void LSK_NAME(lsk_embed_token_grad)(float *dtoken, const float *dy, size_t dy_stride,
                                           const ls_embed_tokens *tokens, size_t column_begin, size_t column_end) {
    for (size_t r = 0; r < tokens->rows; r++) {
        size_t row;
        if (!find_row(tokens, r, &row)) continue;
        float *to = dtoken + row * tokens->C + column_begin;
        sum_row(to, to, dy + r * dy_stride + column_begin, column_end - column_begin,
                row_ahead(dtoken, tokens, r) + column_begin);
    }
}

/* Rows that are added in one pass over the columns, so that the sums are loaded and stored once for all of them. */
enum { EMBED_ROWS = 4 };

/* Adds n ≤ 16 columns of EMBED_ROWS rows, in order. */
LSK_INLINE void row_sums_part(float *restrict to, const float *const *from, size_t c, size_t n) {
    v16 sum = load_part(to + c, n);
    for (int r = 0; r < EMBED_ROWS; r++) sum = v16_add(sum, load_part(from[r] + c, n));
    store_part(to + c, sum, n);
}

/* Adds the listed rows of dy to `to`, in the order of the list: ls_embed_kernels.row_sums. */
static void LSK_NAME(lsk_embed_row_sums)(float *to, const float *dy, size_t dy_stride, const size_t *rows, size_t count,
                                         size_t columns) {
    size_t r = 0;
    for (; r + EMBED_ROWS <= count; r += EMBED_ROWS) {
        const float *from[EMBED_ROWS];
        for (size_t i = 0; i < EMBED_ROWS; i++) from[i] = dy + rows[r + i] * dy_stride;
        size_t c = 0;
        for (; c + LANES <= columns; c += LANES) row_sums_part(to, from, c, LANES);
        if (c < columns) row_sums_part(to, from, c, columns - c);
    }
    for (; r < count; r++) sum_row(to, to, dy + rows[r] * dy_stride, columns, NULL);
}

/* Adds each row of dy to the row of its position, in a range of columns: ls_embed_kernels.position_grad. */
static void LSK_NAME(lsk_embed_position_grad)(float *dposition, const float *dy, size_t dy_stride, size_t position0,
                                              size_t period, size_t rows, size_t C, size_t column_begin,
                                              size_t column_end) {
    size_t at = position0 % period;
    for (size_t r = 0; r < rows; r++) {
        float *to = dposition + at * C + column_begin;
        sum_row(to, to, dy + r * dy_stride + column_begin, column_end - column_begin, NULL);
        if (++at == period) at = 0;
    }
}

static const ls_embed_kernels embed_kernels = {
    .forward = LSK_NAME(lsk_embed_forward),
    .token_grad = LSK_NAME(lsk_embed_token_grad),
    .row_sums = LSK_NAME(lsk_embed_row_sums),
    .position_grad = LSK_NAME(lsk_embed_position_grad),
};
