/* test_layers_rows.c: rotary embedding and token embeddings of every ISA against the contract, to the bit. */
#include "layers.h"

#include "device/cpu/kernels.h"

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

typedef struct rope_case {
    size_t rows, heads, d, position0, period, head_gap;
} rope_case;

static void expect_rope(grid *y, const grid *x, const grid *cos_table, const grid *sin_table, const rope_case *c,
                        float sign) {
    size_t half = c->d / 2, head = c->d + c->head_gap;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < c->heads; h++) {
            size_t position = (c->position0 + r) % c->period;
            contract_rope(row_of(y, r) + h * head, row_of(x, r) + h * head, cos_table->at + position * half,
                          sin_table->at + position * half, sign, c->d);
        }
}

/* Rows first … end−1 in one call; a thread that begins later passes a later position. */
static void call_rope(void (*rotate)(const ls_rope_call *), grid *y, const grid *x, const grid *cos_table,
                      const grid *sin_table, const rope_case *c, size_t first, size_t end) {
    const ls_rope_call call = {
        .y = row_of(y, first),
        .y_row_stride = y->stride,
        .y_head_stride = c->d + c->head_gap,
        .x = row_of(x, first),
        .x_row_stride = x->stride,
        .x_head_stride = c->d + c->head_gap,
        .rows = end - first,
        .heads = c->heads,
        .d = c->d,
        .cos = cos_table->at,
        .sin = sin_table->at,
        .position0 = c->position0 + first,
        .period = c->period,
    };
    rotate(&call);
}

static void check_rope_case(const ls_rope_kernels *k, const rope_case *c, kind of) {
    size_t width = c->heads * (c->d + c->head_gap);
    grid x = grid_make(c->rows, width, 3, 1, of), y = grid_make(c->rows, width, 1, 2, PLAIN);
    grid cos_table = grid_make(1, c->period * c->d / 2, 0, 3, PLAIN);
    grid sin_table = grid_make(1, c->period * c->d / 2, 0, 4, PLAIN);
    for (int back = 0; back < 2; back++) {
        grid expected = grid_copy(&y), got = grid_copy(&y);
        void (*rotate)(const ls_rope_call *) = back ? k->backward : k->forward;
        expect_rope(&expected, &x, &cos_table, &sin_table, c, back ? -1.0f : 1.0f);
        size_t cuts[MOST_PARTS + 1], n_parts = parts[(c->rows + c->d) % N_PARTS];
        make_cuts(cuts, n_parts, c->rows, c->d);
        for (size_t p = 0; p < n_parts; p++)
            call_rope(rotate, &got, &x, &cos_table, &sin_table, c, cuts[p], cuts[p + 1]);
        check_grid(&got, &expected, back ? "rope backward" : "rope forward");
        grid in_place = grid_copy(&x);
        call_rope(rotate, &in_place, &in_place, &cos_table, &sin_table, c, 0, c->rows);
        for (size_t r = 0; r < c->rows; r++)
            for (size_t h = 0; h < c->heads; h++) {
                size_t at = h * (c->d + c->head_gap);
                check_same(row_of(&in_place, r) + at, row_of(&expected, r) + at, c->d, "rope in place");
            }
        grid_free(&expected);
        grid_free(&got);
        grid_free(&in_place);
    }
    grid_free(&x);
    grid_free(&y);
    grid_free(&cos_table);
    grid_free(&sin_table);
}

static void check_rope(const ls_rope_kernels *k) {
    static const size_t heads_sizes[] = {2, 6, 30, 32, 34, 64, 66, 80, 128, 256};
    for (size_t i = 0; i < sizeof heads_sizes / sizeof *heads_sizes; i++)
        for (size_t rows = 1; rows < 40; rows += 6)
            for (int of = PLAIN; of <= WILD; of++) {
                rope_case c = {rows, 1 + i % 3, heads_sizes[i], rows % 5, 5 + rows / 2, i % 2};
                check_rope_case(k, &c, (kind)of);
            }
}

static void test_rope(void **state) {
    (void)state;
    CHECK_EVERY_ISA(rope, check_rope);
}

/* ---- embeddings -------------------------------------------------------------------------------------------------- */

enum { VOCABULARY = 23, MOST_ROWS = 768 };

static void make_ids(int32_t *ids, size_t rows, uint64_t seed) {
    ls_rng_key key = ls_rng_key_make(seed, 3, rows);
    for (size_t r = 0; r < rows; r++) ids[r] = (int32_t)ls_rng_below(key, r, VOCABULARY);
}

/* The table holds ids begin … end−1; period 0: without positions. */
static void check_embed_forward(const ls_embed_kernels *k, size_t rows, size_t C, int32_t begin, int32_t end,
                                size_t period, kind of) {
    int32_t ids[MOST_ROWS];
    make_ids(ids, rows, C);
    grid token = grid_make((size_t)(end - begin), C, 0, 1, of);
    grid position = grid_make(period + 1, C, 0, 2, of);
    grid got = grid_make(rows, C, 2, 3, PLAIN), expected = grid_copy(&got);
    size_t position0 = period ? (rows + 3) % period : 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < C; i++) {
            if (ids[r] < begin || ids[r] >= end) continue;
            float t = row_of(&token, (size_t)(ids[r] - begin))[i];
            row_of(&expected, r)[i] = period ? t + row_of(&position, (position0 + r) % period)[i] : t;
        }
    size_t cuts[MOST_PARTS + 1], n_parts = parts[(rows + C) % N_PARTS];
    make_cuts(cuts, n_parts, rows, C);
    for (size_t p = 0; p < n_parts; p++) {
        const ls_embed_tokens tokens = {ids + cuts[p], begin, end, cuts[p + 1] - cuts[p], C};
        k->forward(&(ls_embed_call){row_of(&got, cuts[p]), got.stride, token.at, LS_F32, period ? position.at : NULL,
                                    position0 + cuts[p], period, &tokens});
    }
    check_grid(&got, &expected, "embedding");
    grid_free(&token);
    grid_free(&position);
    grid_free(&got);
    grid_free(&expected);
}

static void check_embed_grads(const ls_embed_kernels *k, size_t rows, size_t C, int32_t begin, int32_t end,
                              size_t period, kind of) {
    int32_t ids[MOST_ROWS];
    make_ids(ids, rows, C);
    grid dy = grid_make(rows, C, 1, 1, of), dtoken = grid_make((size_t)(end - begin), C, 0, 2, PLAIN);
    grid dposition = grid_make(period, C, 0, 3, PLAIN);
    /* Rows that are not looked up keep −0. */
    for (size_t i = 0; i < C; i++) dtoken.at[i] = -0.0f;
    grid token_expected = grid_copy(&dtoken), position_expected = grid_copy(&dposition);
    size_t position0 = rows % period;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < C; i++) {
            float d = row_of(&dy, r)[i], *p = &row_of(&position_expected, (position0 + r) % period)[i];
            *p = *p + d;
            if (ids[r] < begin || ids[r] >= end) continue;
            float *t = &row_of(&token_expected, (size_t)(ids[r] - begin))[i];
            *t = *t + d;
        }
    size_t cuts[MOST_PARTS + 1], n_parts = parts[(rows + C + 1) % N_PARTS];
    make_cuts(cuts, n_parts, C, rows);
    const ls_embed_tokens tokens = {ids, begin, end, rows, C};
    for (size_t p = 0; p < n_parts; p++) {
        k->token_grad(dtoken.at, dy.at, dy.stride, &tokens, cuts[p], cuts[p + 1]);
        k->position_grad(dposition.at, dy.at, dy.stride, position0, period, rows, C, cuts[p], cuts[p + 1]);
    }
    check_grid(&dtoken, &token_expected, "token gradient");
    check_grid(&dposition, &position_expected, "position gradient");
    grid_free(&dy);
    grid_free(&dtoken);
    grid_free(&dposition);
    grid_free(&token_expected);
    grid_free(&position_expected);
}

/* Some rows, in any order and more than once. */
static void check_row_sums(const ls_embed_kernels *k, size_t count, size_t C, kind of) {
    size_t rows[MOST_ROWS];
    grid dy = grid_make(5, C, 3, 1, of), got = grid_make(1, C, 0, 2, PLAIN), expected = grid_copy(&got);
    for (size_t r = 0; r < count; r++) {
        rows[r] = (size_t)ls_rng_below(ls_rng_key_make(C, 9, count), r, 5);
        for (size_t i = 0; i < C; i++) expected.at[i] = expected.at[i] + row_of(&dy, rows[r])[i];
    }
    k->row_sums(got.at, dy.at, dy.stride, rows, count, C);
    check_grid(&got, &expected, "sum of rows");
    grid_free(&dy);
    grid_free(&got);
    grid_free(&expected);
}

static void check_embed(const ls_embed_kernels *k) {
    for (size_t i = 0; i < N_SIZES; i++)
        for (size_t j = 0; j < N_SIZES; j++) {
            size_t rows = sizes[i], C = sizes[j];
            kind of = (i + j) % 2 ? PLAIN : WILD;
            if (rows * C > 30000) continue;
            check_row_sums(k, rows - 1, C, of);
            check_embed_forward(k, rows, C, 0, VOCABULARY, 7, of);
            check_embed_forward(k, rows, C, 0, VOCABULARY, 0, of);
            check_embed_forward(k, rows, C, 5, 11, 9, of);
            check_embed_grads(k, rows, C, 0, VOCABULARY, 7, of);
            check_embed_grads(k, rows, C, 5, 11, 1, of);
        }
}

static void test_embed(void **state) {
    (void)state;
    CHECK_EVERY_ISA(embed, check_embed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rope), cmocka_unit_test(test_embed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
