/* test_ops_fused.c: what an operation may do beside its own work has the bits of the operations one after another, on
 * every device: a residual in front of a norm; behind its gradient a rounded copy, what it gave, and the gradients of
 * its parameters and of a bias; and dropout of the residual's branch and of the copy. */
#include "halves.h"

enum { FIRST = 0, SECOND = 1 }; /* the ways to compute the same */

/* Both ways write to the device alone: the second one's results become what is expected of the first. */
static void expect_second(twin first, twin second) {
    ok(ls_device_copy_out(device, first.ref - GUARD, second.dev - GUARD, (first.elems + 2 * GUARD) * sizeof(float)));
    ok(ls_device_copy_out(device, second.ref - GUARD, second.dev - GUARD, (first.elems + 2 * GUARD) * sizeof(float)));
}

/* Guards of two tensors differ; these are equal. */
static void make_two(twin t[2], size_t elems) {
    t[FIRST] = make(elems), t[SECOND] = make(elems);
    ok(ls_device_copy_in(device, t[SECOND].dev - GUARD, t[FIRST].ref - GUARD, (elems + 2 * GUARD) * sizeof(float)));
}

/* Dropout: none, of rows that are neighbours, of sequences whose rows are partly elsewhere. */
enum { DROPS = 3 };
static ls_drop drop_number(int i) {
    ls_drop drop = {.key = ls_rng_key_make(3, 4, 5), .first = 1001, .together = 4, .gap = i == 2 ? 3 : 0};
    if (i > 0) ls_drop_set_rate(&drop, 0.3);
    return drop;
}

/* sum = x + branch */
static void add_apart(float *sum, const float *x, const void *branch, ls_dtype type, size_t rows, size_t C,
                      ls_drop drop) {
    if (drop.scale != 0)
        ok(ops->dropout_add(device, &(ls_dropout_call){rows, C, drop, branch, type, C, x, C, sum, LS_F32, C}));
    else
        ok(ops->add(device, &(ls_add_call){sum, x, branch, type, rows * C}));
}

static void copy_apart(void *copy, ls_dtype type, const float *dx, size_t rows, size_t C, ls_drop drop) {
    if (drop.scale != 0)
        ok(ops->dropout_add(device, &(ls_dropout_call){rows, C, drop, dx, LS_F32, C, NULL, 0, copy, type, C}));
    else
        ok(ops->convert(device, &(ls_convert_call){copy, type, dx, LS_F32, rows * C}));
}

static void check_sum_and_norm(size_t rows, size_t C, bool rms, ls_dtype type, ls_drop drop) {
    twin x = make(rows * C), w = make(C), b = make(C), wide = make(rows * C), branch = make(rows * C), sum[2], y[2],
         mean[2], rstd[2];
    make_two(sum, rows * C), make_two(y, rows * C), make_two(mean, rows), make_two(rstd, rows);
    if (type != LS_F32) ok(ops->convert(device, &(ls_convert_call){branch.dev, type, wide.dev, LS_F32, rows * C}));
    ok(ls_device_copy_out(device, branch.ref, branch.dev, rows * C * sizeof(float)));
    for (int way = 0; way < 2; way++) {
        ls_norm_call call = {.rows = rows, .C = C, .rms = rms, .act = type, .eps = 1e-5f, .x = x.dev, .x_stride = C};
        call.w = w.dev, call.b = rms ? NULL : b.dev, call.y = y[way].dev, call.y_stride = C;
        call.mean = rms ? NULL : mean[way].dev, call.rstd = rstd[way].dev;
        if (way == FIRST)
            call.branch = branch.dev, call.sum = sum[way].dev, call.drop = drop;
        else
            add_apart(sum[way].dev, x.dev, branch.dev, type, rows, C, drop), call.x = sum[way].dev;
        ok(ops->norm_forward(device, &call));
    }
    expect_second(sum[FIRST], sum[SECOND]), expect_second(y[FIRST], y[SECOND]);
    expect_second(mean[FIRST], mean[SECOND]), expect_second(rstd[FIRST], rstd[SECOND]);
    check("a residual and its norm", rows, C);
}

static void check_gradient_and_copy(size_t rows, size_t C, bool rms, ls_dtype type, ls_drop drop) {
    twin x = make(rows * C), w = make(C), b = make(C), wide = make(rows * C), dy = make(rows * C), mean = make(rows),
         rstd = make(rows), dx[2], copy[2], y[2];
    make_two(dx, rows * C), make_two(copy, rows * C), make_two(y, rows * C);
    ok(ops->convert(device, &(ls_convert_call){dy.dev, type, wide.dev, LS_F32, rows * C}));
    ok(ls_device_copy_out(device, dy.ref, dy.dev, rows * C * sizeof(float)));
    for (int way = 0; way < 2; way++) {
        ls_norm_call call = {.rows = rows, .C = C, .rms = rms, .act = type, .x = x.dev, .x_stride = C, .add = true};
        call.w = w.dev, call.mean = rms ? NULL : mean.dev, call.rstd = rstd.dev, call.dy = dy.dev, call.dy_stride = C;
        call.dx = dx[way].dev, call.dx_stride = C;
        call.y = y[way].dev, call.y_stride = C, call.b = rms ? NULL : b.dev, call.eps = 1e-5f;
        if (way == FIRST) ok(ops->norm_forward(device, &call)); /* makes the statistics */
        if (way == FIRST) ok(ls_device_fill(device, y[way].dev, 0, rows * C * ls_dtype_bytes(type)));
        if (way == FIRST) call.dx_copy = copy[way].dev, call.remake = true, call.drop = drop;
        if (way == SECOND) ok(ops->norm_forward(device, &call));
        ok(ops->norm_backward(device, &call));
        if (way == SECOND) copy_apart(copy[way].dev, type, dx[way].dev, rows, C, drop);
    }
    expect_second(dx[FIRST], dx[SECOND]), expect_second(copy[FIRST], copy[SECOND]), expect_second(y[FIRST], y[SECOND]);
    ok(ls_device_copy_out(device, mean.ref, mean.dev, rows * sizeof(float)));
    ok(ls_device_copy_out(device, rstd.ref, rstd.dev, rows * sizeof(float)));
    check("the gradient of a norm and its copy", rows, C);
}

static void all_norms(void) {
    static const size_t shapes[][2] = {{1, 1}, {5, 37}, {300, 20}, {9, 1028}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < 6; kind++) {
            const size_t rows = shapes[i][0], C = shapes[i][1];
            const ls_dtype type = kind < 2 ? LS_F32 : half_types[kind / 2 - 1];
            for (int d = 0; d < DROPS; d++) {
                check_sum_and_norm(rows, C, kind % 2, type, drop_number(d));
                if (type != LS_F32) check_gradient_and_copy(rows, C, kind % 2, type, drop_number(d));
            }
        }
}

/* ---- with the gradients of parameters ---------------------------------------------------------------------------- */

typedef struct whole_case {
    size_t sequences, T, C, block;
    int slices;
    bool rms, accumulate, has_all; /* the latter: residual, copy, output and bias, too */
    size_t shift;                  /* of dx, from where wide accesses could be used */
} whole_case;

static void check_whole(const whole_case *w, ls_dtype type, ls_drop drop) {
    const size_t rows = w->sequences * w->T, C = w->C, n = rows * C, sums = (size_t)w->slices * C;
    const size_t one[2] = {0, w->sequences}, three[4] = {0, w->sequences / 2, w->sequences - 1, w->sequences};
    /* Slices that differ from each other, the second without tokens. */
    const size_t tokens[4] = {0, w->T / 3, w->T / 3, w->T};
    ls_token_groups groups = {.T = w->T, .slices = w->slices, .block = w->block, .accumulate = w->accumulate};
    groups.groups = w->accumulate ? 1 : 3, groups.bounds = w->accumulate ? one : three;
    if (w->slices == 3) groups.tokens = tokens;
    twin x = make(n), weight = make(C), bias = make(C), wide = make(n), dy = make(n), branch = make(n),
         mean = make(rows), rstd = make(rows), sum = make(n), room = make(n), dx[2], copy[2], y[2], dw[2], db[2],
         dbias[2];
    dx[FIRST] = make_shifted(n, w->shift), dx[SECOND] = make(n);
    ok(ls_device_copy_in(device, dx[SECOND].dev, dx[FIRST].ref, n * sizeof(float)));
    make_two(copy, n), make_two(y, n), make_two(dw, sums), make_two(db, sums), make_two(dbias, sums);
    ok(ops->convert(device, &(ls_convert_call){dy.dev, type, wide.dev, LS_F32, n}));
    ok(ls_device_copy_in(device, wide.dev, x.ref, n * sizeof(float)));
    ok(ops->convert(device, &(ls_convert_call){branch.dev, type, wide.dev, LS_F32, n}));
    if (w->has_all) add_apart(sum.dev, x.dev, branch.dev, type, rows, C, drop);
    for (int way = SECOND; way >= FIRST; way--) {
        ls_norm_call call = {
            .rows = rows, .C = C, .rms = w->rms, .act = type, .eps = 1e-5f, .x_stride = C, .add = true};
        call.x = w->has_all ? sum.dev : x.dev;
        call.w = weight.dev, call.b = w->rms ? NULL : bias.dev, call.y = y[way].dev, call.y_stride = C;
        call.mean = w->rms ? NULL : mean.dev, call.rstd = rstd.dev, call.dy = dy.dev, call.dy_stride = C;
        call.dx = dx[way].dev, call.dx_stride = C, call.groups = &groups, call.dw = dw[way].dev;
        call.db = w->rms ? NULL : db[way].dev;
        if (way == SECOND) {
            ok(ops->norm_forward(device, &call)); /* makes the statistics, too */
            if (!w->has_all) ok(ls_device_copy_in(device, y[SECOND].dev, y[FIRST].ref, n * sizeof(float)));
            ok(ops->norm_backward(device, &call));
            ok(ops->norm_params(device, &call));
            if (!w->has_all) continue;
            copy_apart(copy[way].dev, type, call.dx, rows, C, drop);
            ok(ops->bias_grad(device, &(ls_bias_grad_call){dbias[way].dev, copy[way].dev, type, C, C, &groups}));
            continue;
        }
        call.params = true;
        if (w->has_all) {
            call.x = x.dev, call.branch = branch.dev, call.sum = room.dev, call.remake = true;
            call.dx_copy = copy[way].dev, call.dx_sums = dbias[way].dev, call.drop = drop;
        }
        ok(ops->norm_backward(device, &call));
    }
    for (size_t i = 0; i < sizeof((twin[]){dy, branch, mean, rstd, sum, room, wide}) / sizeof(twin); i++) {
        twin t = ((twin[]){dy, branch, mean, rstd, sum, room, wide})[i];
        ok(ls_device_copy_out(device, t.ref, t.dev, t.elems * sizeof(float)));
    }
    ok(ls_device_copy_out(device, dx[FIRST].ref, dx[SECOND].dev, n * sizeof(float)));
    ok(ls_device_copy_out(device, dx[SECOND].ref, dx[SECOND].dev, n * sizeof(float)));
    expect_second(copy[FIRST], copy[SECOND]), expect_second(y[FIRST], y[SECOND]), expect_second(dw[FIRST], dw[SECOND]);
    expect_second(db[FIRST], db[SECOND]), expect_second(dbias[FIRST], dbias[SECOND]);
    check("backward of a norm with the gradients of parameters", rows, C);
}

static void all_whole_norms(void) {
    static const whole_case cases[] = {
        {3, 70, 68, 64, 1, false, false, true, 0},  /* a chain of six tokens at the end */
        {4, 41, 132, 8, 2, false, false, true, 0},  /* slices of 20 and 21 tokens */
        {4, 37, 36, 8, 3, true, true, true, 0},     /* a slice without tokens; sums go on */
        {4, 24, 40, 8, 2, true, false, false, 0},   /* nothing but the sums */
        {4, 24, 44, 8, 2, false, true, false, 0},   /* the same */
        {4, 20, 37, 8, 2, false, false, true, 0},   /* rows that no wide access fits */
        {4, 20, 36, 8, 2, false, false, true, 1},   /* a tensor that no wide access fits */
        {4, 20, 24, 0, 2, true, false, true, 0},    /* one chain for a slice */
        {4, 10, 2056, 4, 1, false, false, true, 0}, /* rows that are too long for it */
        {1, 4, 64, 8, 1, false, true, true, 0},     /* one chain */
        /* As many chains as the largest GPU has multiprocessors. */
        {4, 594, 132, 18, 1, false, false, true, 0}, /* and more rows than a block has at a time */
        {4, 66, 36, 2, 1, true, false, false, 0},
        {4, 66, 2048, 2, 1, false, true, true, 0},
        {8, 66, 132, 2, 1, false, false, true, 0}, /* twice as many */
    };
    enum { CASES = sizeof cases / sizeof *cases, FOR_GPU = 4 };
    bool on_gpu = strcmp(table.isa, "cuda") == 0;
    for (int i = 0; i < CASES - (on_gpu ? 0 : FOR_GPU); i++)
        for (int d = 0; d < (cases[i].has_all ? DROPS : 1); d++)
            check_whole(&cases[i], half_types[i % 2], drop_number(d));
}

ON_EVERY_DEVICE(norms)
ON_EVERY_DEVICE(whole_norms)

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_whole_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
