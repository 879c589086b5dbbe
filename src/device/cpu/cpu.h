/* cpu.h: the inside of the CPU device, for its operations (ops/): its thread pool, its scratch, and how work is
 * divided.
 *
 * An operation is a function over a range of elements, rows or columns; ls_cpu_run() gives pieces of `grain` of them to
 * the next free thread. The kernels promise that no division changes a bit, so grains affect speed only. */
#ifndef LS_DEVICE_CPU_CPU_H
#define LS_DEVICE_CPU_CPU_H

#include "base/pool.h"
#include "device/cpu/kernels.h"
#include "device/ops.h"

/* Elements of a piece: microseconds of work, many times the cost of scheduling it. A multiple of LS_SQUARE_BLOCK. */
enum { LS_CPU_GRAIN = 16 * 1024 };

typedef struct ls_cpu_device {
    ls_device base;                    /* first, so that a ls_device of the CPU can be cast to this struct */
    const ls_kernels *kernels, *usual; /* those in use, and those that the device was opened with */
    ls_pool *pool;
    bool owns_pool;             /* false: the pool is borrowed */
    ls_memory_source memory;    /* where tensors are allocated; its alloc NULL: private memory of the process */
    void *scratch;              /* owned; NULL before the first ls_cpu_scratch() */
    size_t scratch_bytes;       /* size of `scratch`: the largest request so far; 0 after a request that failed */
    uint64_t recorded;          /* number of events so far */
    struct ls_journal *journal; /* borrowed, for recovery of updates; NULL: none */
} ls_cpu_device;

/* Returns the device as that of a CPU, and sets the floating-point environment of this thread (round to nearest,
 * subnormals kept) if it is not set. Every operation calls it first, directly or through ls_cpu_run(). */
ls_cpu_device *ls_cpu_enter(ls_device *device);

/* Sets *out to at least `bytes` of scratch, 64-byte aligned, which the device owns; valid until the next call, which
 * returns the same memory or, if the scratch must grow, frees it. LS_ERR_RESOURCE if it must grow and memory is short:
 * *out is then NULL, and the old scratch is freed too. */
ls_status ls_cpu_scratch(ls_cpu_device *cpu, size_t bytes, void **out);

/* Callback: computes elements, rows or columns begin … end−1 of what `args` describes. */
typedef void (*ls_cpu_fn)(const ls_kernels *kernels, const void *args, size_t begin, size_t end);

/* Enters, runs fn over 0 … n−1 on all threads of the pool in pieces of `grain`, waits for them, and returns LS_OK,
 * always. */
ls_status ls_cpu_run(ls_device *device, size_t n, size_t grain, ls_cpu_fn fn, const void *args);

/* Returns how many rows of this width make a piece of about LS_CPU_GRAIN elements; at least 1. */
size_t ls_cpu_row_grain(size_t columns);

/* The operations: ls_cpu_op_gemm() and so on, in the files of ops/. */
#define LS_CPU_OP(name, call_type) ls_status ls_cpu_op_##name(ls_device *device, const call_type *call);
LS_OPS(LS_CPU_OP)
#undef LS_CPU_OP

#endif
