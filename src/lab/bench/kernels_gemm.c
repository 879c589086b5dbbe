/* kernels_gemm.c: matmuls of `lockstep bench kernels`.
 *
 * A layer of `in` inputs and `out` outputs on T tokens has three matmuls: forward NT T×out×in, the gradient of its
 * inputs NN T×in×out, and the gradient of its weights TN out×in×T. In the first round some elements of each result are
 * compared with sums in double. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lab/bench/kernels.h"
#include "numerics/float16.h"

enum { FORWARD = 1, INPUTS = 2, WEIGHTS = 4, ALL = 7, CHECKS = 16, SLICES = 8 };

typedef struct layer {
    int group;
    bool quick; /* measured by --quick too */
    bool scaling;
    int forms;
    size_t tokens, out, in;
} layer;

static const layer layers[] = {
    /* GPT-2 124M: query, key and value; attention output; MLP up and down; vocabulary */
    {0, false, false, ALL, 256, 2304, 768},
    {0, false, false, ALL, 256, 768, 768},
    {0, false, false, ALL, 256, 3072, 768},
    {0, false, false, ALL, 256, 768, 3072},
    {1, false, false, ALL, 256, 50257, 768},
    {2, false, false, ALL, 1024, 2304, 768},
    {2, false, false, ALL, 1024, 768, 768},
    {2, false, true, ALL, 1024, 3072, 768},
    {2, false, false, ALL, 1024, 768, 3072},
    /* a block of Llama 1B */
    {3, false, false, FORWARD, 256, 2048, 2048},
    {3, false, true, FORWARD, 256, 8192, 2048},
    {3, false, false, FORWARD, 256, 2048, 8192},
    /* few tokens, and sizes that fit no tile */
    {4, true, true, FORWARD, 64, 768, 768},
    {4, true, false, FORWARD, 4, 768, 768},
    {4, true, false, FORWARD, 1, 3072, 768},
    {4, true, false, ALL, 127, 1001, 333},
};

/* Variants of plain matmuls: with slices (parts of a sum that are added up by themselves) or in 16 bits. Each stands
 * beside the same matmul in fp32 with one slice. Those of bf16 are measured with every unit of this CPU; the three of
 * them are a layer's as training in bf16 has them. */
static const ls_kbench_shape variants[] = {
    {LS_GEMM_NT, 256, 3072, 768, SLICES, LS_F32, LS_F32, LS_UNIT_CHAIN},
    {LS_GEMM_NT, 256, 3072, 768, 1, LS_F16, LS_F16, LS_UNIT_CHAIN},
    {LS_GEMM_NT, 1024, 3072, 768, 1, LS_BF16, LS_BF16, LS_UNIT_CHAIN},
    {LS_GEMM_NN, 1024, 768, 3072, SLICES, LS_BF16, LS_BF16, LS_UNIT_CHAIN},
    {LS_GEMM_TN, 3072, 768, 1024, 1, LS_BF16, LS_F32, LS_UNIT_CHAIN},
    {LS_GEMM_NT, 1, 3072, 768, 1, LS_BF16, LS_BF16, LS_UNIT_CHAIN},
};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Returns whether the shape has slices or 16 bits; its yardstick is then the plain matmul of its size. */
static bool is_variant(const ls_kbench_shape *s) { return s->slices > 1 || s->dtype != LS_F32; }

/* Adds the row of one matmul; the peer can measure only plain fp32 ones. */
static ls_status add_row(ls_kbench_rows *rows, int threads, int group, bool scaling, ls_kbench_shape s) {
    ls_kbench_row *row;
    LS_TRY(ls_kbench_row_add(rows, LS_KBENCH_GEMM, threads, &row));
    const char *type = s.dtype == LS_BF16 ? "/bf16" : s.dtype == LS_F16 ? "/fp16" : "";
    bool by_unit = s.unit != LS_UNIT_CHAIN;
    snprintf(row->name, sizeof row->name, "gemm/%s/%zux%zux%zu%s%s%s%s", ls_gemm_form_names[s.form], s.m, s.n, s.k,
             s.slices > 1 ? "/slices=8" : "", type, by_unit ? "/" : "", by_unit ? ls_unit_name(s.unit) : "");
    row->group = group;
    row->shape = s;
    row->for_peer = !is_variant(&s);
    row->for_scaling = scaling && threads > 1;
    row->is_flops = true;
    row->work = 2.0 * (double)s.m * (double)s.n * (double)s.k;
    row->yardstick = is_variant(&s) ? "plain" : "peak";
    return LS_OK;
}

/* Adds the row of a variant, for bf16 one with each unit of this CPU. */
static ls_status add_variant(ls_kbench_rows *rows, int threads, bool quick, size_t number) {
    int group = layers[sizeof layers / sizeof *layers - 1].group + 1;
    ls_kbench_shape s = variants[number];
    if (quick) s.n /= 8;
    for (int unit = 0; unit < LS_UNITS; unit++) {
        s.unit = (ls_unit)unit;
        if (unit > 0 && (s.dtype != LS_BF16 || !ls_unit_is_fast_here(s.unit))) continue;
        LS_TRY(add_row(rows, threads, group, false, s));
    }
    return LS_OK;
}

ls_status ls_kbench_gemm_list(ls_kbench_rows *rows, int threads, bool quick) {
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const layer *l = &layers[i];
        if (quick && !l->quick) continue;
        ls_kbench_shape forward = {LS_GEMM_NT, l->tokens, l->out, l->in, 1, LS_F32, LS_F32, LS_UNIT_CHAIN};
        ls_kbench_shape inputs = {LS_GEMM_NN, l->tokens, l->in, l->out, 1, LS_F32, LS_F32, LS_UNIT_CHAIN};
        ls_kbench_shape weights = {LS_GEMM_TN, l->out, l->in, l->tokens, 1, LS_F32, LS_F32, LS_UNIT_CHAIN};
        if (l->forms & FORWARD) LS_TRY(add_row(rows, threads, l->group, l->scaling, forward));
        if (l->forms & INPUTS) LS_TRY(add_row(rows, threads, l->group, l->scaling, inputs));
        if (l->forms & WEIGHTS) LS_TRY(add_row(rows, threads, l->group, l->scaling, weights));
    }
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) LS_TRY(add_variant(rows, threads, quick, i));
    return LS_OK;
}

/* ---- one matmul -------------------------------------------------------------------------------------------------- */

typedef struct matmul {
    ls_gemm g;
    const ls_kbench_env *env;
    void *a, *b, *c, *scratch;
    size_t bounds[SLICES + 1];
} matmul;

/* Frees the operands. */
static void matmul_close(matmul *p) {
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->scratch);
}

/* Fills an operand with numbers of the type, beginning at `seed` of the sequence. */
static void fill_operand(void *to, ls_dtype dtype, size_t elems, size_t seed) {
    for (size_t i = 0; i < elems; i++) {
        float value = ls_operand_value(i + seed);
        switch (dtype) {
        case LS_BF16: ((uint16_t *)to)[i] = ls_bf16_from_f32(value); break;
        case LS_F16: ((uint16_t *)to)[i] = ls_f16_from_f32(value); break;
        default: ((float *)to)[i] = value; break;
        }
    }
}

/* Allocates and fills the operands. The caller closes the matmul, also after a failure. */
static ls_status matmul_open(matmul *p, const ls_kbench_env *env, const ls_kbench_shape *s) {
    size_t elem_bytes = ls_dtype_bytes(s->dtype);
    *p = (matmul){.env = env};
    LS_TRY(ls_kbench_alloc(s->m * s->k * elem_bytes, &p->a));
    LS_TRY(ls_kbench_alloc(s->n * s->k * elem_bytes, &p->b));
    LS_TRY(ls_kbench_alloc(s->m * s->n * sizeof(float), &p->c));
    fill_operand(p->a, s->dtype, s->m * s->k, 0);
    fill_operand(p->b, s->dtype, s->n * s->k, 12345);
    memset(p->c, 0xff, s->m * s->n * sizeof(float)); /* NaN: what is not written is found */
    p->g = (ls_gemm){.dtype = s->dtype, .c_dtype = s->c_dtype, .unit = s->unit, .a = p->a, .b = p->b, .c = p->c};
    ls_operand_matmul(&p->g, s->form, s->m, s->n, s->k, s->slices, p->bounds);
    return ls_kbench_alloc(ls_gemm_scratch_bytes(&env->kernels->gemm, &p->g), &p->scratch);
}

/* Runs the matmul once; an ls_timer_call. */
static ls_status matmul_run(void *ctx) {
    matmul *p = ctx;
    ls_gemm_run(&p->env->kernels->gemm, &p->g, p->env->pool, p->scratch);
    return LS_OK;
}

/* Returns element i of an array of the type. */
static double element_at(const void *at, ls_dtype dtype, size_t i) {
    switch (dtype) {
    case LS_BF16: return (double)ls_bf16_to_f32(((const uint16_t *)at)[i]);
    case LS_F16: return (double)ls_f16_to_f32(((const uint16_t *)at)[i]);
    default: return (double)((const float *)at)[i];
    }
}

/* Checks some elements against sums in double. The error of a sum of k terms is at most k roundings of the sum of their
 * sizes; slices only make it smaller. A C of 16 bits is rounded once more. */
static ls_status matmul_check(const matmul *p) {
    const ls_gemm *g = &p->g;
    for (size_t check = 0; check < CHECKS; check++) {
        size_t at = (g->m * g->n - 1) * check / (CHECKS - 1);
        size_t i = at / g->n, j = at % g->n;
        double sum = 0, size = 0, got = element_at(g->c, g->c_dtype, i * g->ldc + j);
        for (size_t k = 0; k < g->k; k++) {
            double x = element_at(g->a, g->dtype, g->form == LS_GEMM_TN ? k * g->lda + i : i * g->lda + k);
            double y = element_at(g->b, g->dtype, g->form == LS_GEMM_NT ? j * g->ldb + k : k * g->ldb + j);
            sum += x * y;
            size += fabs(x * y);
        }
        double last = g->c_dtype == LS_F32 ? 0 : 0x1p-8 * fabs(sum);
        if (fabs(got - sum) <= (double)g->k * 0x1p-24 * size + last) continue;
        return ls_fail(LS_ERR_FAILED, "matmul %s %zux%zux%zu is wrong: element %zu,%zu is %.9g, not %.9g",
                       ls_gemm_form_names[g->form], g->m, g->n, g->k, i, j, got, sum);
    }
    return LS_OK;
}

/* Measures one matmul, and checks its result in the first round. */
static ls_status time_shape(const ls_kbench_env *env, const ls_kbench_shape *s, double *seconds) {
    matmul p;
    ls_status status = LS_OK;
    LS_TRY_OUT(matmul_open(&p, env, s));
    LS_TRY_OUT(ls_kbench_time(env, matmul_run, &p, seconds));
    if (env->round == 0) LS_TRY_OUT(matmul_check(&p));
out:
    matmul_close(&p);
    return status;
}

/* Measures the operations a second of one matmul. */
static ls_status measure_rate(const ls_kbench_env *env, const ls_kbench_shape *s, double *flops_s) {
    double seconds = 0;
    LS_TRY(time_shape(env, s, &seconds));
    *flops_s = 2.0 * (double)s->m * (double)s->n * (double)s->k / seconds;
    return LS_OK;
}

/* Measures the gain of the threads, with all four rates from this round; it stays 0 if the peak of the CPU is not
 * known. The calling thread stays on the first CPU. */
static ls_status measure_scaling(const ls_kbench_env *env, ls_kbench_row *row) {
    ls_kbench_env alone = *env;
    alone.pool = NULL;
    alone.threads = 1;
    double all_fma = ls_kbench_fma_rate(env), one_fma = ls_kbench_fma_rate(&alone), one_seconds = 0;
    if (one_fma <= 0) return LS_OK;
    LS_TRY(time_shape(&alone, &row->shape, &one_seconds));
    row->scaling[env->round] = one_seconds / row->seconds[env->round] / (all_fma / one_fma);
    return LS_OK;
}

ls_status ls_kbench_gemm_measure(const ls_kbench_env *env, ls_kbench_row *row) {
    LS_TRY(time_shape(env, &row->shape, &row->seconds[env->round]));
    if (row->for_scaling) LS_TRY(measure_scaling(env, row));
    if (!is_variant(&row->shape)) return LS_OK;
    ls_kbench_shape plain = row->shape;
    plain.dtype = plain.c_dtype = LS_F32;
    plain.unit = LS_UNIT_CHAIN;
    plain.slices = 1;
    return measure_rate(env, &plain, &row->yard_rate[env->round]);
}

ls_status ls_kbench_gemm_rate(const ls_kbench_env *env, size_t m, size_t n, size_t k, double *flops_s) {
    ls_kbench_shape plain = {LS_GEMM_NT, m, n, k, 1, LS_F32, LS_F32, LS_UNIT_CHAIN};
    return measure_rate(env, &plain, flops_s);
}
