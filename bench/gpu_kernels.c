/* gpu_kernels.c: rates of a GPU's kernels at the sizes of GPT-2 124M (16 sequences of 1024 tokens): products in
 * TFLOP/s, plain and in slices, everything else (gpu_memory.c) in GB/s of what must be read and written once, beside a
 * copy.
 *
 *     gpu_kernels [--json] [--once] [--only products|memory|NAME] [GPU]
 *
 * --once: every kernel runs once, for a profiler. --only NAME: memory-bound kernels whose names begin so. --json: an
 * object a line: {"kernel", "time_us", "flops_per_s"} or {"kernel", "time_us", "bytes_per_s", "of_copy"}. Each figure
 * is the least of some rounds; a round enqueues a kernel several times and waits once. */
#include "gpu_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/cuda/cuda.h"

enum { ROUNDS = 4, AT_ONCE = 5, SLICES_MAX = LS_GEMM_SLICES_MAX };

ls_status report(bench *b, const char *name, double work, bool is_flops, body run, const void *call) {
    double least = 0;
    const int rounds = b->is_once ? 1 : ROUNDS, at_once = b->is_once ? 1 : AT_ONCE;
    for (int round = b->is_once; round <= rounds; round++) {
        double begin = ls_clock_seconds();
        for (int i = 0; i < at_once; i++) LS_TRY(run(b, call));
        LS_TRY(ls_device_finish(b->device));
        double seconds = (ls_clock_seconds() - begin) / at_once;
        if (round == 1 || (round > 1 && seconds < least)) least = seconds; /* the first round loads the kernel */
    }
    double rate = work / least;
    if (!is_flops && b->copy_s == 0) b->copy_s = rate;
    if (b->is_json && is_flops)
        printf("{\"kernel\": \"%s\", \"time_us\": %.2f, \"flops_per_s\": %.4g}\n", name, 1e6 * least, rate);
    else if (b->is_json)
        printf("{\"kernel\": \"%s\", \"time_us\": %.2f, \"bytes_per_s\": %.4g, \"of_copy\": %.3f}\n", name, 1e6 * least,
               rate, rate / b->copy_s);
    else if (is_flops)
        printf("%-40s %10.1f us %9.1f TFLOP/s\n", name, 1e6 * least, 1e-12 * rate);
    else
        printf("%-40s %10.1f us %9.1f GB/s %5.0f %% of a copy\n", name, 1e6 * least, 1e-9 * rate,
               100 * rate / b->copy_s);
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
static ls_status measure_attention(bench *b, size_t B, size_t T, size_t heads, size_t kv_heads, size_t d, double drop) {
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
    if (drop > 0)
        a.drop = (ls_attention_drop){
            .threshold = ls_dropout_threshold(drop), .scale = ls_dropout_scale(drop), .heads = heads};
    ls_attention_call call = {.parts = &a, .nparts = 1, .B = B, .query_rows = T, .key_rows = T, .stat_elems = stats};
    double pairs = (double)B * (double)heads * (double)T * (double)T;
    char name[80];
    const char *dropped = drop > 0 ? "/dropout" : "";
    snprintf(name, sizeof name, "attention-hgmma/forward/%zux%zux%zu/%zu/%zu%s", B, heads, T, kv_heads, d, dropped);
    LS_TRY(report(b, name, 2 * pairs * (double)d, true, run_attention, &call));
    snprintf(name, sizeof name, "attention-hgmma/backward/%zux%zux%zu/%zu/%zu%s", B, heads, T, kv_heads, d, dropped);
    return report(b, name, 5 * pairs * (double)d, true, run_attention_backward, &call);
}

static ls_status measure_attentions(bench *b) {
    LS_TRY(fill_bf16(b, b->a, (size_t)ROWS * V_PADDED));
    LS_TRY(fill_bf16(b, b->b, (size_t)ROWS * V_PADDED));
    LS_TRY(measure_attention(b, 64, 1024, 12, 12, 64, 0));
    LS_TRY(measure_attention(b, 64, 1024, 12, 12, 64, 0.1));
    LS_TRY(measure_attention(b, 4, 4096, 16, 16, 128, 0));
    LS_TRY(measure_attention(b, 4, 4096, 16, 16, 128, 0.1));
    return measure_attention(b, 8, 4096, 32, 8, 64, 0);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Random numbers between −2 and 2: on zeros a GPU is faster than in life. */
static ls_status fill(bench *b, float *to, size_t elems) {
    enum { PIECE = 1 << 20 };
    static float piece[PIECE];
    uint32_t state = 12345;
    for (size_t i = 0; i < PIECE; i++) {
        state = state * 1664525u + 1013904223u;
        piece[i] = (float)(state >> 8) * 0x1p-22f - 2.0f;
    }
    for (size_t at = 0; at < elems; at += PIECE)
        LS_TRY(ls_device_copy_in(b->device, to + at, piece, (elems - at < PIECE ? elems - at : PIECE) * sizeof *to));
    return LS_OK;
}

static ls_status run(bench *b, const char *only) {
    const size_t elems = (size_t)ROWS * V_PADDED;
    void *memory[5];
    for (int i = 0; i < 5; i++) LS_TRY(ls_device_alloc(b->device, elems * (i < 4 ? sizeof(float) : 2), &memory[i]));
    b->a = memory[0], b->b = memory[1], b->c = memory[2], b->d = memory[3], b->h = memory[4];
    LS_TRY(fill(b, b->a, elems));
    LS_TRY(fill(b, b->b, elems));
    LS_TRY(b->device->ops->convert(b->device, &(ls_convert_call){b->h, LS_BF16, b->a, LS_F32, elems}));
    bool products = only && strcmp(only, "products") == 0, memories = only && strcmp(only, "memory") == 0;
    bool attention = only && strcmp(only, "attention") == 0;
    if (!products && !attention) LS_TRY(measure_memory(b, memories ? NULL : only));
    if (!only || products) LS_TRY(measure_products(b));
    if (!only || attention) LS_TRY(measure_attentions(b));
    for (int i = 0; i < 5; i++) ls_device_free(b->device, memory[i]);
    return LS_OK;
}

int main(int argc, char **argv) {
    bench b = {0};
    const char *only = NULL;
    int gpu = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            b.is_json = true;
        else if (strcmp(argv[i], "--once") == 0)
            b.is_once = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            gpu = atoi(argv[i]);
    }
    ls_status status = ls_device_open_cuda(gpu, &b.device);
    if (status == LS_OK) status = run(&b, only);
    if (status != LS_OK) fprintf(stderr, "gpu_kernels: %s\n", ls_status_message());
    ls_device_destroy(b.device);
    return status == LS_OK ? 0 : 1;
}
