/* cpu.h: the inside of the CPU device: its pool, its scratch, and how work is cut.
 *
 * An operation is a function over a range of elements, rows or columns; ls_cpu_run() hands out pieces of `grain` to
 * whichever thread is free. The kernels promise that no cut changes a bit, so grains are about speed alone. */
#ifndef LS_DEVICE_CPU_CPU_H
#define LS_DEVICE_CPU_CPU_H

#include "base/pool.h"
#include "device/cpu/kernels.h"
#include "device/ops.h"

/* Elements of a piece: some microseconds of work, many times what handing it out costs. A multiple of LS_SQUARE_BLOCK.
 */
enum { LS_CPU_GRAIN = 16 * 1024 };

typedef struct ls_cpu_device {
    ls_device base;
    const ls_kernels *kernels, *usual; /* those in use, and those that it was opened with */
    ls_pool *pool;
    bool owns_pool;
    ls_memory_source memory; /* alloc NULL: plain */
    void *scratch;
    size_t scratch_bytes;
    uint64_t recorded;          /* events so far */
    struct ls_journal *journal; /* borrowed; NULL: updates are not written down */
} ls_cpu_device;

/* What every operation calls first: the device, with this thread's floating-point environment as the arithmetic wants
 * it. */
ls_cpu_device *ls_cpu_enter(ls_device *device);

/* At least `bytes`, 64-byte aligned, until the next call. Allocates only when it has never been as large. */
ls_status ls_cpu_scratch(ls_cpu_device *cpu, size_t bytes, void **out);

/* Elements, rows or columns begin … end−1 of what `args` describes. */
typedef void (*ls_cpu_fn)(const ls_kernels *kernels, const void *args, size_t begin, size_t end);

/* Enters, runs fn over 0 … n−1 on all threads, and returns LS_OK. */
ls_status ls_cpu_run(ls_device *device, size_t n, size_t grain, ls_cpu_fn fn, const void *args);

/* Rows of so many columns that a thread takes at a time. */
size_t ls_cpu_row_grain(size_t columns);

/* The operations: ls_cpu_op_gemm() and so on, in the files of ops/. */
#define LS_CPU_OP(name, call_type) ls_status ls_cpu_op_##name(ls_device *device, const call_type *call);
LS_OPS(LS_CPU_OP)
#undef LS_CPU_OP

#endif
