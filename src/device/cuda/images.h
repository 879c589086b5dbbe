/* images.h: what the build put into the program for the GPU, a family of kernels each: cubins for some architectures,
 * where there was a compiler, and the text of the sources, includes expanded, for NVRTC. The table is written by
 * tools/cuda-images. */
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
