/* loss.c: softmax cross-entropy. Threads split all operations by rows. "Half" functions take 16-bit logits, which exist
 * only with tensor cores and are summed in the order of GPUs that have them. */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>

#include "device/cpu/ops/staging.h"
#include "numerics/float16.h"

/* Returns the first column of z that belongs to the loss. */
static size_t first_column(const ls_loss_call *c) { return c->bounds[0]; }
/* Returns one more than the last column of z that belongs to the loss. */
static size_t end_column(const ls_loss_call *c) { return c->bounds[c->slices]; }

/* Returns the column of a row's target, or LS_LOSS_NO_TARGET if another worker holds it. */
static size_t target_column(const ls_loss_call *c, size_t row) {
    int64_t column = (int64_t)c->targets[row] - c->id_begin;
    if (column < (int64_t)first_column(c) || column >= (int64_t)end_column(c)) return LS_LOSS_NO_TARGET;
    return (size_t)column;
}

/* Returns row `row` of fp32 logits, from column 0 on. */
static const float *logits_of(const ls_loss_call *c, size_t row) { return (const float *)c->z + row * c->z_stride; }
/* Returns row `row` of 16-bit logits, from column 0 on. */
static const uint16_t *halves_of(const ls_loss_call *c, size_t row) {
    return (const uint16_t *)c->z + row * c->z_stride;
}

/* Runs fn over all rows on all threads. */
static ls_status run_rows(ls_device *device, const ls_loss_call *call, ls_cpu_fn fn) {
    assert(call->slices >= 1 && call->slices <= 4096);
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(end_column(call) - first_column(call)), fn, call);
}

/* Writes dz of row r; `target` counts from the first column, or is LS_LOSS_NO_TARGET. A 16-bit dz may lie over an fp32
 * z: its elements are half as wide, so a piece ends before any number that is still to be read. */
static void grad_row(const ls_kernels *kernels, const ls_loss_call *c, size_t r, float m, float l, size_t target) {
    ls_cpu_buffer buffer;
    size_t first = first_column(c), columns = end_column(c) - first;
    for (size_t i = 0, n; i < columns; i += n) {
        n = ls_cpu_piece(c->dz_dtype, columns - i);
        size_t at = r * c->dz_stride + first + i, here = target - i < n ? target - i : LS_LOSS_NO_TARGET;
        float *dz = ls_cpu_target(buffer.at, c->dz, c->dz_dtype, at);
        kernels->loss.slice_grad(dz, logits_of(c, r) + first + i, n, m, l, here, c->g);
        ls_cpu_narrow(kernels, c->dz, c->dz_dtype, at, dz, n);
    }
}

/* Computes loss, and m, l and dz where the call has them, for fp32 rows that this worker holds whole. */
static void whole_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        size_t target = target_column(c, r);
        assert(target != LS_LOSS_NO_TARGET);
        float *dz = c->dz && c->dz_dtype == LS_F32 ? (float *)c->dz + r * c->dz_stride : NULL;
        ls_loss_row row = kernels->loss.row(dz, logits_of(c, r), c->bounds, c->slices, target, c->g);
        if (c->dz && !dz) grad_row(kernels, c, r, row.m, row.l, target - first_column(c));
        c->loss[r] = row.loss;
        if (c->m) c->m[r] = row.m;
        if (c->l) c->l[r] = row.l;
    }
}

/* Returns the maximum of the 16-bit logits of row r. */
static float half_max(const ls_kernels *kernels, const ls_loss_call *c, size_t r) {
    size_t first = first_column(c);
    return kernels->loss_hgmma.slice_max(halves_of(c, r) + first, c->z_dtype, end_column(c) - first);
}

/* Returns the logit of the target of 16-bit row r; −inf if another worker holds it. */
static float half_target(const ls_loss_call *c, size_t r) {
    size_t target = target_column(c, r);
    if (target == LS_LOSS_NO_TARGET) return -INFINITY;
    uint16_t z = halves_of(c, r)[target];
    return c->z_dtype == LS_BF16 ? ls_bf16_to_f32(z) : ls_f16_to_f32(z);
}

/* Returns the sum of exp(z − m) over one slice of 16-bit row r. */
static float half_sum(const ls_kernels *kernels, const ls_loss_call *c, size_t r, size_t slice, float m) {
    size_t begin = c->bounds[slice];
    return kernels->loss_hgmma.slice_sum(halves_of(c, r) + begin, c->z_dtype, c->bounds[slice + 1] - begin, m);
}

/* Writes dz of 16-bit row r, whose target may be with another worker. */
static void half_grad(const ls_kernels *kernels, const ls_loss_call *c, size_t r, float m, float l) {
    size_t first = first_column(c), target = target_column(c, r);
    uint16_t *dz = (uint16_t *)c->dz + r * c->dz_stride + first;
    if (target != LS_LOSS_NO_TARGET) target -= first;
    kernels->loss_hgmma.slice_grad(dz, halves_of(c, r) + first, c->z_dtype, end_column(c) - first, m, l, target, c->g);
}

/* As whole_rows(), for 16-bit rows; the sums of the slices are added as the tree. */
static void whole_half_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    assert(c->slices <= LS_GEMM_SLICES_MAX);
    for (size_t r = begin; r < end; r++) {
        float m = half_max(kernels, c, r), z_target = half_target(c, r), sums[LS_GEMM_SLICES_MAX];
        for (size_t i = 0; i < c->slices; i++) sums[i] = half_sum(kernels, c, r, i, m);
        for (size_t step = 1; step < c->slices; step *= 2)
            for (size_t i = 0; i + step < c->slices; i += 2 * step) sums[i] += sums[i + step];
        if (c->dz) half_grad(kernels, c, r, m, sums[0]);
        c->loss[r] = kernels->loss.value(z_target, m, sums[0]);
        if (c->m) c->m[r] = m;
        if (c->l) c->l[r] = sums[0];
    }
}

/* Computes loss, and m, l and dz if not NULL, of rows that this worker holds whole. */
ls_status ls_cpu_op_loss_rows(ls_device *device, const ls_loss_call *call) {
    LS_TRY(ls_check_loss(call));
    return run_rows(device, call, call->z_dtype == LS_F32 ? whole_rows : whole_half_rows);
}

/* Computes m and z_target of rows begin … end−1 over this worker's columns. */
static void max_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        const float *z = logits_of(c, r);
        size_t target = target_column(c, r);
        c->m[r] = kernels->loss.slice_max(z + first_column(c), end_column(c) - first_column(c));
        c->z_target[r] = target == LS_LOSS_NO_TARGET ? -INFINITY : z[target];
    }
}

/* As max_rows(), for 16-bit logits. */
static void max_half_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        c->m[r] = half_max(kernels, c, r);
        c->z_target[r] = half_target(c, r);
    }
}

/* Computes, over this worker's columns, the maximum m and the target's logit (−inf if another worker holds it). */
ls_status ls_cpu_op_loss_max(ls_device *device, const ls_loss_call *call) {
    LS_TRY(ls_check_loss(call));
    return run_rows(device, call, call->z_dtype == LS_F32 ? max_rows : max_half_rows);
}

/* Computes the sum of each slice of rows begin … end−1. */
static void sums_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < c->slices; i++)
            c->sums[i * c->rows + r] =
                kernels->loss.slice_sum(logits_of(c, r) + c->bounds[i], c->bounds[i + 1] - c->bounds[i], c->m[r]);
}

/* As sums_rows(), for 16-bit logits. */
static void sums_half_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < c->slices; i++) c->sums[i * c->rows + r] = half_sum(kernels, c, r, i, c->m[r]);
}

/* Computes sums[slice][row] of exp(z − m), with m the maximum over all workers. */
ls_status ls_cpu_op_loss_sums(ls_device *device, const ls_loss_call *call) {
    LS_TRY(ls_check_loss(call));
    return run_rows(device, call, call->z_dtype == LS_F32 ? sums_rows : sums_half_rows);
}

/* Computes the losses of rows begin … end−1. */
static void value_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) c->loss[r] = kernels->loss.value(c->z_target[r], c->m[r], c->l[r]);
}

/* Computes loss from z_target, m and l of all workers: log(l) − (z_target − m). */
ls_status ls_cpu_op_loss_values(ls_device *device, const ls_loss_call *call) {
    enum { ROWS = 1024 };
    return ls_cpu_run(device, call->rows, ROWS, value_rows, call);
}

/* Computes dz of rows begin … end−1. */
static void grad_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) {
        size_t target = target_column(c, r);
        if (target != LS_LOSS_NO_TARGET) target -= first_column(c);
        grad_row(kernels, c, r, c->m[r], c->l[r], target);
    }
}

/* As grad_rows(), for 16-bit logits. */
static void grad_half_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_loss_call *c = args;
    for (size_t r = begin; r < end; r++) half_grad(kernels, c, r, c->m[r], c->l[r]);
}

/* Computes dz of this worker's columns from z, m and l. */
ls_status ls_cpu_op_loss_grad(ls_device *device, const ls_loss_call *call) {
    LS_TRY(ls_check_loss(call));
    return run_rows(device, call, call->z_dtype == LS_F32 ? grad_rows : grad_half_rows);
}

/* Adds atomically. The totals are integers, so the order of the threads does not matter. */
static void add(int64_t *sum, int64_t more) {
    if (more) atomic_fetch_add_explicit((_Atomic int64_t *)sum, more, memory_order_relaxed);
}

/* Adds the losses of tokens begin … end−1, without those of the context, to *sum. */
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

/* Adds the losses of sequences to *sum, without the first `context` tokens of each. */
ls_status ls_cpu_op_add_losses(ls_device *device, const ls_add_losses_call *call) {
    return ls_cpu_run(device, call->sequences * call->T, LS_CPU_GRAIN, add_loss_range, call);
}

/* Counts the rows of begin … end−1 whose largest logit is the target's. */
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

/* Adds to *right the number of rows whose largest logit is the target's; for accuracy. */
ls_status ls_cpu_op_count_right(ls_device *device, const ls_count_right_call *call) {
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->columns), right_rows, call);
}
