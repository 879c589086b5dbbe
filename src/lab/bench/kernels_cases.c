/* kernels_cases.c: each kernel bound by memory, on the sizes it has in GPT-2 124M (768 and 3072 columns) or in Llama 1B
 * (2048 and 8192). Each function here runs one kernel on the range `begin` … `end` of its case's rows, columns or
 * elements.
 *
 * 1024 rows lie in some cache, for the kernel and for the loop beside it. Kernels that compute little have a second
 * size with about 200 MiB in all streams, which no cache holds; so have the flat vectors of kernels that run over all
 * parameters.
 *
 * Repeated calls in place must neither grow without bound nor fade to subnormal numbers, which some CPUs are slow with:
 * factors are 1, rotations keep their length, rates are small. */
#include "lab/bench/kernels_stream.h"

/* Streams by number, from the row or element where a range begins. */
#define S(number) (d->stream[number])
#define AT(number, row) (d->stream[number] + (row)*d->columns)

/* Kernels that go element by element, by their operands. */
#define FLAT(name, kernel, ...)                                                                                        \
    static void name(const ls_kbench_data *d, size_t begin, size_t end) {                                              \
        d->kernels->kernel(__VA_ARGS__, end - begin);                                                                  \
    }
/* Those that go row by row of C columns. */
#define ROWWISE(name, kernel, ...)                                                                                     \
    static void name(const ls_kbench_data *d, size_t begin, size_t end) {                                              \
        size_t C = d->columns, rows = end - begin;                                                                     \
        d->kernels->kernel(__VA_ARGS__);                                                                               \
    }
#define UNARY(name, kernel) FLAT(name, kernel, S(1) + begin, S(0) + begin)
#define BACKWARD(name, kernel) FLAT(name, kernel, S(2) + begin, S(1) + begin, S(0) + begin)
#define SUM(name, kernel) FLAT(name, kernel, S(2) + begin, S(0) + begin, S(1) + begin)
#define NARROW(name, kernel) FLAT(name, kernel, d->half + begin, S(0) + begin)
#define WIDEN(name, kernel) FLAT(name, kernel, S(0) + begin, d->half + begin)

/* ---- norm -------------------------------------------------------------------------------------------------------- */

/* Returns the place in `sums` of the partial sums of the token slice at row `begin`; each slice has its own. */
static float *sums_of(const ls_kbench_data *d, float *sums, size_t begin) {
    enum { SLICES_MAX = 64 };
    return sums + begin * SLICES_MAX / d->rows * d->columns;
}

/* Makes the call of a norm over rows begin … end − 1. */
static ls_norm_call norm_call(const ls_kbench_data *d, size_t begin, size_t end, bool rms) {
    ls_norm_call call = {.rows = end - begin, .C = d->columns, .rms = rms, .eps = 1e-5f};
    call.x_stride = call.y_stride = call.dy_stride = call.dx_stride = d->columns;
    call.x = AT(0, begin);
    call.w = d->per_column[0];
    call.b = d->per_column[1];
    call.mean = d->per_row[0] + begin;
    call.rstd = d->per_row[1] + begin;
    call.y = AT(1, begin);
    call.dy = AT(1, begin);
    call.dw = sums_of(d, d->per_column[2], begin);
    call.db = sums_of(d, d->per_column[3], begin);
    return call;
}

#define NORM(name, kernel, rms)                                                                                        \
    static void name(const ls_kbench_data *d, size_t begin, size_t end) {                                              \
        ls_norm_call call = norm_call(d, begin, end, rms);                                                             \
        d->kernels->norm.kernel(&call);                                                                                \
    }
NORM(layer_forward, forward, false)
NORM(layer_params, params, false)
NORM(rms_forward, forward, true)
NORM(rms_params, params, true)

/* Runs the backward pass of a norm. */
static void run_norm_backward(const ls_kbench_data *d, size_t begin, size_t end, bool rms) {
    ls_norm_call call = norm_call(d, begin, end, rms);
    call.dx = AT(2, begin);
    d->kernels->norm.backward(&call);
}

/* Backward pass of a layer norm. */
static void layer_backward(const ls_kbench_data *d, size_t begin, size_t end) {
    run_norm_backward(d, begin, end, false);
}
/* Backward pass of an RMS norm. */
static void rms_backward(const ls_kbench_data *d, size_t begin, size_t end) { run_norm_backward(d, begin, end, true); }

/* ---- activations, residual, bias --------------------------------------------------------------------------------- */

UNARY(gelu_forward, act.forward[LS_ACT_GELU])
BACKWARD(gelu_backward, act.backward[LS_ACT_GELU])
UNARY(silu_forward, act.forward[LS_ACT_SILU])
BACKWARD(silu_backward, act.backward[LS_ACT_SILU])
SUM(residual, act.residual)

/* The gate of an MLP: SiLU of the gate times up, into a third stream. */
static void gated_forward(const ls_kbench_data *d, size_t begin, size_t end) {
    size_t C = d->columns;
    d->kernels->act.gated_forward(&(ls_gated_call){.rows = end - begin,
                                                   .columns = C,
                                                   .gate = AT(0, begin),
                                                   .up = AT(1, begin),
                                                   .in_stride = C,
                                                   .y = AT(2, begin),
                                                   .y_stride = C});
}

/* Its backward pass: gradients of gate and up into two streams. */
static void gated_backward(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_gated_call call = {.rows = end - begin, .columns = d->columns, .gate = AT(0, begin), .up = AT(1, begin)};
    call.in_stride = call.dy_stride = call.din_stride = d->columns;
    call.dy = AT(2, begin);
    call.dgate = AT(3, begin);
    call.dup = AT(4, begin);
    d->kernels->act.gated_backward(&call);
}

/* Bias, kept sum and GELU in one pass. */
static void bias_gelu_forward(const ls_kbench_data *d, size_t begin, size_t end) {
    size_t C = d->columns;
    d->kernels->act.bias_gelu_forward(
        &(ls_bias_gelu_call){end - begin, C, AT(0, begin), C, d->per_column[1], AT(2, begin), C, AT(1, begin), C});
}

ROWWISE(bias_grad, act.bias_grad, sums_of(d, d->per_column[3], begin), AT(0, begin), C, rows, 0, C)

/* ---- rotary embedding, embedding, loss --------------------------------------------------------------------------- */

enum { HEAD_SIZE = 64 };

/* Makes the call of a rotation in place. */
static ls_rope_call rope_call(const ls_kbench_data *d, size_t begin, size_t end) {
    return (ls_rope_call){.y = AT(0, begin),
                          .y_row_stride = d->columns,
                          .y_head_stride = HEAD_SIZE,
                          .x = AT(0, begin),
                          .x_row_stride = d->columns,
                          .x_head_stride = HEAD_SIZE,
                          .rows = end - begin,
                          .heads = d->columns / HEAD_SIZE,
                          .d = HEAD_SIZE,
                          .cos = d->tables[0],
                          .sin = d->tables[1],
                          .position0 = begin,
                          .period = LS_KBENCH_POSITIONS};
}

/* Rotary embedding of heads of 64 columns, in place. */
static void rope_forward(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_rope_call call = rope_call(d, begin, end);
    d->kernels->rope.forward(&call);
}

/* Its backward pass, in place. */
static void rope_backward(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_rope_call call = rope_call(d, begin, end);
    d->kernels->rope.backward(&call);
}

/* Describes the ids of rows begin … end − 1. */
static ls_embed_tokens tokens_of(const ls_kbench_data *d, size_t begin, size_t end) {
    return (ls_embed_tokens){
        .ids = d->ids + begin, .id_begin = 0, .id_end = (int32_t)d->vocabulary, .rows = end - begin, .C = d->columns};
}

/* Token and position embedding: gathers rows of the table by the ids. */
static void embed_forward(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_embed_tokens tokens = tokens_of(d, begin, end);
    d->kernels->embed.forward(&(ls_embed_call){AT(2, begin), d->columns, S(0), LS_F32, S(1), begin, d->rows, &tokens});
}

/* Gradient of the token table: the range is of columns, over all rows. */
static void token_grad(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_embed_tokens tokens = tokens_of(d, 0, d->rows);
    d->kernels->embed.token_grad(S(0), S(1), d->columns, &tokens, begin, end);
}

/* Gradient of the positions: the range is of columns, over all rows. */
static void position_grad(const ls_kbench_data *d, size_t begin, size_t end) {
    d->kernels->embed.position_grad(S(0), S(1), d->columns, 0, d->rows, d->rows, d->columns, begin, end);
}

/* The loss of each row of logits, with its gradient in place if `gradient`. */
static void loss_row(const ls_kbench_data *d, size_t begin, size_t end, bool gradient) {
    for (size_t row = begin; row < end; row++) {
        float *z = AT(0, row);
        ls_loss_row got = d->kernels->loss.row(gradient ? z : NULL, z, d->bounds, LS_KBENCH_VOCABULARY_SLICES,
                                               (size_t)d->ids[row] % d->columns, 1.0f);
        d->per_row[0][row] = got.loss;
    }
}

/* Loss and gradient of logits, in place. */
static void loss_gradient(const ls_kbench_data *d, size_t begin, size_t end) { loss_row(d, begin, end, true); }

/* Loss of logits alone. */
static void loss_value(const ls_kbench_data *d, size_t begin, size_t end) { loss_row(d, begin, end, false); }

/* ---- optimizers, formats, sums ----------------------------------------------------------------------------------- */

/* An AdamW update with a rate so small that weights hardly change. */
static void adamw(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_update_step step = {.rule = LS_OPTIMIZER_ADAMW,
                           .factor = 1.0f,
                           .beta1 = 0.9f,
                           .beta1_rest = 0.1f,
                           .beta2 = 0.95f,
                           .beta2_rest = 0.05f,
                           .rate = 1e-6f,
                           .root = 1.0f,
                           .epsilon = 1e-8f,
                           .decay = 1.0f};
    d->kernels->optim.update(&(ls_update_piece){.w = S(0),
                                                .moment = {S(1), S(2)},
                                                .copy = NULL,
                                                .copy_dtype = LS_F32,
                                                .g = S(3),
                                                .step = &step,
                                                .n = d->rows},
                             begin, end);
}

/* An SGD update with momentum, likewise. */
static void sgd(const ls_kbench_data *d, size_t begin, size_t end) {
    ls_update_step step = {.rule = LS_OPTIMIZER_SGD, .factor = 1.0f, .rate = 1e-6f, .momentum = 0.9f};
    d->kernels->optim.update(
        &(ls_update_piece){
            .w = S(0), .moment = {S(1)}, .copy = NULL, .copy_dtype = LS_F32, .g = S(2), .step = &step, .n = d->rows},
        begin, end);
}

FLAT(square_sums, optim.square_sums, d->sums + begin / LS_SQUARE_BLOCK, S(0) + begin)

FLAT(scale, optim.scale, S(0) + begin, S(0) + begin, 1.0f)

NARROW(f32_to_bf16, convert.f32_to_bf16)
WIDEN(bf16_to_f32, convert.bf16_to_f32)
NARROW(f32_to_f16, convert.f32_to_f16)
WIDEN(f16_to_f32, convert.f16_to_f32)
WIDEN(widen_bf16, add.widen_bf16)
SUM(add_f32, add.add_f32)

FLAT(add_two_f32, add.add_two_f32, S(2) + begin, S(3) + begin, S(0) + begin, S(1) + begin)

/* A copy with non-temporal stores. */
static void copy_stream(const ls_kbench_data *d, size_t begin, size_t end) {
    d->kernels->add.copy_stream(S(1) + begin, S(0) + begin, (end - begin) * sizeof(float));
    d->kernels->add.fence_stream();
}

/* ---- elementary functions ---------------------------------------------------------------------------------------- */

UNARY(math_exp, math.exp)
UNARY(math_log, math.log)
UNARY(math_tanh, math.tanh)
UNARY(math_sigmoid, math.sigmoid)
UNARY(math_erf, math.erf)
UNARY(math_sin, math.sin)
UNARY(math_cos, math.cos)

FLAT(math_pow, math.pow, S(1) + begin, S(0) + begin, 0.37f)

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Conversions move 6 bytes for each element: as two streams are to one. */
enum { TO_HALF_BYTES = 6, MATH_ELEMS = 1 << 20 };
/* Numbers in each stream of a flat vector, by how many streams there are. */
enum { ONE = 64 << 20, TWO = 32 << 20, MORE = 16 << 20 };
#define ROWS LS_KBENCH_BY_ROWS
#define COLUMNS LS_KBENCH_BY_COLUMNS
#define ELEMS LS_KBENCH_BY_ELEMS
#define STREAM(number) (1u << (number))

const ls_kbench_case ls_kbench_cases[] = {
    {LS_KBENCH_NORM, "layer_forward", 1024, 768, ROWS, 1, 1, 0, 0, layer_forward, 0},
    {LS_KBENCH_NORM, "layer_forward", 32768, 768, ROWS, 1, 1, 0, 0, layer_forward, 0},
    {LS_KBENCH_NORM, "layer_backward", 1024, 768, ROWS, 2, 1, 0, 0, layer_backward, 0},
    {LS_KBENCH_NORM, "layer_backward", 24576, 768, ROWS, 2, 1, 0, 0, layer_backward, 0},
    {LS_KBENCH_NORM, "layer_params", 1024, 768, ROWS, 2, 0, 0, 0, layer_params, 0},
    {LS_KBENCH_NORM, "layer_params", 32768, 768, ROWS, 2, 0, 0, 0, layer_params, 0},
    {LS_KBENCH_NORM, "rms_forward", 1024, 2048, ROWS, 1, 1, 0, 0, rms_forward, 0},
    {LS_KBENCH_NORM, "rms_forward", 12288, 2048, ROWS, 1, 1, 0, 0, rms_forward, 0},
    {LS_KBENCH_NORM, "rms_backward", 1024, 2048, ROWS, 2, 1, 0, 0, rms_backward, 0},
    {LS_KBENCH_NORM, "rms_backward", 8192, 2048, ROWS, 2, 1, 0, 0, rms_backward, 0},
    {LS_KBENCH_NORM, "rms_params", 1024, 2048, ROWS, 2, 0, 0, 0, rms_params, 0},
    {LS_KBENCH_NORM, "rms_params", 12288, 2048, ROWS, 2, 0, 0, 0, rms_params, 0},
    {LS_KBENCH_ACT, "gelu_forward", 1024, 3072, ELEMS, 1, 1, 0, 0, gelu_forward, 0},
    {LS_KBENCH_ACT, "gelu_backward", 1024, 3072, ELEMS, 2, 1, 0, 0, gelu_backward, 0},
    {LS_KBENCH_ACT, "silu_forward", 1024, 3072, ELEMS, 1, 1, 0, 0, silu_forward, 0},
    {LS_KBENCH_ACT, "silu_backward", 1024, 3072, ELEMS, 2, 1, 0, 0, silu_backward, 0},
    {LS_KBENCH_ACT, "gated_forward", 256, 8192, ROWS, 2, 1, 0, 0, gated_forward, 0},
    {LS_KBENCH_ACT, "gated_backward", 256, 8192, ROWS, 3, 2, 0, 0, gated_backward, 0},
    {LS_KBENCH_ACT, "bias_gelu_forward", 1024, 3072, ROWS, 1, 2, 0, 0, bias_gelu_forward, 0},
    {LS_KBENCH_ACT, "residual", 1024, 768, ELEMS, 2, 1, 0, 0, residual, 0},
    {LS_KBENCH_ACT, "residual", 24576, 768, ELEMS, 2, 1, 0, 0, residual, 0},
    {LS_KBENCH_ACT, "bias_grad", 1024, 3072, ROWS, 1, 0, 0, 0, bias_grad, 0},
    {LS_KBENCH_ACT, "bias_grad", 16384, 3072, ROWS, 1, 0, 0, 0, bias_grad, 0},
    {LS_KBENCH_ROPE, "forward", 1024, 2048, ROWS, 1, 1, 1, 0, rope_forward, 0},
    {LS_KBENCH_ROPE, "forward", 24576, 2048, ROWS, 1, 1, 1, 0, rope_forward, 0},
    {LS_KBENCH_ROPE, "backward", 1024, 2048, ROWS, 1, 1, 1, 0, rope_backward, 0},
    {LS_KBENCH_EMBED, "forward", 1024, 768, ROWS, 2, 1, 0, 0, embed_forward, LS_KBENCH_BY_IDS},
    {LS_KBENCH_EMBED, "token_grad", 1024, 768, COLUMNS, 2, 1, 1, 0, token_grad, LS_KBENCH_BY_IDS},
    {LS_KBENCH_EMBED, "position_grad", 1024, 768, COLUMNS, 2, 1, 1, 0, position_grad, 0},
    {LS_KBENCH_LOSS, "value", 32, 50257, ROWS, 1, 0, 0, 0, loss_value, 0},
    {LS_KBENCH_LOSS, "value", 1024, 50257, ROWS, 1, 0, 0, 0, loss_value, 0},
    {LS_KBENCH_LOSS, "gradient", 32, 50257, ROWS, 1, 1, 1, 0, loss_gradient, 0},
    {LS_KBENCH_LOSS, "gradient", 1024, 50257, ROWS, 1, 1, 1, 0, loss_gradient, 0},
    {LS_KBENCH_OPTIM, "adamw", 1, MORE, ELEMS, 4, 3, 3, 0, adamw, STREAM(2)},
    {LS_KBENCH_OPTIM, "sgd", 1, MORE, ELEMS, 3, 2, 2, 0, sgd, 0},
    {LS_KBENCH_OPTIM, "square_sums", 1, ONE, ELEMS, 1, 0, 0, 0, square_sums, 0},
    {LS_KBENCH_OPTIM, "scale", 1, ONE, ELEMS, 1, 1, 1, 0, scale, 0},
    {LS_KBENCH_CONVERT, "f32_to_bf16", 1, TWO, ELEMS, 2, 1, 0, TO_HALF_BYTES, f32_to_bf16, 0},
    {LS_KBENCH_CONVERT, "bf16_to_f32", 1, TWO, ELEMS, 1, 2, 0, TO_HALF_BYTES, bf16_to_f32, 0},
    {LS_KBENCH_CONVERT, "f32_to_f16", 1, TWO, ELEMS, 2, 1, 0, TO_HALF_BYTES, f32_to_f16, 0},
    {LS_KBENCH_CONVERT, "f16_to_f32", 1, TWO, ELEMS, 1, 2, 0, TO_HALF_BYTES, f16_to_f32, 0},
    {LS_KBENCH_MATH, "exp", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_exp, 0},
    {LS_KBENCH_MATH, "log", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_log, STREAM(0)},
    {LS_KBENCH_MATH, "tanh", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_tanh, 0},
    {LS_KBENCH_MATH, "sigmoid", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_sigmoid, 0},
    {LS_KBENCH_MATH, "erf", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_erf, 0},
    {LS_KBENCH_MATH, "sin", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_sin, 0},
    {LS_KBENCH_MATH, "cos", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_cos, 0},
    {LS_KBENCH_MATH, "pow", 1, MATH_ELEMS, ELEMS, 1, 1, 0, 0, math_pow, STREAM(0)},
    {LS_KBENCH_ADD, "add_f32", 1, MORE, ELEMS, 2, 1, 0, 0, add_f32, 0},
    {LS_KBENCH_ADD, "add_two_f32", 1, MORE, ELEMS, 2, 2, 0, 0, add_two_f32, 0},
    {LS_KBENCH_ADD, "widen_bf16", 1, TWO, ELEMS, 1, 2, 0, TO_HALF_BYTES, widen_bf16, 0},
    {LS_KBENCH_ADD, "copy_stream", 1, TWO, ELEMS, 1, 1, 0, 0, copy_stream, 0},
};
const int ls_kbench_case_count = sizeof ls_kbench_cases / sizeof *ls_kbench_cases;
