/* gemm.c: matrix products: which tile, and whether slices are made apart, by an estimate of what ends first. */
#include "device/cuda/args/gemm.h"

#include <stdbool.h>
#include <string.h>

#include "device/cuda/ops/ops.h"

/* The most that scratch for slices apart may be. */
#define PARTS_BYTES_MAX ((size_t)1 << 30)

/* Numbers of a gather have 31 bits (ls_cuda_divider). */
#define GATHER_MAX ((size_t)INT32_MAX)

typedef struct tile_kind {
    size_t m, n;
    unsigned threads;
    size_t together; /* blocks of a multiprocessor */
    double alone;    /* what one block alone makes of the multiprocessor's speed, */
    double all;      /* and as many as fit */
} tile_kind;

enum { TILES = 3 };

static const tile_kind tiles[TILES] = {
    {128, 128, 256, 1, 0.90, 0.90},
    {128, 64, 128, 2, 0.60, 0.84},
    {64, 64, 128, 4, 0.35, 0.68},
};

/* By form, then by tile. */
static const ls_cuda_kernel plain_kernels[][TILES] = {
    [LS_GEMM_NN] = {LS_CUDA_gemm_nn_large, LS_CUDA_gemm_nn_narrow, LS_CUDA_gemm_nn_small},
    [LS_GEMM_NT] = {LS_CUDA_gemm_nt_large, LS_CUDA_gemm_nt_narrow, LS_CUDA_gemm_nt_small},
    [LS_GEMM_TN] = {LS_CUDA_gemm_tn_large, LS_CUDA_gemm_tn_narrow, LS_CUDA_gemm_tn_small},
};
static const ls_cuda_kernel gather_kernels[][TILES] = {
    [LS_GEMM_NN] = {LS_CUDA_conv_nn_large, LS_CUDA_conv_nn_narrow, LS_CUDA_conv_nn_small},
    [LS_GEMM_NT] = {LS_CUDA_conv_nt_large, LS_CUDA_conv_nt_narrow, LS_CUDA_conv_nt_small},
    [LS_GEMM_TN] = {LS_CUDA_conv_tn_large, LS_CUDA_conv_tn_narrow, LS_CUDA_conv_tn_small},
};

/* ---- the estimate ------------------------------------------------------------------------------------------------ */

static int slices_of(const ls_gemm *g) { return g->slices > 1 ? g->slices : 1; }

/* Sums that wait for their neighbour in the tree, at most. */
static size_t waiting_of(int slices) {
    size_t levels = 0;
    while ((1 << levels) < slices) levels++;
    return levels;
}

static size_t shared_bytes(const tile_kind *t, int slices) {
    return (2 * LS_CUDA_GEMM_K * (t->m + t->n) + waiting_of(slices) * t->m * t->n) * sizeof(float);
}

static double smaller(double a, double b) { return a < b ? a : b; }

/* Multiply-adds of one multiprocessor that pass until all is done. */
static double cost_of(ls_device *device, const ls_gemm *g, const tile_kind *t, int apart) {
    size_t processors = ls_cuda_processors(device),
           blocks = ls_cuda_divide_up(g->m, t->m) * ls_cuda_divide_up(g->n, t->n) * (size_t)apart;
    size_t fit = ls_cuda_shared_max(device) / (shared_bytes(t, apart > 1 ? 1 : slices_of(g)) + 1024);
    size_t together = fit < t->together ? fit : t->together, rounds = blocks / (processors * together);
    size_t rest = ls_cuda_divide_up(blocks - rounds * processors * together, processors);
    /* Bringing in the first step and writing C cost what some k do. */
    double work = (double)(t->m * t->n) * ((double)g->k / apart + 96);
    double full = t->together == 1 ? t->all : smaller(t->all, t->alone * (double)together);
    double cost = (double)rounds * (double)together * work / full;
    if (rest) cost += (double)rest * work / smaller(full, t->alone * (double)rest);
    /* Parts are written and read, and a multiprocessor makes 7 multiply-adds while it moves a byte; one more launch. */
    if (apart > 1) cost += 8.0 * apart * (double)g->m * (double)g->n * 7 / (double)processors + 400000;
    return cost;
}

/* The tile to use; *apart becomes the slices that are made apart, or 1. */
static int choose_tile(ls_device *device, const ls_gemm *g, int *apart) {
    size_t room = ls_cuda_scratch_limit(device) < PARTS_BYTES_MAX ? ls_cuda_scratch_limit(device) : PARTS_BYTES_MAX;
    int best = TILES - 1, slices = slices_of(g);
    double least = -1;
    *apart = 1;
    size_t part_elems = 0;
    bool is_large =
        __builtin_mul_overflow(g->m, g->n, &part_elems) || part_elems > room / sizeof(float) / (size_t)slices;
    for (int i = 0; i < TILES; i++)
        for (int split = 1; split <= slices; split += slices > 1 ? slices - 1 : 1) {
            if ((split > 1 && is_large) || shared_bytes(&tiles[i], split > 1 ? 1 : slices) > ls_cuda_shared_max(device))
                continue;
            double cost = cost_of(device, g, &tiles[i], split);
            if (least >= 0 && cost >= least) continue;
            least = cost;
            best = i;
            *apart = split;
        }
    if (!ls_cuda_computes_otherwise(device)) return best;
    for (int i = TILES - 1; i >= 0; i--)
        if (i != best && shared_bytes(&tiles[i], *apart > 1 ? 1 : slices) <= ls_cuda_shared_max(device)) return i;
    return best;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Four neighbours may be moved together, wherever rows begin. */
static bool is_aligned(const void *p, ls_dtype dtype, size_t stride) {
    return (uintptr_t)p % (4 * ls_dtype_bytes(dtype)) == 0 && stride % 4 == 0;
}

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
        .slices = slices_of(g),
        .bounds = {0, g->k},
        .accumulate = g->accumulate,
        .siblings = g->siblings,
        .ldsibling = g->ldsibling,
        .bias = g->bias,
    };
    if (g->slices > 1) memcpy(args.bounds, g->bounds, (size_t)(g->slices + 1) * sizeof *g->bounds);
    if (g->siblings > 0) memcpy(args.sibling, g->sibling, (size_t)g->siblings * sizeof *g->sibling);
    args.a_is_vector = is_aligned(g->a, g->dtype, g->lda) && (g->form == LS_GEMM_TN || bounds_are_aligned(g));
    args.b_is_vector = is_aligned(g->b, g->dtype, g->ldb) && (g->form != LS_GEMM_NT || bounds_are_aligned(g));
    args.c_is_vector = is_aligned(g->c, g->c_dtype, g->ldc);
    if (g->c_rows) {
        args.has_c_rows = true;
        args.c_rows = grid_of(g->c_rows);
        args.c_is_vector = grid_is_aligned(g->c, g->c_rows);
    }
    return args;
}

/* A plain matrix is one of patches of one tap, in images of one pixel; plain rows are a grid of one row of them. */
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
    if (g->form == LS_GEMM_NN) args->g.b_is_vector = grid_is_aligned(g->b, rows);
}

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

static ls_status join_parts(ls_device *device, const ls_cuda_gemm *args) {
    size_t threads = args->n % 4 == 0 ? args->n / 4 : args->n, rows = args->m < 65535 ? args->m : 65535;
    ls_cuda_grid grid = {ls_cuda_divide_up(threads, LS_CUDA_GEMM_JOIN_THREADS), rows, 1};
    return ls_cuda_launch(device, LS_CUDA_gemm_join, grid, LS_CUDA_GEMM_JOIN_THREADS, 0, args);
}

static ls_status make_room(ls_device *device, ls_cuda_gemm *args) {
    void *parts;
    LS_TRY(ls_cuda_scratch(device, (size_t)args->slices * args->m * args->n * sizeof(float), &parts));
    args->parts = parts;
    return LS_OK;
}

static bool is_thin(const ls_gemm *g, const ls_cuda_gemm *args) {
    return g->m <= LS_CUDA_GEMM_THIN_M && g->form != LS_GEMM_TN && g->dtype == LS_F32 && args->a_is_vector &&
           args->b_is_vector;
}

/* Few rows: slices are apart, which only makes more blocks. */
static ls_status run_thin(ls_device *device, const ls_gemm *g, ls_cuda_gemm *args) {
    bool along = g->form == LS_GEMM_NT;
    size_t rows = g->m == 1 ? 1 : LS_CUDA_GEMM_THIN_M,
           b_elems = LS_CUDA_GEMM_THIN_N * (LS_CUDA_GEMM_THIN_K + (along ? 4 : 0));
    size_t shared = LS_CUDA_GEMM_THIN_STEPS * (rows * LS_CUDA_GEMM_THIN_K + b_elems) * sizeof(float);
    ls_cuda_kernel kernel = along       ? g->m == 1 ? LS_CUDA_gemm_nt_row : LS_CUDA_gemm_nt_rows
                            : g->m == 1 ? LS_CUDA_gemm_nn_row
                                        : LS_CUDA_gemm_nn_rows;
    ls_cuda_grid grid = {ls_cuda_divide_up(g->n, LS_CUDA_GEMM_THIN_N), 1, (size_t)args->slices};
    if (args->slices > 1) LS_TRY(make_room(device, args));
    LS_TRY(ls_cuda_launch(device, kernel, grid, LS_CUDA_GEMM_THIN_N, shared, args));
    return args->slices > 1 ? join_parts(device, args) : LS_OK;
}

static ls_status run(ls_device *device, const ls_gemm *g) {
    if (!g->m || !g->n) return LS_OK;
    bool gathers = g->patches || g->b_rows;
    if (gathers || g->c_rows) LS_TRY(check_gather(g));
    ls_cuda_gemm_gather args = {.g = args_of(g)};
    if (!gathers && !ls_cuda_computes_otherwise(device) && is_thin(g, &args.g)) return run_thin(device, g, &args.g);
    if (gathers) gather_args_of(g, &args);
    int apart, tile = choose_tile(device, g, &apart);
    const tile_kind *t = &tiles[tile];
    size_t tiles_m = ls_cuda_divide_up(g->m, t->m), tiles_n = ls_cuda_divide_up(g->n, t->n);
    ls_cuda_grid grid = {SIZE_MAX, 1, (size_t)apart};
    (void)__builtin_mul_overflow(tiles_m, tiles_n, &grid.x);
    args.g.tiles_m = (uint32_t)tiles_m;
    args.g.tiles_n = (uint32_t)tiles_n;
    if (apart > 1) LS_TRY(make_room(device, &args.g));
    ls_cuda_kernel kernel = (gathers ? gather_kernels : plain_kernels)[g->form][tile];
    LS_TRY(ls_cuda_launch(device, kernel, grid, t->threads, shared_bytes(t, apart > 1 ? 1 : args.g.slices), &args));
    return apart > 1 ? join_parts(device, &args.g) : LS_OK;
}

ls_status ls_cuda_op_gemm(ls_device *device, const ls_gemm *call) {
    if (call->unit != LS_UNIT_CHAIN)
        return ls_fail(LS_ERR_INPUT, "matrix unit %s is not on a GPU; use unit chain", ls_unit_name(call->unit));
    LS_TRY(ls_gemm_check(call));
    return run(device, call);
}
