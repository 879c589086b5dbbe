/* hash.c: launches hashes (XXH3, 128 bits): of memory, as the hash of the hashes of its pieces, and of blocks of
 * numbers (kernels/hash.cu). */
#include "device/cuda/args/hash.h"

#include "device/cuda/ops/ops.h"

_Static_assert(sizeof(ls_hash128) == 2 * sizeof(uint64_t) && offsetof(ls_hash128, hi) == sizeof(uint64_t),
               "kernels write lo, then hi");
_Static_assert((int)LS_SQUARE_BLOCK == LS_CUDA_HASH_BLOCK, "blocks of hashes are those of the contract");

/* Launches a hash of each of `pieces` pieces of args.x, a thread block each; sets args.align from the address. */
static ls_status hash_pieces(ls_device *device, ls_cuda_hash args, size_t pieces) {
    args.align = (uintptr_t)args.x % 8 == 0 ? 8 : (uintptr_t)args.x % 4 == 0 ? 4 : 1;
    return ls_cuda_launch(device, LS_CUDA_hash_pieces, (ls_cuda_grid){pieces, 1, 1}, LS_CUDA_HASH_THREADS, 0, &args);
}

LS_ASSERT_ARGS(ls_hash_call, 3);
/* Launches the hash of c->bytes bytes: first those of pieces of LS_CUDA_HASH_PIECE bytes into scratch, then the
 * hash of these. */
ls_status ls_cuda_op_hash(ls_device *device, const ls_hash_call *c) {
    size_t count = ls_cuda_divide_up(c->bytes, LS_CUDA_HASH_PIECE), bytes = count * sizeof(ls_hash128);
    void *memory;
    LS_TRY(ls_cuda_scratch(device, bytes + 1, &memory));
    LS_TRY(hash_pieces(
        device,
        (ls_cuda_hash){.x = c->x, .bytes = c->bytes, .piece = LS_CUDA_HASH_PIECE, .canonical = 1, .out = memory},
        count));
    /* The hashes are one piece; zero bytes have a hash, too. */
    return hash_pieces(
        device, (ls_cuda_hash){.x = memory, .bytes = bytes, .piece = bytes + 1, .out = (uint64_t *)(void *)c->out}, 1);
}

LS_ASSERT_ARGS(ls_hash_blocks_call, 4);
/* Launches a hash of each block of LS_SQUARE_BLOCK elements as fp32 numbers, a warp each; the last has what is
 * left. */
ls_status ls_cuda_op_hash_blocks(ls_device *device, const ls_hash_blocks_call *c) {
    LS_TRY(ls_check_float("a hash", c->dtype));
    ls_cuda_hash_blocks args = {.x = c->x, .dtype = (int)c->dtype, .n = c->n, .out = (uint64_t *)(void *)c->out};
    size_t blocks = ls_cuda_divide_up(ls_cuda_divide_up(c->n, LS_CUDA_HASH_BLOCK), LS_CUDA_HASH_THREADS / 32);
    return ls_cuda_launch(device, LS_CUDA_hash_blocks, (ls_cuda_grid){blocks, 1, 1}, LS_CUDA_HASH_THREADS, 0, &args);
}
