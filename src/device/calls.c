/* calls.c: checks of the arguments of operations, and calls for a part of the rows. */
#include "device/calls.h"

#include "device/dtype.h"

const char *const ls_gemm_form_names[LS_GEMM_FORMS] = {[LS_GEMM_NN] = "NN", [LS_GEMM_NT] = "NT", [LS_GEMM_TN] = "TN"};
const char *const ls_act_fn_names[LS_ACT_FNS] = {
    [LS_ACT_GELU] = "GELU", [LS_ACT_SILU] = "SiLU", [LS_ACT_RELU] = "ReLU", [LS_ACT_SIGMOID] = "sigmoid"};

ls_status ls_window_check(const ls_window *w, size_t height, size_t width) {
    const size_t numbers[] = {height, width, w->kernel_y, w->kernel_x, w->stride_y, w->stride_x};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] < 1 || numbers[i] > LS_SIDE_MAX)
            return ls_fail(LS_ERR_INPUT,
                           "windows of %zu × %zu pixels with stride %zu × %zu over images of %zu × %zu: each must be "
                           "between 1 and %d",
                           w->kernel_y, w->kernel_x, w->stride_y, w->stride_x, height, width, LS_SIDE_MAX);
    if (w->pad_y > LS_SIDE_MAX || w->pad_x > LS_SIDE_MAX)
        return ls_fail(LS_ERR_INPUT, "padding of %zu × %zu pixels exceeds the maximum of %d", w->pad_y, w->pad_x,
                       LS_SIDE_MAX);
    if (ls_window_rows(w, height) < 1 || ls_window_columns(w, width) < 1)
        return ls_fail(
            LS_ERR_INPUT,
            "a window of %zu × %zu pixels does not fit into an image of %zu × %zu padded by %zu × %zu; use a "
            "smaller kernel, more padding or larger images",
            w->kernel_y, w->kernel_x, height, width, w->pad_y, w->pad_x);
    return LS_OK;
}

/* Returns whether the type is fp32, bf16 or fp16. */
static bool is_float(ls_dtype dtype) { return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16; }

ls_status ls_gemm_check(const ls_gemm *g) {
    if (!is_float(g->dtype) || !is_float(g->c_dtype))
        return ls_fail(LS_ERR_INPUT,
                       "a matmul has operands of type %d and a result of type %d; both must be fp32, bf16 or fp16",
                       (int)g->dtype, (int)g->c_dtype);
    if (g->c_dtype != LS_F32 && (g->accumulate || g->siblings > 0))
        return ls_fail(LS_ERR_INPUT,
                       "a matmul that accumulates needs an fp32 result; a 16-bit result is rounded once, at the end");
    if ((g->patches || g->b_rows || g->c_rows) && (g->dtype != LS_F32 || g->c_dtype != LS_F32))
        return ls_fail(LS_ERR_INPUT, "a convolution has operands of type %d and a result of type %d; both must be fp32",
                       (int)g->dtype, (int)g->c_dtype);
    if (g->b_rows && g->form != LS_GEMM_NN)
        return ls_fail(LS_ERR_INPUT, "a matmul of form %d has strided rows of B, which only form NN supports",
                       (int)g->form);
    if (g->c_rows && (g->accumulate || g->siblings > 0))
        return ls_fail(LS_ERR_INPUT, "a matmul with strided result rows cannot accumulate; use a contiguous tensor");
    if (g->end && g->c_dtype == LS_F32)
        return ls_fail(LS_ERR_INPUT, "a matmul into fp32 cannot end with an activation; call the activation itself");
    if (g->unit == LS_UNIT_CHAIN) return LS_OK;
    if (!ls_unit_takes(g->unit, g->dtype))
        return ls_fail(LS_ERR_INPUT, "matrix unit %s multiplies bf16 only; use bf16, or unit chain",
                       ls_unit_name(g->unit));
    return ls_unit_check(g->unit);
}

ls_status ls_check_float(const char *what, ls_dtype dtype) {
    if (dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s: elements of type %s are not supported; use f32, bf16 or f16", what,
                   ls_dtype_name(dtype));
}

ls_status ls_check_half(const char *what, ls_dtype dtype) {
    if (dtype == LS_BF16 || dtype == LS_F16) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s to %s is not supported; use bf16 or f16", what, ls_dtype_name(dtype));
}

ls_status ls_check_loss(const ls_loss_call *call) {
    LS_TRY(ls_check_float("the logits of a loss", call->z_dtype));
    if (!call->dz) return LS_OK;
    LS_TRY(ls_check_float("the gradient of a loss", call->dz_dtype));
    if (call->z_dtype == LS_F32 || call->z_dtype == call->dz_dtype) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the gradient of %s logits in %s: it must have their type",
                   ls_dtype_name(call->z_dtype), ls_dtype_name(call->dz_dtype));
}

ls_status ls_check_leaves(int leaves) {
    if (leaves >= 1 && leaves <= LS_GROUPS_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "a sum of %d contributions: must be between 1 and %d", leaves, LS_GROUPS_MAX);
}

ls_status ls_check_update(const ls_update_call *call) {
    for (int i = 0; i < call->count; i++)
        if (call->pieces[i].copy) LS_TRY(ls_check_half("a copy of weights", call->pieces[i].copy_dtype));
    return LS_OK;
}

/* Writes one state piece for elements begin … end−1 of w and of each moment; returns how many. None if `sums` is NULL.
 */
static int add_state_pieces(const ls_update_piece *piece, ls_hash128 *sums, size_t begin, size_t end,
                            ls_state_piece *out) {
    const ls_update_sums *s = &piece->sums;
    const float *tensors[LS_STATE_TENSORS] = {piece->w};
    int count = 0;
    if (!sums || begin >= end) return 0;
    for (int i = 0; i < LS_MOMENTS_MAX; i++) tensors[i + 1] = piece->moment[i];
    for (int t = 0; t < LS_STATE_TENSORS; t++)
        if (tensors[t])
            out[count++] = (ls_state_piece){.out = sums + t,
                                            .x = tensors[t] + begin,
                                            .tensor = s->tensor + (uint64_t)t,
                                            .first = s->first + begin,
                                            .n = end - begin};
    return count;
}

/* Returns x, limited to low … high. */
static size_t clamp(size_t x, size_t low, size_t high) { return x < low ? low : x > high ? high : x; }

int ls_update_state_pieces(const ls_update_piece *piece, size_t begin, size_t end,
                           ls_state_piece out[LS_UPDATE_STATE_MAX]) {
    const ls_update_sums *s = &piece->sums;
    size_t first = clamp(s->begin, begin, end), last = clamp(s->end, first, end);
    int count = add_state_pieces(piece, s->rest, begin, first, out);
    count += add_state_pieces(piece, s->once, first, last, out + count);
    return count + add_state_pieces(piece, s->rest, last, end, out + count);
}

ls_status ls_token_groups_check(const ls_token_groups *groups) {
    if (groups->groups < 1 || groups->groups > LS_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "a sum over %d groups; the number of groups must be between 1 and %d",
                       groups->groups, LS_GROUPS_MAX);
    if (groups->T < 1 || groups->slices < 1)
        return ls_fail(LS_ERR_INPUT, "a sum over sequences of %zu tokens in %d slices: both must be at least 1",
                       groups->T, groups->slices);
    if (groups->accumulate && groups->groups > 1)
        return ls_fail(LS_ERR_INPUT,
                       "a call that accumulates onto the previous call's sum must hold 1 group, not %d; make one call "
                       "per group",
                       groups->groups);
    for (int i = 0; groups->tokens && i < groups->slices; i++)
        if (groups->tokens[0] != 0 || groups->tokens[i + 1] < groups->tokens[i] || groups->tokens[i + 1] > groups->T)
            return ls_fail(LS_ERR_INPUT, "slice %d covers tokens %zu to %zu of %zu; slices must start at 0 and ascend",
                           i, groups->tokens[i], groups->tokens[i + 1], groups->T);
    for (int g = 0; g < groups->groups; g++)
        if (groups->bounds[0] != 0 || groups->bounds[g + 1] < groups->bounds[g])
            return ls_fail(LS_ERR_INPUT, "group %d covers sequences %zu to %zu; bounds must start at 0 and ascend", g,
                           groups->bounds[g], groups->bounds[g + 1]);
    return LS_OK;
}

ls_status ls_token_groups_check_rows(const ls_token_groups *groups, size_t rows) {
    LS_TRY(ls_token_groups_check(groups));
    size_t sequences = groups->bounds[groups->groups];
    if (sequences > SIZE_MAX / groups->T || sequences * groups->T != rows)
        return ls_fail(LS_ERR_INPUT, "%zu sequences of %zu tokens do not match the %zu rows of the call", sequences,
                       groups->T, rows);
    return LS_OK;
}

ls_status ls_pooling_check(const ls_pooling_call *c) {
    const ls_window *w = &c->window;
    LS_TRY(ls_window_check(w, c->height, c->width));
    if (w->pad_y >= w->kernel_y || w->pad_x >= w->kernel_x)
        return ls_fail(LS_ERR_INPUT,
                       "pooling with windows of %zu × %zu pixels and padding %zu × %zu; use less padding, so that each "
                       "window covers a pixel",
                       w->kernel_y, w->kernel_x, w->pad_y, w->pad_x);
    if (c->channels < 1 || c->channels > LS_SIDE_MAX)
        return ls_fail(LS_ERR_INPUT, "pooling over images of %zu channels; must be between 1 and %d", c->channels,
                       LS_SIDE_MAX);
    if (w->kernel_y * w->kernel_x > INT32_MAX)
        return ls_fail(LS_ERR_INPUT, "pooling windows of %zu × %zu pixels are too large; use smaller ones", w->kernel_y,
                       w->kernel_x);
    return LS_OK;
}

ls_status ls_batch_norm_check(const ls_batch_norm_call *c) {
    if (c->ghost < 1 || c->pixels < 1 || c->channels < 1 || c->images % c->ghost != 0)
        return ls_fail(LS_ERR_INPUT,
                       "batch norm over %zu images of %zu pixels and %zu channels in ghost batches of %zu; all must be "
                       "at least 1, and the images a whole number of ghost batches",
                       c->images, c->pixels, c->channels, c->ghost);
    if (c->count < 0 || c->count > 1e15)
        return ls_fail(LS_ERR_INPUT, "batch norm over %g values per channel; the maximum is 1e15", c->count);
    return LS_OK;
}

/* Make the bodies of ls_norm_call_skip_rows() and so on: each tensor of the list moves by `rows` times its step. */
#define SKIP(kind, ...) SKIP_##kind(__VA_ARGS__)
#define SKIP_SIZE(name)
#define SKIP_STRIDE(name)
#define SKIP_VALUE(type, name)
#define SKIP_DROP(name)
#define SKIP_IN(type, name, step)                                                                                      \
    if (c->name) c->name += rows * (step);
#define SKIP_OUT SKIP_IN
#define SKIP_IN_AS(dtype, name, step)                                                                                  \
    if (c->name) c->name = (const char *)c->name + rows * (step)*ls_dtype_bytes(dtype);
#define SKIP_OUT_AS(dtype, name, step)                                                                                 \
    if (c->name) c->name = (char *)c->name + rows * (step)*ls_dtype_bytes(dtype);
#define SKIP_PIECES(type, name, count)

#define SKIP_ROWS(type)                                                                                                \
    void type##_skip_rows(type *c, size_t rows) { LS_ARGS_##type(SKIP) }
LS_ROW_CALLS(SKIP_ROWS)
