/* kernels_stream.h: the cases of `lockstep bench kernels` that are bound by memory: kernels that pass over it once.
 *
 * A case works on streams (arrays) of rows × columns numbers. Its function handles a range of rows, columns or
 * elements, so that threads share the work as the kernel allows. The plain loop beside it goes through the same memory:
 * as many bytes, in as many streams, of which as many are written in place. */
#ifndef LS_LAB_BENCH_KERNELS_STREAM_H
#define LS_LAB_BENCH_KERNELS_STREAM_H

#include "lab/bench/kernels.h"

enum {
    LS_KBENCH_STREAMS = 5,
    LS_KBENCH_SIDE_ELEMS = 1 << 18,
    LS_KBENCH_POSITIONS = 1024,
    LS_KBENCH_VOCABULARY_SLICES = 8
};

typedef enum ls_kbench_split { LS_KBENCH_BY_ROWS, LS_KBENCH_BY_COLUMNS, LS_KBENCH_BY_ELEMS } ls_kbench_split;

typedef struct ls_kbench_data {
    const ls_kernels *kernels;
    size_t rows, columns;                           /* of the case that is measured, as all up to `bounds` */
    float *stream[LS_KBENCH_STREAMS];               /* those that the loop of this case has */
    uint16_t *half;                                 /* 16-bit numbers for conversions */
    float *per_row[2];                              /* mean and rstd; LS_KBENCH_SIDE_ELEMS each, as all below */
    float *per_column[4];                           /* weights, bias and their gradients */
    float *tables[2];                               /* cos and sin of LS_KBENCH_POSITIONS */
    int32_t *ids;                                   /* of tokens */
    size_t vocabulary;                              /* rows of the table of tokens, which is stream 0 */
    double *sums;                                   /* one for each block of squares */
    size_t bounds[LS_KBENCH_VOCABULARY_SLICES + 1]; /* of a row of logits */
} ls_kbench_data;

/* Stream 0 is a table whose rows come in the order of the ids, in the loop too. */
enum { LS_KBENCH_BY_IDS = 1 << LS_KBENCH_STREAMS };

typedef struct ls_kbench_case {
    ls_kbench_family family;
    const char *name;
    size_t rows, columns;
    ls_kbench_split split;
    int reads, writes, in_place; /* streams of a plain loop like it; the first writes go back to the first reads */
    double bytes;                /* for each element; 0: those of the streams */
    void (*run)(const ls_kbench_data *d, size_t begin, size_t end);
    unsigned traits; /* bit s: stream s has no negative numbers; LS_KBENCH_BY_IDS */
} ls_kbench_case;

extern const ls_kbench_case ls_kbench_cases[];
extern const int ls_kbench_case_count;

/* Streams of floats; an output may be an input. */
typedef struct ls_kbench_loop {
    int reads, writes;
    const float *in[4];
    float *out[3];
} ls_kbench_loop;
/* Adds up the inputs, element by element, and writes the sum to all outputs; without outputs only reads. Works on whole
 * blocks of elements begin … end − 1, of 64 to 256 bytes depending on the CPU's vectors; a rest is left out. */
void ls_kbench_loop_run(const ls_kbench_loop *loop, size_t begin, size_t end);

#endif
