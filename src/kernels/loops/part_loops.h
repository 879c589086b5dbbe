/* part_loops.h: vectors of which only the first n lanes are there, for the ends of rows.
 *
 * A loop body takes n and is called with the constant 16 for whole vectors, where these become the plain loads and
 * stores, and once with what is left. */
#include <stddef.h>

enum { LANES = 16 };

LSK_INLINE v16 load_part(const float *from, size_t n) {
    return n == LANES ? v16_load(from) : v16_load_n(from, n, 0.0f);
}

LSK_INLINE void store_part(float *to, v16 x, size_t n) {
    if (n == LANES)
        v16_store(to, x);
    else
        v16_store_n(to, x, n);
}

/* The lanes that are not there become +0, which changes no sum of products, whatever was computed in them. */
LSK_INLINE v16 keep_part(v16 x, size_t n) {
    if (n == LANES) return x;
    float lanes[LANES];
    v16_store(lanes, x);
    return v16_load_n(lanes, n, 0.0f);
}
