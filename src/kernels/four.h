/* four.h: four floats at a time, loaded and stored at any address, where products are packed and turned. */
#ifndef LS_KERNELS_FOUR_H
#define LS_KERNELS_FOUR_H

#include <string.h>

typedef float four __attribute__((vector_size(16)));

static inline four load4(const float *from) {
    four v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void store4(float *to, four v) { memcpy(to, &v, sizeof v); }

#endif
