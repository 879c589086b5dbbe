/* sample.h: with TEST_SAMPLE=1, as under sanitizers, tests take a part of their long lists (tests/run); with
 * LS_TEST_CUDA=only they leave the kernels of CPUs, which another run has had, to it. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The stride through such a list: `every`, or 1 where all of it is wanted. */
static inline int sample_every(int every) {
    const char *text = getenv("TEST_SAMPLE");
    return text && *text ? every : 1;
}

/* Where to begin in it: elsewhere each time, so that calls for several devices take all of it together. */
static inline int sample_first(int every) {
    static int turn;
    return turn++ % sample_every(every);
}

/* Whether a test of devices takes CPUs. */
static inline bool sample_has_cpu(void) {
    const char *text = getenv("LS_TEST_CUDA");
    return !text || strcmp(text, "only") != 0;
}

#endif
