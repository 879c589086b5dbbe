/* test_conv.c: convolutions on every ISA and several numbers of threads, bit by bit: against plain loops written from
 * docs/reference/arithmetic.md, and against ls_gemm over patches that are written out; odd shapes, strides, padding,
 * groups, sums that go on, siblings, bias. All memory around the results is compared too. */
#include "ops.h"

#include <math.h>

/* ---- the rules --------------------------------------------------------------------------------------------------- */

typedef struct shape {
    size_t images, height, width, c_in, c_out;
    ls_window w;
    size_t out_y, out_x; /* by the definition of a convolution, not by the code's formula */
} shape;

static size_t windows(size_t size, size_t kernel, size_t stride, size_t pad) {
    size_t n = 0;
    while (n * stride + kernel <= size + 2 * pad) n++;
    return n;
}

static shape shape_of(size_t images, size_t height, size_t width, size_t c_in, size_t c_out, ls_window w) {
    shape s = {images, height, width, c_in, c_out, w, 0, 0};
    s.out_y = windows(height, w.kernel_y, w.stride_y, w.pad_y);
    s.out_x = windows(width, w.kernel_x, w.stride_x, w.pad_x);
    return s;
}

/* The number of channel c at a pixel of the padded image; outside +0. */
static float pixel(const float *x, size_t image, size_t y, size_t x_at, size_t c, const shape *s) {
    if (y < s->w.pad_y || x_at < s->w.pad_x || y >= s->height + s->w.pad_y || x_at >= s->width + s->w.pad_x) return 0;
    return x[((image * s->height + y - s->w.pad_y) * s->width + x_at - s->w.pad_x) * s->c_in + c];
}

static size_t taps(const shape *s) { return s->w.kernel_y * s->w.kernel_x * s->c_in; }
static size_t positions(const shape *s) { return s->images * s->out_y * s->out_x; }
static size_t x_elems(const shape *s) { return s->images * s->height * s->width * s->c_in; }

/* Column t of the patch at a position. */
static float patch(const float *x, size_t position, size_t t, const shape *s) {
    size_t image = position / (s->out_y * s->out_x), oy = position / s->out_x % s->out_y, ox = position % s->out_x;
    size_t ky = t / (s->w.kernel_x * s->c_in), kx = t / s->c_in % s->w.kernel_x;
    return pixel(x, image, oy * s->w.stride_y + ky, ox * s->w.stride_x + kx, t % s->c_in, s);
}

/* All of them, [position][taps]. */
static float *patches_of(const float *x, const shape *s) {
    float *out = malloc(positions(s) * taps(s) * sizeof *out);
    assert_non_null(out);
    for (size_t p = 0; p < positions(s); p++)
        for (size_t t = 0; t < taps(s); t++) out[p * taps(s) + t] = patch(x, p, t, s);
    return out;
}

static void expect_forward(float *y, const float *patches, const float *w, const float *bias, const shape *s) {
    for (size_t p = 0; p < positions(s); p++)
        for (size_t o = 0; o < s->c_out; o++) {
            float c = 0;
            for (size_t t = 0; t < taps(s); t++) c = fmaf(patches[p * taps(s) + t], w[o * taps(s) + t], c);
            y[p * s->c_out + o] = bias ? c + bias[o] : c;
        }
}

/* One pixel and channel: taps that windows at multiples of the stride can have over it, windows that are not there
 * being +0. */
static float input_grad_at(const float *dy, const float *w, const shape *s, size_t image, size_t py, size_t px,
                           size_t i) {
    float c = 0;
    for (size_t ky = 0; ky < s->w.kernel_y; ky++)
        for (size_t kx = 0; kx < s->w.kernel_x; kx++) {
            long y = (long)(py + s->w.pad_y) - (long)ky, x = (long)(px + s->w.pad_x) - (long)kx;
            if (y % (long)s->w.stride_y || x % (long)s->w.stride_x) continue;
            long oy = y / (long)s->w.stride_y, ox = x / (long)s->w.stride_x;
            int there = y >= 0 && x >= 0 && oy < (long)s->out_y && ox < (long)s->out_x;
            for (size_t o = 0; o < s->c_out; o++) {
                float g = there ? dy[((image * s->out_y + (size_t)oy) * s->out_x + (size_t)ox) * s->c_out + o] : 0.0f;
                c = fmaf(g, w[((o * s->w.kernel_y + ky) * s->w.kernel_x + kx) * s->c_in + i], c);
            }
        }
    return c;
}

static void expect_input_grad(float *dx, const float *dy, const float *w, const shape *s) {
    for (size_t p = 0; p < s->images * s->height * s->width; p++)
        for (size_t i = 0; i < s->c_in; i++)
            dx[p * s->c_in + i] =
                input_grad_at(dy, w, s, p / (s->height * s->width), p / s->width % s->height, p % s->width, i);
}

static float tree(const float *leaves, int n) {
    if (n == 1) return leaves[0];
    int left = 1;
    while (2 * left < n) left *= 2;
    return tree(leaves, left) + tree(leaves + left, n - left);
}

static float weight_grad_at(const float *dy, const float *patches, const shape *s, size_t o, size_t t, size_t begin,
                            size_t end, float c) {
    for (size_t p = begin; p < end; p++) c = fmaf(dy[p * s->c_out + o], patches[p * taps(s) + t], c);
    return c;
}

/* ---- one shape --------------------------------------------------------------------------------------------------- */

static ls_conv_call call_of(const shape *s) {
    return (ls_conv_call){s->images, s->height, s->width, s->c_in, s->c_out, s->w, .x = NULL};
}

/* Patches written out on the device, and the product of forward or of the weight gradient over them. */
static void check_explicit(const shape *s, const float *written, const twin *x, const twin *w, const twin *dy) {
    size_t P = positions(s), K = taps(s), C = s->c_out;
    twin patches = make(P * K), y = make(P * C), dw = make(C * K);
    memcpy(patches.ref, written, P * K * sizeof(float));
    ok(ls_device_copy_in(device, patches.dev, patches.ref, P * K * sizeof(float)));
    twin plain_y = make(P * C), plain_dw = make(C * K);
    ls_conv_call c = call_of(s);
    c.x = x->dev, c.w = w->dev, c.y = y.dev, c.dy = dy->dev, c.dw = dw.dev;
    ok(ops->conv_forward(device, &c));
    ok(ops->conv_weight_grad(device, &c));
    ls_gemm g = {.form = LS_GEMM_NT, .m = P, .n = C, .k = K, .a = patches.dev, .b = w->dev, .lda = K, .ldb = K};
    g.c = plain_y.dev, g.ldc = C;
    ok(ops->gemm(device, &g));
    g = (ls_gemm){.form = LS_GEMM_TN, .m = C, .n = K, .k = P, .a = dy->dev, .b = patches.dev, .lda = C, .ldb = K};
    g.c = plain_dw.dev, g.ldc = K;
    ok(ops->gemm(device, &g));
    ok(ls_device_copy_out(device, y.ref, plain_y.dev, P * C * sizeof(float)));
    ok(ls_device_copy_out(device, dw.ref, plain_dw.dev, C * K * sizeof(float)));
    memcpy(plain_y.ref, y.ref, P * C * sizeof(float));
    memcpy(plain_dw.ref, dw.ref, C * K * sizeof(float));
}

static void check_shape(const shape *s, int explicit) {
    size_t P = positions(s), K = taps(s), C = s->c_out;
    twin x = make(x_elems(s)), w = make(C * K), bias = make(C), dy = make(P * C);
    twin y = make(P * C), with_bias = make(P * C), dx = make(x_elems(s)), dw = make(C * K), going_on = make(C * K);
    ls_conv_call c = call_of(s);
    c.x = x.dev, c.w = w.dev, c.dy = dy.dev, c.y = y.dev, c.dx = dx.dev, c.dw = dw.dev;
    ok(ops->conv_forward(device, &c));
    ok(ops->conv_input_grad(device, &c));
    ok(ops->conv_weight_grad(device, &c));
    c.y = with_bias.dev, c.bias = bias.dev;
    ok(ops->conv_forward(device, &c));
    c.accumulate = true, c.dw = going_on.dev;
    ok(ops->conv_weight_grad(device, &c));
    float *patches = patches_of(x.ref, s);
    expect_forward(y.ref, patches, w.ref, NULL, s);
    expect_forward(with_bias.ref, patches, w.ref, bias.ref, s);
    expect_input_grad(dx.ref, dy.ref, w.ref, s);
    for (size_t o = 0; o < C; o++)
        for (size_t t = 0; t < K; t++) {
            dw.ref[o * K + t] = weight_grad_at(dy.ref, patches, s, o, t, 0, P, 0);
            going_on.ref[o * K + t] = weight_grad_at(dy.ref, patches, s, o, t, 0, P, going_on.ref[o * K + t]);
        }
    if (explicit) check_explicit(s, patches, &x, &w, &dy);
    free(patches);
    check("convolution", C, K);
}

/* Images in groups, with the sums of earlier groups as siblings, one of them dw itself; and a group in two calls. */
static void check_groups(const shape *s, int groups) {
    size_t P = positions(s), K = taps(s), C = s->c_out, bounds[LS_GEMM_SLICES_MAX + 1];
    twin x = make(x_elems(s)), dy = make(P * C), dw = make(C * K), left = make(C * K), cut = make(C * K);
    float leaves[LS_GEMM_SLICES_MAX], *patches = patches_of(x.ref, s);
    for (int i = 0; i <= groups; i++) bounds[i] = (size_t)i * s->images / (size_t)groups * s->out_y * s->out_x;
    ls_conv_call c = call_of(s);
    c.x = x.dev, c.dy = dy.dev, c.dw = dw.dev, c.slices = groups, c.bounds = bounds;
    c.siblings = 2, c.sibling[0] = dw.dev, c.sibling[1] = left.dev;
    ok(ops->conv_weight_grad(device, &c));
    ls_conv_call part = call_of(s);
    size_t first = s->images / 2, at = first * s->out_y * s->out_x;
    part.images = first, part.x = x.dev, part.dy = dy.dev, part.dw = cut.dev;
    ok(ops->conv_weight_grad(device, &part));
    part.images = s->images - first, part.accumulate = true;
    part.x += first * s->height * s->width * s->c_in, part.dy += at * C;
    ok(ops->conv_weight_grad(device, &part));
    for (size_t o = 0; o < C; o++)
        for (size_t t = 0; t < K; t++) {
            for (int i = 0; i < groups; i++)
                leaves[i] = weight_grad_at(dy.ref, patches, s, o, t, bounds[i], bounds[i + 1], 0);
            float *to = &dw.ref[o * K + t];
            *to = left.ref[o * K + t] + (*to + tree(leaves, groups));
            cut.ref[o * K + t] = weight_grad_at(dy.ref, patches, s, o, t, 0, P, 0);
        }
    free(patches);
    check("weight gradient by groups", (size_t)groups, K);
}

/* ---- many shapes ------------------------------------------------------------------------------------------------- */

/* kernel, stride and pad of y and x */
static const ls_window some_windows[] = {{1, 1, 1, 1, 0, 0}, {3, 3, 1, 1, 1, 1}, {3, 3, 2, 2, 1, 1},
                                         {1, 1, 2, 2, 0, 0}, {5, 5, 1, 1, 0, 0}, {5, 3, 3, 2, 2, 1},
                                         {2, 4, 1, 3, 0, 2}, {7, 7, 2, 2, 3, 3}, {1, 2, 3, 1, 1, 4}};
enum { WINDOWS = sizeof some_windows / sizeof *some_windows };

static void small_shapes(void) {
    static const size_t channels[][2] = {{1, 6}, {3, 16}, {16, 5}, {9, 13}, {20, 33}, {64, 12}};
    for (size_t i = 0; i < WINDOWS; i++)
        for (size_t j = 0; j < sizeof channels / sizeof *channels; j++) {
            if ((i + j + (size_t)thread_count) % 3) continue;
            shape s = shape_of(1 + (i + j) % 3, 7 + i % 4, 6 + j, channels[j][0], channels[j][1], some_windows[i]);
            check_shape(&s, j % 2 == 0);
        }
}

/* Contractions, rows and columns that do not fit into one chunk; images of one row of positions, or one pixel. */
static void large_shapes(void) {
    const shape shapes[] = {shape_of(1, 3, 3, 300, 20, (ls_window){3, 3, 1, 1, 1, 1}),
                            shape_of(2, 40, 37, 2, 17, (ls_window){3, 3, 1, 1, 1, 1}),
                            shape_of(3, 1, 40, 5, 14, (ls_window){1, 3, 1, 1, 0, 1}),
                            shape_of(40, 1, 1, 12, 15, (ls_window){3, 3, 1, 1, 1, 1}),
                            shape_of(2, 5, 5, 12, 600, (ls_window){4, 4, 2, 2, 1, 1})};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (thread_count < 7) check_shape(&shapes[i], thread_count == 2);
}

static void group_shapes(void) {
    const shape one = shape_of(9, 6, 5, 7, 12, (ls_window){3, 3, 1, 1, 1, 1});
    const shape two = shape_of(7, 9, 8, 10, 9, (ls_window){3, 2, 2, 2, 1, 0});
    const shape thin = shape_of(9, 6, 6, 1, 6, (ls_window){5, 5, 1, 1, 0, 0});
    const shape plain = shape_of(8, 5, 5, 11, 12, (ls_window){1, 1, 1, 1, 0, 0});
    const shape longer = shape_of(6, 24, 24, 4, 9, (ls_window){3, 3, 1, 1, 1, 1});
    for (int groups = 1; groups <= 7; groups += 2) {
        check_groups(&one, groups);
        check_groups(&two, groups);
        check_groups(&thin, groups);
        check_groups(&plain, groups);
    }
    check_groups(&longer, 4);
    if (thread_count > 1) return;
    /* Channels that fill warps, widths and strides for which a GPU has kernels of its own (conv_grad.cu), and those
     * next to them, for which it has none. */
    static const size_t sides[][3] = {{32, 3, 1}, {16, 4, 1}, {8, 8, 1}, {4, 4, 1},  {32, 4, 2}, {16, 8, 2},
                                      {8, 8, 2},  {8, 6, 1},  {4, 8, 1}, {64, 2, 2}, {15, 4, 2}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        ls_window w = {3, 3, sides[i][2], sides[i][2], 1, 1};
        const shape s = shape_of(5, sides[i][1], sides[i][0], i % 2 ? 32 : 64, i % 3 ? 16 : 32, w);
        check_groups(&s, 1 + (int)(i % 3));
    }
    const shape point = shape_of(7, 9, 14, 64, 32, (ls_window){1, 1, 2, 2, 0, 0});
    check_groups(&point, 1);
    check_groups(&point, 3);
    for (size_t i = 0; i < 4; i++) {
        const shape s = shape_of(5, i == 2 ? 6 : 4, 32, 1 + i, 32 + i / 2 * 32, (ls_window){3, 3, 1, 1, 1, 1});
        check_groups(&s, 1 + (int)(i % 3));
    }
}

static void test_small(void **state) {
    (void)state;
    on_every_device(small_shapes);
}

static void test_large(void **state) {
    (void)state;
    on_every_device(large_shapes);
}

static void test_groups(void **state) {
    (void)state;
    on_every_device(group_shapes);
}

/* Pixels that no window has read get +0, with a stride larger than the kernel; a tap that is absent is not +0 · w. */
static void check_absent(void) {
    twin w = make(1), dy = make(4), dx = make(9);
    w.ref[0] = INFINITY;
    ok(ls_device_copy_in(device, w.dev, w.ref, sizeof(float)));
    for (int i = 0; i < 4; i++) dy.ref[i] = (float)(i + 1);
    ok(ls_device_copy_in(device, dy.dev, dy.ref, 4 * sizeof(float)));
    ls_conv_call c = {1, 3, 3, 1, 1, {1, 1, 2, 2, 0, 0}, .w = w.dev, .dy = dy.dev, .dx = dx.dev};
    ok(ops->conv_input_grad(device, &c));
    for (int i = 0; i < 9; i++) dx.ref[i] = i % 2 == 0 && i / 3 % 2 == 0 ? INFINITY : 0.0f;
    check("absent taps", 3, 3);
}

static void test_absent(void **state) {
    (void)state;
    on_every_device(check_absent);
}

static void check_bad_calls(void) {
    static const size_t bounds[] = {0, 5, 3, 4};
    float *memory = make(64).dev;
    ls_conv_call good = {1, 2, 2, 1, 1, {1, 1, 1, 1, 0, 0}, .x = memory, .w = memory, .dy = memory, .dw = memory + 32};
    good.y = memory + 48;
    ok(ops->conv_forward(device, &good));
    ls_conv_call bad[7] = {good, good, good, good, good, good, good};
    bad[0].window.kernel_y = 3;
    bad[1].window.stride_x = 0;
    bad[2].c_in = 0;
    bad[3].window.pad_y = (size_t)-1;
    bad[4].slices = 3, bad[4].bounds = bounds;
    bad[5].slices = 2, bad[5].bounds = bounds, bad[5].accumulate = true;
    bad[6].slices = LS_GEMM_SLICES_MAX + 1;
    for (int i = 0; i < 7; i++) assert_int_equal(ops->conv_weight_grad(device, &bad[i]), LS_ERR_INPUT);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ops->conv_forward(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->conv_input_grad(device, &bad[i]), LS_ERR_INPUT);
    }
    ls_gemm apart = {.form = LS_GEMM_NN, .m = 1, .n = 1, .k = 1, .accumulate = true};
    apart.c_rows = &(ls_gemm_grid){1, 1, 1, 1, 1};
    assert_int_equal(ops->gemm(device, &apart), LS_ERR_INPUT);
    ls_gemm other = {.form = LS_GEMM_TN, .m = 1, .n = 1, .k = 1, .b_rows = apart.c_rows};
    assert_int_equal(ops->gemm(device, &other), LS_ERR_INPUT);
    release();
}

static void test_bad_calls(void **state) {
    (void)state;
    on_every_device(check_bad_calls);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_small), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_groups), cmocka_unit_test(test_absent),
                                       cmocka_unit_test(test_bad_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
