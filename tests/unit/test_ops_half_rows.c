/* test_ops_half_rows.c: operations on rows of 16-bit tensors: the bits of the portable fp32 kernel on widened inputs,
 * rounded once by the test's own code; strides, in place, on every ISA and number of threads. */
#include "halves.h"
#include "sample.h"

static ls_dtype type;

static uint16_t *at(half h, size_t i) { return halves_of(h.t.dev) + i; }

/* ---- norms ------------------------------------------------------------------------------------------------------- */

typedef struct norm_case {
    twin x, w, b, mean, rstd, dx;
    half y, dy;
    size_t rows, C, stride;
} norm_case;

static ls_norm_call norm_call(const norm_case *n, bool add) {
    return (ls_norm_call){.rows = n->rows,
                          .C = n->C,
                          .act = type,
                          .eps = 1e-5f,
                          .x = n->x.dev,
                          .x_stride = n->stride,
                          .w = n->w.dev,
                          .b = n->b.dev,
                          .y = n->y.t.dev,
                          .y_stride = n->stride,
                          .mean = n->mean.dev,
                          .rstd = n->rstd.dev,
                          .dy = n->dy.t.dev,
                          .dy_stride = n->C,
                          .dx = n->dx.dev,
                          .dx_stride = n->stride,
                          .add = add};
}

/* With type LS_F32 dy is the widened tensor: then only the addition is new. */
static void check_norm(size_t rows, size_t C, bool rms, bool add, bool wide) {
    const ls_norm_kernels *k = &portable.norm;
    norm_case n = {.rows = rows, .C = C, .stride = C + (C % 4 ? 3 : 4)};
    size_t s = n.stride;
    n.x = make(rows * s), n.w = make(C), n.b = make(C), n.mean = make(rows), n.rstd = make(rows);
    n.dx = make(rows * s), n.y = make_half(rows * s, type), n.dy = make_half(rows * C, type);
    float *y = scratch_of(rows * s), *dx = scratch_of(rows * s);
    ls_norm_call c = norm_call(&n, add);
    if (wide) c.act = LS_F32, c.dy = widened(n.dy, rows * C).dev;
    if (rms) {
        k->forward(&(ls_norm_call){.rms = true,
                                   .y = y,
                                   .y_stride = s,
                                   .rstd = n.rstd.ref,
                                   .x = n.x.ref,
                                   .x_stride = s,
                                   .w = n.w.ref,
                                   .eps = 1e-5f,
                                   .rows = rows,
                                   .C = C});
        k->backward(&(ls_norm_call){.rms = true,
                                    .dx = dx,
                                    .dx_stride = s,
                                    .dy = n.dy.wide,
                                    .dy_stride = C,
                                    .x = n.x.ref,
                                    .x_stride = s,
                                    .w = n.w.ref,
                                    .rstd = n.rstd.ref,
                                    .rows = rows,
                                    .C = C});
        c.mean = NULL, c.b = NULL, c.rms = true;
    } else {
        k->forward(&(ls_norm_call){.y = y,
                                   .y_stride = s,
                                   .mean = n.mean.ref,
                                   .rstd = n.rstd.ref,
                                   .x = n.x.ref,
                                   .x_stride = s,
                                   .w = n.w.ref,
                                   .b = n.b.ref,
                                   .eps = 1e-5f,
                                   .rows = rows,
                                   .C = C});
        k->backward(&(ls_norm_call){.dx = dx,
                                    .dx_stride = s,
                                    .dy = n.dy.wide,
                                    .dy_stride = C,
                                    .x = n.x.ref,
                                    .x_stride = s,
                                    .w = n.w.ref,
                                    .mean = n.mean.ref,
                                    .rstd = n.rstd.ref,
                                    .rows = rows,
                                    .C = C});
    }
    if (!wide) ok(ops->norm_forward(device, &c));
    if (wide) {
        ok(ls_device_copy_in(device, n.mean.dev, n.mean.ref, rows * sizeof(float)));
        ok(ls_device_copy_in(device, n.rstd.dev, n.rstd.ref, rows * sizeof(float)));
    } else {
        expect_rows(n.y, s, y, s, rows, C);
    }
    ok(ops->norm_backward(device, &c));
    for (size_t r = 0; r < rows; r++)
        for (size_t i = r * s; i < r * s + C; i++) n.dx.ref[i] = add ? n.dx.ref[i] + dx[i] : dx[i];
    one_nan(n.dx);
    check_halves(rms ? "16-bit RMS norm" : "16-bit layer norm", rows, C);
}

/* ---- gates, bias, dropout ---------------------------------------------------------------------------------------- */

static void check_gates_of(ls_gate_fn fn, size_t rows, size_t C, bool same) {
    const ls_act_kernels *k = &portable.act;
    size_t s = 2 * C + 1;
    half in = make_half(rows * s, type), y = make_half(rows * C, type), dy = make_half(rows * C, type);
    half din = same ? in : make_half(rows * s, type);
    float *out = scratch_of(rows * C), *dgate = scratch_of(rows * C), *dup = scratch_of(rows * C);
    ls_gated_call c = {.fn = fn,
                       .rows = rows,
                       .columns = C,
                       .act = type,
                       .gate = in.t.dev,
                       .up = at(in, C),
                       .in_stride = s,
                       .y = y.t.dev,
                       .y_stride = C,
                       .dy = dy.t.dev,
                       .dy_stride = C,
                       .dgate = din.t.dev,
                       .dup = at(din, C),
                       .din_stride = s};
    ok(ops->gated_forward(device, &c));
    k->gated_forward(&(ls_gated_call){.fn = fn,
                                      .y = out,
                                      .y_stride = C,
                                      .gate = in.wide,
                                      .up = in.wide + C,
                                      .in_stride = s,
                                      .rows = rows,
                                      .columns = C});
    expect_rows(y, C, out, C, rows, C);
    ok(ops->gated_backward(device, &c));
    k->gated_backward(&(ls_gated_call){.fn = fn,
                                       .dgate = dgate,
                                       .dup = dup,
                                       .din_stride = C,
                                       .dy = dy.wide,
                                       .dy_stride = C,
                                       .gate = in.wide,
                                       .up = in.wide + C,
                                       .in_stride = s,
                                       .rows = rows,
                                       .columns = C});
    for (size_t r = 0; r < rows; r++) {
        expect(din, r * s, dgate + r * C, C);
        expect(din, r * s + C, dup + r * C, C);
    }
    check_halves("16-bit gates", rows, C);
}

static void check_gates(size_t rows, size_t C, bool same) {
    check_gates_of(LS_GATE_SILU, rows, C, same);
    check_gates_of(LS_GATE_GELU, rows, C, same);
}

static void check_bias(size_t rows, size_t C) {
    size_t s = C + 2;
    twin c = make(rows * s), bias = make(C), y = make(rows * C), copy = make(rows * C), same = make(rows * s);
    half sum = make_half(rows * (C + 1), type), plain = make_half(rows * C, type);
    c.ref[0] = NAN, c.ref[rows * s - 1] = 3.4e38f, bias.ref[C - 1] = 1e-40f;
    ok(ls_device_copy_in(device, c.dev, c.ref, rows * s * sizeof(float)));
    ok(ls_device_copy_in(device, bias.dev, bias.ref, C * sizeof(float)));
    ok(ops->bias_add(device, &(ls_bias_add_call){sum.t.dev, type, C + 1, c.dev, s, bias.dev, rows, C}));
    ok(ops->bias_add(device, &(ls_bias_add_call){plain.t.dev, type, C, c.dev, s, NULL, rows, C}));
    ok(ops->bias_add(device, &(ls_bias_add_call){y.dev, LS_F32, C, c.dev, s, bias.dev, rows, C}));
    ok(ops->bias_add(device, &(ls_bias_add_call){copy.dev, LS_F32, C, c.dev, s, NULL, rows, C}));
    ok(ops->bias_add(device, &(ls_bias_add_call){same.dev, LS_F32, s, same.dev, s, bias.dev, rows, C}));
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < C; i++) {
            float x = c.ref[r * s + i];
            copy.ref[r * C + i] = x, y.ref[r * C + i] = x + bias.ref[i], same.ref[r * s + i] += bias.ref[i];
        }
    expect_rows(sum, C + 1, y.ref, C, rows, C);
    expect_rows(plain, C, copy.ref, C, rows, C);
    one_nan(y);
    check_halves("bias", rows, C);
}

/* Every pair of types, the residual on and off; `same`: y is x, or the residual where y has 32 bits. */
static void check_dropout(size_t rows, size_t C, ls_dtype x_type, ls_dtype y_type, bool with_residual, bool same) {
    ls_dtype half_x = x_type == LS_F32 ? LS_BF16 : x_type, half_y = y_type == LS_F32 ? LS_BF16 : y_type;
    half x = make_half(rows * (C + 2), half_x), y = make_half(rows * C, half_y);
    twin wide_x = widened(x, rows * (C + 2)), wide_y = make(rows * C), residual = make(rows * C);
    float *out = scratch_of(rows * C);
    ls_dropout_call c = {.rows = rows, .columns = C, .drop.key = ls_rng_key_make(5, 6, 7), .drop.first = 1001};
    ls_drop_set_rate(&c.drop, 0.3);
    c.x_stride = C + 2, c.y_stride = c.residual_stride = C;
    c.x = x.wide, c.residual = with_residual ? residual.ref : NULL, c.y = out;
    portable.dropout.dropout_add(&c);
    c.x_dtype = x_type, c.y_dtype = y_type, c.residual = with_residual ? residual.dev : NULL;
    c.x = x_type == LS_F32 ? (void *)wide_x.dev : x.t.dev, c.y = y_type == LS_F32 ? (void *)wide_y.dev : y.t.dev;
    if (same && y_type == LS_F32 && with_residual) c.y = residual.dev;
    if (same && y_type != LS_F32 && x_type == y_type) c.y = x.t.dev, c.y_stride = C + 2;
    ok(ops->dropout_add(device, &c));
    if (c.y == residual.dev)
        memcpy(residual.ref, out, rows * C * sizeof(float)), one_nan(residual);
    else if (y_type == LS_F32)
        memcpy(wide_y.ref, out, rows * C * sizeof(float)), one_nan(wide_y);
    else
        expect_rows(c.y == x.t.dev ? x : y, c.y_stride, out, C, rows, C);
    check_halves("16-bit dropout", rows, C);
}

/* ---- embedding, rotation ----------------------------------------------------------------------------------------- */

static void check_embed(size_t rows, size_t C) {
    enum { V = 13, PERIOD = 11, BEGIN = 5 };
    const ls_embed_kernels *k = &portable.embed;
    twin ids = make_ids(rows, V, 1), position = make(PERIOD * C), y = make(rows * (C + 1)), copy = make(rows * C);
    half token = make_half(V * C, type);
    ls_embed_tokens dev = {ids_of(ids.dev), 0, V, rows, C}, ref = {ids_of(ids.ref), 0, V, rows, C};
    ok(ops->embed_forward(device,
                          &(ls_embed_call){y.dev, C + 1, token.t.dev, type, position.dev, BEGIN, PERIOD, &dev}));
    ok(ops->embed_forward(device, &(ls_embed_call){copy.dev, C, token.t.dev, type, NULL, 0, 0, &dev}));
    k->forward(&(ls_embed_call){y.ref, C + 1, token.wide, LS_F32, position.ref, BEGIN, PERIOD, &ref});
    k->forward(&(ls_embed_call){copy.ref, C, token.wide, LS_F32, NULL, 0, 0, &ref});
    one_nan(y);
    one_nan(copy);
    check_halves("16-bit embedding", rows, C);
}

/* Heads with `apart` elements between them in x; in place and not. */
static void check_rope(size_t rows, size_t heads, size_t d, size_t apart, bool same) {
    enum { PERIOD = 7 };
    size_t gap = d + apart, s = heads * gap + 2, ys = same ? s : heads * d, yh = same ? gap : d;
    half x = make_half(rows * s, type), y = same ? x : make_half(rows * heads * d, type);
    twin cosines = make(PERIOD * d / 2), sines = make(PERIOD * d / 2);
    float *out = scratch_of(rows * heads * d);
    for (int back = 0; back < (same ? 1 : 2); back++) {
        ls_rope_call r = {LS_F32, out, heads * d, d, x.wide, s, gap, rows, heads, d, cosines.ref, sines.ref, 3, PERIOD};
        ls_rope_call c = {type, y.t.dev, ys, yh, x.t.dev, s, gap, rows, heads, d, cosines.dev, sines.dev, 3, PERIOD};
        ok(back ? ops->rope_backward(device, &c) : ops->rope_forward(device, &c));
        if (back)
            portable.rope.backward(&r);
        else
            portable.rope.forward(&r);
        for (size_t i = 0; i < rows * heads; i++) expect(y, i / heads * ys + i % heads * yh, out + i * d, d);
    }
    check_halves("16-bit rotation", rows, heads * d);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* Columns 2 … V−1 are held, in three slices; some targets are elsewhere in loss_grad. `same`: dz lies over z. */
static void check_loss(size_t rows, size_t V, bool whole, bool same) {
    enum { SLICES = 3, FIRST = 2 };
    size_t s = V + 5, zs = same ? 2 * s : V + 1, bounds[SLICES + 1];
    for (size_t i = 0; i <= SLICES; i++) bounds[i] = FIRST + i * (V - FIRST) / SLICES;
    twin z = make(rows * s), ids = make(rows), m = make(rows), l = make(rows), loss = make(rows);
    half dz = make_half(rows * (V + 1), type);
    if (same) dz.t = z;
    float *out = scratch_of(V);
    int32_t *targets = (int32_t *)(void *)ids.ref;
    for (size_t r = 0; r < rows; r++)
        targets[r] = 40 + (whole ? FIRST : 0) + (int32_t)ls_rng_below(ls_rng_key_make(4, 1, V), r, V - FIRST);
    z.ref[FIRST] = -200, z.ref[rows * s - 6] = rows > 1 ? INFINITY : 3;
    ok(ls_device_copy_in(device, z.dev, z.ref, rows * s * sizeof(float)));
    ok(ls_device_copy_in(device, ids.dev, targets, rows * sizeof *targets));
    float *logits = scratch_of(rows * s);
    memcpy(logits, z.ref, rows * s * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        size_t target = (size_t)targets[r] - 40;
        bool held = target >= FIRST;
        ls_loss_row row = portable.loss.row(NULL, logits + r * s, bounds, SLICES, held ? target : FIRST, 0x1p-10f);
        m.ref[r] = row.m, l.ref[r] = row.l;
        if (whole) loss.ref[r] = row.loss;
        portable.loss.slice_grad(out, logits + r * s + FIRST, V - FIRST, row.m, row.l,
                                 held ? target - FIRST : LS_LOSS_NO_TARGET, 0x1p-10f);
        expect(dz, r * zs + FIRST, out, V - FIRST);
    }
    ls_loss_call c = {.rows = rows,
                      .z = z.dev,
                      .z_stride = s,
                      .bounds = bounds,
                      .slices = SLICES,
                      .targets = ids_of(ids.dev),
                      .id_begin = 40,
                      .m = m.dev,
                      .l = l.dev,
                      .loss = loss.dev,
                      .dz = dz.t.dev,
                      .dz_dtype = type,
                      .dz_stride = zs,
                      .g = 0x1p-10f};
    if (!whole) {
        ok(ls_device_copy_in(device, m.dev, m.ref, rows * sizeof(float)));
        ok(ls_device_copy_in(device, l.dev, l.ref, rows * sizeof(float)));
    }
    ok(whole ? ops->loss_rows(device, &c) : ops->loss_grad(device, &c));
    one_nan(m), one_nan(l), one_nan(loss);
    check_halves("16-bit gradient of the loss", rows, V);
}

/* ---- every device ------------------------------------------------------------------------------------------------ */

/* From one number to rows longer than a piece, and more rows than a task. */
static const size_t shapes[][2] = {{1, 1}, {3, 7}, {1, 5003}, {21, 1009}, {521, 31}, {7, 800}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void all_norms(void) {
    for (int i = sample_first(3); i < 2 * N_SHAPES; i += sample_every(3)) {
        size_t rows = shapes[i / 2][0], C = shapes[i / 2][1];
        type = half_types[i % 2];
        for (int kind = 0; kind < 6; kind++) check_norm(rows, C, kind % 2, kind >= 2, kind >= 4);
    }
}

static void all_gates(void) {
    for (int i = sample_first(3); i < 2 * N_SHAPES; i += sample_every(3)) {
        type = half_types[i % 2];
        check_gates(shapes[i / 2][0], shapes[i / 2][1], false);
        check_gates(shapes[i / 2][0], shapes[i / 2][1], true);
        check_bias(shapes[i / 2][0], shapes[i / 2][1]);
    }
}

static void all_dropouts(void) {
    for (int i = sample_first(3); i < N_SHAPES; i += sample_every(3))
        for (int t = 0; t < 9; t++) {
            check_dropout(shapes[i][0], shapes[i][1], (ls_dtype)(t / 3), (ls_dtype)(t % 3), t % 2, false);
            check_dropout(shapes[i][0], shapes[i][1], (ls_dtype)(t / 3), (ls_dtype)(t % 3), true, true);
        }
}

static void all_embeddings(void) {
    for (int i = sample_first(3); i < 2 * N_SHAPES; i += sample_every(3)) {
        type = half_types[i % 2];
        check_embed(shapes[i / 2][0], shapes[i / 2][1]);
    }
}

static void all_rotations(void) {
    for (int i = 0; i < 4; i++) {
        type = half_types[i % 2];
        check_rope(1, 1, 2, 0, i / 2);
        check_rope(3, 33, 64, 0, i / 2);
        check_rope(3, 7, 66, 3, i / 2);
        check_rope(521, 1, 34, 1, i / 2);
        check_rope(2, 2, 4102, 0, i / 2);
    }
}

static void all_losses(void) {
    for (int i = 0; i < 8; i++) {
        type = half_types[i % 2];
        check_loss(1, 9, i / 2 % 2, i / 4);
        check_loss(3, 5009, i / 2 % 2, i / 4);
        check_loss(521, 35, i / 2 % 2, i / 4);
        check_loss(2, 30014, i / 2 % 2, i / 4); /* by two blocks of a GPU */
    }
}

ON_EVERY_DEVICE(norms)
ON_EVERY_DEVICE(gates)
ON_EVERY_DEVICE(dropouts)
ON_EVERY_DEVICE(embeddings)
ON_EVERY_DEVICE(rotations)
ON_EVERY_DEVICE(losses)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),      cmocka_unit_test(test_gates),     cmocka_unit_test(test_dropouts),
        cmocka_unit_test(test_embeddings), cmocka_unit_test(test_rotations), cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
