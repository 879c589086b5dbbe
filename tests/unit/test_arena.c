/* test_arena.c: what is measured is what is carved, pieces in use together do not overlap, and errors are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "device/arena.h"

static ls_status test_alloc(void *ctx, size_t bytes, void **memory) {
    ++*(int *)ctx;
    *memory = aligned_alloc(LS_ARENA_ALIGN_BYTES, bytes ? bytes : LS_ARENA_ALIGN_BYTES);
    return *memory ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory");
}

static void test_release(void *ctx, void *memory) {
    --*(int *)ctx;
    free(memory);
}

/* ---- random layouts ---------------------------------------------------------------------------------------------- */

enum { PIECES = 60 };

/* Takes pieces and opens and closes phases as the random numbers say, and models the peak by itself. */
typedef struct plan {
    uint64_t seed;
    unsigned char *piece[PIECES];
    size_t bytes[PIECES], from[PIECES];
    int dies[PIECES]; /* pieces with a higher number may take its place */
    size_t peak;
} plan;

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static ls_status random_layout(ls_arena *arena, void *ctx) {
    static const char *const kinds[] = {"parameters", "gradients", "optimizer", "activations"};
    plan *p = ctx;
    ls_rng_key key = ls_rng_key_make(p->seed, 1, 0);
    size_t mark[LS_ARENA_PHASES_MAX], used = 0;
    int depth = 0, first[LS_ARENA_PHASES_MAX] = {0};
    p->peak = 0;
    for (int i = 0; i < PIECES; i++) {
        uint64_t dice = ls_rng_below(key, 3 * (uint64_t)i, 4);
        if (dice == 0 && depth < LS_ARENA_PHASES_MAX) {
            first[depth] = i;
            mark[depth++] = used;
            ls_arena_phase_begin(arena);
        } else if (dice == 1 && depth > 0) {
            used = mark[--depth];
            for (int j = first[depth]; j < i; j++) p->dies[j] = p->dies[j] < i ? p->dies[j] : i;
            ls_arena_phase_end(arena);
        }
        p->bytes[i] = ls_rng_below(key, 3 * (uint64_t)i + 1, 300);
        p->from[i] = used;
        p->dies[i] = PIECES;
        p->piece[i] = ls_arena_take(arena, kinds[ls_rng_below(key, 3 * (uint64_t)i + 2, 4)], p->bytes[i]);
        used += rounded(p->bytes[i]);
        if (used > p->peak) p->peak = used;
    }
    while (depth-- > 0) ls_arena_phase_end(arena);
    return LS_OK;
}

static void measured_is_carved(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        plan p = {.seed = seed};
        ls_arena arena;
        int blocks = 0;
        ls_memory_source source = {test_alloc, test_release, &blocks, 0};
        ls_arena_measure(&arena, 0);
        assert_int_equal(random_layout(&arena, &p), LS_OK);
        for (int i = 0; i < PIECES; i++) assert_null(p.piece[i]);
        assert_int_equal(ls_arena_finish(&arena), LS_OK);
        size_t measured = arena.peak;
        assert_int_equal(measured, p.peak);

        assert_int_equal(ls_arena_build(random_layout, &p, &source, &arena), LS_OK);
        assert_int_equal(blocks, 1);
        assert_int_equal(arena.peak, measured);
        size_t by_kind = 0;
        for (int k = 0; k < arena.kinds; k++) by_kind += arena.kind[k].bytes;
        assert_int_equal(by_kind, measured);
        for (int i = 0; i < PIECES; i++) {
            assert_ptr_equal(p.piece[i], arena.memory + p.from[i]);
            assert_int_equal((uintptr_t)p.piece[i] % 64, 0);
            for (int j = 0; j < i; j++) {
                if (p.dies[j] <= i || p.bytes[i] == 0 || p.bytes[j] == 0) continue;
                assert_true(p.piece[j] + p.bytes[j] <= p.piece[i] || p.piece[i] + p.bytes[i] <= p.piece[j]);
            }
        }
        test_release(&blocks, arena.memory);
    }
}

/* ---- phases and kinds -------------------------------------------------------------------------------------------- */

static void peak_counts_and_is_divided_by_kind(void **state) {
    (void)state;
    ls_arena arena;
    ls_arena_measure(&arena, 0);
    ls_arena_take(&arena, "parameters", 100); /* 128 */
    ls_arena_phase_begin(&arena);
    ls_arena_take(&arena, "activations", 64);
    ls_arena_phase_begin(&arena);
    ls_arena_take(&arena, "scratch", 640);
    ls_arena_phase_end(&arena);
    ls_arena_phase_end(&arena); /* 832 so far */
    ls_arena_phase_begin(&arena);
    ls_arena_take(&arena, "gradients", 704);
    ls_arena_phase_end(&arena); /* 832 again: the first peak stays */
    assert_int_equal(arena.used, 128);
    ls_arena_take(&arena, "parameters", 1);
    assert_int_equal(ls_arena_finish(&arena), LS_OK);
    assert_int_equal(arena.peak, 832);
    assert_int_equal(ls_arena_kind_bytes(&arena, "parameters"), 128);
    assert_int_equal(ls_arena_kind_bytes(&arena, "activations"), 64);
    assert_int_equal(ls_arena_kind_bytes(&arena, "scratch"), 640);
    assert_int_equal(ls_arena_kind_bytes(&arena, "gradients"), 0);
    assert_int_equal(ls_arena_kind_bytes(&arena, "never"), 0);
}

static void nothing_is_a_layout_too(void **state) {
    (void)state;
    ls_arena arena;
    ls_arena_measure(&arena, 0);
    ls_arena_take(&arena, "x", 0);
    assert_int_equal(ls_arena_finish(&arena), LS_OK);
    assert_int_equal(arena.peak, 0);
    ls_arena_carve(&arena, 0, NULL, 0);
    ls_arena_take(&arena, "x", 0);
    assert_int_equal(ls_arena_finish(&arena), LS_OK);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void check_error(ls_arena *arena, ls_status status, const char *part) {
    assert_null(ls_arena_take(arena, "after the error", 64));
    assert_int_equal(ls_arena_finish(arena), status);
    if (!strstr(ls_status_message(), part)) fail_msg("%s", ls_status_message());
}

static void overflow_is_an_error(void **state) {
    (void)state;
    ls_arena arena;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 62, SIZE_MAX - 127};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ls_arena_measure(&arena, 0);
        ls_arena_take(&arena, "parameters", 128);
        ls_arena_take(&arena, "gradients", sizes[i]);
        check_error(&arena, LS_ERR_RESOURCE, "bytes of gradients on top of 128 others");
    }
    ls_arena_measure(&arena, 0);
    ls_arena_take_array(&arena, "parameters", (size_t)1 << 40, (size_t)1 << 40);
    check_error(&arena, LS_ERR_RESOURCE, "1099511627776 blocks of 1099511627776 bytes");
    ls_arena_measure(&arena, 0);
    ls_arena_take_array(&arena, "parameters", 10, 10);
    assert_int_equal(arena.peak, 128);
}

static _Alignas(64) unsigned char block[256];

static void carving_must_match_measuring(void **state) {
    (void)state;
    ls_arena arena;
    ls_arena_carve(&arena, 0, block, sizeof block);
    assert_ptr_equal(ls_arena_take(&arena, "x", 200), block);
    assert_null(ls_arena_take(&arena, "x", 1));
    check_error(&arena, LS_ERR_FAILED, "1 bytes of x do not fit: 256 of the 256");
    ls_arena_carve(&arena, 0, block, sizeof block);
    ls_arena_take(&arena, "x", 100);
    assert_int_equal(ls_arena_finish(&arena), LS_ERR_FAILED);
    assert_non_null(strstr(ls_status_message(), "allocated 128 bytes after measuring 256"));
    ls_arena_carve(&arena, 0, block + 8, 64);
    check_error(&arena, LS_ERR_FAILED, "aligned to 64");
    ls_arena_carve(&arena, 0, NULL, 64);
    check_error(&arena, LS_ERR_FAILED, "was given no memory");
}

static void phases_must_balance(void **state) {
    (void)state;
    ls_arena arena;
    ls_arena_measure(&arena, 0);
    ls_arena_phase_begin(&arena);
    assert_int_equal(ls_arena_finish(&arena), LS_ERR_FAILED);
    assert_non_null(strstr(ls_status_message(), "not ended"));
    ls_arena_measure(&arena, 0);
    ls_arena_phase_end(&arena);
    check_error(&arena, LS_ERR_FAILED, "not begun");
    ls_arena_measure(&arena, 0);
    for (int i = 0; i <= LS_ARENA_PHASES_MAX; i++) ls_arena_phase_begin(&arena);
    check_error(&arena, LS_ERR_FAILED, "8 deep");
}

static void kinds_are_limited(void **state) {
    (void)state;
    ls_arena arena;
    char name[LS_ARENA_KINDS_MAX + 1][4];
    ls_arena_measure(&arena, 0);
    for (int i = 0; i <= LS_ARENA_KINDS_MAX; i++) {
        name[i][0] = (char)('a' + i);
        name[i][1] = '\0';
        ls_arena_take(&arena, name[i], 1);
    }
    check_error(&arena, LS_ERR_FAILED, "'q' is one too many");
}

static ls_status changing_layout(ls_arena *arena, void *ctx) {
    ls_arena_take(arena, "x", ++*(size_t *)ctx * 100);
    return LS_OK;
}

static ls_status failing_layout(ls_arena *arena, void *ctx) {
    (void)arena;
    return ++*(size_t *)ctx == 2 ? ls_fail(LS_ERR_INPUT, "no layout") : LS_OK;
}

static ls_status no_memory(void *ctx, size_t bytes, void **memory) {
    (void)ctx, (void)memory;
    return ls_fail(LS_ERR_RESOURCE, "no %zu bytes", bytes);
}

static void failed_build_leaves_nothing(void **state) {
    (void)state;
    ls_arena arena;
    int blocks = 0;
    size_t calls = 0;
    ls_memory_source source = {test_alloc, test_release, &blocks, 0};
    assert_int_equal(ls_arena_build(changing_layout, &calls, &source, &arena), LS_ERR_FAILED);
    assert_int_equal(blocks, 0);
    assert_null(arena.memory);
    calls = 0;
    assert_int_equal(ls_arena_build(failing_layout, &calls, &source, &arena), LS_ERR_INPUT);
    assert_int_equal(blocks, 0);
    calls = 0;
    source.alloc = no_memory;
    assert_int_equal(ls_arena_build(changing_layout, &calls, &source, &arena), LS_ERR_RESOURCE);
    assert_string_equal(ls_status_message(), "no 128 bytes");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_is_carved),
        cmocka_unit_test(peak_counts_and_is_divided_by_kind),
        cmocka_unit_test(nothing_is_a_layout_too),
        cmocka_unit_test(overflow_is_an_error),
        cmocka_unit_test(carving_must_match_measuring),
        cmocka_unit_test(phases_must_balance),
        cmocka_unit_test(kinds_are_limited),
        cmocka_unit_test(failed_build_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
