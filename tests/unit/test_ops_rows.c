/* test_ops_rows.c: operations on rows, with the bits of one direct call of the portable kernel, whatever the threads
 * and the ISA: norms, gates, embeddings, rotation, loss. All memory around the results is compared too. Sums over rows
 * are in test_ops_groups.c. */
#include "ops.h"
#include "sample.h"

/* ---- norms, gates, embeddings ------------------------------------------------------------------------------------ */

/* A twin's memory on the device, or that of the reference. */
static float *side(twin t, bool ref) { return ref ? t.ref : t.dev; }

static void check_norm(size_t rows, size_t C, bool rms) {
    size_t s = C + (C % 4 ? 3 : 4);
    twin x = make(rows * s), w = make(C), b = make(C), y = make(rows * s), mean = make(rows), rstd = make(rows);
    twin dy = make(rows * C), dx = make(rows * s);
    ls_norm_call calls[2];
    for (int ref = 0; ref < 2; ref++)
        calls[ref] = (ls_norm_call){.rms = rms,
                                    .rows = rows,
                                    .C = C,
                                    .eps = 1e-5f,
                                    .x = side(x, ref),
                                    .x_stride = s,
                                    .w = side(w, ref),
                                    .b = rms ? NULL : side(b, ref),
                                    .y = side(y, ref),
                                    .y_stride = s,
                                    .mean = rms ? NULL : side(mean, ref),
                                    .rstd = side(rstd, ref),
                                    .dy = side(dy, ref),
                                    .dy_stride = C,
                                    .dx = side(dx, ref),
                                    .dx_stride = s};
    ok(ops->norm_forward(device, &calls[0]));
    ok(ops->norm_backward(device, &calls[0]));
    portable.norm.forward(&calls[1]);
    portable.norm.backward(&calls[1]);
    check(rms ? "RMS norm" : "layer norm", rows, C);
}

static void check_norms(size_t rows, size_t C) {
    check_norm(rows, C, false);
    check_norm(rows, C, true);
}

static void check_gates_of(ls_gate_fn fn, size_t rows, size_t C) {
    size_t s = 2 * C + 1;
    twin in = make(rows * s), y = make(rows * C), dy = make(rows * C), din = make(rows * s), bias = make(C);
    twin pre = make(rows * s), z = make(rows * C);
    ls_gated_call gated[2];
    ls_bias_gelu_call biased[2];
    for (int ref = 0; ref < 2; ref++) {
        gated[ref] = (ls_gated_call){.fn = fn,
                                     .rows = rows,
                                     .columns = C,
                                     .gate = side(in, ref),
                                     .up = side(in, ref) + C,
                                     .in_stride = s,
                                     .y = side(y, ref),
                                     .y_stride = C,
                                     .dy = side(dy, ref),
                                     .dy_stride = C,
                                     .dgate = side(din, ref),
                                     .dup = side(din, ref) + C,
                                     .din_stride = s};
        biased[ref] =
            (ls_bias_gelu_call){rows, C, side(in, ref), s, side(bias, ref), side(pre, ref), s, side(z, ref), C};
    }
    ok(ops->gated_forward(device, &gated[0]));
    ok(ops->gated_backward(device, &gated[0]));
    ok(ops->bias_gelu_forward(device, &biased[0]));
    portable.act.gated_forward(&gated[1]);
    portable.act.gated_backward(&gated[1]);
    portable.act.bias_gelu_forward(&biased[1]);
    check("gates", rows, C);
}

static void check_gates(size_t rows, size_t C) {
    check_gates_of(LS_GATE_SILU, rows, C);
    check_gates_of(LS_GATE_GELU, rows, C);
}

static void check_embed(size_t rows, size_t C) {
    enum { V = 13, PERIOD = 11, BEGIN = 5 };
    const ls_embed_kernels *k = &portable.embed;
    twin ids = make_ids(rows, V, 1), token = make(V * C), position = make(PERIOD * C), y = make(rows * (C + 1));
    twin copy = make(rows * C);
    ls_embed_tokens dev = {ids_of(ids.dev), 0, V, rows, C}, ref = {ids_of(ids.ref), 0, V, rows, C};
    ok(ops->embed_forward(device,
                          &(ls_embed_call){y.dev, C + 1, token.dev, LS_F32, position.dev, BEGIN, PERIOD, &dev}));
    ok(ops->embed_forward(device, &(ls_embed_call){copy.dev, C, token.dev, LS_F32, NULL, 0, 0, &dev}));
    k->forward(&(ls_embed_call){y.ref, C + 1, token.ref, LS_F32, position.ref, BEGIN, PERIOD, &ref});
    k->forward(&(ls_embed_call){copy.ref, C, token.ref, LS_F32, NULL, 0, 0, &ref});
    check("embed", rows, C);
}

static void check_dropout(size_t rows, size_t C) {
    twin x = make(rows * (C + 2)), residual = make(rows * C), y[3] = {make(rows * C), make(rows * C), make(rows * C)};
    for (int i = 0; i < 3; i++) {
        ls_dropout_call c = {.rows = rows, .columns = C, .drop.key = ls_rng_key_make(5, 6, 7), .drop.first = 1001};
        ls_drop_set_rate(&c.drop, 0.3);
        c.x_stride = i == 2 ? C : C + 2, c.y_stride = C, c.residual_stride = C;
        c.x = x.dev, c.y = y[i].dev, c.residual = i == 0 ? residual.dev : NULL;
        ok(ops->dropout_add(device, &c));
        c.x = x.ref, c.y = y[i].ref, c.residual = i == 0 ? residual.ref : NULL;
        portable.dropout.dropout_add(&c);
    }
    check("dropout", rows, C);
}

/* A call with some rows of each sequence is a call for each sequence. */
static void check_dropout_with_gaps(size_t rows, size_t C, size_t together, size_t gap) {
    twin x = make(rows * C), y[2] = {make(rows * C), make(rows * C)};
    for (int i = 0; i < 2; i++) {
        ls_dropout_call c = {.rows = rows, .columns = C, .drop.key = ls_rng_key_make(5, 6, 7), .drop.first = 17};
        ls_drop_set_rate(&c.drop, 0.3);
        c.drop.together = together, c.drop.gap = gap;
        c.x_stride = c.y_stride = c.residual_stride = C;
        c.x = x.dev, c.y = y[i].dev, c.residual = i == 0 ? x.dev : NULL;
        ok(ops->dropout_add(device, &c));
        c.drop.gap = 0;
        for (size_t row = 0, sequence = 0; row < rows; row += together, sequence++) {
            c.rows = rows - row < together ? rows - row : together;
            c.drop.first = 17 + sequence * (together + gap);
            c.x = x.ref + row * C, c.y = y[i].ref + row * C, c.residual = i == 0 ? x.ref + row * C : NULL;
            portable.dropout.dropout_add(&c);
        }
    }
    check("dropout with gaps", rows, C);
}

static void check_rope(size_t rows, size_t heads) {
    enum { D = 34, PERIOD = 7 };
    size_t s = heads * D + 2;
    twin x = make(rows * s), y = make(rows * heads * D), dx = make(rows * s);
    twin cosines = make(PERIOD * D / 2), sines = make(PERIOD * D / 2);
    ls_rope_call c = {LS_F32, y.dev, heads * D, D, x.dev, s, D, rows, heads, D, cosines.dev, sines.dev, 3, PERIOD};
    ls_rope_call r = {LS_F32, y.ref, heads * D, D, x.ref, s, D, rows, heads, D, cosines.ref, sines.ref, 3, PERIOD};
    ok(ops->rope_forward(device, &c));
    portable.rope.forward(&r);
    c.y = dx.dev, c.y_row_stride = s, r.y = dx.ref, r.y_row_stride = s;
    ok(ops->rope_backward(device, &c));
    portable.rope.backward(&r);
    check("rope", rows, heads);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* Whole rows, and the same rows held by two workers: slices 0 … 3 and 4 … 5, the second behind a column of others. */
static void check_loss(size_t rows, size_t V) {
    enum { SLICES = 6, HELD = 4 };
    size_t s = V + 5, bounds[SLICES + 1], second[SLICES - HELD + 1];
    for (size_t i = 0; i <= SLICES; i++) bounds[i] = i * V / SLICES;
    size_t column = bounds[HELD] - 1;
    for (size_t i = HELD; i <= SLICES; i++) second[i - HELD] = bounds[i] - column;
    twin z = make(rows * s), ids = make_ids(rows, V, 0), m = make(rows), l = make(rows), loss = make(rows);
    twin dz = make(rows * s), shared_dz = make(rows * s), shared[5], sums = make(SLICES * rows), most = make(2 * rows);
    twin at_target = make(2 * rows), alone = make(rows);
    for (int i = 0; i < 5; i++) shared[i] = make(rows);
    ls_loss_call c = {.rows = rows,
                      .z = z.dev,
                      .z_stride = s,
                      .bounds = bounds,
                      .slices = SLICES,
                      .targets = ids_of(ids.dev),
                      .m = m.dev,
                      .l = l.dev,
                      .loss = loss.dev,
                      .dz = dz.dev,
                      .dz_stride = s,
                      .g = 0.25f};
    ok(ops->loss_rows(device, &c));
    /* A single slice: few chains. */
    const size_t ends[2] = {0, V};
    twin single = make(rows);
    ls_loss_call one = c;
    one.bounds = ends, one.slices = 1, one.m = one.l = NULL, one.dz = NULL, one.loss = single.dev;
    ok(ops->loss_rows(device, &one));
    for (size_t r = 0; r < rows; r++)
        single.ref[r] =
            portable.loss.row(dz.ref + r * s, z.ref + r * s, ends, 1, (size_t)ids_of(ids.ref)[r], 0.25f).loss;
    c.m = c.l = NULL, c.dz = NULL, c.loss = alone.dev;
    ok(ops->loss_rows(device, &c));
    for (size_t r = 0; r < rows; r++) {
        ls_loss_row row =
            portable.loss.row(dz.ref + r * s, z.ref + r * s, bounds, SLICES, (size_t)ids_of(ids.ref)[r], 0.25f);
        m.ref[r] = row.m, l.ref[r] = row.l, loss.ref[r] = alone.ref[r] = row.loss;
    }

    ls_loss_call half[2] = {c, c};
    half[0].slices = HELD, half[1].slices = SLICES - HELD, half[1].bounds = second;
    half[1].z = z.dev + column, half[1].id_begin = (int32_t)column;
    const float *maxima[2], *logits[2];
    const void *parts[SLICES];
    for (int i = 0; i < 2; i++) {
        half[i].m = most.dev + (size_t)i * rows, half[i].z_target = at_target.dev + (size_t)i * rows;
        maxima[i] = half[i].m, logits[i] = half[i].z_target;
        ok(ops->loss_max(device, &half[i]));
    }
    ok(ops->max(device, &(ls_max_call){shared[0].dev, maxima, 2, rows}));
    ok(ops->max(device, &(ls_max_call){shared[1].dev, logits, 2, rows}));
    for (int i = 0; i < SLICES; i++) parts[i] = sums.dev + (size_t)i * rows;
    for (int i = 0; i < 2; i++) {
        half[i].m = shared[0].dev, half[i].sums = sums.dev + (i ? HELD * rows : 0);
        ok(ops->loss_sums(device, &half[i]));
    }
    ok(ops->tree_sum(device, &(ls_tree_sum_call){shared[2].dev, parts, LS_F32, SLICES, rows}));
    for (int i = 0; i < 2; i++) {
        half[i].z_target = shared[1].dev, half[i].l = shared[2].dev, half[i].loss = shared[3 + i].dev;
        half[i].dz = shared_dz.dev + (i ? column : 0);
        ok(ops->loss_values(device, &half[i]));
        ok(ops->loss_grad(device, &half[i]));
    }
    /* Both ways the same bits; what passed between the workers was seen in them. */
    for (size_t r = 0; r < rows; r++) {
        shared[0].ref[r] = m.ref[r], shared[1].ref[r] = z.ref[r * s + (size_t)ids_of(ids.ref)[r]];
        shared[2].ref[r] = l.ref[r], shared[3].ref[r] = shared[4].ref[r] = loss.ref[r];
        memcpy(shared_dz.ref + r * s, dz.ref + r * s, V * sizeof(float));
    }
    ok(ls_device_copy_out(device, sums.ref, sums.dev, sums.elems * sizeof(float)));
    ok(ls_device_copy_out(device, most.ref, most.dev, most.elems * sizeof(float)));
    ok(ls_device_copy_out(device, at_target.ref, at_target.dev, at_target.elems * sizeof(float)));
    check("loss", rows, V);
}

/* ---- every device ------------------------------------------------------------------------------------------------ */

/* From one number to many pieces of work, cut by rows and by columns. */
static const size_t shapes[][2] = {{1, 1}, {3, 7}, {1, 20011}, {37, 1009}, {521, 67}, {530, 36}, {3, 1600}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void all_norms(void) {
    for (int i = sample_first(3); i < N_SHAPES; i += sample_every(3)) check_norms(shapes[i][0], shapes[i][1]);
}

static void all_gates(void) {
    for (int i = sample_first(3); i < N_SHAPES; i += sample_every(3)) check_gates(shapes[i][0], shapes[i][1]);
}

static void all_embeddings(void) {
    for (int i = sample_first(3); i < N_SHAPES; i += sample_every(3)) check_embed(shapes[i][0], shapes[i][1]);
}

static void all_dropouts(void) {
    for (int i = sample_first(3); i < N_SHAPES; i += sample_every(3)) check_dropout(shapes[i][0], shapes[i][1]);
    check_dropout_with_gaps(12, 36, 4, 5);
    check_dropout_with_gaps(7, 37, 3, 1);
    check_dropout_with_gaps(300, 5, 1, 3);
}

static void all_rotations(void) {
    check_rope(1, 1);
    check_rope(7, 3);
    check_rope(521, 2);
}

static void all_losses(void) {
    check_loss(1, 7);
    check_loss(9, 8009); /* a block of a GPU has three rows in turn */
    check_loss(521, 61);
    check_loss(4, 13819); /* a full block of a GPU, which exchanges rows; 13824 columns are whole packs */
    check_loss(2, 60007); /* more than the shared memory of a GPU */
}

ON_EVERY_DEVICE(norms)
ON_EVERY_DEVICE(gates)
ON_EVERY_DEVICE(embeddings)
ON_EVERY_DEVICE(dropouts)
ON_EVERY_DEVICE(rotations)
ON_EVERY_DEVICE(losses)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),    cmocka_unit_test(test_gates),     cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_dropouts), cmocka_unit_test(test_rotations), cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
