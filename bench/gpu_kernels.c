/* gpu_kernels.c: rates of a GPU's kernels in fp32 at the sizes of GPT-2 124M (16 sequences of 1024 tokens): products in
 * TFLOP/s, plain and in slices, everything else in GB/s of what must be read and written once, beside a copy of as many
 * bytes.
 *
 *     gpu_kernels [--json] [GPU]
 *
 * --json: an object a line: {"kernel", "time_us", "flops_per_s" or "bytes_per_s"}. Each figure is the least of some
 * rounds; a round enqueues a kernel several times and waits once. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

enum { ROWS = 16 * 1024, C = 768, V = 50257, ROUNDS = 4, AT_ONCE = 5, SLICES_MAX = LS_GEMM_SLICES_MAX };

typedef struct bench {
    ls_device *device;
    bool is_json;
    float *a, *b, *c, *d; /* ROWS · V floats each */
} bench;

typedef ls_status (*body)(bench *b, const void *call);

static ls_status report(bench *b, const char *name, double work, bool is_flops, body run, const void *call) {
    double least = 0;
    for (int round = 0; round <= ROUNDS; round++) {
        double begin = ls_clock_seconds();
        for (int i = 0; i < AT_ONCE; i++) LS_TRY(run(b, call));
        LS_TRY(ls_device_finish(b->device));
        double seconds = (ls_clock_seconds() - begin) / AT_ONCE;
        if (round == 1 || (round > 1 && seconds < least)) least = seconds; /* the first round loads the kernel */
    }
    if (b->is_json)
        printf("{\"kernel\": \"%s\", \"time_us\": %.2f, \"%s\": %.4g}\n", name, 1e6 * least,
               is_flops ? "flops_per_s" : "bytes_per_s", work / least);
    else
        printf("%-40s %10.1f us %9.1f %s\n", name, 1e6 * least, work / least * (is_flops ? 1e-12 : 1e-9),
               is_flops ? "TFLOP/s" : "GB/s");
    fflush(stdout);
    return LS_OK;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static ls_status run_gemm(bench *b, const void *call) { return b->device->ops->gemm(b->device, call); }

static ls_status measure_gemm(bench *b, const char *what, ls_gemm_form form, size_t m, size_t n, size_t k, int slices) {
    static const char *const forms[] = {[LS_GEMM_NN] = "NN", [LS_GEMM_NT] = "NT", [LS_GEMM_TN] = "TN"};
    size_t bounds[SLICES_MAX + 1];
    for (int s = 0; s <= slices; s++) bounds[s] = (size_t)s * k / (size_t)slices;
    ls_gemm g = {.form = form,
                 .dtype = LS_F32,
                 .unit = LS_UNIT_CHAIN,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = b->a,
                 .b = b->b,
                 .lda = form == LS_GEMM_TN ? m : k,
                 .ldb = form == LS_GEMM_NT ? k : n,
                 .c = b->c,
                 .c_dtype = LS_F32,
                 .ldc = n,
                 .slices = slices,
                 .bounds = slices > 1 ? bounds : NULL};
    char name[80];
    snprintf(name, sizeof name, "gemm/%s/%s/%zux%zux%zu/slices=%d", what, forms[form], m, n, k, slices);
    return report(b, name, 2.0 * (double)m * (double)n * (double)k, true, run_gemm, &g);
}

static ls_status measure_products(bench *b) {
    static const struct layer {
        const char *name;
        size_t out, in;
    } layers[] = {
        {"qkv", 3 * C, C}, {"attention-out", C, C}, {"mlp-in", 4 * C, C}, {"mlp-out", C, 4 * C}, {"head", V, C}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const struct layer *l = &layers[i];
        LS_TRY(measure_gemm(b, l->name, LS_GEMM_NT, ROWS, l->out, l->in, 1));
        LS_TRY(measure_gemm(b, l->name, LS_GEMM_NN, ROWS, l->in, l->out, 1));
        LS_TRY(measure_gemm(b, l->name, LS_GEMM_NN, ROWS, l->in, l->out, l->out == V ? 64 : 8));
        LS_TRY(measure_gemm(b, l->name, LS_GEMM_TN, l->out, l->in, ROWS, 1));
        LS_TRY(measure_gemm(b, l->name, LS_GEMM_TN, l->out, l->in, ROWS, 8));
    }
    return measure_gemm(b, "square", LS_GEMM_NT, 8192, 8192, 8192, 1);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { ELEMS = ROWS * 4 * C };

static ls_status run_copy(bench *b, const void *call) {
    (void)call;
    return ls_device_copy(b->device, b->c, b->a, (size_t)ELEMS * sizeof(float));
}
static ls_status run_scale(bench *b, const void *call) { return b->device->ops->scale(b->device, call); }
static ls_status run_add(bench *b, const void *call) { return b->device->ops->add(b->device, call); }
static ls_status run_act(bench *b, const void *call) { return b->device->ops->act_forward(b->device, call); }
static ls_status run_act_backward(bench *b, const void *call) { return b->device->ops->act_backward(b->device, call); }
static ls_status run_norm(bench *b, const void *call) { return b->device->ops->norm_forward(b->device, call); }
static ls_status run_norm_backward(bench *b, const void *call) {
    return b->device->ops->norm_backward(b->device, call);
}
static ls_status run_tree(bench *b, const void *call) { return b->device->ops->tree_sum(b->device, call); }

/* x, y and dx have `rows` rows; statistics and weights lie behind them. */
static ls_status measure_norms(bench *b, size_t rows, size_t columns) {
    size_t n = rows * columns;
    ls_norm_call call = {.rows = rows,
                         .C = columns,
                         .act = LS_F32,
                         .eps = 1e-5f,
                         .x = b->a,
                         .x_stride = columns,
                         .w = b->a + n,
                         .b = b->a + n,
                         .y = b->c,
                         .y_stride = columns,
                         .mean = b->c + n,
                         .rstd = b->c + n + rows,
                         .dy = b->b,
                         .dy_stride = columns,
                         .dx = b->d,
                         .dx_stride = columns};
    char name[80];
    double bytes = (double)n * sizeof(float);
    snprintf(name, sizeof name, "norm_forward/%zux%zu", rows, columns);
    LS_TRY(report(b, name, 2 * bytes, false, run_norm, &call));
    snprintf(name, sizeof name, "norm_backward/%zux%zu", rows, columns);
    LS_TRY(report(b, name, 3 * bytes, false, run_norm_backward, &call));
    call.add = true;
    snprintf(name, sizeof name, "norm_backward_add/%zux%zu", rows, columns);
    return report(b, name, 4 * bytes, false, run_norm_backward, &call);
}

static ls_status measure_streams(bench *b) {
    const double bytes = (double)ELEMS * sizeof(float);
    LS_TRY(report(b, "copy", 2 * bytes, false, run_copy, NULL));
    ls_scale_call scale = {.y = b->c, .x = b->a, .factor = 0.5f, .n = ELEMS};
    LS_TRY(report(b, "scale", 2 * bytes, false, run_scale, &scale));
    ls_add_call add = {.y = b->c, .a = b->a, .b = b->b, .b_dtype = LS_F32, .n = ELEMS};
    LS_TRY(report(b, "add", 3 * bytes, false, run_add, &add));
    ls_act_call act = {.fn = LS_ACT_GELU, .y = b->c, .dy = b->b, .x = b->a, .act = LS_F32, .n = ELEMS};
    LS_TRY(report(b, "gelu_forward", 2 * bytes, false, run_act, &act));
    LS_TRY(report(b, "gelu_backward", 3 * bytes, false, run_act_backward, &act));
    const void *leaves[] = {b->a, b->b, b->d, b->a + ELEMS};
    ls_tree_sum_call tree = {.out = b->c, .contributions = leaves, .dtype = LS_F32, .leaves = 4, .elems = ELEMS};
    LS_TRY(report(b, "tree_sum/4", 5 * bytes, false, run_tree, &tree));
    LS_TRY(measure_norms(b, ROWS, C));
    LS_TRY(measure_norms(b, ROWS, 1024));
    return measure_norms(b, ROWS / 2, 4096);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static ls_status run_attention(bench *b, const void *call) {
    return b->device->ops->attention_forward(b->device, call);
}
static ls_status run_attention_backward(bench *b, const void *call) {
    return b->device->ops->attention_backward(b->device, call);
}

/* bf16 numbers of both signs between 1/4 and 2: how fast tensor cores are depends on what they multiply. */
static ls_status fill_bf16(bench *b, void *to, size_t elems) {
    enum { PIECE = 1 << 22 };
    uint16_t *numbers = malloc(PIECE * sizeof *numbers);
    if (!numbers) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    uint32_t state = 1;
    for (size_t i = 0; i < PIECE; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (uint16_t)((state >> 31) << 15 | (0x3E80u + (state >> 8) % 0x180u));
    }
    ls_status status = LS_OK;
    for (size_t at = 0; at < elems && status == LS_OK; at += PIECE) {
        size_t count = elems - at < PIECE ? elems - at : PIECE;
        status = ls_device_copy_in(b->device, (uint16_t *)to + at, numbers, count * sizeof *numbers);
    }
    free(numbers);
    return status;
}

/* Rows of a fused projection: queries, keys, values. Work is counted as the products of what is seen: two forward, five
 * backward. */
static ls_status measure_attention(bench *b, size_t B, size_t T, size_t heads, size_t kv_heads, size_t d) {
    size_t fused = (heads + 2 * kv_heads) * d, plain = heads * d, stats = heads * T;
    uint16_t *in = (uint16_t *)b->a, *out = (uint16_t *)b->d;
    float *numbers = b->c + B * T * plain;
    ls_attention a = {.T = T,
                      .heads = heads,
                      .kv_heads = kv_heads,
                      .head_size = d,
                      .act = LS_BF16,
                      .unit = LS_UNIT_HGMMA,
                      .scale = d == 64 ? 0.125f : 0.08838834764f,
                      .q = {in, fused, d},
                      .k = {in + plain, fused, d},
                      .v = {in + plain + kv_heads * d, fused, d},
                      .o = {b->c, plain, d},
                      .m = numbers,
                      .l = numbers + B * stats,
                      .dots = numbers + 2 * B * stats,
                      .stat_stride = T,
                      .dout = {b->b, plain, d},
                      .dq = {out, fused, d},
                      .dk = {out + plain, fused, d},
                      .dv = {out + plain + kv_heads * d, fused, d}};
    ls_attention_call call = {.parts = &a, .nparts = 1, .B = B, .query_rows = T, .key_rows = T, .stat_elems = stats};
    double pairs = (double)B * (double)heads * (double)T * (double)T;
    char name[80];
    snprintf(name, sizeof name, "attention-hgmma/forward/%zux%zux%zu/%zu/%zu", B, heads, T, kv_heads, d);
    LS_TRY(report(b, name, 2 * pairs * (double)d, true, run_attention, &call));
    snprintf(name, sizeof name, "attention-hgmma/backward/%zux%zux%zu/%zu/%zu", B, heads, T, kv_heads, d);
    return report(b, name, 5 * pairs * (double)d, true, run_attention_backward, &call);
}

static ls_status measure_attentions(bench *b) {
    LS_TRY(fill_bf16(b, b->a, (size_t)ROWS * V));
    LS_TRY(fill_bf16(b, b->b, (size_t)ROWS * V));
    LS_TRY(measure_attention(b, 64, 1024, 12, 12, 64));
    LS_TRY(measure_attention(b, 4, 4096, 16, 16, 128));
    return measure_attention(b, 8, 4096, 32, 8, 64);
}

static ls_status run(bench *b) {
    float **tensors[] = {&b->a, &b->b, &b->c, &b->d};
    for (int i = 0; i < 4; i++) {
        void *memory;
        LS_TRY(ls_device_alloc(b->device, (size_t)ROWS * V * sizeof(float), &memory));
        *tensors[i] = memory;
    }
    LS_TRY(measure_attentions(b));
    LS_TRY(measure_streams(b));
    LS_TRY(measure_products(b));
    for (int i = 0; i < 4; i++) ls_device_free(b->device, *tensors[i]);
    return LS_OK;
}

int main(int argc, char **argv) {
    bench b = {0};
    int gpu = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            b.is_json = true;
        else
            gpu = atoi(argv[i]);
    }
    ls_status status = ls_device_open_cuda(gpu, &b.device);
    if (status == LS_OK) status = run(&b);
    if (status != LS_OK) fprintf(stderr, "gpu_kernels: %s\n", ls_status_message());
    ls_device_destroy(b.device);
    return status == LS_OK ? 0 : 1;
}
