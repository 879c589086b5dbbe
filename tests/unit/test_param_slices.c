/* test_param_slices.c: a worker's part of the widths and rows of a model, and the two crossings of the TP group: forked
 * workers against plain sums written here, and products over a row of them against those of one worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/log.h"
#include "layered.h"

/* ---- widths and rows --------------------------------------------------------------------------------------------- */

/* The widths are the rows that a model's parameters have in memory. */
static void check_widths(const ls_shape *shape, int S, int tp) {
    ls_model *model = NULL;
    size_t heads = 0, ids = 0, hidden = 0;
    assert_int_equal(ls_model_create(shape, S, &model), LS_OK);
    for (int t = 0; t < tp; t++) {
        ls_nn nn = {.shape = shape};
        int first = S / tp * t;
        ls_nn_take_slices(&nn, S, first, S / tp);
        ls_model_take_slices(model, first, S / tp);
        assert_int_equal(nn.tp.size, tp);
        assert_int_equal(nn.tp.index, t);
        assert_int_equal(nn.own.qkv, ls_model_find(model, "blocks.0.attn.qkv.weight")->local_rows);
        assert_int_equal(nn.own.query, ls_model_find(model, "blocks.0.attn.out.weight")->local_rows);
        assert_int_equal(nn.own.mlp, ls_model_find(model, "blocks.0.mlp.in.weight")->local_rows);
        assert_int_equal(nn.own.hidden, ls_model_find(model, "blocks.0.mlp.out.weight")->local_rows);
        const ls_param *table = ls_model_tokens(model);
        assert_int_equal(nn.own.vocabulary, table->local_rows);
        assert_int_equal(nn.own.first_id, table->first_row);
        assert_int_equal(nn.own.first_id, ids);
        assert_int_equal(nn.own.query, nn.own.heads * shape->head_size);
        assert_int_equal(nn.own.heads, nn.own.kv_heads * (shape->H / shape->kv_heads));
        assert_true(nn.own.kv_heads > 0);
        heads += nn.own.heads;
        ids += nn.own.vocabulary;
        hidden += nn.own.hidden;
    }
    assert_int_equal(heads, shape->H);
    assert_int_equal(ids, shape->V);
    assert_int_equal(hidden, shape->hidden);
    ls_model_destroy(model);
}

static void test_widths(void **state) {
    (void)state;
    const ls_shape shapes[] = {layered_gpt2(), layered_llama(), tiny_gpt2(), tiny_llama()};
    for (int s = 0; s < 4; s++)
        for (int S = 1; S <= ls_model_default_slices(&shapes[s], LS_UNIT_CHAIN); S *= 2)
            for (int tp = 1; tp <= S; tp *= 2) {
                ls_shape coarse = shapes[s];
                check_widths(&shapes[s], S, tp);
                coarse.vocabulary_grain = 4;
                check_widths(&coarse, S, tp);
            }
}

static void test_rows(void **state) {
    (void)state;
    ls_shape shape = layered_gpt2();
    for (int tp = 1; tp <= 4; tp *= 2)
        for (size_t T = 4; T < 40; T++) {
            size_t token = 0;
            for (int t = 0; t < tp; t++) {
                ls_nn nn = {.shape = &shape, .rows.first = 3, .tp.sequence_parallel = true}, whole;
                ls_nn_take_slices(&nn, 4, 4 / tp * t, 4 / tp);
                whole = nn;
                whole.tp.sequence_parallel = false;
                ls_nn_set_rows(&nn, 3, T);
                ls_nn_set_rows(&whole, 3, T);
                assert_int_equal(nn.rows.token0, token);
                assert_int_equal(nn.rows.token0, (size_t)t * T / (size_t)tp);
                assert_int_equal(ls_nn_rows(&nn), 3 * T);
                assert_int_equal(ls_nn_stream_rows(&nn), 3 * nn.rows.stream_T);
                assert_int_equal(whole.rows.token0 + nn.rows.first + whole.rows.first, 0);
                assert_int_equal(ls_nn_stream_rows(&whole), 3 * T);
                token += nn.rows.stream_T;
            }
            assert_int_equal(token, T);
        }
}

/* ---- a row of workers -------------------------------------------------------------------------------------------- */

/* More sequences than cross at once; K is cut into units of 3 rows, V has pieces below its slices. */
enum { S = 4, B = 11, T = 13, C = 7, K = 3 * 9, V = 4 * 513 + 1, ROWS = B * T };

typedef struct results {
    float joined[ROWS * C], gathered[ROWS * C], product[ROWS * C], vocabulary[ROWS * C];
} results;

typedef struct row {
    int tp;
    bool sequence_parallel;
    results *out; /* by worker */
} row;

/* Wildly different sizes, so that another order gives other bits. */
static float sample(uint32_t purpose, size_t i) {
    uint64_t bits = ls_rng_u64(ls_rng_key_make(3, purpose, 0), i);
    float value = (float)(int32_t)(bits & 0xFFFFFF) - 8388608.0F;
    for (int shift = (int)(bits >> 32 & 15); shift > 0; shift--) value *= 0.5F;
    return value;
}

enum { BIAS = 100, STREAM, X, W, X_IDS, TABLE };

/* Columns first … first + n − 1 of [ROWS][columns]. */
static float *columns_of(uint32_t purpose, size_t columns, size_t first, size_t n) {
    float *x = malloc(ROWS * n * sizeof *x);
    for (size_t r = 0; x && r < ROWS; r++)
        for (size_t i = 0; i < n; i++) x[r * n + i] = sample(purpose, r * columns + first + i);
    return x;
}

static ls_param param_of(uint32_t purpose, size_t rows, size_t unit, const ls_nn *nn, float *memory) {
    ls_param p = ls_param_matrix("w", rows, C, 1);
    p.split = true;
    p.units = rows / unit;
    p.part[0].unit_rows = unit;
    ls_param_take_slices(&p, S, nn->slice0, nn->slices);
    for (size_t i = 0; i < ls_param_local_elems(&p); i++) memory[i] = sample(purpose, p.first_row * C + i);
    p.w = memory;
    return p;
}

static ls_status products(ls_nn *nn, const ls_param *bias, results *out) {
    static float memory[V * C];
    ls_param w = param_of(W, K, 3, nn, memory);
    float *x = columns_of(X, K, w.first_row, w.local_rows);
    ls_status status = x ? ls_nn_project_sliced(nn, out->product, x, &w, bias) : LS_ERR_RESOURCE;
    free(x);
    LS_TRY(status);
    ls_param table = param_of(TABLE, V, 1, nn, memory);
    x = columns_of(X_IDS, V, table.first_row, table.local_rows);
    status = x ? ls_nn_project_vocabulary(nn, out->vocabulary, x, table.local_rows, &table) : LS_ERR_RESOURCE;
    free(x);
    return status;
}

/* The token of the batch that row r of the stream is. */
static size_t token_of(const ls_nn *nn, size_t r) {
    return r / nn->rows.stream_T * T + nn->rows.token0 + r % nn->rows.stream_T;
}

static ls_status cross(ls_nn *nn, results *out) {
    static float room[ROWS * C], stream[ROWS * C];
    const void *all;
    ls_param bias = ls_param_vector("b", C, LS_INIT_ZEROS);
    float b[C];
    for (size_t i = 0; i < C; i++) b[i] = sample(BIAS, i);
    bias.w = b;
    for (size_t i = 0; i < ROWS * C; i++) ls_nn_partial(nn, out->joined, LS_F32)[i] = sample((uint32_t)nn->tp.index, i);
    LS_TRY(ls_nn_join(nn, out->joined, LS_F32, &bias));
    for (size_t r = 0; r < ls_nn_stream_rows(nn); r++)
        for (size_t i = 0; i < C; i++) stream[r * C + i] = sample(STREAM, token_of(nn, r) * C + i);
    LS_TRY(ls_nn_gather(nn, stream, LS_F32, room, &all));
    memcpy(out->gathered, all, sizeof out->gathered);
    return products(nn, &bias, out);
}

static ls_nn nn_of(const row *r, const ls_shape *shape, int t) {
    ls_nn nn = {.shape = shape, .tp.sequence_parallel = r->sequence_parallel};
    ls_nn_take_slices(&nn, S, S / r->tp * t, S / r->tp);
    ls_nn_set_rows(&nn, B, T);
    return nn;
}

static ls_status work(ls_world *world, void *arg) {
    static float rows[ROWS * C];
    const row *r = arg;
    int rank = ls_world_rank(world);
    ls_shape shape = layered_gpt2();
    shape.C = C;
    ls_fpenv_set();
    ls_nn nn = nn_of(r, &shape, rank);
    LS_TRY(ls_device_open_cpu(1, NULL, NULL, &nn.device));
    nn.ops = nn.device->ops;
    nn.tp.comm = ls_world_comm(world);
    nn.scratch.rows = rows;
    ls_status status = cross(&nn, &r->out[rank]);
    ls_device_destroy(nn.device);
    return status;
}

static void run(row *r) {
    ls_workers_options options = {.workers = r->tp, .threads = 1, .timeout_s = 60, .no_pin = 1};
    r->out = mmap(NULL, (size_t)r->tp * sizeof *r->out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r->out != MAP_FAILED);
    if (ls_workers_run(&options, work, r) != LS_OK) fail_msg("%s", ls_status_message());
}

/* Contributions 0 … count−1 from `first` on, in the order of slices. */
static float plain_sum(uint32_t first, uint32_t count, size_t i) {
    if (count == 1) return sample(first, i);
    float left = plain_sum(first, count / 2, i), right = plain_sum(first + count / 2, count / 2, i);
    return left + right;
}

static void same(const row *r, const char *what, int t, size_t token, const float *got, const float *want) {
    if (memcmp(got, want, C * sizeof *got) != 0)
        fail_msg("tp %d%s: %s on worker %d: token %zu differs", r->tp,
                 r->sequence_parallel ? ", sequence parallel" : "", what, t, token);
}

static void check_row(const row *r, const results *one) {
    ls_shape shape = layered_gpt2();
    for (int t = 0; t < r->tp; t++) {
        ls_nn nn = nn_of(r, &shape, t);
        const results *out = &r->out[t];
        for (size_t i = 0; i < ls_nn_stream_rows(&nn); i++) {
            float want[C];
            size_t token = token_of(&nn, i);
            for (size_t c = 0; c < C; c++) want[c] = plain_sum(0, (uint32_t)r->tp, token * C + c) + sample(BIAS, c);
            same(r, "the sum", t, token, out->joined + i * C, want);
            same(r, "the product", t, token, out->product + i * C, one->product + token * C);
            same(r, "the product over ids", t, token, out->vocabulary + i * C, one->vocabulary + token * C);
        }
        for (size_t i = 0; i < ROWS * C; i++) assert_true(out->gathered[i] == sample(STREAM, i));
    }
}

static void test_crossings(void **state) {
    (void)state;
    row one = {.tp = 1};
    run(&one);
    for (int tp = 1; tp <= S; tp *= 2)
        for (int parallel = 0; parallel <= (tp > 1); parallel++) {
            row many = {.tp = tp, .sequence_parallel = parallel};
            run(&many);
            check_row(&many, one.out);
            munmap(many.out, (size_t)tp * sizeof *many.out);
        }
    munmap(one.out, sizeof *one.out);
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR); /* more workers than cores are meant */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_crossings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
