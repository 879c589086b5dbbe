/* dropout.c: dropout, by rows. */
#include "device/cuda/args/dropout.h"

#include "device/cuda/ops/drop.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

ls_status ls_cuda_op_dropout_add(ls_device *device, const ls_dropout_call *c) {
    enum { WIDTH = 4 };
    LS_TRY(ls_check_float("dropout", c->x_dtype));
    LS_TRY(ls_check_float("dropout", c->y_dtype));
    ls_cuda_dropout args = {.rows = {.rows = c->rows, .columns = c->columns},
                            .drop = ls_cuda_drop_of(&c->drop),
                            .x = c->x,
                            .x_dtype = (int)c->x_dtype,
                            .y_dtype = (int)c->y_dtype,
                            .x_stride = c->x_stride,
                            .residual = c->residual,
                            .residual_stride = c->residual_stride,
                            .y = c->y,
                            .y_stride = c->y_stride};
    args.rows.aligned = c->columns % WIDTH == 0 && ls_cuda_fits(c->x, c->x_dtype, c->x_stride, WIDTH) &&
                        ls_cuda_fits(c->y, c->y_dtype, c->y_stride, WIDTH) &&
                        ls_cuda_fits(c->residual, LS_F32, c->residual_stride, WIDTH);
    ls_cuda_rows runs = {.rows = c->rows,
                         .columns = c->columns ? c->columns / WIDTH + 2 : 0}; /* of the generator, unaligned */
    ls_cuda_grid grid =
        args.rows.aligned ? ls_cuda_rows_grid(&args.rows, WIDTH, LS_CUDA_DROPOUT_ROWS) : ls_cuda_rows_grid(&runs, 1, 1);
    if (!args.rows.aligned) args.rows.lanes_log2 = runs.lanes_log2;
    return ls_cuda_launch(device, LS_CUDA_dropout_add, grid, LS_CUDA_PACK_THREADS, 0, &args);
}
