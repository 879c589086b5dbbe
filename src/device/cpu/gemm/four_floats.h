/* four_floats.h: vectors of four floats, loaded from and stored to unaligned addresses, for packing and transposing
 * matrices. */
#ifndef LS_DEVICE_CPU_GEMM_FOUR_FLOATS_H
#define LS_DEVICE_CPU_GEMM_FOUR_FLOATS_H

#include <stddef.h>
#include <string.h>

typedef float four __attribute__((vector_size(16)));

/* Loads four floats from any address. */
static inline four load4(const void *from) {
    four v;
    memcpy(&v, from, sizeof v);
    return v;
}
/* Stores four floats to any address. */
static inline void store4(float *to, four v) { memcpy(to, &v, sizeof v); }

/* Transposes the 4 × 4 matrix with rows r0 … r3 and stores row i of the result at panel + i·width. */
static inline void transpose4(float *panel, size_t width, four r0, four r1, four r2, four r3) {
    four t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    four t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    store4(panel, __builtin_shufflevector(t0, t2, 0, 1, 4, 5));
    store4(panel + width, __builtin_shufflevector(t0, t2, 2, 3, 6, 7));
    store4(panel + 2 * width, __builtin_shufflevector(t1, t3, 0, 1, 4, 5));
    store4(panel + 3 * width, __builtin_shufflevector(t1, t3, 2, 3, 6, 7));
}

#endif
