/* optim.c: optimizer steps and squared norms: over flat arrays, split by elements. */
#include "device/cpu/ops/staging.h"

/* The kernels themselves round a copy to bf16. For f16 they take pieces, of which w is still at hand to be rounded. */
typedef struct adamw_args {
    float *w, *m, *v;
    void *copy;
    ls_dtype copy_dtype;
    const float *g;
    const ls_adamw_step *step;
} adamw_args;

static size_t optim_piece(const void *copy, ls_dtype copy_dtype, size_t left) {
    return copy && copy_dtype == LS_F16 ? ls_cpu_piece(copy_dtype, left) : left;
}

static uint16_t *bf16_at(void *copy, ls_dtype copy_dtype, size_t first) {
    return copy && copy_dtype == LS_BF16 ? (uint16_t *)copy + first : NULL;
}

static void adamw_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const adamw_args *a = args;
    for (size_t i = begin, n; i < end; i += n) {
        n = optim_piece(a->copy, a->copy_dtype, end - i);
        kernels->optim.adamw(a->w + i, a->m + i, a->v + i, bf16_at(a->copy, a->copy_dtype, i), a->g + i, a->step, n);
        if (a->copy && a->copy_dtype == LS_F16) ls_cpu_narrow(kernels, a->copy, LS_F16, i, a->w + i, n);
    }
}

static ls_status adamw(ls_device *device, float *w, float *m, float *v, void *copy, ls_dtype copy_dtype, const float *g,
                       const ls_adamw_step *step, size_t n) {
    if (copy) LS_TRY(ls_cpu_check_half("a copy of weights", copy_dtype));
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, adamw_range, &(adamw_args){w, m, v, copy, copy_dtype, g, step});
    return LS_OK;
}

typedef struct sgd_args {
    float *w, *b;
    void *copy;
    ls_dtype copy_dtype;
    const float *g;
    const ls_sgd_step *step;
} sgd_args;

static void sgd_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const sgd_args *a = args;
    for (size_t i = begin, n; i < end; i += n) {
        n = optim_piece(a->copy, a->copy_dtype, end - i);
        kernels->optim.sgd(a->w + i, a->b ? a->b + i : NULL, bf16_at(a->copy, a->copy_dtype, i), a->g + i, a->step, n);
        if (a->copy && a->copy_dtype == LS_F16) ls_cpu_narrow(kernels, a->copy, LS_F16, i, a->w + i, n);
    }
}

static ls_status sgd(ls_device *device, float *w, float *b, void *copy, ls_dtype copy_dtype, const float *g,
                     const ls_sgd_step *step, size_t n) {
    if (copy) LS_TRY(ls_cpu_check_half("a copy of weights", copy_dtype));
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, sgd_range, &(sgd_args){w, b, copy, copy_dtype, g, step});
    return LS_OK;
}

typedef struct square_args {
    double *out;
    const float *x;
} square_args;

_Static_assert(LS_CPU_GRAIN % LS_SQUARE_BLOCK == 0, "squared norms must be split at block boundaries");

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

void ls_cpu_ops_fill_optim(ls_ops *ops) {
    ops->adamw = adamw;
    ops->sgd = sgd;
    ops->square_sums = square_sums;
    ops->scale = scale;
    ops->set = set;
}
