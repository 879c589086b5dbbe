/* matmul.c: projections and the gradients of their weights, in the order of rules 1 to 4. */
#include <assert.h>

#include "base/fault.h"
#include "nn/nn.h"

/* Returns an empty matmul call of this form with the policy's types. */
static ls_gemm product_of(const ls_nn *nn, ls_gemm_form form) {
    return (ls_gemm){.form = form, .dtype = nn->policy.act, .unit = nn->policy.unit};
}

/* Returns the call for y = x·Wᵀ + bias, with y of type `dtype` and `y_stride` elements from row to row. */
static ls_gemm projection(const ls_nn *nn, void *y, size_t y_stride, ls_dtype dtype, const void *x, const ls_param *w,
                          const ls_param *bias) {
    ls_gemm call = product_of(nn, LS_GEMM_NT);
    call.m = ls_nn_rows(nn);
    call.n = w->local_rows;
    call.k = w->columns;
    call.a = x;
    call.lda = w->columns;
    call.b = ls_nn_weight(nn, w);
    call.ldb = w->columns;
    call.c = y;
    call.c_dtype = dtype;
    call.ldc = y_stride;
    call.bias = bias ? bias->w : NULL;
    return call;
}

/* Runs y = x·Wᵀ + bias (NULL: none) and then shows y to the observer, if there is one. The observer also reads the
 * columns between the rows of w and y_stride; so, if there is an observer, all of y is set to 0 before the matmul. */
static ls_status project(const ls_nn *nn, void *y, size_t y_stride, ls_dtype dtype, const void *x, const ls_param *w,
                         const ls_param *bias) {
    ls_gemm call = projection(nn, y, y_stride, dtype, x, w, bias);
    if (nn->made.take && y_stride > call.n)
        LS_TRY(ls_device_fill(nn->device, y, 0, call.m * y_stride * ls_dtype_bytes(dtype)));
    LS_TRY(nn->ops->gemm(nn->device, &call));
    ls_fault_at(nn->device, LS_FAULT_PRODUCT, w->name, -1, y, call.m * call.n, ls_dtype_bytes(dtype));
    return ls_nn_made(nn, y, dtype, call.m * y_stride);
}

ls_status ls_nn_project(const ls_nn *nn, void *y, const void *x, const ls_param *w, const ls_param *bias) {
    return project(nn, y, w->local_rows, nn->policy.act, x, w, bias);
}

/* Returns whether the device runs the matmul with its epilogue as one fused operation. False with an observer or a
 * planted fault, because both need the result of the matmul before the epilogue. */
static bool ends_at_once(const ls_nn *nn, const ls_gemm *call) {
    return !nn->made.take && !ls_fault_spoil && nn->ops->gemm_ends(nn->device, call);
}

ls_status ls_nn_project_gelu(const ls_nn *nn, void *pre, void *y, const void *x, const ls_param *w,
                             const ls_param *bias) {
    size_t rows = ls_nn_rows(nn), n = w->local_rows;
    ls_gemm call = projection(nn, pre, n, nn->policy.act, x, w, bias);
    call.end = LS_GEMM_GELU;
    call.y = y;
    if (ends_at_once(nn, &call)) return nn->ops->gemm(nn->device, &call);
    if (!bias || ls_policy_is_16(&nn->policy)) {
        LS_TRY(ls_nn_project(nn, pre, x, w, bias));
        return nn->ops->act_forward(nn->device, &(ls_act_call){LS_ACT_GELU, y, NULL, pre, nn->policy.act, rows * n});
    }
    /* Bias and GELU in one pass over memory. */
    LS_TRY(ls_nn_project(nn, pre, x, w, NULL));
    return nn->ops->bias_gelu_forward(nn->device, &(ls_bias_gelu_call){.rows = rows,
                                                                       .columns = n,
                                                                       .c = pre,
                                                                       .c_stride = n,
                                                                       .bias = bias->w,
                                                                       .pre = pre,
                                                                       .pre_stride = n,
                                                                       .y = y,
                                                                       .y_stride = n});
}

ls_status ls_nn_project_gated(const ls_nn *nn, void *pre, void *y, size_t gate, const void *x, const ls_param *w,
                              bool *is_done) {
    ls_gemm call = projection(nn, pre, w->local_rows, nn->policy.act, x, w, NULL);
    call.end = LS_GEMM_GATED;
    call.y = y;
    call.gate = gate;
    *is_done = ends_at_once(nn, &call);
    return *is_done ? nn->ops->gemm(nn->device, &call) : LS_OK;
}

ls_status ls_nn_project_gelu_grad(const ls_nn *nn, void *dpre, void *y, const void *pre, const void *x,
                                  const ls_param *w) {
    size_t elems = ls_nn_rows(nn) * w->local_rows;
    ls_gemm call = projection(nn, dpre, w->local_rows, nn->policy.act, x, w, NULL);
    call.end = LS_GEMM_GELU_GRAD;
    call.y = y;
    call.pre = pre;
    if (ends_at_once(nn, &call)) return nn->ops->gemm(nn->device, &call);
    LS_TRY(ls_nn_project(nn, dpre, x, w, NULL));
    LS_TRY(nn->ops->act_backward(nn->device, &(ls_act_call){LS_ACT_GELU, dpre, dpre, pre, nn->policy.act, elems}));
    if (!y) return LS_OK;
    return nn->ops->act_forward(nn->device, &(ls_act_call){LS_ACT_GELU, y, NULL, pre, nn->policy.act, elems});
}

ls_status ls_nn_project_gated_grad(const ls_nn *nn, void *dpre, void *y, const void *pre, size_t gate, const void *x,
                                   const ls_param *w, bool *is_done) {
    ls_gemm call = projection(nn, dpre, 2 * w->local_rows, nn->policy.act, x, w, NULL);
    call.end = LS_GEMM_GATED_GRAD;
    call.y = y;
    call.pre = pre;
    call.gate = gate;
    *is_done = ends_at_once(nn, &call);
    return *is_done ? nn->ops->gemm(nn->device, &call) : LS_OK;
}

ls_status ls_nn_logits(const ls_nn *nn, void *y, const void *x, const ls_param *table) {
    return project(nn, y, nn->own.logits, ls_nn_logits_dtype(nn), x, table, NULL);
}

/* Computes x·W for this worker's slices, and sums over the TP group. `pieces` is how many pieces the whole of W is
 * cut into: each is summed by itself, and the tree adds them. */
static ls_status project_pieces(const ls_nn *nn, void *y, const void *x, size_t x_stride, const ls_param *w,
                                const ls_param *bias, int pieces) {
    size_t bounds[LS_GEMM_SLICES_MAX + 1];
    int own = pieces / nn->tp.size, first = own * nn->tp.index;
    bool alone = nn->tp.size == 1;
    ls_gemm call = product_of(nn, LS_GEMM_NN);
    assert(w->split && pieces <= LS_GEMM_SLICES_MAX);
    for (int i = 0; i <= own; i++) bounds[i] = ls_param_slice_row(w, pieces, first + i) - w->first_row;
    call.m = ls_nn_rows(nn);
    call.n = w->columns;
    call.k = w->local_rows;
    call.a = x;
    call.lda = x_stride;
    call.b = ls_nn_weight(nn, w);
    call.ldb = w->columns;
    call.c = alone ? y : ls_nn_partial(nn, y, nn->policy.act);
    call.c_dtype = alone ? nn->policy.act : LS_F32;
    call.ldc = w->columns;
    call.slices = own;
    call.bounds = bounds;
    if (alone && bias) call.bias = bias->w;
    LS_TRY(nn->ops->gemm(nn->device, &call));
    ls_fault_at(nn->device, LS_FAULT_PRODUCT, w->name, -1, call.c, call.m * call.n, ls_dtype_bytes(call.c_dtype));
    LS_TRY(ls_nn_made(nn, call.c, call.c_dtype, call.m * call.n));
    return alone ? LS_OK : ls_nn_join(nn, y, nn->policy.act, bias);
}

ls_status ls_nn_project_sliced(const ls_nn *nn, void *y, const void *x, const ls_param *w, const ls_param *bias) {
    return project_pieces(nn, y, x, w->local_rows, w, bias, nn->S);
}

ls_status ls_nn_project_vocabulary(const ls_nn *nn, void *y, const void *x, size_t x_stride, const ls_param *table) {
    int pieces = nn->S;
    while (!ls_unit_is_tensor_core(nn->policy.unit) && 2 * pieces <= LS_GEMM_SLICES_MAX &&
           table->rows / (size_t)pieces > LS_NN_VOCABULARY_PIECE)
        pieces *= 2;
    return project_pieces(nn, y, x, x_stride, table, NULL, pieces);
}

ls_status ls_nn_project_back(const ls_nn *nn, float *dx, const float *dy, const ls_param *w) {
    ls_gemm call = product_of(nn, LS_GEMM_NN);
    assert(!w->split);
    call.m = ls_nn_rows(nn);
    call.n = call.ldb = call.ldc = w->columns;
    call.k = call.lda = w->rows;
    call.a = dy;
    call.b = w->w;
    call.c = dx;
    LS_TRY(nn->ops->gemm(nn->device, &call));
    ls_fault_at(nn->device, LS_FAULT_PRODUCT, w->name, -1, dx, call.m * call.n, sizeof *dx);
    return ls_nn_made(nn, dx, LS_F32, call.m * call.n);
}

/* ---- gradients of matrices --------------------------------------------------------------------------------------- */

ls_status ls_nn_grad_join(const ls_nn *nn, const ls_grad *grad, int at, int joins, size_t elems) {
    for (int i = 0; i < joins; i++) {
        float *left = grad->slot[at - i - 1];
        LS_TRY(nn->ops->add(nn->device, &(ls_add_call){left, left, grad->slot[at - i], LS_F32, elems}));
    }
    return LS_OK;
}

ls_status ls_nn_grad_end(const ls_nn *nn, const ls_param *param, const ls_grad *grad, const ls_grad_step *step,
                         size_t elems) {
    const ls_policy *policy = &nn->policy;
    float *leaf = grad->slot[step->at];
    bool ends = nn->grads.leaves && step->ends;
    if (policy->accumulate != LS_F32)
        LS_TRY(nn->ops->round(nn->device, &(ls_round_call){leaf, leaf, policy->accumulate, elems}));
    if (ends && nn->grads.absent && nn->grads.absent[step->group])
        LS_TRY(nn->ops->set(nn->device, &(ls_set_call){leaf, -0.0F, elems}));
    if (ends && policy->reduce != LS_F32)
        LS_TRY(nn->ops->round(nn->device, &(ls_round_call){leaf, leaf, policy->reduce, elems}));
    if (ends) ls_fault_at(nn->device, LS_FAULT_LEAF, param->name, -1, leaf, elems, sizeof *leaf);
    if (ends && nn->grads.watch.leaf)
        LS_TRY(nn->grads.watch.leaf(nn->grads.watch.ctx, param, grad == &param->lookup, step->group, leaf, elems));
    return ls_nn_grad_join(nn, grad, step->at, step->joins, elems);
}

/* Runs one step of a weight gradient: `call` has the operands; adds the tokens of the step's groups, and joins the sum
 * to the slots below: in the matmul itself, as siblings, unless leaves are wanted or the step continues a group. */
static ls_status matrix_step(const ls_nn *nn, const ls_param *w, const ls_grad_step *step, ls_gemm call) {
    const ls_grad *grad = &w->grad;
    size_t tokens[LS_GRAD_GROUPS_MAX + 1];
    for (int i = 0; i <= step->groups; i++) tokens[i] = step->bounds[i] * nn->rows.T;
    call.k = tokens[step->groups];
    call.slices = step->groups;
    call.bounds = tokens;
    call.period = nn->rows.T;
    if (nn->grads.leaves || step->accumulate) {
        call.accumulate = step->accumulate;
        call.c = grad->slot[step->at];
        LS_TRY(nn->ops->gemm(nn->device, &call));
        return ls_nn_grad_end(nn, w, grad, step, call.m * call.n);
    }
    call.c = grad->slot[step->at - step->joins];
    call.siblings = step->joins;
    call.ldsibling = call.n;
    for (int i = 0; i < step->joins; i++) call.sibling[i] = grad->slot[step->at - i - 1];
    return nn->ops->gemm(nn->device, &call);
}

ls_status ls_nn_grad_matrix(const ls_nn *nn, const ls_param *w, const void *a, size_t m, size_t a_stride, const void *b,
                            size_t n) {
    for (int i = 0; i < nn->grads.nsteps; i++) {
        const ls_grad_step *step = &nn->grads.steps[i];
        ls_gemm call = product_of(nn, LS_GEMM_TN);
        call.m = m;
        call.n = n;
        call.a = ls_nn_from(nn, a, step->first * nn->rows.T * a_stride);
        call.lda = a_stride;
        call.b = ls_nn_from(nn, b, step->first * nn->rows.T * n);
        call.ldb = n;
        call.ldc = n;
        LS_TRY(matrix_step(nn, w, step, call));
    }
    return LS_OK;
}

ls_token_groups ls_nn_groups(const ls_nn *nn, const ls_grad_step *step) {
    return (ls_token_groups){.T = nn->rows.T,
                             .slices = nn->S,
                             .groups = step->groups,
                             .bounds = step->bounds,
                             .block = ls_unit_is_tensor_core(nn->policy.unit) ? LS_NN_TOKEN_BLOCK : 0,
                             .accumulate = step->accumulate};
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

ls_status ls_nn_grad_bias(const ls_nn *nn, ls_param *bias, const void *dy) {
    size_t n = bias->local_rows;
    for (int i = 0; i < nn->grads.nsteps; i++) {
        const ls_grad_step *step = &nn->grads.steps[i];
        ls_token_groups groups = ls_nn_groups(nn, step);
        LS_TRY(nn->ops->bias_grad(nn->device, &(ls_bias_grad_call){bias->grad.slot[step->at],
                                                                   ls_nn_from(nn, dy, step->first * nn->rows.T * n),
                                                                   nn->policy.act, n, n, &groups}));
        LS_TRY(ls_nn_grad_end(nn, bias, &bias->grad, step, ls_grad_rows_elems(ls_nn_grad_rows(nn, bias))));
    }
    return LS_OK;
}

/* What a kernel that sums over the tokens of the residual stream needs: the division of tokens, and the rows of the
 * gradient (one for each slice) that this worker computes. */
typedef struct stream_sums {
    size_t tokens[LS_SLICES_MAX + 1];
    ls_token_groups groups;
    ls_grad_rows rows;
} stream_sums;

/* Fills *sums for a step. With sequence parallelism the worker sums the tokens of its own slices only. */
static void stream_sums_of(const ls_nn *nn, const ls_param *param, const ls_grad_step *step, stream_sums *sums) {
    sums->groups = ls_nn_groups(nn, step);
    sums->rows = ls_nn_grad_rows(nn, param);
    if (sums->rows.count == sums->rows.all) return;
    for (int i = 0; i <= nn->slices; i++)
        sums->tokens[i] = ls_slice_begin(nn->rows.T, nn->S, nn->slice0 + i) - nn->rows.token0;
    sums->groups.T = nn->rows.stream_T;
    sums->groups.slices = nn->slices;
    sums->groups.tokens = sums->tokens;
}

/* Returns the first row of the slot that this worker computes. */
static float *first_sum(const ls_param *param, const ls_grad_step *step, const stream_sums *sums) {
    return param->grad.slot[step->at] + sums->rows.first * sums->rows.elems;
}

ls_status ls_nn_grad_stream_bias(const ls_nn *nn, ls_param *bias, const void *dy) {
    size_t n = bias->rows;
    for (int i = 0; i < nn->grads.nsteps; i++) {
        const ls_grad_step *step = &nn->grads.steps[i];
        stream_sums sums;
        stream_sums_of(nn, bias, step, &sums);
        LS_TRY(
            nn->ops->bias_grad(nn->device, &(ls_bias_grad_call){first_sum(bias, step, &sums),
                                                                ls_nn_from(nn, dy, step->first * nn->rows.stream_T * n),
                                                                nn->policy.act, n, n, &sums.groups}));
        LS_TRY(ls_nn_grad_end(nn, bias, &bias->grad, step, ls_grad_rows_elems(sums.rows)));
    }
    return LS_OK;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* Returns the call for the norm of the shape over the rows of the stream; stats are [mean | rstd]. */
static ls_norm_call norm_call(const ls_nn *nn, const float *x, float *stats, const ls_param *w) {
    size_t rows = ls_nn_stream_rows(nn), C = nn->shape->C;
    ls_norm_call call = {.rows = rows, .C = C, .act = nn->policy.act, .eps = (float)nn->shape->eps, .x = x};
    call.rms = ls_shape_has_rms_norm(nn->shape);
    call.x_stride = C;
    call.w = w->w;
    call.mean = stats;
    call.rstd = stats + rows;
    return call;
}

ls_status ls_nn_sum_norm(const ls_nn *nn, void *y, float *stats, const float *x, const void *branch,
                         const ls_drop *drop, float *sum, const ls_param *w, const ls_param *b) {
    ls_norm_call call = norm_call(nn, x, stats, w);
    if (drop) call.drop = *drop;
    call.branch = branch;
    call.sum = sum;
    call.b = b ? b->w : NULL;
    call.y = y;
    call.y_stride = call.C;
    return nn->ops->norm_forward(nn->device, &call);
}

ls_status ls_nn_norm(const ls_nn *nn, void *y, float *stats, const float *x, const ls_param *w, const ls_param *b) {
    return ls_nn_sum_norm(nn, y, stats, x, NULL, NULL, NULL, w, b);
}

ls_status ls_nn_norm_params(const ls_nn *nn, const void *dy, float *stats, const float *x, ls_param *w, ls_param *b) {
    size_t C = nn->shape->C;
    for (int i = 0; i < nn->grads.nsteps; i++) {
        const ls_grad_step *step = &nn->grads.steps[i];
        size_t first = step->first * nn->rows.stream_T;
        stream_sums sums;
        stream_sums_of(nn, w, step, &sums);
        ls_norm_call call = norm_call(nn, x + first * C, stats, w);
        call.rows = (step->end - step->first) * nn->rows.stream_T;
        call.dy = ls_nn_from(nn, dy, first * C);
        call.dy_stride = C;
        call.mean += first;
        call.rstd += first;
        call.dw = first_sum(w, step, &sums);
        call.db = b ? first_sum(b, step, &sums) : NULL;
        call.groups = &sums.groups;
        LS_TRY(nn->ops->norm_params(nn->device, &call));
        LS_TRY(ls_nn_grad_end(nn, w, &w->grad, step, ls_grad_rows_elems(sums.rows)));
        if (b) LS_TRY(ls_nn_grad_end(nn, b, &b->grad, step, ls_grad_rows_elems(sums.rows)));
    }
    return LS_OK;
}

/* Computes dx of the rows of a step, and the step of the gradients of w, b and the bias of the stream. */
static ls_status norm_backward_step(const ls_nn *nn, const ls_grad_step *step, ls_norm_call call, ls_param *w,
                                    const ls_nn_norm_more *more) {
    ls_param *const params[] = {w, more->b, more->bias};
    float **const grads[] = {&call.dw, &call.db, &call.dx_sums};
    size_t first = step->first * nn->rows.stream_T, at = first * call.C;
    stream_sums sums;
    stream_sums_of(nn, w, step, &sums);
    call.rows = (step->end - step->first) * nn->rows.stream_T;
    call.x += at;
    call.mean += first;
    call.rstd += first;
    call.dx += at;
    call.drop.first += step->first * nn->rows.T;
    call.dy = ls_nn_from(nn, call.dy, at);
    if (call.branch) call.branch = ls_nn_from(nn, call.branch, at), call.sum += at;
    if (call.dx_copy) call.dx_copy = ls_nn_at(nn, call.dx_copy, at);
    if (call.y) call.y = ls_nn_at(nn, call.y, at);
    call.params = true;
    call.groups = &sums.groups;
    for (int i = 0; i < 3; i++)
        if (params[i]) *grads[i] = first_sum(params[i], step, &sums);
    LS_TRY(nn->ops->norm_backward(nn->device, &call));
    for (int i = 0; i < 3; i++)
        if (params[i]) LS_TRY(ls_nn_grad_end(nn, params[i], &params[i]->grad, step, ls_grad_rows_elems(sums.rows)));
    return LS_OK;
}

ls_status ls_nn_norm_backward(const ls_nn *nn, float *dx, const void *dy, float *stats, const float *x, ls_param *w,
                              const ls_nn_norm_more *more) {
    ls_norm_call call = norm_call(nn, x, stats, w);
    call.dy = dy;
    call.dx = dx;
    call.dy_stride = call.dx_stride = call.y_stride = call.C;
    call.add = more->add;
    call.dx_copy = more->copy;
    call.remake = more->y != NULL;
    call.y = more->y;
    call.b = more->b ? more->b->w : NULL;
    call.drop = more->drop;
    if (!more->params) return nn->ops->norm_backward(nn->device, &call);
    call.branch = more->branch;
    call.sum = more->sum;
    for (int i = 0; i < nn->grads.nsteps; i++) LS_TRY(norm_backward_step(nn, &nn->grads.steps[i], call, w, more));
    return LS_OK;
}
