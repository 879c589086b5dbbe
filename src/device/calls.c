/* calls.c: what calls of operations must keep to. */
#include "device/calls.h"

ls_status ls_window_check(const ls_window *w, size_t height, size_t width) {
    const size_t numbers[] = {height, width, w->kernel_y, w->kernel_x, w->stride_y, w->stride_x};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] < 1 || numbers[i] > LS_SIDE_MAX)
            return ls_fail(LS_ERR_INPUT,
                           "windows of %zu × %zu pixels with stride %zu × %zu over images of %zu × %zu: each must be "
                           "between 1 and %d",
                           w->kernel_y, w->kernel_x, w->stride_y, w->stride_x, height, width, LS_SIDE_MAX);
    if (w->pad_y > LS_SIDE_MAX || w->pad_x > LS_SIDE_MAX)
        return ls_fail(LS_ERR_INPUT, "padding of %zu × %zu pixels exceeds the maximum of %d", w->pad_y, w->pad_x,
                       LS_SIDE_MAX);
    if (ls_window_rows(w, height) < 1 || ls_window_columns(w, width) < 1)
        return ls_fail(
            LS_ERR_INPUT,
            "a window of %zu × %zu pixels does not fit into an image of %zu × %zu padded by %zu × %zu; use a "
            "smaller kernel, more padding or larger images",
            w->kernel_y, w->kernel_x, height, width, w->pad_y, w->pad_x);
    return LS_OK;
}

static bool is_float(ls_dtype dtype) { return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16; }

ls_status ls_gemm_check(const ls_gemm *g) {
    if (!is_float(g->dtype) || !is_float(g->c_dtype))
        return ls_fail(LS_ERR_INPUT,
                       "a matmul has operands of type %d and a result of type %d; both must be fp32, bf16 or fp16",
                       (int)g->dtype, (int)g->c_dtype);
    if (g->c_dtype != LS_F32 && (g->accumulate || g->siblings > 0))
        return ls_fail(LS_ERR_INPUT,
                       "a matmul that accumulates needs an fp32 result; a 16-bit result is rounded once, at the end");
    if ((g->patches || g->b_rows || g->c_rows) && (g->dtype != LS_F32 || g->c_dtype != LS_F32))
        return ls_fail(LS_ERR_INPUT, "a convolution has operands of type %d and a result of type %d; both must be fp32",
                       (int)g->dtype, (int)g->c_dtype);
    if (g->b_rows && g->form != LS_GEMM_NN)
        return ls_fail(LS_ERR_INPUT, "a matmul of form %d has strided rows of B, which only form NN supports",
                       (int)g->form);
    if (g->c_rows && (g->accumulate || g->siblings > 0))
        return ls_fail(LS_ERR_INPUT, "a matmul with strided result rows cannot accumulate; use a contiguous tensor");
    if (g->unit == LS_UNIT_CHAIN) return LS_OK;
    if (g->dtype != LS_BF16)
        return ls_fail(LS_ERR_INPUT, "matrix unit %s multiplies bf16 only; use bf16, or unit chain",
                       ls_unit_name(g->unit));
    return ls_unit_check(g->unit);
}
