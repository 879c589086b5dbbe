/* loss_hgmma.c: launches softmax cross-entropy of 16-bit logits: blocks have rows (kernels/loss_hgmma.cu). */
#include <assert.h>

#include "device/cuda/ops/list.h"
#include "device/cuda/ops/loss.h"

enum { PACK = 8, THREADS_MIN = 32, PACKS_OF_A_THREAD = 4, SUM_BYTES = LS_CUDA_LOSS_FOLDED * sizeof(float) };
/* What a multiprocessor has room for: threads with their registers, and blocks, each with some memory of its own. */
enum { THREADS_OF_A_PROCESSOR = 1024, BLOCKS_OF_A_PROCESSOR = 32, SHARED_OF_A_BLOCK = 1024, SHARED_OF_KERNEL = 128 };

/* Fills a kernel's arguments (ls_cuda_loss_args), for packs of eight; out->whole is 0, no packs, if a slice does
 * not begin with one. */
static ls_status args_of(ls_device *device, const ls_loss_call *c, ls_cuda_loss *out) {
    assert(c->slices <= LS_GEMM_SLICES_MAX);
    LS_TRY(ls_cuda_loss_args(device, c, PACK, out));
    for (size_t i = 1; i < c->slices; i++)
        if ((c->bounds[i] - c->bounds[0]) % PACK != 0) out->whole = 0;
    return LS_OK;
}

/* Returns the threads of a block for a row: a power of two, a thread per PACKS_OF_A_THREAD packs, at most
 * LS_CUDA_LOSS_LANES. */
static unsigned threads_of(size_t columns) {
    unsigned threads = THREADS_MIN;
    while (threads < LS_CUDA_LOSS_LANES && (size_t)threads * PACK * PACKS_OF_A_THREAD < columns) threads *= 2;
    return threads;
}

ls_status ls_cuda_loss_hgmma_pass(ls_device *device, ls_cuda_kernel kernel, const ls_loss_call *c) {
    ls_cuda_loss args;
    if (c->rows == 0) return LS_OK;
    LS_TRY(args_of(device, c, &args));
    return ls_cuda_launch(device, kernel, (ls_cuda_grid){c->rows, 1, 1}, threads_of(args.columns),
                          c->slices * SUM_BYTES, &args);
}

ls_status ls_cuda_loss_hgmma_rows(ls_device *device, const ls_loss_call *c) {
    ls_cuda_loss args;
    LS_TRY(args_of(device, c, &args));
    if (args.whole == 0 || c->rows > INT32_MAX) return ls_cuda_loss_hgmma_pass(device, LS_CUDA_loss_hgmma_any, c);
    size_t sums = c->slices * SUM_BYTES, limit = ls_cuda_shared_max(device) - SHARED_OF_KERNEL;
    size_t packs = ls_cuda_divide_up(args.columns, PACK), room = (limit - sums) / (PACK * sizeof(uint16_t));
    args.kept = packs < room ? packs : room;
    size_t shared = args.kept * PACK * sizeof(uint16_t) + sums;
    /* As many blocks as find room together: each takes one row after another. One alone has all threads. */
    unsigned threads = threads_of(args.columns);
    size_t blocks = (limit + SHARED_OF_A_BLOCK) / (shared + SHARED_OF_KERNEL + SHARED_OF_A_BLOCK);
    if (blocks > THREADS_OF_A_PROCESSOR / threads) blocks = THREADS_OF_A_PROCESSOR / threads;
    if (blocks > BLOCKS_OF_A_PROCESSOR) blocks = BLOCKS_OF_A_PROCESSOR;
    if (blocks <= 1) blocks = 1, threads = THREADS_OF_A_PROCESSOR;
    blocks *= ls_cuda_processors(device);
    ls_cuda_kernel kernel = c->z_dtype == LS_BF16 ? LS_CUDA_loss_hgmma_bf16 : LS_CUDA_loss_hgmma_f16;
    return ls_cuda_launch(device, kernel, (ls_cuda_grid){blocks < c->rows ? blocks : c->rows, 1, 1}, threads, shared,
                          &args);
}
