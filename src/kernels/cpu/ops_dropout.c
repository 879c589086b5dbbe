/* ops_dropout.c: dropout, split by rows. */
#include "kernels/cpu/cpu.h"

static void dropout_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    ls_dropout_call part = *(const ls_dropout_call *)args;
    part.rows = end - begin;
    part.index0 += begin;
    part.x += begin * part.x_stride;
    part.y += begin * part.y_stride;
    if (part.residual) part.residual += begin * part.residual_stride;
    kernels->dropout.dropout_add(&part);
}

static ls_status dropout_add(ls_device *device, const ls_dropout_call *call) {
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->columns), dropout_rows, call);
    return LS_OK;
}

void ls_cpu_ops_fill_dropout(ls_ops *ops) { ops->dropout_add = dropout_add; }
