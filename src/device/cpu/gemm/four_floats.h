/* four_floats.h: four floats at a time, loaded and stored at any address, where matmuls are packed and turned. */
#ifndef LS_DEVICE_CPU_GEMM_FOUR_FLOATS_H
#define LS_DEVICE_CPU_GEMM_FOUR_FLOATS_H

#include <string.h>

typedef float four __attribute__((vector_size(16)));

static inline four load4(const float *from) {
    four v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void store4(float *to, four v) { memcpy(to, &v, sizeof v); }

#endif
