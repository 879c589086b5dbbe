/* dropout_loops.h: dropout over a vector of 16 lanes.
 *
 * Included by kernels_loops.h. The random numbers of a stretch of a row are computed first, then used. */
#include "device/cpu/loops/part_loops.h"
/* philox_loops.h uses part_loops.h. */
#include "device/cpu/loops/philox_loops.h"

enum { STRETCH = 1024 };

/* Returns n ≤ 16 elements after dropout, scaled or +0; `words` are their random numbers, `limit` is from limit_of(). */
LSK_INLINE v16 dropped_part(const float *x, const uint32_t *words, v16i limit, v16 scale, size_t n) {
    return v16_select(dropped_lanes(words, limit), v16_set1(0.0f), v16_mul(load_part(x, n), scale));
}

/* Stores n elements after dropout, plus the residual unless it is NULL. */
LSK_INLINE void dropout_part(float *y, const float *residual, v16 dropped, size_t n) {
    store_part(y, residual ? v16_add(load_part(residual, n), dropped) : dropped, n);
}

/* Computes y of n ≤ STRETCH elements; the first has the global index `index`, which decides what is dropped. */
static void drop_stretch(const ls_dropout_call *c, float *y, const float *x, const float *residual, uint64_t index,
                         size_t n) {
    uint32_t space[STRETCH_WORDS(STRETCH)];
    const uint32_t *words = make_stretch(space, c->drop.key, index, n);
    const v16i limit = limit_of(c->drop.threshold);
    const v16 scale = v16_set1(c->drop.scale);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        dropout_part(y + i, residual ? residual + i : NULL, dropped_part(x + i, words + i, limit, scale, LANES), LANES);
    if (i < n)
        dropout_part(y + i, residual ? residual + i : NULL, dropped_part(x + i, words + i, limit, scale, n - i), n - i);
}

/* Computes y = residual + dropout(x) of all rows, fp32, without gaps: ls_dropout_kernels.dropout_add. */
static void LSK_NAME(lsk_dropout_add)(const ls_dropout_call *call) {
    const ls_dropout_call *c = call;
    const float *x = c->x;
    float *y = c->y;
    size_t rows = c->rows, columns = c->columns;
    uint64_t index = c->drop.first * columns;
    /* Rows that follow each other without gaps are one long row. */
    if (c->x_stride == columns && c->y_stride == columns && (!c->residual || c->residual_stride == columns)) {
        columns *= rows;
        rows = 1;
    }
    for (size_t r = 0; r < rows; r++, index += columns)
        for (size_t i = 0; i < columns; i += STRETCH)
            drop_stretch(c, y + r * c->y_stride + i, x + r * c->x_stride + i,
                         c->residual ? c->residual + r * c->residual_stride + i : NULL, index + i,
                         columns - i < STRETCH ? columns - i : STRETCH);
}

static const ls_dropout_kernels dropout_kernels = {.dropout_add = LSK_NAME(lsk_dropout_add)};
