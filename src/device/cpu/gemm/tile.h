/* tile.h: computes one tile of C (mr × nr elements, in registers of a micro-kernel) over a pass, a stretch of K, for
 * gemm.c. A slice is a part of K whose sum stands alone; the sums of slices are added as one fixed binary tree.
 *
 * A pass is cut at the ends of slices into segments; the micro-kernel runs once for each. Between segments a chain
 * lives in C, or in the tile's own slots: slot 0 holds the unfinished chain, slot 1 + i a finished subtree of 2^i
 * slices, as in a binary counter. C is then written by the last segment of K alone, which is why a C of 16 bits, with
 * rows apart, or that is written transposed always has slots. */
#ifndef LS_DEVICE_CPU_GEMM_TILE_H
#define LS_DEVICE_CPU_GEMM_TILE_H

#include "device/cpu/gemm/gemm.h"

enum { LS_GEMM_TILE_ELEMS_MAX = 32 * 32 };

/* The part of a slice that lies in a pass. */
typedef struct ls_gemm_segment {
    size_t at, k;      /* where it begins in the packed panels, and its length, in positions of K */
    int slice;         /* number of the slice */
    bool begins, ends; /* the slice begins, or ends, with this segment */
} ls_gemm_segment;

typedef struct ls_gemm_pass {
    int slices, segments;
    ls_gemm_segment segment[LS_GEMM_SLICES_MAX];
} ls_gemm_pass;

/* Cuts the pass over positions k0 … k1−1 of K into segments; its panels begin at position `base`. An empty slice
 * belongs to the pass in which it lies; one at the very end to the last pass. */
void ls_gemm_pass_cut(ls_gemm_pass *pass, int slices, const size_t *bounds, size_t base, size_t k0, size_t k1,
                      bool is_last);

/* Returns how many slots of mr·nr floats a tile needs for this many slices: 1 + ⌈log2 slices⌉. */
int ls_gemm_slots_of(int slices);

/* A tile and its operands. */
typedef struct ls_gemm_place {
    size_t row, column;   /* of its first element, in C */
    size_t rows, columns; /* that exist; fewer than mr and nr at the edges of C */
    const char *a, *b;    /* its packed panels */
    float *slots;         /* NULL: the chain lives in C, in fp32 with one slice and no siblings */
    bool turned;          /* rows and columns are those of C transposed; fp32 with one slice, slots, and no siblings */
} ls_gemm_place;

/* Runs the segments of a pass for one tile; the last pass writes the tile to C with the epilogue. */
void ls_gemm_tile_run(const ls_gemm_kernels *kernels, const ls_gemm *g, const ls_gemm_pass *pass,
                      const ls_gemm_place *place);

#endif
