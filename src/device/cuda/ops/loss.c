/* loss.c: softmax cross-entropy: blocks have rows, or clusters of blocks have. */
#include <assert.h>

#include "device/cuda/args/loss.h"
#include "device/cuda/ops/list.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum {
    WIDTH = 4,
    LANES = 16,
    THREADS_MIN = 32,
    COLUMNS_OF_A_THREAD = 8,
    THREADS_OF_A_PASS = 512,
    THREADS_OF_A_PART = 128
};
/* What a multiprocessor has room for: threads with their registers, and blocks; what a block takes of its shared memory
 * besides its own, and how many should find room. */
enum {
    THREADS_OF_A_PROCESSOR = 2 * LS_CUDA_LOSS_THREADS,
    BLOCKS_OF_A_PROCESSOR = 32,
    SHARED_BESIDES = 1024,
    BLOCKS_WANTED = 2
};

static ls_status args_of(ls_device *device, const ls_loss_call *c, ls_cuda_loss *out) {
    assert(c->slices >= 1 && c->slices <= 4096);
    size_t first = c->bounds[0], columns = c->bounds[c->slices] - first;
    *out = (ls_cuda_loss){.rows = c->rows,
                          .z = c->z,
                          .z_stride = c->z_stride,
                          .slices = c->slices,
                          .first = first,
                          .columns = columns,
                          .targets = c->targets,
                          .id_begin = c->id_begin,
                          .m = c->m,
                          .l = c->l,
                          .loss = c->loss,
                          .z_target = c->z_target,
                          .sums = c->sums,
                          .dz = c->dz,
                          .dz_dtype = (int)c->dz_dtype,
                          .dz_stride = c->dz_stride,
                          .g = c->g,
                          .over = c->dz && (const void *)c->z == c->dz && c->dz_dtype != LS_F32};
    LS_TRY(ls_cuda_sizes_set(device, &out->bounds, c->bounds, c->slices + 1));
    bool dz_fits = !c->dz || ls_cuda_fits((const char *)c->dz + first * ls_dtype_bytes(c->dz_dtype), c->dz_dtype,
                                          c->dz_stride, WIDTH);
    if (ls_cuda_fits(c->z + first, LS_F32, c->z_stride, WIDTH) && dz_fits) out->whole = columns / WIDTH * WIDTH;
    return LS_OK;
}

/* Threads for some columns: as many as find some each. */
static unsigned threads_of(size_t columns, unsigned most) {
    unsigned threads = THREADS_MIN;
    while (threads < most && threads * COLUMNS_OF_A_THREAD < columns) threads *= 2;
    return threads < most ? threads : most;
}

static ls_status run_rows(ls_device *device, ls_cuda_kernel kernel, const ls_loss_call *c, unsigned most) {
    ls_cuda_loss args;
    if (c->rows == 0) return LS_OK;
    LS_TRY(args_of(device, c, &args));
    return ls_cuda_launch(device, kernel, (ls_cuda_grid){c->rows, 1, 1}, threads_of(args.columns, most), 0, &args);
}

ls_status ls_cuda_op_loss_max(ls_device *device, const ls_loss_call *c) {
    return run_rows(device, LS_CUDA_loss_max, c, THREADS_OF_A_PASS);
}

ls_status ls_cuda_op_loss_sums(ls_device *device, const ls_loss_call *c) {
    ls_cuda_loss args;
    if (c->rows == 0) return LS_OK;
    LS_TRY(args_of(device, c, &args));
    ls_cuda_grid grid = {ls_cuda_divide_up(c->rows * c->slices, LS_CUDA_LOSS_SUMS), 1, 1};
    return ls_cuda_launch(device, LS_CUDA_loss_sums, grid, 16 * LS_CUDA_LOSS_SUMS, 0, &args);
}

ls_status ls_cuda_op_loss_values(ls_device *device, const ls_loss_call *c) {
    ls_cuda_loss args = {.rows = c->rows, .m = c->m, .l = c->l, .loss = c->loss, .z_target = c->z_target};
    ls_cuda_grid grid = {ls_cuda_divide_up(c->rows, LS_CUDA_LOSS_VALUES), 1, 1};
    return ls_cuda_launch(device, LS_CUDA_loss_values, grid, LS_CUDA_LOSS_VALUES, 0, &args);
}

ls_status ls_cuda_op_loss_grad(ls_device *device, const ls_loss_call *c) {
    LS_TRY(ls_check_float("the gradient of a loss", c->dz_dtype));
    return run_rows(device, LS_CUDA_loss_grad, c, LS_CUDA_LOSS_GRAD);
}

/* Rows that shared memory does not hold: one pass after another, the numbers between them in scratch. */
static ls_status long_rows(ls_device *device, const ls_loss_call *c) {
    const void *parts[4096];
    void *scratch;
    ls_loss_call step = *c;
    LS_TRY(ls_cuda_scratch(device, (3 + c->slices) * c->rows * sizeof(float), &scratch));
    step.z_target = scratch;
    if (!c->m) step.m = step.z_target + c->rows;
    if (!c->l) step.l = step.z_target + 2 * c->rows;
    step.sums = step.z_target + 3 * c->rows;
    for (size_t i = 0; i < c->slices; i++) parts[i] = step.sums + i * c->rows;
    LS_TRY(ls_cuda_op_loss_max(device, &step));
    LS_TRY(ls_cuda_op_loss_sums(device, &step));
    LS_TRY(device->ops->tree_sum(device, &(ls_tree_sum_call){step.l, parts, LS_F32, (int)c->slices, c->rows}));
    LS_TRY(ls_cuda_op_loss_values(device, &step));
    return c->dz ? ls_cuda_op_loss_grad(device, &step) : LS_OK;
}

/* Cuts rows into parts of about the same size: between slices where one begins nearby, else inside of one, at a row of
 * its sixteen lanes. False where no such place begins with a pack. */
static bool cut_rows(const ls_loss_call *c, size_t parts, ls_cuda_loss *args) {
    enum { NEAR = 64 };
    const size_t *bounds = c->bounds, first = bounds[0];
    size_t slice = 0;
    ls_cuda_loss_cut *cuts = args->cuts;
    cuts[0] = (ls_cuda_loss_cut){0};
    for (size_t i = 1; i < parts; i++) {
        size_t at = first + args->columns * i / parts, from = slice;
        while (bounds[slice + 1] <= at) slice++;
        if (slice + 1 < c->slices && bounds[slice + 1] - at < NEAR) slice++;
        size_t behind = at > bounds[slice] + NEAR ? (at - bounds[slice]) / LANES * LANES : 0;
        cuts[i] = (ls_cuda_loss_cut){.column = (uint32_t)(bounds[slice] - first + behind), .slice = (uint32_t)slice};
        if (cuts[i].column % WIDTH != 0 || cuts[i].column <= cuts[i - 1].column) return false;
        cuts[i - 1].goes_on = behind > 0;
        cuts[i - 1].slices = (uint32_t)(slice - from + (behind > 0));
        cuts[i].position = behind > 0 ? cuts[i - 1].position + 1 : 0;
    }
    cuts[parts - 1].slices = (uint32_t)(c->slices - cuts[parts - 1].slice);
    cuts[parts] = (ls_cuda_loss_cut){.column = (uint32_t)args->columns};
    args->part = 0;
    for (size_t i = 0; i < parts; i++) {
        uint32_t columns = cuts[i + 1].column - cuts[i].column;
        if (columns > args->part) args->part = columns;
    }
    args->part = (args->part + WIDTH - 1) / WIDTH * WIDTH;
    return true;
}

/* Of one block: barriers, the part, the sums of all slices and where they end, and numbers of lanes, warps and blocks.
 */
static size_t shared_of(const ls_cuda_loss *args) {
    enum { BARRIERS = 24 };
    return (BARRIERS + args->part + 2 * args->slices + 1 + LANES + 32 + 2 * LS_CUDA_LOSS_PARTS) * sizeof(float);
}

/* Into how many parts rows are cut: as few as leave room for two blocks in a multiprocessor, else for one; 0: none do.
 * `blocks` gets how many find room. */
static size_t parts_of(ls_device *device, const ls_loss_call *c, ls_cuda_loss *args, size_t *blocks) {
    size_t room = ls_cuda_shared_max(device), parts = 0, most = ls_cuda_has_clusters(device) ? LS_CUDA_LOSS_PARTS : 1;
    *blocks = 0;
    for (size_t n = ls_cuda_computes_otherwise(device) ? most : 1; n <= most && *blocks < BLOCKS_WANTED; n *= 2) {
        ls_cuda_loss cut = *args;
        if (!cut_rows(c, n, &cut) || shared_of(&cut) > room) continue;
        size_t fit = (room + SHARED_BESIDES) / (shared_of(&cut) + SHARED_BESIDES);
        if (fit <= *blocks) continue;
        *args = cut;
        *blocks = fit < BLOCKS_OF_A_PROCESSOR ? fit : BLOCKS_OF_A_PROCESSOR;
        parts = n;
    }
    return parts;
}

ls_status ls_cuda_op_loss_rows(ls_device *device, const ls_loss_call *c) {
    static const ls_cuda_kernel kernels[] = {LS_CUDA_loss_rows, LS_CUDA_loss_rows_2, LS_CUDA_loss_rows_4,
                                             LS_CUDA_loss_rows_8};
    if (c->dz) LS_TRY(ls_check_float("the gradient of a loss", c->dz_dtype));
    if (c->rows == 0) return LS_OK;
    ls_cuda_loss args;
    size_t blocks;
    LS_TRY(args_of(device, c, &args));
    size_t parts = parts_of(device, c, &args, &blocks);
    if (parts == 0) return long_rows(device, c);
    unsigned threads = threads_of(args.part, LS_CUDA_LOSS_THREADS), kernel = 0;
    /* Fewer threads where more blocks find room then. */
    if (blocks * threads > THREADS_OF_A_PROCESSOR && threads > THREADS_OF_A_PART) {
        unsigned fair = (unsigned)(THREADS_OF_A_PROCESSOR / blocks / 32 * 32);
        threads = fair > THREADS_OF_A_PART ? fair : THREADS_OF_A_PART;
    }
    if (blocks * threads > THREADS_OF_A_PROCESSOR) blocks = THREADS_OF_A_PROCESSOR / threads;
    args.ahead = (ls_cuda_processors(device) * blocks + parts - 1) / parts;
    while ((size_t)1 << kernel < parts) kernel++;
    return ls_cuda_launch(device, kernels[kernel], (ls_cuda_grid){c->rows * parts, 1, 1}, threads, shared_of(&args),
                          &args);
}
