/* test_bucket.c: owners of elements, counted element by element; and the rounds of groups, run on texts instead of
 * numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layered.h"
#include "parallel/partition/bucket.h"

enum { BLOCK = 1024, ALIGN = 16 };

/* ---- shards of one bucket ---------------------------------------------------------------------------------------- */

/* Marks the elements of a bucket in front of which a shard may begin: at multiples of 1024 of each slice of each
 * parameter, and where one of them or the bucket begins or ends. Slices are given by the rows of their units. */
static unsigned char *legal_cuts(const ls_bucket *bucket, int slices) {
    unsigned char *legal = calloc(bucket->elems + 1, 1);
    assert_non_null(legal);
    legal[0] = legal[bucket->elems] = 1;
    for (int i = 0; i < bucket->nparams; i++) {
        const ls_param *p = bucket->param[i];
        size_t unit_elems = p->rows / p->units * p->columns, first = p->first_row * p->columns;
        size_t end = first + p->local_rows * p->columns;
        int count = p->split ? slices : 1;
        legal[bucket->offset[i]] = 1;
        for (int s = 0; s < count; s++) {
            size_t from = p->units * (size_t)s / (size_t)count * unit_elems;
            size_t to = p->units * (size_t)(s + 1) / (size_t)count * unit_elems;
            for (size_t at = from; at < to; at += BLOCK)
                if (at >= first && at < end) legal[bucket->offset[i] + at - first] = 1;
            if (to > first && to <= end) legal[bucket->offset[i] + to - first] = 1;
        }
    }
    return legal;
}

/* The matrices of a block, or its table. */
static void fill(ls_bucket *bucket, ls_model *model, int b, bool table) {
    *bucket = (ls_bucket){.kind = table ? LS_BUCKET_TABLE : LS_BUCKET_MATRICES, .block = b};
    ls_block *block = &model->blocks[b];
    for (int i = 0; i < block->nparams; i++)
        if (block->param[i].kind == (table ? LS_PARAM_TOKENS : LS_PARAM_MATRIX))
            bucket->param[bucket->nparams++] = &block->param[i];
    assert_true(bucket->nparams > 0);
}

static void check_shards(ls_model *model, int b, int dp, bool table) {
    ls_bucket first = {0};
    for (int d = 0; d < dp; d++) {
        ls_bucket bucket;
        fill(&bucket, model, b, table);
        assert_int_equal(ls_bucket_divide(&bucket, model->S, dp, d, true), LS_OK);
        unsigned char *legal = legal_cuts(&bucket, model->S);
        size_t local = 0;
        for (int i = 0; i < bucket.nparams; i++) {
            assert_true(bucket.offset[i] % ALIGN == 0 && bucket.offset[i] >= local);
            assert_in_range(bucket.offset[i], local, local + ALIGN - 1);
            local = bucket.offset[i] + ls_param_local_elems(bucket.param[i]);
        }
        assert_in_range(bucket.elems, local, local + ALIGN - 1);
        assert_int_equal(bucket.shard[0], 0);
        assert_int_equal(bucket.shard[dp], bucket.elems);
        for (int r = 0; r < dp; r++) {
            size_t ideal = bucket.elems / (size_t)dp * (size_t)r;
            assert_true(bucket.shard[r] <= bucket.shard[r + 1]);
            assert_true(legal[bucket.shard[r]]);
            assert_in_range(bucket.shard[r], ideal, ideal + BLOCK + ALIGN);
        }
        assert_int_equal(bucket.own_begin, bucket.shard[d]);
        assert_int_equal(bucket.own_end, bucket.shard[d + 1]);
        if (d == 0)
            first = bucket;
        else
            assert_memory_equal(bucket.shard, first.shard, ((size_t)dp + 1) * sizeof *bucket.shard);
        if (d > 0) free(bucket.shard);
        free(legal);
    }
    free(first.shard);
}

static void test_shards_end_with_blocks(void **state) {
    (void)state;
    const ls_shape shapes[] = {layered_gpt2(), layered_llama()};
    for (int s = 0; s < 2; s++)
        for (int tp = 1; tp <= LAYERED_SLICES; tp *= 2)
            for (int t = 0; t < tp; t++) {
                ls_model *model = NULL;
                assert_int_equal(ls_model_create(&shapes[s], LAYERED_SLICES, &model), LS_OK);
                ls_model_take_slices(model, t * LAYERED_SLICES / tp, LAYERED_SLICES / tp);
                for (int dp = 1; dp <= 40; dp++) {
                    check_shards(model, 1, dp, false);
                    check_shards(model, 0, dp, true);
                }
                ls_model_destroy(model);
            }
}

/* ---- parts of all workers ---------------------------------------------------------------------------------------- */

/* How many workers of a mesh stand for each element, and for each of a dp column how many update it. */
typedef struct census {
    const ls_layout *layout;
    ls_model *model;
    unsigned char **once; /* by parameter, elements of all slices */
    unsigned char **own;  /* by parameter */
} census;

static unsigned char **count_elems(const ls_model *model) {
    int count = ls_model_params(model);
    unsigned char **lists = calloc((size_t)count, sizeof *lists);
    assert_non_null(lists);
    for (int i = 0; i < count; i++) {
        lists[i] = calloc(ls_param_elems(ls_model_param(model, i)), 1);
        assert_non_null(lists[i]);
    }
    return lists;
}

static void free_lists(const ls_model *model, unsigned char **lists) {
    for (int i = 0; i < ls_model_params(model); i++) free(lists[i]);
    free(lists);
}

static void count_worker(census *c, ls_place_in_layout place) {
    for (int i = 0; i < ls_model_params(c->model); i++) {
        const ls_param *p = ls_model_param(c->model, i);
        size_t first = p->first_row * p->columns, all = ls_param_local_elems(p);
        if (!p->held) {
            assert_int_equal(ls_param_range_elems(p->own) + ls_param_range_elems(p->once), 0);
            continue;
        }
        assert_true(p->own.begin <= p->own.end && p->own.end <= all);
        assert_true(p->once.begin <= p->once.end && p->once.end <= all);
        if (ls_param_range_elems(p->once) > 0) assert_true(p->once.begin >= p->own.begin && p->once.end <= p->own.end);
        bool whole = c->layout->zero == 0 || c->layout->dp == 1 || p->kind == LS_PARAM_VECTOR;
        if (whole) assert_int_equal(ls_param_range_elems(p->own), all);
        for (size_t e = p->once.begin; e < p->once.end; e++) c->once[i][first + e]++;
        bool counts = (p->split || place.tp == 0) && (!whole || place.dp == 0);
        for (size_t e = p->own.begin; counts && e < p->own.end; e++) c->own[i][first + e]++;
    }
}

static void check_mesh(const ls_shape *shape, const layered_request *request) {
    enum { B = 40, G = 40 };
    census c = {0};
    assert_int_equal(ls_model_create(shape, LAYERED_SLICES, &c.model), LS_OK);
    ls_layout_task task = {.model = c.model, .B = B, .T = LAYERED_T, .G = G};
    ls_layout layout = layered_layout(request, &task);
    c.layout = &layout;
    c.once = count_elems(c.model);
    c.own = count_elems(c.model);
    for (int r = 0; r < ls_layout_workers(&layout); r++) {
        ls_partition_setup setup = {.train = true, .B = B, .T = LAYERED_T, .G = G, .layout = layout};
        ls_arena arena;
        setup.place = ls_layout_place(&layout, r);
        assert_int_equal(ls_partition_measure(c.model, &setup, &arena), LS_OK);
        count_worker(&c, setup.place);
    }
    for (int i = 0; i < ls_model_params(c.model); i++)
        for (size_t e = 0; e < ls_param_elems(ls_model_param(c.model, i)); e++)
            if (c.once[i][e] != 1 || c.own[i][e] != 1)
                fail_msg("%s, dp %d, tp %d, pp %d, zero %d: %d workers stand for %s[%zu], %d update it", shape->name,
                         layout.dp, layout.tp, layout.pp, layout.zero, c.once[i][e], ls_model_param(c.model, i)->name,
                         e, c.own[i][e]);
    free_lists(c.model, c.once);
    free_lists(c.model, c.own);
    ls_model_destroy(c.model);
}

static void test_every_element_once(void **state) {
    (void)state;
    const ls_shape shapes[] = {layered_gpt2(), layered_llama()};
    static const int dps[] = {1, 2, 3, 5, 8, 40};
    for (int s = 0; s < 2; s++)
        for (size_t d = 0; d < sizeof dps / sizeof *dps; d++)
            for (int tp = 1; tp <= LAYERED_SLICES; tp *= 2)
                for (int pp = 1; pp <= 3; pp += 2)
                    for (int zero = 0; zero <= 3; zero++) {
                        layered_request request = {.dp = dps[d], .tp = tp, .pp = pp, .zero = zero, .micro = 1};
                        check_mesh(&shapes[s], &request);
                    }
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

enum { TEXT = 1024, G_MAX = 40 };

/* "[[0+1]+2]" */
static void write_tree(char *out, int first, int count) {
    if (count == 1) {
        snprintf(out, TEXT, "%d", first);
        return;
    }
    char left[TEXT], right[TEXT];
    int half = 1;
    while (2 * half < count) half *= 2;
    write_tree(left, first, half);
    write_tree(right, first + half, count - half);
    assert_true(snprintf(out, TEXT, "[%.500s+%.500s]", left, right) < TEXT);
}

/* Groups are dealt one by one; each row gets as many as its share: groups[round][row], −1: none. */
static int deal(const ls_layout *layout, int G, int groups[G_MAX][G_MAX]) {
    int next = 0, rounds = 0;
    for (; next < G; rounds++)
        for (int d = 0; d < layout->dp; d++) groups[rounds][d] = rounds < layout->share[d] ? next++ : -1;
    return rounds;
}

/* What is added up in a round: every member's leaf is the group it has been dealt, and they make up the node. */
static void check_node(const ls_round_node *node, int dp, const int *dealt) {
    assert_int_equal(node->bounds[0], 0);
    assert_int_equal(node->bounds[dp], node->node.count);
    for (int d = 0; d < dp; d++) {
        int leaves = node->bounds[d + 1] - node->bounds[d];
        bool inside = dealt[d] >= node->node.first && dealt[d] < node->node.first + node->node.count;
        assert_int_equal(leaves, inside);
        if (inside) assert_int_equal(node->node.first + node->bounds[d], dealt[d]);
    }
}

static void check_rounds(const ls_layout *layout, int G) {
    static char stack[LS_NATIVE_SLOTS_MAX][TEXT];
    int dealt[G_MAX][G_MAX], depth = 0, most = 0;
    char want[TEXT];
    ls_rounds rounds;
    assert_int_equal(ls_rounds_make(layout, G, &rounds), LS_OK);
    assert_int_equal(rounds.rounds, deal(layout, G, dealt));
    assert_int_equal(rounds.first[0], 0);
    for (int r = 0; r < rounds.rounds; r++) {
        int groups = 0;
        for (int n = rounds.first[r]; n < rounds.first[r + 1]; n++) {
            const ls_round_node *node = &rounds.nodes[n];
            check_node(node, layout->dp, dealt[r]);
            groups += node->node.count;
            assert_int_equal(node->at, depth);
            write_tree(stack[node->at], node->node.first, node->node.count);
            for (int i = 0; i < node->joins; i++) {
                char sum[TEXT];
                snprintf(sum, sizeof sum, "[%.500s+%.500s]", stack[node->at - i - 1], stack[node->at - i]);
                memcpy(stack[node->at - i - 1], sum, sizeof sum);
            }
            if (node->at + 1 > most) most = node->at + 1;
            depth = node->at + 1 - node->joins;
        }
        for (int d = 0; d < layout->dp; d++) groups -= dealt[r][d] >= 0;
        assert_int_equal(groups, 0);
    }
    write_tree(want, 0, G);
    assert_string_equal(stack[0], want);
    assert_int_equal(depth, 1);
    assert_int_equal(rounds.own_slots, most);
    ls_rounds_free(&rounds);
    assert_null(rounds.nodes);
}

static void test_rounds_make_the_tree(void **state) {
    (void)state;
    for (int G = 1; G <= G_MAX; G++)
        for (int dp = 1; dp <= G; dp++) {
            ls_layout layout = {.dp = dp};
            for (int d = 0; d < dp; d++) layout.share[d] = (d + 1) * G / dp - d * G / dp;
            check_rounds(&layout, G);
            /* As unequal as they can be, at either end. */
            for (int d = 0; d < dp; d++) layout.share[d] = d == 0 ? G - dp + 1 : 1;
            check_rounds(&layout, G);
            for (int d = 0; d < dp; d++) layout.share[d] = d == dp - 1 ? G - dp + 1 : 1;
            check_rounds(&layout, G);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_end_with_blocks),
        cmocka_unit_test(test_every_element_once),
        cmocka_unit_test(test_rounds_make_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
