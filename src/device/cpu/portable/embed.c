/* embed.c: embeddings for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/embed_loops.h"

void ls_embed_kernels_fill_portable(ls_embed_kernels *table) { fill_portable(table); }
