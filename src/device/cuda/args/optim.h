/* optim.h: what the kernels of optim.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_OPTIM_H
#define LS_DEVICE_CUDA_ARGS_OPTIM_H

#include "device/cuda/common/pack.h"

enum {
    LS_CUDA_OPTIM_PACKS = 2,
    LS_CUDA_CHECK_BLOCK = 4 * LS_CUDA_PACK_THREADS * LS_CUDA_OPTIM_PACKS, /* of sums that are compared */
    LS_CUDA_SQUARE_BLOCK = 1024,
    LS_CUDA_SQUARE_BLOCKS = 16, /* that a block of threads has at a time */
    LS_CUDA_EXACT_WORDS = 68,
};

enum { LS_CUDA_UPDATE_STEP, LS_CUDA_UPDATE_CHECK, LS_CUDA_UPDATE_RECORD }; /* as ls_update_mode */

/* As ls_update_piece and its ls_update_step: elements from … n − 1, which go to the same state sums. Element 0, that of
 * all pointers and of `first`, begins a block of sums that are compared. */
typedef struct ls_cuda_update_piece {
    float *w, *moment[2]; /* NULL: there is none */
    void *copy;
    const float *g;
    size_t from, n;
    unsigned long long *check;  /* LS_CUDA_CHECK_STATES for each block, of w and of each moment; NULL: none are kept */
    unsigned long long *damage; /* grows to the word of a block that differs; NULL: nothing is compared */
    unsigned long long damage_first; /* what that word is the complement of, for w of the first block */
    unsigned long long *sums;        /* lo, hi of w and of each moment; NULL: none are made */
    uint64_t tensor, first;          /* of w; those of the moments follow */
    unsigned long long *copy_sums;   /* lo, hi of the copy, by twos; NULL: none are made. Only with `check` */
    uint64_t copy_tensor, copy_first;
    float factor, rate, beta1, beta1_rest, beta2, beta2_rest, root, epsilon, decay, momentum, weight_decay;
    int copy_dtype, nesterov, mode;
    int aligned; /* packs begin at multiples of 16 bytes, and of 4 elements of the whole tensor */
} ls_cuda_update_piece;

enum { LS_CUDA_CHECK_STATES = 3, LS_CUDA_CHECK_STATE_BIT = 32 };
enum { LS_CUDA_UPDATE_PIECES = 256, LS_CUDA_UPDATE_FEW = 4, LS_CUDA_UPDATE_ELEMS = 8192 }; /* the last: of a block */

typedef struct ls_cuda_update {
    const ls_cuda_update_piece *many; /* on the device; NULL: they are in few */
    ls_cuda_update_piece few[LS_CUDA_UPDATE_FEW];
    unsigned count;
    unsigned first[LS_CUDA_UPDATE_PIECES + 1]; /* block with which a piece begins */
} ls_cuda_update;

/* Arguments of a kernel are at most 4 KiB. */
enum { LS_CUDA_SQUARE_PIECES = 160 };

typedef struct ls_cuda_squares {
    unsigned long long *words; /* LS_CUDA_EXACT_WORDS: what is added wraps */
    int count;
    const float *x[LS_CUDA_SQUARE_PIECES];
    size_t n[LS_CUDA_SQUARE_PIECES];
    unsigned first[LS_CUDA_SQUARE_PIECES + 1]; /* turn of a block of threads with which a piece begins */
} ls_cuda_squares;

/* State sums (numerics/state_sum.h): a warp has a block of elements of a piece at a time. */
enum { LS_CUDA_STATE_BLOCK = 1024, LS_CUDA_STATE_PIECES = 80, LS_CUDA_STATE_THREADS = 256 };

typedef struct ls_cuda_state_piece {
    unsigned long long *out; /* lo, hi */
    const float *x;
    uint64_t tensor, first;
    size_t n;
} ls_cuda_state_piece;

typedef struct ls_cuda_state {
    int count;
    ls_cuda_state_piece piece[LS_CUDA_STATE_PIECES];
    unsigned begin[LS_CUDA_STATE_PIECES + 1]; /* turn of a warp with which a piece begins */
} ls_cuda_state;

#endif
