/* launch.h: launches kernels on a GPU, and gives operations their scratch memory and lists; for the host code in ops/.
 *
 * All work goes to the device's current queue (ls_device_use), in the order of the calls. Lists and scratch belong to a
 * queue, too. On a dry device launches do nothing. */
#ifndef LS_DEVICE_CUDA_LAUNCH_H
#define LS_DEVICE_CUDA_LAUNCH_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/types.h"
#include "device/ops.h"

/* Every kernel has its line in kernels.def, under the name of its file. */
typedef enum ls_cuda_kernel {
#define LS_CUDA_KERNEL(family, name) LS_CUDA_##name,
#include "device/cuda/kernels.def"
    LS_CUDA_KERNELS
} ls_cuda_kernel;

typedef struct ls_cuda_grid {
    size_t x, y, z; /* blocks; y and z at least 1; x 0: nothing is launched */
} ls_cuda_grid;

/* Launches a kernel with blocks of `threads` threads and `shared` bytes of dynamic shared memory. `args` is the
 * kernel's argument struct, which is copied. LS_ERR_INPUT if the grid exceeds the limits of a GPU. */
ls_status ls_cuda_launch(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, unsigned threads, size_t shared,
                         const void *args);

/* Makes ls_cuda_launch() put each kernel on the queue before it returns, and report its errors: for code that times
 * kernels. False: launches may be batched into graphs again (graphs.h). */
void ls_cuda_launch_one_by_one(ls_device *device, bool one_by_one);

/* Enqueues work that is not one of our kernels, such as a library call: `enqueue` gets the stream. `name` is its name
 * in a trace. */
struct CUstream_st;
ls_status ls_cuda_enqueue(ls_device *device, const char *name,
                          ls_status (*enqueue)(void *ctx, struct CUstream_st *stream), void *ctx);

/* Returns where ops/library.c keeps its state of this device; it creates the state on first use, and the device closes
 * it. NULL: the device has no library. */
typedef struct ls_cuda_library ls_cuda_library;
ls_cuda_library **ls_cuda_library_of(ls_device *device);
void ls_cuda_library_close(ls_cuda_library *library);
/* Returns the GPU's model, and in *driver the version of the driver. */
const char *ls_cuda_model(ls_device *device, int *driver);

/* Names, for a trace, the operation that the next kernels belong to and, for a GEMM, its call. `operation` NULL ends
 * it. Returns false and changes nothing inside another operation, to which the kernels then belong. */
bool ls_cuda_ask(ls_device *device, const char *operation, const ls_gemm *product);

/* Returns scratch memory of the device for one operation. The next operation may get the same memory. `bytes` must
 * follow from shapes and types alone, or be within ls_cuda_scratch_limit(), so that a dry run finds the same size. */
ls_status ls_cuda_scratch(ls_device *device, size_t bytes, void **out);

/* Returns the most scratch that an operation may ask for if it can also run with less. */
size_t ls_cuda_scratch_limit(ls_device *device);

/* Makes a TMA tensor map for attention heads of 16-bit numbers. The dimensions are element, head, row and sequence,
 * with sizes counts[]; strides[] of the last three are in bytes. A tile has 64 elements and `rows` rows, and is +0
 * outside the tensor. Returns false if the GPU has no TMA, or if TMA does not support these strides. */
bool ls_cuda_heads_map(ls_device *device, const void *at, const size_t counts[4], const size_t strides[3], size_t rows,
                       ls_cuda_tensor_map *out);

/* Copies a list (bounds, pointers) to the device; LS_ERR_INPUT above LS_CUDA_LIST_BYTES. The device owns the copy;
 * kernels may read it if they are launched on the same queue before the 12th list after it. A list that is on the
 * device already is not copied again. */
enum { LS_CUDA_LIST_BYTES = 64 << 10 };
ls_status ls_cuda_list(ls_device *device, const void *host, size_t bytes, const void **out);

/* Returns whether operations should use other kernels than usual, if there are any (ls_device_compute_otherwise). */
bool ls_cuda_computes_otherwise(ls_device *device);

/* Returns how many blocks keep every multiprocessor busy in a loop over n pieces of work; at most n. */
size_t ls_cuda_blocks(ls_device *device, size_t n);
/* Checks that the GPU has a matrix unit. LS_ERR_INPUT for a unit that no GPU has, and LS_ERR_INPUT of this machine for
 * one that this GPU lacks. */
ls_status ls_cuda_check_unit(ls_device *device, ls_unit unit);
/* Returns the number of multiprocessors of the GPU. */
size_t ls_cuda_processors(ls_device *device);
/* Returns the most bytes of shared memory that a block may have. */
size_t ls_cuda_shared_max(ls_device *device);

/* Returns whether the GPU has wgmma and TMA, which the kernels of wgmma.cuh need. */
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
/* Makes the TMA tensor map of a matrix, which a kernel takes as an argument. */
ls_status ls_cuda_tensor_map_of(ls_device *device, const ls_cuda_tiled *matrix, ls_cuda_tensor_map *out);
/* Returns LS_CUDA_FLAGS flags on the device, by which blocks of a kernel wait for each other; the device owns them.
 * They are 0 when a kernel begins, and it must leave them 0. NULL unless the current queue is the compute queue. */
enum { LS_CUDA_FLAGS = 4096 };
uint32_t *ls_cuda_flags(ls_device *device);

static inline size_t ls_cuda_divide_up(size_t n, size_t by) { return n / by + (n % by != 0); }

/* Prepares the division by a divisor below 2^31 without a division instruction; 0 counts as 1. */
static inline ls_cuda_divider ls_cuda_divider_of(size_t divisor) {
    ls_cuda_divider d = {divisor ? (uint32_t)divisor : 1, 0, 0};
    while (((uint64_t)1 << d.shift) < d.divisor) d.shift++;
    d.factor = (uint32_t)((((((uint64_t)1 << d.shift) - d.divisor) << 32) / d.divisor) + 1);
    return d;
}

/* The operations of a GPU (ops/ops.c). */
extern const ls_ops ls_cuda_ops;

#endif
