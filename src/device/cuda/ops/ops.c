/* ops.c: the table of operations of a GPU. */
#include "device/cuda/ops/ops.h"

void ls_cuda_ops_fill(ls_ops *ops) {
    ls_cuda_ops_fill_gemm(ops);
    ls_cuda_ops_fill_conv(ops);
    ls_cuda_ops_fill_norm(ops);
}
