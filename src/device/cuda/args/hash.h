/* hash.h: what the kernels of hash.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_HASH_H
#define LS_DEVICE_CUDA_ARGS_HASH_H

#include "device/cuda/common/types.h"

enum {
    LS_CUDA_HASH_PIECE = 1 << 18,
    LS_CUDA_HASH_THREADS = 256,
    LS_CUDA_HASH_BLOCK = 1024, /* elements */
};

/* Hashes of pieces of so many bytes, one for each block of threads; of the last piece what is left. */
typedef struct ls_cuda_hash {
    const unsigned char *x;
    size_t bytes, piece;
    int align;     /* 8, 4 or 1: what the address of x is a multiple of */
    int canonical; /* hashes are written big-endian, hi first, as they are hashed again; else lo, hi */
    uint64_t *out; /* two numbers for each piece */
} ls_cuda_hash;

/* Hashes of blocks of LS_CUDA_HASH_BLOCK elements, of their numbers as fp32. */
typedef struct ls_cuda_hash_blocks {
    const void *x;
    int dtype;
    size_t n;
    uint64_t *out;
} ls_cuda_hash_blocks;

#endif
