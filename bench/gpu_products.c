/* gpu_products.c: rates of 16-bit GEMMs of the unit hgmma on a GPU, at the sizes of GPT-2 124M (64 sequences of 1024
 * tokens), GPT-2 1.5B (8 of 1024) and a Llama of 1B (8 of 4096), in TFLOP/s: forward, gradients of inputs (in two
 * slices if tensor parallelism cuts the layer) and of weights (in groups of sequences); and GEMMs followed by GELU, by
 * its slope and GELU again, or by the gradient of a gate, each fused as an epilogue and as a separate kernel.
 *
 *     gpu_products [--json] [--trials] [--only TEXT] [GPU]
 *
 * --only: what has TEXT in its name. --trials: the log tells how fast each way was that a trial compared. Products that
 * cuBLASLt does faster go by it, as in training, unless LS_CUBLASLT is `no`. --json: an object a line: {"kernel",
 * "time_us", "flops_per_s"}. Each figure is the least of some rounds; a round enqueues a product several times and
 * waits once. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

enum { ROUNDS = 4, AT_ONCE = 10, RANDOM_ELEMS = 1 << 22 };

typedef struct bench {
    ls_device *device;
    bool is_json;
    const char *only; /* NULL: all */
    void *a, *b, *c, *y;
} bench;

/* Numbers as models have them: zeros would need less power, and so run faster. */
static ls_status fill(ls_device *device, uint16_t *to, size_t elems) {
    uint16_t *numbers = malloc(RANDOM_ELEMS * sizeof *numbers);
    if (!numbers) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    for (uint64_t i = 0; i < RANDOM_ELEMS; i++) {
        uint64_t bits = ls_rng_u64(ls_rng_key_make(1, 1, 0), i);
        numbers[i] = (uint16_t)((bits & 0x8000) | (120 + (bits >> 16) % 8) << 7 | (bits & 127));
    }
    ls_status status = ls_device_copy_in(device, to, numbers, RANDOM_ELEMS * sizeof *numbers);
    free(numbers);
    for (size_t had = RANDOM_ELEMS; status == LS_OK && had < elems; had *= 2)
        status = ls_device_copy(device, to + had, to, (had < elems - had ? had : elems - had) * sizeof *to);
    return status;
}

/* What is measured: a matmul, and with is_apart the activation behind it by itself. */
typedef struct work {
    ls_gemm g;
    bool is_apart;
} work;

static ls_status run_gate(bench *b, const ls_gemm *g) {
    if (!g->pre) {
        ls_gated_call forward = {.rows = g->m, .columns = g->gate, .act = g->dtype, .gate = g->c, .in_stride = g->n};
        forward.up = (const uint16_t *)g->c + g->gate, forward.y = g->y, forward.y_stride = g->gate;
        return b->device->ops->gated_forward(b->device, &forward);
    }
    ls_gated_call call = {.rows = g->m, .columns = g->n, .act = g->dtype, .gate = g->pre, .in_stride = 2 * g->n};
    call.up = (const uint16_t *)g->pre + g->n;
    call.dy = g->c, call.dy_stride = g->n;
    call.dgate = (uint16_t *)g->c + g->m * g->n, call.dup = (uint16_t *)call.dgate + g->n, call.din_stride = 2 * g->n;
    call.y = g->y, call.y_stride = g->n;
    LS_TRY(b->device->ops->gated_backward(b->device, &call));
    return b->device->ops->gated_forward(b->device, &call);
}

static ls_status run_work(bench *b, const work *w) {
    ls_gemm g = w->g;
    if (!w->is_apart) return b->device->ops->gemm(b->device, &g);
    g.end = LS_GEMM_END_NONE;
    LS_TRY(b->device->ops->gemm(b->device, &g));
    if (g.gate) return run_gate(b, &g);
    ls_act_call act = {.fn = LS_ACT_GELU, .act = g.dtype, .n = g.m * g.n, .y = g.y, .x = g.pre ? g.pre : g.c};
    LS_TRY(b->device->ops->act_forward(b->device, &act));
    if (!g.pre) return LS_OK;
    act.y = g.c, act.dy = g.c;
    return b->device->ops->act_backward(b->device, &act);
}

static ls_status report(bench *b, const char *name, const work *w) {
    if (b->only && !strstr(name, b->only)) return LS_OK;
    double least = 0, flops = 2.0 * (double)w->g.m * (double)w->g.n * (double)w->g.k;
    for (int round = 0; round <= ROUNDS; round++) {
        double begin = ls_clock_seconds();
        for (int i = 0; i < AT_ONCE; i++) LS_TRY(run_work(b, w));
        LS_TRY(ls_device_finish(b->device));
        double seconds = (ls_clock_seconds() - begin) / AT_ONCE;
        if (round == 1 || (round > 1 && seconds < least)) least = seconds; /* the first round loads the kernel */
    }
    if (b->is_json)
        printf("{\"kernel\": \"%s\", \"time_us\": %.2f, \"flops_per_s\": %.4g}\n", name, 1e6 * least, flops / least);
    else
        printf("%-44s %10.1f us %9.1f TFLOP/s\n", name, 1e6 * least, flops / least * 1e-12);
    fflush(stdout);
    return LS_OK;
}

static ls_status measure(bench *b, const char *what, ls_gemm_form form, size_t m, size_t n, size_t k, int slices,
                         bool has_bias) {
    static const char *const forms[] = {[LS_GEMM_NN] = "NN", [LS_GEMM_NT] = "NT", [LS_GEMM_TN] = "TN"};
    size_t bounds[LS_GEMM_SLICES_MAX + 1];
    for (int s = 0; s <= slices; s++) bounds[s] = (size_t)s * k / (size_t)slices;
    ls_gemm g = {.form = form,
                 .dtype = LS_BF16,
                 .unit = LS_UNIT_HGMMA,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = b->a,
                 .b = b->b,
                 .lda = form == LS_GEMM_TN ? m : k,
                 .ldb = form == LS_GEMM_NT ? k : n,
                 .c = b->c,
                 .c_dtype = form == LS_GEMM_TN ? LS_F32 : LS_BF16,
                 .ldc = n,
                 .slices = slices,
                 .bounds = slices > 1 ? bounds : NULL,
                 .bias = has_bias ? b->y : NULL};
    char name[96];
    snprintf(name, sizeof name, "hgmma/%s/%s/%zux%zux%zu/slices=%d%s", what, forms[form], m, n, k, slices,
             has_bias ? "/bias" : "");
    return report(b, name, &(work){.g = g});
}

/* Logits: rows of 50304 numbers of which 50257 are made. */
static ls_status measure_logits(bench *b) {
    work w = {.g = {.form = LS_GEMM_NT, .dtype = LS_BF16, .unit = LS_UNIT_HGMMA, .m = 8192, .n = 50257, .k = 768}};
    w.g.a = b->a, w.g.b = b->b, w.g.c = b->c, w.g.lda = w.g.ldb = 768, w.g.ldc = 50304, w.g.c_dtype = LS_BF16;
    return report(b, "hgmma/124M-logits/NT/8192x50257x768/bf16", &w);
}

/* A layer's way in, or the gradient of its way out, with what follows: 2 tensors are written, of which pre is one or is
 * read; then without the output of the activation, where that is kept, and all of it apart. */
static ls_status measure_end(bench *b, const char *what, ls_gemm_end end, size_t m, size_t n, size_t k) {
    work w = {.g = {.form = LS_GEMM_NT, .dtype = LS_BF16, .unit = LS_UNIT_HGMMA, .m = m, .n = n, .k = k}};
    w.g.a = b->a, w.g.b = b->b, w.g.c = b->c, w.g.y = b->y;
    w.g.lda = w.g.ldb = k, w.g.ldc = n, w.g.c_dtype = LS_BF16, w.g.end = end;
    static const char *const names[] = {[LS_GEMM_GELU] = "gelu",
                                        [LS_GEMM_GELU_GRAD] = "gelu_grad",
                                        [LS_GEMM_GATED_GRAD] = "gated_grad",
                                        [LS_GEMM_GATED] = "gated"};
    bool is_forward = end == LS_GEMM_GELU || end == LS_GEMM_GATED;
    if (end == LS_GEMM_GELU) w.g.bias = (const float *)b->a;
    if (end == LS_GEMM_GATED) w.g.gate = n / 2;
    if (end == LS_GEMM_GATED_GRAD) w.g.gate = n, w.g.ldc = 2 * n;
    if (!is_forward) w.g.pre = (const uint16_t *)b->a + m * k;
    for (int i = 0; i < 3; i++) {
        char name[96];
        bool is_kept = i == 1;
        w.is_apart = i == 2;
        w.g.y = is_kept ? NULL : b->y;
        if (is_kept && is_forward) continue;
        if (w.is_apart) w.g.ldc = n;
        snprintf(name, sizeof name, "hgmma/%s/NT/%zux%zux%zu/%s%s", what, m, n, k, names[end],
                 w.is_apart ? "/apart"
                 : is_kept  ? "/kept"
                            : "");
        if (w.is_apart || b->device->ops->gemm_ends(b->device, &w.g)) LS_TRY(report(b, name, &w));
    }
    return LS_OK;
}

/* A layer of `in` to `out` numbers: W is [out][in] where its rows are cut between workers, and [in][out] where its
 * columns are. */
typedef struct layer {
    const char *name;
    size_t rows, in, out;
    int groups; /* of sequences, as many as a run has by default */
    bool has_bias;
} layer;

static ls_status measure_layer(bench *b, const layer *l) {
    size_t rows = l->rows;
    LS_TRY(measure(b, l->name, LS_GEMM_NT, rows, l->out, l->in, 1, false));
    if (l->has_bias) LS_TRY(measure(b, l->name, LS_GEMM_NT, rows, l->out, l->in, 1, true));
    LS_TRY(measure(b, l->name, LS_GEMM_NN, rows, l->in, l->out, 1, false));
    LS_TRY(measure(b, l->name, LS_GEMM_NN, rows, l->in, l->out, 2, false));
    LS_TRY(measure(b, l->name, LS_GEMM_TN, l->out, l->in, rows, 1, false));
    return measure(b, l->name, LS_GEMM_TN, l->out, l->in, rows, l->groups, false);
}

static ls_status run(bench *b) {
    static const layer layers[] = {
        {"124M-qkv", 65536, 768, 2304, 8, true},    {"124M-out", 65536, 768, 768, 8, true},
        {"124M-in", 65536, 768, 3072, 8, true},     {"124M-head", 8192, 768, 50304, 2, false},
        {"1.5B-qkv", 8192, 1600, 4800, 2, true},    {"1.5B-out", 8192, 1600, 1600, 2, true},
        {"1.5B-in", 8192, 1600, 6400, 2, true},     {"llama-qkv", 32768, 2048, 3072, 4, false},
        {"llama-out", 32768, 2048, 2048, 4, false}, {"llama-in", 32768, 2048, 16384, 4, false},
    };
    enum { LAYERS = sizeof layers / sizeof *layers };
    void **tensors[] = {&b->a, &b->b, &b->c, &b->y};
    const size_t elems = (size_t)1 << 30;
    for (int i = 0; i < 4; i++) LS_TRY(ls_device_alloc(b->device, elems * sizeof(uint16_t), tensors[i]));
    LS_TRY(fill(b->device, b->a, elems));
    LS_TRY(fill(b->device, b->b, elems));
    for (int end = LS_GEMM_GELU; end <= LS_GEMM_GELU_GRAD; end++) {
        LS_TRY(measure_end(b, "124M-in", (ls_gemm_end)end, 65536, 3072, 768));
        LS_TRY(measure_end(b, "1.5B-in", (ls_gemm_end)end, 8192, 6400, 1600));
    }
    LS_TRY(measure_end(b, "llama-in", LS_GEMM_GATED_GRAD, 32768, 8192, 2048));
    LS_TRY(measure_end(b, "llama-in", LS_GEMM_GATED, 32768, 16384, 2048));
    LS_TRY(measure_logits(b));
    for (size_t i = 0; i < LAYERS; i++) LS_TRY(measure_layer(b, &layers[i]));
    for (int i = 0; i < 4; i++) ls_device_free(b->device, *tensors[i]);
    return LS_OK;
}

int main(int argc, char **argv) {
    bench b = {0};
    int gpu = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            b.is_json = true;
        else if (strcmp(argv[i], "--trials") == 0)
            ls_log_set_sink(ls_log_stderr, NULL), ls_log_set_level(LS_LOG_DEBUG);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            b.only = argv[++i];
        else
            gpu = atoi(argv[i]);
    }
    ls_status status = ls_device_open_cuda(gpu, &b.device);
    if (status == LS_OK) status = run(&b);
    if (status != LS_OK) fprintf(stderr, "gpu_products: %s\n", ls_status_message());
    ls_device_destroy(b.device);
    return status == LS_OK ? 0 : 1;
}
