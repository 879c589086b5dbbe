/* test_ops_sums.c: exact sums of squares and losses, and right answers, against the host's own sums; on every number of
 * threads. */
#include <math.h>

#include "numerics/state_sum.h"
#include "ops.h"

static int64_t *words_of(float *p) { return (int64_t *)(void *)p; }

static twin make_words(size_t count, int64_t first) {
    twin t = make(2 * count);
    for (size_t i = 0; i < count; i++) words_of(t.ref)[i] = first + (int64_t)i;
    ok(ls_device_copy_in(device, t.dev, t.ref, count * sizeof(int64_t)));
    return t;
}

/* Of every size, from subnormal to the largest; `bad`: some are not finite. */
static float some_number(size_t i, bool bad) {
    static const float special[] = {0x1p-149f, 0x1.FFFFFEp127f, -0.0f, 0.0f, -0x1.8p-140f, INFINITY, NAN};
    uint32_t bits = ls_rng_u32(ls_rng_key_make(19, 0, 0), i);
    float x;
    if (i % 5 == 0) return special[i / 5 % (bad ? 7 : 5)];
    memcpy(&x, &bits, sizeof x);
    return isfinite(x) || bad ? x : 1.0f;
}

/* The sum goes on from what is there, words that are not settled too. */
static void check_squares(size_t n, bool bad, bool cut) {
    twin x = make_shifted(n, n % 2), out = make_words(LS_EXACT_WORDS, -3);
    size_t blocks = (n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
    double *sums = calloc(blocks + 1, sizeof *sums);
    assert_non_null(sums);
    ls_exact_sum sum = {.unsettled = 0};
    for (size_t i = 0; i < n; i++) x.ref[i] = some_number(i, bad);
    ok(ls_device_copy_in(device, x.dev, x.ref, n * sizeof(float)));
    ls_square_piece pieces[400];
    size_t parts = 0, at = 0;
    for (size_t most = cut ? 1 : n; at < n || parts == 0; at += pieces[parts++].n, most = most % 2047 + 700)
        pieces[parts] = (ls_square_piece){x.dev + at, n - at < most ? n - at : most};
    ok(ops->square_sums(device, &(ls_square_sums_call){words_of(out.dev), pieces, (int)parts}));
    for (size_t i = 0, begin = 0; i < parts; begin += pieces[i++].n) {
        portable.optim.square_sums(sums, x.ref + begin, pieces[i].n);
        ls_exact_sum_add_many(&sum, sums, (pieces[i].n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK);
    }
    for (int i = 0; i < LS_EXACT_WORDS; i++) words_of(out.ref)[i] += sum.words[i];
    free(sums);
    check("squares", n, bad);
}

static void check_losses(size_t sequences, size_t T, size_t context) {
    static const float special[] = {0x1p31f,  -0x1p31f,  0x1.FFFFFEp30f, -0x1.FFFFFEp30f,
                                    0x1p-25f, -0x1p-25f, 0x1.8p-24f,     0x1.8p-25f,
                                    NAN,      -INFINITY, 0.0f,           -0.0f};
    size_t n = sequences * T;
    twin x = make(n), out = make_words(3, 5);
    ls_loss_sum sum = {0}, before;
    for (size_t i = 0; i < n; i++)
        x.ref[i] = i % 7 == 0 ? special[i / 7 % (sizeof special / sizeof *special)] : 12 * fabsf(x.ref[i]);
    ok(ls_device_copy_in(device, x.dev, x.ref, n * sizeof(float)));
    words_of(out.ref)[0] = INT64_MAX - 1; /* what is added wraps */
    ok(ls_device_copy_in(device, out.dev, out.ref, 3 * sizeof(int64_t)));
    ok(ops->add_losses(device, &(ls_add_losses_call){(ls_loss_sum *)(void *)out.dev, x.dev, sequences, T, context}));
    for (size_t i = 0; i < n; i++)
        if (i % T >= context) ls_loss_sum_add(&sum, x.ref[i]);
    memcpy(&before, out.ref, sizeof before);
    ls_loss_sum_merge(&before, &sum);
    memcpy(out.ref, &before, sizeof before);
    check("losses", n, context);
}

/* Equal largest numbers, zeros of both signs, NaNs in front and inside, infinities. */
static void check_right(size_t rows, size_t columns) {
    size_t stride = columns + 3;
    twin z = make(rows * stride), targets = make_ids(rows, columns, 0), out = make_words(1, 40);
    for (size_t r = 0; r < rows; r++) {
        float *row = z.ref + r * stride;
        size_t a = ls_rng_below(ls_rng_key_make(5, 0, r), 0, columns), b = (a + columns / 2) % columns;
        if (r % 4 == 1) row[a] = row[b] = 3;
        if (r % 4 == 2) row[a] = r % 8 == 2 ? NAN : INFINITY;
        if (r % 4 == 3)
            for (size_t i = 0; i < columns; i++) row[i] = i % 2 ? 0.0f : -0.0f;
        if (r % 7 == 6) row[0] = NAN;
        size_t best = 0;
        for (size_t i = 1; i < columns; i++)
            if (row[i] > row[best]) best = i;
        int32_t *ids = (int32_t *)(void *)targets.ref;
        if (r % 3) ids[r] = (int32_t)best;
        words_of(out.ref)[0] += ids[r] == (int32_t)best;
    }
    ok(ls_device_copy_in(device, z.dev, z.ref, rows * stride * sizeof(float)));
    ok(ls_device_copy_in(device, targets.dev, targets.ref, rows * sizeof(float)));
    ok(ops->count_right(device,
                        &(ls_count_right_call){words_of(out.dev), z.dev, stride, rows, columns, ids_of(targets.dev)}));
    check("right", rows, columns);
}

/* Pieces of a tensor that begin and end anywhere add up to the sum of all of it; `first` is where the tensor's begin.
 */
static void check_state(size_t n, uint64_t first, size_t most) {
    twin x = make_shifted(n, first % 3), out = make_words(4, 7);
    ls_state_piece pieces[600];
    int count = 0;
    for (size_t at = 0; at < n && count < 600; at += pieces[count++].n)
        pieces[count] = (ls_state_piece){.out = (ls_hash128 *)(void *)out.dev + count % 2,
                                         .x = x.dev + at,
                                         .tensor = 5 + first % 2,
                                         .first = first + at,
                                         .n = n - at < most ? n - at : most};
    ok(ops->state_sums(device, &(ls_state_sums_call){pieces, count}));
    ls_hash128 *sums = (ls_hash128 *)(void *)out.ref;
    for (int i = 0; i < count; i++)
        ls_state_add_elems(&sums[i % 2], pieces[i].tensor, pieces[i].first, x.ref + (pieces[i].x - x.dev), pieces[i].n);
    check("state", n, most);
}

/* The sums that an update makes are those of what it wrote, in one piece or in as many as are asked for, of which the
 * first is element `first` of the tensor. Of all elements `begin` … `end` − 1 go to the first three sums. */
typedef struct updated {
    size_t n, begin, end;
    int moments;
    ls_dtype copy;
    uint64_t first;
    int pieces;
} updated;

enum { UPDATED_PIECES = 300 };

static size_t within(size_t at, size_t begin, size_t end) {
    return at < begin ? 0 : at < end ? at - begin : end - begin;
}

static ls_update_piece part_of(const ls_update_piece *all, size_t begin, size_t end) {
    ls_update_piece piece = *all;
    piece.w += begin;
    piece.g += begin;
    for (int i = 0; i < LS_MOMENTS_MAX; i++)
        if (piece.moment[i]) piece.moment[i] += begin;
    if (piece.copy) piece.copy = (uint16_t *)piece.copy + begin;
    piece.n = end - begin;
    piece.sums.begin = within(all->sums.begin, begin, end);
    piece.sums.end = within(all->sums.end, begin, end);
    piece.sums.first += begin;
    return piece;
}

static void run_update(const ls_update_piece *all, int count) {
    ls_update_piece pieces[UPDATED_PIECES];
    for (int i = 0; i < count; i++)
        pieces[i] = part_of(all, all->n * (size_t)i / (size_t)count, all->n * ((size_t)i + 1) / (size_t)count);
    ok(ops->update(device, &(ls_update_call){pieces, count}));
}

static ls_update_step step_of(int moments) {
    return (ls_update_step){.rule = moments == 2 ? LS_OPTIMIZER_ADAMW : LS_OPTIMIZER_SGD,
                            .factor = 0.5f,
                            .rate = 0.01f,
                            .beta1 = 0.9f,
                            .beta1_rest = 0.1f,
                            .beta2 = 0.99f,
                            .beta2_rest = 0.01f,
                            .root = 1,
                            .epsilon = 1e-8f,
                            .decay = 0.99f,
                            .momentum = 0.9f};
}

static void check_updated(updated u) {
    ls_update_step step = step_of(u.moments);
    ls_state_piece pieces[LS_UPDATE_STATE_MAX];
    const size_t n = u.n;
    twin w = make(n), m = make(n), v = make(n), g = make(n), half = make(n), out = make_words(12, 0);
    for (size_t i = 0; i < n; i++) v.ref[i] = v.ref[i] * v.ref[i];
    ok(ls_device_copy_in(device, v.dev, v.ref, n * sizeof(float)));
    ls_hash128 *sums = (ls_hash128 *)(void *)out.dev, *want = (ls_hash128 *)(void *)out.ref;
    ls_update_piece piece = {.w = w.dev, .g = g.dev, .step = &step, .n = n, .copy_dtype = u.copy};
    piece.sums =
        (ls_update_sums){.once = sums, .rest = sums + 3, .begin = u.begin, .end = u.end, .tensor = 8, .first = u.first};
    if (u.moments > 0) piece.moment[0] = m.dev;
    if (u.moments > 1) piece.moment[1] = v.dev;
    if (u.copy != LS_F32) piece.copy = half.dev;
    run_update(&piece, u.pieces);
    ok(ls_device_copy_out(device, w.ref, w.dev, n * sizeof(float)));
    ok(ls_device_copy_out(device, m.ref, m.dev, n * sizeof(float)));
    ok(ls_device_copy_out(device, v.ref, v.dev, n * sizeof(float)));
    ok(ls_device_copy_out(device, half.ref, half.dev, n * sizeof(float)));
    piece = (ls_update_piece){
        .w = w.ref, .moment = {u.moments > 0 ? m.ref : NULL, u.moments > 1 ? v.ref : NULL}, .n = n, .sums = piece.sums};
    piece.sums.once = want;
    piece.sums.rest = want + 3;
    int count = ls_update_state_pieces(&piece, 0, n, pieces);
    for (int i = 0; i < count; i++)
        ls_state_add_elems(pieces[i].out, pieces[i].tensor, pieces[i].first, pieces[i].x, pieces[i].n);
    check("updated", n, u.begin);
}

/* A state of which one bit changes between two updates: the second notes tensor and block, leaves the block as it is,
 * and updates all others; a GPU may leave only the part of the block that goes to the same sums. `late`: the element;
 * n: none changes. */
typedef struct checked {
    size_t n, begin, end, late;
    int moments, state;
    uint64_t first;
} checked;

enum { CHECKED_NAME = 17 };

static ls_update_piece checked_piece(const checked *c, const ls_update_step *step, float *const at[4], ls_hash128 *sums,
                                     ls_update_check check) {
    ls_update_piece piece = {.w = at[0], .g = at[3], .step = step, .n = c->n, .check = check, .name = CHECKED_NAME};
    for (int m = 0; m < c->moments; m++) piece.moment[m] = at[1 + m];
    piece.sums = (ls_update_sums){
        .once = sums, .rest = sums + 3, .begin = c->begin, .end = c->end, .tensor = 8, .first = c->first};
    return piece;
}

static void flip_bit(float *dev) {
    uint32_t bits;
    ok(ls_device_copy_out(device, &bits, dev, sizeof bits));
    bits ^= 1U << 5;
    ok(ls_device_copy_in(device, dev, &bits, sizeof bits));
}

static void check_checked(checked c) {
    const ls_update_step step = step_of(c.moments);
    const size_t n = c.n, blocks = ls_check_sums(n), block = c.late / LS_CHECK_BLOCK;
    twin t[4] = {make(n), make(n), make(n), make(n)}, out = make_words(12, 0), made = make_words(blocks + 1, 0);
    float *at[4] = {t[0].dev, t[1].dev, t[2].dev, t[3].dev};
    float *before[3] = {malloc((n + 1) * sizeof(float)), malloc((n + 1) * sizeof(float)),
                        malloc((n + 1) * sizeof(float))};
    uint64_t word, *damage = (uint64_t *)(void *)made.dev + blocks;
    ls_update_piece piece = checked_piece(&c, &step, at, (ls_hash128 *)(void *)out.dev,
                                          (ls_update_check){(uint64_t *)(void *)made.dev, damage});
    for (size_t i = 0; i < n; i++) t[2].ref[i] = t[2].ref[i] * t[2].ref[i];
    ok(ls_device_copy_in(device, t[2].dev, t[2].ref, n * sizeof(float)));
    piece.mode = LS_UPDATE_RECORD;
    ok(ls_device_fill(device, damage, 0, sizeof *damage));
    ok(ops->update(device, &(ls_update_call){&piece, 1}));
    piece.mode = LS_UPDATE_STEP;
    ok(ops->update(device, &(ls_update_call){&piece, 1}));
    if (c.late < n) flip_bit(at[c.state] + c.late);
    piece.mode = LS_UPDATE_CHECK;
    ok(ops->update(device, &(ls_update_call){&piece, 1}));
    ok(ls_device_copy_out(device, &word, damage, sizeof word));
    assert_true((word != 0) == (c.late < n));
    ok(ls_device_fill(device, damage, 0, sizeof *damage));
    for (int k = 0; k < 3; k++) ok(ls_device_copy_out(device, before[k], at[k], n * sizeof(float)));
    piece.mode = LS_UPDATE_STEP;
    ok(ops->update(device, &(ls_update_call){&piece, 1}));
    ok(ls_device_copy_out(device, &word, damage, sizeof word));
    assert_true((word != 0) == (c.late < n));
    if (word != 0) {
        const ls_damage d = ls_damage_read(word);
        assert_int_equal(d.name, CHECKED_NAME);
        assert_int_equal(d.state, c.state);
        assert_int_equal(d.block, block);
    }
    for (int k = 0; k < 1 + c.moments; k++) {
        ok(ls_device_copy_out(device, t[k].ref, at[k], n * sizeof(float)));
        const size_t first = block * LS_CHECK_BLOCK, last = first + LS_CHECK_BLOCK < n ? first + LS_CHECK_BLOCK : n;
        for (size_t i = 0; i < n; i++) {
            bool is_left = c.late < n && i >= first && i < last && (i < c.begin) == (c.late < c.begin) &&
                           (i < c.end) == (c.late < c.end);
            if (is_left) assert_memory_equal(&t[k].ref[i], &before[k][i], sizeof(float));
        }
        bool changed = false;
        for (size_t i = 0; i < n; i++) changed = changed || memcmp(&t[k].ref[i], &before[k][i], sizeof(float)) != 0;
        assert_true(changed || (c.late < n && n <= LS_CHECK_BLOCK));
    }
    for (int k = 0; k < 3; k++) free(before[k]);
    release();
}

/* An update sums the 16-bit copy that it writes, whichever state sums its elements go to. */
static void check_copied(checked c, ls_dtype copy) {
    const ls_update_step step = step_of(c.moments);
    const size_t n = c.n, blocks = ls_check_sums(n);
    twin t[4] = {make(n), make(n), make(n), make(n)}, half = make(n), out = make_words(16, 0),
         made = make_words(blocks + 1, 0);
    float *at[4] = {t[0].dev, t[1].dev, t[2].dev, t[3].dev};
    uint64_t *damage = (uint64_t *)(void *)made.dev + blocks;
    ls_hash128 *sums = (ls_hash128 *)(void *)out.dev, got, want = {12, 13}; /* sums grow: what make_words() put there */
    ls_update_piece piece = checked_piece(&c, &step, at, sums, (ls_update_check){(uint64_t *)(void *)made.dev, damage});
    piece.mode = LS_UPDATE_RECORD;
    ok(ls_device_fill(device, damage, 0, sizeof *damage));
    ok(ops->update(device, &(ls_update_call){&piece, 1}));
    piece.mode = LS_UPDATE_STEP;
    piece.copy = half.dev;
    piece.copy_dtype = copy;
    piece.sums.copy = sums + 6;
    piece.sums.copy_tensor = 35;
    ok(ops->update(device, &(ls_update_call){&piece, 1}));
    ok(ls_device_copy_out(device, half.ref, half.dev, n * sizeof(uint16_t)));
    ok(ls_device_copy_out(device, &got, sums + 6, sizeof got));
    ls_state_add_elems(&want, 35, 0, half.ref, n / 2);
    assert_true(ls_hash_equal(got, want));
    release();
}

static void all_copied(void) {
    static const size_t sizes[] = {2, 2046, 2048, 2050, 16 * 1024, 40002};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        check_copied((checked){.n = n, .end = n, .moments = 2, .first = 700}, LS_BF16);
        check_copied((checked){.n = n, .begin = n / 3, .end = n / 2 + 1, .moments = 2, .first = 701}, LS_F16);
        check_copied((checked){.n = n, .moments = 1, .first = 1024}, LS_BF16);
        check_copied((checked){.n = n, .begin = n / 2, .end = n, .first = ((uint64_t)1 << 40) + 4}, LS_F16);
    }
}

static void test_copied(void **state) {
    (void)state;
    on_every_device(all_copied);
}

static void all_checked(void) {
    static const size_t sizes[] = {1, 2047, 2048, 2049, 16 * 1024, 40001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        check_checked((checked){n, 0, n, n, 2, 0, 700});
        check_checked((checked){n, n / 3, n / 2, n, 2, 0, 701});
        check_checked((checked){n, 0, n, n / 2, 2, 0, 0});
        check_checked((checked){n, 0, 0, n - 1, 2, 2, 3});
        check_checked((checked){n, n / 2, n, 0, 1, 1, 1024});
        check_checked((checked){n, 0, n, n / 3, 0, 0, ((uint64_t)1 << 40) + 4});
    }
}

static void test_checked(void **state) {
    (void)state;
    on_every_device(all_checked);
}

static void all_state(void) {
    static const size_t sizes[] = {0, 1, 1023, 1024, 1025, 5000, 40001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_state(sizes[i], 0, sizes[i] + 1);
        check_state(sizes[i], 1023, 1000);
        check_state(sizes[i], ((uint64_t)1 << 40) + 17, 333);
        check_updated((updated){sizes[i], 0, sizes[i], 2, LS_F32, 700, 1});
        check_updated((updated){sizes[i], sizes[i] / 3, sizes[i] / 2, 2, LS_BF16, 700, 1});
        check_updated((updated){sizes[i], 0, sizes[i] / 2, 1, LS_F16, 701, 1});
        check_updated((updated){sizes[i], 0, 0, 0, LS_F32, 1020, 1});
    }
    check_updated((updated){40000, 1024, 3 * 1024, 2, LS_BF16, 1024, 1});
    check_updated((updated){40000, 1024, 3 * 1024, 1, LS_F32, ((uint64_t)1 << 40) + 4, 5});
    check_updated((updated){9000, 100, 8000, 2, LS_F32, 0, UPDATED_PIECES});
}

static void all_sums(void) {
    static const size_t sizes[] = {0, 1, 15, 16, 1023, 1024, 1025, 16 * 1024 + 1, 70001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 4; how++) check_squares(sizes[i], how % 2, how / 2);
    check_losses(0, 5, 0);
    check_losses(1, 1, 0);
    check_losses(3, 50, 0);
    check_losses(7, 301, 17);
    check_losses(2, 20000, 1);
    check_right(1, 1);
    check_right(50, 10);
    check_right(9, 33);
    check_right(17, 1000);
}

static void test_sums(void **state) {
    (void)state;
    on_every_device(all_sums);
}

static void test_state(void **state) {
    (void)state;
    on_every_device(all_state);
}

/* Whatever bit of whatever element changes, the sum does; and it knows places, tensors and order. */
static void test_state_differs(void **state) {
    (void)state;
    enum { N = 3000 };
    static float x[N];
    for (size_t i = 0; i < N; i++) x[i] = ls_rng_uniform_f32(ls_rng_key_make(9, 0, 0), i) - 0.5f;
    ls_hash128 whole = {0, 0}, other = {0, 0}, moved = {0, 0};
    ls_state_add_elems(&whole, 3, 0, x, N);
    ls_state_add_elems(&other, 4, 0, x, N);
    ls_state_add_elems(&moved, 3, 1, x, N);
    assert_false(ls_hash_equal(whole, other) || ls_hash_equal(whole, moved));
    for (size_t i = 0; i < N; i += 7)
        for (unsigned bit = 0; bit < 32; bit++) {
            ls_hash128 sum = whole, was = {0, 0}, is = {0, 0};
            uint32_t bits;
            float changed;
            memcpy(&bits, &x[i], sizeof bits);
            bits ^= 1u << bit;
            memcpy(&changed, &bits, sizeof bits);
            ls_state_add_elems(&was, 3, i, &x[i], 1);
            ls_state_add_elems(&is, 3, i, &changed, 1);
            sum.lo += is.lo - was.lo;
            sum.hi += is.hi - was.hi;
            assert_true(sum.lo != whole.lo && sum.hi != whole.hi);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_state),
                                       cmocka_unit_test(test_checked), cmocka_unit_test(test_copied),
                                       cmocka_unit_test(test_state_differs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
