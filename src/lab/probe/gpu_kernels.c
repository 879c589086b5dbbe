/* gpu_kernels.c: measures kernels of a GPU at the sizes of training steps: matmuls by form and type, attention, passes.
 */
#include "lab/calls.h"
#include "lab/probe/gpu.h"

/* ---- matmuls ----------------------------------------------------------------------------------------------------- */

enum { F32 = 1, CHAIN = 2, UNIT = 4 };

/* A layer with `in` inputs and `out` outputs, and the types in which it is measured: forward (NT), input gradient (NN,
 * in slices) and weight gradient (TN, in groups of sequences). */
typedef struct layer {
    size_t tokens, out, in;
    int groups, types;
    bool is_head; /* its output is logits: fp32, except with hgmma */
} layer;

static const layer layers[] = {
    {512, 768, 768, 2, F32 | UNIT, false}, {2048, 2304, 768, 2, F32 | CHAIN | UNIT, false},
    {4096, 768, 768, 2, F32, false},       {8192, 768, 768, 2, CHAIN | UNIT, false},
    {8192, 3072, 768, 2, UNIT, false},     {8192, 768, 3072, 2, CHAIN | UNIT, false},
    {16384, 768, 768, 8, F32, false},      {16384, 2304, 768, 8, F32, false},
    {16384, 3072, 768, 8, F32, false},     {16384, 768, 3072, 8, F32, false},
    {65536, 768, 768, 8, UNIT, false},     {65536, 2304, 768, 8, UNIT, false},
    {65536, 3072, 768, 8, UNIT, false},    {65536, 768, 3072, 8, UNIT, false},
    {4096, 1600, 1600, 8, F32, false},     {4096, 6400, 1600, 8, F32, false},
    {8192, 1600, 1600, 2, UNIT, false},    {8192, 4800, 1600, 2, UNIT, false},
    {8192, 6400, 1600, 2, UNIT, false},    {8192, 1600, 6400, 2, UNIT, false},
    {8192, 2048, 2048, 8, F32, false},     {4096, 8192, 2048, 8, F32, false},
    {32768, 2048, 2048, 4, UNIT, false},   {32768, 3072, 2048, 4, UNIT, false},
    {32768, 16384, 2048, 4, UNIT, false},  {32768, 2048, 8192, 4, UNIT, false},
    {8192, 4096, 4096, 2, UNIT, false},    {8192, 14336, 4096, 2, UNIT, false},
    {1024, 50304, 768, 1, CHAIN, true},    {2048, 50304, 768, 2, F32, true},
    {4096, 50304, 768, 2, UNIT, true},     {4096, 32000, 2048, 2, UNIT, true},
};

enum { LAYERS = sizeof layers / sizeof *layers };

typedef struct matmul {
    ls_probe_gpu_bench *b;
    ls_gemm call;
    size_t bounds[LS_GEMM_SLICES_MAX + 1];
} matmul;

/* Runs the matmul on the GPU; an ls_timer_call. */
static ls_status multiply(void *ctx) {
    const matmul *p = ctx;
    return p->b->device->ops->gemm(p->b->device, &p->call);
}

/* Measures one matmul and appends it to the rates; one whose operands exceed the arrays is skipped. */
static ls_status measure_matmul(matmul *p, int type, ls_gemm_form form, size_t m, size_t n, size_t k, int slices) {
    enum { T = 1024 };
    ls_gemm *g = &p->call;
    ls_native_rates *r = &p->b->out->rates;
    double seconds;
    ls_operand_matmul(g, form, m, n, k, slices, p->bounds);
    g->period = form == LS_GEMM_TN && type > 1 && k % ((size_t)slices * T) == 0 ? T : 0;
    if (form == LS_GEMM_TN && type > 1 && slices > 1 && g->period == 0) g->period = k / (size_t)slices;
    size_t in = ls_dtype_bytes(g->dtype), most = p->b->bytes;
    if (r->matmuls == LS_NATIVE_MATMULS_MAX || m * k * in > most || n * k * in > most ||
        m * n * ls_dtype_bytes(g->c_dtype) > most)
        return LS_OK;
    LS_TRY(ls_probe_gpu_time(p->b, multiply, p, &seconds));
    r->matmul[r->matmuls++] = (ls_native_matmul){form, type, m, n, k, slices, seconds};
    return LS_OK;
}

/* Divides a size for a slow device. */
static size_t reduce_size(const ls_probe_gpu_bench *b, size_t size, size_t by) {
    const size_t least = 16;
    return !b->is_slow ? size : size / by > least ? size / by / least * least : least;
}

/* Measures the matmuls of all layers that have the bit of this type, with the default number of slices: 8, or 2 with a
 * matrix unit (an instruction set for 16-bit matmuls). */
static ls_status measure_layers(ls_probe_gpu_bench *b, int type, int bit) {
    const int slices = type > 1 ? 2 : 8, most = b->is_slow ? 2 : LAYERS;
    matmul p = {.b = b};
    p.call.dtype = type > 0 ? LS_BF16 : LS_F32;
    p.call.unit = type > 0 ? (ls_unit)(type - 1) : LS_UNIT_CHAIN;
    p.call.a = type > 0 ? b->at[2] : b->at[0];
    p.call.b = type > 0 ? b->at[3] : b->at[1];
    p.call.c = b->at[4];
    for (int i = 0, done = 0; i < LAYERS && done < most; i++) {
        const layer *l = &layers[i];
        size_t tokens = reduce_size(b, l->tokens, 256), out = reduce_size(b, l->out, 64),
               in = reduce_size(b, l->in, 64);
        if (!(l->types & bit)) continue;
        done++;
        p.call.c_dtype = l->is_head && !ls_unit_is_tensor_core(p.call.unit) ? LS_F32 : p.call.dtype;
        LS_TRY(measure_matmul(&p, type, LS_GEMM_NT, tokens, out, in, 1));
        p.call.c_dtype = p.call.dtype;
        LS_TRY(measure_matmul(&p, type, LS_GEMM_NN, tokens, in, out, slices));
        p.call.c_dtype = LS_F32;
        LS_TRY(measure_matmul(&p, type, LS_GEMM_TN, out, in, tokens, tokens < 64 ? 1 : l->groups));
    }
    return LS_OK;
}

/* Measures how much longer a matmul takes with a GELU epilogue, and with a GELU-gradient epilogue that also recomputes
 * GELU, than without. An epilogue that the GPU does not support stays unmeasured (0 s). */
static ls_status measure_epilogues(ls_probe_gpu_bench *b) {
    enum { K = 1024, N = 2048 };
    static const ls_native_pass passes[] = {
        [LS_GEMM_GELU] = LS_PASS_MATMUL_GELU, [LS_GEMM_GELU_GRAD] = LS_PASS_MATMUL_GELU_GRAD};
    ls_native_rates *r = &b->out->rates;
    const size_t *elems = r->sizes.pass;
    matmul p = {.b = b};
    ls_gemm *g = &p.call;
    double plain, whole;
    ls_operand_matmul(g, LS_GEMM_NT, elems[1] / N, N, K, 1, p.bounds);
    g->dtype = g->c_dtype = LS_BF16;
    g->unit = b->unit;
    g->a = b->at[2];
    g->b = b->at[3];
    g->c = b->at[4];
    if (b->is_slow || !b->device->ops->gemm_ends) return LS_OK;
    LS_TRY(ls_probe_gpu_time(b, multiply, &p, &plain));
    for (int end = LS_GEMM_GELU; end <= LS_GEMM_GELU_GRAD; end++) {
        double *seconds = r->pass[passes[end]][1];
        g->end = (ls_gemm_end)end;
        g->y = b->at[5];
        g->pre = end == LS_GEMM_GELU_GRAD ? b->at[0] : NULL;
        if (!b->device->ops->gemm_ends(b->device, g)) continue;
        LS_TRY(ls_probe_gpu_time(b, multiply, &p, &whole));
        seconds[1] = ls_more_seconds(plain, whole);
        seconds[0] = seconds[1] * (double)elems[0] / (double)elems[1];
    }
    return LS_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { HEADS = 16, POSITIONS = 1 << 18 }; /* heads of a sequence; tokens times heads of a call */

typedef struct heads {
    ls_device *device;
    ls_attention part;
    ls_attention_call call;
    bool backward;
} heads;

/* Runs attention in one direction; an ls_timer_call. */
static ls_status attend(void *ctx) {
    const heads *h = ctx;
    return (h->backward ? h->device->ops->attention_backward : h->device->ops->attention_forward)(h->device, &h->call);
}

/* Measures attention forward and backward, for each head size and length, and the cost of dropout. */
static ls_status measure_heads(ls_probe_gpu_bench *b, int type) {
    ls_native_rates *r = &b->out->rates;
    heads h = {.device = b->device};
    ls_operand_heads operands = {.heads = b->is_slow ? 1 : HEADS,
                                 .act = type > 0 ? LS_BF16 : LS_F32,
                                 .unit = type > 0 ? (ls_unit)(type - 1) : LS_UNIT_CHAIN,
                                 .qkv = type > 0 ? b->at[2] : b->at[0],
                                 .o = b->at[4],
                                 .dout = type > 0 ? b->at[3] : b->at[1],
                                 .dqkv = b->at[5]};
    size_t positions = POSITIONS;
    while (positions * 3 * r->sizes.head[LS_NATIVE_HEADS - 1] * sizeof(float) > b->bytes) positions /= 2;
    for (int d = 0; d < LS_NATIVE_HEADS; d++)
        for (int t = 0; t < LS_NATIVE_LENGTHS; t++)
            for (int back = 0; back < 2; back++) {
                double seconds;
                operands.T = r->sizes.length[t];
                operands.d = r->sizes.head[d];
                size_t sequences = b->is_slow ? 1 : positions / HEADS / operands.T;
                size_t rows = sequences * operands.T * operands.heads;
                operands.stats = (float *)b->at[4] + rows * operands.d;
                h.backward = back;
                h.call = ls_operand_attention(&operands, &h.part);
                h.call.B = sequences;
                h.call.stat_elems = operands.heads * operands.T;
                h.part.l = h.part.m + rows;
                h.part.dots = h.part.m + 2 * rows;
                LS_TRY(ls_probe_gpu_time(b, attend, &h, &seconds));
                const double all = (double)(sequences * operands.heads), plain = seconds;
                r->attention[back][type][d][t] = seconds / all;
                if (d + 1 < LS_NATIVE_HEADS || t + 1 < LS_NATIVE_LENGTHS) continue;
                h.part.drop = ls_operand_drop(&operands);
                LS_TRY(ls_probe_gpu_time(b, attend, &h, &seconds));
                r->dropped[back][type] =
                    ls_more_seconds(plain, seconds) / (all * ls_mask_pairs(LS_MASK_CAUSAL, operands.T));
            }
    return LS_OK;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Measures one pass at both sizes. */
static ls_status measure_pass(ls_probe_gpu_bench *b, ls_probe_pass *p, ls_native_pass which, bool is_16) {
    ls_native_rates *r = &b->out->rates;
    p->which = which;
    p->act = is_16 ? LS_BF16 : LS_F32;
    p->slices = p->loss_slices = is_16 && b->unit != LS_UNIT_CHAIN ? 2 : 8;
    p->block = is_16 && b->unit != LS_UNIT_CHAIN ? 64 : 0;
    p->logits = is_16 && b->unit != LS_UNIT_CHAIN ? LS_BF16 : LS_F32;
    /* Sets bf16 logits to 1, two in each float, because the bits of earlier passes could be NaN. */
    if (p->logits == LS_BF16)
        LS_TRY(b->device->ops->set(b->device, &(ls_set_call){p->at[0], 0x1.007fp+0f, r->sizes.pass[1] / 2}));
    for (int large = 0; large < 2; large++) {
        p->elems = r->sizes.pass[large];
        p->rows = p->elems / p->columns;
        LS_TRY(ls_probe_gpu_time(b, ls_probe_pass_run, p, &r->pass[which][is_16][large]));
    }
    return LS_OK;
}

/* Measures all passes that a GPU has, in fp32 and 16 bits. */
static ls_status measure_passes(ls_probe_gpu_bench *b) {
    const size_t *elems = b->out->rates.sizes.pass;
    ls_probe_pass p = {.device = b->device, .groups = 8, .in_place = true};
    p.columns = b->is_slow ? 64 : 1024;
    p.vocabulary = b->is_slow ? 128 : 32768;
    p.id_end = b->is_slow ? 16 : 16384;
    p.T = b->is_slow ? 16 : 1024;
    /* Small arrays are stored after the large ones. */
    for (int i = 0; i < LS_PROBE_PASS_ARRAYS; i++) p.at[i] = b->at[i];
    p.vector = (float *)b->at[5] + elems[1];
    p.ids = (int32_t *)b->at[4] + elems[1];
    int32_t *ids = b->host;
    size_t rows = elems[1] / p.columns;
    for (size_t i = 0; i < rows; i++) ids[i] = (int32_t)(i * 7919 % (size_t)p.id_end);
    LS_TRY(ls_device_copy_in(b->device, p.ids, ids, rows * sizeof *ids));
    for (int which = 0; which < LS_NATIVE_PASSES; which++)
        for (int is_16 = 0; is_16 < 2; is_16++)
            if (ls_probe_pass_has((ls_native_pass)which, is_16, true))
                LS_TRY(measure_pass(b, &p, (ls_native_pass)which, is_16));
    return LS_OK;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Sets one element, to measure the time of a launch. */
static ls_status launch_smallest(void *ctx) {
    const ls_probe_gpu_bench *b = ctx;
    return b->device->ops->set(b->device, &(ls_set_call){b->at[5], 1, 1});
}

/* Fills two arrays with the fp32 ones converted to bf16. */
static ls_status make_halves(const ls_probe_gpu_bench *b) {
    size_t elems = b->bytes / sizeof(float);
    for (int i = 0; i < 2; i++) {
        ls_convert_call convert = {b->at[2 + i], LS_BF16, b->at[i], LS_F32, elems};
        LS_TRY(b->device->ops->convert(b->device, &convert));
        LS_TRY(ls_device_copy(b->device, (char *)b->at[2 + i] + b->bytes / 2, b->at[2 + i], b->bytes / 2));
    }
    return LS_OK;
}

/* Chooses the sizes of passes, heads and sequences: as in training, or tiny ones for a slow device. */
static void choose_sizes(const ls_probe_gpu_bench *b, ls_native_sizes *out) {
    static const ls_native_sizes fast = {{1 << 16, 1 << 26}, {64, 128}, {256, 1024, 4096}},
                                 slow = {{1 << 8, 1 << 11}, {32, 64}, {4, 16, 32}};
    *out = b->is_slow ? slow : fast;
    while (2 * out->pass[1] * sizeof(float) > b->bytes) out->pass[1] /= 2;
}

ls_status ls_probe_gpu_kernels(ls_probe_gpu_bench *b) {
    ls_native_rates *r = &b->out->rates;
    const int unit = 1 + (int)b->unit;
    r->workers = r->threads = 1;
    r->copy_bytes_per_second = b->out->copy_bytes_per_second;
    choose_sizes(b, &r->sizes);
    LS_TRY(ls_probe_gpu_time(b, launch_smallest, b, &r->launch_seconds));
    LS_TRY(make_halves(b));
    LS_TRY(measure_layers(b, 0, F32));
    LS_TRY(measure_layers(b, 1, CHAIN));
    if (b->unit != LS_UNIT_CHAIN) LS_TRY(measure_layers(b, unit, UNIT));
    if (b->unit != LS_UNIT_CHAIN) LS_TRY(measure_epilogues(b));
    LS_TRY(measure_heads(b, 0));
    LS_TRY(measure_heads(b, 1));
    if (b->unit != LS_UNIT_CHAIN) LS_TRY(measure_heads(b, unit));
    return measure_passes(b);
}
