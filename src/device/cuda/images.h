/* images.h: the kernels that the build put into the program, by family (modules.h): cubins for some architectures, if
 * the build had nvcc, and the source text with its includes expanded, for NVRTC. tools/cuda-images writes the table. */
#ifndef LS_DEVICE_CUDA_IMAGES_H
#define LS_DEVICE_CUDA_IMAGES_H

#include <stddef.h>

typedef struct ls_cuda_image {
    const char *family;               /* "norm" */
    int sm;                           /* 90; 0: text */
    const unsigned char *bytes, *end; /* a NUL stands at end */
} ls_cuda_image;

extern const ls_cuda_image ls_cuda_images[];
extern const size_t ls_cuda_images_count;

#endif
