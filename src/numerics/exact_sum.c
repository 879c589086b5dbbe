/* exact_sum.c: the integer superaccumulator and the loss accumulator.
 *
 * Invariants:
 * 1. The value is Σ words[i]·2^(32·i − 1074) over the limbs, whether settled or not.
 * 2. Between calls every limb is below 2^32 + unsettled·2^32 in size, and unsettled ≤ UNSETTLED_MAX: no limb overflows.
 * 3. Settled: the limbs but the highest are in 0 … 2^32 − 1. */
#include "numerics/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { TOP = LS_EXACT_LIMBS - 1, LIMB_BITS = 32, BIAS = 1074, FRACTION_BITS = 52 };
#define LIMB_MASK UINT64_C(0xFFFFFFFF)
/* 2^30 numbers of 32 bits fill a limb to 2^62. */
#define UNSETTLED_MAX (UINT32_C(1) << 30)

/* Turns limb[0 … TOP] into digits of 32 bits; only the highest keeps a sign. */
static void propagate_carries(int64_t *limb) {
    int64_t carry = 0;
    for (int i = 0; i < TOP; i++) {
        int64_t total = limb[i] + carry;
        int64_t digit = total & (int64_t)LIMB_MASK;
        limb[i] = digit;
        carry = (total - digit) / (INT64_C(1) << LIMB_BITS);
    }
    limb[TOP] += carry;
}

void ls_exact_sum_settle(ls_exact_sum *sum) {
    propagate_carries(sum->words);
    sum->unsettled = 0;
}

void ls_exact_sum_add(ls_exact_sum *sum, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t fraction = bits & ((UINT64_C(1) << FRACTION_BITS) - 1);
    unsigned exponent = (unsigned)(bits >> FRACTION_BITS) & 0x7FFu;
    if (exponent == 0x7FFu) {
        sum->words[LS_EXACT_LIMBS]++;
        return;
    }
    /* x = ±fraction·2^(place − 1074) */
    unsigned place = 0;
    if (exponent > 0) {
        fraction |= UINT64_C(1) << FRACTION_BITS;
        place = exponent - 1;
    }
    unsigned limb = place / LIMB_BITS, shift = place % LIMB_BITS;
    uint64_t low = (fraction & LIMB_MASK) << shift, high = (fraction >> LIMB_BITS) << shift;
    int64_t part[3] = {(int64_t)(low & LIMB_MASK), (int64_t)((low >> LIMB_BITS) + (high & LIMB_MASK)),
                       (int64_t)(high >> LIMB_BITS)};
    bool negative = bits >> 63;
    for (int i = 0; i < 3; i++) sum->words[limb + (unsigned)i] += negative ? -part[i] : part[i];
    /* The middle part may have 33 bits, so a number counts twice. */
    sum->unsettled += 2;
    if (sum->unsettled >= UNSETTLED_MAX) ls_exact_sum_settle(sum);
}

void ls_exact_sum_add_many(ls_exact_sum *sum, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++) ls_exact_sum_add(sum, x[i]);
}

void ls_exact_sum_merge(ls_exact_sum *into, ls_exact_sum *from) {
    ls_exact_sum_settle(into);
    ls_exact_sum_settle(from);
    for (int i = 0; i < LS_EXACT_WORDS; i++) into->words[i] += from->words[i];
    ls_exact_sum_settle(into);
}

/* Returns bits at … at+63 of a settled, non-negative sum; at ≥ 0, and bits above the top are 0. */
static uint64_t bits_at(const int64_t *limb, int at) {
    int first = at / LIMB_BITS, shift = at % LIMB_BITS;
    uint64_t digit[3];
    for (int i = 0; i < 3; i++) digit[i] = first + i <= TOP ? (uint64_t)limb[first + i] : 0;
    uint64_t low = digit[0] | digit[1] << LIMB_BITS;
    return shift == 0 ? low : low >> shift | digit[2] << (2 * LIMB_BITS - shift);
}

/* Returns whether any bit below `end` is set. */
static bool any_below(const int64_t *limb, int end) {
    int whole = end / LIMB_BITS;
    for (int i = 0; i < whole; i++)
        if (limb[i] != 0) return true;
    return ((uint64_t)limb[whole] & ((UINT64_C(1) << (end % LIMB_BITS)) - 1)) != 0;
}

/* Returns the number of the highest bit that is set, −1 for none. */
static int highest_bit(const int64_t *limb) {
    for (int i = TOP; i >= 0; i--)
        if (limb[i] != 0) return i * LIMB_BITS + 63 - __builtin_clzll((unsigned long long)limb[i]);
    return -1;
}

/* Rounds a settled, non-negative sum to a double, to nearest, ties to even. */
static double round_magnitude(const int64_t *limb) {
    int highest = highest_bit(limb);
    if (highest < 0) return 0.0;
    /* All bits fit, which covers the subnormal numbers. */
    if (highest <= FRACTION_BITS) return ldexp((double)bits_at(limb, 0), -BIAS);
    /* The top limb may hold more than 32 bits, but a number that large is infinite anyway. */
    if (highest >= TOP * LIMB_BITS) return HUGE_VAL;
    int lowest = highest - FRACTION_BITS;
    uint64_t kept = bits_at(limb, lowest) & ((UINT64_C(1) << (FRACTION_BITS + 1)) - 1);
    bool half = bits_at(limb, lowest - 1) & 1;
    if (half && ((kept & 1) || any_below(limb, lowest - 1))) kept++;
    return ldexp((double)kept, lowest - BIAS);
}

double ls_exact_sum_value(ls_exact_sum *sum) {
    ls_exact_sum_settle(sum);
    if (sum->words[TOP] >= 0) return round_magnitude(sum->words);
    int64_t opposite[LS_EXACT_LIMBS];
    for (int i = 0; i < LS_EXACT_LIMBS; i++) opposite[i] = -sum->words[i];
    propagate_carries(opposite);
    return -round_magnitude(opposite);
}

int64_t ls_exact_sum_non_finite(const ls_exact_sum *sum) { return sum->words[LS_EXACT_LIMBS]; }

/* Adds modulo 2^64, which signed addition does not define. */
static int64_t add_wrapping(int64_t a, int64_t b) {
    uint64_t sum = (uint64_t)a + (uint64_t)b;
    int64_t out;
    memcpy(&out, &sum, sizeof out);
    return out;
}

void ls_loss_sum_add(ls_loss_sum *sum, float loss) {
    /* Negated, because the comparison is false for NaN. */
    if (!(fabsf(loss) < 0x1p31f)) {
        sum->bad++;
        return;
    }
    sum->total = add_wrapping(sum->total, llrint((double)loss * 0x1p24));
    sum->count++;
}

void ls_loss_sum_merge(ls_loss_sum *into, const ls_loss_sum *from) {
    into->total = add_wrapping(into->total, from->total);
    into->count += from->count;
    into->bad += from->bad;
}

double ls_loss_sum_mean(const ls_loss_sum *sum) {
    if (sum->count == 0) return 0.0;
    return (double)sum->total / ((double)sum->count * 0x1p24);
}
