/* test_tree.c: the shape of the tree, its covers and programs, against a plain recursive sum written here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "device/cpu/tree_sum.h"
#include "numerics/float16.h"
#include "numerics/tree.h"

/* Wildly different magnitudes, so that another order gives other bits. */
static float sample(uint64_t seed, uint64_t index) {
    ls_rng_key key = ls_rng_key_make(seed, 7, 0);
    uint64_t bits = ls_rng_u64(key, index);
    float value = (float)(int32_t)(bits & 0xFFFFFF) - 8388608.0f;
    int shift = (int)(bits >> 32 & 31) - 16;
    for (; shift > 0; shift--) value *= 2.0f;
    for (; shift < 0; shift++) value *= 0.5f;
    return value;
}

static float plain_sum(const float *leaves, int n) {
    if (n == 1) return leaves[0];
    int left = 1;
    while (2 * left < n) left *= 2;
    float a = plain_sum(leaves, left), b = plain_sum(leaves + left, n - left);
    return a + b;
}

static void test_left(void **state) {
    (void)state;
    const int expected[][2] = {{2, 1}, {3, 2}, {4, 2}, {5, 4}, {6, 4}, {7, 4}, {8, 4}, {9, 8}, {12, 8}, {4096, 2048}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(ls_tree_left(expected[i][0]), expected[i][1]);
}

static int is_node(int groups, int first, int count) {
    int lo = 0, n = groups;
    while (!(lo == first && n == count)) {
        if (n == 1) return 0;
        int left = ls_tree_left(n);
        if (first < lo + left) {
            n = left;
        } else {
            lo += left;
            n -= left;
        }
    }
    return 1;
}

/* Every cover tiles its run with nodes, and no two neighbours could be one node. */
static void test_cover(void **state) {
    (void)state;
    ls_tree_node nodes[LS_TREE_COVER_MAX];
    for (int groups = 1; groups <= 70; groups++)
        for (int lo = 0; lo <= groups; lo++)
            for (int hi = lo; hi <= groups; hi++) {
                int n = ls_tree_cover(groups, lo, hi, nodes), at = lo;
                assert_in_range(n, hi > lo ? 1 : 0, LS_TREE_COVER_MAX);
                for (int i = 0; i < n; i++) {
                    assert_int_equal(nodes[i].first, at);
                    assert_true(is_node(groups, nodes[i].first, nodes[i].count));
                    at += nodes[i].count;
                    if (i > 0) assert_false(is_node(groups, nodes[i - 1].first, nodes[i - 1].count + nodes[i].count));
                }
                assert_int_equal(at, hi);
            }
}

static void test_cover_held(void **state) {
    (void)state;
    unsigned char held[12] = {1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    ls_tree_node nodes[12];
    assert_int_equal(ls_tree_cover_held(12, held, nodes), 4);
    const ls_tree_node expected[4] = {{0, 2}, {3, 1}, {4, 4}, {8, 4}};
    assert_memory_equal(nodes, expected, sizeof expected);
}

static void test_sum(void **state) {
    (void)state;
    enum { N = 1300 };
    for (int leaves = 1; leaves <= 33; leaves++) {
        float *data = malloc(sizeof(float) * N * (size_t)leaves), column[33], out[N + 1];
        const float *parts[33];
        for (int g = 0; g < leaves; g++) {
            parts[g] = data + (size_t)g * N;
            for (size_t i = 0; i < N; i++) data[(size_t)g * N + i] = sample((uint64_t)g, i);
        }
        out[N] = 42.0f;
        assert_int_equal(ls_tree_sum(parts, leaves, out, N), LS_OK);
        assert_true(out[N] == 42.0f);
        for (size_t i = 0; i < N; i++) {
            for (int g = 0; g < leaves; g++) column[g] = data[(size_t)g * N + i];
            float expected = plain_sum(column, leaves);
            assert_memory_equal(&out[i], &expected, sizeof expected);
        }
        /* In place, in any of the contributions. */
        float *inside = data + (size_t)(leaves / 2) * N;
        assert_int_equal(ls_tree_sum(parts, leaves, inside, N), LS_OK);
        assert_memory_equal(inside, out, sizeof(float) * N);
        free(data);
    }
    assert_int_equal(ls_tree_sum(NULL, 0, NULL, 1), LS_ERR_INPUT);
}

/* A program over any run of covers gives the bits of the program over leaves. */
static void test_program_over_covers(void **state) {
    (void)state;
    enum { G = 13 };
    float leaves[G];
    for (int g = 0; g < G; g++) leaves[g] = sample(5, (uint64_t)g);
    float whole = plain_sum(leaves, G);
    for (int a = 0; a <= G; a++)
        for (int b = a; b <= G; b++) {
            ls_tree_node nodes[3 * LS_TREE_COVER_MAX];
            int n = ls_tree_cover(G, 0, a, nodes);
            n += ls_tree_cover(G, a, b, nodes + n);
            n += ls_tree_cover(G, b, G, nodes + n);
            float values[3 * LS_TREE_COVER_MAX], out;
            ls_tree_source sources[3 * LS_TREE_COVER_MAX];
            for (int i = 0; i < n; i++) {
                values[i] = plain_sum(leaves + nodes[i].first, nodes[i].count);
                sources[i] = (ls_tree_source){&values[i], LS_F32};
            }
            ls_tree_program program;
            assert_int_equal(ls_tree_program_make((ls_tree_node){0, G}, nodes, n, &program), LS_OK);
            void *outs[1] = {&out};
            ls_tree_sum_run(&program, sources, false, outs, 1, false, 1);
            assert_memory_equal(&out, &whole, sizeof whole);
            ls_tree_program_free(&program);
        }
}

static void test_program_missing_group(void **state) {
    (void)state;
    const ls_tree_node nodes[2] = {{0, 2}, {3, 1}};
    ls_tree_program program;
    assert_int_equal(ls_tree_program_make((ls_tree_node){0, 4}, nodes, 2, &program), LS_ERR_INPUT);
}

/* bf16 leaves widen exactly; integers wrap. */
static void test_other_types(void **state) {
    (void)state;
    enum { N = 700 };
    uint16_t half[2][N];
    float out[3][N];
    for (size_t i = 0; i < N; i++)
        for (int g = 0; g < 2; g++) half[g][i] = ls_bf16_from_f32(sample((uint64_t)g + 9, i));
    half[0][5] = 0xFFFF; /* a NaN */
    const ls_tree_node nodes[2] = {{0, 1}, {1, 1}};
    ls_tree_program program;
    assert_int_equal(ls_tree_program_make((ls_tree_node){0, 2}, nodes, 2, &program), LS_OK);
    const ls_tree_source sources[2] = {{half[0], LS_BF16}, {half[1], LS_BF16}};
    void *outs[3] = {out[0], out[1], out[2]};
    ls_tree_sum_run(&program, sources, false, outs, 3, true, N);
    for (size_t i = 0; i < N; i++) {
        if (i == 5) continue;
        float a, b, sum;
        uint32_t bits = (uint32_t)half[0][i] << 16;
        memcpy(&a, &bits, 4);
        bits = (uint32_t)half[1][i] << 16;
        memcpy(&b, &bits, 4);
        sum = a + b;
        for (int o = 0; o < 3; o++) assert_memory_equal(&out[o][i], &sum, 4);
    }
    assert_true(out[0][5] != out[0][5]);
    int64_t numbers[2][3] = {{INT64_MAX, -5, 7}, {1, 3, -7}}, total[3];
    const ls_tree_source integers[2] = {{numbers[0], LS_I64}, {numbers[1], LS_I64}};
    void *totals[1] = {total};
    ls_tree_sum_run(&program, integers, true, totals, 1, false, 3);
    assert_true(total[0] == INT64_MIN && total[1] == -2 && total[2] == 0);
    ls_tree_program_free(&program);
}

static void test_bf16_rounding(void **state) {
    (void)state;
    assert_int_equal(ls_bf16_from_f32(1.0f), 0x3F80);
    assert_int_equal(ls_bf16_from_f32(ls_f32_from_bits(0x3F808000)), 0x3F80); /* tie to even */
    assert_int_equal(ls_bf16_from_f32(ls_f32_from_bits(0x3F818000)), 0x3F82);
    assert_int_equal(ls_bf16_from_f32(ls_f32_from_bits(0x3F808001)), 0x3F81);
    assert_int_equal(ls_bf16_from_f32(ls_f32_from_bits(0x7F7FFFFF)), 0x7F80); /* overflows to infinity */
    assert_int_equal(ls_bf16_from_f32(ls_f32_from_bits(0xFFFFFFFF)), 0x7FC0); /* one NaN */
    assert_int_equal(ls_f32_bits(ls_bf16_to_f32(0x8000)), 0x80000000u);
    for (uint32_t h = 0; h < 65536; h++) {
        float wide = ls_bf16_to_f32((uint16_t)h);
        uint16_t back = ls_bf16_from_f32(wide);
        if ((h & 0x7FFF) > 0x7F80)
            assert_int_equal(back, 0x7FC0);
        else
            assert_int_equal(back, h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_cover),
        cmocka_unit_test(test_cover_held),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_program_over_covers),
        cmocka_unit_test(test_program_missing_group),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_bf16_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
