/* launch.h: what the host side of the operations (ops/) uses to start kernels on a GPU.
 *
 * Everything goes to the device's compute queue, in the order of the calls. */
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
    size_t x, y, z; /* blocks; y and z at least 1; x 0: nothing is started */
} ls_cuda_grid;

/* Starts a kernel with blocks of `threads` threads and `shared` bytes of shared memory. `args` is the struct that it
 * takes; it is copied. LS_ERR_INPUT for more blocks than a GPU numbers. */
ls_status ls_cuda_launch(ls_device *device, ls_cuda_kernel kernel, ls_cuda_grid grid, unsigned threads, size_t shared,
                         const void *args);

/* From now on kernels are on the queue when the call for them returns, and it says if they are refused: for who times
 * them. False: they may wait for others and go together again (graphs.h). */
void ls_cuda_launch_one_by_one(ls_device *device, bool one_by_one);

/* What is no kernel of ours goes to the queue the same way: `enqueue` gets its stream. In a trace it has this name. */
struct CUstream_st;
ls_status ls_cuda_enqueue(ls_device *device, const char *name,
                          ls_status (*enqueue)(void *ctx, struct CUstream_st *stream), void *ctx);

/* What products by a library (ops/library.c) keep with a device: made when first asked for, closed with it. NULL: on
 * this device there are none. */
typedef struct ls_cuda_library ls_cuda_library;
ls_cuda_library **ls_cuda_library_of(ls_device *device);
void ls_cuda_library_close(ls_cuda_library *library);
/* The GPU's model, and the driver's version. */
const char *ls_cuda_model(ls_device *device, int *driver);

/* Says which operation the kernels that come are for, in a trace: its name and, of a product, its call. What runs
 * inside another one is that one's: false then, and nothing changes. NULL: it is over. */
bool ls_cuda_ask(ls_device *device, const char *operation, const ls_gemm *product);

/* Memory of the device for intermediate results of one operation; the next operation may use the same. Its size follows
 * from shapes and types alone, or is within ls_cuda_scratch_limit(). */
ls_status ls_cuda_scratch(ls_device *device, size_t bytes, void **out);

/* What an operation may ask for at most where it can do with less. */
size_t ls_cuda_scratch_limit(ls_device *device);

/* How the copy engine finds tiles of heads, 16-bit numbers: coordinates are element, head, row and sequence, counts[]
 * of each; strides[] of the last three are in bytes; a tile has 64 elements and `rows` rows, +0 where there are none.
 * False where the GPU has no such engine, or it does not take these strides. */
bool ls_cuda_heads_map(ls_device *device, const void *at, const size_t counts[4], const size_t strides[3], size_t rows,
                       ls_cuda_tensor_map *out);

/* A copy on the device of a list that the host has (bounds, pointers); kernels started before the 12th list after it
 * may read it. At most LS_CUDA_LIST_BYTES. A list that is still there from an earlier call is not copied again. */
enum { LS_CUDA_LIST_BYTES = 64 << 10 };
ls_status ls_cuda_list(ls_device *device, const void *host, size_t bytes, const void **out);

/* Whether operations should run by other kernels than usual, where there are others (ls_device_compute_otherwise). */
bool ls_cuda_computes_otherwise(ls_device *device);

/* Blocks that keep every multiprocessor busy with a loop over n pieces of work: at most n. */
size_t ls_cuda_blocks(ls_device *device, size_t n);
/* LS_ERR_INPUT for a matrix unit that no GPU has, and, of this machine, for one that this GPU lacks. */
ls_status ls_cuda_check_unit(ls_device *device, ls_unit unit);
/* Multiprocessors of the GPU. */
size_t ls_cuda_processors(ls_device *device);
/* Bytes of shared memory that a block may have at most. */
size_t ls_cuda_shared_max(ls_device *device);

/* Whether the GPU has what the kernels of wgmma.cuh need. */
bool ls_cuda_has_wgmma(ls_device *device);
/* A matrix of elements of `dtype`, or several: sizes along its rows, from row to row and from matrix to matrix; strides
 * of rows and matrices, in elements, multiples of 16 bytes; tiles of `box` elements, rows of 128 bytes, exchanged as in
 * wgmma.cuh. What a tile has outside of the matrix is +0, and is not written. */
typedef struct ls_cuda_tiled {
    const void *at;
    ls_dtype dtype;
    size_t sizes[3], strides[2];
    uint32_t box[2];
} ls_cuda_tiled;
ls_status ls_cuda_tensor_map_of(ls_device *device, const ls_cuda_tiled *matrix, ls_cuda_tensor_map *out);
/* LS_CUDA_FLAGS numbers of the device for kernels whose blocks wait for each other: 0 when a kernel begins, who leaves
 * them so. Of the compute queue; NULL for others. */
enum { LS_CUDA_FLAGS = 4096 };
uint32_t *ls_cuda_flags(ls_device *device);

static inline size_t ls_cuda_divide_up(size_t n, size_t by) { return n / by + (n % by != 0); }

/* Of a divisor below 2^31; that of 0 is that of 1. */
static inline ls_cuda_divider ls_cuda_divider_of(size_t divisor) {
    ls_cuda_divider d = {divisor ? (uint32_t)divisor : 1, 0, 0};
    while (((uint64_t)1 << d.shift) < d.divisor) d.shift++;
    d.factor = (uint32_t)((((((uint64_t)1 << d.shift) - d.divisor) << 32) / d.divisor) + 1);
    return d;
}

/* ops/ */
extern const ls_ops ls_cuda_ops;

#endif
