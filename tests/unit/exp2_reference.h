/* exp2_reference.h: 2^x of the special function unit, written from docs/reference/elementary.md ("exp2 of a GPU"), in
 * double. */
#ifndef LS_TESTS_EXP2_REFERENCE_H
#define LS_TESTS_EXP2_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Value, slope and curvature of each 64th of [0, 1), in steps of 2^−25, 2^−32 (slope · 2^−16 of a step, and so on). */
static inline double reference_exp2_table(int part, int which) {
    static const char text[] =
#include "exp2_table.inc"
        ;
    static double table[64 * 3];
    if (table[0] == 0) {
        const char *at = text;
        for (int i = 0; i < 64 * 3; i++, at = strchr(at, ' ') + 1) {
            table[i] = atof(at);
            if (!strchr(at, ' ')) break;
        }
    }
    return table[3 * part + which];
}

/* Multiplication by hand: partial products, of which those below 2^19 are never made. */
static double reference_square(unsigned x) {
    double sum = 0;
    for (int i = 0; i < 17; i++)
        for (int j = 0; j < 17; j++) {
            int column = i == j ? 2 * i : (i < j ? i + j : i + j) + 1; /* pairs i, j and j, i are one, twice as heavy */
            if (i <= j && x >> i & 1 && x >> j & 1 && column >= (i == j ? 20 : 19)) sum += ldexp(1, column);
        }
    return floor(ldexp(sum, -19));
}

static float reference_exp2(float x) {
    if (isnan(x)) return x;
    if (fabsf(x) < 0x1p-126f) return 1;
    if (fabsf(x) >= 256) return x < 0 ? 0.0f : INFINITY;
    double fixed = trunc(ldexp((double)x, 23)), whole = floor(ldexp(fixed, -23)), part = fixed - ldexp(whole, 23);
    if (x < 0 && part > 0) part -= 1; /* the unit complements bits, it does not subtract */
    double y = 1;
    if (fixed != ldexp(whole, 23)) {
        int s = (int)(part / 131072);
        unsigned rest = (unsigned)(part - s * 131072.0);
        double sum = reference_exp2_table(s, 0) * 8192 + 6114 + reference_exp2_table(s, 1) * rest +
                     reference_exp2_table(s, 2) * reference_square(rest);
        y = ldexp(floor(ldexp(sum, -15)), -23);
    }
    if (whole < -126) return 0;
    return whole > 127 ? INFINITY : (float)ldexp(y, (int)whole);
}

#endif
