/* gpu_kernels.h: what the measurements of gpu_kernels.c and gpu_memory.c share. */
#ifndef LS_BENCH_GPU_KERNELS_H
#define LS_BENCH_GPU_KERNELS_H

#include <stdbool.h>

#include "device/ops.h"

enum { ROWS = 16 * 1024, C = 768, V = 50257, V_PADDED = 50304 };

typedef struct bench {
    ls_device *device;
    bool is_json, is_once;
    float *a, *b, *c, *d; /* ROWS · V_PADDED floats each: random numbers in a and b */
    uint16_t *h;          /* as many of a, as bf16 */
    double copy_s;        /* bytes a second of a copy; 0: not measured yet */
} bench;

typedef ls_status (*body)(bench *b, const void *call);

/* Runs it some rounds and prints a row: `work` is operations or bytes of one call. */
ls_status report(bench *b, const char *name, double work, bool is_flops, body run, const void *call);

/* Kernels that only move memory; `only`: those whose names begin so, NULL: all. */
ls_status measure_memory(bench *b, const char *only);

#endif
