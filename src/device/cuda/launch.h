/* launch.h: launches kernels on a GPU, and gives operations their scratch memory, their lists (arrays too long for a
 * kernel's arguments) and facts about the GPU; for the host code in ops/. device.c implements it.
 *
 * All work goes to the device's current queue (ls_device_use), in the order of the calls. Lists and scratch belong to a
 * queue, too; the device owns them. On a dry device, which has no GPU and serves to measure memory, launches do
 * nothing. One host thread uses a device. */
#ifndef LS_DEVICE_CUDA_LAUNCH_H
#define LS_DEVICE_CUDA_LAUNCH_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/types.h"
#include "device/ops.h"

/* One constant per kernel, LS_CUDA_ and its name. Every kernel has its line in kernels.def, under the name of its
 * file. */
typedef enum ls_cuda_kernel {
#define LS_CUDA_KERNEL(family, name) LS_CUDA_##name,
#include "device/cuda/kernels.def"
    LS_CUDA_KERNELS
} ls_cuda_kernel;

typedef struct ls_cuda_grid {
    size_t x, y, z; /* blocks; y and z at least 1; x 0: nothing is launched */
} ls_cuda_grid;

/* Launches a kernel with blocks of `threads` threads and `shared` bytes of dynamic shared memory. `args` is the
 * kernel's argument struct, which is copied. The kernel may be enqueued only later (graphs.h). An error may be that of
 * an earlier launch. LS_ERR_INPUT if the grid exceeds the limits of a GPU. The first launch of a kernel loads its
 * family (modules.h), which takes minutes if NVRTC must compile it. */
ls_status ls_cuda_launch(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, unsigned threads, size_t shared,
                         const void *args);

/* True: ls_cuda_launch() puts each kernel on the queue before it returns, and reports its errors, for code that
 * times kernels. False: launches may be batched into graphs again (graphs.h). */
void ls_cuda_launch_one_by_one(ls_device *device, bool one_by_one);

struct CUstream_st;
/* Enqueues work that is not one of our kernels, such as a library call: calls `enqueue` once, before it returns,
 * with `ctx` and the current queue's stream, and returns its status. `name`, a string literal, is its name in a
 * trace. */
ls_status ls_cuda_enqueue(ls_device *device, const char *name,
                          ls_status (*enqueue)(void *ctx, struct CUstream_st *stream), void *ctx);

/* The state of autotuning for one device (ops/library.c). */
typedef struct ls_cuda_library ls_cuda_library;
/* Returns the address of the device's pointer to this state, which is NULL until ops/library.c creates the state; the
 * device closes it. Returns NULL for a dry device. */
ls_cuda_library **ls_cuda_library_of(ls_device *device);
/* Frees the state of autotuning. NULL does nothing. */
void ls_cuda_library_close(ls_cuda_library *library);
/* Returns the GPU's model name, such as "NVIDIA H200", and in *driver the version of the driver, 13000 for CUDA
 * 13.0. Not for a dry device. The device owns the text. */
const char *ls_cuda_model(ls_device *device, int *driver);

/* Names, for a trace, the operation that the next kernels belong to and, for a GEMM, its call, which is borrowed
 * until the end. `operation` NULL ends it. Returns false and changes nothing inside another operation, to which
 * the kernels then belong. */
bool ls_cuda_ask(ls_device *device, const char *operation, const ls_gemm *product);

/* Sets *out to scratch memory of the current queue for one operation: on the compute queue what an arena lent
 * (ls_device_lend), if `bytes` fit; else memory of the queue's own that stays and is replaced by larger memory when a
 * request exceeds it, which waits for all queues. The next operation may get the same memory. `bytes` must follow from
 * shapes and types alone, or be within ls_cuda_scratch_limit(), so that a dry run finds the same size. A dry device
 * only notes the size; its *out must not be read. */
ls_status ls_cuda_scratch(ls_device *device, size_t bytes, void **out);

/* Returns the most scratch, in bytes, that an operation may ask for if it can also run with less: what an arena
 * lent, whichever queue is current; SIZE_MAX if nothing is lent. */
size_t ls_cuda_scratch_limit(ls_device *device);

/* Makes a TMA tensor map for attention heads of 16-bit numbers of either type. The dimensions are element, head,
 * row and sequence, with sizes counts[]; strides[] of the last three are in bytes. A tile has 64 elements and
 * `rows` rows, and is +0 outside the tensor. Returns false, and the caller takes kernels without TMA, unless the GPU
 * has compute capability 9.0 (a dry device has none), if `at` or the stride of a dimension of size 2 or more is no
 * multiple of 16 bytes, or if the driver refuses the map. *out is then undefined. */
bool ls_cuda_heads_map(ls_device *device, const void *at, const size_t counts[4], const size_t strides[3], size_t rows,
                       ls_cuda_tensor_map *out);

enum { LS_CUDA_LIST_BYTES = 64 << 10 }; /* of a list, at most */
/* Copies a list (bounds, pointers) to the device and sets *out to the copy; LS_ERR_INPUT above LS_CUDA_LIST_BYTES.
 * The device owns the copy; kernels may read it if they are launched on the same queue before the 12th list after
 * it. A list that the queue still keeps with the same bytes is not copied again. Not on LS_QUEUE_RECEIVE, which has no
 * lists. A dry device copies nothing, and its *out must not be read. */
ls_status ls_cuda_list(ls_device *device, const void *host, size_t bytes, const void **out);

/* Returns whether operations should use other kernels, tiles or grids than usual, if there are any with the same
 * bits: an audit recomputes on other hardware units (ls_device_compute_otherwise). */
bool ls_cuda_computes_otherwise(ls_device *device);

/* Returns how many blocks to launch for a loop over n pieces of work: n, or, if less, 16 per multiprocessor (5 in
 * an audit, so that other multiprocessors compute each piece). 0 for 0. */
size_t ls_cuda_blocks(ls_device *device, size_t n);
/* Checks that the GPU has a matrix unit (the instructions for 16-bit matmuls, each with bits of its own).
 * LS_UNIT_CHAIN, plain fused multiply-adds, always passes; a dry device has every tensor-core unit, a GPU only the one
 * of its architecture (ls_cuda_unit_of). LS_ERR_INPUT for a unit of CPUs, and LS_ERR_INPUT of this machine for the
 * tensor cores of another architecture. */
ls_status ls_cuda_check_unit(ls_device *device, ls_unit unit);
/* Returns the number of multiprocessors (SMs) of the GPU; 132 for a dry device. */
size_t ls_cuda_processors(ls_device *device);
/* Returns the most bytes of shared memory that a block may ask for; 99 KiB for a dry device. */
size_t ls_cuda_shared_max(ls_device *device);

/* Returns whether the kernels of wgmma.cuh can run: the GPU has compute capability 9.0, so wgmma (matmuls by a
 * warpgroup on Hopper tensor cores) and TMA, the driver makes tensor maps, and LS_WGMMA is not "no". True for a dry
 * device. */
bool ls_cuda_has_wgmma(ls_device *device);
/* A matrix of elements of `dtype`, or a batch of them: sizes are columns, rows and matrices; strides of rows and of
 * matrices are in elements and multiples of 16 bytes; `box` is the size of a tile in columns and rows, with rows of 128
 * bytes, which TMA stores with its 128-byte swizzle. Outside the matrix a tile reads +0, and is not written. */
typedef struct ls_cuda_tiled {
    const void *at;
    ls_dtype dtype;
    size_t sizes[3], strides[2];
    uint32_t box[2];
} ls_cuda_tiled;
/* Makes the TMA tensor map of a matrix, which a kernel takes as an argument; all zero on a dry device. To be
 * called only if ls_cuda_has_wgmma(). LS_ERR_FAILED if the driver refuses the sizes or strides. */
ls_status ls_cuda_tensor_map_of(ls_device *device, const ls_cuda_tiled *matrix, ls_cuda_tensor_map *out);
enum { LS_CUDA_FLAGS = 4096 }; /* flags that blocks of a kernel may share */
/* Returns LS_CUDA_FLAGS flags on the device, by which blocks of a kernel wait for each other; the device owns
 * them. They are 0 when a kernel begins, and it must leave them 0. NULL unless the current queue is the compute
 * queue: the caller then takes a kernel without flags. On a dry device never NULL, and not to be read. */
uint32_t *ls_cuda_flags(ls_device *device);

/* Returns n / by, rounded up. */
static inline size_t ls_cuda_divide_up(size_t n, size_t by) { return n / by + (n % by != 0); }

/* Returns what a kernel needs to divide 32-bit numbers by `divisor` without a division instruction
 * (common/divider.h). The divisor must be below 2^31; 0 counts as 1. */
static inline ls_cuda_divider ls_cuda_divider_of(size_t divisor) {
    ls_cuda_divider d = {divisor ? (uint32_t)divisor : 1, 0, 0};
    while (((uint64_t)1 << d.shift) < d.divisor) d.shift++;
    d.factor = (uint32_t)((((((uint64_t)1 << d.shift) - d.divisor) << 32) / d.divisor) + 1);
    return d;
}

/* The operations of a GPU (ops/ops.c). */
extern const ls_ops ls_cuda_ops;

#endif
