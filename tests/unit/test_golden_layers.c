/* test_golden_layers.c: the bits of every layer kernel, recorded: the same on every ISA, on ARM64 and on x86-64.
 *
 * A case fills its inputs from Philox, first with −4 … 4 and then with any bits, runs one kernel on odd shapes with
 * gaps between rows and with the ranges that threads would take, and hashes all outputs, every NaN being one. A hash
 * that changes means that numbers of training runs change: then the arithmetic version of docs/reference/arithmetic.md
 * changes too. That the bits are right is for the other tests. */
#include "layers.h"

#include "base/hash.h"

enum { MEMORY = 1 << 22, HASHES = 128, GAP = 3 };

typedef struct golden {
    const ls_kernels *k;
    kind of;
    uint32_t fills;
    size_t used;
    int count;
    ls_hash128 hashes[HASHES];
} golden;

static float memory[MEMORY];

static float *take(golden *g, size_t n) {
    assert_true(g->used + n <= MEMORY);
    float *at = memory + g->used;
    g->used += n;
    return at;
}

/* Random numbers, others for each call. */
static float *fresh(golden *g, size_t n) {
    float *to = take(g, n);
    ls_rng_key key = ls_rng_key_make(20, g->fills++, n);
    for (size_t i = 0; i < n; i++) to[i] = random_float(key, i, g->of);
    return to;
}

static uint16_t *fresh_halves(golden *g, size_t n) {
    void *to = take(g, (n + 1) / 2);
    ls_rng_key key = ls_rng_key_make(20, g->fills++, n);
    for (size_t i = 0; i < n; i++) ((uint16_t *)to)[i] = (uint16_t)ls_rng_u32(key, i);
    return to;
}

static void keep_hash(golden *g, ls_hash128 hash) {
    assert_true(g->count < HASHES);
    g->hashes[g->count++] = hash;
}

static void keep(golden *g, const float *values, size_t n) { keep_hash(g, ls_hash_f32(values, n)); }
static void keep_bytes(golden *g, const void *data, size_t bytes) { keep_hash(g, ls_hash_bytes(data, bytes)); }

typedef struct shape {
    size_t rows, C, stride;
} shape;
static const shape shapes[] = {{3, 1, 1}, {5, 17, 17 + GAP}, {11, 100, 100 + GAP}, {2, 769, 769}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
#define EACH_SHAPE(s) for (const shape *s = shapes; s < shapes + N_SHAPES; s++)

/* ---- norm -------------------------------------------------------------------------------------------------------- */

static void norm(golden *g, bool rms) {
    EACH_SHAPE(s) {
        size_t n = s->rows * s->stride, cut = s->C / 3;
        float *x = fresh(g, n), *w = fresh(g, s->C), *b = rms ? NULL : fresh(g, s->C), *dy = fresh(g, n);
        float *y = fresh(g, n), *dw = fresh(g, s->C), *db = rms ? NULL : fresh(g, s->C);
        float *mean = rms ? NULL : fresh(g, s->rows), *rstd = fresh(g, s->rows);
        const ls_norm_kernels *k = &g->k->norm;
        ls_norm_call call = {.rms = rms,
                             .rows = s->rows,
                             .C = s->C,
                             .eps = 1e-5f,
                             .x = x,
                             .x_stride = s->stride,
                             .w = w,
                             .b = b,
                             .y = y,
                             .y_stride = s->stride,
                             .mean = mean,
                             .rstd = rstd,
                             .dy = dy,
                             .dy_stride = s->stride,
                             .dx = y,
                             .dx_stride = s->stride,
                             .dw = dw,
                             .db = db};
        k->forward(&call);
        keep(g, y, n);
        if (mean) keep(g, mean, s->rows);
        keep(g, rstd, s->rows);
        k->backward(&call);
        call.C = cut;
        k->params(&call);
        call.C = s->C - cut, call.x = x + cut, call.dy = dy + cut, call.dw = dw + cut, call.db = db ? db + cut : NULL;
        k->params(&call);
        keep(g, y, n), keep(g, dw, s->C);
        if (db) keep(g, db, s->C);
    }
}

static void layer_norm(golden *g) { norm(g, false); }
static void rms_norm(golden *g) { norm(g, true); }

/* ---- activations ------------------------------------------------------------------------------------------------- */

enum { FLAT = 4099 };

static void activate(golden *g, int act) {
    float *x = fresh(g, FLAT), *dy = fresh(g, FLAT), *y = take(g, FLAT);
    g->k->act.forward[act](y, x, FLAT);
    keep(g, y, FLAT);
    g->k->act.backward[act](y, dy, x, FLAT);
    keep(g, y, FLAT);
}

static void gelu(golden *g) { activate(g, LS_ACT_GELU); }
static void silu(golden *g) { activate(g, LS_ACT_SILU); }
static void relu(golden *g) { activate(g, LS_ACT_RELU); }
static void sigmoid(golden *g) { activate(g, LS_ACT_SIGMOID); }

static void gate_with(golden *g, ls_gate_fn fn) {
    EACH_SHAPE(s) {
        size_t n = s->rows * s->stride;
        float *gate = fresh(g, n), *up = fresh(g, n), *dy = fresh(g, n), *y = fresh(g, n);
        g->k->act.gated_forward(&(ls_gated_call){.fn = fn,
                                                 .y = y,
                                                 .y_stride = s->stride,
                                                 .gate = gate,
                                                 .up = up,
                                                 .in_stride = s->stride,
                                                 .rows = s->rows,
                                                 .columns = s->C});
        keep(g, y, n);
        g->k->act.gated_backward(&(ls_gated_call){.fn = fn,
                                                  .dgate = gate,
                                                  .dup = up,
                                                  .din_stride = s->stride,
                                                  .dy = dy,
                                                  .dy_stride = s->stride,
                                                  .gate = gate,
                                                  .up = up,
                                                  .in_stride = s->stride,
                                                  .rows = s->rows,
                                                  .columns = s->C});
        keep(g, gate, n), keep(g, up, n);
    }
}

static void gated(golden *g) { gate_with(g, LS_GATE_SILU); }
static void gated_gelu(golden *g) { gate_with(g, LS_GATE_GELU); }

static void bias(golden *g) {
    EACH_SHAPE(s) {
        size_t n = s->rows * s->stride, cut = s->C / 2;
        float *c = fresh(g, n), *b = fresh(g, s->C), *pre = fresh(g, n), *y = fresh(g, n), *db = fresh(g, s->C);
        g->k->act.bias_gelu_forward(&(ls_bias_gelu_call){.y = y,
                                                         .y_stride = s->stride,
                                                         .pre = pre,
                                                         .pre_stride = s->stride,
                                                         .c = c,
                                                         .c_stride = s->stride,
                                                         .bias = b,
                                                         .rows = s->rows,
                                                         .columns = s->C});
        keep(g, y, n), keep(g, pre, n);
        g->k->act.bias_grad(db, c, s->stride, s->rows, 0, cut);
        g->k->act.bias_grad(db, c, s->stride, s->rows, cut, s->C);
        keep(g, db, s->C);
    }
}

static void residual(golden *g) {
    float *a = fresh(g, FLAT), *b = fresh(g, FLAT);
    g->k->act.residual(a, a, b, FLAT);
    keep(g, a, FLAT);
}

/* ---- positions, tokens ------------------------------------------------------------------------------------------- */

static void rope(golden *g) {
    enum { ROWS = 13, HEADS = 3, PERIOD = 7 };
    static const size_t head_sizes[] = {2, 34, 64};
    for (int i = 0; i < 3; i++) {
        size_t d = head_sizes[i], stride = HEADS * (d + GAP), n = ROWS * stride;
        ls_rope_call call = {.y_row_stride = stride, .y_head_stride = d + GAP, .x_row_stride = stride};
        call.x_head_stride = d + GAP, call.rows = ROWS, call.heads = HEADS, call.d = d;
        call.position0 = 3, call.period = PERIOD;
        call.cos = fresh(g, PERIOD * d / 2), call.sin = fresh(g, PERIOD * d / 2);
        call.x = fresh(g, n), call.y = fresh(g, n);
        g->k->rope.forward(&call);
        keep(g, call.y, n);
        g->k->rope.backward(&call);
        keep(g, call.y, n);
    }
}

static void embed(golden *g) {
    enum { ROWS = 23, VOCABULARY = 9, PERIOD = 5 };
    static const size_t columns[] = {1, 31, 96};
    for (int i = 0; i < 3; i++) {
        size_t C = columns[i], n = ROWS * (C + GAP), cut = C / 2;
        int32_t ids[ROWS];
        ls_rng_key key = ls_rng_key_make(20, g->fills++, C);
        for (int r = 0; r < ROWS; r++) ids[r] = (int32_t)ls_rng_below(key, (uint64_t)r, VOCABULARY + 2);
        ls_embed_tokens tokens = {.ids = ids, .id_begin = 1, .id_end = 1 + VOCABULARY, .rows = ROWS, .C = C};
        float *token = fresh(g, VOCABULARY * C), *position = fresh(g, PERIOD * C), *y = fresh(g, n);
        float *dtoken = fresh(g, VOCABULARY * C), *dposition = fresh(g, PERIOD * C);
        g->k->embed.forward(&(ls_embed_call){y, C + GAP, token, LS_F32, position, 2, PERIOD, &tokens});
        keep(g, y, n);
        g->k->embed.forward(&(ls_embed_call){y, C + GAP, token, LS_F32, NULL, 2, PERIOD, &tokens});
        keep(g, y, n);
        g->k->embed.token_grad(dtoken, y, C + GAP, &tokens, 0, cut);
        g->k->embed.token_grad(dtoken, y, C + GAP, &tokens, cut, C);
        g->k->embed.position_grad(dposition, y, C + GAP, 2, PERIOD, ROWS, C, 0, cut);
        g->k->embed.position_grad(dposition, y, C + GAP, 2, PERIOD, ROWS, C, cut, C);
        keep(g, dtoken, VOCABULARY * C), keep(g, dposition, PERIOD * C);
    }
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

static void loss(golden *g) {
    enum { V = 1003, SLICES = 5 };
    static const size_t bounds[SLICES + 1] = {0, 1, 17, 17, 400, V};
    const ls_loss_kernels *k = &g->k->loss;
    for (int row = 0; row < 3; row++) {
        float *z = fresh(g, V), *dz = take(g, V), parts_of_row[2];
        ls_loss_row whole = k->row(dz, z, bounds, SLICES, 399, 0x1p-3f);
        float three[3] = {whole.m, whole.l, whole.loss};
        keep(g, three, 3), keep(g, dz, V);
        parts_of_row[0] = k->slice_max(z + 17, 383);
        parts_of_row[1] = k->slice_sum(z + 17, 383, whole.m);
        keep(g, parts_of_row, 2);
        k->slice_grad(dz, z, 400, whole.m, whole.l, LS_LOSS_NO_TARGET, 2.0f);
        keep(g, dz, 400);
        float value = k->value(z[5], whole.m, whole.l);
        keep(g, &value, 1);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Random numbers of a type. */
static void *fresh_of(golden *g, size_t n, ls_dtype act) {
    float *wide = fresh(g, n);
    if (act == LS_F32) return wide;
    uint16_t *half = (uint16_t *)(void *)take(g, (n + 1) / 2);
    (act == LS_BF16 ? g->k->convert.f32_to_bf16 : g->k->convert.f32_to_f16)(half, wide, n);
    return half;
}

static void keep_of(golden *g, const void *values, size_t n, ls_dtype act) {
    if (act == LS_F32)
        keep(g, values, n);
    else
        keep_bytes(g, values, n * sizeof(uint16_t));
}

static void attention_case(golden *g, ls_dtype act, size_t T, size_t heads, size_t kv_heads, size_t d,
                           size_t first_query) {
    size_t head = d + GAP, row = heads * head, kv_row = kv_heads * head, rows = T - first_query, stats = heads * rows;
    ls_attention a = {.T = T, .heads = heads, .kv_heads = kv_heads, .head_size = d, .first_query = first_query};
    a.act = act;
    float *scratch = take(g, ls_attention_scratch_elems(&a));
    a.scale = 0.37f, a.stat_stride = rows;
    a.q = (ls_attention_in){fresh_of(g, rows * row, act), row, head};
    a.k = (ls_attention_in){fresh_of(g, T * kv_row, act), kv_row, head};
    a.v = (ls_attention_in){fresh_of(g, T * kv_row, act), kv_row, head};
    a.o = (ls_attention_out){fresh_of(g, rows * row, act), row, head};
    a.m = fresh(g, stats), a.l = fresh(g, stats), a.dots = fresh(g, stats);
    a.dout = (ls_attention_in){fresh_of(g, rows * row, act), row, head};
    a.dq = (ls_attention_out){fresh_of(g, rows * row, act), row, head};
    a.dk = (ls_attention_out){fresh_of(g, T * kv_row, act), kv_row, head};
    a.dv = (ls_attention_out){fresh_of(g, T * kv_row, act), kv_row, head};
    size_t cut = first_query + rows / 3;
    g->k->attention.forward(&a, 0, heads, first_query, cut, scratch);
    g->k->attention.forward(&a, 0, heads, cut, T, scratch);
    keep_of(g, a.o.at, rows * row, act), keep(g, a.m, stats), keep(g, a.l, stats);
    if (first_query > 0) return;
    g->k->attention.backward_dots(&a, 0, heads, 0, T);
    g->k->attention.backward_queries(&a, 0, heads, 0, cut, scratch);
    g->k->attention.backward_queries(&a, 0, heads, cut, T, scratch);
    for (size_t h = 0; h < kv_heads; h++) {
        g->k->attention.backward_keys(&a, h, 0, cut, scratch);
        g->k->attention.backward_keys(&a, h, cut, T, scratch);
    }
    keep(g, a.dots, stats), keep_of(g, a.dq.at, rows * row, act);
    keep_of(g, a.dk.at, T * kv_row, act), keep_of(g, a.dv.at, T * kv_row, act);
}

static void attention_of(golden *g, ls_dtype act) {
    attention_case(g, act, 1, 1, 1, 1, 0);
    attention_case(g, act, 37, 4, 2, 17, 0);
    attention_case(g, act, 133, 2, 1, 64, 0);
    attention_case(g, act, 90, 3, 3, 40, 61);
}

static void attention(golden *g) { attention_of(g, LS_F32); }
static void attention_bf16(golden *g) { attention_of(g, LS_BF16); }
static void attention_f16(golden *g) { attention_of(g, LS_F16); }

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

static void adamw(golden *g) {
    ls_update_step step = {.rule = LS_OPTIMIZER_ADAMW,
                           .factor = 0.7f,
                           .beta1 = 0.9f,
                           .beta1_rest = 0.1f,
                           .beta2 = 0.95f,
                           .beta2_rest = 0.05f};
    step.rate = 3e-3f, step.root = 1.3f, step.epsilon = 1e-8f, step.decay = 0.999f;
    float *w = fresh(g, FLAT), *m = fresh(g, FLAT), *v = fresh(g, FLAT), *grad = fresh(g, FLAT);
    uint16_t *half = fresh_halves(g, FLAT);
    for (int i = 0; i < FLAT && g->of == PLAIN; i++) v[i] = fabsf(v[i]);
    g->k->optim.update(
        &(ls_update_piece){
            .w = w, .moment = {m, v}, .copy = half, .copy_dtype = LS_BF16, .g = grad, .step = &step, .n = FLAT},
        0, FLAT);
    g->k->optim.update(
        &(ls_update_piece){
            .w = w, .moment = {m, v}, .copy = NULL, .copy_dtype = LS_BF16, .g = grad, .step = &step, .n = FLAT},
        0, FLAT);
    keep(g, w, FLAT), keep(g, m, FLAT), keep(g, v, FLAT), keep_bytes(g, half, FLAT * sizeof *half);
}

static void sgd(golden *g) {
    ls_update_step step = {
        .rule = LS_OPTIMIZER_SGD, .factor = 0.7f, .rate = 3e-3f, .momentum = 0.9f, .weight_decay = 0.01f};
    float *w = fresh(g, FLAT), *b = fresh(g, FLAT), *grad = fresh(g, FLAT);
    uint16_t *half = fresh_halves(g, FLAT);
    g->k->optim.update(
        &(ls_update_piece){
            .w = w, .moment = {NULL}, .copy = half, .copy_dtype = LS_BF16, .g = grad, .step = &step, .n = FLAT},
        0, FLAT);
    g->k->optim.update(
        &(ls_update_piece){
            .w = w, .moment = {b}, .copy = NULL, .copy_dtype = LS_BF16, .g = grad, .step = &step, .n = FLAT},
        0, FLAT);
    step.nesterov = 1;
    g->k->optim.update(
        &(ls_update_piece){
            .w = w, .moment = {b}, .copy = NULL, .copy_dtype = LS_BF16, .g = grad, .step = &step, .n = FLAT},
        0, FLAT);
    keep(g, w, FLAT), keep(g, b, FLAT), keep_bytes(g, half, FLAT * sizeof *half);
}

static void squares(golden *g) {
    double sums[FLAT / LS_SQUARE_BLOCK + 1];
    float *x = fresh(g, FLAT), *y = take(g, FLAT);
    g->k->optim.square_sums(sums, x, FLAT);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (isnan(sums[i])) sums[i] = (double)NAN;
    keep_bytes(g, sums, sizeof sums);
    g->k->optim.scale(y, x, 0.3f, FLAT);
    keep(g, y, FLAT);
}

/* ---- formats, sums ----------------------------------------------------------------------------------------------- */

static void convert(golden *g) {
    float *x = fresh(g, FLAT), *y = take(g, FLAT);
    uint16_t *half = fresh_halves(g, FLAT);
    g->k->convert.bf16_to_f32(y, half, FLAT);
    keep(g, y, FLAT);
    g->k->convert.f16_to_f32(y, half, FLAT);
    keep(g, y, FLAT);
    g->k->convert.f32_to_bf16(half, x, FLAT);
    keep_bytes(g, half, FLAT * sizeof *half);
    g->k->convert.f32_to_f16(half, x, FLAT);
    keep_bytes(g, half, FLAT * sizeof *half);
}

static void add(golden *g) {
    static uint64_t whole[2][FLAT];
    float *a = fresh(g, FLAT), *b = fresh(g, FLAT), *y = take(g, FLAT);
    ls_rng_key key = ls_rng_key_make(20, g->fills++, 0);
    for (uint64_t i = 0; i < 2 * FLAT; i++) whole[i / FLAT][i % FLAT] = ls_rng_u64(key, i);
    g->k->add.add_f32(y, a, b, FLAT);
    keep(g, y, FLAT);
    g->k->add.add_two_f32(a, y, a, b, FLAT);
    keep(g, a, FLAT), keep(g, y, FLAT);
    g->k->add.add_i64(whole[0], whole[0], whole[1], FLAT);
    keep_bytes(g, whole[0], sizeof whole[0]);
    g->k->add.widen_bf16(y, fresh_halves(g, FLAT), FLAT);
    keep(g, y, FLAT);
    g->k->add.copy_stream(b, y, FLAT * sizeof *b);
    g->k->add.fence_stream();
    keep(g, b, FLAT);
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

static void pooling(golden *g) {
    static const size_t channels[] = {1, 17, 64};
    for (size_t i = 0; i < 3; i++) {
        enum { IMAGES = 2, H = 7, W = 9 };
        ls_pooling_call c = {IMAGES, H, W, channels[i], {3, 2, 2, 3, 1, 1}, i == 1, .x = NULL};
        size_t rows = IMAGES * ls_window_rows(&c.window, H), in = IMAGES * H * W * channels[i];
        size_t out = rows * ls_window_columns(&c.window, W) * channels[i];
        uint32_t taps[IMAGES * H * W * 64];
        const ls_pooling_kernels *k = &g->k->pooling;
        c.x = fresh(g, in), c.dy = fresh(g, out), c.y = take(g, out), c.dx = take(g, in), c.taps = taps;
        k->max_forward(&c, 0, rows);
        k->max_backward(&c, 0, IMAGES * H);
        keep(g, c.y, out), keep(g, c.dx, in), keep_bytes(g, taps, out * sizeof *taps);
        k->mean_forward(&c, 0, rows);
        k->mean_backward(&c, 0, IMAGES * H);
        keep(g, c.y, out), keep(g, c.dx, in);
    }
}

static void batch_norm(golden *g) {
    EACH_SHAPE(s) {
        size_t C = s->C, n = s->rows * C, cut = C / 3;
        const float *x = fresh(g, n), *dy = fresh(g, n), *w = fresh(g, C), *b = fresh(g, C), *residual = fresh(g, n);
        float *mean = fresh(g, C), *rstd = fresh(g, C), *t = fresh(g, C);
        float *y = take(g, n), *dx = take(g, n), *dr = take(g, n), *sum = fresh(g, C), *dot = fresh(g, C);
        const ls_batch_norm_kernels *k = &g->k->batch_norm;
        ls_batch_norm_call call = {.pixels = s->rows, .channels = C, .x = x, .w = w, .b = b, .residual = residual};
        call.relu = true, call.y = y, call.mean = mean, call.rstd = rstd, call.sums = sum;
        call.dy = dy, call.dx = dx, call.dresidual = dr, call.sum = sum, call.dot = dot;
        k->squares(&call, 0, cut);
        k->squares(&call, cut, C);
        k->apply(&call);
        k->grad_sums(&call, 0, cut);
        k->grad_sums(&call, cut, C);
        call.dot = t;
        k->input_grad(&call);
        keep(g, y, n), keep(g, dx, n), keep(g, dr, n), keep(g, sum, C), keep(g, dot, C);
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(golden *g);
    const char *hash;
} cases[] = {
    {"layer norm", layer_norm, "5174e2069e8f79a03aee4522b751a08e"},
    {"rms norm", rms_norm, "de56c52a1d033e6edee5746d363eda93"},
    {"gelu", gelu, "d4f75905282296450fac4551b481aae0"},
    {"silu", silu, "159ebdfb9d6fc1f32c7e7f7f859476e3"},
    {"relu", relu, "df5a4977c98ab7954376d11efe6aa7c0"},
    {"sigmoid", sigmoid, "96d1a1358057659e79ff26441b59bf86"},
    {"gated", gated, "7871be02f827904e1524ac0acc322183"},
    {"gated gelu", gated_gelu, "90c00c4b3325307481a1606c465c2091"},
    {"bias", bias, "3d645138da58b99783bd967fed8adc1b"},
    {"residual", residual, "fc2e79ca7a53b7198d1efdd759a501b8"},
    {"rope", rope, "8a8f1bca085584c9369843129246827e"},
    {"embed", embed, "91c88272098c7a72cc5e5711130c9bd6"},
    {"loss", loss, "67a4e4e5dd1bf48340090ede851a7594"},
    {"attention", attention, "50acf991b9abfa96404e3da1eef195e9"},
    {"attention bf16", attention_bf16, "b7f646d91d522a63b7b3e95d5af34433"},
    {"attention fp16", attention_f16, "12fe71396ee410744f200d0416eaa610"},
    {"adamw", adamw, "9639c2165b0d167f52b9b59068270701"},
    {"sgd", sgd, "5ec9cc758f0884eb9b791755998b7950"},
    {"squares", squares, "11de6f28280fce6d3c99a82079deb037"},
    {"convert", convert, "0ce6076c7ae85694c8c2c935af8378df"},
    {"pooling", pooling, "196de158a7ed0d68de9c1e7d2d180413"},
    {"batch norm", batch_norm, "09b466f7fbd3816bb9a6913b04059e5a"},
    {"add", add, "ecb4203d09ac5f983bebfecb46ff1304"},
};

static int run_isa(const ls_kernels *k) {
    static golden g;
    int wrong = 0;
    print_message("kernels: %s\n", k->isa);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[LS_HASH_TEXT_BYTES];
        g = (golden){.k = k};
        for (int of = PLAIN; of <= WILD; of++) {
            g.of = (kind)of;
            g.used = 0;
            cases[c].run(&g);
        }
        ls_hash_text(ls_hash_combine(g.hashes, (size_t)g.count), text);
        if (strcmp(text, cases[c].hash) == 0) continue;
        print_error("%s: %s has the hash %s\n", k->isa, cases[c].name, text);
        wrong++;
    }
    return wrong;
}

static void test_golden(void **state) {
    (void)state;
    int wrong = 0;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        ls_kernels k;
        if (!ls_cpu_use((ls_isa)isa)) continue;
        ls_kernels_fill(&k, (2u << isa) - 1);
        wrong += run_isa(&k);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
