/* add.h: sums and copies of whole vectors: what the collectives are made of. Unless a contract says otherwise an output
 * may be exactly one of the inputs, but must not overlap it partly; no alignment beyond the element's is needed. */
#ifndef LS_DEVICE_CPU_ADD_H
#define LS_DEVICE_CPU_ADD_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_add_kernels {
    /* out[i] = a[i] + b[i] */
    void (*add_f32)(float *out, const float *a, const float *b, size_t n);
    /* Modulo 2^64. */
    void (*add_i64)(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t n);
    /* out0[i] = out1[i] = a[i] + b[i]; out0 and out1 may be a and b in either order. */
    void (*add_two_f32)(float *out0, float *out1, const float *a, const float *b, size_t n);
    /* out[i] = in[i], exact; out and in do not overlap. */
    void (*widen_bf16)(float *out, const uint16_t *in, size_t n);
    /* Copies to memory that will not be read soon, past the caches where the machine can. No overlap. Such stores are
     * not ordered: call fence_stream before telling anybody that they are there. */
    void (*copy_stream)(void *out, const void *in, size_t bytes);
    void (*fence_stream)(void);
} ls_add_kernels;

void ls_add_kernels_fill_portable(ls_add_kernels *table);
void ls_add_kernels_fill_avx2(ls_add_kernels *table);
void ls_add_kernels_fill_avx512(ls_add_kernels *table);

#endif
