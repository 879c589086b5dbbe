/* add_loops.h: the loops of ls_add_kernels (sums and copies for collectives), written once over a vector of LSK_WIDTH
 * bytes.
 *
 * Included by kernels_loops.h, with LSK_WIDTH set and, where stores can bypass the cache, LSK_STREAM(to, from), which
 * stores one such vector. All loads of an iteration come before its stores, so an output may be the same array as
 * an input, but must not overlap it otherwise. The width cannot change a bit, because additions are elementwise. */
#include <string.h>

#include "numerics/float16.h"

typedef float vec_f32 __attribute__((vector_size(LSK_WIDTH)));
typedef uint64_t vec_u64 __attribute__((vector_size(LSK_WIDTH)));

enum { F32_LANES = LSK_WIDTH / 4, U64_LANES = LSK_WIDTH / 8 };

/* Loads an unaligned vector: memcpy of its size is one instruction. */
static inline vec_f32 load_f32(const float *from) {
    vec_f32 v;
    memcpy(&v, from, sizeof v);
    return v;
}
/* Stores four consecutive vectors, to any address. */
static inline void store_four(float *to, vec_f32 s0, vec_f32 s1, vec_f32 s2, vec_f32 s3) {
    memcpy(to, &s0, sizeof s0);
    memcpy(to + F32_LANES, &s1, sizeof s1);
    memcpy(to + 2 * F32_LANES, &s2, sizeof s2);
    memcpy(to + 3 * F32_LANES, &s3, sizeof s3);
}

/* Computes out0 = a + b, and the same to out1 unless that is NULL. */
LSK_INLINE void add_vectors(float *out0, float *out1, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + 4 * F32_LANES <= n; i += 4 * F32_LANES) {
        vec_f32 s0 = load_f32(a + i) + load_f32(b + i);
        vec_f32 s1 = load_f32(a + i + F32_LANES) + load_f32(b + i + F32_LANES);
        vec_f32 s2 = load_f32(a + i + 2 * F32_LANES) + load_f32(b + i + 2 * F32_LANES);
        vec_f32 s3 = load_f32(a + i + 3 * F32_LANES) + load_f32(b + i + 3 * F32_LANES);
        store_four(out0 + i, s0, s1, s2, s3);
        if (out1) store_four(out1 + i, s0, s1, s2, s3);
    }
    for (; i < n; i++) {
        float sum = a[i] + b[i];
        out0[i] = sum;
        if (out1) out1[i] = sum;
    }
}

/* Computes out = a + b. */
static void LSK_NAME(lsk_add_f32)(float *out, const float *a, const float *b, size_t n) {
    add_vectors(out, NULL, a, b, n);
}

/* Computes out0 = out1 = a + b. */
static void LSK_NAME(lsk_add_two_f32)(float *out0, float *out1, const float *a, const float *b, size_t n) {
    add_vectors(out0, out1, a, b, n);
}

/* Computes out = a + b modulo 2^64. */
static void LSK_NAME(lsk_add_i64)(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t n) {
    size_t i = 0;
    for (; i + U64_LANES <= n; i += U64_LANES) {
        vec_u64 x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        x += y;
        memcpy(out + i, &x, sizeof x);
    }
    for (; i < n; i++) out[i] = a[i] + b[i];
}

/* Widens n bf16 numbers; exact, every NaN becomes the one NaN. */
static void LSK_NAME(lsk_add_widen_bf16)(float *restrict out, const uint16_t *restrict in, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = ls_bf16_to_f32(in[i]);
}

/* Copies by stores that bypass the cache, if the ISA has them: an ordinary store first reads the line of the output
 * into the cache. The caller orders them by lsk_fence_stream() before another thread reads. */
static void LSK_NAME(lsk_copy_stream)(void *out, const void *in, size_t bytes) {
#ifdef LSK_STREAM
    char *to = out;
    const char *from = in;
    size_t head = (size_t)(-(uintptr_t)to % LSK_WIDTH);
    if (head > bytes) head = bytes;
    memcpy(to, from, head);
    size_t i = head;
    for (; i + LSK_WIDTH <= bytes; i += LSK_WIDTH) LSK_STREAM((void *)(to + i), (const void *)(from + i));
    memcpy(to + i, from + i, bytes - i);
#else
    memcpy(out, in, bytes);
#endif
}

/* Orders the stores of lsk_copy_stream() before all later ones; nothing to do without such stores. */
static void LSK_NAME(lsk_fence_stream)(void) {
#ifdef LSK_STREAM
    _mm_sfence();
#endif
}

static const ls_add_kernels add_kernels = {
    .add_f32 = LSK_NAME(lsk_add_f32),
    .add_two_f32 = LSK_NAME(lsk_add_two_f32),
    .add_i64 = LSK_NAME(lsk_add_i64),
    .widen_bf16 = LSK_NAME(lsk_add_widen_bf16),
    .copy_stream = LSK_NAME(lsk_copy_stream),
    .fence_stream = LSK_NAME(lsk_fence_stream),
};
