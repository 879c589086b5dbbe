/* types.h: what host code and kernels both know: integer types, element types and TMA maps. C and CUDA; also for
 * NVRTC, which has no system headers. */
#ifndef LS_DEVICE_CUDA_COMMON_TYPES_H
#define LS_DEVICE_CUDA_COMMON_TYPES_H

#ifdef __CUDACC_RTC__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#    include <stddef.h>
#    include <stdint.h>
#endif

/* A TMA tensor map (CUtensorMap): how a matrix in memory is cut into tiles for the tensor memory accelerator of a
 * GPU. Opaque; the driver makes it (ls_cuda_tensor_map_of, ls_cuda_heads_map), a kernel takes it as an argument. */
typedef struct ls_cuda_tensor_map {
    uint64_t words[16];
} __attribute__((aligned(64))) ls_cuda_tensor_map;

/* Element types, with the values of ls_dtype. */
enum { LS_CUDA_F32 = 0, LS_CUDA_BF16 = 1, LS_CUDA_F16 = 2 };

#endif
