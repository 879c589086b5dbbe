/* test_sgd.c: twenty steps of SGD against its definition, in double.
 *
 * A small model with curved sides: the loss is Σ a·(w − c)²/2 + d·(w − c)⁴/4 over a matrix, which decays, and a vector,
 * which does not. Each side follows its own gradients, so an error in the momentum or in the decay grows from step to
 * step. The reference is torch.optim.SGD as its documentation states it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "numerics/float16.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "device/device.h"

enum { ELEMS = 37, STEPS = 20 }; /* no multiple of a vector */

/* One parameter: what the loss is made of, the reference in double, and ours. */
typedef struct side {
    double a[ELEMS], c[ELEMS], d[ELEMS];
    double w[ELEMS], b[ELEMS];
    float our_w[ELEMS], our_b[ELEMS], our_g[ELEMS];
    uint16_t copy[ELEMS];
    ls_param param;
} side;

static double gradient(const side *s, int i, double w) {
    double x = w - s->c[i];
    return s->a[i] * x + s->d[i] * x * x * x;
}

static void begin(side *s, bool decay, bool momentum, bool copy) {
    *s = (side){.param = {.decay = decay, .own = {0, ELEMS}}};
    for (int i = 0; i < ELEMS; i++) {
        s->a[i] = 0.2 + 0.05 * (i % 11);
        s->c[i] = 0.3 * (i % 7) - 0.8;
        s->d[i] = 0.1 * (i % 3);
        s->our_w[i] = 0.25F * (float)(i % 5) - 0.5F;
        s->w[i] = (double)s->our_w[i];
    }
    s->param.own_w = s->our_w;
    s->param.own_grad = s->our_g;
    s->param.own_w16 = copy ? s->copy : NULL;
    s->param.moment[0] = momentum ? s->our_b : NULL;
}

/* g ← g + λw; b ← μb + g, on the first step b ← g; g ← g + μb (Nesterov) or b; w ← w − γg */
static void follow(side *s, const ls_optimizer *o, double lr, bool first) {
    double lambda = s->param.decay ? o->weight_decay : 0, mu = o->sgd.momentum;
    for (int i = 0; i < ELEMS; i++) {
        double g = gradient(s, i, s->w[i]) + lambda * s->w[i];
        if (mu > 0) {
            s->b[i] = first ? g : mu * s->b[i] + g;
            g = o->sgd.nesterov ? g + mu * s->b[i] : s->b[i];
        }
        s->w[i] -= lr * g;
    }
}

/* Gradients as backward leaves them: too large by what `factor` takes away. */
static void step(side *s, const ls_optimizer_update *update, ls_device *device, const ls_policy *policy) {
    for (int i = 0; i < ELEMS; i++) s->our_g[i] = 8 * (float)gradient(s, i, (double)s->our_w[i]);
    /* In two parts, as sharded states have it. */
    assert_int_equal(ls_optimizer_run(update, device, policy, &s->param, 0, 13), LS_OK);
    assert_int_equal(ls_optimizer_run(update, device, policy, &s->param, 13, ELEMS - 13), LS_OK);
}

static void check(const side *s, const char *what, int number) {
    for (int i = 0; i < ELEMS; i++) {
        double error = fabs((double)s->our_w[i] - s->w[i]);
        if (!(error <= 2e-6))
            fail_msg("%s, step %d, element %d: %.9g, not %.9g", what, number, i, (double)s->our_w[i], s->w[i]);
        if (s->param.own_w16) assert_int_equal(s->copy[i], ls_bf16_from_f32(s->our_w[i]));
    }
}

static void compare(const char *what, double momentum, bool nesterov, double weight_decay, bool copy) {
    const ls_optimizer o = {
        .kind = LS_OPTIMIZER_SGD, .sgd = {.momentum = momentum, .nesterov = nesterov}, .weight_decay = weight_decay};
    const ls_lr_schedule lr = {
        .kind = LS_LR_STEP, .peak = 0.2, .gamma = 0.1, .steps = {2, {10, 15}}, .warmup_steps = 4, .total_steps = STEPS};
    static const double rates[STEPS] = {0.05, 0.1,  0.15, 0.2,  0.2,  0.2,   0.2,   0.2,   0.2,   0.2,
                                        0.02, 0.02, 0.02, 0.02, 0.02, 0.002, 0.002, 0.002, 0.002, 0.002};
    const ls_policy policy = {.act = copy ? LS_BF16 : LS_F32};
    ls_device *device = NULL;
    static side sides[2];
    assert_int_equal(ls_lr_schedule_check(&lr), LS_OK);
    assert_int_equal(ls_optimizer_moments(&o), momentum > 0);
    assert_int_equal(ls_device_open_cpu(1, NULL, NULL, &device), LS_OK);
    for (int k = 0; k < 2; k++) begin(&sides[k], k == 0, momentum > 0, copy);
    for (int n = 0; n < STEPS; n++) {
        ls_adamw_powers powers = {.updates = n + 1, .beta1 = 0.5, .beta2 = 0.5};
        ls_optimizer_update update = ls_optimizer_update_at(&o, &powers, ls_lr_at(&lr, n), 0.125F);
        for (int k = 0; k < 2; k++) {
            follow(&sides[k], &o, rates[n], n == 0);
            step(&sides[k], &update, device, &policy);
            check(&sides[k], what, n + 1);
        }
    }
    for (int i = 0; i < ELEMS && momentum > 0; i++) assert_true(fabs((double)sides[0].our_b[i] - sides[0].b[i]) < 2e-6);
    ls_device_destroy(device);
}

static void sgd_follows_its_definition(void **state) {
    (void)state;
    compare("plain", 0, false, 0, false);
    compare("decay", 0, false, 0.05, false);
    compare("momentum", 0.9, false, 0, false);
    compare("momentum and decay", 0.9, false, 0.05, false);
    compare("Nesterov", 0.9, true, 0.05, false);
    compare("momentum, decay, 16-bit copies", 0.8, false, 0.05, true);
    compare("decay, 16-bit copies", 0, false, 0.05, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sgd_follows_its_definition)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
