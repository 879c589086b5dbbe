/* loss.c: softmax cross-entropy. Everything splits by rows. */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>

#include "device/cpu/ops/staging.h"

static size_t first_column(const ls_loss_call *c) { return c->bounds[0]; }
static size_t end_column(const ls_loss_call *c) { return c->bounds[c->slices]; }

/* The column of a row's target, or LS_LOSS_NO_TARGET where it is none of those held here. */
static size_t target_column(const ls_loss_call *c, size_t row) {
    int64_t column = (int64_t)c->targets[row] - c->id_begin;
    if (column < (int64_t)first_column(c) || column >= (int64_t)end_column(c)) return LS_LOSS_NO_TARGET;
    return (size_t)column;
}

static ls_status run_rows(ls_device *device, const ls_loss_call *call, ls_cpu_fn fn) {
    assert(call->slices >= 1 && call->slices <= 4096);
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(end_column(call) - first_column(call)), fn, call);
}

/* dz of row r; target counted from the first column. A 16-bit dz may lie over z: its elements are half as wide, so a
 * piece ends before anything that is still to be read. */
static void grad_row(const ls_kernels *kernels, const ls_loss_call *c, size_t r, float m, float l, size_t target) {
    ls_cpu_buffer buffer;
    size_t first = first_column(c), columns = end_column(c) - first;
    for (size_t i = 0, n; i < columns; i += n) {
        n = ls_cpu_piece(c->dz_dtype, columns - i);
        size_t at = r * c->dz_stride + first + i, here = target - i < n ? target - i : LS_LOSS_NO_TARGET;
        float *dz = ls_cpu_target(buffer.at, c->dz, c->dz_dtype, at);
        kernels->loss.slice_grad(dz, c->z + r * c->z_stride + first + i, n, m, l, here, c->g);
        ls_cpu_narrow(kernels, c->dz, c->dz_dtype, at, dz, n);
    }
}

static void whole_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        size_t target = target_column(c, r);
        assert(target != LS_LOSS_NO_TARGET);
        float *dz = c->dz && c->dz_dtype == LS_F32 ? (float *)c->dz + r * c->dz_stride : NULL;
        ls_loss_row row = kernels->loss.row(dz, c->z + r * c->z_stride, c->bounds, c->slices, target, c->g);
        if (c->dz && !dz) grad_row(kernels, c, r, row.m, row.l, target - first_column(c));
        c->loss[r] = row.loss;
        if (c->m) c->m[r] = row.m;
        if (c->l) c->l[r] = row.l;
    }
}

ls_status ls_cpu_op_loss_rows(ls_device *device, const ls_loss_call *call) {
    if (call->dz) LS_TRY(ls_check_float("the gradient of a loss", call->dz_dtype));
    return run_rows(device, call, whole_rows);
}

static void max_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        const float *z = c->z + r * c->z_stride;
        size_t target = target_column(c, r);
        c->m[r] = kernels->loss.slice_max(z + first_column(c), end_column(c) - first_column(c));
        c->z_target[r] = target == LS_LOSS_NO_TARGET ? -INFINITY : z[target];
    }
}

ls_status ls_cpu_op_loss_max(ls_device *device, const ls_loss_call *call) { return run_rows(device, call, max_rows); }

static void sums_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < c->slices; i++)
            c->sums[i * c->rows + r] = kernels->loss.slice_sum(c->z + r * c->z_stride + c->bounds[i],
                                                               c->bounds[i + 1] - c->bounds[i], c->m[r]);
}

ls_status ls_cpu_op_loss_sums(ls_device *device, const ls_loss_call *call) { return run_rows(device, call, sums_rows); }

static void value_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) c->loss[r] = kernels->loss.value(c->z_target[r], c->m[r], c->l[r]);
}

ls_status ls_cpu_op_loss_values(ls_device *device, const ls_loss_call *call) {
    enum { ROWS = 1024 };
    return ls_cpu_run(device, call->rows, ROWS, value_rows, call);
}

static void grad_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        size_t target = target_column(c, r);
        if (target != LS_LOSS_NO_TARGET) target -= first_column(c);
        grad_row(kernels, c, r, c->m[r], c->l[r], target);
    }
}

ls_status ls_cpu_op_loss_grad(ls_device *device, const ls_loss_call *call) {
    LS_TRY(ls_check_float("the gradient of a loss", call->dz_dtype));
    return run_rows(device, call, grad_rows);
}

/* ---- what becomes of losses and logits: integers, so it does not matter which thread adds first ------------------ */

static void add(int64_t *sum, int64_t more) {
    if (more) atomic_fetch_add_explicit((_Atomic int64_t *)sum, more, memory_order_relaxed);
}

static void add_loss_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const ls_add_losses_call *c = args;
    ls_loss_sum sum = {0};
    for (size_t i = begin; i < end; i++)
        if (c->context == 0 || i % c->T >= c->context) ls_loss_sum_add(&sum, c->loss[i]);
    add(&c->sum->total, sum.total);
    add(&c->sum->count, sum.count);
    add(&c->sum->bad, sum.bad);
}

ls_status ls_cpu_op_add_losses(ls_device *device, const ls_add_losses_call *call) {
    return ls_cpu_run(device, call->sequences * call->T, LS_CPU_GRAIN, add_loss_range, call);
}

static void right_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const ls_count_right_call *c = args;
    int64_t right = 0;
    for (size_t r = begin; r < end; r++) {
        const float *z = c->z + r * c->z_stride;
        size_t best = 0;
        for (size_t i = 1; i < c->columns; i++)
            if (z[i] > z[best]) best = i;
        right += (int32_t)best == c->targets[r];
    }
    add(c->right, right);
}

ls_status ls_cpu_op_count_right(ls_device *device, const ls_count_right_call *call) {
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->columns), right_rows, call);
}
