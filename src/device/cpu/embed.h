/* embed.h: token and position embeddings; the formulas are in docs/arithmetic.md, "Embedding, bias, residual".
 *
 * A table of token rows may be a part of the vocabulary: it holds the rows of ids id_begin … id_end−1, and tokens
 * outside of it are passed over: their output is left alone and their gradient goes nowhere. Row r of a call has the
 * position (position0 + r) mod period, as in rope.h. Tables have C elements a row; dy and y have strides, in elements.
 * Nothing overlaps. */
#ifndef LS_DEVICE_CPU_EMBED_H
#define LS_DEVICE_CPU_EMBED_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_embed_tokens {
    const int32_t *ids; /* one for each row */
    int32_t id_begin, id_end;
    size_t rows, C;
} ls_embed_tokens;

typedef struct ls_embed_kernels {
    /* y[r] = token[ids[r] − id_begin] + position[(position0 + r) mod period]; position NULL: a copy of the token row.
     * Threads may split rows. */
    void (*forward)(float *y, size_t y_stride, const float *token, const float *position, size_t position0,
                    size_t period, const ls_embed_tokens *tokens);
    /* dtoken[ids[r] − id_begin] += dy[r], r ascending, in columns column_begin … column_end−1. Threads split columns,
     * or ids. Pointers are those of whole rows, whatever the range. */
    void (*token_grad)(float *dtoken, const float *dy, size_t dy_stride, const ls_embed_tokens *tokens,
                       size_t column_begin, size_t column_end);
    /* to[c] goes on with dy[rows[0]][c], dy[rows[1]][c], …, `count` of them, for c < columns. */
    void (*row_sums)(float *to, const float *dy, size_t dy_stride, const size_t *rows, size_t count, size_t columns);
    /* dposition[(position0 + r) mod period] += dy[r], r ascending. Threads split columns. */
    void (*position_grad)(float *dposition, const float *dy, size_t dy_stride, size_t position0, size_t period,
                          size_t rows, size_t C, size_t column_begin, size_t column_end);
} ls_embed_kernels;

void ls_embed_kernels_fill_portable(ls_embed_kernels *table);
void ls_embed_kernels_fill_neon(ls_embed_kernels *table);
void ls_embed_kernels_fill_avx2(ls_embed_kernels *table);
void ls_embed_kernels_fill_avx512(ls_embed_kernels *table);

#endif
