/* test_gemm_end.c: matmuls that end with an activation (ls_gemm_end) against the matmul and the activation apart, bit
 * by bit, on a GPU that makes them at once (LS_TEST_CUDA), small ones on one that is played (LS_CUDA_WGMMA); other
 * devices refuse them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

enum { GUARD = 64 }; /* elements behind a tensor that must stay unchanged */

static ls_device *device;

static void ok(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

/* Numbers around 0 of many sizes; one in 500 special: an infinity, a NaN, a zero, a subnormal number. */
static void *some_halves(ls_dtype dtype, size_t elems, uint32_t seed, bool has_special) {
    static const uint16_t special[2][8] = {{0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x0000, 0x8000, 0x0001, 0x807F},
                                           {0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x0000, 0x8000, 0x0001, 0x83FF}};
    uint16_t *host = malloc((elems + GUARD) * sizeof *host);
    void *out;
    assert_non_null(host);
    for (size_t i = 0; i < elems + GUARD; i++) {
        uint64_t r = ls_rng_u64(ls_rng_key_make(11, seed, elems), i);
        uint16_t sign = (uint16_t)(r & 0x8000);
        host[i] = dtype == LS_BF16 ? (uint16_t)(sign | (0x3C00 + (r >> 16) % 0x400))
                                   : (uint16_t)(sign | (0x2000 + (r >> 16) % 0x1C00));
        if (has_special && (r >> 32) % 500 == 0) host[i] = special[dtype == LS_F16][(r >> 48) % 8];
    }
    ok(ls_device_alloc(device, (elems + GUARD) * sizeof *host, &out));
    ok(ls_device_copy_in(device, out, host, (elems + GUARD) * sizeof *host));
    free(host);
    return out;
}

static float *some_floats(size_t elems) {
    float *host = malloc(elems * sizeof *host);
    void *out;
    assert_non_null(host);
    for (size_t i = 0; i < elems; i++) host[i] = 4 * ls_rng_uniform_f32(ls_rng_key_make(12, 0, elems), i) - 2;
    host[elems / 2] = INFINITY;
    host[elems / 3] = NAN;
    ok(ls_device_alloc(device, elems * sizeof *host, &out));
    ok(ls_device_copy_in(device, out, host, elems * sizeof *host));
    free(host);
    return out;
}

static void same(const char *what, size_t number, const void *a, const void *b, size_t elems) {
    uint16_t *x = malloc((elems + GUARD) * sizeof *x), *y = malloc((elems + GUARD) * sizeof *y);
    assert_true(x && y);
    ok(ls_device_copy_out(device, x, a, (elems + GUARD) * sizeof *x));
    ok(ls_device_copy_out(device, y, b, (elems + GUARD) * sizeof *y));
    for (size_t i = 0; i < elems + GUARD; i++)
        if (x[i] != y[i]) fail_msg("case %zu: %s %zu is %04x, should be %04x", number, what, i, x[i], y[i]);
    free(x);
    free(y);
}

typedef struct end_case {
    size_t m, n, k;
    ls_dtype dtype;
    ls_gemm_end end;
    bool has_bias, has_y;
    size_t gate;
} end_case;

/* What follows g, whose result is at `made`, by itself: to c and y. */
static void run_apart(const ls_gemm *g, const end_case *c, void *made, void *to, void *y) {
    for (size_t at = 0; c->end == LS_GEMM_GATED && at < c->n; at += 2 * c->gate) {
        ls_gated_call call = {.rows = c->m, .columns = c->gate, .act = c->dtype, .in_stride = c->n};
        call.gate = (const uint16_t *)made + at, call.up = (const uint16_t *)call.gate + c->gate;
        call.y = (uint16_t *)y + at / 2, call.y_stride = c->n / 2;
        ok(device->ops->gated_forward(device, &call));
    }
    if (c->end == LS_GEMM_GATED) {
        ok(ls_device_copy(device, to, made, c->m * c->n * sizeof(uint16_t)));
        return;
    }
    ls_act_call act = {.fn = LS_ACT_GELU, .act = c->dtype, .n = c->m * c->n};
    act.y = y, act.x = c->end == LS_GEMM_GELU ? made : g->pre;
    for (size_t at = 0; c->gate && at < c->n; at += c->gate) {
        ls_gated_call call = {.rows = c->m, .columns = c->gate, .act = c->dtype, .in_stride = 2 * c->n};
        call.gate = (const uint16_t *)g->pre + 2 * at, call.up = (const uint16_t *)call.gate + c->gate;
        call.dy = (const uint16_t *)made + at, call.dy_stride = c->n;
        call.dgate = (uint16_t *)to + 2 * at, call.dup = (uint16_t *)call.dgate + c->gate, call.din_stride = 2 * c->n;
        call.y = (uint16_t *)y + at, call.y_stride = c->n;
        ok(device->ops->gated_backward(device, &call));
        if (c->has_y) ok(device->ops->gated_forward(device, &call));
    }
    if (c->gate) return;
    if (c->has_y) ok(device->ops->act_forward(device, &act));
    if (c->end == LS_GEMM_GELU_GRAD) {
        act.y = to, act.dy = made;
        ok(device->ops->act_backward(device, &act));
    } else {
        ok(ls_device_copy(device, to, made, c->m * c->n * sizeof(uint16_t)));
    }
}

static void check_case(size_t number, const end_case *c, int turns) {
    bool is_grad = c->end == LS_GEMM_GATED_GRAD;
    size_t elems = c->m * c->n, wide = is_grad ? 2 * elems : elems;
    ls_gemm g = {.form = LS_GEMM_NT, .dtype = c->dtype, .c_dtype = c->dtype, .unit = LS_UNIT_HGMMA};
    void *a = some_halves(c->dtype, c->m * c->k, 1, false), *b = some_halves(c->dtype, c->n * c->k, 2, false);
    void *pre = some_halves(c->dtype, wide, 3, true), *made = some_halves(c->dtype, elems, 6, false);
    void *to[2], *y[2];
    for (int i = 0; i < 2; i++) {
        to[i] = some_halves(c->dtype, wide, 4, false);
        y[i] = some_halves(c->dtype, elems, 5, false);
    }
    float *bias = some_floats(c->n);
    g.m = c->m, g.n = g.ldc = c->n, g.k = g.lda = g.ldb = c->k;
    g.a = a, g.b = b, g.c = made;
    g.bias = c->has_bias ? bias : NULL;
    g.pre = c->end == LS_GEMM_GELU || c->end == LS_GEMM_GATED ? NULL : pre;
    ok(device->ops->gemm(device, &g));
    run_apart(&g, c, made, to[1], y[1]);
    g.end = c->end, g.c = to[0], g.y = c->has_y ? y[0] : NULL, g.gate = c->gate;
    if (is_grad) g.ldc = 2 * c->n;
    assert_true(device->ops->gemm_ends(device, &g));
    for (int turn = 0; turn < turns; turn++) { /* a race may show in one of them */
        ok(device->ops->gemm(device, &g));
        same("C", number, to[0], to[1], wide);
        same("y", number, y[0], y[1], elems);
    }
    void *all[] = {a, b, pre, made, to[0], to[1], y[0], y[1], bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ls_device_free(device, all[i]);
}

/* Tiles whole and not, rounds of tiles that come out even and not, long and short k. */
static void test_at_once(void **state) {
    (void)state;
    static const end_case cases[] = {
        {4096, 3072, 1024, LS_BF16, LS_GEMM_GELU, true, true, 0},
        {2048, 1600, 1608, LS_BF16, LS_GEMM_GELU, true, true, 0},
        {1999, 3000, 1032, LS_BF16, LS_GEMM_GELU, false, true, 0},
        {8448, 384, 1200, LS_F16, LS_GEMM_GELU, true, true, 0},
        {4096, 3072, 768, LS_BF16, LS_GEMM_GELU_GRAD, false, true, 0},
        {2048, 1600, 72, LS_BF16, LS_GEMM_GELU_GRAD, false, true, 0},
        {2111, 2408, 320, LS_F16, LS_GEMM_GELU_GRAD, true, true, 0},
        {2500, 3080, 1024, LS_BF16, LS_GEMM_GELU_GRAD, false, false, 0},
        {2048, 2048, 512, LS_BF16, LS_GEMM_GATED_GRAD, false, true, 1024},
        {2007, 3008, 136, LS_F16, LS_GEMM_GATED_GRAD, false, true, 376},
        {1500, 2720, 64, LS_BF16, LS_GEMM_GATED_GRAD, false, false, 2720},
        {2048, 4096, 512, LS_BF16, LS_GEMM_GATED, false, true, 1024},
        {2007, 3008, 1032, LS_BF16, LS_GEMM_GATED, false, true, 376},
        {1111, 5440, 136, LS_F16, LS_GEMM_GATED, false, true, 2720},
    };
    static const end_case small[] = {
        {256, 384, 128, LS_BF16, LS_GEMM_GELU, true, true, 0},
        {300, 400, 136, LS_BF16, LS_GEMM_GELU, false, true, 0},
        {300, 400, 72, LS_F16, LS_GEMM_GELU, true, true, 0},
        {256, 384, 128, LS_BF16, LS_GEMM_GELU_GRAD, false, true, 0},
        {640, 800, 64, LS_BF16, LS_GEMM_GELU_GRAD, false, false, 0},
        {300, 400, 72, LS_F16, LS_GEMM_GELU_GRAD, true, true, 0},
        {640, 800, 64, LS_BF16, LS_GEMM_GATED_GRAD, false, false, 800},
        {300, 400, 136, LS_F16, LS_GEMM_GATED_GRAD, false, true, 200},
        {300, 400, 72, LS_BF16, LS_GEMM_GATED_GRAD, false, true, 40},
        {640, 768, 64, LS_BF16, LS_GEMM_GATED, false, true, 192},
        {300, 400, 136, LS_BF16, LS_GEMM_GATED, false, true, 200},
        {300, 480, 72, LS_F16, LS_GEMM_GATED, false, true, 120},
    };
    ls_gemm g = {.form = LS_GEMM_NT, .dtype = LS_BF16, .c_dtype = LS_BF16, .unit = LS_UNIT_HGMMA, .end = LS_GEMM_GELU};
    bool is_played = getenv("LS_CUDA_WGMMA") != NULL;
    size_t count = is_played ? sizeof small / sizeof *small : sizeof cases / sizeof *cases;
    if (!getenv("LS_TEST_CUDA")) skip();
    ok(ls_device_open_cuda(0, &device));
    g.m = 4096, g.n = g.ldc = 3072, g.k = g.lda = g.ldb = 1024;
    bool is_here = device->ops->gemm_ends(device, &g);
    for (size_t i = 0; is_here && i < count; i++) check_case(i, is_played ? &small[i] : &cases[i], is_played ? 1 : 3);
    /* Too few tiles, columns that are no whole pieces, another form: not taken, and refused. */
    g.m = 8;
    assert_false(device->ops->gemm_ends(device, &g));
    assert_int_equal(device->ops->gemm(device, &g), LS_ERR_INPUT);
    g.m = 4096, g.n = g.ldc = 3076;
    assert_false(device->ops->gemm_ends(device, &g));
    g.n = g.ldc = 3072, g.form = LS_GEMM_NN, g.ldb = 3072;
    assert_false(device->ops->gemm_ends(device, &g));
    ls_device_destroy(device);
    if (!is_here) skip();
}

static void test_refused(void **state) {
    (void)state;
    ls_gemm g = {.dtype = LS_BF16, .c_dtype = LS_F32, .end = LS_GEMM_GELU};
    assert_int_equal(ls_gemm_check(&g), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "fp32"));
    ok(ls_device_open_cpu(1, NULL, NULL, &device));
    g.c_dtype = LS_BF16;
    assert_false(device->ops->gemm_ends(device, &g));
    assert_int_equal(device->ops->gemm(device, &g), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "apart"));
    ls_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
