/* test_ops_groups.c: gradients of parameters as sums over tokens, against docs/reference/arithmetic.md, "Sums over
 * tokens", written down here in single values; on every ISA and number of threads, for one call and for any cut into
 * micro-batches. */
#include <math.h>

#include "device/cpu/cpu.h"
#include "ops.h"

enum { SEQUENCES_MAX = 140, GROUPS_MAX = 6, VOCABULARY = 13, ID_BEGIN = 2, ID_END = 11 };

/* Groups of sequences; the first bound is 0. */
typedef struct cut {
    int groups;
    size_t bounds[GROUPS_MAX + 1];
} cut;

static const cut cuts[] = {
    {1, {0, 1}},
    {1, {0, 5}},
    {2, {0, 3, 4}},
    {3, {0, 2, 3, 6}},
    {3, {0, 2, 2, 3}}, /* the second has no sequence */
    {5, {0, 1, 3, 4, 7, 8}},
    {6, {0, 1, 2, 4, 5, 6, 9}},
    {4, {0, 63, 65, 100, 140}}, /* more sequences than a GPU joins at a time */
};
enum { MANY = sizeof cuts / sizeof *cuts - 1, N_CUTS = MANY };

static ls_token_groups groups_of(const cut *c, size_t T, int slices) {
    return (ls_token_groups){.T = T, .slices = slices, .groups = c->groups, .bounds = c->bounds};
}

/* ---- the contract ------------------------------------------------------------------------------------------------ */

/* A sum that may have no term. */
typedef struct maybe {
    bool there;
    float value;
} maybe;

static maybe plus(maybe a, maybe b) {
    if (!a.there) return b;
    if (!b.there) return a;
    return (maybe){true, a.value + b.value};
}

static maybe tree_of(const maybe *x, int n) {
    int left = 1;
    if (n == 1) return x[0];
    while (2 * left < n) left *= 2;
    return plus(tree_of(x, left), tree_of(x + left, n - left));
}

/* What one token adds to a column of a one-dimensional parameter: a·b, or a alone. */
typedef struct factors {
    const float *dy, *x, *mean, *rstd; /* of the call; x NULL: a sum, mean NULL: no mean */
    size_t dy_stride, x_stride;
} factors;

static float chain_step(const factors *f, size_t row, size_t c, float sum) {
    float dy = f->dy[row * f->dy_stride + c];
    if (!f->x) return sum + dy;
    float x = f->x[row * f->x_stride + c], d = f->mean ? x - f->mean[row] : x, h = d * f->rstd[row];
    return fmaf(dy, h, sum);
}

static maybe slice_chain(const factors *f, const ls_token_groups *g, size_t sequence, size_t slice, size_t c) {
    size_t T = g->T, S = (size_t)g->slices, begin = slice * T / S, end = (slice + 1) * T / S;
    maybe sum = {.there = false}, chain = {.there = true, .value = 0.0f};
    for (size_t t = begin; t < end; t++) {
        chain.value = chain_step(f, sequence * T + t, c, chain.value);
        if (t + 1 < end && !(g->block && (t + 1 - begin) % g->block == 0)) continue;
        sum = plus(sum, chain);
        chain.value = 0.0f;
    }
    return sum;
}

/* `before`: what the last call left, where the sum goes on. */
static float expect_slice(const factors *f, const ls_token_groups *g, size_t slice, size_t c, maybe before) {
    maybe sums[GROUPS_MAX];
    for (int i = 0; i < g->groups; i++) {
        sums[i] = before;
        for (size_t s = g->bounds[i]; s < g->bounds[i + 1]; s++)
            sums[i] = plus(sums[i], slice_chain(f, g, s, slice, c));
    }
    maybe sum = tree_of(sums, g->groups);
    return sum.there ? sum.value : -0.0f;
}

static void expect_slices(float *out, const factors *f, const ls_token_groups *g, size_t C) {
    for (size_t slice = 0; slice < (size_t)g->slices; slice++)
        for (size_t c = 0; c < C; c++) {
            float *to = &out[slice * C + c];
            *to = expect_slice(f, g, slice, c, (maybe){g->accumulate, *to});
        }
}

/* Tokens of one position, or of one id. */
static maybe expect_row(const float *dy, size_t dy_stride, const int32_t *ids, const ls_token_groups *g, int32_t which,
                        size_t c, maybe before) {
    maybe sums[GROUPS_MAX];
    for (int i = 0; i < g->groups; i++) {
        sums[i] = before;
        for (size_t row = g->bounds[i] * g->T; row < g->bounds[i + 1] * g->T; row++)
            if ((ids ? ids[row] : (int32_t)(row % g->T)) == which)
                sums[i] = plus(sums[i], (maybe){true, dy[row * dy_stride + c]});
    }
    return tree_of(sums, g->groups);
}

static void expect_positions(float *out, const float *dy, size_t dy_stride, const ls_token_groups *g, size_t C) {
    for (size_t t = 0; t < g->T; t++)
        for (size_t c = 0; c < C; c++) {
            maybe sum = expect_row(dy, dy_stride, NULL, g, (int32_t)t, c, (maybe){g->accumulate, out[t * C + c]});
            out[t * C + c] = sum.value;
        }
}

static void expect_tokens(float *out, const float *dy, size_t dy_stride, const int32_t *ids, const ls_token_groups *g,
                          size_t C) {
    for (int32_t id = ID_BEGIN; id < ID_END; id++)
        for (size_t c = 0; c < C; c++) {
            float *to = &out[(size_t)(id - ID_BEGIN) * C + c];
            maybe sum = expect_row(dy, dy_stride, ids, g, id, c, (maybe){g->accumulate, *to});
            if (!sum.there) continue;
            *to = g->accumulate ? sum.value : sum.value + *to;
        }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

typedef struct tensors {
    twin x, dy, mean, rstd, ids, dw, db, dw_rms, dbias, dtoken, dposition;
    size_t T, C, x_stride, dy_stride;
} tensors;

static tensors make_tensors(size_t sequences, size_t T, size_t S, size_t C) {
    tensors t = {.T = T, .C = C, .x_stride = C + 3, .dy_stride = C + 1};
    size_t rows = sequences * T;
    t.x = make(rows * t.x_stride), t.dy = make(rows * t.dy_stride), t.mean = make(rows), t.rstd = make(rows);
    t.ids = make_ids(rows, VOCABULARY, 0);
    t.dw = make(S * C), t.db = make(S * C), t.dw_rms = make(S * C), t.dbias = make(S * C);
    t.dtoken = make((ID_END - ID_BEGIN) * C), t.dposition = make(T * C);
    return t;
}

/* Sequences first … first + bounds[groups] − 1 of the tensors. */
static void call_all(const tensors *t, const ls_token_groups *g, size_t first) {
    size_t row = first * t->T, rows = g->bounds[g->groups] * t->T;
    const float *dy = t->dy.dev + row * t->dy_stride;
    ls_norm_call norm = {.rows = rows,
                         .C = t->C,
                         .x = t->x.dev + row * t->x_stride,
                         .x_stride = t->x_stride,
                         .dy = dy,
                         .dy_stride = t->dy_stride,
                         .mean = t->mean.dev + row,
                         .rstd = t->rstd.dev + row,
                         .dw = t->dw.dev,
                         .db = t->db.dev};
    ls_embed_tokens tokens = {ids_of(t->ids.dev) + row, ID_BEGIN, ID_END, rows, t->C};
    norm.groups = g;
    ok(ops->norm_params(device, &norm));
    norm.mean = norm.db = NULL, norm.dw = t->dw_rms.dev, norm.rms = true;
    norm.groups = g;
    ok(ops->norm_params(device, &norm));
    ok(ops->bias_grad(device, &(ls_bias_grad_call){t->dbias.dev, dy, LS_F32, t->dy_stride, t->C, g}));
    ok(ops->embed_token_grad(device, &(ls_token_grad_call){t->dtoken.dev, dy, t->dy_stride, &tokens, g}));
    ok(ops->embed_position_grad(device, &(ls_position_grad_call){t->dposition.dev, dy, t->dy_stride, t->C, g}));
}

static void expect_all(const tensors *t, const ls_token_groups *g) {
    factors f = {t->dy.ref, t->x.ref, t->mean.ref, t->rstd.ref, t->dy_stride, t->x_stride};
    expect_slices(t->dw.ref, &f, g, t->C);
    f.mean = NULL;
    expect_slices(t->dw_rms.ref, &f, g, t->C);
    f.x = NULL;
    expect_slices(t->db.ref, &f, g, t->C);
    expect_slices(t->dbias.ref, &f, g, t->C);
    expect_tokens(t->dtoken.ref, t->dy.ref, t->dy_stride, ids_of(t->ids.ref), g, t->C);
    expect_positions(t->dposition.ref, t->dy.ref, t->dy_stride, g, t->C);
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {1, 3, 7, 64};
static const int slice_counts[] = {1, 2, 8};
enum { N_LENGTHS = 4, N_SLICE_COUNTS = 3 };

static void check_blocks(const cut *c, size_t T, int slices, size_t C, bool accumulate, size_t block) {
    ls_token_groups g = groups_of(c, T, slices);
    g.accumulate = accumulate;
    g.block = block;
    tensors t = make_tensors(c->bounds[c->groups], T, (size_t)slices, C);
    call_all(&t, &g, 0);
    expect_all(&t, &g);
    check(accumulate ? "going on" : "groups", T, (size_t)slices);
}

static void check_call(const cut *c, size_t T, int slices, size_t C, bool accumulate) {
    check_blocks(c, T, slices, C, accumulate, 0);
}

static void all_calls(void) {
    for (int l = 0; l < N_LENGTHS; l++)
        for (int s = 0; s < N_SLICE_COUNTS; s++)
            for (int i = 0; i < N_CUTS; i++) {
                size_t C = (size_t[]){1, 19, 67}[(l + s + i) % 3];
                check_call(&cuts[i], lengths[l], slice_counts[s], C, false);
                if (cuts[i].groups == 1) check_call(&cuts[i], lengths[l], slice_counts[s], C, true);
            }
    /* Rows wide enough to be cut. */
    check_call(&cuts[6], 3, 2, 2500, false);
    check_call(&cuts[MANY], 2, 2, 3, false);
    check_call(&cuts[1], 7, 1, 777, true);
    /* Chains of blocks: one, several, a last one that is shorter. */
    check_blocks(&cuts[6], 64, 2, 19, false, 64);
    check_blocks(&cuts[1], 64, 2, 67, true, 5);
    check_blocks(&cuts[4], 150, 1, 4, false, 64);
    check_blocks(&cuts[6], 7, 2, 1, false, 1);
    /* Many tokens with one id. */
    check_call(&cuts[1], 200, 1, 5, true);
    check_call(&cuts[6], 200, 3, 4, false);
}

static void test_calls(void **state) {
    (void)state;
    on_every_device(all_calls);
}

/* ---- micro-batches ----------------------------------------------------------------------------------------------- */

/* Bit i of `ends`: a micro-batch ends behind sequence i. The first call assigns, except to the token table, where it
 * goes on from −0. */
static void check_micro_batches(size_t sequences, unsigned ends, size_t T, int slices) {
    enum { C = 21 };
    const size_t whole[2] = {0, sequences};
    ls_token_groups g = {.T = T, .slices = slices, .groups = 1, .bounds = whole};
    tensors t = make_tensors(sequences, T, (size_t)slices, C);
    ok(ops->set(device, &(ls_set_call){t.dtoken.dev, -0.0f, t.dtoken.elems}));
    for (size_t i = 0; i < t.dtoken.elems; i++) t.dtoken.ref[i] = -0.0f;
    expect_all(&t, &g);
    for (size_t first = 0, end = 1; end <= sequences; end++) {
        if (end < sequences && !(ends >> (end - 1) & 1)) continue;
        const size_t part[2] = {0, end - first};
        g.bounds = part;
        g.accumulate = first > 0;
        call_all(&t, &g, first);
        first = end;
    }
    check("micro-batches", sequences, ends);
}

static void all_micro_batches(void) {
    for (unsigned ends = 0; ends < 16; ends++)
        for (int s = 0; s < N_SLICE_COUNTS; s++) {
            check_micro_batches(5, ends, 7, slice_counts[s]);
            check_micro_batches(5, ends, 3, slice_counts[s]);
        }
}

static void test_micro_batches(void **state) {
    (void)state;
    on_every_device(all_micro_batches);
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* A large table, and ids that differ in their upper bits alone; one id has half of the rows. */
static void check_many_ids(void) {
    enum { V = 5000000, ROWS = 300, C = 3, T = 50 };
    const size_t bounds[4] = {0, 1, 4, ROWS / T};
    ls_token_groups g = {.T = T, .slices = 1, .groups = 3, .bounds = bounds};
    int32_t ids[ROWS];
    twin dy = make(ROWS * C);
    void *table_memory, *ids_memory;
    float *got = malloc(sizeof(float) * V * C);
    assert_non_null(got);
    ok(ls_device_alloc(device, sizeof(float) * V * C, &table_memory));
    ok(ls_device_alloc(device, sizeof ids, &ids_memory));
    for (size_t r = 0; r < ROWS; r++)
        ids[r] = r % 2 ? 1 << 20 : (int32_t)ls_rng_below(ls_rng_key_make(8, 1, 0), r / 4, V >> 15) << 15;
    ok(ls_device_copy_in(device, ids_memory, ids, sizeof ids));
    ls_embed_tokens tokens = {ids_memory, 0, V, ROWS, C};
    ok(ops->embed_token_grad(device, &(ls_token_grad_call){table_memory, dy.dev, C, &tokens, &g}));
    ok(ls_device_copy_out(device, got, table_memory, sizeof(float) * V * C));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < C; c++) {
            maybe sum = expect_row(dy.ref, C, ids, &g, ids[r], c, (maybe){0});
            assert_true(sum.there && got[(size_t)ids[r] * C + c] == sum.value + 0.0f);
        }
    for (size_t i = 0, touched = 0; i < (size_t)V; i++, touched = 0) {
        for (size_t c = 0; c < C; c++) touched |= got[i * C + c] != 0;
        for (size_t r = 0; r < ROWS && touched; r++) touched = ids[r] != (int32_t)i;
        assert_true(!touched);
    }
    ls_device_free(device, table_memory);
    ls_device_free(device, ids_memory);
    free(got);
    check("many ids", ROWS, V);
}

static void test_many_ids(void **state) {
    (void)state;
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    ok(ls_device_open_cpu(thread_count = 3, NULL, &table, &device));
    ops = device->ops;
    check_many_ids();
    ls_device_destroy(device);
    on_cuda(check_many_ids);
}

/* ---- refusals, scratch ------------------------------------------------------------------------------------------- */

static void refuse(ls_token_groups g, const char *because) {
    float x = 0;
    assert_int_equal(ops->bias_grad(device, &(ls_bias_grad_call){&x, &x, LS_F32, 1, 1, &g}), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), because));
    assert_int_equal(ops->embed_position_grad(device, &(ls_position_grad_call){&x, &x, 1, 1, &g}), LS_ERR_INPUT);
}

static void check_refusals(void) {
    const size_t two[3] = {0, 1, 2}, down[3] = {0, 2, 1}, late[2] = {1, 2};
    refuse((ls_token_groups){.T = 1, .slices = 1, .groups = 0, .bounds = two}, "0 groups");
    refuse((ls_token_groups){.T = 1, .slices = 1, .groups = LS_GROUPS_MAX + 1, .bounds = two}, "4097 groups");
    refuse((ls_token_groups){.T = 0, .slices = 1, .groups = 1, .bounds = two}, "0 tokens");
    refuse((ls_token_groups){.T = 1, .slices = 0, .groups = 1, .bounds = two}, "0 slices");
    refuse((ls_token_groups){.T = 1, .slices = 1, .groups = 2, .bounds = two, .accumulate = true}, "1 group, not 2");
    refuse((ls_token_groups){.T = 1, .slices = 1, .groups = 2, .bounds = down}, "group 1");
    refuse((ls_token_groups){.T = 1, .slices = 1, .groups = 1, .bounds = late}, "start at 0");
    ls_token_groups g = {.T = 3, .slices = 1, .groups = 2, .bounds = two};
    ls_norm_call norm = {.rows = 5, .C = 1};
    norm.groups = &g;
    assert_int_equal(ops->norm_params(device, &norm), LS_ERR_INPUT);
    norm.rms = true;
    norm.groups = &g;
    assert_int_equal(ops->norm_params(device, &norm), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "5 rows"));
    assert_int_equal(
        ops->embed_token_grad(device, &(ls_token_grad_call){NULL, NULL, 1, &(ls_embed_tokens){.rows = 5, .C = 1}, &g}),
        LS_ERR_INPUT);
}

static void test_refusals(void **state) {
    (void)state;
    ok(ls_device_open_cpu(1, NULL, NULL, &device));
    ops = device->ops;
    check_refusals();
    ls_device_destroy(device);
    on_cuda(check_refusals);
}

static void test_scratch(void **state) {
    (void)state;
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    ok(ls_device_open_cpu(thread_count = 3, NULL, &table, &device));
    ops = device->ops;
    const ls_cpu_device *cpu = (const ls_cpu_device *)(const void *)device;
    all_calls();
    const void *scratch = cpu->scratch;
    size_t bytes = cpu->scratch_bytes;
    all_calls();
    assert_true(scratch && cpu->scratch == scratch && cpu->scratch_bytes == bytes);
    ls_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),    cmocka_unit_test(test_micro_batches), cmocka_unit_test(test_many_ids),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
