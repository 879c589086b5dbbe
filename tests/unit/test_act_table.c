/* test_act_table.c: activations of large tensors of bf16, which a GPU looks up (LS_TEST_CUDA): all 65,536 numbers, many
 * times, against the CPU, bit by bit; and by the formulas, which the GPU has as its second way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

enum { NUMBERS = 1 << 16, COLUMNS = 4096, ROWS = 257, ELEMS = ROWS * COLUMNS, TAIL = 5, FLAT = ELEMS + TAIL };

static void ok(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

/* x has every number in turn; dy and up are of all sizes. */
typedef struct inputs {
    uint16_t x[FLAT], dy[FLAT], up[FLAT];
} inputs;

static void fill(inputs *in) {
    for (size_t i = 0; i < FLAT; i++) {
        uint64_t r = ls_rng_u64(ls_rng_key_make(17, 0, 0), i);
        /* Neighbours of about the same size, then of any: a number that is in no table sends its neighbours the other
         * way. */
        in->x[i] = (uint16_t)(i / NUMBERS % 2 ? i * 40503u : i);
        in->dy[i] = (uint16_t)((r & 0x8000) | (0x3800 + (r >> 16) % 0x0A00));
        in->up[i] = (uint16_t)(r >> 32);
    }
}

static void *put(ls_device *device, const uint16_t *from) {
    void *to;
    ok(ls_device_alloc(device, FLAT * sizeof *from, &to));
    ok(ls_device_copy_in(device, to, from, FLAT * sizeof *from));
    return to;
}

enum { GELU, GELU_GRAD, SILU, SILU_GRAD, GATED, DGATE, DUP, GATED_GELU, DGATE_GELU, DUP_GELU, RESULTS };
static const char *const names[RESULTS] = {"GELU",
                                           "GELU's gradient",
                                           "SiLU",
                                           "SiLU's gradient",
                                           "gate",
                                           "gate's gradient",
                                           "gradient of what it lets through",
                                           "gate of GELU",
                                           "its gradient",
                                           "gradient of what it lets through"};

static void run(ls_device *device, const inputs *in, uint16_t *results[RESULTS]) {
    void *x = put(device, in->x), *dy = put(device, in->dy), *up = put(device, in->up), *y[RESULTS];
    for (int i = 0; i < RESULTS; i++) y[i] = put(device, in->up);
    for (int i = 0; i < 2; i++) {
        ls_act_call call = {.fn = i ? LS_ACT_SILU : LS_ACT_GELU, .y = y[2 * i], .x = x, .act = LS_BF16, .n = FLAT};
        ok(device->ops->act_forward(device, &call));
        call.y = y[2 * i + 1], call.dy = dy;
        ok(device->ops->act_backward(device, &call));
    }
    for (int fn = 0; fn < LS_GATE_FNS; fn++) {
        void **out = y + (fn == LS_GATE_GELU ? GATED_GELU : GATED);
        ls_gated_call gated = {.fn = (ls_gate_fn)fn, .rows = ROWS, .columns = COLUMNS, .act = LS_BF16};
        gated.in_stride = gated.y_stride = gated.dy_stride = gated.din_stride = COLUMNS;
        gated.gate = x, gated.up = up, gated.dy = dy, gated.y = out[0], gated.dgate = out[1], gated.dup = out[2];
        ok(device->ops->gated_forward(device, &gated));
        ok(device->ops->gated_backward(device, &gated));
    }
    for (int i = 0; i < RESULTS; i++) {
        ok(ls_device_copy_out(device, results[i], y[i], FLAT * sizeof(uint16_t)));
        ls_device_free(device, y[i]);
    }
    ls_device_free(device, x);
    ls_device_free(device, dy);
    ls_device_free(device, up);
}

static void test_every_number(void **state) {
    (void)state;
    if (!getenv("LS_TEST_CUDA")) skip();
    inputs *in = malloc(sizeof *in);
    uint16_t *memory = malloc(2 * RESULTS * FLAT * sizeof *memory), *results[2][RESULTS];
    assert_true(in && memory);
    for (int i = 0; i < 2 * RESULTS; i++) results[i / RESULTS][i % RESULTS] = memory + (size_t)i * FLAT;
    fill(in);
    ls_device *cpu, *cuda;
    ok(ls_device_open_cpu(2, NULL, NULL, &cpu));
    ok(ls_device_open_cuda(0, &cuda));
    run(cpu, in, results[0]);
    for (int otherwise = 0; otherwise < 2; otherwise++) {
        ok(ls_device_compute_otherwise(cuda, otherwise));
        run(cuda, in, results[1]);
        for (int i = 0; i < RESULTS; i++)
            for (size_t k = 0; k < FLAT; k++)
                if (results[1][i][k] != results[0][i][k])
                    fail_msg("%s of %04x (dy %04x, up %04x), way %d, is %04x, should be %04x", names[i], in->x[k],
                             in->dy[k], in->up[k], otherwise, results[1][i][k], results[0][i][k]);
    }
    ls_device_destroy(cuda);
    ls_device_destroy(cpu);
    free(memory);
    free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
