/* act.c: activations and bias. All but bias_grad are elementwise and split by elements or rows; bias_grad is a sum
 * over tokens. */
#include <string.h>

#include "device/cpu/ops/staging.h"
#include "device/cpu/ops/token_sums.h"

LS_ASSERT_ARGS(ls_act_call, 6);
/* Computes elements begin … end−1: forward if the call has no dy, else backward. */
static void act_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_act_call *c = args;
    ls_cpu_buffer buffer, second;
    for (size_t i = begin, n; i < end; i += n) {
        n = ls_cpu_piece(c->act, end - i);
        const float *x = ls_cpu_widen(kernels, second.at, c->x, c->act, i, n);
        float *y = ls_cpu_target(buffer.at, c->y, c->act, i);
        if (c->dy)
            kernels->act.backward[c->fn](y, ls_cpu_widen(kernels, buffer.at, c->dy, c->act, i, n), x, n);
        else
            kernels->act.forward[c->fn](y, x, n);
        ls_cpu_narrow(kernels, c->y, c->act, i, y, n);
    }
}

/* Computes y, the gradient of x, from dy and x; with a NULL dy forward. LS_ERR_INPUT for types other than fp32 and 16
 * bits. */
ls_status ls_cpu_op_act_backward(ls_device *device, const ls_act_call *call) {
    LS_TRY(ls_check_float(ls_act_fn_names[call->fn], call->act));
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, act_range, call);
}

/* Computes y = fn(x); ignores dy. */
ls_status ls_cpu_op_act_forward(ls_device *device, const ls_act_call *call) {
    ls_act_call forward = *call;
    forward.dy = NULL;
    return ls_cpu_op_act_backward(device, &forward);
}

/* Computes n elements of row r from `column` on, of a 16-bit call, in fp32 buffers: forward if there is no dy, else
 * backward. */
static void gated_piece(const ls_kernels *kernels, const ls_gated_call *c, size_t r, size_t column, size_t n) {
    ls_cpu_buffer gate, up, dy;
    size_t in = r * c->in_stride + column, din = r * c->din_stride + column;
    ls_gated_call piece = *c;
    piece.rows = 1;
    piece.columns = n;
    piece.act = LS_F32;
    piece.gate = ls_cpu_widen(kernels, gate.at, c->gate, c->act, in, n);
    piece.up = ls_cpu_widen(kernels, up.at, c->up, c->act, in, n);
    piece.y = piece.dgate = gate.at;
    piece.dup = up.at;
    if (!c->dy) {
        kernels->act.gated_forward(&piece);
        ls_cpu_narrow(kernels, c->y, c->act, r * c->y_stride + column, gate.at, n);
        return;
    }
    piece.dy = ls_cpu_widen(kernels, dy.at, c->dy, c->act, r * c->dy_stride + column, n);
    kernels->act.gated_backward(&piece);
    ls_cpu_narrow(kernels, c->dgate, c->act, din, gate.at, n);
    ls_cpu_narrow(kernels, c->dup, c->act, din, up.at, n);
}

/* Computes rows of forward if there is no dy, else of backward. */
static void gated_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_gated_call *c = args;
    for (size_t r = begin; r < end && c->act != LS_F32; r++)
        for (size_t i = 0; i < c->columns; i += LS_CPU_STAGING)
            gated_piece(kernels, c, r, i, ls_cpu_piece(c->act, c->columns - i));
    if (c->act != LS_F32) return;
    ls_gated_call part = *c;
    part.rows = end - begin;
    ls_gated_call_skip_rows(&part, begin);
    (c->dy ? kernels->act.gated_backward : kernels->act.gated_forward)(&part);
}

/* Computes dgate and dup from dy, gate and up; with a NULL dy forward. */
ls_status ls_cpu_op_gated_backward(ls_device *device, const ls_gated_call *call) {
    LS_TRY(ls_check_float("a gate", call->act));
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->columns), gated_rows, call);
}

/* Computes y = fn(gate)·up; ignores dy. */
ls_status ls_cpu_op_gated_forward(ls_device *device, const ls_gated_call *call) {
    ls_gated_call forward = *call;
    forward.dy = NULL;
    return ls_cpu_op_gated_backward(device, &forward);
}

/* Computes rows begin … end−1 of bias_gelu_forward. */
static void bias_gelu_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    ls_bias_gelu_call part = *(const ls_bias_gelu_call *)args;
    part.rows = end - begin;
    ls_bias_gelu_call_skip_rows(&part, begin);
    kernels->act.bias_gelu_forward(&part);
}

/* Computes pre = c + bias and y = gelu(pre), in fp32. */
ls_status ls_cpu_op_bias_gelu_forward(ls_device *device, const ls_bias_gelu_call *call) {
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->columns), bias_gelu_rows, call);
}

LS_ASSERT_ARGS(ls_bias_add_call, 8);
/* Computes rows begin … end−1: adds the bias, or only converts (or copies) if it is NULL. */
static void bias_add_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_bias_add_call *b = args;
    ls_cpu_buffer buffer;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0, n; i < b->columns; i += n) {
            n = ls_cpu_piece(b->act, b->columns - i);
            const float *c = b->c + r * b->c_stride + i, *sum = c;
            float *y = ls_cpu_target(buffer.at, b->y, b->act, r * b->y_stride + i);
            if (b->bias) {
                kernels->add.add_f32(y, c, b->bias + i, n);
                sum = y;
            } else if (b->act == LS_F32 && y != c) {
                memcpy(y, c, n * sizeof *y);
            }
            ls_cpu_narrow(kernels, b->y, b->act, r * b->y_stride + i, sum, n);
        }
}

/* Computes y = c + bias for each row, rounded to the type of y; without a bias a conversion. */
ls_status ls_cpu_op_bias_add(ls_device *device, const ls_bias_add_call *call) {
    LS_TRY(ls_check_float("a sum with a bias", call->act));
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->columns), bias_add_rows, call);
}

/* Continues the sum of one token slice over the rows of a tile: a callback of ls_cpu_run_chains(). */
static void bias_chain(const ls_kernels *kernels, const void *args, float *const to[2], const ls_cpu_tile *tile) {
    (void)args;
    kernels->act.bias_grad(to[0], tile->dy, tile->dy_stride, tile->rows, 0, tile->columns);
}

LS_ASSERT_ARGS(ls_bias_grad_call, 6);
/* Computes the gradient of a bias: the sums of dy over tokens, by slices and groups. */
ls_status ls_cpu_op_bias_grad(ls_device *device, const ls_bias_grad_call *call) {
    LS_TRY(ls_check_float("the gradient of a bias", call->act));
    LS_TRY(ls_token_groups_check(call->groups));
    return ls_cpu_run_chains(ls_cpu_enter(device), &(ls_cpu_chains){.groups = call->groups,
                                                                    .columns = call->columns,
                                                                    .dy = call->dy,
                                                                    .act = call->act,
                                                                    .dy_stride = call->dy_stride,
                                                                    .sums = 1,
                                                                    .out = {call->db},
                                                                    .chain = bias_chain});
}
