/* hash.h: the arguments of the kernels of hash.cu (XXH3 hashes of 128 bits), which ops/hash.c fills in. */
#ifndef LS_DEVICE_CUDA_ARGS_HASH_H
#define LS_DEVICE_CUDA_ARGS_HASH_H

#include "device/cuda/common/types.h"

enum {
    LS_CUDA_HASH_PIECE = 1 << 18, /* bytes that a block of threads hashes */
    LS_CUDA_HASH_THREADS = 256,
    LS_CUDA_HASH_BLOCK = 1024, /* elements that a warp hashes in hash_blocks */
};

/* Hashes of consecutive pieces of `piece` bytes, one for each block of threads; the last piece has what is left of
 * `bytes`. */
typedef struct ls_cuda_hash {
    const unsigned char *x;
    size_t bytes, piece;
    int align;     /* 8, 4 or 1: what the address of x is a multiple of */
    int canonical; /* hashes are written big-endian, hi first, the form in which they are hashed again; else lo, hi */
    uint64_t *out; /* two numbers for each piece */
} ls_cuda_hash;

/* Hashes of consecutive blocks of LS_CUDA_HASH_BLOCK elements, of their numbers widened to fp32; n: elements in
 * all. */
typedef struct ls_cuda_hash_blocks {
    const void *x;
    int dtype; /* ls_dtype of x */
    size_t n;
    uint64_t *out; /* lo and hi of each block */
} ls_cuda_hash_blocks;

#endif
