/* The gradient noise scale: against the formulas of McCandlish and others, against variances taken from the vectors
 * themselves, and on synthetic gradients whose covariance is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "run/guard/noise.h"

enum { SIDE = 16, GROUPS_MAX = 8 };

static uint64_t drawn;

static double normal(uint64_t seed) {
    ls_rng_key key = ls_rng_key_make(seed, 3, 0);
    double u = ((double)(ls_rng_u64(key, drawn++) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(ls_rng_u64(key, drawn++) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * acos(-1.0) * v);
}

/* ---- synthetic gradients ----------------------------------------------------------------------------------------- */

/* Sequences of `length` tokens, as equal in number as can be; each has the true gradient plus noise of variance
 * `sigma`², growing along the vector. */
typedef struct batch {
    size_t groups;
    int64_t sequences, length;
    double gradient, sigma; /* of each element; of the last element */
    double leaves[GROUPS_MAX][SIDE], whole[SIDE];
    double squares[GROUPS_MAX];
    int64_t tokens[GROUPS_MAX];
} batch;

static double sigma_of(const batch *b, size_t i) { return b->sigma * (double)(i + 1) / SIDE; }

/* tr of the covariance of one sequence, and |g|². */
static double trace_of(const batch *b) {
    double trace = 0;
    for (size_t i = 0; i < SIDE; i++) trace += sigma_of(b, i) * sigma_of(b, i);
    return trace;
}
static double grad_sq_of(const batch *b) { return SIDE * b->gradient * b->gradient; }

static double squares_of(const double *x) {
    double sum = 0;
    for (size_t i = 0; i < SIDE; i++) sum += x[i] * x[i];
    return sum;
}

/* Leaves are sums over sequences times 2^10: what backward leaves. */
static ls_noise_step draw(batch *b, uint64_t seed) {
    memset(b->leaves, 0, sizeof b->leaves);
    memset(b->whole, 0, sizeof b->whole);
    for (size_t g = 0; g < b->groups; g++) {
        int64_t from = (int64_t)g * b->sequences / (int64_t)b->groups;
        int64_t to = (int64_t)(g + 1) * b->sequences / (int64_t)b->groups;
        for (int64_t s = from; s < to; s++)
            for (size_t i = 0; i < SIDE; i++) b->leaves[g][i] += 1024 * (b->gradient + sigma_of(b, i) * normal(seed));
        for (size_t i = 0; i < SIDE; i++) b->whole[i] += b->leaves[g][i];
        b->tokens[g] = (to - from) * b->length;
        b->squares[g] = squares_of(b->leaves[g]);
    }
    return (ls_noise_step){.groups = b->groups,
                           .squares = b->squares,
                           .tokens = b->tokens,
                           .whole_squares = squares_of(b->whole),
                           .scale = 1.0 / (1024 * (double)b->sequences)};
}

static void near_to(double got, double expected, double share) {
    if (!(fabs(got - expected) <= share * fabs(expected))) fail_msg("%.17g, expected %.17g", got, expected);
}

static ls_noise_value measure_one(const ls_noise_step *step, const batch *b) {
    ls_noise noise = {0};
    assert_true(ls_noise_add(&noise, step));
    return ls_noise_get(&noise, b->sequences * b->length, b->sequences);
}

/* Equations A.2 of the paper, with B_small the tokens of a group and B_big those of the batch. */
static void equal_groups_follow_the_paper(void **state) {
    (void)state;
    batch b = {.groups = 4, .sequences = 12, .length = 32, .gradient = 1, .sigma = 3};
    for (uint64_t seed = 0; seed < 50; seed++) {
        ls_noise_step step = draw(&b, seed);
        double small = 0, big = squares_of(b.whole) / (1024 * 1024 * 144.0);
        for (size_t g = 0; g < 4; g++) small += b.squares[g] / (1024 * 1024 * 9.0) / 4;
        double b_small = 3 * 32, b_big = 12 * 32;
        ls_noise_value got = measure_one(&step, &b);
        near_to(got.grad_sq, (b_big * big - b_small * small) / (b_big - b_small), 1e-9);
        near_to(got.trace, (small - big) / (1 / b_small - 1 / b_big), 1e-9);
    }
}

/* Unequal groups: the weighted variance of the groups' means about the mean of all. */
static void unequal_groups_follow_the_variance(void **state) {
    (void)state;
    batch b = {.groups = 5, .sequences = 13, .length = 7, .gradient = 1, .sigma = 3};
    for (uint64_t seed = 0; seed < 50; seed++) {
        ls_noise_step step = draw(&b, seed);
        double variance = 0, all = 13 * 7, unit = 1.0 / (1024 * 13);
        for (size_t g = 0; g < 5; g++) {
            double share = (double)b.tokens[g] / all;
            for (size_t i = 0; i < SIDE; i++) {
                double distance = b.leaves[g][i] * unit / share - b.whole[i] * unit;
                variance += share * distance * distance;
            }
        }
        ls_noise_value got = measure_one(&step, &b);
        near_to(got.trace, all * variance / 4, 1e-9);
        near_to(got.grad_sq, squares_of(b.whole) * unit * unit - got.trace / all, 1e-9);
    }
}

/* Averaged over many steps the estimates meet the truth, for equal and unequal groups, two and eight of them. */
static void known_covariances_are_found(void **state) {
    (void)state;
    static const struct {
        size_t groups;
        int64_t sequences;
        double sigma;
    } cases[] = {{2, 2, 1}, {2, 3, 2}, {4, 16, 6}, {8, 11, 3}, {8, 8, 0.5}};
    for (size_t c = 0; c < 5; c++) {
        batch b = {.groups = cases[c].groups,
                   .sequences = cases[c].sequences,
                   .length = 64,
                   .gradient = 0.7,
                   .sigma = cases[c].sigma};
        double trace = 0, grad_sq = 0, n = 4000;
        for (int i = 0; i < (int)n; i++) {
            ls_noise_step step = draw(&b, 77 + c);
            ls_noise_value one = measure_one(&step, &b);
            trace += one.trace / n;
            grad_sq += one.grad_sq / n;
        }
        near_to(trace, trace_of(&b) * 64, 0.02); /* of one token: 64 times that of a sequence */
        near_to(grad_sq, grad_sq_of(&b), 0.05);
    }
}

static void the_average_settles_on_the_scale(void **state) {
    (void)state;
    batch b = {.groups = 8, .sequences = 30, .length = 128, .gradient = 1, .sigma = 4};
    ls_noise noise = {0};
    for (int i = 0; i < 400; i++) {
        ls_noise_step step = draw(&b, 5);
        assert_true(ls_noise_add(&noise, &step));
    }
    ls_noise_value got = ls_noise_get(&noise, 30 * 128, 30);
    double expected = trace_of(&b) / grad_sq_of(&b);
    assert_true(got.valid);
    near_to(got.scale_sequences, expected, 0.1);
    near_to(got.scale_tokens, expected * 128, 0.1);
    near_to(got.scale_tokens, got.scale_sequences * 128, 1e-12);
    near_to(got.grad_sq, grad_sq_of(&b), 0.1);
    near_to(got.trace, trace_of(&b) * 128, 0.1);
}

/* Two measurements: the later one counts 1, the earlier one 0.98. */
static void later_measurements_count_more(void **state) {
    (void)state;
    ls_noise noise = {0};
    static const int64_t tokens[] = {1, 1};
    /* Leaves 1 and 1 that are equal: whole 4·s², no noise. At right angles: whole 2·s². */
    ls_noise_step step = {.groups = 2, .squares = (const double[]){1, 1}, .tokens = tokens, .scale = 0.5};
    step.whole_squares = 4;
    assert_true(ls_noise_add(&noise, &step));
    ls_noise_value got = ls_noise_get(&noise, 2, 2);
    assert_true(got.valid && got.scale_tokens == 0);
    near_to(got.grad_sq, 1, 1e-12);
    step.whole_squares = 2;
    assert_true(ls_noise_add(&noise, &step));
    got = ls_noise_get(&noise, 2, 1);
    near_to(got.grad_sq, 0.98 / 1.98, 1e-12); /* the second one: |g|² = 0, tr = 1 */
    near_to(got.trace, 1 / 1.98, 1e-12);
    near_to(got.scale_tokens, 1 / 0.98, 1e-12);
    near_to(got.scale_sequences, 0.5 / 0.98, 1e-12);
}

static void it_is_invalid_where_nothing_is_known(void **state) {
    (void)state;
    ls_noise noise = {0}, before;
    static const int64_t tokens[] = {4, 4, 0};
    static const double squares[] = {1, 1, 1};
    assert_false(ls_noise_get(&noise, 8, 2).valid);
    ls_noise_step step = {.groups = 1, .squares = squares, .tokens = tokens, .whole_squares = 1, .scale = 1};
    assert_false(ls_noise_add(&noise, &step));
    step.groups = 3;        /* the third is absent: nothing of it counts */
    step.whole_squares = 1; /* opposed leaves: the estimate of |g|² is below 0 */
    assert_true(ls_noise_add(&noise, &step));
    ls_noise_value got = ls_noise_get(&noise, 8, 2);
    assert_true(!got.valid && got.scale_tokens == 0 && got.scale_sequences == 0);
    near_to(got.grad_sq, 2 * 1 - 4, 1e-12);
    near_to(got.trace, 8 * (4 - 1), 1e-12);
    before = noise;
    static const double bad[] = {(double)NAN, (double)INFINITY};
    for (size_t i = 0; i < 2; i++) {
        step.whole_squares = bad[i];
        assert_false(ls_noise_add(&noise, &step));
        step.whole_squares = 1;
        step.squares = (const double[]){1, bad[i], 1};
        assert_false(ls_noise_add(&noise, &step));
        step.squares = squares;
    }
    step.tokens = (const int64_t[]){0, 0, 4};
    assert_false(ls_noise_add(&noise, &step));
    assert_memory_equal(&noise, &before, sizeof noise);
}

static void words_go_and_come(void **state) {
    (void)state;
    batch b = {.groups = 4, .sequences = 9, .length = 3, .gradient = 1, .sigma = 4};
    ls_noise noise = {0}, read = {.trace = 9, .count = 9};
    int64_t words[LS_NOISE_WORDS], good[LS_NOISE_WORDS];
    for (int i = 0; i < 5000; i++) {
        ls_noise_save(&noise, words);
        assert_int_equal(ls_noise_restore(&read, words), LS_OK);
        assert_memory_equal(&read, &noise, sizeof noise);
        ls_noise_step step = draw(&b, 1);
        assert_true(ls_noise_add(&noise, &step));
    }
    ls_noise_save(&noise, good);
    static const double bad[] = {(double)NAN, (double)INFINITY, -1, 0, 1.5};
    for (size_t at = 1; at < LS_NOISE_WORDS; at++)
        for (size_t i = 0; i < (at == 3 ? 5 : 2); i++) {
            memcpy(words, good, sizeof words);
            memcpy(&words[at], &bad[i], sizeof bad[i]);
            assert_int_equal(ls_noise_restore(&read, words), LS_ERR_INPUT);
        }
    memcpy(words, good, sizeof words);
    words[0] = -1;
    assert_int_equal(ls_noise_restore(&read, words), LS_ERR_INPUT);
    words[0] = 0;
    assert_int_equal(ls_noise_restore(&read, words), LS_ERR_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_groups_follow_the_paper),
        cmocka_unit_test(unequal_groups_follow_the_variance),
        cmocka_unit_test(known_covariances_are_found),
        cmocka_unit_test(the_average_settles_on_the_scale),
        cmocka_unit_test(later_measurements_count_more),
        cmocka_unit_test(it_is_invalid_where_nothing_is_known),
        cmocka_unit_test(words_go_and_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
