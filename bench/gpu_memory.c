/* gpu_memory.c: kernels that only move memory, in fp32 and bf16, beside a copy: tensors of 2^27 numbers, far beyond any
 * cache, as rows of the lengths that models have. Bytes are those that must be read and written once. */
#include <stdio.h>
#include <string.h>

#include "gpu_kernels.h"

enum { ELEMS = 1 << 27, TOKENS = 1024, HGMMA_TOKENS = 64, F = 4, H = 2 }; /* the last: bytes of a number */

static const char *wanted; /* names begin so; NULL: all */

static bool is_wanted(const char *name) { return !wanted || strncmp(name, wanted, strlen(wanted)) == 0; }

/* `bytes` for each of n numbers. */
static ls_status row(bench *b, const char *name, double bytes, size_t n, body run, const void *call) {
    return is_wanted(name) ? report(b, name, bytes * (double)n, false, run, call) : LS_OK;
}

#define RUN(op)                                                                                                        \
    static ls_status run_##op(bench *b, const void *call) { return b->device->ops->op(b->device, call); }
RUN(scale)
RUN(set)
/* clang-format off */
RUN(add) RUN(convert) RUN(round) RUN(tree_sum) RUN(tree_rows) RUN(square_sums) RUN(state_sums) RUN(update) RUN(count)
RUN(act_forward) RUN(act_backward) RUN(gated_forward) RUN(gated_backward) RUN(bias_gelu_forward)
RUN(bias_add) RUN(bias_grad) RUN(dropout_add) RUN(embed_forward) RUN(embed_token_grad)
RUN(embed_position_grad) RUN(rope_forward) RUN(norm_forward) RUN(norm_backward) RUN(norm_params)
RUN(loss_rows)
/* clang-format on */
#undef RUN

                static ls_status run_copy(bench *b, const void *call) {
    (void)call;
    return ls_device_copy(b->device, b->c, b->a, (size_t)ELEMS * sizeof(float));
}

/* ---- flat arrays ------------------------------------------------------------------------------------------------- */

/* The tensors of GPT-2 124M in one call. */
static ls_status update_row(bench *b, const char *name, const ls_update_piece *whole) {
    enum { LAYERS = 12, WIDTH = 768, OF_A_LAYER = 12, PIECES = 4 + LAYERS * OF_A_LAYER };
    static const size_t layer[OF_A_LAYER] = {WIDTH, WIDTH, 3 * WIDTH * WIDTH, 3 * WIDTH, WIDTH * WIDTH,     WIDTH,
                                             WIDTH, WIDTH, 4 * WIDTH * WIDTH, 4 * WIDTH, 4 * WIDTH * WIDTH, WIDTH};
    ls_update_piece pieces[PIECES];
    size_t at = 0;
    for (int i = 0; i < PIECES; i++) {
        size_t n = i == 0 ? 50257 * WIDTH : i == 1 ? 1024 * WIDTH : i < 4 ? (size_t)WIDTH : layer[(i - 4) % OF_A_LAYER];
        pieces[i] = *whole;
        pieces[i].w += at, pieces[i].g += at, pieces[i].moment[0] += at, pieces[i].moment[1] += at;
        pieces[i].copy = (uint16_t *)whole->copy + at;
        pieces[i].n = n;
        at += (n + 63) / 64 * 64;
    }
    return row(b, name, 7 * F + H, at, run_update, &(ls_update_call){pieces, PIECES});
}

/* Without and with the state sums of what is written. */
static ls_status update_rows(bench *b) {
    const size_t n = ELEMS;
    ls_update_step adamw = {LS_OPTIMIZER_ADAMW, 1, 1e-4f, 0.9f, 0.1f, 0.95f, 0.05f, 1, 1e-8f, 0.999f, 0, 0, false};
    ls_update_step sgd = {.rule = LS_OPTIMIZER_SGD, .factor = 1, .rate = 1e-4f, .momentum = 0.9f};
    ls_update_piece update = {.w = b->c, .moment = {b->c + n, b->c + 2 * n}, .g = b->a, .step = &adamw, .n = n};
    const ls_update_sums sums = {.once = (ls_hash128 *)(void *)(b->d + n), .end = n};
    const ls_update_call all = {&update, 1};
    LS_TRY(ls_device_copy(b->device, b->c, b->a, n * F));
    LS_TRY(b->device->ops->set(b->device, &(ls_set_call){b->c + n, 1e-3f, 2 * n}));
    LS_TRY(row(b, "adamw/f32", 7 * F, n, run_update, &all));
    update.copy = b->d, update.copy_dtype = LS_BF16;
    LS_TRY(row(b, "adamw/bf16", 7 * F + H, n, run_update, &all));
    LS_TRY(update_row(b, "adamw/bf16/148", &update));
    update.sums = sums;
    LS_TRY(row(b, "adamw/bf16/sums", 7 * F + H, n, run_update, &all));
    LS_TRY(update_row(b, "adamw/bf16/148/sums", &update));
    update.step = &sgd, update.copy = NULL, update.moment[1] = NULL;
    LS_TRY(row(b, "sgd/f32/sums", 5 * F, n, run_update, &all));
    update.sums = (ls_update_sums){.once = NULL};
    return row(b, "sgd/f32", 5 * F, n, run_update, &all);
}

/* The token slices of the vectors of GPT-2 1.5B, two for each, joined in one call. */
static ls_status vector_rows(bench *b) {
    enum { LAYERS = 48, WIDTH = 1600, OF_A_LAYER = 8, PIECES = 2 + LAYERS * OF_A_LAYER, LEAVES = 2 };
    static const size_t layer[OF_A_LAYER] = {WIDTH, WIDTH, 3 * WIDTH, WIDTH, WIDTH, WIDTH, 4 * WIDTH, WIDTH};
    ls_tree_rows_piece pieces[PIECES];
    size_t at = 0;
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = (ls_tree_rows_piece){b->c + LEAVES * at, layer[i % OF_A_LAYER]};
        at += pieces[i].n;
    }
    return row(b, "tree_rows/2/386", (LEAVES + 1) * F, at, run_tree_rows, &(ls_tree_rows_call){pieces, PIECES, LEAVES});
}

static ls_status flat_rows(bench *b) {
    const size_t n = ELEMS;
    const void *wide[] = {b->a, b->b, b->a + n, b->b + n, b->a + 2 * n, b->b + 2 * n, b->a + 3 * n, b->b + 3 * n};
    const void *half[] = {b->h, b->h + n, b->h + 2 * n, b->h + 3 * n};
    LS_TRY(row(b, "scale/f32", 2 * F, n, run_scale, &(ls_scale_call){b->c, b->a, 0.5f, n}));
    LS_TRY(row(b, "set/f32", F, n, run_set, &(ls_set_call){b->c, 0.5f, n}));
    LS_TRY(row(b, "add/f32", 3 * F, n, run_add, &(ls_add_call){b->c, b->a, b->b, LS_F32, n}));
    LS_TRY(row(b, "add/bf16", 2 * F + H, n, run_add, &(ls_add_call){b->c, b->a, b->h, LS_BF16, n}));
    LS_TRY(row(b, "convert/f32-bf16", F + H, n, run_convert, &(ls_convert_call){b->c, LS_BF16, b->a, LS_F32, n}));
    LS_TRY(row(b, "convert/bf16-f32", F + H, n, run_convert, &(ls_convert_call){b->c, LS_F32, b->h, LS_BF16, n}));
    LS_TRY(row(b, "round/bf16", 2 * F, n, run_round, &(ls_round_call){b->c, b->a, LS_BF16, n}));
    LS_TRY(row(b, "tree_sum/2/f32", 3 * F, n, run_tree_sum, &(ls_tree_sum_call){b->c, wide, LS_F32, 2, n}));
    LS_TRY(row(b, "tree_sum/4/f32", 5 * F, n, run_tree_sum, &(ls_tree_sum_call){b->c, wide, LS_F32, 4, n}));
    LS_TRY(row(b, "tree_sum/8/f32", 9 * F, n, run_tree_sum, &(ls_tree_sum_call){b->c, wide, LS_F32, 8, n}));
    LS_TRY(row(b, "tree_sum/4/bf16", 4 * H + F, n, run_tree_sum, &(ls_tree_sum_call){b->c, half, LS_BF16, 4, n}));
    LS_TRY(vector_rows(b));
    ls_count_call count = {(int64_t *)(void *)b->d, b->a, 1, LS_BF16, n};
    LS_TRY(row(b, "count/f32", F, n, run_count, &count));
    LS_TRY(row(b, "square_sums/f32", F, n, run_square_sums,
               &(ls_square_sums_call){(int64_t *)(void *)b->d, &(ls_square_piece){b->a, n}, 1}));
    ls_state_piece state = {.out = (ls_hash128 *)(void *)b->d, .x = b->a, .n = n};
    LS_TRY(row(b, "state_sums/f32", F, n, run_state_sums, &(ls_state_sums_call){&state, 1}));
    return update_rows(b);
}

/* All sequences in one group; 16 bits are those of the unit hgmma, whose chains are short. */
static ls_token_groups groups_of(const size_t *bounds, ls_dtype type) {
    return (ls_token_groups){
        .T = TOKENS, .slices = 2, .groups = 1, .bounds = bounds, .block = type == LS_F32 ? 0 : HGMMA_TOKENS};
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static ls_status act_rows(bench *b, ls_dtype type) {
    enum { WIDE = 4 * C };
    static const char *const names[] = {"gelu", "silu", "relu", "sigmoid"};
    const bool is_half = type != LS_F32;
    const char *const t = is_half ? "bf16" : "f32";
    const double e = is_half ? H : F;
    const size_t n = ELEMS, rows = n / WIDE, m = rows * WIDE;
    const void *x = is_half ? (const void *)b->h : b->a, *dy = is_half ? (const void *)(b->h + n) : b->b;
    char name[80];
    for (int fn = 0; fn < 2; fn++) {
        ls_act_call call = {(ls_act_fn)fn, b->c, dy, x, type, n};
        snprintf(name, sizeof name, "%s_forward/%s", names[fn], t);
        LS_TRY(row(b, name, 2 * e, n, run_act_forward, &call));
        snprintf(name, sizeof name, "%s_backward/%s", names[fn], t);
        LS_TRY(row(b, name, 3 * e, n, run_act_backward, &call));
    }
    ls_gated_call gated = {.rows = rows, .columns = WIDE, .act = type, .gate = x, .in_stride = 2 * WIDE, .y = b->c};
    gated.up = (const char *)x + WIDE * (is_half ? H : F);
    gated.y_stride = gated.dy_stride = WIDE;
    snprintf(name, sizeof name, "gated_forward/%s", t);
    LS_TRY(row(b, name, 3 * e, m, run_gated_forward, &gated));
    gated.dy = is_half ? (const void *)(b->h + 3 * n) : b->b, gated.din_stride = 2 * WIDE;
    gated.dgate = b->d, gated.dup = (char *)(void *)b->d + WIDE * (is_half ? H : F);
    snprintf(name, sizeof name, "gated_backward/%s", t);
    LS_TRY(row(b, name, 5 * e, m, run_gated_backward, &gated));
    ls_bias_add_call bias = {b->c, type, WIDE, b->a, WIDE, b->b, rows, WIDE};
    snprintf(name, sizeof name, "bias_add/%s", t);
    LS_TRY(row(b, name, F + e, m, run_bias_add, &bias));
    if (!is_half) {
        ls_bias_gelu_call both = {rows, WIDE, b->a, WIDE, b->b, b->c, WIDE, b->d, WIDE};
        LS_TRY(row(b, "bias_gelu_forward/f32", 3 * F, m, run_bias_gelu_forward, &both));
    }
    const size_t sequences = m / WIDE / TOKENS, bounds[] = {0, sequences};
    const ls_token_groups groups = groups_of(bounds, type);
    ls_bias_grad_call grad = {b->d, dy, type, WIDE, WIDE, &groups};
    snprintf(name, sizeof name, "bias_grad/%s", t);
    return row(b, name, e, sequences * TOKENS * WIDE, run_bias_grad, &grad);
}

/* ---- rows of the stream ------------------------------------------------------------------------------------------ */

static ls_status stream_rows(bench *b, ls_dtype type) {
    const bool is_half = type != LS_F32;
    const char *const t = is_half ? "bf16" : "f32";
    const double e = is_half ? H : F;
    const size_t sequences = ELEMS / C / TOKENS, rows = sequences * TOKENS, n = rows * C, bounds[] = {0, sequences};
    const void *x = is_half ? (const void *)b->h : b->b;
    char name[80];
    ls_dropout_call drop = {.rows = rows, .columns = C, .drop.key = ls_rng_key_make(5, 6, 7), .x = x, .x_dtype = type};
    drop.x_stride = drop.residual_stride = drop.y_stride = C;
    ls_drop_set_rate(&drop.drop, 0.1);
    drop.residual = b->a, drop.y = b->c, drop.y_dtype = LS_F32;
    snprintf(name, sizeof name, "dropout_add/%s", t);
    LS_TRY(row(b, name, 2 * F + e, n, run_dropout_add, &drop));
    ls_rope_call rope = {type, b->c, C, 64, x, C, 64, rows, C / 64, 64, b->a, b->a + TOKENS * 32, 0, TOKENS};
    snprintf(name, sizeof name, "rope/%s", t);
    LS_TRY(row(b, name, 2 * e, n, run_rope_forward, &rope));
    if (is_half) return LS_OK;
    /* Ids of a small range of the vocabulary would stay in the cache; these are spread. */
    static int32_t ids[1 << 18];
    for (size_t i = 0; i < rows; i++) ids[i] = (int32_t)(i * 2654435761u % V);
    int32_t *device_ids = (int32_t *)(void *)(b->d + 2 * (size_t)ELEMS);
    LS_TRY(ls_device_copy_in(b->device, device_ids, ids, rows * sizeof *ids));
    const ls_embed_tokens tokens = {device_ids, 0, V, rows, C};
    const ls_token_groups groups = {.T = TOKENS, .slices = 2, .groups = 1, .bounds = bounds};
    LS_TRY(row(b, "embed_forward/f32", 2 * F, n, run_embed_forward,
               &(ls_embed_call){b->c, C, b->a, LS_F32, b->b, 0, TOKENS, &tokens}));
    LS_TRY(row(b, "embed_token_grad/f32", F, n + 2 * (size_t)V * C, run_embed_token_grad,
               &(ls_token_grad_call){b->c, b->a, C, &tokens, &groups}));
    return row(b, "embed_position_grad/f32", F, n, run_embed_position_grad,
               &(ls_position_grad_call){b->c, b->a, C, C, &groups});
}

/* The same call once more, with dropout. */
static ls_status drop_row(bench *b, const char *name, double bytes, size_t n, body run, ls_norm_call call) {
    char with[90];
    snprintf(with, sizeof with, "%s/dropout", name);
    call.drop.key = ls_rng_key_make(5, 6, 7);
    ls_drop_set_rate(&call.drop, 0.1);
    return row(b, with, bytes, n, run, &call);
}

static ls_status norm_rows(bench *b, size_t columns, bool rms, ls_dtype type) {
    const bool is_half = type != LS_F32;
    const double e = is_half ? H : F;
    const size_t sequences = ELEMS / columns / TOKENS, rows = sequences * TOKENS, n = rows * columns;
    const size_t bounds[] = {0, sequences};
    const ls_token_groups groups = groups_of(bounds, type);
    ls_norm_call call = {.rows = rows,
                         .C = columns,
                         .rms = rms,
                         .act = type,
                         .eps = 1e-5f,
                         .x = b->a,
                         .x_stride = columns,
                         .w = b->b,
                         .b = b->b,
                         .y = b->c,
                         .y_stride = columns,
                         .mean = b->d + 3 * (size_t)ELEMS,
                         .rstd = b->d + 3 * (size_t)ELEMS + rows,
                         .dy = is_half ? (const void *)b->h : b->b,
                         .dy_stride = columns,
                         .dx = b->d,
                         .dx_stride = columns,
                         .dw = b->d + 3 * (size_t)ELEMS + 2 * rows,
                         .groups = &groups};
    call.db = call.dw + 2 * columns;
    char name[80], end[40];
    const char *const kind = rms ? "rms" : "layer";
    snprintf(end, sizeof end, "%zu/%s", columns, is_half ? "bf16" : "f32");
    snprintf(name, sizeof name, "%s_norm_forward/%s", kind, end);
    LS_TRY(row(b, name, F + e, n, run_norm_forward, &call));
    snprintf(name, sizeof name, "%s_norm_backward_add/%s", kind, end);
    call.add = true;
    LS_TRY(row(b, name, 3 * F + e, n, run_norm_backward, &call));
    snprintf(name, sizeof name, "%s_norm_params/%s", kind, end);
    LS_TRY(row(b, name, F + e, n, run_norm_params, &call));
    if (is_half) {
        call.params = call.remake = true, call.branch = call.dy, call.sum = b->c;
        call.dx_copy = b->h + 2 * n, call.dx_sums = call.dw + 4 * columns, call.y = b->h + 3 * n;
        snprintf(name, sizeof name, "%s_norm_backward_whole/%s", kind, end);
        LS_TRY(row(b, name, 3 * F + 4 * e, n, run_norm_backward, &call));
        if (columns == C) LS_TRY(drop_row(b, name, 3 * F + 4 * e, n, run_norm_backward, call));
        call.params = call.remake = false, call.branch = NULL, call.dx_copy = NULL, call.y = b->c;
    }
    if (columns != C) return LS_OK;
    call.add = false;
    snprintf(name, sizeof name, "%s_norm_backward/%s", kind, end);
    LS_TRY(row(b, name, 2 * F + e, n, run_norm_backward, &call));
    call.branch = call.dy, call.sum = b->c + n;
    snprintf(name, sizeof name, "%s_norm_forward_sum/%s", kind, end);
    LS_TRY(row(b, name, 2 * F + 2 * e, n, run_norm_forward, &call));
    LS_TRY(drop_row(b, name, 2 * F + 2 * e, n, run_norm_forward, call));
    if (!is_half) return LS_OK;
    call.add = true, call.dx_copy = b->c, call.branch = NULL;
    snprintf(name, sizeof name, "%s_norm_backward_copy/%s", kind, end);
    LS_TRY(row(b, name, 3 * F + 2 * e, n, run_norm_backward, &call));
    return drop_row(b, name, 3 * F + 2 * e, n, run_norm_backward, call);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* 16 bits are those of the unit hgmma, whose slices begin at multiples of 64. */
static ls_status loss_row(bench *b, size_t columns, size_t stride, size_t slices, ls_dtype type) {
    static int32_t ids[ROWS];
    const bool is_half = type != LS_F32;
    size_t bounds[9], fit = (size_t)ROWS * V_PADDED / stride, rows = fit < ROWS ? fit : ROWS;
    for (size_t i = 0; i <= slices; i++)
        bounds[i] = i == slices ? columns : is_half ? i * ((columns + 63) / 64) / slices * 64 : i * columns / slices;
    for (size_t i = 0; i < rows; i++) ids[i] = (int32_t)(i * 2654435761u % columns);
    ls_loss_call call = {.rows = rows, .z_dtype = type, .z_stride = stride, .bounds = bounds, .slices = slices};
    call.z = is_half ? (const void *)b->h : b->a;
    call.targets = (int32_t *)(void *)b->d, call.loss = b->d + ROWS;
    call.dz = b->c, call.dz_dtype = type, call.dz_stride = stride, call.g = 0x1p-14f;
    LS_TRY(ls_device_copy_in(b->device, b->d, ids, sizeof ids));
    char name[80];
    snprintf(name, sizeof name, "loss/%zu+%zu/slices=%zu/%s", columns, stride - columns, slices,
             is_half ? "bf16" : "f32");
    return row(b, name, 2.0 * (is_half ? H : F), rows * columns, run_loss_rows, &call);
}

static ls_status loss_rows(bench *b) {
    LS_TRY(loss_row(b, V, V, 8, LS_F32));
    LS_TRY(loss_row(b, V, V_PADDED, 8, LS_F32));
    LS_TRY(loss_row(b, V, V_PADDED, 1, LS_F32));
    LS_TRY(loss_row(b, V, V, 2, LS_BF16));
    LS_TRY(loss_row(b, V, V_PADDED, 2, LS_BF16));
    LS_TRY(loss_row(b, 32000, 32000, 2, LS_BF16));
    return loss_row(b, 128256, 128256, 2, LS_BF16);
}

ls_status measure_memory(bench *b, const char *only) {
    static const size_t columns[] = {C, 1024, 1600, 2048, 4096, 5120, 8192};
    LS_TRY(report(b, "copy", 2.0 * F * ELEMS, false, run_copy, NULL));
    wanted = only;
    LS_TRY(flat_rows(b));
    for (int half = 0; half < 2; half++) {
        const ls_dtype type = half ? LS_BF16 : LS_F32;
        LS_TRY(act_rows(b, type));
        LS_TRY(stream_rows(b, type));
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) LS_TRY(norm_rows(b, columns[i], false, type));
        LS_TRY(norm_rows(b, 2048, true, type));
        LS_TRY(norm_rows(b, 4096, true, type));
    }
    return loss_rows(b);
}
