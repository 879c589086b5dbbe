/* test_ops_half.c: operations on flat 16-bit arrays: the bits of the portable fp32 kernel on widened inputs, rounded
 * once by the test's own code; on every ISA and number of threads. Rows are in test_ops_half_rows.c. */
#include "halves.h"

static ls_dtype type;

/* ---- activations ------------------------------------------------------------------------------------------------- */

static void check_act(size_t n) {
    const ls_act_kernels *k = &portable.act;
    half x = make_half(n, type), dy = make_half(n, type), y[8], same[2] = {make_half(n, type), make_half(n, type)};
    float *out = scratch_of(n);
    for (int i = 0; i < 8; i++) y[i] = make_half(n, type);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_GELU, y[0].t.dev, NULL, x.t.dev, type, n}));
    k->forward[LS_ACT_GELU](out, x.wide, n);
    expect(y[0], 0, out, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_GELU, y[1].t.dev, dy.t.dev, x.t.dev, type, n}));
    k->backward[LS_ACT_GELU](out, dy.wide, x.wide, n);
    expect(y[1], 0, out, n);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_SILU, y[2].t.dev, NULL, x.t.dev, type, n}));
    k->forward[LS_ACT_SILU](out, x.wide, n);
    expect(y[2], 0, out, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_SILU, y[3].t.dev, dy.t.dev, x.t.dev, type, n}));
    k->backward[LS_ACT_SILU](out, dy.wide, x.wide, n);
    expect(y[3], 0, out, n);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_RELU, y[4].t.dev, NULL, x.t.dev, type, n}));
    k->forward[LS_ACT_RELU](out, x.wide, n);
    expect(y[4], 0, out, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_RELU, y[5].t.dev, dy.t.dev, x.t.dev, type, n}));
    k->backward[LS_ACT_RELU](out, dy.wide, x.wide, n);
    expect(y[5], 0, out, n);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_SIGMOID, y[6].t.dev, NULL, x.t.dev, type, n}));
    k->forward[LS_ACT_SIGMOID](out, x.wide, n);
    expect(y[6], 0, out, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_SIGMOID, y[7].t.dev, dy.t.dev, x.t.dev, type, n}));
    k->backward[LS_ACT_SIGMOID](out, dy.wide, x.wide, n);
    expect(y[7], 0, out, n);
    /* In place. */
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_GELU, same[0].t.dev, NULL, same[0].t.dev, type, n}));
    k->forward[LS_ACT_GELU](out, same[0].wide, n);
    expect(same[0], 0, out, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_GELU, same[1].t.dev, same[1].t.dev, x.t.dev, type, n}));
    k->backward[LS_ACT_GELU](out, same[1].wide, x.wide, n);
    expect(same[1], 0, out, n);
    check_halves("16-bit act", n, (size_t)type);
}

/* ---- sums and roundings ------------------------------------------------------------------------------------------ */

static void check_add(size_t n) {
    half b = make_half(n, type);
    twin a = make(n), y = make(n), same = make(n);
    ok(ops->add(device, &(ls_add_call){y.dev, a.dev, b.t.dev, type, n}));
    ok(ops->add(device, &(ls_add_call){same.dev, same.dev, b.t.dev, type, n}));
    for (size_t i = 0; i < n; i++) y.ref[i] = a.ref[i] + b.wide[i], same.ref[i] += b.wide[i];
    one_nan(y);
    one_nan(same);
    check_halves("16-bit add", n, (size_t)type);
}

/* Numbers of every size, ties, and those that are no numbers. */
static void fill_wild(twin t) {
    static const uint32_t special[8] = {0x7F800000, 0xFF800000, 0x7FC12345, 0xFF800001, 0x80000000, 1, 0x7F7FFFFF, 0};
    ls_rng_key key = ls_rng_key_make(13, 0, t.elems);
    for (size_t i = 0; i < t.elems; i++) {
        uint32_t bits = ls_rng_u32(key, i);
        if (i % 4 == 1) bits = (bits & 0xFFFF8000u);                                      /* bf16 and its ties */
        if (i % 4 == 2) bits = (bits & 0x80FFF000u) + 0x33000000u + (bits & 0x0F000000u); /* of f16 */
        if (i % 32 == 3) bits = special[i / 32 % 8];
        memcpy(&t.ref[i], &bits, sizeof bits);
    }
    ok(ls_device_copy_in(device, t.dev, t.ref, t.elems * sizeof(float)));
}

static void check_round(size_t n) {
    twin x = make(n), y = make(n), same = make(n);
    fill_wild(x);
    fill_wild(same);
    ok(ops->round(device, &(ls_round_call){y.dev, x.dev, type, n}));
    ok(ops->round(device, &(ls_round_call){same.dev, same.dev, type, n}));
    for (size_t i = 0; i < n; i++) y.ref[i] = same.ref[i] = widen_one(round_one(x.ref[i], type), type);
    check_halves("rounding", n, (size_t)type);
}

/* fp32 operations on any numbers at all. */
static void check_wild(size_t n) {
    const ls_act_kernels *k = &portable.act;
    const ls_update_step adamw = {
        LS_OPTIMIZER_ADAMW, 0.5f, 1e-3f, 0.9f, 0.1f, 0.99f, 0.01f, 1.1f, 1e-8f, 0.999f, 0, 0, false};
    const ls_update_step sgd = {.rule = LS_OPTIMIZER_SGD,
                                .factor = 0.5f,
                                .rate = 0.1f,
                                .momentum = 0.9f,
                                .weight_decay = 0.01f,
                                .nesterov = true};
    twin x = make(n), dy = make(n), up = make(n), y[18];
    fill_wild(x);
    for (int i = 0; i < 18; i++) y[i] = make(n);
    for (int i = 11; i < 18; i++) fill_wild(y[i]);
    for (int fn = 0; fn < LS_ACT_FNS; fn++) {
        ls_act_call act = {.fn = (ls_act_fn)fn, .y = y[2 * fn].dev, .dy = dy.dev, .x = x.dev, .act = LS_F32, .n = n};
        ok(ops->act_forward(device, &act));
        act.y = y[2 * fn + 1].dev;
        ok(ops->act_backward(device, &act));
        k->forward[fn](y[2 * fn].ref, x.ref, n);
        k->backward[fn](y[2 * fn + 1].ref, dy.ref, x.ref, n);
    }
    ls_gated_call gate = {.rows = 1, .columns = n, .gate = x.dev, .up = up.dev, .in_stride = n, .y = y[8].dev};
    gate.dy = dy.dev, gate.dgate = y[9].dev, gate.dup = y[10].dev;
    ok(ops->gated_forward(device, &gate));
    ok(ops->gated_backward(device, &gate));
    gate.gate = x.ref, gate.up = up.ref, gate.y = y[8].ref;
    gate.dy = dy.ref, gate.dgate = y[9].ref, gate.dup = y[10].ref;
    k->gated_forward(&gate);
    k->gated_backward(&gate);
    ok(ops->scale(device, &(ls_scale_call){y[11].dev, x.dev, 0x1p-100f, n}));
    portable.optim.scale(y[11].ref, x.ref, 0x1p-100f, n);
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = y[12].dev,
                                                                .moment = {y[13].dev, y[14].dev},
                                                                .copy = NULL,
                                                                .copy_dtype = LS_F32,
                                                                .g = y[15].dev,
                                                                .step = &adamw,
                                                                .n = n},
                                             1}));
    portable.optim.update(&(ls_update_piece){.w = y[12].ref,
                                             .moment = {y[13].ref, y[14].ref},
                                             .copy = NULL,
                                             .copy_dtype = LS_F32,
                                             .g = y[15].ref,
                                             .step = &adamw,
                                             .n = n},
                          0, n);
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = y[16].dev,
                                                                .moment = {y[17].dev},
                                                                .copy = NULL,
                                                                .copy_dtype = LS_F32,
                                                                .g = y[15].dev,
                                                                .step = &sgd,
                                                                .n = n},
                                             1}));
    portable.optim.update(&(ls_update_piece){.w = y[16].ref,
                                             .moment = {y[17].ref},
                                             .copy = NULL,
                                             .copy_dtype = LS_F32,
                                             .g = y[15].ref,
                                             .step = &sgd,
                                             .n = n},
                          0, n);
    for (int i = 0; i < 18; i++) one_nan(y[i]);
    check_halves("any numbers", n, 0);
}

static float tree(const float *x, int n) {
    int left = 1;
    if (n == 1) return x[0];
    while (2 * left < n) left *= 2;
    return tree(x, left) + tree(x + left, n - left);
}

static void check_tree(size_t n, int leaves) {
    half x[16];
    const void *parts[16];
    twin out = make(n);
    for (int i = 0; i < leaves; i++) x[i] = make_half(n, type), parts[i] = x[i].t.dev;
    ok(ops->tree_sum(device, &(ls_tree_sum_call){out.dev, parts, type, leaves, n}));
    for (size_t e = 0; e < n; e++) {
        float values[16];
        for (int i = 0; i < leaves; i++) values[i] = x[i].wide[e];
        out.ref[e] = tree(values, leaves);
    }
    one_nan(out);
    check_halves("16-bit leaves", n, (size_t)leaves);
}

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

static void check_optim(size_t n) {
    const ls_optim_kernels *k = &portable.optim;
    const ls_update_step adamw = {.rule = LS_OPTIMIZER_ADAMW,
                                  .factor = 0.5f,
                                  .beta1 = 0.9f,
                                  .beta1_rest = 0.1f,
                                  .beta2 = 0.99f,
                                  .beta2_rest = 0.01f,
                                  .rate = 1e-3f,
                                  .root = 1.1f,
                                  .epsilon = 1e-8f,
                                  .decay = 0.999f};
    const ls_update_step sgd = {
        .rule = LS_OPTIMIZER_SGD, .factor = 0.5f, .rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    twin g = make(n), w = make(n), m = make(n), v = make(n), w2 = make(n), b = make(n), w3 = make(n);
    half copy[3] = {make_half(n, type), make_half(n, type), make_half(n, type)};
    k->scale(v.ref, g.ref, 0.0f, n);
    ok(ops->scale(device, &(ls_scale_call){v.dev, g.dev, 0.0f, n}));
    if (n > 3) {
        w.ref[0] = 3e38f, w.ref[1] = NAN, w.ref[2] = 1e-40f;
        ok(ls_device_copy_in(device, w.dev, w.ref, 3 * sizeof(float)));
    }
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = w.dev,
                                                                .moment = {m.dev, v.dev},
                                                                .copy = copy[0].t.dev,
                                                                .copy_dtype = type,
                                                                .g = g.dev,
                                                                .step = &adamw,
                                                                .n = n},
                                             1}));
    k->update(&(ls_update_piece){.w = w.ref,
                                 .moment = {m.ref, v.ref},
                                 .copy = NULL,
                                 .copy_dtype = LS_BF16,
                                 .g = g.ref,
                                 .step = &adamw,
                                 .n = n},
              0, n);
    expect(copy[0], 0, w.ref, n);
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = w2.dev,
                                                                .moment = {b.dev},
                                                                .copy = copy[1].t.dev,
                                                                .copy_dtype = type,
                                                                .g = g.dev,
                                                                .step = &sgd,
                                                                .n = n},
                                             1}));
    k->update(
        &(ls_update_piece){
            .w = w2.ref, .moment = {b.ref}, .copy = NULL, .copy_dtype = LS_BF16, .g = g.ref, .step = &sgd, .n = n},
        0, n);
    expect(copy[1], 0, w2.ref, n);
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = w3.dev,
                                                                .moment = {NULL},
                                                                .copy = copy[2].t.dev,
                                                                .copy_dtype = type,
                                                                .g = g.dev,
                                                                .step = &sgd,
                                                                .n = n},
                                             1}));
    k->update(
        &(ls_update_piece){
            .w = w3.ref, .moment = {NULL}, .copy = NULL, .copy_dtype = LS_BF16, .g = g.ref, .step = &sgd, .n = n},
        0, n);
    expect(copy[2], 0, w3.ref, n);
    one_nan(w);
    check_halves("16-bit copies", n, (size_t)type);
}

/* ---- sums over tokens -------------------------------------------------------------------------------------------- */

/* What a 16-bit dy gives is what its widened numbers give; test_ops_groups.c says what that is. */
static void check_token_sums(size_t T, int slices, size_t C, bool accumulate) {
    enum { SEQUENCES = 5 };
    const size_t one[2] = {0, SEQUENCES}, three[4] = {0, 2, 3, SEQUENCES};
    ls_token_groups g = {.T = T, .slices = slices, .groups = accumulate ? 1 : 3, .accumulate = accumulate};
    g.bounds = accumulate ? one : three;
    size_t rows = SEQUENCES * T, sums = (size_t)slices * C;
    half dy = make_half(rows * (C + 1), type);
    twin wide = widened(dy, rows * (C + 1)), x = make(rows * (C + 2)), mean = make(rows), rstd = make(rows), out[8];
    for (int i = 0; i < 8; i++) out[i] = make(sums);
    for (int i = 0; i < 8; i += 4) {
        ls_norm_call c = {.rows = rows, .C = C, .act = i ? LS_F32 : type, .x = x.dev, .x_stride = C + 2};
        c.dy = i ? (const void *)wide.dev : dy.t.dev, c.dy_stride = C + 1;
        c.mean = mean.dev, c.rstd = rstd.dev, c.dw = out[i].dev, c.db = out[i + 1].dev;
        for (int k = 0; i && k < 4; k++)
            ok(ls_device_copy_in(device, out[i + k].dev, out[k].ref, sums * sizeof(float)));
        c.groups = &g;
        ok(ops->norm_params(device, &c));
        c.dw = out[i + 2].dev, c.rms = true;
        c.groups = &g;
        ok(ops->norm_params(device, &c));
        ok(ops->bias_grad(device, &(ls_bias_grad_call){out[i + 3].dev, c.dy, c.act, C + 1, C, &g}));
    }
    for (int i = 0; i < 4; i++) {
        ok(ls_device_copy_out(device, out[i].ref, out[i + 4].dev, sums * sizeof(float)));
        memcpy(out[i + 4].ref, out[i].ref, sums * sizeof(float));
        one_nan(out[i]);
        one_nan(out[i + 4]);
    }
    check_halves("16-bit sums over tokens", T, C);
}

static void all_token_sums(void) {
    for (int i = 0; i < 4; i++) {
        type = half_types[i % 2];
        check_token_sums(1, 1, 1, i / 2);
        check_token_sums(19, 2, 67, i / 2);
        check_token_sums(7, 1, 2500, i / 2);
        check_token_sums(33, 4, 513, i / 2);
    }
}

static void test_token_sums(void **state) {
    (void)state;
    on_every_device(all_token_sums);
}

/* ---- every device ------------------------------------------------------------------------------------------------ */

static void all_flat(void) {
    static const size_t sizes[] = {1, 17, 2049, 16384, 34019};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            type = half_types[t];
            check_act(sizes[i]);
            check_add(sizes[i]);
            check_round(sizes[i]);
            check_tree(sizes[i] / 2 + 1, (int)i + 1);
            check_optim(sizes[i]);
            if (t == 0) check_wild(sizes[i]);
        }
}

static void test_flat(void **state) {
    (void)state;
    on_every_device(all_flat);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refused(ls_status status) {
    assert_int_equal(status, LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "i64"));
}

static void check_refusals(void) {
    const ls_dtype no = LS_I64;
    float x = 1;
    const void *parts[1] = {&x};
    const size_t bounds[2] = {0, 1};
    const ls_token_groups groups = {.T = 1, .slices = 1, .groups = 1, .bounds = bounds};
    const ls_embed_tokens tokens = {.rows = 0, .C = 1};
    ls_norm_call norm = {.rows = 1, .C = 1, .act = no};
    const ls_gated_call gate = {.rows = 1, .columns = 1, .act = no};
    const ls_loss_call loss = {.rows = 1, .dz = &x, .dz_dtype = no};
    const ls_rope_call rope = {.act = no, .period = 1, .d = 2};
    for (int rms = 0; rms < 2; rms++, norm.rms = true) {
        refused(ops->norm_forward(device, &norm));
        refused(ops->norm_backward(device, &norm));
        norm.groups = &groups;
        refused(ops->norm_params(device, &norm));
    }
    refused(ops->act_forward(device, &(ls_act_call){LS_ACT_GELU, &x, NULL, &x, no, 1}));
    refused(ops->act_backward(device, &(ls_act_call){LS_ACT_GELU, &x, &x, &x, no, 1}));
    refused(ops->act_forward(device, &(ls_act_call){LS_ACT_SILU, &x, NULL, &x, no, 1}));
    refused(ops->act_backward(device, &(ls_act_call){LS_ACT_SILU, &x, &x, &x, no, 1}));
    refused(ops->act_forward(device, &(ls_act_call){LS_ACT_RELU, &x, NULL, &x, no, 1}));
    refused(ops->act_backward(device, &(ls_act_call){LS_ACT_RELU, &x, &x, &x, no, 1}));
    refused(ops->act_forward(device, &(ls_act_call){LS_ACT_SIGMOID, &x, NULL, &x, no, 1}));
    refused(ops->act_backward(device, &(ls_act_call){LS_ACT_SIGMOID, &x, &x, &x, no, 1}));
    refused(ops->gated_forward(device, &gate));
    refused(ops->gated_backward(device, &gate));
    refused(ops->bias_grad(device, &(ls_bias_grad_call){&x, &x, no, 1, 1, &groups}));
    refused(ops->bias_add(device, &(ls_bias_add_call){&x, no, 1, &x, 1, &x, 1, 1}));
    refused(ops->dropout_add(device, &(ls_dropout_call){.x_dtype = no}));
    refused(ops->dropout_add(device, &(ls_dropout_call){.y_dtype = no}));
    refused(ops->rope_forward(device, &rope));
    refused(ops->rope_backward(device, &rope));
    refused(ops->embed_forward(device, &(ls_embed_call){&x, 1, &x, no, NULL, 0, 0, &tokens}));
    refused(ops->loss_rows(device, &loss));
    refused(ops->loss_grad(device, &loss));
    refused(ops->update(
        device,
        &(ls_update_call){&(ls_update_piece){
                              .w = &x, .moment = {&x, &x}, .copy = &x, .copy_dtype = no, .g = &x, .step = NULL, .n = 1},
                          1}));
    refused(ops->update(
        device,
        &(ls_update_call){
            &(ls_update_piece){.w = &x, .moment = {&x}, .copy = &x, .copy_dtype = no, .g = &x, .step = NULL, .n = 1},
            1}));
    refused(ops->round(device, &(ls_round_call){&x, &x, no, 1}));
    refused(ops->add(device, &(ls_add_call){&x, &x, &x, no, 1}));
    refused(ops->tree_sum(device, &(ls_tree_sum_call){&x, parts, no, 1, 1}));
    /* A copy or a rounding that would change nothing is a mistake of the caller. */
    assert_int_equal(ops->round(device, &(ls_round_call){&x, &x, LS_F32, 1}), LS_ERR_INPUT);
    assert_int_equal(
        ops->update(
            device,
            &(ls_update_call){
                &(ls_update_piece){
                    .w = &x, .moment = {&x, &x}, .copy = &x, .copy_dtype = LS_F32, .g = &x, .step = NULL, .n = 1},
                1}),
        LS_ERR_INPUT);
    assert_int_equal(
        ops->update(device,
                    &(ls_update_call){
                        &(ls_update_piece){
                            .w = &x, .moment = {&x}, .copy = &x, .copy_dtype = LS_F32, .g = &x, .step = NULL, .n = 1},
                        1}),
        LS_ERR_INPUT);
    assert_true(x == 1);
}

static void test_refusals(void **state) {
    (void)state;
    ok(ls_device_open_cpu(1, NULL, NULL, &device));
    ops = device->ops;
    check_refusals();
    ls_device_destroy(device);
    on_cuda(check_refusals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_token_sums),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
