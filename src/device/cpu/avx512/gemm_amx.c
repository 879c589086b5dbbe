/* gemm_amx.c: a 32 × 32 micro-kernel with AMX: four tiles of 16 × 16 sums, two of A, two of B.
 *
 *     tile 4: rows 0 … 15 of A, 32 k each         tile 6: columns 0 … 15 of B, a row for each pair of k
 *     tile 5: rows 16 … 31                        tile 7: columns 16 … 31
 *     tiles 0, 1, 2, 3: 4·6, 4·7, 5·6, 5·7
 *
 * A panel of A is [k / 32][row][32], one of B [k / 2][column][2], so that both are loaded as they lie. A thread
 * configures its tiles at the begin of a task and releases them at its end: while they are configured, every context
 * switch on its core saves and loads 8 KiB more. */
#include <stdbool.h>
#include <stdint.h>

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/simd/avx512.h"

enum { MR = 32, NR = 32, GRANULE = 32, TILE = 16, LANES = 16 };
/* Bytes from row to row of the tiles, and of a granule of a panel. */
enum { ROW_A = 2 * GRANULE, ROW_B = 4 * NR, GRANULE_A = MR * ROW_A, GRANULE_B = GRANULE / 2 * ROW_B };

/* As LDTILECFG reads it. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

_Static_assert(sizeof(tile_config) == 64, "as LDTILECFG reads it");

static const _Alignas(64) tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE},
};

/* Configures the tiles of the calling thread; called before the first tile of a task. */
static void begin(void) { _tile_loadconfig(&config); }
/* Releases the tiles of the calling thread; called after the last tile of a task. */
static void end(void) { _tile_release(); }

/* Applies the epilogue to finished sums: adds the addends and the bias, rounds if the tile goes to bf16, and stores. */
static void finish(const float *sums, const ls_gemm_tile *tile) {
    for (size_t i = 0; i < MR; i++) {
        __m512 c0 = _mm512_load_ps(sums + i * NR), c1 = _mm512_load_ps(sums + i * NR + LANES);
        for (int s = 0; s < tile->addends; s++) {
            const float *left = tile->addend[s].at + i * tile->addend[s].ld;
            c0 = _mm512_add_ps(_mm512_loadu_ps(left), c0);
            c1 = _mm512_add_ps(_mm512_loadu_ps(left + LANES), c1);
        }
        if (tile->bias) {
            c0 = _mm512_add_ps(c0, _mm512_loadu_ps(tile->bias));
            c1 = _mm512_add_ps(c1, _mm512_loadu_ps(tile->bias + LANES));
        }
        if (tile->halves) {
            v16_store_bf16(tile->halves + i * tile->ldhalves, c0);
            v16_store_bf16(tile->halves + i * tile->ldhalves + LANES, c1);
        } else {
            _mm512_storeu_ps(tile->out + i * tile->ldout, c0);
            _mm512_storeu_ps(tile->out + i * tile->ldout + LANES, c1);
        }
    }
}

/* Stores the four tiles of sums as 32 × 32 floats, rows `ld` floats apart. */
static void store_sums(float *to, size_t ld) {
    _tile_stored(0, to, ld * sizeof(float));
    _tile_stored(1, to + TILE, ld * sizeof(float));
    _tile_stored(2, to + TILE * ld, ld * sizeof(float));
    _tile_stored(3, to + TILE * ld + TILE, ld * sizeof(float));
}

/* Where the tile goes, so that its cache lines are prefetched while the sums are computed: rows of C are far apart, and
 * a store to a line that is not in the cache waits for it. */
typedef struct target {
    const char *at;
    size_t row, rows; /* bytes from row to row; rows that are left */
    bool is_wide;     /* a row has two lines */
} target;

enum { ROWS_A_GRANULE = 4 };

/* Returns where the tile will be stored. */
static target target_of(const ls_gemm_tile *tile) {
    if (tile->halves) return (target){(const char *)tile->halves, 2 * tile->ldhalves, MR, false};
    return (target){(const char *)tile->out, 4 * tile->ldout, MR, true};
}

/* Prefetches the next rows of the target, a few for each granule; does nothing when all are done. */
static inline void fetch_rows(target *t) {
    if (t->rows == 0) return;
    for (int i = 0; i < ROWS_A_GRANULE; i++, t->at += t->row) {
        __builtin_prefetch(t->at, 1);
        if (t->is_wide) __builtin_prefetch(t->at + 64, 1);
    }
    t->rows -= ROWS_A_GRANULE;
}

/* Computes a tile of 32 × 32 over k from packed bf16 panels, with its epilogue: ls_gemm_kernels.micro. */
static void lsk_gemm_bf16_32x32_amx(size_t k, const void *panel_a, const void *panel_b, const ls_gemm_tile *tile) {
    const char *a = panel_a, *b = panel_b;
    if (tile->start) {
        const float *c = tile->start;
        size_t ld = tile->ldstart;
        _tile_loadd(0, c, ld * sizeof(float));
        _tile_loadd(1, c + TILE, ld * sizeof(float));
        _tile_loadd(2, c + TILE * ld, ld * sizeof(float));
        _tile_loadd(3, c + TILE * ld + TILE, ld * sizeof(float));
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    target to = target_of(tile);
    for (size_t p = 0; p < k; p += GRANULE, a += GRANULE_A, b += GRANULE_B) {
        fetch_rows(&to);
        _tile_loadd(4, a, ROW_A);
        _tile_loadd(6, b, ROW_B);
        _tile_loadd(7, b + 2 * GRANULE, ROW_B);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, a + TILE * ROW_A, ROW_A);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    if (tile->addends == 0 && !tile->bias && !tile->halves) {
        store_sums(tile->out, tile->ldout);
        return;
    }
    _Alignas(64) float sums[MR * NR];
    store_sums(sums, NR);
    finish(sums, tile);
}

/* Fills the table. A thread has up to 512 columns of B in half of a second cache of 2 MiB, and goes over A two panels
 * at a time, so that each matmul needs little of A, which comes from farther away. */
void ls_gemm_kernels_fill_amx(ls_gemm_kernels *table) {
    ls_gemm_kernels chain;
    ls_gemm_kernels_fill_avx512(&chain);
    *table = (ls_gemm_kernels){.name = "32x32 amx",
                               .micro = lsk_gemm_bf16_32x32_amx,
                               .transpose = chain.transpose,
                               .mr = MR,
                               .nr = NR,
                               .kc = 4096,
                               .mb = 64,
                               .nb = 512,
                               .own_bytes = 1024 * 1024,
                               .convert = chain.convert,
                               .granule = GRANULE,
                               .group_a = GRANULE,
                               .group_b = 2,
                               .rate = 12,
                               .rounds_bf16 = true,
                               .begin = begin,
                               .end = end};
}
