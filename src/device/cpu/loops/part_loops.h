/* part_loops.h: loads and stores of only the first n lanes of a vector, for the ends of rows.
 *
 * A small loop body is called with the constant n = 16 for whole vectors, so that these functions become plain loads
 * and stores, and once more for the rest. A large body is compiled once and asks part_of() for n in every iteration: a
 * second copy for the end would cost more compile time than the test costs in the loop. */
#ifndef LS_DEVICE_CPU_LOOPS_PART_LOOPS_H
#define LS_DEVICE_CPU_LOOPS_PART_LOOPS_H

#include <stddef.h>

enum { LANES = 16 };

/* Returns the lanes of the next vector if `left` > 0 elements remain: 16 or fewer. */
LSK_INLINE size_t part_of(size_t left) { return left < LANES ? left : LANES; }

/* Loads the first n lanes; the others are +0. */
LSK_INLINE v16 load_part(const float *from, size_t n) {
    return n == LANES ? v16_load(from) : v16_load_n(from, n, 0.0f);
}

/* Stores the first n lanes only. */
LSK_INLINE void store_part(float *to, v16 x, size_t n) {
    if (n == LANES)
        v16_store(to, x);
    else
        v16_store_n(to, x, n);
}

/* Returns the first n lanes of x, and +0 in the others, which changes no sum of products. */
LSK_INLINE v16 keep_part(v16 x, size_t n) {
    if (n == LANES) return x;
    float lanes[LANES];
    v16_store(lanes, x);
    return v16_load_n(lanes, n, 0.0f);
}

/* Define a kernel over n elements from a function of one vector, to = function(from), and of two, to = function(a, b).
 */
#define LSK_LOOP1(stem, function)                                                                                      \
    static void LSK_NAME(stem)(float *to, const float *from, size_t n) {                                               \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= n; i += LANES) v16_store(to + i, function(v16_load(from + i)));                            \
        if (i < n) v16_store_n(to + i, function(v16_load_n(from + i, n - i, 0.0f)), n - i);                            \
    }
#define LSK_LOOP2(stem, function)                                                                                      \
    static void LSK_NAME(stem)(float *to, const float *a, const float *b, size_t n) {                                  \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= n; i += LANES) v16_store(to + i, function(v16_load(a + i), v16_load(b + i)));              \
        if (i < n)                                                                                                     \
            v16_store_n(to + i, function(v16_load_n(a + i, n - i, 0.0f), v16_load_n(b + i, n - i, 0.0f)), n - i);      \
    }

#endif
