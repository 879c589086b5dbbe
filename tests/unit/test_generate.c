/* Generating text: single draws against frequencies computed with the C library, edge cases of top-k and top-p, and
 * texts with and without the cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sparse_tokenizer.h"
#include "tiny_partition.h"
#include "run/generate.h"

enum { V_MAX = 64, DRAWS = 20000 };

static int32_t draw(ls_generate_options options, const float *logits, size_t V, uint64_t position) {
    ls_choice scratch[V_MAX];
    int32_t id = ls_generate_draw(&options, logits, V, position, scratch);
    assert_in_range((uintmax_t)id, 0, V - 1);
    return id;
}

/* ---- one draw ---------------------------------------------------------------------------------------------------- */

static void greedy_takes_the_largest(void **state) {
    (void)state;
    const float logits[] = {0, 2, -1, 2, 1};
    ls_generate_options greedy = {.temperature = 0, .top_p = 1};
    for (uint64_t position = 0; position < 10; position++) assert_int_equal(draw(greedy, logits, 5, position), 1);
    const float one[] = {-5};
    assert_int_equal(draw(greedy, one, 1, 0), 0);
    const float zeros[] = {-0.0F, 0, 0};
    assert_int_equal(draw(greedy, zeros, 3, 0), 0);
}

static void narrow_choices_leave_one(void **state) {
    (void)state;
    const float logits[] = {0, 2, -1, 2, 1};
    for (uint64_t position = 0; position < 50; position++) {
        ls_generate_options first = {.temperature = 3, .top_k = 1, .top_p = 1, .seed = 4};
        assert_int_equal(draw(first, logits, 5, position), 1);
        ls_generate_options small = {.temperature = 3, .top_p = 1e-6, .seed = 4};
        assert_int_equal(draw(small, logits, 5, position), 1);
        ls_generate_options cold = {.temperature = 1e-6, .top_p = 1, .seed = 4};
        int32_t id = draw(cold, logits, 5, position);
        assert_true(id == 1 || id == 3);
    }
}

/* Which ids come up in many draws. */
static uint32_t support(ls_generate_options options, const float *logits, size_t V) {
    uint32_t seen = 0;
    for (uint64_t position = 0; position < 400; position++) seen |= 1u << draw(options, logits, V, position);
    return seen;
}

static void top_k_and_top_p_cut_exactly(void **state) {
    (void)state;
    const float logits[] = {1, 3, 2, 3, 2};
    ls_generate_options all = {.temperature = 5, .top_p = 1};
    assert_int_equal(support(all, logits, 5), 0x1F);
    for (int64_t k = 5; k < 8; k++) {
        all.top_k = k;
        assert_int_equal(support(all, logits, 5), 0x1F);
    }
    /* Of equal logits the lower id goes first: 1, 3, 2, 4, 0. */
    const uint32_t first[] = {0, 1 << 1, 1 << 1 | 1 << 3, 1 << 1 | 1 << 3 | 1 << 2, 0x1E};
    for (int64_t k = 1; k <= 4; k++) {
        all.top_k = k;
        assert_int_equal(support(all, logits, 5), first[k]);
    }
    /* Four equal ones have a quarter each: a share that is reached exactly is enough. */
    const float equal[] = {1, 1, 1, 1};
    const struct {
        double top_p;
        uint32_t ids;
    } cases[] = {{0.2, 1}, {0.25, 1}, {0.26, 3}, {0.5, 3}, {0.75, 7}, {0.76, 15}, {0.999999, 15}, {1, 15}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_generate_options nucleus = {.temperature = 1, .top_p = cases[i].top_p};
        assert_int_equal(support(nucleus, equal, 4), cases[i].ids);
    }
    /* top-p is a share of what top-k leaves: of two of them, half is one. */
    ls_generate_options both = {.temperature = 1, .top_k = 2, .top_p = 0.5};
    assert_int_equal(support(both, equal, 4), 1);
}

/* χ² of DRAWS draws against weights; entries of weight 0 must never come up. */
static double chi_square(ls_generate_options options, const float *logits, const double *weights, size_t V) {
    double counts[V_MAX] = {0}, total = 0, sum = 0;
    for (uint64_t position = 0; position < DRAWS; position++) counts[draw(options, logits, V, position)]++;
    for (size_t i = 0; i < V; i++) total += weights[i];
    for (size_t i = 0; i < V; i++) {
        double expected = DRAWS * weights[i] / total;
        if (weights[i] == 0)
            assert_true(counts[i] == 0);
        else
            sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

/* Limits: the χ² distributions with 4, 4 and 2 degrees of freedom exceed them once in a thousand. */
static void frequencies_are_those_of_softmax(void **state) {
    (void)state;
    const float logits[] = {0.5F, -1.25F, 2, 0, 1.5F};
    double weights[5];
    for (int i = 0; i < 5; i++) weights[i] = exp((double)logits[i]);
    assert_true(chi_square((ls_generate_options){.temperature = 1, .top_p = 1, .seed = 1}, logits, weights, 5) < 18.47);
    for (int i = 0; i < 5; i++) weights[i] = exp((double)logits[i] / 0.5);
    assert_true(chi_square((ls_generate_options){.temperature = 0.5, .top_p = 1, .seed = 2}, logits, weights, 5) <
                18.47);
    weights[1] = weights[3] = 0;
    assert_true(chi_square((ls_generate_options){.temperature = 0.5, .top_k = 3, .top_p = 1, .seed = 3}, logits,
                           weights, 5) < 13.82);
    /* The test can fail: the frequencies are not those of another temperature. */
    for (int i = 0; i < 5; i++) weights[i] = exp((double)logits[i] / 0.6);
    assert_true(chi_square((ls_generate_options){.temperature = 0.5, .top_p = 1, .seed = 2}, logits, weights, 5) >
                18.47);
}

static void a_draw_is_named_by_seed_and_position(void **state) {
    (void)state;
    float logits[V_MAX];
    int same_seed = 0, same_position = 0;
    for (int i = 0; i < V_MAX; i++) logits[i] = 0;
    for (uint64_t i = 0; i < 200; i++) {
        ls_generate_options a = {.temperature = 1, .top_p = 1, .seed = i},
                            b = {.temperature = 1, .top_p = 1, .seed = i + 1};
        assert_int_equal(draw(a, logits, V_MAX, i), draw(a, logits, V_MAX, i));
        same_position += draw(a, logits, V_MAX, i) == draw(b, logits, V_MAX, i);
        same_seed += draw(a, logits, V_MAX, i) == draw(a, logits, V_MAX, i + 1);
    }
    assert_in_range(same_position, 0, 15);
    assert_in_range(same_seed, 0, 15);
}

/* A draw from logits that are not finite has no meaning, whichever of them they are. */
static void there_is_no_token_behind_values_that_are_not_finite(void **state) {
    (void)state;
    const double temperatures[] = {0, 0.5, 100};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < 3; t++)
        for (int b = 0; b < 3; b++)
            for (size_t at = 0; at < 5; at++) {
                float logits[] = {2, 1, -3, 2, 0};
                ls_choice scratch[5];
                ls_generate_options options = {.temperature = temperatures[t], .top_k = 2, .top_p = 0.5};
                logits[at] = bad[b];
                assert_int_equal(ls_generate_draw(&options, logits, 5, 0, scratch), -1);
            }
}

/* A padded vocabulary: the most likely ids are those without text. */
static void ids_without_text_are_never_drawn(void **state) {
    (void)state;
    float logits[V_MAX];
    ls_choice scratch[V_MAX];
    ls_tokenizer *tokenizer = sparse_tokenizer();
    assert_non_null(tokenizer);
    for (int i = 0; i < V_MAX; i++) logits[i] = sparse_has(i) ? (float)(i % 5) : i % 2 ? 50 : NAN;
    for (int64_t k = 0; k < 3; k++)
        for (int t = 0; t < 3; t++)
            for (uint64_t position = 0; position < 100; position++) {
                ls_generate_options options = {
                    .temperature = t, .top_k = k, .top_p = k == 2 ? 0.5 : 1, .tokenizer = tokenizer};
                int32_t id = ls_generate_draw(&options, logits, V_MAX, position, scratch);
                assert_true(sparse_has(id));
                if (t == 0 || k == 1) assert_int_equal(id, 4); /* the first with the largest logit of those */
            }
    ls_tokenizer_close(tokenizer);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

enum { TOKENS = 30, PROMPT_MAX = 40 };

typedef struct sink_state {
    int32_t ids[TOKENS];
    size_t count, stop_after;
    ls_status fail;
} sink_state;

static ls_status take(void *ctx, int32_t id, bool *stop) {
    sink_state *s = ctx;
    assert_in_range(s->count, 0, TOKENS - 1);
    s->ids[s->count++] = id;
    if (s->count == s->stop_after) *stop = true;
    return s->fail;
}

static sink_state generate(tiny *t, size_t T, ls_generate_options options, const int32_t *prompt, size_t tokens) {
    sink_state s = {0};
    assert_int_equal(ls_generate(t->partition, T, &options, prompt, tokens, take, &s), LS_OK);
    assert_int_equal(s.count, options.max_tokens);
    return s;
}

static const ls_generate_options plain = {.temperature = 1, .top_p = 1, .seed = 3, .max_tokens = TOKENS};

static void with_and_without_cache(const ls_shape *shape, size_t T, int threads, bool train) {
    tiny t;
    int32_t prompt[PROMPT_MAX];
    ls_partition_setup setup = {.train = train, .B = 1, .T = T, .G = 1, .layout = {.micro = 1}};
    tiny_open(&t, shape, 2, threads, &setup);
    tiny_ids(prompt, PROMPT_MAX, shape->V, 5);
    for (size_t tokens = 1; tokens <= PROMPT_MAX; tokens += tokens < 13 ? 1 : 9) {
        ls_generate_options slow = plain;
        slow.no_cache = true;
        sink_state fast = generate(&t, T, plain, prompt, tokens), same = generate(&t, T, slow, prompt, tokens);
        assert_memory_equal(fast.ids, same.ids, sizeof fast.ids);
    }
    tiny_close(&t);
}

/* Prompts shorter than, as long as and longer than the positions; texts that outgrow them. */
static void the_cache_changes_no_token(void **state) {
    (void)state;
    ls_shape gpt2 = tiny_gpt2(), llama = tiny_llama();
    with_and_without_cache(&gpt2, 10, 1, false);
    with_and_without_cache(&gpt2, 7, 2, true);
    with_and_without_cache(&llama, 10, 2, false);
    with_and_without_cache(&llama, 3, 1, true);
    with_and_without_cache(&gpt2, 1, 1, false);
}

static void a_text_is_a_function_of_its_prompt(void **state) {
    (void)state;
    tiny t;
    int32_t prompt[PROMPT_MAX];
    ls_shape shape = tiny_llama();
    ls_partition_setup setup = {.B = 1, .T = 10, .G = 1, .layout = {.micro = 1}};
    tiny_open(&t, &shape, 1, 1, &setup);
    tiny_ids(prompt, PROMPT_MAX, shape.V, 6);
    sink_state whole = generate(&t, 10, plain, prompt, 25);
    /* Only the last positions count. */
    sink_state tail = generate(&t, 10, plain, prompt + 15, 10);
    assert_memory_equal(whole.ids, tail.ids, sizeof whole.ids);
    /* A shorter text is the beginning of a longer one. */
    ls_generate_options fewer = plain;
    fewer.max_tokens = 11;
    sink_state begin = generate(&t, 10, fewer, prompt, 25);
    assert_memory_equal(whole.ids, begin.ids, 11 * sizeof *whole.ids);
    /* Other seeds give other texts, and so do other prompts. */
    ls_generate_options other = plain;
    other.seed++;
    assert_memory_not_equal(whole.ids, generate(&t, 10, other, prompt, 25).ids, sizeof whole.ids);
    assert_memory_not_equal(whole.ids, generate(&t, 10, plain, prompt, 24).ids, sizeof whole.ids);
    tiny_close(&t);
}

static void the_sink_ends_a_text(void **state) {
    (void)state;
    tiny t;
    const int32_t prompt[] = {1, 2, 3};
    ls_shape shape = tiny_gpt2();
    ls_partition_setup setup = {.B = 1, .T = 10, .G = 1, .layout = {.micro = 1}};
    tiny_open(&t, &shape, 1, 1, &setup);
    sink_state s = {.stop_after = 4};
    assert_int_equal(ls_generate(t.partition, 10, &plain, prompt, 3, take, &s), LS_OK);
    assert_int_equal(s.count, 4);
    s = (sink_state){.fail = LS_ERR_RESOURCE};
    assert_int_equal(ls_generate(t.partition, 10, &plain, prompt, 3, take, &s), LS_ERR_RESOURCE);
    assert_int_equal(s.count, 1);
    tiny_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest),
        cmocka_unit_test(narrow_choices_leave_one),
        cmocka_unit_test(top_k_and_top_p_cut_exactly),
        cmocka_unit_test(frequencies_are_those_of_softmax),
        cmocka_unit_test(a_draw_is_named_by_seed_and_position),
        cmocka_unit_test(there_is_no_token_behind_values_that_are_not_finite),
        cmocka_unit_test(ids_without_text_are_never_drawn),
        cmocka_unit_test(the_cache_changes_no_token),
        cmocka_unit_test(a_text_is_a_function_of_its_prompt),
        cmocka_unit_test(the_sink_ends_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
