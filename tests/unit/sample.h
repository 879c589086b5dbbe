/* sample.h: with TEST_SAMPLE=1, as under sanitizers, tests take a part of their long lists (tests/run). */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdlib.h>

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

#endif
