/* optim.h: what the kernels of optim.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_OPTIM_H
#define LS_DEVICE_CUDA_ARGS_OPTIM_H

#include "device/cuda/common/pack.h"

enum {
    LS_CUDA_OPTIM_PACKS = 2,
    LS_CUDA_SQUARE_BLOCK = 1024,
    LS_CUDA_SQUARE_BLOCKS = 16, /* that a block of threads has at a time */
    LS_CUDA_EXACT_WORDS = 68,
};

/* The numbers are those of ls_adamw_step and ls_sgd_step. */
typedef struct ls_cuda_adamw {
    ls_cuda_flat flat;
    int copy_dtype;
    float factor, beta1, beta1_rest, beta2, beta2_rest, rate, root, epsilon, decay;
    float *w, *m, *v;
    void *copy; /* NULL: none */
    const float *g;
} ls_cuda_adamw;

typedef struct ls_cuda_sgd {
    ls_cuda_flat flat;
    int copy_dtype, nesterov;
    float factor, rate, momentum, weight_decay;
    float *w, *b; /* b NULL: without momentum */
    void *copy;
    const float *g;
} ls_cuda_sgd;

/* Arguments of a kernel are at most 4 KiB. */
enum { LS_CUDA_SQUARE_PIECES = 160 };

typedef struct ls_cuda_squares {
    unsigned long long *words; /* LS_CUDA_EXACT_WORDS: what is added wraps */
    int count;
    const float *x[LS_CUDA_SQUARE_PIECES];
    size_t n[LS_CUDA_SQUARE_PIECES];
    unsigned first[LS_CUDA_SQUARE_PIECES + 1]; /* turn of a block of threads with which a piece begins */
} ls_cuda_squares;

#endif
