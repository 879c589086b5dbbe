/* test_ops_packs.c: operations on tensors that begin at multiples of 64 bytes and whose rows are whole packs, against
 * the same call on tensors one element further on: a device may load several elements at once where it can, and no bit
 * may show it. What the bits have to be is in the other tests, whose strides are odd. Also sums of very many tensors.
 */
#include <math.h>

#include "ops.h"

enum { TENSORS_MAX = 24 };

/* A tensor of the case that runs, once for each place. */
typedef struct shifted {
    void *memory;
    unsigned char *content; /* afterwards */
    size_t bytes;
    ls_dtype dtype;
} shifted;

static shifted all[2][TENSORS_MAX];
static int made, place; /* place 1: one element further on */

static size_t width_of(ls_dtype dtype) { return dtype == LS_F32 ? 4 : 2; }

static void *keep(const void *content, size_t bytes, ls_dtype dtype) {
    assert_true(made < TENSORS_MAX);
    shifted *t = &all[place][made++];
    size_t behind = (size_t)place * width_of(dtype);
    *t = (shifted){.bytes = bytes, .dtype = dtype};
    ok(ls_device_alloc(device, bytes + 64, &t->memory));
    ok(ls_device_copy_in(device, (char *)t->memory + behind, content, bytes));
    return (char *)t->memory + behind;
}

/* Numbers in −2 … 2, some of them special. */
static void *some(size_t elems, ls_dtype dtype) {
    static const float special[8] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-42f, 3e38f};
    float *x = malloc(elems * sizeof *x + 1);
    uint16_t *halves = malloc(elems * sizeof *halves + 1);
    assert_true(x && halves);
    for (size_t i = 0; i < elems; i++) {
        x[i] = 4 * ls_rng_uniform_f32(ls_rng_key_make(21, (uint32_t)made, elems), i) - 2;
        if (i % 97 == 13) x[i] = special[i / 97 % 8];
    }
    if (dtype == LS_BF16) portable.convert.f32_to_bf16(halves, x, elems);
    if (dtype == LS_F16) portable.convert.f32_to_f16(halves, x, elems);
    void *at = keep(dtype == LS_F32 ? (void *)x : halves, elems * width_of(dtype), dtype);
    free(x);
    free(halves);
    return at;
}

static int32_t *some_ids(size_t elems, size_t n) {
    int32_t *ids = malloc(elems * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < elems; i++) ids[i] = (int32_t)ls_rng_below(ls_rng_key_make(22, 0, n), i, n);
    int32_t *at = keep(ids, elems * sizeof *ids, LS_F32);
    free(ids);
    return at;
}

static int is_nan(uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; }

/* Equal but for the NaNs of fp32. */
static void compare(const char *what, int which) {
    const shifted *a = &all[0][which], *b = &all[1][which];
    for (size_t i = 0; i < a->bytes; i += width_of(a->dtype)) {
        uint32_t x = 0, y = 0;
        memcpy(&x, a->content + i, width_of(a->dtype));
        memcpy(&y, b->content + i, width_of(a->dtype));
        if (x != y && !(a->dtype == LS_F32 && is_nan(x) && is_nan(y)))
            fail_msg("%s, %s: tensor %d element %zu is %08x, and %08x one element further on", what, table.isa, which,
                     i / width_of(a->dtype), x, y);
    }
}

/* Calls `body` for both places. */
static void at_both(const char *what, void (*body)(void)) {
    for (place = 0; place < 2; place++) {
        made = 0;
        body();
        for (int i = 0; i < made; i++) {
            shifted *t = &all[place][i];
            t->content = malloc(t->bytes + 1);
            assert_non_null(t->content);
            ok(ls_device_copy_out(device, t->content, (char *)t->memory + (size_t)place * width_of(t->dtype),
                                  t->bytes));
            ls_device_free(device, t->memory);
        }
    }
    for (int i = 0; i < made; i++) {
        compare(what, i);
        free(all[0][i].content);
        free(all[1][i].content);
    }
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static size_t rows, C;
static ls_dtype type;

static void flat(void) {
    size_t n = rows * C;
    void *x = some(n, type), *dy = some(n, type), *y = some(n, type);
    float *a = some(n, LS_F32), *b = some(n, LS_F32), *c = some(n, LS_F32), *d = some(n, LS_F32);
    const ls_update_step adamw = {
        LS_OPTIMIZER_ADAMW, 0.5f, 1e-3f, 0.9f, 0.1f, 0.99f, 0.01f, 1.1f, 1e-8f, 0.999f, 0, 0, false};
    const ls_update_step sgd = {.rule = LS_OPTIMIZER_SGD,
                                .factor = 0.5f,
                                .rate = 0.1f,
                                .momentum = 0.9f,
                                .weight_decay = 0.01f,
                                .nesterov = true};
    int64_t found[LS_COUNTS + 2], *counts;
    void *memory;
    ok(ls_device_alloc(device, sizeof found, &memory));
    counts = memory;
    uint64_t *bad = (uint64_t *)counts + LS_COUNTS;
    for (int fn = 0; fn < LS_ACT_FNS; fn++) {
        ok(ops->act_forward(device, &(ls_act_call){.fn = (ls_act_fn)fn, .y = y, .x = x, .act = type, .n = n}));
        ok(ops->act_backward(device, &(ls_act_call){(ls_act_fn)fn, x, dy, y, type, n}));
    }
    ok(ops->find_bad(device, &(ls_find_bad_call){y, type, n, bad}));
    ok(ops->find_bad(device, &(ls_find_bad_call){a, LS_F32, n, bad + 1}));
    ok(ops->count(device, &(ls_count_call){counts, a, 0.125f, type, n}));
    ok(ops->difference(device, &(ls_difference_call){d, a, b, counts, n}));
    ok(ls_device_copy_out(device, found, memory, sizeof found));
    ls_device_free(device, memory);
    keep(found, sizeof found, LS_F32);
    ok(ops->add(device, &(ls_add_call){c, a, y, type, n}));
    ok(ops->scale(device, &(ls_scale_call){a, b, 0.3f, n}));
    void *copy = type == LS_F32 ? NULL : dy;
    ok(ops->update(device,
                   &(ls_update_call){
                       &(ls_update_piece){
                           .w = a, .moment = {b, c}, .copy = copy, .copy_dtype = type, .g = d, .step = &adamw, .n = n},
                       1}));
    ok(ops->update(
        device,
        &(ls_update_call){
            &(ls_update_piece){.w = d, .moment = {b}, .copy = copy, .copy_dtype = type, .g = c, .step = &sgd, .n = n},
            1}));
    ok(ops->update(
        device,
        &(ls_update_call){&(ls_update_piece){
                              .w = d, .moment = {NULL}, .copy = copy, .copy_dtype = type, .g = c, .step = &sgd, .n = n},
                          1}));
    const void *parts[3] = {x, y, x};
    const float *inputs[3] = {b, c, d};
    ok(ops->tree_sum(device, &(ls_tree_sum_call){a, parts, type, 3, n}));
    ok(ops->max(device, &(ls_max_call){d, inputs, 3, n}));
    ok(ops->set(device, &(ls_set_call){c, -0.0f, n - 1}));
    if (type == LS_F32) return;
    ok(ops->round(device, &(ls_round_call){b, a, type, n}));
    ok(ops->convert(device, &(ls_convert_call){x, type, b, LS_F32, n}));
    ok(ops->convert(device, &(ls_convert_call){b, LS_F32, y, type, n}));
}

static void gates(void) {
    size_t s = 2 * C + 8;
    void *in = some(rows * s, type), *y = some(rows * C, type), *dy = some(rows * C, type), *din = some(rows * s, type);
    ls_gated_call g = {.rows = rows, .columns = C, .act = type, .gate = in, .up = (char *)in + C * width_of(type)};
    g.in_stride = g.din_stride = s, g.y_stride = g.dy_stride = C;
    g.y = y, g.dy = dy, g.dgate = din, g.dup = (char *)din + C * width_of(type);
    for (int fn = 0; fn < LS_GATE_FNS; fn++) {
        g.fn = (ls_gate_fn)fn;
        ok(ops->gated_forward(device, &g));
        ok(ops->gated_backward(device, &g));
    }
    float *c = some(rows * s, LS_F32), *bias = some(C, LS_F32), *pre = some(rows * C, LS_F32),
          *z = some(rows * s, LS_F32);
    ok(ops->bias_gelu_forward(device, &(ls_bias_gelu_call){rows, C, c, s, bias, pre, C, z, s}));
    ok(ops->bias_add(device, &(ls_bias_add_call){dy, type, C, c, s, bias, rows, C}));
    ok(ops->bias_add(device, &(ls_bias_add_call){in, type, s, c, s, NULL, rows, C}));
}

static void dropouts(void) {
    for (int t = 0; t < 3; t++)
        for (int with = 0; with < 2; with++) {
            void *x = some(rows * (C + 8), type), *y = some(rows * C, (ls_dtype)t), *residual = some(rows * C, LS_F32);
            ls_dropout_call c = {.rows = rows, .columns = C, .drop.key = ls_rng_key_make(5, 6, 7), .drop.first = 1003};
            ls_drop_set_rate(&c.drop, 0.3);
            c.x = x, c.x_dtype = type, c.x_stride = C + 8, c.y = y, c.y_dtype = (ls_dtype)t, c.y_stride = C;
            c.residual = with ? residual : NULL, c.residual_stride = C;
            ok(ops->dropout_add(device, &c));
        }
}

static void embeddings(void) {
    enum { V = 11, PERIOD = 5 };
    const int32_t *ids = some_ids(rows, V + 2);
    void *token = some(V * C, type), *position = some(PERIOD * C, LS_F32), *y = some(rows * (C + 4), LS_F32);
    ls_embed_tokens tokens = {ids, 1, V + 1, rows, C};
    ok(ops->embed_forward(device, &(ls_embed_call){y, C + 4, token, type, position, 3, PERIOD, &tokens}));
    size_t heads = 3, d = C, s = heads * d + 8;
    void *x = some(rows * s, type), *turned = some(rows * heads * d, type);
    void *cosines = some(PERIOD * d / 2, LS_F32), *sines = some(PERIOD * d / 2, LS_F32);
    ls_rope_call r = {type, turned, heads * d, d, x, s, d, rows, heads, d, cosines, sines, 3, PERIOD};
    ok(ops->rope_forward(device, &r));
    r.y = x, r.y_row_stride = s;
    ok(ops->rope_backward(device, &r));
}

static void losses(void) {
    enum { SLICES = 3 };
    size_t V = 4 * C + 16, bounds[SLICES + 1] = {4, 4 + V / 7, 4 + V / 2, V};
    const int32_t *ids = some_ids(rows, V - 4);
    float *z = some(rows * V, LS_F32), *m = some(rows, LS_F32), *l = some(rows, LS_F32), *loss = some(rows, LS_F32);
    float *at_target = some(rows, LS_F32), *sums = some(rows * SLICES, LS_F32);
    void *dz = some(rows * V, type), *again = some(rows * V, type);
    ls_loss_call c = {.rows = rows, .z = z, .z_stride = V, .bounds = bounds, .slices = SLICES, .targets = ids};
    c.id_begin = -4, c.m = m, c.l = l, c.loss = loss, c.dz = dz, c.dz_dtype = type, c.dz_stride = V, c.g = 0.125f;
    ok(ops->loss_rows(device, &c));
    c.z_target = at_target, c.sums = sums, c.dz = again;
    ok(ops->loss_max(device, &c));
    ok(ops->loss_sums(device, &c));
    ok(ops->loss_grad(device, &c));
}

/* Enough columns and tokens for whole packs everywhere. */
static void token_sums(void) {
    enum { SEQUENCES = 9, T = 18, SLICES = 4, WIDE = 2048, V = 60 };
    static const size_t bounds[5] = {0, 2, 3, 7, SEQUENCES};
    size_t n = SEQUENCES * T;
    ls_token_groups g = {.T = T, .slices = SLICES, .groups = 4, .bounds = bounds};
    void *dy = some(n * WIDE, type), *x = some(n * WIDE, LS_F32), *mean = some(n, LS_F32), *rstd = some(n, LS_F32);
    void *dw = some(SLICES * WIDE, LS_F32), *db = some(SLICES * WIDE, LS_F32), *dbias = some(SLICES * WIDE, LS_F32);
    ls_norm_call c = {.rows = n, .C = WIDE, .act = type, .x = x, .x_stride = WIDE, .dy = dy, .dy_stride = WIDE};
    c.mean = mean, c.rstd = rstd, c.dw = dw, c.db = db;
    c.groups = &g;
    ok(ops->norm_params(device, &c));
    c.rms = true, c.dw = dbias;
    c.groups = &g;
    ok(ops->norm_params(device, &c));
    ok(ops->bias_grad(device, &(ls_bias_grad_call){some(SLICES * WIDE, LS_F32), dy, type, WIDE, WIDE, &g}));
    if (type != LS_F32) return;
    ls_embed_tokens tokens = {some_ids(n, V), 3, V - 3, n, WIDE};
    ok(ops->embed_token_grad(device, &(ls_token_grad_call){some(V * WIDE, LS_F32), dy, WIDE, &tokens, &g}));
    ok(ops->embed_position_grad(device, &(ls_position_grad_call){some(2 * T * WIDE, LS_F32), dy, WIDE, WIDE, &g}));
    g.T = 2 * T, g.groups = 1, g.accumulate = true;
    g.bounds = (const size_t[2]){0, 4};
    ok(ops->embed_position_grad(device, &(ls_position_grad_call){some(2 * T * WIDE, LS_F32), dy, WIDE, WIDE, &g}));
}

static void all_packs(void) {
    static const size_t shapes[][2] = {{1, 8}, {3, 64}, {5, 1032}, {40, 24}};
    for (int t = 0; t < 3; t++) {
        type = (ls_dtype)t;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            rows = shapes[i][0], C = shapes[i][1];
            at_both("flat", flat);
            at_both("gates", gates);
            at_both("dropout", dropouts);
            at_both("embeddings", embeddings);
            at_both("loss", losses);
        }
        at_both("sums over tokens", token_sums);
    }
}

static void test_packs(void **state) {
    (void)state;
    on_every_device(all_packs);
}

/* ---- many tensors ------------------------------------------------------------------------------------------------ */

static float tree(const float *x, int n, size_t step) {
    int left = 1;
    if (n == 1) return x[0];
    while (2 * left < n) left *= 2;
    return tree(x, left, step) + tree(x + (size_t)left * step, n - left, step);
}

static void check_many(int leaves, size_t n) {
    twin x = make((size_t)leaves * n), out = make(n);
    const void **parts = malloc((size_t)leaves * sizeof *parts);
    assert_non_null(parts);
    for (int i = 0; i < leaves; i++) parts[i] = x.dev + (size_t)i * n;
    ok(ops->tree_sum(device, &(ls_tree_sum_call){out.dev, parts, LS_F32, leaves, n}));
    for (size_t e = 0; e < n; e++) out.ref[e] = tree(x.ref + e, leaves, n);
    free(parts);
    check("many", (size_t)leaves, n);
}

/* A group for each token: their sums are the tree itself. Token g has id 0, others are elsewhere. */
static void check_many_groups(int groups, size_t n) {
    size_t tokens = (size_t)groups;
    twin dy = make(tokens * n), db = make(n), dposition = make(n), dtoken = make(n), ids = make(tokens);
    size_t *bounds = malloc((tokens + 1) * sizeof *bounds);
    assert_non_null(bounds);
    for (size_t i = 0; i <= tokens; i++) bounds[i] = i;
    memset(ids.ref, 0, tokens * sizeof(int32_t));
    ok(ls_device_copy_in(device, ids.dev, ids.ref, tokens * sizeof(int32_t)));
    ls_token_groups g = {.T = 1, .slices = 1, .groups = groups, .bounds = bounds};
    ls_embed_tokens looked_up = {ids_of(ids.dev), 0, 1, tokens, n};
    ok(ops->bias_grad(device, &(ls_bias_grad_call){db.dev, dy.dev, LS_F32, n, n, &g}));
    ok(ops->embed_position_grad(device, &(ls_position_grad_call){dposition.dev, dy.dev, n, n, &g}));
    ok(ops->embed_token_grad(device, &(ls_token_grad_call){dtoken.dev, dy.dev, n, &looked_up, &g}));
    for (size_t e = 0; e < n; e++) {
        float sum = tree(dy.ref + e, groups, n);
        db.ref[e] = dposition.ref[e] = sum;
        dtoken.ref[e] = sum + dtoken.ref[e];
    }
    free(bounds);
    check("many groups", tokens, n);
}

/* A row of zeros has the right maximum. */
static void check_many_slices(size_t slices, size_t V, float special) {
    enum { ROWS = 3 };
    size_t *bounds = malloc((slices + 1) * sizeof *bounds);
    assert_non_null(bounds);
    for (size_t i = 0; i <= slices; i++) bounds[i] = i * V / slices;
    twin z = make(ROWS * V), ids = make_ids(ROWS, V, 0), m = make(ROWS), l = make(ROWS), loss = make(ROWS),
         dz = make(ROWS * V);
    for (size_t i = 0; i < V; i++) z.ref[V + i] = i % 3 == 1 ? -1.0f : -0.0f;
    z.ref[V + V / 2] = special;
    for (size_t i = 0; i < V; i++) z.ref[2 * V + i] *= 40; /* exponentials of all sizes */
    ok(ls_device_copy_in(device, z.dev, z.ref, ROWS * V * sizeof(float)));
    ls_loss_call c = {
        .rows = ROWS, .z = z.dev, .z_stride = V, .bounds = bounds, .slices = slices, .targets = ids_of(ids.dev)};
    c.m = m.dev, c.l = l.dev, c.loss = loss.dev, c.dz = dz.dev, c.dz_stride = V, c.g = 0.5f;
    ok(ops->loss_rows(device, &c));
    for (size_t r = 0; r < ROWS; r++) {
        ls_loss_row row =
            portable.loss.row(dz.ref + r * V, z.ref + r * V, bounds, slices, (size_t)ids_of(ids.ref)[r], 0.5f);
        m.ref[r] = row.m, l.ref[r] = row.l, loss.ref[r] = row.loss;
    }
    free(bounds);
    check("many slices", slices, V);
}

/* More pieces than one launch of a GPU takes, with two rules; some begin where no pack does, some have nothing. */
static void all_updates(void) {
    enum { PIECES = 600, ELEMS = 40000 };
    static ls_update_piece dev[PIECES], ref[PIECES];
    const ls_update_step adamw = {LS_OPTIMIZER_ADAMW, 0.5f, 1e-2f, 0.9f, 0.1f, 0.95f, 0.05f, 2, 1e-8f, 0.75f, 0, 0, 0};
    ls_update_step plain = adamw, sgd = {.rule = LS_OPTIMIZER_SGD, .factor = 2, .rate = 0.25f, .momentum = 0.5f};
    plain.decay = 1;
    twin w = make(ELEMS), g = make(ELEMS), m = make(ELEMS), v = make(ELEMS), copy = make(ELEMS / 2);
    for (size_t i = 0; i < ELEMS; i++) v.ref[i] = fabsf(v.ref[i]);
    ok(ls_device_copy_in(device, v.dev, v.ref, ELEMS * sizeof(float)));
    size_t at = 0;
    for (int i = 0; i < PIECES; i++) {
        const size_t n = i == 1 ? 20011 : (size_t)i * 7 % 40;
        const bool is_sgd = i >= 300 && i < 303, has_copy = i % 3 != 0;
        const ls_update_step *step = is_sgd ? &sgd : i % 2 ? &plain : &adamw;
        dev[i] = (ls_update_piece){
            .w = w.dev + at, .moment = {m.dev + at, is_sgd ? NULL : v.dev + at}, .g = g.dev + at, .step = step, .n = n};
        ref[i] = (ls_update_piece){
            .w = w.ref + at, .moment = {m.ref + at, is_sgd ? NULL : v.ref + at}, .g = g.ref + at, .step = step, .n = n};
        if (has_copy) dev[i].copy = halves_of(copy.dev) + at, dev[i].copy_dtype = LS_BF16;
        if (has_copy) ref[i].copy = halves_of(copy.ref) + at, ref[i].copy_dtype = LS_BF16;
        portable.optim.update(&ref[i], 0, n);
        at += i % 5 ? (n + 7) / 8 * 8 : n;
    }
    assert_true(at <= ELEMS);
    ok(ops->update(device, &(ls_update_call){dev, PIECES}));
    check("updates", PIECES, at);
}

static void test_updates(void **state) {
    (void)state;
    on_every_device(all_updates);
}

/* Rows that a GPU cuts into 2, 4 and 8 parts: between slices, inside of them, several in one; and where it cannot. */
static void all_parts(void) {
    for (int i = 0; i < 7; i++)
        check_many_slices((size_t[]){2, 1, 8, 2, 5, 12, 3}[i],
                          (size_t[]){30016, 60003, 30000, 120000, 120000, 57600, 30001}[i],
                          (float[]){0.0f, -0.0f, 1.0f, 0.0f, NAN, 2.0f, 0.0f}[i]);
}

static void all_many(void) {
    for (int i = 0; i < 4; i++) {
        check_many_groups((int[]){64, 65, 100, 4096}[i], (size_t[]){3, 68, 5, 4}[i]);
        check_many_slices((size_t[]){64, 65, 1, 4096}[i], (size_t[]){997, 1000, 40, 9000}[i],
                          (float[]){0.0f, -0.0f, NAN, 1.0f}[i]);
    }
    static const int leaves[] = {8, 9, 16, 17, 31, 100, 1023, 4095, 4096};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        check_many(leaves[i], 4);
        check_many(leaves[i], 7);
    }
}

static void test_many(void **state) {
    (void)state;
    on_every_device(all_many);
}

static void test_parts(void **state) {
    (void)state;
    ls_kernels_fill(&portable, 1u << LS_ISA_PORTABLE);
    on_cuda(all_parts);
}

static void check_peak(void) {
    assert_true(ops->peak_flops_s(device, LS_UNIT_CHAIN) > 0);
    assert_true(ops->peak_flops_s(device, LS_UNIT_AMX) == 0);
}

static void test_peak(void **state) {
    (void)state;
    on_cuda(check_peak);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packs), cmocka_unit_test(test_peak),
                                       cmocka_unit_test(test_many), cmocka_unit_test(test_updates),
                                       cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
