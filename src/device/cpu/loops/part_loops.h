/* part_loops.h: vectors of which only the first n lanes are there, for the ends of rows.
 *
 * A light loop body takes n and is called with the constant 16 for whole vectors, where these become the plain loads
 * and stores, and once with what is left. A heavy one is there once, and tests n as it goes (part_of): a copy of it for
 * the end would cost more time in the compiler than the test does in the loop. */
#ifndef LS_DEVICE_CPU_LOOPS_PART_LOOPS_H
#define LS_DEVICE_CPU_LOOPS_PART_LOOPS_H

#include <stddef.h>

enum { LANES = 16 };

/* Lanes of the next vector, with `left` > 0 elements to go. */
LSK_INLINE size_t part_of(size_t left) { return left < LANES ? left : LANES; }

LSK_INLINE v16 load_part(const float *from, size_t n) {
    return n == LANES ? v16_load(from) : v16_load_n(from, n, 0.0f);
}

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

/* The loop of a function of one vector, and of two: to = function(from), to = function(a, b). */
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
