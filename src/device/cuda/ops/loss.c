/* loss.c: launches softmax cross-entropy (kernels/loss.cu): blocks have rows of logits. 16-bit logits go to
 * loss_hgmma.c. */
#include <assert.h>

#include "device/cuda/args/loss.h"
#include "device/cuda/ops/list.h"
#include "device/cuda/ops/loss.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum { WIDTH = 4, THREADS_MIN = 32, COLUMNS_OF_A_THREAD = 8, THREADS_OF_A_PASS = 512, SHARED_OF_KERNEL = 1024 };
/* Limits of a multiprocessor: threads with their registers, and blocks. */
enum { THREADS_OF_A_PROCESSOR = LS_CUDA_LOSS_THREADS, BLOCKS_OF_A_PROCESSOR = 32 };

/* Returns whether the first column of z and dz in every row is aligned to vectors of `width` elements. */
static bool are_aligned(const ls_loss_call *c, size_t width) {
    size_t first = c->bounds[0];
    const char *z = (const char *)c->z + first * ls_dtype_bytes(c->z_dtype);
    const char *dz = c->dz ? (const char *)c->dz + first * ls_dtype_bytes(c->dz_dtype) : NULL;
    return ls_cuda_fits(z, c->z_dtype, c->z_stride, width) && ls_cuda_fits(dz, c->dz_dtype, c->dz_stride, width);
}

LS_ASSERT_ARGS(ls_loss_call, 17);
ls_status ls_cuda_loss_args(ls_device *device, const ls_loss_call *c, size_t width, ls_cuda_loss *out) {
    assert(c->slices >= 1 && c->slices <= 4096);
    size_t first = c->bounds[0], columns = c->bounds[c->slices] - first;
    *out = (ls_cuda_loss){.rows = c->rows,
                          .z = c->z,
                          .z_dtype = (int)c->z_dtype,
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
                          .over = c->dz && c->z == c->dz && c->dz_dtype != LS_F32};
    if (are_aligned(c, width)) out->whole = columns / width * width;
    return ls_cuda_sizes_set(device, &out->bounds, c->bounds, c->slices + 1);
}

/* Returns the threads of a block for a row: a power of two, about a thread per COLUMNS_OF_A_THREAD columns, at
 * most `most`. */
static unsigned threads_of(const ls_cuda_loss *args, unsigned most) {
    unsigned threads = THREADS_MIN;
    while (threads < most && threads * COLUMNS_OF_A_THREAD < args->columns) threads *= 2;
    return threads < most ? threads : most;
}

/* Launches one pass over rows of fp32 logits, a block of at most `most` threads per row. */
static ls_status run_rows(ls_device *device, ls_cuda_kernel kernel, const ls_loss_call *c, unsigned most) {
    ls_cuda_loss args;
    if (c->rows == 0) return LS_OK;
    LS_TRY(ls_cuda_loss_args(device, c, WIDTH, &args));
    return ls_cuda_launch(device, kernel, (ls_cuda_grid){c->rows, 1, 1}, threads_of(&args, most), 0, &args);
}

/* Launches the computation of m, the maximum of each row, and z_target, over the columns of this worker. */
ls_status ls_cuda_op_loss_max(ls_device *device, const ls_loss_call *c) {
    LS_TRY(ls_check_loss(c));
    if (c->z_dtype != LS_F32) return ls_cuda_loss_hgmma_pass(device, LS_CUDA_loss_hgmma_max, c);
    return run_rows(device, LS_CUDA_loss_max, c, THREADS_OF_A_PASS);
}

/* Launches the computation of the sums of e^(z − m) over each slice of each row into c->sums, [slices][rows]. */
ls_status ls_cuda_op_loss_sums(ls_device *device, const ls_loss_call *c) {
    ls_cuda_loss args;
    LS_TRY(ls_check_loss(c));
    if (c->z_dtype != LS_F32) return ls_cuda_loss_hgmma_pass(device, LS_CUDA_loss_hgmma_sums, c);
    if (c->rows == 0) return LS_OK;
    LS_TRY(ls_cuda_loss_args(device, c, WIDTH, &args));
    ls_cuda_grid grid = {ls_cuda_divide_up(c->rows * c->slices, LS_CUDA_LOSS_SUMS), 1, 1};
    return ls_cuda_launch(device, LS_CUDA_loss_sums, grid, 16 * LS_CUDA_LOSS_SUMS, 0, &args);
}

/* Launches the computation of loss = log(l) − (z_target − m) for each row. */
ls_status ls_cuda_op_loss_values(ls_device *device, const ls_loss_call *c) {
    ls_cuda_loss args = {.rows = c->rows, .m = c->m, .l = c->l, .loss = c->loss, .z_target = c->z_target};
    ls_cuda_grid grid = {ls_cuda_divide_up(c->rows, LS_CUDA_LOSS_VALUES), 1, 1};
    return ls_cuda_launch(device, LS_CUDA_loss_values, grid, LS_CUDA_LOSS_VALUES, 0, &args);
}

/* Launches the computation of dz, the gradient of the logits, from z, m and l. */
ls_status ls_cuda_op_loss_grad(ls_device *device, const ls_loss_call *c) {
    LS_TRY(ls_check_loss(c));
    if (c->z_dtype != LS_F32) return ls_cuda_loss_hgmma_pass(device, LS_CUDA_loss_hgmma_grad, c);
    return run_rows(device, LS_CUDA_loss_grad, c, LS_CUDA_LOSS_GRAD);
}

/* Computes loss_rows for rows that do not fit into shared memory, in several passes over z, with intermediate
 * results in scratch. */
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

/* Launches the computation of the loss of whole rows, and m, l and dz where they are not NULL, in one kernel with the
 * row in shared memory; by passes if a row does not fit. */
ls_status ls_cuda_op_loss_rows(ls_device *device, const ls_loss_call *c) {
    LS_TRY(ls_check_loss(c));
    if (c->rows == 0) return LS_OK;
    if (c->z_dtype != LS_F32) return ls_cuda_loss_hgmma_rows(device, c);
    size_t columns = c->bounds[c->slices] - c->bounds[0], room = ls_cuda_shared_max(device) - SHARED_OF_KERNEL;
    if (columns > room / sizeof(float) || c->rows > INT32_MAX) return long_rows(device, c);
    size_t shared = (columns + WIDTH + 2 * c->slices + 1) * sizeof(float);
    if (shared > room) return long_rows(device, c);
    ls_cuda_loss args;
    LS_TRY(ls_cuda_loss_args(device, c, WIDTH, &args));
    /* As many blocks as find room together: each takes one row after another. */
    unsigned threads = threads_of(&args, LS_CUDA_LOSS_THREADS);
    size_t blocks = room / shared, most = THREADS_OF_A_PROCESSOR / threads;
    if (blocks > most) blocks = most;
    if (blocks > BLOCKS_OF_A_PROCESSOR) blocks = BLOCKS_OF_A_PROCESSOR;
    if (blocks < 1) blocks = 1;
    blocks *= ls_cuda_processors(device);
    return ls_cuda_launch(device, LS_CUDA_loss_rows, (ls_cuda_grid){blocks < c->rows ? blocks : c->rows, 1, 1}, threads,
                          shared, &args);
}
