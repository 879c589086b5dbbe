/* dropout.c: dropout, split by rows. */
#include "device/cpu/ops/staging.h"

/* Drops n elements of row r from `column` on, as n rows of one column, whose global indices are consecutive. */
static void dropout_piece(const ls_kernels *kernels, const ls_dropout_call *c, size_t r, size_t column, size_t n) {
    ls_cpu_buffer buffer;
    ls_dropout_call piece = *c;
    size_t y = r * c->y_stride + column;
    piece.drop.first = ls_drop_row(&c->drop, r) * c->columns + column;
    piece.drop.gap = 0;
    piece.rows = n;
    piece.columns = piece.x_stride = piece.y_stride = piece.residual_stride = 1;
    piece.x = ls_cpu_widen(kernels, buffer.at, c->x, c->x_dtype, r * c->x_stride + column, n);
    piece.residual = c->residual ? c->residual + r * c->residual_stride + column : NULL;
    piece.y = ls_cpu_target(buffer.at, c->y, c->y_dtype, y);
    piece.x_dtype = piece.y_dtype = LS_F32;
    kernels->dropout.dropout_add(&piece);
    ls_cpu_narrow(kernels, c->y, c->y_dtype, y, piece.y, n);
}

/* Drops in rows r … r+rows−1, which are consecutive in the batch. */
static void drop_neighbours(const ls_kernels *kernels, const ls_dropout_call *c, size_t r, size_t rows) {
    ls_dropout_call part = *c;
    part.rows = rows;
    part.drop.first = ls_drop_row(&c->drop, r);
    part.drop.gap = 0;
    ls_dropout_call_skip_rows(&part, r);
    kernels->dropout.dropout_add(&part);
}

/* Returns the end of the run of rows from r on that are consecutive in the batch; at most `end`. */
static size_t neighbours_end(const ls_drop *drop, size_t r, size_t end) {
    size_t sequence = drop->gap ? (r / drop->together + 1) * drop->together : end;
    return sequence < end ? sequence : end;
}

/* Computes rows begin … end−1: fp32 tensors in place, run by run of rows without a gap; 16-bit ones in pieces. */
static void dropout_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_dropout_call *c = args;
    bool wide = c->x_dtype == LS_F32 && c->y_dtype == LS_F32;
    for (size_t r = begin, next; wide && r < end; r = next) {
        next = neighbours_end(&c->drop, r, end);
        drop_neighbours(kernels, c, r, next - r);
    }
    for (size_t r = begin; !wide && r < end; r++)
        for (size_t i = 0; i < c->columns; i += LS_CPU_STAGING)
            dropout_piece(kernels, c, r, i, c->columns - i < LS_CPU_STAGING ? c->columns - i : LS_CPU_STAGING);
}

/* Computes y = residual + dropout(x); backward is the same call without a residual, from dy to dx. */
ls_status ls_cpu_op_dropout_add(ls_device *device, const ls_dropout_call *call) {
    LS_TRY(ls_check_float("dropout", call->x_dtype));
    LS_TRY(ls_check_float("dropout", call->y_dtype));
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->columns), dropout_rows, call);
}
