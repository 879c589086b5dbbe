/* first_n_loops.h: the _n forms, which load or store only the first n of 16 lanes, for an ISA without masked loads and
 * stores: through a copy on the stack.
 *
 * Included by neon.h and avx2.h, behind their loads and stores. */

/* Loads n elements; the other lanes are `fill`. */
LSK_INLINE v16 v16_load_n(const float *from, size_t n, float fill) {
    float part[16];
    v16_store(part, v16_set1(fill));
    for (size_t i = 0; i < n; i++) part[i] = from[i];
    return v16_load(part);
}
/* Stores the first n lanes only. */
LSK_INLINE void v16_store_n(float *to, v16 x, size_t n) {
    float part[16];
    v16_store(part, x);
    for (size_t i = 0; i < n; i++) to[i] = part[i];
}

typedef struct lsk_halves {
    uint16_t at[16];
} lsk_halves;

/* Copies n 16-bit numbers; the others are 0. */
LSK_INLINE lsk_halves lsk_first_halves(const uint16_t *from, size_t n) {
    lsk_halves part = {{0}};
    for (size_t i = 0; i < n; i++) part.at[i] = from[i];
    return part;
}
/* Loads n bf16 numbers as fp32; the other lanes are +0. */
LSK_INLINE v16 v16_load_bf16_n(const uint16_t *from, size_t n) { return v16_load_bf16(lsk_first_halves(from, n).at); }
/* Loads n fp16 numbers as fp32; the other lanes are +0. */
LSK_INLINE v16 v16_load_f16_n(const uint16_t *from, size_t n) { return v16_load_f16(lsk_first_halves(from, n).at); }
/* Stores the first n lanes, rounded to bf16. */
LSK_INLINE void v16_store_bf16_n(uint16_t *to, v16 x, size_t n) {
    uint16_t part[16];
    v16_store_bf16(part, x);
    for (size_t i = 0; i < n; i++) to[i] = part[i];
}
/* Stores the first n lanes, rounded to fp16. */
LSK_INLINE void v16_store_f16_n(uint16_t *to, v16 x, size_t n) {
    uint16_t part[16];
    v16_store_f16(part, x);
    for (size_t i = 0; i < n; i++) to[i] = part[i];
}
