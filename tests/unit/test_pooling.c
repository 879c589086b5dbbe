/* test_pooling.c: pooling on every ISA and several numbers of threads, bit by bit against plain loops written from
 * docs/reference/arithmetic.md: windows that overlap, leave gaps, lie over the edge or are the whole image; equal
 * numbers, zeros of both signs, infinities and NaN. All memory around the results is compared too. */
#include "ops.h"

#include <math.h>

static size_t windows(size_t size, size_t kernel, size_t stride, size_t pad) {
    size_t n = 0;
    while (n * stride + kernel <= size + 2 * pad) n++;
    return n;
}

/* Which pixel tap (ky, kx) of window (oy, ox) is over; 0: none. */
static int pixel_under(const ls_pooling_call *c, size_t oy, size_t ox, size_t ky, size_t kx, size_t *pixel) {
    long y = (long)(oy * c->window.stride_y + ky) - (long)c->window.pad_y;
    long x = (long)(ox * c->window.stride_x + kx) - (long)c->window.pad_x;
    if (y < 0 || x < 0 || y >= (long)c->height || x >= (long)c->width) return 0;
    *pixel = (size_t)y * c->width + (size_t)x;
    return 1;
}

/* NaN above all, +0 above −0. */
static int is_larger(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) && !isnan(b);
    if (a == 0 && b == 0) return signbit(b) && !signbit(a);
    return a > b;
}

/* One window and channel; `c` has pointers to one image, and dx is added to: windows are called in ascending order. */
static void expect_window(const ls_pooling_call *c, size_t oy, size_t ox, size_t columns, size_t channel, int max) {
    size_t at = (oy * columns + ox) * c->channels + channel, pixel, best = 0, count = 0, kernel_x = c->window.kernel_x;
    size_t all = c->window.kernel_y * kernel_x;
    float sum = 0, most = 0;
    for (size_t t = 0; t < all; t++) {
        if (!pixel_under(c, oy, ox, t / kernel_x, t % kernel_x, &pixel)) continue;
        float x = c->x[pixel * c->channels + channel];
        if (count == 0 || is_larger(x, most)) most = x, best = t;
        sum = sum + x;
        count++;
    }
    assert_true(count > 0);
    float share = 1.0f / (float)(c->count_pad ? all : count);
    c->y[at] = max ? most : sum * share;
    if (max) c->taps[at] = (uint32_t)best;
    for (size_t t = 0; t < all; t++) {
        if (!pixel_under(c, oy, ox, t / kernel_x, t % kernel_x, &pixel)) continue;
        float *dx = &c->dx[pixel * c->channels + channel];
        if (!max)
            *dx = fmaf(c->dy[at], share, *dx);
        else if (t == best)
            *dx = *dx + c->dy[at];
    }
}

static void expect(const ls_pooling_call *call, int max) {
    size_t rows = windows(call->height, call->window.kernel_y, call->window.stride_y, call->window.pad_y);
    size_t columns = windows(call->width, call->window.kernel_x, call->window.stride_x, call->window.pad_x);
    size_t in = call->height * call->width * call->channels, out = rows * columns * call->channels;
    for (size_t i = 0; i < call->images * in; i++) call->dx[i] = 0;
    for (size_t image = 0; image < call->images; image++) {
        ls_pooling_call c = *call;
        c.x += image * in, c.dx += image * in, c.y += image * out, c.dy += image * out, c.taps += image * out;
        for (size_t oy = 0; oy < rows; oy++)
            for (size_t ox = 0; ox < columns; ox++)
                for (size_t i = 0; i < c.channels; i++) expect_window(&c, oy, ox, columns, i, max);
    }
}

/* Halves of integers: many are equal. Some are special. */
static void roughen(twin *t, int special) {
    static const uint32_t specials[] = {0x80000000u, 0, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00000u};
    for (size_t i = 0; i < t->elems; i++) {
        t->ref[i] = truncf(t->ref[i] * 2) / 2;
        if (special && i % 7 < 2) memcpy(&t->ref[i], &specials[i * 31 % 6], sizeof(float));
        if (special && i % 5 == 0) t->ref[i] = -0.0f;
    }
    ok(ls_device_copy_in(device, t->dev, t->ref, t->elems * sizeof(float)));
}

static size_t shift; /* of all tensors */

static void check_case(size_t images, size_t height, size_t width, size_t channels, ls_window w, int kind) {
    int max = kind == 0;
    size_t rows = windows(height, w.kernel_y, w.stride_y, w.pad_y);
    size_t columns = windows(width, w.kernel_x, w.stride_x, w.pad_x);
    size_t in = images * height * width * channels, out = images * rows * columns * channels;
    twin x = make_shifted(in, shift), y = make_shifted(out, shift), taps = make_shifted(out, shift);
    twin dy = make_shifted(out, shift), dx = make_shifted(in, shift);
    if (max) roughen(&x, images % 2);
    ls_pooling_call c = {images, height, width, channels, w, kind == 2, x.dev, y.dev, NULL, dy.dev, dx.dev};
    c.taps = (uint32_t *)(void *)taps.dev;
    ok(max ? ops->max_pool_forward(device, &c) : ops->mean_pool_forward(device, &c));
    ok(max ? ops->max_pool_backward(device, &c) : ops->mean_pool_backward(device, &c));
    ls_pooling_call r = {images, height, width, channels, w, kind == 2, x.ref, y.ref, NULL, dy.ref, dx.ref};
    r.taps = (uint32_t *)(void *)taps.ref;
    expect(&r, max);
    /* A NaN of the maximum is the one NaN. */
    for (size_t i = 0; i < out; i++)
        if (isnan(y.ref[i])) memcpy(&y.ref[i], &(uint32_t){0x7FC00000u}, sizeof(float));
    check(max ? "maximum" : "mean", channels, w.kernel_x);
}

static void all_cases(void) {
    static const ls_window some[] = {{2, 2, 2, 2, 0, 0}, {3, 3, 2, 2, 1, 1}, {3, 3, 1, 1, 1, 1}, {2, 3, 3, 4, 1, 2},
                                     {1, 1, 2, 2, 0, 0}, {8, 9, 8, 9, 0, 0}, {5, 2, 1, 1, 4, 0}};
    static const size_t channels[] = {1, 6, 16, 19, 64};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (size_t j = 0; j < sizeof channels / sizeof *channels; j++)
            for (int kind = 0; kind < 3; kind++) check_case(1 + (i + j) % 3, 8, 9, channels[j], some[i], kind);
    shift = 1;
    for (int kind = 0; kind < 3; kind++) check_case(2, 8, 9, 8, some[1], kind);
    shift = 0;
    check_case(3, 64, 61, 17, (ls_window){3, 3, 2, 2, 1, 1}, 0);
    check_case(5, 31, 61, 17, (ls_window){2, 2, 2, 2, 0, 0}, 1);
}

static void test_all(void **state) {
    (void)state;
    on_every_device(all_cases);
}

static void check_bad_calls(void) {
    float *memory = make(64).dev;
    ls_pooling_call good = {1, 4, 4, 1, {2, 2, 2, 2, 1, 1}, false, memory, memory + 16, NULL, memory, memory + 32};
    good.taps = (uint32_t *)(void *)(memory + 48);
    ok(ops->max_pool_forward(device, &good));
    ls_pooling_call bad[5] = {good, good, good, good, good};
    bad[0].window.pad_x = 2;
    bad[1].channels = 0;
    bad[2].window.stride_y = 0;
    bad[3].window.kernel_x = 7;
    bad[4].height = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ops->max_pool_forward(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->max_pool_backward(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->mean_pool_forward(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->mean_pool_backward(device, &bad[i]), LS_ERR_INPUT);
    }
    release();
}

static void test_bad_calls(void **state) {
    (void)state;
    on_every_device(check_bad_calls);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_bad_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
