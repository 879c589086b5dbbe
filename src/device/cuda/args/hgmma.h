/* hgmma.h: the arguments and tile sizes of the kernels of hgmma.cu, hgmma_over.cu and hgmma_act.cu: GEMMs of the
 * matrix unit hgmma (16-bit matmuls by wgmma on Hopper's tensor cores, with operands loaded by TMA). ops/hgmma.c
 * fills them in. ../choices.h explains the kernels' names. */
#ifndef LS_DEVICE_CUDA_ARGS_HGMMA_H
#define LS_DEVICE_CUDA_ARGS_HGMMA_H

#include "device/cuda/args/act.h"
#include "device/cuda/args/gemm.h"

enum {
    LS_CUDA_HGMMA_M = 128,             /* rows of a tile */
    LS_CUDA_HGMMA_K = 64,              /* k of a step: 128 bytes of a row */
    LS_CUDA_HGMMA_THREADS = 384,       /* of a block: a warpgroup that loads, two that multiply */
    LS_CUDA_HGMMA_BAND = 16,           /* rows of tiles in a band: its tiles run together and share operands in L2 */
    LS_CUDA_HGMMA_STAGED_ROWS = 16,    /* rows of C of one TMA store */
    LS_CUDA_HGMMA_STAGED_BYTES = 2048, /* bytes of one TMA store */
    LS_CUDA_HGMMA_OVER_STEPS = 6,      /* hgmma_over.cu: fewest steps of a slice, */
    LS_CUDA_HGMMA_SPREAD_STEPS = 12,   /* and fewest if a piece is stored with every other step */
};

/* Stages of the load pipeline for tiles of n columns: steps in shared memory or being loaded. More stages would not fit
 * beside the output buffers. */
#define LS_CUDA_HGMMA_STAGES(n) ((n) == 128 ? 6 : (n) == 192 ? 4 : 3)
#define LS_CUDA_HGMMA_STAGED(n) ((n) / 64) /* output buffers of a warp, one per TMA store: a whole tile of 16-bit C */
/* Bytes of shared memory of a block: the stages, the output buffers, and 1024 each for alignment and barriers. */
#define LS_CUDA_HGMMA_SHARED(n)                                                                                        \
    (1024 + LS_CUDA_HGMMA_STAGES(n) * (LS_CUDA_HGMMA_M + (n)) * LS_CUDA_HGMMA_K * 2 +                                  \
     8 * LS_CUDA_HGMMA_STAGED(n) * LS_CUDA_HGMMA_STAGED_BYTES + 1024)

/* Tiles of 256 columns: the sums of a slice wait for those of the next slice. HELD of them wait in registers of each
 * thread, the others in the output buffers and in HELD_BYTES of shared memory behind everything else. */
enum { LS_CUDA_HGMMA_HELD_N = 256, LS_CUDA_HGMMA_HELD = 48, LS_CUDA_HGMMA_HELD_BYTES = 8 * 2048 };
#define LS_CUDA_HGMMA_HELD_SHARED (LS_CUDA_HGMMA_SHARED(LS_CUDA_HGMMA_HELD_N) + LS_CUDA_HGMMA_HELD_BYTES)

/* hgmma_over.cu: tiles of 256 × 192, beside those of 128 × 192. */
enum { LS_CUDA_HGMMA_TALL_M = 256, LS_CUDA_HGMMA_OVER_N = 192, LS_CUDA_HGMMA_TALL_STAGES = 3 };
#define LS_CUDA_HGMMA_TALL_SHARED                                                                                      \
    (1024 + LS_CUDA_HGMMA_TALL_STAGES * (LS_CUDA_HGMMA_TALL_M + LS_CUDA_HGMMA_OVER_N) * LS_CUDA_HGMMA_K * 2 +          \
     8 * LS_CUDA_HGMMA_STAGED(LS_CUDA_HGMMA_OVER_N) * LS_CUDA_HGMMA_STAGED_BYTES + 1024)

/* The fused epilogues; equal to the values of ls_gemm_end. */
enum { LS_CUDA_HGMMA_GELU = 1, LS_CUDA_HGMMA_GELU_GRAD, LS_CUDA_HGMMA_GATED_GRAD, LS_CUDA_HGMMA_GATED };

/* hgmma_act.cu: tiles of 128 × 192, which go through shared memory to another warpgroup. That warpgroup computes the
 * activation, for bf16 by a table of act_table.cuh. */
enum { LS_CUDA_HGMMA_ACT_N = 192, LS_CUDA_HGMMA_ACT_STAGES = 4, LS_CUDA_HGMMA_ACT_THREADS = 512 };
#define LS_CUDA_HGMMA_ACT_SHARED                                                                                       \
    (1024 + LS_CUDA_HGMMA_ACT_STAGES * (LS_CUDA_HGMMA_M + LS_CUDA_HGMMA_ACT_N) * LS_CUDA_HGMMA_K * 2 +                 \
     LS_CUDA_HGMMA_M * LS_CUDA_HGMMA_ACT_N * 2 + 4 * LS_CUDA_SLOPE_TABLE + 1024)

/* Work is divided into units. A unit is a tile of C or, if slices are computed separately, a part: one or two slices
 * of a tile. The grid is persistent: each block first takes whole units, in turns. With stream-K the units of the
 * last full wave and of the incomplete one behind it are cut: laid end to end they form a line, `steps` per unit,
 * and each block gets an equal part of the line (a step more or less), which is longer than a unit, so at most two
 * blocks share one. The block with the later part of the line begins such a unit, before its other cut units. The
 * block with the earlier part continues the same chain after all its other work, so the sums are there when it needs
 * them. */
typedef struct ls_cuda_hgmma {
    ls_cuda_tensor_map a, b, c;  /* how TMA reads A and B, and writes C or parts */
    ls_cuda_gemm g;              /* its period is never 0: it is k if k is one sequence */
    ls_cuda_divider tiles, band; /* tiles of C, and tiles of a band */
    int is_periodic;             /* k is several sequences */
    int each;                    /* slices of a unit: all, or 1 or 2 if slices are computed separately */
    uint32_t units;              /* tiles, or tiles times parts if slices are computed separately */
    uint32_t whole;              /* units that are not cut; they come first */
    uint32_t steps; /* of LS_CUDA_HGMMA_K of k, in a cut unit; 0: no unit is cut, and line_each … is_begun are unset */
    uint32_t line_each, line_rest; /* steps of the line per block; the first line_rest blocks have one more */
    float *begun;                  /* sums of units that another block completes: two sets per block */
    uint32_t *is_begun;            /* flag per warpgroup of each block; 0 at the start and the end of a kernel */
    int c_is_staged;               /* C, or parts, is stored by TMA; 0: by threads, and the map c is not set */
    /* hgmma_act.cu: C, y and pre have the operands' type, n and ldc are multiples of 8, all is aligned to 16 bytes.
     * Which of them an epilogue reads or writes is that of ls_gemm_end (calls.h). */
    void *y;
    const void *pre;
    ls_cuda_divider gate;   /* divisor: columns of gate (ls_gemm::gate), which as many columns of up follow */
    ls_cuda_divider across; /* LS_CUDA_HGMMA_GATED, whose tiles are half gate, half up: divisor, tiles across `gate` */
} ls_cuda_hgmma;

#endif
