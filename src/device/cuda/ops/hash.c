/* hash.c: the hash of memory, made of those of pieces. Only hashes come to the host, and a last piece of a few bytes.
 */
#include "device/cuda/args/hash.h"

#include <stdlib.h>

#include "device/cuda/ops/ops.h"

_Static_assert(sizeof(ls_hash128) == 2 * sizeof(uint64_t) && offsetof(ls_hash128, hi) == sizeof(uint64_t),
               "kernels write lo, then hi");

/* To pieces[0 … count−1], which is host memory. */
static ls_status hash_pieces(ls_device *device, ls_hash128 *pieces, size_t count, const void *x, size_t bytes) {
    const unsigned char *at = x;
    size_t tail = bytes % LS_CUDA_HASH_PIECE, whole = count;
    if (tail > 0 && tail <= LS_CUDA_HASH_SHORT) {
        unsigned char rest[LS_CUDA_HASH_SHORT];
        LS_TRY(ls_device_copy_out(device, rest, at + (bytes - tail), tail));
        pieces[--whole] = ls_hash_bytes(rest, tail);
        bytes -= tail;
    }
    if (whole == 0) return LS_OK;
    void *memory;
    LS_TRY(ls_cuda_scratch(device, whole * sizeof *pieces, &memory));
    int align = (uintptr_t)x % 8 == 0 ? 8 : (uintptr_t)x % 4 == 0 ? 4 : 1;
    ls_cuda_hash args = {.x = x, .bytes = bytes, .align = align, .out = memory};
    LS_TRY(ls_cuda_launch(device, LS_CUDA_hash_pieces, (ls_cuda_grid){whole, 1, 1}, LS_CUDA_HASH_THREADS, 0, &args));
    return ls_device_copy_out(device, pieces, memory, whole * sizeof *pieces);
}

ls_status ls_cuda_op_hash(ls_device *device, const ls_hash_call *c) {
    size_t count = ls_cuda_divide_up(c->bytes, LS_CUDA_HASH_PIECE);
    ls_hash128 *pieces = malloc((count + 1) * sizeof *pieces);
    if (!pieces) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    ls_status status = hash_pieces(device, pieces, count, c->x, c->bytes);
    if (status == LS_OK) *c->out = ls_hash_combine(pieces, count);
    free(pieces);
    return status;
}
