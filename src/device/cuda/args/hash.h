/* hash.h: what the kernel of hash.cu is started with. */
#ifndef LS_DEVICE_CUDA_ARGS_HASH_H
#define LS_DEVICE_CUDA_ARGS_HASH_H

#include "device/cuda/common/types.h"

enum {
    LS_CUDA_HASH_PIECE = 1 << 18,
    LS_CUDA_HASH_SHORT = 240, /* XXH3 has other rules for so many bytes and fewer: those are the host's */
    LS_CUDA_HASH_THREADS = 256,
};

typedef struct ls_cuda_hash {
    const unsigned char *x;
    size_t bytes;  /* a last piece has more than LS_CUDA_HASH_SHORT of them */
    int align;     /* 8, 4 or 1: what the address of x is a multiple of */
    uint64_t *out; /* two numbers for each piece: lo, hi */
} ls_cuda_hash;

#endif
