/* hgmma.h: what the kernels of hgmma.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_HGMMA_H
#define LS_DEVICE_CUDA_ARGS_HGMMA_H

#include "device/cuda/args/act.h"
#include "device/cuda/args/gemm.h"

enum {
    LS_CUDA_HGMMA_M = 128, /* rows of a tile */
    LS_CUDA_HGMMA_K = 64,  /* of a step: rows of 128 bytes */
    LS_CUDA_HGMMA_THREADS = 384,
    LS_CUDA_HGMMA_BAND = 16, /* rows of tiles that run together, for the second cache */
    LS_CUDA_HGMMA_STAGED_ROWS = 16,
    LS_CUDA_HGMMA_STAGED_BYTES = 2048, /* what a store of the copy engine takes */
    LS_CUDA_HGMMA_OVER_STEPS = 6,      /* hgmma_over.cu: of a slice, at least, */
    LS_CUDA_HGMMA_SPREAD_STEPS = 12,   /* and where pieces go with every other */
};

/* Steps that lie in shared memory or are on their way, by columns of a tile: beside what waits to be stored. */
#define LS_CUDA_HGMMA_STAGES(n) ((n) == 128 ? 6 : (n) == 192 ? 4 : 3)
#define LS_CUDA_HGMMA_STAGED(n) ((n) / 64) /* stores of a warp: all of a tile of 16-bit numbers */
#define LS_CUDA_HGMMA_SHARED(n)                                                                                        \
    (1024 + LS_CUDA_HGMMA_STAGES(n) * (LS_CUDA_HGMMA_M + (n)) * LS_CUDA_HGMMA_K * 2 +                                  \
     8 * LS_CUDA_HGMMA_STAGED(n) * LS_CUDA_HGMMA_STAGED_BYTES + 1024)

/* Tiles of 256 columns: sums of a slice that wait for the next one, by registers of a thread; the others wait where the
 * tile goes out later, and behind all of it. */
enum { LS_CUDA_HGMMA_HELD_N = 256, LS_CUDA_HGMMA_HELD = 48, LS_CUDA_HGMMA_HELD_BYTES = 8 * 2048 };
#define LS_CUDA_HGMMA_HELD_SHARED (LS_CUDA_HGMMA_SHARED(LS_CUDA_HGMMA_HELD_N) + LS_CUDA_HGMMA_HELD_BYTES)

/* hgmma_over.cu: tiles of 256 × 192 too. */
enum { LS_CUDA_HGMMA_TALL_M = 256, LS_CUDA_HGMMA_OVER_N = 192, LS_CUDA_HGMMA_TALL_STAGES = 3 };
#define LS_CUDA_HGMMA_TALL_SHARED                                                                                      \
    (1024 + LS_CUDA_HGMMA_TALL_STAGES * (LS_CUDA_HGMMA_TALL_M + LS_CUDA_HGMMA_OVER_N) * LS_CUDA_HGMMA_K * 2 +          \
     8 * LS_CUDA_HGMMA_STAGED(LS_CUDA_HGMMA_OVER_N) * LS_CUDA_HGMMA_STAGED_BYTES + 1024)

/* The numbers of ls_gemm_end. */
enum { LS_CUDA_HGMMA_GELU = 1, LS_CUDA_HGMMA_GELU_GRAD, LS_CUDA_HGMMA_GATED_GRAD, LS_CUDA_HGMMA_GATED };

/* hgmma_act.cu: tiles of 128 × 192, all of whose numbers wait in shared memory for another warpgroup; of bf16 it looks
 * activations up in one of the tables of act_table.cuh. */
enum { LS_CUDA_HGMMA_ACT_N = 192, LS_CUDA_HGMMA_ACT_STAGES = 4, LS_CUDA_HGMMA_ACT_THREADS = 512 };
#define LS_CUDA_HGMMA_ACT_SHARED                                                                                       \
    (1024 + LS_CUDA_HGMMA_ACT_STAGES * (LS_CUDA_HGMMA_M + LS_CUDA_HGMMA_ACT_N) * LS_CUDA_HGMMA_K * 2 +                 \
     LS_CUDA_HGMMA_M * LS_CUDA_HGMMA_ACT_N * 2 + 4 * LS_CUDA_SLOPE_TABLE + 1024)

/* A unit of work is a tile of C, or a slice or two of one where slices are apart. Whole units go to the blocks in
 * turns. What would be left to some of the blocks is cut: it lies on a line of units, `steps` long each, of which each
 * block has an equal part. A unit that two blocks share is begun by the one with the later part, as the first of its
 * line, and ended by the other, last of all: so nobody waits, and the chain is one. */
typedef struct ls_cuda_hgmma {
    ls_cuda_tensor_map a, b, c;
    ls_cuda_gemm g;                /* period is never 0 here: k, where no granule has to end with a sequence */
    ls_cuda_divider tiles, band;   /* of C, and of a band of it */
    int is_periodic;               /* period is that of sequences */
    int each;                      /* slices of a unit: all, or 1 or 2 where they are apart */
    uint32_t units;                /* tiles, times parts where slices are apart */
    uint32_t whole;                /* of them, those that are not cut */
    uint32_t steps;                /* of a unit that is cut */
    uint32_t line_each, line_rest; /* steps of the line for each block, and blocks with one more */
    float *begun;                  /* sums of units that another block ends: two sets for each block */
    uint32_t *is_begun;            /* for each warpgroup of each block; 0 when a kernel begins and when it ends */
    int c_is_staged;               /* C, or parts, goes through the copy engine */
    /* hgmma_act.cu: C, y and pre have the operands' type, n and ldc are multiples of 8, all is aligned to 16 bytes. */
    void *y;
    const void *pre;
    ls_cuda_divider gate;   /* columns of gates, and behind them as many of what they let through */
    ls_cuda_divider across; /* where a tile is half gates, half what they let through: such tiles of `gate` columns */
} ls_cuda_hgmma;

#endif
