/* attention_tiles_loops.h: building blocks of attention's matmuls: the GEMM micro-kernel of the ISA, panels for it, and
 * chains for the triangles that a mask leaves at the ends of the keys of a panel.
 *
 * Included by attention_loops.h. A panel is what gemm.h says: k rows of mr or nr values. A matmul reads a panel of
 * each side and leaves a tile of mr rows and nr columns, so scores that are written one tile below the other are
 * themselves a panel of nr columns, ready for the next matmul.
 *
 * Invariants: a chain takes its terms in ascending order and never a masked one (a masked key would add 0·V, which can
 * change −0 to +0 and infinity to NaN). Rows and columns of panels behind the last one hold numbers that are never
 * read.
 *
 * 16-bit tensors are widened a block at a time, and then computed as in fp32; but weights are rounded before a matmul
 * reads them, and results when they are stored. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/pack.h"
#include "device/cpu/loops/part_loops.h"

/* The micro-kernel of the ISA, with the arguments that all tiles share. */
typedef struct engine {
    ls_gemm_kernels gemm;
    size_t mr, nr;
    ls_gemm_tile tile; /* what all tiles have in common: no addends, no bias */
} engine;

/* Returns the engine of this ISA. */
static engine engine_make(void) {
    engine e = {.mr = 0};
    LSK_NAME(ls_gemm_kernels_fill)(&e.gemm);
    e.mr = e.gemm.mr;
    e.nr = e.gemm.nr;
    /* Flat loops over tiles and panels work on whole v16. */
    assert(e.mr <= LS_ATTENTION_TILE && e.nr <= LS_ATTENTION_TILE && e.nr % 4 == 0 && e.mr * e.nr % LANES == 0);
    return e;
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }
/* Returns x rounded up to a multiple of `to`. */
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }

/* Returns x − first, or 0 if that is negative. */
static size_t behind(size_t x, size_t first) { return x > first ? x - first : 0; }

/* Returns the bytes of an element of the call's tensors. */
static size_t bytes_of(const ls_attention *a) { return a->act == LS_F32 ? sizeof(float) : sizeof(uint16_t); }

/* Returns row `row` of a head of an input tensor. */
static const void *row_in(const ls_attention *a, ls_attention_in x, size_t row, size_t head) {
    return (const char *)x.at + (row * x.row_stride + head * x.head_stride) * bytes_of(a);
}

/* Returns row `row` of a head of an output tensor. */
static void *row_out(const ls_attention *a, ls_attention_out x, size_t row, size_t head) {
    return (char *)x.at + (row * x.row_stride + head * x.head_stride) * bytes_of(a);
}

/* Loads n ≤ 16 elements of a row of type `act` from element i on, widened; the other lanes are +0. */
LSK_INLINE v16 widened(const void *row, size_t i, size_t n, ls_dtype act) {
    if (act == LS_F32) return load_part((const float *)row + i, n);
    const uint16_t *from = (const uint16_t *)row + i;
    if (act == LS_BF16) return n == LANES ? v16_load_bf16(from) : v16_load_bf16_n(from, n);
    return n == LANES ? v16_load_f16(from) : v16_load_f16_n(from, n);
}

/* Stores n ≤ 16 elements of x, rounded to `act`, in a row from element i on. */
LSK_INLINE void narrow(void *row, size_t i, v16 x, size_t n, ls_dtype act) {
    uint16_t *to = (uint16_t *)row + i;
    if (act == LS_F32)
        store_part((float *)row + i, x, n);
    else if (act == LS_BF16 && n == LANES)
        v16_store_bf16(to, x);
    else if (act == LS_BF16)
        v16_store_bf16_n(to, x, n);
    else
        v16_store_f16_n(to, x, n);
}

/* Rows of one head in fp32. */
typedef struct wide_rows {
    const float *at;
    size_t stride;
} wide_rows;

/* Returns the floats of a widened row; 0 for fp32, which needs none. */
static size_t wide_elems(const ls_attention *a) { return a->act == LS_F32 ? 0 : up(a->head_size, LANES); }

/* Returns `count` rows in fp32: in place if they are fp32, else widened in `space`, [count][d up to 16]. */
static wide_rows wide_rows_of(const ls_attention *a, ls_attention_in x, size_t row, size_t head, size_t count,
                              float *space) {
    if (a->act == LS_F32) return (wide_rows){row_in(a, x, row, head), x.row_stride};
    size_t d = a->head_size, stride = up(d, LANES);
    for (size_t r = 0; r < count; r++) {
        const void *from = row_in(a, x, row + r, head);
        for (size_t i = 0; i < d; i += LANES)
            v16_store(space + r * stride + i, widened(from, i, part_of(d - i), a->act));
    }
    return (wide_rows){space, stride};
}

/* Rounds weights to `act` in place, still as fp32, as matmuls read them; nothing for fp32. Works on whole v16. */
static void round_weights(float *x, size_t elems, ls_dtype act) {
    uint16_t half[LANES];
    if (act == LS_BF16) {
        for (size_t i = 0; i < elems; i += LANES) {
            v16 whole = v16_load(x + i);
            v16i bits = v16_bits(whole), odd = v16i_and(v16i_shr(bits, 16), v16i_set1(1));
            bits = v16i_and(v16i_add(v16i_add(bits, v16i_set1(0x7FFF)), odd), v16i_set1(-0x10000));
            v16_store(x + i, v16_select(v16_isnan(whole), whole, v16_from_bits(bits)));
        }
    } else if (act == LS_F16) {
        for (size_t i = 0; i < elems; i += LANES) {
            v16_store_f16(half, v16_load(x + i));
            v16_store(x + i, v16_load_f16(half));
        }
    }
}

/* Stores factor·x, rounded to `act`. */
static void scaled_row(void *out, ls_dtype act, const float *x, float factor, size_t d) {
    for (size_t i = 0; i < d; i += LANES) {
        size_t n = part_of(d - i);
        narrow(out, i, v16_mul(v16_set1(factor), load_part(x + i, n)), n, act);
    }
}

/* Stores x / divisor, rounded to `act`. */
static void divided_row(void *out, ls_dtype act, const float *x, float divisor, size_t d) {
    for (size_t i = 0; i < d; i += LANES) {
        size_t n = part_of(d - i);
        narrow(out, i, v16_div(load_part(x + i, n), v16_set1(divisor)), n, act);
    }
}

/* Computes a tile of the matmul of panels a and b over k: from +0, or continuing `out` if goes_on. */
LSK_INLINE void product(engine *e, size_t k, const float *a, const float *b, int goes_on, float *out, size_t ld) {
    e->tile.start = goes_on ? out : NULL;
    e->tile.out = out;
    e->tile.ldstart = e->tile.ldout = ld;
    e->gemm.micro(k, a, b, &e->tile);
}

/* Packs panels with a column for each row of x, for chains over the d elements of a head. */
static void pack_rows(const engine *e, float *panels, size_t width, wide_rows x, size_t rows, size_t d) {
    ls_gemm_pack(&e->gemm, panels, width, (ls_gemm_lines){.at = x.at, .ld = x.stride, .along_k = true}, rows, d);
}

/* Packs panels with a column for each element of a head, for chains over the rows of x. */
static void pack_elements(const engine *e, float *panels, size_t width, wide_rows x, size_t rows, size_t d) {
    ls_gemm_pack(&e->gemm, panels, width, (ls_gemm_lines){.at = x.at, .ld = x.stride}, d, rows);
}

/* Computes to[j][i] = from[i][j], i < rows, j < columns; rows ≤ to_stride. */
static void transpose(const engine *e, float *to, size_t to_stride, const float *from, size_t from_stride, size_t rows,
                      size_t columns) {
    ls_gemm_pack(&e->gemm, to, to_stride, (ls_gemm_lines){.at = from, .ld = from_stride, .along_k = true}, rows,
                 columns);
}

/* Continues `out` with the chain over rows from … from+n−1 of x, row r times weights[(r−from)·weight_stride]; `out` has
 * space for whole v16. */
static void chain_row(float *out, const float *weights, size_t weight_stride, wide_rows rows, size_t from, size_t n,
                      size_t d) {
    const float *x = rows.at + from * rows.stride;
    size_t i = 0, x_stride = rows.stride;
    for (; i + LANES <= d; i += LANES) {
        v16 sum = v16_load(out + i);
        for (size_t r = 0; r < n; r++)
            sum = v16_fma(v16_set1(weights[r * weight_stride]), v16_load(x + r * x_stride + i), sum);
        v16_store(out + i, sum);
    }
    if (i == d) return;
    v16 sum = v16_load(out + i);
    for (size_t r = 0; r < n; r++)
        sum = v16_fma(v16_set1(weights[r * weight_stride]), v16_load_n(x + r * x_stride + i, d - i, 0), sum);
    v16_store(out + i, sum);
}
