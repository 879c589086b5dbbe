/* test_ops_fused.c: what an operation may do beside its own work has the bits of the operations one after another, on
 * every device: a residual in front of a norm; behind its gradient a rounded copy, and what it gave. */
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

static void check_sum_and_norm(size_t rows, size_t C, bool rms, ls_dtype type) {
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
            call.branch = branch.dev, call.sum = sum[way].dev;
        else
            ok(ops->add(device, &(ls_add_call){sum[way].dev, x.dev, branch.dev, type, rows * C})),
                call.x = sum[way].dev;
        ok(ops->norm_forward(device, &call));
    }
    expect_second(sum[FIRST], sum[SECOND]), expect_second(y[FIRST], y[SECOND]);
    expect_second(mean[FIRST], mean[SECOND]), expect_second(rstd[FIRST], rstd[SECOND]);
    check("a residual and its norm", rows, C);
}

static void check_gradient_and_copy(size_t rows, size_t C, bool rms, ls_dtype type) {
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
        if (way == FIRST) call.dx_copy = copy[way].dev, call.remake = true;
        if (way == SECOND) ok(ops->norm_forward(device, &call));
        ok(ops->norm_backward(device, &call));
        if (way == SECOND)
            ok(ops->convert(device, &(ls_convert_call){copy[way].dev, type, dx[way].dev, LS_F32, rows * C}));
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
            check_sum_and_norm(rows, C, kind % 2, type);
            if (type != LS_F32) check_gradient_and_copy(rows, C, kind % 2, type);
        }
}

ON_EVERY_DEVICE(norms)

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
