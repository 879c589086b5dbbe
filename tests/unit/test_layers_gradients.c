/* test_layers_gradients.c: the gradient that each layer's kernels give against central differences, in double, of the
 * layer written down in double.
 *
 * The objective is Σ dy·y over the outputs, so its derivative is what the backward kernels compute from dy. */
#include "layers.h"

#include "device/cpu/kernels.h"

enum { ROWS = 3, C = 21, N = ROWS * C };
#define EPS 1e-5f

static float dy[N];

typedef double (*objective)(const double *parameters);

/* parameters and gradient have n elements each. */
static void check_gradient(objective f, const float *parameters, const float *gradient, size_t n, const char *what) {
    double p[4 * N];
    assert_true(n <= sizeof p / sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (double)parameters[i];
    for (size_t i = 0; i < n; i++) {
        const double h = 1e-5, kept = p[i];
        p[i] = kept + h;
        double above = f(p);
        p[i] = kept - h;
        double slope = (above - f(p)) / (2 * h);
        p[i] = kept;
        if (!(fabs(slope - (double)gradient[i]) <= 2e-5 * (1 + fabs(slope))))
            fail_msg("%s: derivative %zu is %g, should be %g", what, i, (double)gradient[i], slope);
    }
}

static void fill(float *to, size_t n, uint32_t purpose) {
    ls_rng_key key = ls_rng_key_make(3, purpose, 0);
    for (size_t i = 0; i < n; i++) to[i] = random_float(key, i, PLAIN) * 0.5f;
}

/* ---- norms: parameters x, w, b ----------------------------------------------------------------------------------- */

static double norm_objective(const double *p, int rms) {
    const double *w = p + N, *b = p + N + C;
    double sum = 0;
    for (int r = 0; r < ROWS; r++) {
        const double *x = p + r * C;
        double mean = 0, var = 0;
        for (int i = 0; i < C && !rms; i++) mean += x[i] / C;
        for (int i = 0; i < C; i++) var += (x[i] - mean) * (x[i] - mean) / C;
        for (int i = 0; i < C; i++)
            sum += (double)dy[r * C + i] * ((x[i] - mean) / sqrt(var + (double)EPS) * w[i] + (rms ? 0 : b[i]));
    }
    return sum;
}

static double layer_objective(const double *p) { return norm_objective(p, 0); }
static double rms_objective(const double *p) { return norm_objective(p, 1); }

static void check_norm(const ls_norm_kernels *k) {
    for (int rms = 0; rms < 2; rms++) {
        float p[N + 2 * C], gradient[N + 2 * C] = {0}, y[N], mean[ROWS], rstd[ROWS];
        fill(p, N + 2 * C, 1);
        const ls_norm_call c = {.rms = rms,
                                .rows = ROWS,
                                .C = C,
                                .eps = EPS,
                                .x = p,
                                .x_stride = C,
                                .w = p + N,
                                .b = rms ? NULL : p + N + C,
                                .y = y,
                                .y_stride = C,
                                .mean = rms ? NULL : mean,
                                .rstd = rstd,
                                .dy = dy,
                                .dy_stride = C,
                                .dx = gradient,
                                .dx_stride = C,
                                .dw = gradient + N,
                                .db = rms ? NULL : gradient + N + C};
        k->forward(&c);
        k->backward(&c);
        k->params(&c);
        if (rms)
            check_gradient(rms_objective, p, gradient, N + C, "rms norm");
        else
            check_gradient(layer_objective, p, gradient, N + 2 * C, "layer norm");
    }
}

static void test_norm(void **state) {
    (void)state;
    CHECK_EVERY_ISA(norm, check_norm);
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
static double silu(double x) { return x / (1 + exp(-x)); }

static double gelu_objective(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)dy[i] * gelu(x[i]);
    return sum;
}

static double silu_objective(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)dy[i] * silu(x[i]);
    return sum;
}

/* gate, then up */
static double gated_objective(const double *p) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)dy[i] * silu(p[i]) * p[N + i];
    return sum;
}

static double gated_gelu_objective(const double *p) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)dy[i] * gelu(p[i]) * p[N + i];
    return sum;
}

/* c, then bias */
static double bias_objective(const double *p) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)dy[i] * gelu(p[i] + p[N + i % C]);
    return sum;
}

static void check_act(const ls_act_kernels *k) {
    float p[2 * N], gradient[2 * N], y[N], pre[N];
    fill(p, 2 * N, 2);
    k->backward[LS_ACT_GELU](gradient, dy, p, N);
    check_gradient(gelu_objective, p, gradient, N, "gelu");
    k->backward[LS_ACT_SILU](gradient, dy, p, N);
    check_gradient(silu_objective, p, gradient, N, "silu");
    ls_gated_call gated = {.dgate = gradient,
                           .dup = gradient + N,
                           .din_stride = C,
                           .dy = dy,
                           .dy_stride = C,
                           .gate = p,
                           .up = p + N,
                           .in_stride = C,
                           .rows = ROWS,
                           .columns = C};
    k->gated_backward(&gated);
    check_gradient(gated_objective, p, gradient, 2 * N, "gated silu");
    gated.fn = LS_GATE_GELU;
    k->gated_backward(&gated);
    check_gradient(gated_gelu_objective, p, gradient, 2 * N, "gated gelu");
    k->bias_gelu_forward(&(ls_bias_gelu_call){.y = y,
                                              .y_stride = C,
                                              .pre = pre,
                                              .pre_stride = C,
                                              .c = p,
                                              .c_stride = C,
                                              .bias = p + N,
                                              .rows = ROWS,
                                              .columns = C});
    k->backward[LS_ACT_GELU](gradient, dy, pre, N);
    memset(gradient + N, 0, C * sizeof *gradient);
    k->bias_grad(gradient + N, gradient, C, ROWS, 0, C);
    check_gradient(bias_objective, p, gradient, N + C, "bias");
}

static void test_act(void **state) {
    (void)state;
    CHECK_EVERY_ISA(act, check_act);
}

/* ---- rotary embedding: heads of 6, three in a row of 18 ---------------------------------------------------------- */

enum { D = 6, HEADS = 3 };
static float cos_table[ROWS * D / 2], sin_table[ROWS * D / 2];

static double rope_objective(const double *x) {
    double sum = 0;
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < D / 2; i++) {
                int at = r * C + h * D + i;
                double c = (double)cos_table[r * D / 2 + i], s = (double)sin_table[r * D / 2 + i];
                sum += (double)dy[at] * (x[at] * c - x[at + D / 2] * s);
                sum += (double)dy[at + D / 2] * (x[at + D / 2] * c + x[at] * s);
            }
    return sum;
}

static void check_rope(const ls_rope_kernels *k) {
    float x[N], gradient[N] = {0};
    fill(x, N, 3);
    for (int i = 0; i < ROWS * D / 2; i++) {
        cos_table[i] = (float)cos(0.7 * i);
        sin_table[i] = (float)sin(0.7 * i);
    }
    const ls_rope_call call = {.y = gradient,
                               .y_row_stride = C,
                               .y_head_stride = D,
                               .x = dy,
                               .x_row_stride = C,
                               .x_head_stride = D,
                               .rows = ROWS,
                               .heads = HEADS,
                               .d = D,
                               .cos = cos_table,
                               .sin = sin_table,
                               .position0 = 0,
                               .period = ROWS};
    k->backward(&call);
    check_gradient(rope_objective, x, gradient, N, "rope");
}

static void test_rope(void **state) {
    (void)state;
    CHECK_EVERY_ISA(rope, check_rope);
}

/* ---- embeddings: two token rows, then two position rows ---------------------------------------------------------- */

static const int32_t ids[ROWS] = {1, 0, 1};

static double embed_objective(const double *p) {
    double sum = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < C; i++) sum += (double)dy[r * C + i] * (p[ids[r] * C + i] + p[2 * C + r % 2 * C + i]);
    return sum;
}

static void check_embed(const ls_embed_kernels *k) {
    float p[4 * C], gradient[4 * C];
    fill(p, 4 * C, 4);
    for (int i = 0; i < 4 * C; i++) gradient[i] = -0.0f;
    const ls_embed_tokens tokens = {ids, 0, 2, ROWS, C};
    k->token_grad(gradient, dy, C, &tokens, 0, C);
    k->position_grad(gradient + 2 * C, dy, C, 0, 2, ROWS, C, 0, C);
    check_gradient(embed_objective, p, gradient, 4 * C, "embedding");
}

static void test_embed(void **state) {
    (void)state;
    CHECK_EVERY_ISA(embed, check_embed);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

enum { TARGET = 40 };

static double loss_objective(const double *z) {
    double sum = 0;
    for (int j = 0; j < N; j++) sum += exp(z[j]);
    return log(sum) - z[TARGET];
}

static void check_loss(const ls_loss_kernels *k) {
    static const size_t bounds[] = {0, 20, N};
    float z[N], gradient[N];
    fill(z, N, 5);
    k->row(gradient, z, bounds, 2, TARGET, 1.0f);
    check_gradient(loss_objective, z, gradient, N, "cross-entropy");
}

static void test_loss(void **state) {
    (void)state;
    CHECK_EVERY_ISA(loss, check_loss);
}

static int set_up(void **state) {
    (void)state;
    fill(dy, N, 9);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),  cmocka_unit_test(test_act),  cmocka_unit_test(test_rope),
        cmocka_unit_test(test_embed), cmocka_unit_test(test_loss),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
