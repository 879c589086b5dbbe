/* add.c: the adding kernels for any CPU; 16-byte vectors are what both baselines (NEON, SSE2) have. */
#define LSK_WIDTH 16
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/add_loops.h"

static void lsk_copy_stream_portable(void *out, const void *in, size_t bytes) { memcpy(out, in, bytes); }

static void lsk_fence_stream_portable(void) {}

void ls_add_kernels_fill_portable(ls_add_kernels *table) {
    fill_portable(table);
    table->copy_stream = lsk_copy_stream_portable;
    table->fence_stream = lsk_fence_stream_portable;
}
