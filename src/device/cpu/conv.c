/* conv.c: windows that make sense. */
#include "device/cpu/conv.h"

#include "base/status.h"

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
