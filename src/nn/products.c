/* products.c: projections and the gradients of their weights, in the order of rules 1 to 4. */
#include <assert.h>

#include "nn/nn.h"

ls_status ls_nn_project(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias) {
    ls_gemm call = {.form = LS_GEMM_NT, .dtype = LS_F32, .m = ls_nn_rows(nn), .n = w->local_rows, .k = w->columns};
    call.a = x;
    call.lda = w->columns;
    call.b = w->w;
    call.ldb = w->columns;
    call.c = y;
    call.ldc = w->local_rows;
    call.bias = bias ? bias->w : NULL;
    return nn->ops->gemm(nn->device, &call);
}

/* `pieces` cut the whole of W; this worker's are those of its slices. */
static ls_status project_pieces(const ls_nn *nn, float *y, const float *x, const ls_param *w, const ls_param *bias,
                                int pieces) {
    size_t bounds[LS_GEMM_SLICES_MAX + 1], unit = w->rows / w->units;
    int own = pieces / nn->tp_size, first = own * nn->tp_index;
    ls_gemm call = {.form = LS_GEMM_NN, .dtype = LS_F32, .m = ls_nn_rows(nn), .n = w->columns, .k = w->local_rows};
    assert(w->split && pieces <= LS_GEMM_SLICES_MAX);
    for (int i = 0; i <= own; i++) bounds[i] = ls_slice_begin(w->units, pieces, first + i) * unit - w->first_row;
    call.a = x;
    call.lda = w->local_rows;
    call.b = w->w;
    call.ldb = w->columns;
    call.c = ls_nn_partial(nn, y);
    call.ldc = w->columns;
    call.slices = own;
    call.bounds = bounds;
    if (nn->tp_size == 1 && bias) call.bias = bias->w;
    LS_TRY(nn->ops->gemm(nn->device, &call));
    return nn->tp_size > 1 ? ls_nn_join(nn, y, bias) : LS_OK;
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

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

ls_status ls_nn_grad_bias(const ls_nn *nn, ls_param *bias, const float *dy) {
    size_t n = bias->local_rows;
    for (int i = 0; i < nn->nsteps; i++) {
        const ls_grad_step *step = &nn->steps[i];
        ls_token_groups groups = ls_nn_groups(nn, step);
        LS_TRY(nn->ops->bias_grad(nn->device, bias->grad.slot[step->at], dy + step->first * nn->T * n, n, n, &groups));
        LS_TRY(ls_nn_grad_join(nn, &bias->grad, step->at, step->joins, (size_t)nn->S * n));
    }
    return LS_OK;
}

/* Sums over the tokens of the stream: the rows of a gradient that belong to these token slices, and their number. */
typedef struct stream_sums {
    size_t tokens[LS_SLICES_MAX + 1];
    ls_token_groups groups;
    size_t first_row;
} stream_sums;

static void stream_sums_of(const ls_nn *nn, const ls_grad_step *step, stream_sums *sums) {
    sums->groups = ls_nn_groups(nn, step);
    sums->first_row = 0;
    if (!nn->sequence_parallel) return;
    sums->first_row = (size_t)nn->slice0;
    for (int i = 0; i <= nn->slices; i++) sums->tokens[i] = ls_slice_begin(nn->T, nn->S, nn->slice0 + i) - nn->token0;
    sums->groups.T = nn->stream_T;
    sums->groups.slices = nn->slices;
    sums->groups.tokens = sums->tokens;
}

ls_status ls_nn_grad_stream_bias(const ls_nn *nn, ls_param *bias, const float *dy) {
    size_t n = bias->rows;
    for (int i = 0; i < nn->nsteps; i++) {
        const ls_grad_step *step = &nn->steps[i];
        stream_sums sums;
        stream_sums_of(nn, step, &sums);
        LS_TRY(nn->ops->bias_grad(nn->device, bias->grad.slot[step->at] + sums.first_row * n,
                                  dy + step->first * nn->stream_T * n, n, n, &sums.groups));
        LS_TRY(ls_nn_grad_join(nn, &bias->grad, step->at, step->joins, (size_t)nn->S * n));
    }
    return LS_OK;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

static ls_norm_call norm_call(const ls_nn *nn, const float *x, float *stats, const ls_param *w) {
    size_t rows = ls_nn_stream_rows(nn), C = nn->shape->C;
    ls_norm_call call = {.rows = rows, .C = C, .eps = (float)nn->shape->eps, .x = x, .x_stride = C};
    call.w = w->w;
    call.mean = stats;
    call.rstd = stats + rows;
    return call;
}

ls_status ls_nn_norm(const ls_nn *nn, float *y, float *stats, const float *x, const ls_param *w, const ls_param *b) {
    ls_norm_call call = norm_call(nn, x, stats, w);
    call.b = b ? b->w : NULL;
    call.y = y;
    call.y_stride = call.C;
    if (ls_shape_is_llama(nn->shape)) return nn->ops->rms_norm_forward(nn->device, &call);
    return nn->ops->layer_norm_forward(nn->device, &call);
}

ls_status ls_nn_norm_params(const ls_nn *nn, const float *dy, float *stats, const float *x, ls_param *w, ls_param *b) {
    size_t C = nn->shape->C, partial = (size_t)nn->S * C;
    for (int i = 0; i < nn->nsteps; i++) {
        const ls_grad_step *step = &nn->steps[i];
        size_t first = step->first * nn->stream_T;
        stream_sums sums;
        stream_sums_of(nn, step, &sums);
        ls_norm_call call = norm_call(nn, x + first * C, stats, w);
        call.rows = (step->end - step->first) * nn->stream_T;
        call.dy = dy + first * C;
        call.dy_stride = C;
        call.mean += first;
        call.rstd += first;
        call.dw = w->grad.slot[step->at] + sums.first_row * C;
        call.db = b ? b->grad.slot[step->at] + sums.first_row * C : NULL;
        LS_TRY(ls_shape_is_llama(nn->shape) ? nn->ops->rms_norm_params(nn->device, &call, &sums.groups)
                                            : nn->ops->layer_norm_params(nn->device, &call, &sums.groups));
        LS_TRY(ls_nn_grad_join(nn, &w->grad, step->at, step->joins, partial));
        if (b) LS_TRY(ls_nn_grad_join(nn, &b->grad, step->at, step->joins, partial));
    }
    return LS_OK;
}

ls_status ls_nn_norm_backward(const ls_nn *nn, float *dx, const float *dy, float *stats, const float *x,
                              const ls_param *w) {
    ls_norm_call call = norm_call(nn, x, stats, w);
    call.dy = dy;
    call.dy_stride = call.C;
    call.dx = dx;
    call.dx_stride = call.C;
    if (ls_shape_is_llama(nn->shape)) return nn->ops->rms_norm_backward(nn->device, &call);
    return nn->ops->layer_norm_backward(nn->device, &call);
}
