/* test_batch_norm.c: batch norm on every ISA and several numbers of threads, bit by bit against plain loops written
 * from docs/reference/arithmetic.md: ghost groups, residual, ReLU, statistics that are shared, gradients of the
 * parameters; in place; and against double for accuracy. All memory around the results is compared too. */
#include "ops.h"

#include <math.h>

#define EPS 1e-5f

enum { RESIDUAL = 1, RELU = 2, KINDS = 4 };

typedef struct shape {
    size_t images, pixels, C, ghost;
} shape;

/* What a call reads and writes, twice. */
typedef struct tensors {
    twin x, w, b, residual, y, mean, var, rstd, dy, dx, dresidual, sum, dot;
} tensors;

static size_t shift; /* of all tensors */

static tensors tensors_make(const shape *s) {
    size_t n = s->images * s->pixels * s->C, stats = s->images / s->ghost * s->C;
    return (tensors){.x = make_shifted(n, shift),
                     .w = make_shifted(s->C, shift),
                     .b = make_shifted(s->C, shift),
                     .residual = make_shifted(n, shift),
                     .y = make_shifted(n, shift),
                     .mean = make_shifted(stats, shift),
                     .var = make_shifted(stats, shift),
                     .rstd = make_shifted(stats, shift),
                     .dy = make_shifted(n, shift),
                     .dx = make_shifted(n, shift),
                     .dresidual = make_shifted(n, shift),
                     .sum = make_shifted(stats, shift),
                     .dot = make_shifted(stats, shift)};
}

static ls_batch_norm_call call_of(const shape *s, const tensors *t, int kind) {
    ls_batch_norm_call c = {.images = s->images, .pixels = s->pixels, .channels = s->C, .ghost = s->ghost, .eps = EPS};
    c.x = t->x.dev, c.w = t->w.dev, c.b = t->b.dev, c.y = t->y.dev;
    c.residual = kind & RESIDUAL ? t->residual.dev : NULL;
    c.dresidual = kind & RESIDUAL ? t->dresidual.dev : NULL;
    c.relu = (kind & RELU) != 0;
    c.mean = t->mean.dev, c.var = t->var.dev, c.rstd = t->rstd.dev;
    c.dy = t->dy.dev, c.dx = t->dx.dev, c.sum = t->sum.dev, c.dot = t->dot.dev;
    return c;
}

/* ---- the rules --------------------------------------------------------------------------------------------------- */

static size_t at(const shape *s, size_t image, size_t pixel, size_t c) {
    return (image * s->pixels + pixel) * s->C + c;
}

/* The sum over a ghost group of fma(a, b, acc); b NULL: of additions. */
static float sum_of(const shape *s, size_t group, size_t c, const float *a, const float *b) {
    float acc = 0;
    for (size_t i = 0; i < s->ghost; i++) {
        float chain = 0;
        for (size_t p = 0; p < s->pixels; p++) {
            size_t e = at(s, group * s->ghost + i, p, c);
            chain = b ? fmaf(a[e], b[e], chain) : chain + a[e];
        }
        acc = i == 0 ? chain : acc + chain;
    }
    return acc;
}

/* d = x − mean of all images; row of statistics `row` for group g is g, or 0 where they are shared. */
static float *differences(const shape *s, const tensors *t, bool shared) {
    float *d = malloc(t->x.elems * sizeof *d);
    assert_non_null(d);
    for (size_t e = 0; e < t->x.elems; e++) {
        size_t group = e / s->C / s->pixels / s->ghost;
        d[e] = t->x.ref[e] - t->mean.ref[(shared ? 0 : group) * s->C + e % s->C];
    }
    return d;
}

static void expect_stats(const shape *s, const tensors *t) {
    float n = (float)(s->pixels * s->ghost);
    size_t groups = s->images / s->ghost;
    for (size_t i = 0; i < groups * s->C; i++) t->mean.ref[i] = sum_of(s, i / s->C, i % s->C, t->x.ref, NULL) / n;
    float *d = differences(s, t, false);
    for (size_t i = 0; i < groups * s->C; i++) {
        t->var.ref[i] = sum_of(s, i / s->C, i % s->C, d, d) / n;
        t->rstd.ref[i] = 1 / sqrtf(t->var.ref[i] + EPS);
    }
    free(d);
}

static void expect_apply(const shape *s, const tensors *t, int kind, bool shared) {
    for (size_t e = 0; e < t->x.elems; e++) {
        size_t c = e % s->C, stat = (shared ? 0 : e / s->C / s->pixels / s->ghost) * s->C + c;
        float y = fmaf((t->x.ref[e] - t->mean.ref[stat]) * t->rstd.ref[stat], t->w.ref[c], t->b.ref[c]);
        if (kind & RESIDUAL) y = y + t->residual.ref[e];
        t->y.ref[e] = kind & RELU && y <= 0 ? 0 : y;
    }
}

/* g and h of every number. */
static void gradients_of(const shape *s, const tensors *t, int kind, bool shared, float *g, float *h) {
    for (size_t e = 0; e < t->x.elems; e++) {
        size_t stat = (shared ? 0 : e / s->C / s->pixels / s->ghost) * s->C + e % s->C;
        g[e] = kind & RELU && t->y.ref[e] <= 0 ? 0 : t->dy.ref[e];
        h[e] = (t->x.ref[e] - t->mean.ref[stat]) * t->rstd.ref[stat];
    }
}

/* The sums that dx divides by n are those of its group, or `shared_sum` and `shared_dot`. */
static void expect_backward(const shape *s, const tensors *t, int kind, const float *shared_sum,
                            const float *shared_dot, float n) {
    float *g = malloc(t->x.elems * sizeof *g), *h = malloc(t->x.elems * sizeof *h);
    assert_true(g && h);
    gradients_of(s, t, kind, shared_sum != NULL, g, h);
    for (size_t i = 0; !shared_sum && i < t->sum.elems; i++) {
        t->sum.ref[i] = sum_of(s, i / s->C, i % s->C, g, NULL);
        t->dot.ref[i] = sum_of(s, i / s->C, i % s->C, g, h);
    }
    for (size_t e = 0; e < t->x.elems; e++) {
        size_t c = e % s->C, stat = shared_sum ? c : e / s->C / s->pixels / s->ghost * s->C + c;
        float sum = (shared_sum ? shared_sum : t->sum.ref)[stat] / n,
              dot = (shared_dot ? shared_dot : t->dot.ref)[stat] / n;
        t->dx.ref[e] = (t->w.ref[c] * t->rstd.ref[stat]) * fmaf(-h[e], dot, g[e] - sum);
        if (kind & RESIDUAL) t->dresidual.ref[e] = g[e];
    }
    free(g);
    free(h);
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void check_shape(const shape *s, int kind) {
    tensors t = tensors_make(s);
    ls_batch_norm_call c = call_of(s, &t, kind);
    ok(ops->batch_norm_forward(device, &c));
    ok(ops->batch_norm_grad_sums(device, &c));
    ok(ops->batch_norm_input_grad(device, &c));
    expect_stats(s, &t);
    expect_apply(s, &t, kind, false);
    expect_backward(s, &t, kind, NULL, NULL, (float)(s->pixels * s->ghost));
    check("batch norm", s->images, s->C);
}

/* One row of statistics for all groups, from the tree over their sums; joined: that, and those of backward. dx comes in
 * place of dy. */
static void run_shared(const shape *s, const tensors *t, int kind, const twin *sums, const twin *joined) {
    size_t groups = s->images / s->ghost, C = s->C;
    ls_batch_norm_call c = call_of(s, t, kind);
    const void *leaves[16], *dots[16], *grads[16];
    for (size_t g = 0; g < groups; g++) {
        leaves[g] = sums->dev + g * C;
        grads[g] = t->sum.dev + g * C;
        dots[g] = t->dot.dev + g * C;
    }
    c.shared = true, c.count = (double)(s->images * s->pixels);
    c.sums = sums->dev;
    ok(ops->batch_norm_sums(device, &c));
    ok(ops->tree_sum(device, &(ls_tree_sum_call){joined->dev, leaves, LS_F32, (int)groups, C}));
    c.sums = joined->dev;
    ok(ops->batch_norm_mean(device, &c));
    c.sums = sums->dev;
    ok(ops->batch_norm_squares(device, &c));
    ok(ops->tree_sum(device, &(ls_tree_sum_call){joined->dev, leaves, LS_F32, (int)groups, C}));
    c.sums = joined->dev;
    ok(ops->batch_norm_rstd(device, &c));
    ok(ops->batch_norm_apply(device, &c));
    ok(ops->batch_norm_grad_sums(device, &c));
    ok(ops->tree_sum(device, &(ls_tree_sum_call){joined->dev + C, grads, LS_F32, (int)groups, C}));
    ok(ops->tree_sum(device, &(ls_tree_sum_call){joined->dev + 2 * C, dots, LS_F32, (int)groups, C}));
    ok(ls_device_copy(device, t->dx.dev, t->dy.dev, t->dy.elems * sizeof(float)));
    c.sum = joined->dev + C, c.dot = joined->dev + 2 * C, c.dy = c.dx;
    ok(ops->batch_norm_input_grad(device, &c));
}

static float tree(const float *leaves, size_t step, size_t n) {
    if (n == 1) return leaves[0];
    size_t left = 1;
    while (2 * left < n) left *= 2;
    return tree(leaves, step, left) + tree(leaves + left * step, step, n - left);
}

/* sums[group][channel], and their tree. */
static void expect_sums(const shape *s, float *sums, float *joined, const float *a, const float *b) {
    size_t groups = s->images / s->ghost;
    for (size_t i = 0; i < groups * s->C; i++) sums[i] = sum_of(s, i / s->C, i % s->C, a, b);
    for (size_t i = 0; i < s->C; i++) joined[i] = tree(sums + i, s->C, groups);
}

static void check_shared(const shape *s, int kind) {
    tensors t = tensors_make(s);
    size_t C = s->C;
    twin sums = make(s->images / s->ghost * C), joined = make(3 * C);
    float n = (float)(s->images * s->pixels), *g = malloc(t.x.elems * sizeof *g), *h = malloc(t.x.elems * sizeof *h);
    assert_true(g && h);
    run_shared(s, &t, kind, &sums, &joined);
    expect_sums(s, sums.ref, joined.ref, t.x.ref, NULL);
    for (size_t i = 0; i < C; i++) t.mean.ref[i] = joined.ref[i] / n;
    float *d = differences(s, &t, true);
    expect_sums(s, sums.ref, joined.ref, d, d);
    for (size_t i = 0; i < C; i++) {
        t.var.ref[i] = joined.ref[i] / n;
        t.rstd.ref[i] = 1 / sqrtf(t.var.ref[i] + EPS);
    }
    expect_apply(s, &t, kind, true);
    gradients_of(s, &t, kind, true, g, h);
    expect_sums(s, t.sum.ref, joined.ref + C, g, NULL);
    expect_sums(s, t.dot.ref, joined.ref + 2 * C, g, h);
    expect_backward(s, &t, kind, joined.ref + C, joined.ref + 2 * C, n);
    free(d);
    free(g);
    free(h);
    check("shared statistics", s->images, C);
}

/* Weight gradients: ghost groups as sequences of one token, two gradient groups of unequal size, the second in two
 * calls. */
static void check_params(void) {
    enum { GHOSTS = 5, C = 21, FIRST = 2 };
    twin dot = make(GHOSTS * C), first = make(C), second = make(C);
    const size_t one[] = {0, FIRST}, part[] = {0, 1}, rest[] = {0, GHOSTS - FIRST - 1};
    for (size_t g = 0; g < GHOSTS; g++) dot.ref[g * C] = -0.0f; /* of which a chain makes +0 */
    ok(ls_device_copy_in(device, dot.dev, dot.ref, GHOSTS * C * sizeof(float)));
    ls_token_groups groups = {.T = 1, .slices = 1, .groups = 1, .bounds = one};
    ok(ops->bias_grad(device, &(ls_bias_grad_call){first.dev, dot.dev, LS_F32, C, C, &groups}));
    groups.bounds = part;
    ok(ops->bias_grad(device, &(ls_bias_grad_call){second.dev, dot.dev + FIRST * C, LS_F32, C, C, &groups}));
    groups.bounds = rest, groups.accumulate = true;
    ok(ops->bias_grad(device, &(ls_bias_grad_call){second.dev, dot.dev + (FIRST + 1) * C, LS_F32, C, C, &groups}));
    for (size_t i = 0; i < C; i++) {
        const float *d = dot.ref + i;
        first.ref[i] = (0.0f + d[0]) + (0.0f + d[C]);
        second.ref[i] = ((0.0f + d[2 * C]) + (0.0f + d[3 * C])) + (0.0f + d[4 * C]);
    }
    check("gradients of parameters", GHOSTS, C);
}

static void all_cases(void) {
    static const shape shapes[] = {{1, 1, 1, 1},   {2, 3, 5, 1},    {6, 9, 16, 3},   {4, 16, 19, 4},
                                   {8, 25, 64, 2}, {3, 50, 130, 3}, {12, 7, 200, 4}, {2, 300, 40, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            check_shape(&shapes[i], kind);
            check_shared(&shapes[i], kind);
        }
    shift = 1;
    check_shape(&(shape){4, 9, 8, 2}, RESIDUAL | RELU);
    check_shared(&(shape){4, 9, 8, 2}, 0);
    shift = 0;
    check_params();
}

static void test_all(void **state) {
    (void)state;
    on_every_device(all_cases);
}

/* The gradient of Σ dy·y by differences in double, of a function written without batch norm's formulas. */
static double loss_of(const double *x, const float *dy, size_t n, double w, double b) {
    double mean = 0, var = 0, loss = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double y = (x[i] - mean) / sqrt(var + (double)EPS) * w + b;
        loss += (double)dy[i] * (y > 0 ? y : 0);
    }
    return loss;
}

static void test_accuracy(void **state) {
    (void)state;
    enum { N = 24 };
    float x[N], dy[N], y[N], dx[N], w = 1.5f, b = 0.25f, mean, rstd, sum, dot;
    double at_x[N];
    ls_rng_key key = ls_rng_key_make(9, 9, 9);
    for (size_t i = 0; i < N; i++) {
        at_x[i] = (double)(x[i] = 3 * ls_rng_uniform_f32(key, i) + 1);
        dy[i] = ls_rng_uniform_f32(key, i + N) - 0.5f;
    }
    ls_device *one;
    ok(ls_device_open_cpu(1, NULL, NULL, &one));
    ls_batch_norm_call c = {.images = 4, .pixels = 6, .channels = 1, .ghost = 4, .eps = EPS, .relu = true};
    c.x = x, c.w = &w, c.b = &b, c.y = y, c.mean = &mean, c.rstd = &rstd;
    c.dy = dy, c.dx = dx, c.sum = &sum, c.dot = &dot;
    ok(one->ops->batch_norm_forward(one, &c));
    ok(one->ops->batch_norm_grad_sums(one, &c));
    ok(one->ops->batch_norm_input_grad(one, &c));
    const double step = 1e-5;
    for (size_t i = 0; i < N; i++) {
        double keep = at_x[i], up, down;
        at_x[i] = keep + step, up = loss_of(at_x, dy, N, 1.5, 0.25);
        at_x[i] = keep - step, down = loss_of(at_x, dy, N, 1.5, 0.25);
        at_x[i] = keep;
        assert_true(fabs((up - down) / (2 * step) - (double)dx[i]) < 2e-6);
    }
    double by_w = loss_of(at_x, dy, N, 1.5 + step, 0.25) - loss_of(at_x, dy, N, 1.5 - step, 0.25);
    double by_b = loss_of(at_x, dy, N, 1.5, 0.25 + step) - loss_of(at_x, dy, N, 1.5, 0.25 - step);
    assert_true(fabs(by_w / (2 * step) - (double)dot) < 2e-6 && fabs(by_b / (2 * step) - (double)sum) < 2e-6);
    ls_device_destroy(one);
}

static void check_bad_calls(void) {
    float *memory = make(8).dev;
    ls_batch_norm_call good = {.images = 4, .pixels = 1, .channels = 1, .ghost = 2, .x = memory};
    good.sums = memory + 4;
    ok(ops->batch_norm_sums(device, &good));
    ls_batch_norm_call bad[5] = {good, good, good, good, good};
    bad[0].ghost = 0;
    bad[1].ghost = 3;
    bad[2].pixels = 0;
    bad[3].channels = 0;
    bad[4].count = -1;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ops->batch_norm_forward(device, &bad[i]), LS_ERR_INPUT);
        bad[i].sums = memory;
        assert_int_equal(ops->batch_norm_sums(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->batch_norm_apply(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->batch_norm_grad_sums(device, &bad[i]), LS_ERR_INPUT);
        assert_int_equal(ops->batch_norm_input_grad(device, &bad[i]), LS_ERR_INPUT);
    }
    good.shared = true;
    assert_int_equal(ops->batch_norm_forward(device, &good), LS_ERR_INPUT);
    release();
}

static void test_bad_calls(void **state) {
    (void)state;
    on_every_device(check_bad_calls);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_accuracy),
                                       cmocka_unit_test(test_bad_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
