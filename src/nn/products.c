/* products.c: projections and the gradients of their weights, in the order of rules 1 to 4. */
#include <assert.h>

#include "nn/nn.h"

void ls_nn_bounds(const ls_nn *nn, size_t units, size_t unit, size_t bounds[LS_SLICES_MAX + 1]) {
    for (int i = 0; i <= nn->S; i++) bounds[i] = ls_slice_begin(units, nn->S, i) * unit;
}

ls_status ls_nn_project(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias) {
    ls_gemm call = {.form = LS_GEMM_NT, .dtype = LS_F32, .m = ls_nn_rows(nn), .n = w->rows, .k = w->columns};
    call.a = x;
    call.lda = w->columns;
    call.b = w->w;
    call.ldb = w->columns;
    call.c = y;
    call.ldc = w->rows;
    call.bias = bias ? bias->w : NULL;
    return nn->ops->gemm(nn->device, &call);
}

static ls_status project_pieces(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias,
                                int pieces) {
    size_t bounds[LS_GEMM_SLICES_MAX + 1], unit = w->rows / w->units;
    ls_gemm call = {.form = LS_GEMM_NN, .dtype = LS_F32, .m = ls_nn_rows(nn), .n = w->columns, .k = w->rows};
    assert(w->split && pieces <= LS_GEMM_SLICES_MAX);
    for (int i = 0; i <= pieces; i++) bounds[i] = ls_slice_begin(w->units, pieces, i) * unit;
    call.a = x;
    call.lda = w->rows;
    call.b = w->w;
    call.ldb = w->columns;
    call.c = y;
    call.ldc = w->columns;
    call.slices = pieces;
    call.bounds = bounds;
    call.bias = bias ? bias->w : NULL;
    return nn->ops->gemm(nn->device, &call);
}

ls_status ls_nn_project_sliced(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias) {
    return project_pieces(nn, y, x, w, bias, nn->S);
}

ls_status ls_nn_project_vocabulary(const ls_nn *nn, float *y, const float *x, const ls_param *table) {
    int pieces = nn->S;
    while (2 * pieces <= LS_GEMM_SLICES_MAX && table->rows / (size_t)pieces > LS_NN_VOCABULARY_PIECE) pieces *= 2;
    return project_pieces(nn, y, x, table, NULL, pieces);
}

ls_status ls_nn_grad_join(const ls_nn *nn, const ls_grad *grad, int at, int joins, size_t elems) {
    for (int i = 0; i < joins; i++) {
        float *left = grad->slot[at - i - 1];
        LS_TRY(nn->ops->add(nn->device, left, left, grad->slot[at - i], elems));
    }
    return LS_OK;
}

static ls_status matrix_step(const ls_nn *nn, const ls_grad *grad, const ls_grad_step *step, ls_gemm call) {
    size_t tokens[LS_GRAD_GROUPS_MAX + 1];
    for (int i = 0; i <= step->groups; i++) tokens[i] = step->bounds[i] * nn->T;
    call.k = tokens[step->groups];
    call.slices = step->groups;
    call.bounds = tokens;
    if (step->accumulate) {
        call.accumulate = true;
        call.c = grad->slot[step->at];
        LS_TRY(nn->ops->gemm(nn->device, &call));
        return ls_nn_grad_join(nn, grad, step->at, step->joins, call.m * call.n);
    }
    call.c = grad->slot[step->at - step->joins];
    call.siblings = step->joins;
    call.ldsibling = call.n;
    for (int i = 0; i < step->joins; i++) call.sibling[i] = grad->slot[step->at - i - 1];
    return nn->ops->gemm(nn->device, &call);
}

ls_status ls_nn_grad_matrix(const ls_nn *nn, const ls_grad *grad, const float *a, size_t m, const float *b, size_t n) {
    for (int i = 0; i < nn->nsteps; i++) {
        const ls_grad_step *step = &nn->steps[i];
        ls_gemm call = {.form = LS_GEMM_TN, .dtype = LS_F32, .m = m, .n = n};
        call.a = a + step->first * nn->T * m;
        call.lda = m;
        call.b = b + step->first * nn->T * n;
        call.ldb = n;
        call.ldc = n;
        LS_TRY(matrix_step(nn, grad, step, call));
    }
    return LS_OK;
}

ls_token_groups ls_nn_groups(const ls_nn *nn, const ls_grad_step *step) {
    return (ls_token_groups){
        .T = nn->T, .slices = nn->S, .groups = step->groups, .bounds = step->bounds, .accumulate = step->accumulate};
}

ls_status ls_nn_grad_bias(const ls_nn *nn, ls_param *bias, const float *dy) {
    size_t n = bias->rows;
    for (int i = 0; i < nn->nsteps; i++) {
        const ls_grad_step *step = &nn->steps[i];
        ls_token_groups groups = ls_nn_groups(nn, step);
        LS_TRY(nn->ops->bias_grad(nn->device, bias->grad.slot[step->at], dy + step->first * nn->T * n, n, n, &groups));
        LS_TRY(ls_nn_grad_join(nn, &bias->grad, step->at, step->joins, (size_t)nn->S * n));
    }
    return LS_OK;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

static ls_norm_call norm_call(const ls_nn *nn, const float *x, float *stats, const ls_param *w, const ls_param *b) {
    size_t rows = ls_nn_rows(nn), C = nn->shape->C;
    ls_norm_call call = {.rows = rows, .C = C, .eps = (float)nn->shape->eps, .x = x, .x_stride = C};
    call.w = w->w;
    call.b = b ? b->w : NULL;
    call.mean = stats;
    call.rstd = stats + rows;
    return call;
}

ls_status ls_nn_norm(const ls_nn *nn, float *y, float *stats, const float *x, const ls_param *w, const ls_param *b) {
    ls_norm_call call = norm_call(nn, x, stats, w, b);
    call.y = y;
    call.y_stride = call.C;
    if (ls_shape_is_llama(nn->shape)) return nn->ops->rms_norm_forward(nn->device, &call);
    return nn->ops->layer_norm_forward(nn->device, &call);
}

static ls_status norm_params(const ls_nn *nn, const ls_norm_call *whole, ls_param *w, ls_param *b) {
    size_t partial = (size_t)nn->S * whole->C;
    for (int i = 0; i < nn->nsteps; i++) {
        const ls_grad_step *step = &nn->steps[i];
        size_t first = step->first * nn->T;
        ls_token_groups groups = ls_nn_groups(nn, step);
        ls_norm_call call = *whole;
        call.rows = (step->end - step->first) * nn->T;
        call.x += first * call.x_stride;
        call.dy += first * call.dy_stride;
        call.mean += first;
        call.rstd += first;
        call.dw = w->grad.slot[step->at];
        call.db = b ? b->grad.slot[step->at] : NULL;
        LS_TRY(ls_shape_is_llama(nn->shape) ? nn->ops->rms_norm_params(nn->device, &call, &groups)
                                            : nn->ops->layer_norm_params(nn->device, &call, &groups));
        LS_TRY(ls_nn_grad_join(nn, &w->grad, step->at, step->joins, partial));
        if (b) LS_TRY(ls_nn_grad_join(nn, &b->grad, step->at, step->joins, partial));
    }
    return LS_OK;
}

ls_status ls_nn_norm_backward(const ls_nn *nn, float *dx, const float *dy, float *stats, const float *x, ls_param *w,
                              ls_param *b) {
    ls_norm_call call = norm_call(nn, x, stats, w, b);
    call.dy = dy;
    call.dy_stride = call.C;
    LS_TRY(norm_params(nn, &call, w, b));
    call.dx = dx;
    call.dx_stride = call.C;
    if (ls_shape_is_llama(nn->shape)) return nn->ops->rms_norm_backward(nn->device, &call);
    return nn->ops->layer_norm_backward(nn->device, &call);
}
