/* exp2.h: 2^x of the special function unit of Hopper GPUs by its formula (docs/reference/elementary.md, "exp2 of a
 * GPU"), in whole numbers, so that any CPU has its bits. Attention and loss use it if the matrix unit is one of
 * tensor cores (ls_unit_is_tensor_core()). Each file that includes it has tables of its own. */
#ifndef LS_DEVICE_CPU_PORTABLE_EXP2_H
#define LS_DEVICE_CPU_PORTABLE_EXP2_H

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Of 64 equal parts of [0, 1): value, slope and curvature at the begin. */
static const struct {
    uint32_t value, slope, curve;
} exp2_parts[64] = {
#define P(value, slope, curve)                                                                                         \
    { value, slope, curve }
    P(33554435, 22713, 494), P(33919818, 22960, 501), P(34289182, 23210, 506), P(34662565, 23463, 511),
    P(35040018, 23718, 518), P(35421577, 23977, 521), P(35807292, 24238, 527), P(36197209, 24502, 532),
    P(36591372, 24768, 541), P(36989825, 25038, 546), P(37392616, 25311, 551), P(37799797, 25586, 559),
    P(38211409, 25865, 564), P(38627504, 26147, 568), P(39048131, 26431, 577), P(39473337, 26719, 583),
    P(39903173, 27010, 589), P(40337690, 27304, 596), P(40776937, 27602, 600), P(41220970, 27902, 609),
    P(41669836, 28206, 615), P(42123592, 28513, 622), P(42582286, 28824, 627), P(43045977, 29138, 633),
    P(43514717, 29455, 641), P(43988561, 29776, 647), P(44467565, 30100, 655), P(44951786, 30428, 661),
    P(45441278, 30759, 670), P(45936101, 31094, 677), P(46436314, 31432, 686), P(46941971, 31775, 691),
    P(47453135, 32121, 699), P(47969867, 32471, 705), P(48492225, 32824, 715), P(49020269, 33182, 721),
    P(49554065, 33543, 730), P(50093674, 33908, 739), P(50639159, 34277, 748), P(51190582, 34651, 753),
    P(51748011, 35028, 763), P(52311510, 35409, 773), P(52881146, 35795, 779), P(53456983, 36185, 787),
    P(54039091, 36579, 796), P(54627538, 36977, 806), P(55222393, 37380, 813), P(55823725, 37787, 822),
    P(56431607, 38198, 833), P(57046106, 38614, 842), P(57667297, 39035, 849), P(58295254, 39460, 858),
    P(58930048, 39889, 870), P(59571754, 40324, 877), P(60220447, 40763, 887), P(60876205, 41207, 896),
    P(61539104, 41655, 909), P(62209220, 42109, 917), P(62886634, 42568, 925), P(63571424, 43031, 938),
    P(64263672, 43500, 946), P(64963458, 43973, 959), P(65670863, 44452, 969), P(66385972, 44936, 980),
#undef P
};

/* Squares of the 17 bits inside a part, over 2^19: a multiplier that leaves out the columns below. */
static uint16_t exp2_squares[1 << 17];

/* Fills the table of truncated squares. */
static void fill_exp2_squares(void) {
    for (uint32_t x = 0; x < 1 << 17; x++) {
        uint64_t sum = 0;
        for (int i = 0; i < 17; i++) {
            if (!(x >> i & 1)) continue;
            if (i >= 10) sum += UINT64_C(1) << 2 * i;
            for (int j = i + 1; j < 17; j++)
                if (x >> j & 1 && i + j >= 18) sum += UINT64_C(1) << (i + j + 1);
        }
        exp2_squares[x] = (uint16_t)(sum >> 19);
    }
}

/* Prepares the tables; must precede the first unit_exp2() of the file. Any thread may call it, any number of times. */
static inline void prepare_exp2(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill_exp2_squares);
}

/* Returns 2^x with the bits of a GPU's special function unit: +0 below 2^-126, infinity from 2^128 on; a NaN is
 * returned as it is. */
static inline float unit_exp2(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bool is_negative = bits >> 31;
    int exponent = (int)(bits >> 23 & 255) - 127;
    if (isnan(x)) return x;
    if (exponent >= 8) return is_negative ? 0.0f : INFINITY; /* and infinities */
    if (exponent < -126) return 1.0f;
    /* |x| cut off to 23 bits behind the point. */
    uint64_t significand = (bits & 0x7FFFFF) | 0x800000;
    uint64_t fixed = exponent >= 0 ? significand << exponent : exponent > -24 ? significand >> -exponent : 0;
    int whole = (int)(fixed >> 23);
    uint32_t part = (uint32_t)fixed & 0x7FFFFF;
    if (is_negative) whole = -whole;
    if (is_negative && part) {
        part = 0x7FFFFF - part;
        whole--;
    } else if (part == 0) {
        return whole < -126 ? 0.0f : whole > 127 ? INFINITY : ldexpf(1.0f, whole);
    }
    uint32_t s = part >> 17, rest = part & 0x1FFFF;
    uint64_t sum = (uint64_t)exp2_parts[s].value * 8192 + 6114 + (uint64_t)exp2_parts[s].slope * rest +
                   (uint64_t)exp2_parts[s].curve * exp2_squares[rest];
    if (whole < -126) return 0.0f;
    return whole > 127 ? INFINITY : ldexpf((float)(sum >> 15), whole - 23);
}

#endif
