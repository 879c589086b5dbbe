/* images.h: the table of kernels that the build put into the program, one entry per family (the kernels of one
 * source file, modules.h) and architecture: a cubin for some architectures, if the build had nvcc, and always the
 * source text with its includes expanded, which NVRTC compiles for others. tools/cuda-images writes the table;
 * modules.c and compile.c read it. */
#ifndef LS_DEVICE_CUDA_IMAGES_H
#define LS_DEVICE_CUDA_IMAGES_H

#include <stddef.h>

/* One entry; all memory is static. */
typedef struct ls_cuda_image {
    const char *family;               /* name of the source file, "norm" */
    int sm;                           /* architecture of a cubin, 90 for sm_90; 0: source text */
    const unsigned char *bytes, *end; /* a NUL stands at end */
} ls_cuda_image;

/* All entries, in no order that matters; ls_cuda_image_find() searches them. */
extern const ls_cuda_image ls_cuda_images[];
extern const size_t ls_cuda_images_count;

#endif
