/* ops_optim.c: optimizer steps, squared norms, conversions: over flat arrays, split by elements. */
#include "kernels/cpu/cpu.h"

#include "tensor/dtype.h"

typedef struct adamw_args {
    float *w, *m, *v;
    uint16_t *bf16;
    const float *g;
    const ls_adamw_step *step;
} adamw_args;

static void adamw_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const adamw_args *a = args;
    kernels->optim.adamw(a->w + begin, a->m + begin, a->v + begin, a->bf16 ? a->bf16 + begin : NULL, a->g + begin,
                         a->step, end - begin);
}

static ls_status adamw(ls_device *device, float *w, float *m, float *v, uint16_t *bf16, const float *g,
                       const ls_adamw_step *step, size_t n) {
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, adamw_range, &(adamw_args){w, m, v, bf16, g, step});
    return LS_OK;
}

typedef struct sgd_args {
    float *w, *b;
    uint16_t *bf16;
    const float *g;
    const ls_sgd_step *step;
} sgd_args;

static void sgd_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const sgd_args *a = args;
    kernels->optim.sgd(a->w + begin, a->b ? a->b + begin : NULL, a->bf16 ? a->bf16 + begin : NULL, a->g + begin,
                       a->step, end - begin);
}

static ls_status sgd(ls_device *device, float *w, float *b, uint16_t *bf16, const float *g, const ls_sgd_step *step,
                     size_t n) {
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, sgd_range, &(sgd_args){w, b, bf16, g, step});
    return LS_OK;
}

typedef struct square_args {
    double *out;
    const float *x;
} square_args;

_Static_assert(LS_CPU_GRAIN % LS_SQUARE_BLOCK == 0, "squared norms are cut at the ends of blocks");

static void square_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const square_args *a = args;
    kernels->optim.square_sums(a->out + begin / LS_SQUARE_BLOCK, a->x + begin, end - begin);
}

static ls_status square_sums(ls_device *device, double *out, const float *x, size_t n) {
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, square_range, &(square_args){out, x});
    return LS_OK;
}

typedef struct scale_args {
    float *y;
    const float *x;
    float factor;
} scale_args;

static void scale_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const scale_args *a = args;
    kernels->optim.scale(a->y + begin, a->x + begin, a->factor, end - begin);
}

static ls_status scale(ls_device *device, float *y, const float *x, float factor, size_t n) {
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, scale_range, &(scale_args){y, x, factor});
    return LS_OK;
}

static void set_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const scale_args *a = args;
    for (size_t i = begin; i < end; i++) a->y[i] = a->factor;
}

static ls_status set(ls_device *device, float *y, float value, size_t n) {
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, set_range, &(scale_args){.y = y, .factor = value});
    return LS_OK;
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */

typedef struct convert_args {
    void (*narrow)(uint16_t *out, const float *in, size_t n);
    void (*widen)(float *out, const uint16_t *in, size_t n);
    void *out;
    const void *in;
} convert_args;

static void convert_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const convert_args *a = args;
    if (a->narrow)
        a->narrow((uint16_t *)a->out + begin, (const float *)a->in + begin, end - begin);
    else
        a->widen((float *)a->out + begin, (const uint16_t *)a->in + begin, end - begin);
}

static ls_status convert(ls_device *device, void *out, ls_dtype to, const void *in, ls_dtype from, size_t n) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    const ls_convert_kernels *kernels = &cpu->kernels->convert;
    convert_args args = {.out = out, .in = in};
    if (from == LS_F32 && to == LS_BF16)
        args.narrow = kernels->f32_to_bf16;
    else if (from == LS_F32 && to == LS_F16)
        args.narrow = kernels->f32_to_f16;
    else if (from == LS_BF16 && to == LS_F32)
        args.widen = kernels->bf16_to_f32;
    else if (from == LS_F16 && to == LS_F32)
        args.widen = kernels->f16_to_f32;
    else
        return ls_fail(LS_ERR_INPUT, "no conversion from %s to %s; one of them must be f32, the other bf16 or f16",
                       ls_dtype_name(from), ls_dtype_name(to));
    ls_cpu_run(cpu, n, LS_CPU_GRAIN, convert_range, &args);
    return LS_OK;
}

void ls_cpu_ops_fill_optim(ls_ops *ops) {
    ops->adamw = adamw;
    ops->sgd = sgd;
    ops->square_sums = square_sums;
    ops->scale = scale;
    ops->set = set;
    ops->convert = convert;
}
