/* optim.h: the arguments of the kernels of optim.cu (optimizer steps, state sums, squared norms), which
 * ops/optim.c fills in. A launch updates many pieces: runs of neighbouring elements of tensors. */
#ifndef LS_DEVICE_CUDA_ARGS_OPTIM_H
#define LS_DEVICE_CUDA_ARGS_OPTIM_H

#include "device/cuda/common/pack.h"

enum {
    LS_CUDA_OPTIM_PACKS = 2,                                              /* that a thread loads before it stores */
    LS_CUDA_CHECK_BLOCK = 4 * LS_CUDA_PACK_THREADS * LS_CUDA_OPTIM_PACKS, /* elements with compared sums of their own */
    LS_CUDA_SQUARE_BLOCK = 1024, /* elements whose squares are added in double */
    LS_CUDA_SQUARE_BLOCKS = 16,  /* that a block of threads has at a time */
    LS_CUDA_EXACT_WORDS = 68,    /* LS_EXACT_WORDS of numerics/exact_sum.h */
};

/* As ls_update_mode: an optimizer step; only compare the sums of blocks; only record them. */
enum { LS_CUDA_UPDATE_STEP, LS_CUDA_UPDATE_CHECK, LS_CUDA_UPDATE_RECORD };

/* As ls_update_piece and its ls_update_step: elements from … n − 1, whose state sums go to one place. Element 0 is
 * that of all pointers and of `first`; with `check` it begins a block of compared sums. */
typedef struct ls_cuda_update_piece {
    float *w, *moment[2]; /* NULL: there is none */
    void *copy;           /* 16-bit weights for matmuls; NULL: none */
    const float *g;
    size_t from, n;
    unsigned long long *check;  /* LS_CUDA_CHECK_STATES for each block, of w and of each moment; NULL: none are kept */
    unsigned long long *damage; /* the largest ls_damage_word() of blocks that differ; NULL: nothing is compared */
    unsigned long long damage_first; /* what that word is the complement of, for w of the first block */
    unsigned long long *sums;        /* lo, hi of w and of each moment; NULL: none are made */
    uint64_t tensor, first;          /* of w; those of the moments follow */
    unsigned long long *copy_sums;   /* lo, hi of the copy, by twos; NULL: none are made. Only with `check` */
    uint64_t copy_tensor, copy_first;
    float factor, rate, beta1, beta1_rest, beta2, beta2_rest, root, epsilon, decay, momentum, weight_decay;
    int copy_dtype, nesterov, mode;
    int aligned; /* packs begin at multiples of 16 bytes, and of 4 elements of the whole tensor */
} ls_cuda_update_piece;

/* Sums of a block, of w and two moments; the bit of a damage word at which the state's number begins. */
enum { LS_CUDA_CHECK_STATES = 3, LS_CUDA_CHECK_STATE_BIT = 32 };
/* Pieces of a launch; those passed by value; elements of a thread block. */
enum { LS_CUDA_UPDATE_PIECES = 256, LS_CUDA_UPDATE_FEW = 4, LS_CUDA_UPDATE_ELEMS = 8192 };

/* The arguments of adamw and sgd. */
typedef struct ls_cuda_update {
    const ls_cuda_update_piece *many; /* the pieces, on the device; NULL: they are in few */
    ls_cuda_update_piece few[LS_CUDA_UPDATE_FEW];
    unsigned count;
    unsigned first[LS_CUDA_UPDATE_PIECES + 1]; /* thread block with which a piece begins */
} ls_cuda_update;

/* Pieces of a launch of square_sums: arguments of a kernel are at most 4 KiB. */
enum { LS_CUDA_SQUARE_PIECES = 160 };

/* The arguments of square_sums: `count` pieces x[i] of n[i] elements. */
typedef struct ls_cuda_squares {
    unsigned long long *words; /* an exact sum, LS_CUDA_EXACT_WORDS integers; negative addends wrap around */
    int count;
    const float *x[LS_CUDA_SQUARE_PIECES];
    size_t n[LS_CUDA_SQUARE_PIECES];
    unsigned first[LS_CUDA_SQUARE_PIECES + 1]; /* turn of a block of threads with which a piece begins */
} ls_cuda_squares;

/* State sums (checksums of weights and optimizer state, numerics/state_sum.h): a warp has a block of elements of a
 * piece at a time. */
enum { LS_CUDA_STATE_BLOCK = 1024, LS_CUDA_STATE_PIECES = 80, LS_CUDA_STATE_THREADS = 256 };

/* As ls_state_piece: x[0] is element `first` of tensor number `tensor`. */
typedef struct ls_cuda_state_piece {
    unsigned long long *out; /* lo, hi; they grow */
    const float *x;
    uint64_t tensor, first;
    size_t n;
} ls_cuda_state_piece;

/* The arguments of state_sums. */
typedef struct ls_cuda_state {
    int count;
    ls_cuda_state_piece piece[LS_CUDA_STATE_PIECES];
    unsigned begin[LS_CUDA_STATE_PIECES + 1]; /* turn of a warp with which a piece begins */
} ls_cuda_state;

#endif
