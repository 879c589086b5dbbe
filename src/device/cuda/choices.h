/* choices.h: which products go by a library's algorithm, or by other kernels of ours than an estimate says, kept in a
 * file, so that a shape is tried out once on a machine.
 *
 *     magic     8 bytes
 *     count     8 bytes
 *     choices   ls_cuda_choice, one behind the other
 *     hash      XXH128 of all before
 *
 * The file's name has the hash of the GPU's model, the driver's and the library's version, and of our own kernels: what
 * was found out with others is not looked at. A file that is damaged is as good as none. Processes that write at the
 * same time each put a whole file in place, with what they found in the one before. */
#ifndef LS_DEVICE_CUDA_CHOICES_H
#define LS_DEVICE_CUDA_CHOICES_H

#include "device/cuda/cublaslt.h"

typedef enum ls_cuda_way {
    LS_CUDA_OWN,             /* by our kernels, as they are estimated, */
    LS_CUDA_OWN_SECOND,      /* with the tile that is the second best then, */
    LS_CUDA_OVER,            /* with tiles that go out while the next are multiplied (hgmma_over.cu), */
    LS_CUDA_PAIRS,           /* with two neighbouring slices at a time, the pairs apart, */
    LS_CUDA_TALL,            /* with tiles of 256 rows (hgmma_over.cu), */
    LS_CUDA_TALL_CUT,        /* the last of which are cut, */
    LS_CUDA_WIDE,            /* with tiles of 256 columns, */
    LS_CUDA_WIDE_CUT,        /* the last of which are cut */
    LS_CUDA_LIBRARY,         /* one product */
    LS_CUDA_LIBRARY_APART,   /* slices side by side, joined by a kernel of ours */
    LS_CUDA_LIBRARY_IN_TURN, /* two slices, the second added to the first */
    LS_CUDA_WAYS
} ls_cuda_way;

/* All that may matter to the speed or the bits of an algorithm. Without gaps: compared as bytes. */
typedef struct ls_cuda_product_key {
    uint64_t m, n, k, lda, ldb, ldc, ldadded;
    uint64_t period, first; /* first: k of the first slice, of several */
    uint32_t form, dtype, c_dtype, slices, siblings, has_bias;
    uint32_t align_a, align_b, align_c, align_added;
    uint32_t is_in_place; /* what is added is C */
    uint32_t has_scratch; /* for slices side by side */
} ls_cuda_product_key;

typedef struct ls_cuda_choice {
    ls_cuda_product_key key;
    uint32_t way; /* of ls_cuda_way */
    float own_us, best_us;
    uint32_t unused;
    ls_lt_algorithm algorithm;
} ls_cuda_choice;

typedef struct ls_cuda_choices {
    ls_cuda_choice *list;
    size_t count, capacity;
} ls_cuda_choices;

/* NULL: not known. Good until the next is added. */
const ls_cuda_choice *ls_cuda_choices_find(const ls_cuda_choices *choices, const ls_cuda_product_key *key);
/* Takes the place of one with the same key. */
ls_status ls_cuda_choices_add(ls_cuda_choices *choices, const ls_cuda_choice *choice);
/* Adds those of a file that are not known. A damaged one is said, and counts as empty. */
void ls_cuda_choices_read(ls_cuda_choices *choices, const char *path);
/* Together with those that the file has by now. A file that cannot be written costs the next start some time, no more.
 */
void ls_cuda_choices_write(ls_cuda_choices *choices, const char *path);
void ls_cuda_choices_clear(ls_cuda_choices *choices);

#endif
