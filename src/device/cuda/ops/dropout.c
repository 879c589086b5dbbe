/* dropout.c: launches dropout with the residual behind it, by rows (kernels/dropout.cu). */
#include "device/cuda/args/dropout.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/take.h"

/* Launches the computation of y = residual + what dropout leaves of x (without a residual, NULL, that alone). Unaligned
 * rows are divided among threads by the runs of four numbers of the random generator. */
ls_status ls_cuda_op_dropout_add(ls_device *device, const ls_dropout_call *c) {
    const size_t width = 4;
    LS_TRY(ls_check_float("dropout", c->x_dtype));
    LS_TRY(ls_check_float("dropout", c->y_dtype));
    ls_cuda_dropout args = {.rows = {.aligned = c->columns % width == 0 && LS_CUDA_FITS(ls_dropout_call)}};
    LS_CUDA_TAKE(ls_dropout_call, args.rows);
    ls_cuda_rows runs = {.rows = c->rows,
                         .columns = c->columns ? c->columns / width + 2 : 0}; /* of the generator, unaligned */
    ls_cuda_grid grid =
        args.rows.aligned ? ls_cuda_rows_grid(&args.rows, width, LS_CUDA_DROPOUT_ROWS) : ls_cuda_rows_grid(&runs, 1, 1);
    if (!args.rows.aligned) args.rows.lanes_log2 = runs.lanes_log2;
    return ls_cuda_launch(device, LS_CUDA_dropout_add, grid, LS_CUDA_PACK_THREADS, 0, &args);
}
