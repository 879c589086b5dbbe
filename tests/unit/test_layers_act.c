/* test_layers_act.c: activations, residual and bias of every ISA against the contract, to the bit. */
#include "layers.h"

#include "device/cpu/kernels.h"

enum { FLAT = 9 };

/* Each array function once; `at` is where a part of n elements begins, x and dy may be the results. */
static void call_flat(const ls_act_kernels *k, float *const y[FLAT], const float *const x[FLAT],
                      const float *const dy[FLAT], size_t at, size_t n) {
    k->forward[LS_ACT_GELU](y[0] + at, x[0] + at, n);
    k->backward[LS_ACT_GELU](y[1] + at, dy[1] + at, x[1] + at, n);
    k->forward[LS_ACT_SILU](y[2] + at, x[2] + at, n);
    k->backward[LS_ACT_SILU](y[3] + at, dy[3] + at, x[3] + at, n);
    k->residual(y[4] + at, x[4] + at, dy[4] + at, n);
    k->backward[LS_ACT_RELU](y[5] + at, dy[5] + at, x[5] + at, n);
    k->forward[LS_ACT_RELU](y[6] + at, x[6] + at, n);
    k->backward[LS_ACT_SIGMOID](y[7] + at, dy[7] + at, x[7] + at, n);
    k->forward[LS_ACT_SIGMOID](y[8] + at, x[8] + at, n);
}

static void expect_flat(grid expected[FLAT], const grid *x, const grid *dy, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float a = x->at[i], d = dy->at[i];
        expected[0].at[i] = contract_gelu(a);
        expected[1].at[i] = contract_gelu_dx(d, a);
        expected[2].at[i] = contract_silu(a);
        expected[3].at[i] = d * contract_silu_slope(a);
        expected[4].at[i] = a + d;
        expected[5].at[i] = a <= 0 ? 0.0f : d;
        expected[6].at[i] = a <= 0 ? 0.0f : a;
        expected[7].at[i] = d * (a * (1 - a));
        expected[8].at[i] = contract_sigmoid(a);
    }
}

/* An array function cut at random points, then once in place of x or dy. */
static void check_flat(const ls_act_kernels *k, size_t n, kind of) {
    grid x = grid_make(1, n, 0, 1, of), dy = grid_make(1, n, 0, 2, of), start = grid_make(1, n, 0, 3, PLAIN);
    grid expected[FLAT], got[FLAT];
    float *y[FLAT];
    const float *xs[FLAT], *dys[FLAT];
    static const char *const names[FLAT] = {"gelu",    "gelu dx", "silu",       "silu dx", "residual",
                                            "relu dx", "relu",    "sigmoid dx", "sigmoid"};
    for (int f = 0; f < FLAT; f++) expected[f] = grid_copy(&start);
    expect_flat(expected, &x, &dy, n);
    for (size_t p = 0; p < N_PARTS; p++) {
        size_t cuts[MOST_PARTS + 1];
        make_cuts(cuts, parts[p], n, p);
        for (int f = 0; f < FLAT; f++) {
            got[f] = grid_copy(&start);
            y[f] = got[f].at, xs[f] = x.at, dys[f] = dy.at;
        }
        for (size_t t = 0; t < parts[p]; t++) call_flat(k, y, xs, dys, cuts[t], cuts[t + 1] - cuts[t]);
        for (int f = 0; f < FLAT; f++) check_grid(&got[f], &expected[f], names[f]);
        for (int f = 0; f < FLAT; f++) grid_free(&got[f]);
    }
    for (int f = 0; f < FLAT; f++) {
        got[f] = grid_copy(f % 2 ? &dy : &x);
        y[f] = got[f].at;
        *(f % 2 ? &dys[f] : &xs[f]) = got[f].at;
    }
    call_flat(k, y, xs, dys, 0, n);
    for (int f = 0; f < FLAT; f++) {
        check_same(got[f].at, expected[f].at, n, names[f]);
        grid_free(&got[f]);
        grid_free(&expected[f]);
    }
    grid_free(&x);
    grid_free(&dy);
    grid_free(&start);
}

/* Gate and up in one fused row, as a projection leaves them. */
static void check_gated(const ls_act_kernels *k, ls_gate_fn fn, size_t rows, size_t C, kind of) {
    size_t stride = 2 * C + 3;
    grid in = grid_make(rows, 2 * C, 3, 1, of), dy = grid_make(rows, C, 2, 2, of), y = grid_make(rows, C, 1, 3, PLAIN);
    grid din = grid_make(rows, 2 * C, 5, 4, PLAIN), y_expected = grid_copy(&y), din_expected = grid_copy(&din);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < C; i++) {
            float gate = row_of(&in, r)[i], up = row_of(&in, r)[C + i], d = row_of(&dy, r)[i];
            float value = fn == LS_GATE_GELU ? contract_gelu(gate) : contract_silu(gate);
            row_of(&y_expected, r)[i] = value * up;
            row_of(&din_expected, r)[i] =
                (fn == LS_GATE_GELU ? contract_gated_gelu_dgate : contract_gated_dgate)(d, gate, up);
            row_of(&din_expected, r)[C + i] = d * value;
        }
    size_t cuts[MOST_PARTS + 1], n_parts = parts[(rows + C) % N_PARTS];
    make_cuts(cuts, n_parts, rows, C);
    for (size_t p = 0; p < n_parts; p++) {
        size_t r = cuts[p], n = cuts[p + 1] - r;
        const float *gate = row_of(&in, r);
        k->gated_forward(&(ls_gated_call){.fn = fn,
                                          .y = row_of(&y, r),
                                          .y_stride = y.stride,
                                          .gate = gate,
                                          .up = gate + C,
                                          .in_stride = stride,
                                          .rows = n,
                                          .columns = C});
        float *dgate = row_of(&din, r);
        k->gated_backward(&(ls_gated_call){.fn = fn,
                                           .dgate = dgate,
                                           .dup = dgate + C,
                                           .din_stride = din.stride,
                                           .dy = row_of(&dy, r),
                                           .dy_stride = dy.stride,
                                           .gate = gate,
                                           .up = gate + C,
                                           .in_stride = stride,
                                           .rows = n,
                                           .columns = C});
    }
    check_grid(&y, &y_expected, "gated");
    check_grid(&din, &din_expected, "gated backward");
    /* Gradients in place of the values. */
    k->gated_backward(&(ls_gated_call){.fn = fn,
                                       .dgate = in.at,
                                       .dup = in.at + C,
                                       .din_stride = stride,
                                       .dy = dy.at,
                                       .dy_stride = dy.stride,
                                       .gate = in.at,
                                       .up = in.at + C,
                                       .in_stride = stride,
                                       .rows = rows,
                                       .columns = C});
    for (size_t r = 0; r < rows; r++) check_same(row_of(&in, r), row_of(&din_expected, r), 2 * C, "gated in place");
    grid_free(&in);
    grid_free(&dy);
    grid_free(&y);
    grid_free(&din);
    grid_free(&y_expected);
    grid_free(&din_expected);
}

static void check_bias(const ls_act_kernels *k, size_t rows, size_t C, kind of) {
    grid c = grid_make(rows, C, 2, 1, of), bias = grid_make(1, C, 0, 2, of);
    grid pre = grid_make(rows, C, 2, 3, PLAIN), y = grid_make(rows, C, 1, 4, PLAIN), db = grid_make(1, C, 0, 5, PLAIN);
    grid pre_expected = grid_copy(&pre), y_expected = grid_copy(&y), db_expected = grid_copy(&db);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < C; i++) {
            float x = row_of(&c, r)[i] + bias.at[i];
            row_of(&pre_expected, r)[i] = x;
            row_of(&y_expected, r)[i] = contract_gelu(x);
            db_expected.at[i] = db_expected.at[i] + row_of(&c, r)[i];
        }
    size_t cuts[MOST_PARTS + 1], n_parts = parts[(rows + C) % N_PARTS];
    make_cuts(cuts, n_parts, rows, C);
    for (size_t p = 0; p < n_parts; p++) {
        size_t r = cuts[p], n = cuts[p + 1] - r;
        k->bias_gelu_forward(&(ls_bias_gelu_call){.y = row_of(&y, r),
                                                  .y_stride = y.stride,
                                                  .pre = row_of(&pre, r),
                                                  .pre_stride = pre.stride,
                                                  .c = row_of(&c, r),
                                                  .c_stride = c.stride,
                                                  .bias = bias.at,
                                                  .rows = n,
                                                  .columns = C});
    }
    make_cuts(cuts, n_parts, C, rows);
    for (size_t p = 0; p < n_parts; p++) k->bias_grad(db.at, c.at, c.stride, rows, cuts[p], cuts[p + 1]);
    check_grid(&y, &y_expected, "bias + gelu");
    check_grid(&pre, &pre_expected, "bias");
    check_grid(&db, &db_expected, "bias gradient");
    /* pre in place of c. */
    k->bias_gelu_forward(&(ls_bias_gelu_call){.y = y.at,
                                              .y_stride = y.stride,
                                              .pre = c.at,
                                              .pre_stride = c.stride,
                                              .c = c.at,
                                              .c_stride = c.stride,
                                              .bias = bias.at,
                                              .rows = rows,
                                              .columns = C});
    for (size_t r = 0; r < rows; r++) check_same(row_of(&c, r), row_of(&pre_expected, r), C, "bias in place");
    check_grid(&y, &y_expected, "bias + gelu in place");
    grid *const all[] = {&c, &bias, &pre, &y, &db, &pre_expected, &y_expected, &db_expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) grid_free(all[i]);
}

/* The chain may stop at any row and go on in another call. */
static void check_bias_grad_rows(const ls_act_kernels *k) {
    enum { ROWS = 100, C = 33 };
    grid dy = grid_make(ROWS, C, 1, 1, PLAIN), whole = grid_make(1, C, 0, 2, PLAIN);
    for (size_t p = 0; p < N_PARTS; p++) {
        grid cut = grid_make(1, C, 0, 2, PLAIN), once = grid_copy(&whole);
        size_t cuts[MOST_PARTS + 1];
        make_cuts(cuts, parts[p], ROWS, p);
        for (size_t i = 0; i < parts[p]; i++)
            k->bias_grad(cut.at, row_of(&dy, cuts[i]), dy.stride, cuts[i + 1] - cuts[i], 0, C);
        k->bias_grad(once.at, dy.at, dy.stride, ROWS, 0, C);
        check_grid(&cut, &once, "bias gradient in parts");
        grid_free(&cut);
        grid_free(&once);
    }
    grid_free(&dy);
    grid_free(&whole);
}

static void check_all(const ls_act_kernels *k) {
    for (size_t i = 0; i < N_SIZES; i++)
        for (int of = PLAIN; of <= WILD; of++) {
            check_flat(k, sizes[i], (kind)of);
            for (size_t j = 0; j < N_SIZES; j++) {
                if (sizes[i] * sizes[j] > 12000) continue;
                for (int fn = 0; fn < LS_GATE_FNS; fn++) check_gated(k, (ls_gate_fn)fn, sizes[i], sizes[j], (kind)of);
                check_bias(k, sizes[i], sizes[j], (kind)of);
            }
        }
    check_bias_grad_rows(k);
}

static void test_every_isa(void **state) {
    (void)state;
    CHECK_EVERY_ISA(act, check_all);
}

/* Against double libm, relative to the size of x (the functions pass through zero). */
static void check_accuracy(const ls_act_kernels *k) {
    enum { N = 20001 };
    static float x[N], y[N], s[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * 1e-3f;
    k->forward[LS_ACT_GELU](y, x, N);
    k->forward[LS_ACT_SILU](s, x, N);
    for (int i = 0; i < N; i++) {
        double v = (double)x[i];
        double gelu = 0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
        double unit = fabs(v) * 0x1p-23 + 1e-30;
        assert_true(fabs((double)y[i] - gelu) < 3 * unit);
        assert_true(fabs((double)s[i] - v / (1 + exp(-v))) < 3 * unit);
    }
}

static void test_accuracy(void **state) {
    (void)state;
    CHECK_EVERY_ISA(act, check_accuracy);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_isa), cmocka_unit_test(test_accuracy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
