/* matmul.c: measures matmuls and attention on a CPU, at sizes of small and medium models. */
#include "lab/calls.h"
#include "lab/probe/worker.h"

/* ---- matmuls ----------------------------------------------------------------------------------------------------- */

/* A layer of `in` inputs and `out` outputs on so many tokens: forward NT, the gradient of its inputs NN, cut into
 * slices as layers are, and that of its weights TN, in groups. */
typedef struct layer {
    size_t tokens, out, in;
    int slices, groups;
    bool both; /* measured in 16-bit types too */
} layer;

static const layer layers[] = {
    {32, 128, 128, 4, 1, false},  {64, 384, 128, 8, 1, true},    {256, 64, 128, 4, 4, false},
    {256, 512, 128, 8, 1, true},  {256, 128, 512, 8, 4, false},  {1024, 384, 128, 8, 8, true},
    {2048, 128, 128, 8, 8, true}, {128, 256, 256, 4, 1, false},  {512, 1024, 256, 4, 4, true},
    {64, 768, 768, 4, 1, true},   {256, 2304, 768, 4, 1, true},  {256, 768, 3072, 4, 4, false},
    {1024, 768, 768, 4, 8, true}, {128, 4096, 768, 16, 1, true},
};

enum { LAYERS = sizeof layers / sizeof *layers, OPERAND_ELEMS = 4096 * 768 };

/* In a step every matmul has its own weights, or gradient, so each call uses another place in memory for them, in turn,
 * while its input, the previous layer's output, is still in a cache. */
typedef struct matmul {
    ls_device *device;
    ls_gemm call;
    float *weights, *result; /* OPERAND_ELEMS each */
    size_t turn;
    size_t bounds[LS_GEMM_SLICES_MAX + 1];
} matmul;

/* Makes one call, with other weights than the call before. */
static ls_status multiply(void *ctx) {
    matmul *p = ctx;
    ls_gemm *g = &p->call;
    bool of_gradient = g->form == LS_GEMM_TN;
    size_t elems = of_gradient ? g->m * g->n : g->n * g->k, places = OPERAND_ELEMS / elems;
    size_t at = p->turn++ % places * elems;
    g->b = of_gradient ? p->weights : p->weights + at;
    g->c = of_gradient ? p->result + at : p->result;
    return p->device->ops->gemm(p->device, g);
}

/* Sets form, sizes and slices of the next matmul. */
static void set_shape(matmul *p, ls_gemm_form form, size_t m, size_t n, size_t k, int slices) {
    ls_operand_matmul(&p->call, form, m, n, k, slices, p->bounds);
    p->call.period = form == LS_GEMM_TN && p->call.unit != LS_UNIT_CHAIN ? k / (size_t)slices : 0;
}

/* Measures the matmul and appends it to the rates; does nothing if they are full. */
static ls_status measure_matmul_rates(const ls_probe_worker *w, matmul *p, int type) {
    ls_native_rates *r = w->rates;
    const ls_gemm *g = &p->call;
    double seconds;
    if (r->matmuls == LS_NATIVE_MATMULS_MAX) return LS_OK;
    LS_TRY(ls_probe_time(w, multiply, p, &seconds));
    r->matmul[r->matmuls++] = (ls_native_matmul){g->form, type, g->m, g->n, g->k, g->slices, seconds};
    return LS_OK;
}

/* Measures the matmuls of all layers in one type (0: fp32; n > 0: bf16 on matrix unit n − 1) and appends them to
 * w->rates. */
static ls_status measure_type(const ls_probe_worker *w, matmul *p, int type) {
    bool is_16 = type > 0;
    p->call.dtype = is_16 ? LS_BF16 : LS_F32;
    p->call.unit = is_16 ? (ls_unit)(type - 1) : LS_UNIT_CHAIN;
    for (int i = 0; i < LAYERS; i++) {
        const layer *l = &layers[i];
        if (is_16 && !l->both) continue;
        p->call.c_dtype = p->call.dtype;
        set_shape(p, LS_GEMM_NT, l->tokens, l->out, l->in, 1);
        LS_TRY(measure_matmul_rates(w, p, type));
        set_shape(p, LS_GEMM_NN, l->tokens, l->in, l->out, l->slices);
        LS_TRY(measure_matmul_rates(w, p, type));
        p->call.c_dtype = LS_F32;
        set_shape(p, LS_GEMM_TN, l->out, l->in, l->tokens, l->groups);
        LS_TRY(measure_matmul_rates(w, p, type));
    }
    return LS_OK;
}

ls_status ls_probe_matmuls(ls_probe_worker *w) {
    matmul p = {.device = w->device};
    float *inputs;
    w->rates->matmuls = 0;
    LS_TRY(ls_probe_alloc(w, OPERAND_ELEMS, &inputs));
    LS_TRY(ls_probe_alloc(w, OPERAND_ELEMS, &p.weights));
    LS_TRY(ls_probe_alloc(w, OPERAND_ELEMS, &p.result));
    p.call.a = inputs;
    for (int type = 0; type < LS_NATIVE_TYPES; type++)
        if (type < 2 || ls_unit_is_fast_here((ls_unit)(type - 1))) LS_TRY(measure_type(w, &p, type));
    return LS_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

enum { HEADS = 8, HEAD_ELEMS = HEADS * 64 * 1024 };

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

/* Times attention, forward and backward, of one type: fills rates->attention (seconds per head) and rates->dropped
 * (what dropout adds). `memory`: qkv, o, dout, dqkv, statistics. */
static ls_status measure_heads(const ls_probe_worker *w, int type, float *const memory[5]) {
    heads h = {.device = w->device};
    ls_operand_heads operands = {.heads = HEADS,
                                 .act = type > 0 ? LS_BF16 : LS_F32,
                                 .unit = type > 0 ? (ls_unit)(type - 1) : LS_UNIT_CHAIN,
                                 .qkv = memory[0],
                                 .o = memory[1],
                                 .dout = memory[2],
                                 .dqkv = memory[3],
                                 .stats = memory[4]};
    for (int d = 0; d < LS_NATIVE_HEADS; d++)
        for (int t = 0; t < LS_NATIVE_LENGTHS; t++)
            for (int back = 0; back < 2; back++) {
                double seconds;
                h.backward = back;
                operands.T = ls_native_lengths[t];
                operands.d = ls_native_heads[d];
                h.call = ls_operand_attention(&operands, &h.part);
                LS_TRY(ls_probe_time(w, attend, &h, &seconds));
                w->rates->attention[back][type][d][t] = seconds / HEADS;
                if (d + 1 < LS_NATIVE_HEADS || t + 1 < LS_NATIVE_LENGTHS) continue;
                double plain = seconds;
                h.part.drop = ls_operand_drop(&operands);
                LS_TRY(ls_probe_time(w, attend, &h, &seconds));
                w->rates->dropped[back][type] =
                    ls_more_seconds(plain, seconds) / (HEADS * ls_mask_pairs(LS_MASK_CAUSAL, operands.T));
            }
    return LS_OK;
}

ls_status ls_probe_attention(ls_probe_worker *w) {
    static const size_t elems[5] = {3 * HEAD_ELEMS, HEAD_ELEMS, HEAD_ELEMS, 3 * HEAD_ELEMS, 3 * HEADS * 1024};
    float *memory[5];
    for (int i = 0; i < 5; i++) LS_TRY(ls_probe_alloc(w, elems[i], &memory[i]));
    for (int type = 0; type < LS_NATIVE_TYPES; type++)
        if (type < 2 || ls_unit_is_fast_here((ls_unit)(type - 1))) LS_TRY(measure_heads(w, type, memory));
    return LS_OK;
}
