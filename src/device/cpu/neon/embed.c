/* embed.c: embeddings for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/embed_loops.h"

void ls_embed_kernels_fill_neon(ls_embed_kernels *table) { fill_neon(table); }
