/* add.c: the adding kernels with AVX512. */
#define LSK_WIDTH 64
#define LSK_NAME(stem) stem##_avx512
#include "device/cpu/loops/add_loops.h"

#include <immintrin.h>

/* Stores that bypass the cache save reading each line of the output before it is overwritten. */
static void lsk_copy_stream_avx512(void *out, const void *in, size_t bytes) {
    char *to = out;
    const char *from = in;
    size_t head = (size_t)(-(uintptr_t)to % LSK_WIDTH);
    if (head > bytes) head = bytes;
    memcpy(to, from, head);
    size_t i = head;
    for (; i + LSK_WIDTH <= bytes; i += LSK_WIDTH)
        _mm512_stream_si512((__m512i *)(void *)(to + i), _mm512_loadu_si512((const __m512i *)(const void *)(from + i)));
    memcpy(to + i, from + i, bytes - i);
}

static void lsk_fence_stream_avx512(void) { _mm_sfence(); }

void ls_add_kernels_fill_avx512(ls_add_kernels *table) {
    fill_avx512(table);
    table->copy_stream = lsk_copy_stream_avx512;
    table->fence_stream = lsk_fence_stream_avx512;
}
