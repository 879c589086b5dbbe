/* conv.c: convolutions as matmuls over patches that are read straight from the image, on any device.
 *
 *     forward        y[position][c_out]  = patches of x · w transposed
 *     weight_grad    dw[c_out][taps]     = dy transposed · patches of x
 *     input_grad     dx[pixel][c_in]     = patches of dy · w, in a phase for each remainder of a pixel by the stride
 *
 * With stride s only every s-th tap reaches a pixel. The pixels of one phase have the same taps, so a phase is a
 * plain matmul, whose rows lie apart in dx. */
#include "device/conv.h"

/* Returns the number of kernel positions (taps): its height times its width. */
static size_t taps_of(const ls_conv_call *c) { return c->window.kernel_y * c->window.kernel_x; }

/* Returns the number of output pixels of all images: rows of the matmul. */
static size_t positions_of(const ls_conv_call *c) {
    return c->images * ls_window_rows(&c->window, c->height) * ls_window_columns(&c->window, c->width);
}

/* Checks that a window fits and that the channels are 1 … LS_SIDE_MAX; else LS_ERR_INPUT. */
static ls_status check_conv(const ls_conv_call *c) {
    LS_TRY(ls_window_check(&c->window, c->height, c->width));
    if (c->c_in < 1 || c->c_in > LS_SIDE_MAX || c->c_out < 1 || c->c_out > LS_SIDE_MAX)
        return ls_fail(LS_ERR_INPUT, "a convolution from %zu to %zu channels; both must be between 1 and %d", c->c_in,
                       c->c_out, LS_SIDE_MAX);
    return LS_OK;
}

/* Returns whether the image itself is the matrix of patches: a window of one pixel, stride 1, no padding. */
static bool is_pointwise(const ls_conv_call *c) {
    const ls_window *w = &c->window;
    return taps_of(c) == 1 && w->stride_y == 1 && w->stride_x == 1 && w->pad_y == 0 && w->pad_x == 0;
}

/* Describes x as a matrix of patches, one row per window (ls_gemm_patches). */
static ls_gemm_patches patches_of(const ls_conv_call *c) {
    const ls_window *w = &c->window;
    return (ls_gemm_patches){.height = c->height,
                             .width = c->width,
                             .channels = c->c_in,
                             .rows_y = ls_window_rows(w, c->height),
                             .rows_x = ls_window_columns(w, c->width),
                             .taps_y = w->kernel_y,
                             .taps_x = w->kernel_x,
                             .first_y = -(ptrdiff_t)w->pad_y,
                             .first_x = -(ptrdiff_t)w->pad_x,
                             .step_y = (ptrdiff_t)w->stride_y,
                             .step_x = (ptrdiff_t)w->stride_x,
                             .tap_y = 1,
                             .tap_x = 1};
}

LS_ASSERT_ARGS(ls_conv_call, 18);
ls_status ls_conv_forward(ls_device *device, const ls_conv_call *c) {
    LS_TRY(check_conv(c));
    ls_gemm_patches patches = patches_of(c);
    size_t k = taps_of(c) * c->c_in;
    ls_gemm g = {.form = LS_GEMM_NT, .m = positions_of(c), .n = c->c_out, .k = k};
    g.a = c->x;
    g.lda = c->c_in;
    g.patches = is_pointwise(c) ? NULL : &patches;
    g.b = c->w;
    g.ldb = k;
    g.c = c->y;
    g.ldc = c->c_out;
    g.bias = c->bias;
    return device->ops->gemm(device, &g);
}

/* Checks the slices, bounds and siblings of a weight gradient; else LS_ERR_INPUT. */
static ls_status check_groups(const ls_conv_call *c) {
    if (c->slices < 0 || c->slices > LS_GEMM_SLICES_MAX || c->siblings < 0 || c->siblings > LS_GEMM_SIBLINGS_MAX)
        return ls_fail(LS_ERR_INPUT, "a weight gradient of %d slices with %d siblings; the maximum is %d and %d",
                       c->slices, c->siblings, LS_GEMM_SLICES_MAX, LS_GEMM_SIBLINGS_MAX);
    if (c->slices > 1 && c->accumulate)
        return ls_fail(
            LS_ERR_INPUT,
            "a call that accumulates onto the previous call's weight gradient must hold 1 group, not %d; make "
            "one call per group",
            c->slices);
    for (int i = 0; c->slices > 1 && i < c->slices; i++)
        if (c->bounds[0] != 0 || c->bounds[i + 1] < c->bounds[i] || c->bounds[c->slices] != positions_of(c))
            return ls_fail(LS_ERR_INPUT,
                           "group %d covers positions %zu to %zu of %zu; bounds must ascend from 0 and cover all", i,
                           c->bounds[i], c->bounds[i + 1], positions_of(c));
    return LS_OK;
}

ls_status ls_conv_weight_grad(ls_device *device, const ls_conv_call *c) {
    LS_TRY(check_conv(c));
    LS_TRY(check_groups(c));
    ls_gemm_patches patches = patches_of(c);
    size_t n = taps_of(c) * c->c_in;
    ls_gemm g = {.form = LS_GEMM_TN, .m = c->c_out, .n = n, .k = positions_of(c)};
    g.a = c->dy;
    g.lda = c->c_out;
    g.b = c->x;
    g.ldb = c->c_in;
    g.patches = is_pointwise(c) ? NULL : &patches;
    g.c = c->dw;
    g.ldc = n;
    g.slices = c->slices;
    g.bounds = c->bounds;
    g.accumulate = c->accumulate;
    g.siblings = c->siblings;
    g.ldsibling = n;
    for (int i = 0; i < c->siblings; i++) g.sibling[i] = c->sibling[i];
    return device->ops->gemm(device, &g);
}

/* One direction, y or x, of a phase: its pixels are phase, phase + stride, …; only the taps tap0, tap0 + stride, …
 * reach them. Tap tap0 reads the first of these pixels as part of window `first`. */
typedef struct side {
    size_t pixels, taps, tap0;
    ptrdiff_t first;
} side;

/* Describes the pixels phase, phase + stride, … of an image side of `size` pixels, for the input gradient. */
static side side_of(size_t size, size_t kernel, size_t stride, size_t pad, size_t phase) {
    side s = {.tap0 = (phase + pad) % stride};
    s.pixels = (size - phase + stride - 1) / stride;
    s.taps = s.tap0 < kernel ? (kernel - s.tap0 + stride - 1) / stride : 0;
    s.first = (ptrdiff_t)((phase + pad - s.tap0) / stride);
    return s;
}

/* Computes the pixels of one phase of dx: +0 if no tap reaches them. */
static ls_status run_phase(ls_device *device, const ls_conv_call *c, size_t phase_y, size_t phase_x) {
    const ls_window *w = &c->window;
    side y = side_of(c->height, w->kernel_y, w->stride_y, w->pad_y, phase_y);
    side x = side_of(c->width, w->kernel_x, w->stride_x, w->pad_x, phase_x);
    ls_gemm_patches patches = {.height = ls_window_rows(w, c->height),
                               .width = ls_window_columns(w, c->width),
                               .channels = c->c_out,
                               .rows_y = y.pixels,
                               .rows_x = x.pixels,
                               .taps_y = y.taps,
                               .taps_x = x.taps,
                               .first_y = y.first,
                               .first_x = x.first,
                               .step_y = 1,
                               .step_x = 1,
                               .tap_y = -1,
                               .tap_x = -1};
    ls_gemm_grid weights = {x.taps, c->c_out, w->stride_y * w->kernel_x * c->c_in, w->stride_x * c->c_in,
                            taps_of(c) * c->c_in};
    ls_gemm_grid pixels = {y.pixels, x.pixels, c->height * c->width * c->c_in, w->stride_y * c->width * c->c_in,
                           w->stride_x * c->c_in};
    bool apart = w->stride_y > 1 || w->stride_x > 1;
    ls_gemm g = {.form = LS_GEMM_NN, .n = c->c_in};
    g.m = c->images * y.pixels * x.pixels;
    g.k = y.taps * x.taps * c->c_out;
    g.a = c->dy;
    g.lda = c->c_out;
    g.patches = is_pointwise(c) ? NULL : &patches;
    g.b = c->w + (g.k ? (y.tap0 * w->kernel_x + x.tap0) * c->c_in : 0);
    g.ldb = c->c_in;
    g.b_rows = taps_of(c) == 1 ? NULL : &weights;
    g.c = c->dx + (phase_y * c->width + phase_x) * c->c_in;
    g.ldc = c->c_in;
    g.c_rows = apart ? &pixels : NULL;
    return device->ops->gemm(device, &g);
}

ls_status ls_conv_input_grad(ls_device *device, const ls_conv_call *c) {
    LS_TRY(check_conv(c));
    for (size_t y = 0; y < c->window.stride_y && y < c->height; y++)
        for (size_t x = 0; x < c->window.stride_x && x < c->width; x++) LS_TRY(run_phase(device, c, y, x));
    return LS_OK;
}
