/* gemm.c: launches matmuls. An estimate of the time of each variant chooses the tile, and whether slices are computed
 * by separate blocks (split-K) or one after the other by the same block. */
#include "device/cuda/ops/gemm.h"

#include <stdbool.h>
#include <string.h>

#include "device/cuda/args/mma_gemm.h"
#include "device/cuda/ops/hgmma.h"
#include "device/cuda/ops/library.h"
#include "device/cuda/ops/ops.h"

/* Upper bound of the scratch memory of a matmul: partial sums of slices. */
#define SCRATCH_MAX ((size_t)1 << 30)

/* Shared memory that the driver reserves in each block, in addition to the requested size. */
#define BLOCK_SHARED ((size_t)1024)

/* Indices of a gather have 31 bits (ls_cuda_divider). */
#define GATHER_MAX ((size_t)INT32_MAX)

enum { TILES = 7, MMA_TILE = 5 }; /* MMA_TILE: the first of mma_gemm.cu */

/* Throughput of each tile on the 132 multiprocessors of an H200, in TFLOP/s: `full` at full occupancy, `alone` with one
 * block per multiprocessor (measured: build/bench/gpu_kernels). Only their ratios matter. */
#define LARGE_FULL 45.0
#define NARROW_FULL 44.0
#define NARROW_ALONE 31.0
#define FLAT_FULL 47.0
#define SMALL_FULL 35.0
#define SMALL_ALONE 24.0
#define TINY_FULL 22.0
#define TINY_ALONE 8.0
/* The same for tensor cores by mma.sync: tiles of mma_gemm.cu, fitted to 56 shapes of models with LS_WGMMA=no. The
 * small tile is hgmma_any.cu then. */
#define MMA_WIDE_FULL 160.0
#define MMA_WIDE_ALONE 130.0
#define MMA_NARROW_FULL 130.0
#define MMA_NARROW_ALONE 80.0
/* Prologue and epilogue (loading the first step, writing C) take as long as this many values of k. */
#define EDGE_K 48.0
/* Multiply-adds in the time in which one byte of split-K partial sums is written and read back, */
#define FLOPS_PER_BYTE 14.0
/* the same for partial sums that the same block reads back, while other blocks continue to compute, */
#define FLOPS_PER_FAR_BYTE 7.0
/* and multiply-adds of one multiprocessor in the time of one more kernel launch. */
#define LAUNCH_WORK 400000.0

typedef struct tile_kind {
    size_t m, n;
    unsigned threads;
    size_t together; /* blocks per multiprocessor (occupancy) */
    double full, alone;
} tile_kind;

static const tile_kind tiles[TILES] = {
    {128, 128, 256, 1, LARGE_FULL, LARGE_FULL},
    {128, 64, 128, 2, NARROW_FULL, NARROW_ALONE},
    {64, 64, 128, 4, SMALL_FULL, SMALL_ALONE},
    {32, 32, 64, 8, TINY_FULL, TINY_ALONE},
    {64, 128, 128, LS_CUDA_GEMM_FLAT_TOGETHER, FLAT_FULL, NARROW_ALONE},
    {LS_CUDA_MMA_M, LS_CUDA_MMA_WIDE_N, LS_CUDA_MMA_THREADS, LS_CUDA_MMA_WIDE_TOGETHER, MMA_WIDE_FULL, MMA_WIDE_ALONE},
    {LS_CUDA_MMA_M, LS_CUDA_MMA_NARROW_N, LS_CUDA_MMA_THREADS, LS_CUDA_MMA_NARROW_TOGETHER, MMA_NARROW_FULL,
     MMA_NARROW_ALONE},
};

#define NO_KERNEL LS_CUDA_KERNELS

/* Indexed by form, then by tile. */
typedef ls_cuda_kernel kernel_set[3][TILES];
static const kernel_set aligned_kernels = {
    [LS_GEMM_NN] = {LS_CUDA_gemm_nn_large, LS_CUDA_gemm_nn_narrow, LS_CUDA_gemm_nn_small, NO_KERNEL,
                    LS_CUDA_gemm_nn_flat, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_NT] = {LS_CUDA_gemm_nt_large, LS_CUDA_gemm_nt_narrow, LS_CUDA_gemm_nt_small, NO_KERNEL, NO_KERNEL,
                    NO_KERNEL, NO_KERNEL},
    [LS_GEMM_TN] = {LS_CUDA_gemm_tn_large, LS_CUDA_gemm_tn_narrow, LS_CUDA_gemm_tn_small, LS_CUDA_gemm_tn_tiny,
                    LS_CUDA_gemm_tn_flat, NO_KERNEL, NO_KERNEL},
};
/* Only B is aligned. */
static const kernel_set odd_kernels = {
    [LS_GEMM_NN] = {NO_KERNEL, NO_KERNEL, LS_CUDA_any_nn_small, NO_KERNEL, LS_CUDA_gemm_nn_odd, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_NT] = {LS_CUDA_any_nt_large, NO_KERNEL, LS_CUDA_any_nt_small, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_TN] = {NO_KERNEL, NO_KERNEL, LS_CUDA_any_tn_small, NO_KERNEL, LS_CUDA_gemm_tn_odd, NO_KERNEL, NO_KERNEL},
};
static const kernel_set any_kernels = {
    [LS_GEMM_NN] = {LS_CUDA_any_nn_large, NO_KERNEL, LS_CUDA_any_nn_small, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_NT] = {LS_CUDA_any_nt_large, NO_KERNEL, LS_CUDA_any_nt_small, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_TN] = {LS_CUDA_any_tn_large, NO_KERNEL, LS_CUDA_any_tn_small, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
};
static const kernel_set gather_kernels = {
    [LS_GEMM_NN] = {LS_CUDA_conv_nn_large, LS_CUDA_conv_nn_narrow, LS_CUDA_conv_nn_small, NO_KERNEL, NO_KERNEL,
                    NO_KERNEL, NO_KERNEL},
    [LS_GEMM_NT] = {LS_CUDA_conv_nt_large, LS_CUDA_conv_nt_narrow, LS_CUDA_conv_nt_small, NO_KERNEL, NO_KERNEL,
                    NO_KERNEL, NO_KERNEL},
    [LS_GEMM_TN] = {LS_CUDA_conv_tn_large, LS_CUDA_conv_tn_narrow, LS_CUDA_conv_tn_small, LS_CUDA_conv_tn_tiny,
                    NO_KERNEL, NO_KERNEL, NO_KERNEL},
};
static const kernel_set odd_gather_kernels = {
    [LS_GEMM_NN] = {NO_KERNEL, LS_CUDA_conv_nn_odd, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_NT] = {NO_KERNEL, LS_CUDA_conv_nt_odd, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_TN] = {NO_KERNEL, LS_CUDA_conv_tn_odd, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
};

/* Tensor cores by mma.sync. */
static const kernel_set mma_kernels = {
    [LS_GEMM_NN] = {NO_KERNEL, NO_KERNEL, LS_CUDA_hgmma_any_nn, NO_KERNEL, NO_KERNEL, LS_CUDA_mma_nn_wide,
                    LS_CUDA_mma_nn_narrow},
    [LS_GEMM_NT] = {NO_KERNEL, NO_KERNEL, LS_CUDA_hgmma_any_nt, NO_KERNEL, NO_KERNEL, LS_CUDA_mma_nt_wide,
                    LS_CUDA_mma_nt_narrow},
    [LS_GEMM_TN] = {NO_KERNEL, NO_KERNEL, LS_CUDA_hgmma_any_tn, NO_KERNEL, NO_KERNEL, LS_CUDA_mma_tn_wide,
                    LS_CUDA_mma_tn_narrow},
};
static const kernel_set odd_mma_kernels = {
    [LS_GEMM_NN] = {NO_KERNEL, NO_KERNEL, LS_CUDA_hgmma_any_nn, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_NT] = {NO_KERNEL, NO_KERNEL, LS_CUDA_hgmma_any_nt, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
    [LS_GEMM_TN] = {NO_KERNEL, NO_KERNEL, LS_CUDA_hgmma_any_tn, NO_KERNEL, NO_KERNEL, NO_KERNEL, NO_KERNEL},
};

/* Returns whether mma_gemm.cu can compute this matmul. It copies eight neighbours at a time, which must begin at a
 * multiple of 16 bytes, also where slices and sequences begin, and has sizes of 31 bits. */
static bool is_for_mma(const ls_gemm *g) {
    enum { TOGETHER = 8, LD_MAX = 1 << 22 }; /* a kernel counts the bytes of a tile in 32 bits */
    bool has_rows = g->form != LS_GEMM_TN;   /* of an operand, whose k are neighbours */
    if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX || g->period > INT32_MAX || g->lda > LD_MAX ||
        g->ldb > LD_MAX)
        return false;
    if ((uintptr_t)g->a % 16 || (uintptr_t)g->b % 16 || g->lda % TOGETHER || g->ldb % TOGETHER) return false;
    for (int s = 0; has_rows && g->slices > 1 && s < g->slices; s++)
        if (g->bounds[s] % TOGETHER) return false;
    return !has_rows || g->period % TOGETHER == 0;
}

/* Returns the kernels, by tile, that support this matmul's types, alignment and gathering. */
static const ls_cuda_kernel *kernels_of(const ls_gemm *g, const ls_cuda_gemm *args, bool gathers) {
    bool is_aligned = args->a_is_vector && args->b_is_vector;
    if (ls_unit_is_tensor_core(g->unit)) return is_for_mma(g) ? mma_kernels[g->form] : odd_mma_kernels[g->form];
    const kernel_set *set = gathers              ? is_aligned ? &gather_kernels : &odd_gather_kernels
                            : g->dtype != LS_F32 ? &any_kernels
                            : is_aligned         ? &aligned_kernels
                            : args->b_is_vector  ? &odd_kernels
                                                 : &any_kernels;
    return (*set)[g->form];
}

/* ---- the estimate ------------------------------------------------------------------------------------------------ */

/* Returns the number of slices of k, at least 1. */
static int slices_of(const ls_gemm *g) { return g->slices > 1 ? g->slices : 1; }

/* Returns how many partial sums exist at once, at most, when one block adds `slices` slices in the order of the tree:
 * one for each level. */
static int waiting_of(int slices) {
    int levels = 0;
    while ((1 << levels) < slices) levels++;
    return levels;
}

/* A variant of a matmul: tile, split and placement of the partial sums. */
typedef struct gemm_plan {
    int tile;
    int apart; /* slices computed by separate blocks (split-K), or 1 */
    int near_levels, far_levels;
    size_t together; /* blocks per multiprocessor (occupancy) */
    size_t blocks;   /* of one split: tiles of C */
} gemm_plan;

/* Returns the bytes of shared memory of all stages of both operands. */
static size_t steps_bytes(ls_device *device, const tile_kind *t) {
    if (t < &tiles[MMA_TILE]) return 2 * (LS_CUDA_GEMM_STEP(t->m) + LS_CUDA_GEMM_STEP(t->n)) * sizeof(float);
    size_t two_wide = 2 * (LS_CUDA_MMA_SHARED(LS_CUDA_MMA_WIDE_N, LS_CUDA_MMA_LONG_K) + BLOCK_SHARED);
    bool has_long = ls_cuda_shared_max(device) + BLOCK_SHARED >= two_wide; /* as LS_CUDA_MMA_K */
    return LS_CUDA_MMA_SHARED(t->n, (size_t)(has_long ? LS_CUDA_MMA_LONG_K : LS_CUDA_MMA_SHORT_K));
}
/* Returns the bytes of a tile of sums. */
static size_t tile_bytes(const tile_kind *t) { return t->m * t->n * sizeof(float); }

/* Returns the bytes of shared memory of a block: the stages, and the near levels of the tree. */
static size_t shared_bytes(ls_device *device, const gemm_plan *plan) {
    const tile_kind *t = &tiles[plan->tile];
    return steps_bytes(device, t) + (size_t)plan->near_levels * tile_bytes(t);
}

/* Returns the bytes of device memory that the plan needs for partial sums; SIZE_MAX if the size overflows. */
static size_t scratch_bytes(const ls_gemm *g, const gemm_plan *plan) {
    size_t bytes;
    if (plan->apart > 1) {
        if (__builtin_mul_overflow(g->m, g->n, &bytes) ||
            __builtin_mul_overflow(bytes, (size_t)plan->apart * sizeof(float), &bytes))
            return SIZE_MAX;
        return bytes;
    }
    if (__builtin_mul_overflow(plan->blocks, (size_t)plan->far_levels * tile_bytes(&tiles[plan->tile]), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Returns the most scratch, in bytes, that a plan may take. */
static size_t scratch_max(ls_device *device) {
    size_t limit = ls_cuda_scratch_limit(device);
    return limit < SCRATCH_MAX ? limit : SCRATCH_MAX;
}

static double smaller(double a, double b) { return a < b ? a : b; }

/* Places as many levels of the tree as fit into shared memory with `together` blocks per multiprocessor (near), and the
 * rest in scratch (far). */
static void place_levels(ls_device *device, gemm_plan *plan, int levels, size_t together) {
    const tile_kind *t = &tiles[plan->tile];
    size_t room = (ls_cuda_shared_max(device) + BLOCK_SHARED) / together - BLOCK_SHARED;
    size_t steps = steps_bytes(device, t), fit = room > steps ? (room - steps) / tile_bytes(t) : 0;
    plan->together = together;
    plan->near_levels = (size_t)levels < fit ? levels : (int)fit;
    plan->far_levels = levels - plan->near_levels;
}

/* Plans a tile with `apart` splits: at the highest occupancy that shared memory allows and whose partial sums fit into
 * scratch, else at one block per multiprocessor. The caller checks scratch_bytes(). */
static gemm_plan plan_of(ls_device *device, const ls_gemm *g, int tile, int apart) {
    const tile_kind *t = &tiles[tile];
    gemm_plan plan = {.tile = tile, .apart = apart, .blocks = SIZE_MAX};
    int levels = apart > 1 ? 0 : waiting_of(slices_of(g));
    (void)__builtin_mul_overflow(ls_cuda_divide_up(g->m, t->m), ls_cuda_divide_up(g->n, t->n), &plan.blocks);
    size_t fit = (ls_cuda_shared_max(device) + BLOCK_SHARED) / (steps_bytes(device, t) + BLOCK_SHARED);
    for (size_t together = fit < t->together ? fit : t->together; together; together--) {
        place_levels(device, &plan, levels, together);
        if (scratch_bytes(g, &plan) <= scratch_max(device)) break;
    }
    return plan;
}

/* Returns the total bytes of partial sums that go through scratch: level l of the tree stores one after every 2^(l+1)
 * slices. */
static double far_bytes(const ls_gemm *g, const gemm_plan *plan) {
    int sums = 0;
    for (int l = plan->near_levels; l < plan->near_levels + plan->far_levels; l++) sums += slices_of(g) >> (l + 1);
    return (double)sums * (double)g->m * (double)g->n * sizeof(float);
}

/* Estimates the time of a plan, in multiply-adds of one multiprocessor at full throughput: full waves of blocks, the
 * last wave (at lower occupancy, so slower per multiprocessor), the traffic of partial sums in scratch and, with
 * split-K, the second kernel that adds them. */
static double estimate_cost(ls_device *device, const ls_gemm *g, const gemm_plan *plan) {
    const tile_kind *t = &tiles[plan->tile];
    size_t processors = ls_cuda_processors(device), blocks = plan->blocks * (size_t)plan->apart;
    size_t round = processors * plan->together, rounds = blocks / round;
    size_t rest = ls_cuda_divide_up(blocks - rounds * round, processors);
    double work = (double)(t->m * t->n) * ((double)g->k / plan->apart + EDGE_K);
    double full = smaller(t->full, t->alone * (double)plan->together);
    double cost = (double)(rounds * plan->together) * work / full;
    if (rest) cost += (double)rest * work / smaller(full, t->alone * (double)rest);
    cost *= LARGE_FULL;
    cost += far_bytes(g, plan) * FLOPS_PER_FAR_BYTE / (double)processors;
    if (plan->apart > 1) cost += (double)scratch_bytes(g, plan) * FLOPS_PER_BYTE / (double)processors + LAUNCH_WORK;
    return cost;
}

/* Sets *best to the plan with the lowest estimated time, except with tile `but` (−1: all). Either no slice or every
 * slice is split off. Returns false, with *best unchanged, if no plan has a kernel and fits into scratch. */
static bool choose_plan(ls_device *device, const ls_gemm *g, const ls_cuda_kernel *kernels, int but, gemm_plan *best) {
    int slices = slices_of(g);
    double least = -1;
    for (int tile = 0; tile < TILES; tile++)
        for (int apart = 1; apart <= slices; apart += slices > 1 ? slices - 1 : 1) {
            if (kernels[tile] == NO_KERNEL || tile == but) continue;
            gemm_plan plan = plan_of(device, g, tile, apart);
            if (scratch_bytes(g, &plan) > scratch_max(device)) continue;
            double cost = estimate_cost(device, g, &plan);
            if (least >= 0 && cost >= least) continue;
            least = cost;
            *best = plan;
        }
    return least >= 0;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Returns whether each row begins at an address from which a kernel can load vectors of four elements. */
static bool is_aligned(const void *p, ls_dtype dtype, size_t stride) {
    return (uintptr_t)p % (4 * ls_dtype_bytes(dtype)) == 0 && stride % 4 == 0;
}

/* Returns whether all slices begin and end at multiples of four in k. */
static bool bounds_are_aligned(const ls_gemm *g) {
    if (g->slices <= 1) return g->k % 4 == 0;
    for (int s = 0; s <= g->slices; s++)
        if (g->bounds[s] % 4) return false;
    return true;
}

static ls_cuda_grid_rows grid_of(const ls_gemm_grid *g) {
    return (ls_cuda_grid_rows){ls_cuda_divider_of(g->n1), ls_cuda_divider_of(g->n2), g->step0, g->step1, g->step2};
}

static bool grid_is_aligned(const void *p, const ls_gemm_grid *g) {
    return is_aligned(p, LS_F32, g->step0) && g->step1 % 4 == 0 && g->step2 % 4 == 0;
}

/* Fills the kernel's arguments from a call, except those of the plan: tiles, levels and scratch. */
static ls_cuda_gemm args_of(const ls_gemm *g) {
    ls_cuda_gemm args = {
        .m = g->m,
        .n = g->n,
        .a = g->a,
        .b = g->b,
        .lda = g->lda,
        .ldb = g->ldb,
        .dtype = (int)g->dtype,
        .c = g->c,
        .ldc = g->ldc,
        .c_dtype = (int)g->c_dtype,
        .period = g->period,
        .slices = slices_of(g),
        .bounds = {0, g->k},
        .accumulate = g->accumulate,
        .siblings = g->siblings,
        .ldsibling = g->ldsibling,
        .bias = g->bias,
    };
    if (g->slices > 1) memcpy(args.bounds, g->bounds, (size_t)(g->slices + 1) * sizeof *g->bounds);
    if (g->siblings > 0) memcpy(args.sibling, g->sibling, (size_t)g->siblings * sizeof *g->sibling);
    args.a_is_vector =
        is_aligned(g->a, g->dtype, g->lda) && (g->form == LS_GEMM_TN ? g->m % 4 == 0 : bounds_are_aligned(g));
    args.b_is_vector =
        is_aligned(g->b, g->dtype, g->ldb) && (g->form != LS_GEMM_NT ? g->n % 4 == 0 : bounds_are_aligned(g));
    args.c_is_vector = is_aligned(g->c, g->c_dtype, g->ldc);
    if (g->c_rows) {
        args.has_c_rows = true;
        args.c_rows = grid_of(g->c_rows);
        args.c_is_vector = grid_is_aligned(g->c, g->c_rows);
    }
    return args;
}

/* Fills the arguments of kernels that gather. A matmul without patches becomes patches of one tap in images of one
 * pixel, and rows without a grid become a grid with one row. */
static void gather_args_of(const ls_gemm *g, ls_cuda_gemm_gather *args) {
    ls_gemm_patches plain = {1, 1, g->k, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1};
    ls_gemm_grid plain_rows = {1, GATHER_MAX, 0, 0, g->ldb};
    const ls_gemm_patches *p = g->patches ? g->patches : &plain;
    const ls_gemm_grid *rows = g->b_rows ? g->b_rows : &plain_rows;
    args->patches = (ls_cuda_patches){
        .positions = ls_cuda_divider_of(p->rows_y * p->rows_x),
        .rows_x = ls_cuda_divider_of(p->rows_x),
        .channels = ls_cuda_divider_of(p->channels),
        .taps_x = ls_cuda_divider_of(p->taps_x),
        .height = (uint32_t)p->height,
        .width = (uint32_t)p->width,
        .first_y = (int)p->first_y,
        .first_x = (int)p->first_x,
        .step_y = (int)p->step_y,
        .step_x = (int)p->step_x,
        .tap_y = (int)p->tap_y,
        .tap_x = (int)p->tap_x,
        .image_step = g->patches ? p->height * p->width * p->channels : g->lda,
    };
    args->b_rows = grid_of(rows);
    bool is_vector =
        p->channels % 4 == 0 && is_aligned(g->form == LS_GEMM_TN ? g->b : g->a, LS_F32, args->patches.image_step);
    if (g->form == LS_GEMM_TN)
        args->g.b_is_vector = is_vector;
    else
        args->g.a_is_vector = is_vector && bounds_are_aligned(g);
    if (g->form == LS_GEMM_NN) args->g.b_is_vector = grid_is_aligned(g->b, rows) && g->n % 4 == 0;
}

/* Checks that no index of a gather exceeds 31 bits. */
static ls_status check_gather(const ls_gemm *g) {
    const ls_gemm_patches *p = g->patches;
    size_t most = g->m > g->k ? g->m : g->k;
    if (g->n > most) most = g->n;
    if (p && p->rows_y * p->rows_x > most) most = p->rows_y * p->rows_x;
    if (most > GATHER_MAX)
        return ls_fail(
            LS_ERR_INPUT,
            "a convolution as a matmul of %zu × %zu × %zu is more than a GPU numbers (%zu): use fewer images a call",
            g->m, g->n, g->k, GATHER_MAX);
    return LS_OK;
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

ls_status ls_cuda_gemm_join_parts(ls_device *device, const ls_cuda_gemm *args) {
    size_t threads = args->n % 4 == 0 ? args->n / 4 : args->n, rows = args->m < 65535 ? args->m : 65535;
    ls_cuda_grid grid = {ls_cuda_divide_up(threads, LS_CUDA_GEMM_JOIN_THREADS), rows, 1};
    return ls_cuda_launch(device, LS_CUDA_gemm_join, grid, LS_CUDA_GEMM_JOIN_THREADS, 0, args);
}

static ls_status get_scratch(ls_device *device, size_t bytes, float **out) {
    void *memory;
    LS_TRY(ls_cuda_scratch(device, bytes, &memory));
    *out = memory;
    return LS_OK;
}

/* Returns whether run_thin() can run this matmul: few rows of C, fp32, aligned, not TN. */
static bool is_thin(const ls_gemm *g, const ls_cuda_gemm *args) {
    return g->m <= LS_CUDA_GEMM_THIN_M && g->form != LS_GEMM_TN && g->dtype == LS_F32 && args->a_is_vector &&
           args->b_is_vector;
}

/* Runs a matmul with few rows. Slices are always split, because the blocks of one slice do not fill the GPU. */
static ls_status run_thin(ls_device *device, const ls_gemm *g, ls_cuda_gemm *args) {
    bool along = g->form == LS_GEMM_NT;
    size_t rows = g->m == 1 ? 1 : LS_CUDA_GEMM_THIN_M,
           b_elems = LS_CUDA_GEMM_THIN_N * (LS_CUDA_GEMM_THIN_K + (along ? 4 : 0));
    size_t shared = LS_CUDA_GEMM_THIN_STEPS * (rows * LS_CUDA_GEMM_THIN_K + b_elems) * sizeof(float);
    ls_cuda_kernel kernel = along       ? g->m == 1 ? LS_CUDA_gemm_nt_row : LS_CUDA_gemm_nt_rows
                            : g->m == 1 ? LS_CUDA_gemm_nn_row
                                        : LS_CUDA_gemm_nn_rows;
    ls_cuda_grid grid = {ls_cuda_divide_up(g->n, LS_CUDA_GEMM_THIN_N), 1, (size_t)args->slices};
    if (args->slices > 1) LS_TRY(get_scratch(device, (size_t)args->slices * g->m * g->n * sizeof(float), &args->parts));
    LS_TRY(ls_cuda_launch(device, kernel, grid, LS_CUDA_GEMM_THIN_N, shared, args));
    return args->slices > 1 ? ls_cuda_gemm_join_parts(device, args) : LS_OK;
}

/* Returns n rounded up to a multiple of 4. */
static size_t round_up_4(size_t n) { return (n + 3) / 4 * 4; }

/* Returns the bytes of the unfolded patches (im2col), or 0 if the kernel gathers the patches from the images: always
 * but in form TN where vectors can be loaded from A and not from the images, and the bytes are within SCRATCH_MAX. */
static size_t unfold_bytes(const ls_gemm *g, const ls_cuda_gemm *args) {
    size_t bytes;
    if (g->form != LS_GEMM_TN || !g->patches || args->b_is_vector || !args->a_is_vector) return 0;
    if (__builtin_mul_overflow(g->k, round_up_4(g->n) * sizeof(float), &bytes) || bytes > SCRATCH_MAX) return 0;
    return bytes;
}

/* Writes the patches as a matrix in memory (im2col), with rows padded to four columns. */
static ls_status unfold(ls_device *device, const ls_gemm *g, const ls_cuda_gemm_gather *gather, float *to) {
    size_t width = round_up_4(g->n);
    ls_cuda_unfold args = {.patches = gather->patches,
                           .images = g->b,
                           .to = to,
                           .rows = g->k,
                           .columns = (uint32_t)g->n,
                           .width = ls_cuda_divider_of(width)};
    size_t blocks = ls_cuda_blocks(device, ls_cuda_divide_up(g->k * width, LS_CUDA_GEMM_UNFOLD_THREADS));
    /* The kernel has 31-bit indices. */
    size_t most = GATHER_MAX / width / LS_CUDA_GEMM_UNFOLD_THREADS;
    ls_cuda_grid grid = {blocks < most ? blocks : most, 1, 1};
    return ls_cuda_launch(device, LS_CUDA_conv_unfold, grid, LS_CUDA_GEMM_UNFOLD_THREADS, 0, &args);
}

/* Runs the upper and the lower half of C as separate matmuls, because half of the rows needs half of the scratch.
 * LS_ERR_INPUT if C has one row or the matmul gathers or places rows by a grid. */
static ls_status run_halves(ls_device *device, const ls_gemm *g) {
    if (g->m == 1 || g->patches || g->b_rows || g->c_rows)
        return ls_fail(LS_ERR_INPUT,
                       "a matmul of %zu × %zu with %d slices needs more scratch than a GPU has: use a "
                       "smaller micro-batch",
                       g->m, g->n, slices_of(g));
    ls_gemm upper = *g, lower = *g;
    upper.m = ls_cuda_divide_up(g->m / 2, tiles[0].m) * tiles[0].m; /* whole tiles, if the lower half then has rows */
    if (upper.m >= g->m) upper.m = g->m / 2;
    lower.m = g->m - upper.m;
    lower.a = (const char *)g->a + upper.m * (g->form == LS_GEMM_TN ? 1 : g->lda) * ls_dtype_bytes(g->dtype);
    lower.c = (char *)g->c + upper.m * g->ldc * ls_dtype_bytes(g->c_dtype);
    for (int s = 0; s < g->siblings; s++) lower.sibling[s] = g->sibling[s] + upper.m * g->ldsibling;
    LS_TRY(ls_cuda_gemm_run_own(device, &upper, LS_CUDA_OWN));
    return ls_cuda_gemm_run_own(device, &lower, LS_CUDA_OWN);
}

ls_status ls_cuda_gemm_run_own(ls_device *device, const ls_gemm *g, ls_cuda_way way) {
    bool gathers = g->patches || g->b_rows;
    if (gathers || g->c_rows) LS_TRY(check_gather(g));
    ls_cuda_gemm_gather args = {.g = args_of(g)};
    if (ls_cuda_hgmma_takes(device, g)) {
        bool is_done;
        LS_TRY(ls_cuda_hgmma_run(device, g, &args.g, way, &is_done));
        if (is_done) return LS_OK;
    }
    if (!gathers && !ls_cuda_computes_otherwise(device) && is_thin(g, &args.g)) return run_thin(device, g, &args.g);
    if (gathers) gather_args_of(g, &args);
    const ls_cuda_windows *windows =
        g->patches && !ls_cuda_computes_otherwise(device) ? ls_cuda_windows_of(g, &args.g) : NULL;
    if (windows && (size_t)args.g.slices * g->m * g->n * sizeof(float) <= scratch_max(device))
        return ls_cuda_windows_run(device, g, &args, windows);
    size_t unfolded = gathers ? unfold_bytes(g, &args.g) : 0;
    if (unfolded) args.g.b_is_vector = true;
    const ls_cuda_kernel *kernels = kernels_of(g, &args.g, gathers && !unfolded);
    gemm_plan plan = {0};
    if (!choose_plan(device, g, kernels, -1, &plan)) return run_halves(device, g);
    if (ls_cuda_computes_otherwise(device)) (void)choose_plan(device, g, kernels, plan.tile, &plan);
    const tile_kind *t = &tiles[plan.tile];
    args.g.tiles_m = (uint32_t)ls_cuda_divide_up(g->m, t->m);
    args.g.tiles_n = (uint32_t)ls_cuda_divide_up(g->n, t->n);
    args.g.near_levels = plan.near_levels;
    args.g.far_levels = plan.far_levels;
    size_t bytes = scratch_bytes(g, &plan);
    float *scratch = NULL;
    if (bytes + unfolded) LS_TRY(get_scratch(device, bytes + unfolded, &scratch));
    if (unfolded) {
        LS_TRY(unfold(device, g, &args, scratch));
        args.g.b = scratch;
        args.g.ldb = round_up_4(g->n);
        scratch += unfolded / sizeof(float);
    }
    if (plan.apart > 1)
        args.g.parts = scratch;
    else
        args.g.far = scratch;
    ls_cuda_grid grid = {plan.blocks, 1, (size_t)plan.apart};
    LS_TRY(ls_cuda_launch(device, kernels[plan.tile], grid, t->threads, shared_bytes(device, &plan), &args));
    return plan.apart > 1 ? ls_cuda_gemm_join_parts(device, &args.g) : LS_OK;
}

/* Runs a matmul without epilogue: with tensor cores the autotuned way if there is one, else our own kernels. Nothing if
 * C is empty. */
static ls_status run_gemm(ls_device *device, const ls_gemm *g) {
    if (!g->m || !g->n) return LS_OK;
    if (ls_unit_is_tensor_core(g->unit)) {
        ls_cuda_gemm args = args_of(g);
        bool is_done;
        LS_TRY(ls_cuda_library_run(device, g, &args, ls_cuda_gemm_run_own, &is_done));
        if (is_done) return LS_OK;
    }
    return ls_cuda_gemm_run_own(device, g, LS_CUDA_OWN);
}

ls_status ls_cuda_op_gemm(ls_device *device, const ls_gemm *call) {
    LS_TRY(ls_cuda_check_unit(device, call->unit));
    LS_TRY(ls_gemm_check(call));
    if (!call->end) return run_gemm(device, call);
    if (!ls_cuda_gemm_ends(device, call))
        return ls_fail(LS_ERR_INPUT, "a GPU has no such matmul that ends with an activation; call them apart");
    ls_cuda_gemm args = args_of(call);
    return ls_cuda_hgmma_run_end(device, call, &args);
}

bool ls_cuda_gemm_ends(ls_device *device, const ls_gemm *call) {
    return call->m && call->n && ls_cuda_hgmma_ends(device, call);
}
