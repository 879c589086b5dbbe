/* convert.c: conversions between number formats: over flat arrays, split by elements. */
#include "device/cpu/ops/staging.h"

#include "device/dtype.h"

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
        return ls_fail(LS_ERR_INPUT, "cannot convert from %s to %s; one must be f32, the other bf16 or f16",
                       ls_dtype_name(from), ls_dtype_name(to));
    ls_cpu_run(cpu, n, LS_CPU_GRAIN, convert_range, &args);
    return LS_OK;
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

typedef struct round_args {
    float *y;
    const float *x;
    ls_dtype to;
} round_args;

static void round_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const round_args *a = args;
    uint16_t rounded[LS_CPU_STAGING];
    for (size_t i = begin, n; i < end; i += n) {
        n = ls_cpu_piece(a->to, end - i);
        ls_cpu_narrow(kernels, rounded, a->to, 0, a->x + i, n);
        ls_cpu_widen(kernels, a->y + i, rounded, a->to, 0, n);
    }
}

static ls_status round_elems(ls_device *device, float *y, const float *x, ls_dtype to, size_t n) {
    LS_TRY(ls_cpu_check_half("rounding", to));
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, round_range, &(round_args){y, x, to});
    return LS_OK;
}

void ls_cpu_ops_fill_convert(ls_ops *ops) {
    ops->convert = convert;
    ops->round = round_elems;
}
