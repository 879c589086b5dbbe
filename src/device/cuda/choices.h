/* choices.h: the results of autotuning matmuls: the fastest way to compute each shape, kept in a file, so that a
 * machine times a shape once. ops/library.c, the autotuner, is the only caller, on the one host thread that uses the
 * device.
 *
 *     magic     8 bytes
 *     count     8 bytes
 *     choices   ls_cuda_choice, one behind the other
 *     hash      XXH128 of all before
 *
 * The file's name has the hash of the GPU's model, the versions of driver and library, and our own kernels of hgmma, so
 * results for others are not read. A damaged file counts as empty. Each process that writes merges the present file and
 * replaces it atomically; of two at the same moment one may lose its additions, which only costs another trial.
 *
 * Words of the ways, and of the kernels' names:
 *
 *     hgmma    the matrix unit (instructions for 16-bit matrices, with bits of their own) of Hopper GPUs: wgmma, in the
 *              order of additions that the contract (docs/reference/arithmetic.md) fixes
 *     slice    a fixed part of k whose products are summed by themselves; the sums of slices are then added by a tree
 *     any      kernels for every shape and alignment, without TMA
 *     over     the epilogue of a tile overlaps the mainloop of the next one (CUTLASS: ping-pong)
 *     tall     tiles of 256 rows; wide: of 256 columns
 *     cut      stream-K: the tiles of the last full wave and of the incomplete one are divided equally among all blocks
 *     held     sums of a slice kept in registers and shared memory until the next slice is done
 *     apart    split-K by slices: sums of slices go to scratch, and a second kernel adds them by the tree
 *     pairs    the same with two slices a part
 *     once     attention's backward in one kernel that computes all gradients; pairs: by two blocks together */
#ifndef LS_DEVICE_CUDA_CHOICES_H
#define LS_DEVICE_CUDA_CHOICES_H

#include "device/cuda/cublaslt.h"

typedef enum ls_cuda_way {
    LS_CUDA_OWN,             /* our kernels with the plan that the estimate prefers; the default */
    LS_CUDA_OWN_SECOND,      /* with the best plan of another tile */
    LS_CUDA_OVER,            /* overlapped epilogue (hgmma_over.cu) */
    LS_CUDA_PAIRS,           /* parts of two neighbouring slices */
    LS_CUDA_TALL,            /* tiles of 256 rows (hgmma_over.cu) */
    LS_CUDA_TALL_CUT,        /* the same with stream-K */
    LS_CUDA_WIDE,            /* tiles of 256 columns */
    LS_CUDA_WIDE_CUT,        /* the same with stream-K */
    LS_CUDA_LIBRARY,         /* one GEMM of cuBLASLt; this and all below are ways of the library */
    LS_CUDA_LIBRARY_APART,   /* a batched GEMM, one per slice; a kernel of ours adds the slices */
    LS_CUDA_LIBRARY_IN_TURN, /* a GEMM per slice, for two: the second adds to the first */
    LS_CUDA_WAYS
} ls_cuda_way;

/* Identifies a matmul: all that may matter to the speed or the bits of an algorithm. Has no padding, because it is
 * compared as bytes. m … ldadded are in elements, align_… in bytes; the other fields are those of ls_gemm
 * (calls.h). */
typedef struct ls_cuda_product_key {
    uint64_t m, n, k, lda, ldb, ldc, ldadded; /* ldadded: of the addends (siblings); 0 without one */
    uint64_t period, first;                   /* first: k of the first of several slices, else 0 */
    uint32_t form, dtype, c_dtype, slices, siblings, has_bias;
    uint32_t align_a, align_b, align_c, align_added; /* of the addresses: powers of two up to 256; absent ones 256 */
    uint32_t is_in_place;                            /* a sibling is C */
    uint32_t has_scratch;                            /* the device has scratch for the fp32 sums of all slices */
} ls_cuda_product_key;

/* The result of one trial. */
typedef struct ls_cuda_choice {
    ls_cuda_product_key key;
    uint32_t way;              /* of ls_cuda_way */
    float own_us, best_us;     /* times of LS_CUDA_OWN and of the fastest other way; 0: none other was timed */
    uint32_t unused;           /* 0: fills a gap */
    ls_lt_algorithm algorithm; /* of a way of the library; else zero */
} ls_cuda_choice;

/* A growing array of choices, with one choice per key. All zero is empty; ls_cuda_choices_clear() frees it. */
typedef struct ls_cuda_choices {
    ls_cuda_choice *list;
    size_t count, capacity;
} ls_cuda_choices;

/* Returns the choice with this key, valid until the next is added; NULL if there is none. */
const ls_cuda_choice *ls_cuda_choices_find(const ls_cuda_choices *choices, const ls_cuda_product_key *key);
/* Adds a choice, or replaces the one with the same key. Fails only if memory is short. */
ls_status ls_cuda_choices_add(ls_cuda_choices *choices, const ls_cuda_choice *choice);
/* Adds the choices of a file whose keys are new and whose way exists; those in memory stay as they are. Does nothing
 * without a file. If the file is damaged, larger than 16 MiB or cannot be read, logs a warning and adds nothing; if
 * memory is short, silently adds fewer. */
void ls_cuda_choices_read(ls_cuda_choices *choices, const char *path);
/* Reads the file as above, so that other processes' choices are kept (also in `choices`), then replaces the file
 * atomically by all choices. Errors are ignored: the next run times the shapes again. */
void ls_cuda_choices_write(ls_cuda_choices *choices, const char *path);
/* Frees the list, and leaves the struct empty. */
void ls_cuda_choices_clear(ls_cuda_choices *choices);

#endif
