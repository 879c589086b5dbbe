/* driver.h: NVIDIA's driver (libcuda), loaded when a GPU is asked for, so that one program runs with and without
 * one. All driver calls of this folder go through the table ls_cuda_driver.
 *
 * The driver does not survive a fork, so it is started once, in the process that uses it; ls_cuda_driver_load() fails
 * in a child of that process. Names are those of the driver API; the types are our own declarations of it, so that the
 * build needs no CUDA headers. One thread at a time calls the functions of this file. */
#ifndef LS_DEVICE_CUDA_DRIVER_H
#define LS_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUipcMemHandle {
    unsigned char reserved[64];
} CUipcMemHandle;
typedef struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    void *kern; /* instead of func, if that is NULL; unused here */
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_UNKNOWN = 999,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
    CU_STREAM_WAIT_VALUE_GEQ = 0,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_128B = 3,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0, /* elements outside the tensor read as +0 */
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

/* The calls without which a driver is refused: name, parameters. */
#define LS_CUDA_CALLS(X)                                                                                               \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuGetErrorName, (CUresult error, const char **name))                                                             \
    X(cuGetErrorString, (CUresult error, const char **text))                                                           \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                                                   \
    X(cuDeviceGetName, (char *name, int bytes, CUdevice device))                                                       \
    X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                              \
    X(cuDeviceGetUuid, (unsigned char *uuid, CUdevice device))                                                         \
    X(cuDeviceTotalMem, (size_t * bytes, CUdevice device))                                                             \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                \
    X(cuDevicePrimaryCtxRelease, (CUdevice device))                                                                    \
    X(cuCtxSetCurrent, (CUcontext context))                                                                            \
    X(cuMemGetInfo, (size_t * free, size_t * total))                                                                   \
    X(cuMemAlloc, (CUdeviceptr * out, size_t bytes))                                                                   \
    X(cuMemFree, (CUdeviceptr memory))                                                                                 \
    X(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                                                      \
    X(cuMemFreeHost, (void *memory))                                                                                   \
    X(cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                            \
    X(cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                  \
    X(cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                            \
    X(cuMemsetD8Async, (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream))                            \
    X(cuStreamCreate, (CUstream * out, unsigned flags))                                                                \
    X(cuStreamDestroy, (CUstream stream))                                                                              \
    X(cuStreamQuery, (CUstream stream))                                                                                \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                             \
    X(cuStreamWriteValue64, (CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags))                         \
    X(cuStreamWaitValue64, (CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags))                          \
    X(cuEventCreate, (CUevent * out, unsigned flags))                                                                  \
    X(cuEventDestroy, (CUevent event))                                                                                 \
    X(cuEventRecord, (CUevent event, CUstream stream))                                                                 \
    X(cuEventQuery, (CUevent event))                                                                                   \
    X(cuEventElapsedTime, (float *ms, CUevent from, CUevent to))                                                       \
    X(cuModuleLoadData, (CUmodule * out, const void *image))                                                           \
    X(cuModuleUnload, (CUmodule module))                                                                               \
    X(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char *name))                                      \
    X(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                             \
    X(cuLaunchKernel,                                                                                                  \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra))                           \
    X(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr memory))                                                   \
    X(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags))                                  \
    X(cuIpcCloseMemHandle, (CUdeviceptr memory))

/* Calls that may be NULL in the table, because the driver lacks them. */
#define LS_CUDA_OPTIONAL_CALLS(X)                                                                                      \
    X(cuTensorMapEncodeTiled,                                                                                          \
      (void *map, int type, uint32_t rank, void *at, const uint64_t *sizes, const uint64_t *strides,                   \
       const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))

/* Calls of CUDA 12.4, for graphs.h; NULL if the driver lacks them. */
#define LS_CUDA_GRAPH_CALLS(X)                                                                                         \
    X(cuFuncGetParamInfo, (CUfunction function, size_t index, size_t * offset, size_t * bytes))                        \
    X(cuGraphCreate, (CUgraph * out, unsigned flags))                                                                  \
    X(cuGraphDestroy, (CUgraph graph))                                                                                 \
    X(cuGraphAddKernelNode, (CUgraphNode * out, CUgraph graph, const CUgraphNode *before, size_t count,                \
                             const CUDA_KERNEL_NODE_PARAMS *node))                                                     \
    X(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags))                       \
    X(cuGraphExecDestroy, (CUgraphExec exec))                                                                          \
    X(cuGraphExecKernelNodeSetParams, (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters)) \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))

/* The driver's functions. They return CUDA_SUCCESS or an error, which ls_cuda_result() makes a status. */
typedef struct ls_cuda_driver {
#define LS_CUDA_MEMBER(name, parameters) CUresult(*name) parameters;
    LS_CUDA_CALLS(LS_CUDA_MEMBER)
    LS_CUDA_OPTIONAL_CALLS(LS_CUDA_MEMBER)
    LS_CUDA_GRAPH_CALLS(LS_CUDA_MEMBER)
#undef LS_CUDA_MEMBER
    int version; /* the newest CUDA that the driver supports: 13000 is 13.0 */
} ls_cuda_driver;

/* Loads and starts the driver on the first call; later calls in the same process return the same result, also the
 * same failure. *out is static; NULL on failure. LS_ERR_INPUT of this machine (ls_fail_here: other machines of the
 * run may do without): no driver, one older than CUDA 12.0, no GPU. LS_ERR_FAILED in a process that was forked
 * after the first call, even a failed one, or if the driver fails. */
ls_status ls_cuda_driver_load(const ls_cuda_driver **out);

/* Returns whether the start of the driver failed because it sees no GPU; false before a start. */
bool ls_cuda_driver_sees_none(void);

/* Converts the result of a driver call: LS_OK, LS_ERR_RESOURCE if the GPU is out of memory, else LS_ERR_FAILED,
 * with a message that names `call` and the driver's text and, if memory is short or the hardware may be at fault, what
 * to do. `gpu` −1: the message names the driver instead. A result that means "not ready yet" is an error, too. */
ls_status ls_cuda_result(const ls_cuda_driver *driver, CUresult result, const char *call, int gpu);

/* Returns the limit of a wait for a GPU, in seconds: the environment variable LS_CUDA_WAIT_S (for tests) if it is
 * a positive number, else `otherwise`. */
double ls_cuda_patience_s(double otherwise);

/* Sets *out to the compute capability of GPU `gpu`, whose driver handle is `handle`: 90 for 9.0. LS_ERR_INPUT of
 * this machine, with *out set, below the 8.0 that is needed. */
ls_status ls_cuda_capability(const ls_cuda_driver *driver, int gpu, CUdevice handle, int *out);

#endif
