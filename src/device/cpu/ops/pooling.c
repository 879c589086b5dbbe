/* pooling.c: pooling, split by rows of windows (forward) or of pixels (backward). */
#include "device/cpu/cpu.h"

typedef struct rows_args {
    ls_pooling_rows kernel;
    const ls_pooling_call *call;
} rows_args;

/* Runs the kernel on rows begin … end−1, counted over all images. */
static void rows_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const rows_args *a = args;
    a->kernel(a->call, begin, end);
}

/* Returns the rows of a task, if an image has `rows` of them: the work of a row is its share of the image's elements.
 */
static size_t grain_of(const ls_pooling_call *c, size_t rows) {
    return ls_cpu_row_grain(c->height * c->width * c->channels / rows + 1);
}

/* Runs max or mean pooling over all rows of the output. */
static ls_status forward(ls_device *device, const ls_pooling_call *c, bool max) {
    LS_TRY(ls_pooling_check(c));
    const ls_pooling_kernels *k = &ls_cpu_enter(device)->kernels->pooling;
    size_t rows = ls_window_rows(&c->window, c->height);
    return ls_cpu_run(device, c->images * rows, grain_of(c, rows), rows_range,
                      &(rows_args){max ? k->max_forward : k->mean_forward, c});
}

/* Runs the gradient of max or mean pooling over all rows of dx. */
static ls_status backward(ls_device *device, const ls_pooling_call *c, bool max) {
    LS_TRY(ls_pooling_check(c));
    const ls_pooling_kernels *k = &ls_cpu_enter(device)->kernels->pooling;
    return ls_cpu_run(device, c->images * c->height, grain_of(c, c->height), rows_range,
                      &(rows_args){max ? k->max_backward : k->mean_backward, c});
}

/* Computes y, the maximum of each window, and taps, where in the window it was. */
ls_status ls_cpu_op_max_pool_forward(ls_device *device, const ls_pooling_call *c) { return forward(device, c, true); }
/* Computes dx from dy and taps. */
ls_status ls_cpu_op_max_pool_backward(ls_device *device, const ls_pooling_call *c) { return backward(device, c, true); }
/* Computes y, the mean of each window. */
ls_status ls_cpu_op_mean_pool_forward(ls_device *device, const ls_pooling_call *c) { return forward(device, c, false); }
/* Computes dx from dy. */
ls_status ls_cpu_op_mean_pool_backward(ls_device *device, const ls_pooling_call *c) {
    return backward(device, c, false);
}
