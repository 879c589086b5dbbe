/* tile.h: one tile of a matmul over a pass of K, for gemm.c.
 *
 * A pass is a stretch of K, cut at the ends of slices into segments; the micro-kernel runs once for each. Between
 * segments a chain lives in C, or in the tile's own slots: slot 0 holds the chain under way, slot 1 + i a finished
 * subtree of 2^i slices, as in a binary counter. C is then written by the last segment of K alone, which is why a C of
 * 16 bits, with rows apart, or that is written transposed always has slots. */
#ifndef LS_DEVICE_CPU_GEMM_TILE_H
#define LS_DEVICE_CPU_GEMM_TILE_H

#include "device/cpu/gemm/gemm.h"

enum { LS_GEMM_TILE_ELEMS_MAX = 32 * 32 };

typedef struct ls_gemm_segment {
    size_t at, k; /* positions from the begin of the packed panels */
    int slice;
    bool begins, ends; /* its slice */
} ls_gemm_segment;

typedef struct ls_gemm_pass {
    int slices, segments;
    ls_gemm_segment segment[LS_GEMM_SLICES_MAX];
} ls_gemm_pass;

/* Cuts the pass over positions k0 … k1−1 of K into segments; its panels begin at position `base`. An empty slice
 * belongs to the pass in which it lies; one at the very end to the last pass. */
void ls_gemm_pass_cut(ls_gemm_pass *pass, int slices, const size_t *bounds, size_t base, size_t k0, size_t k1,
                      bool is_last);

/* Returns how many slots of mr·nr floats a tile needs. */
int ls_gemm_slots_of(int slices);

typedef struct ls_gemm_place {
    size_t row, column;   /* in C */
    size_t rows, columns; /* of this tile that exist */
    const char *a, *b;    /* its panels */
    float *slots;         /* NULL: the chain lives in C, in fp32 with one slice and no siblings */
    bool turned;          /* rows and columns are those of C transposed; fp32 with one slice, slots, and no siblings */
} ls_gemm_place;

/* Runs the segments of a pass for one tile; the last pass writes the tile to C with the epilogue. */
void ls_gemm_tile_run(const ls_gemm_kernels *kernels, const ls_gemm *g, const ls_gemm_pass *pass,
                      const ls_gemm_place *place);

#endif
