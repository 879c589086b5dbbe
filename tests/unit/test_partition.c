/* Stages: the bytes that were measured are those that are used; steady state allocates nothing; the forward pass for
 * text is that of training, to the bit; gradients with dropout are those of finite differences under the same mask. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numerics/float16.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "parallel/partition/state.h"
#include "tiny_partition.h"

/* ---- counting allocations ---------------------------------------------------------------------------------------- */

/* Blocks from malloc's family since the program began, of all threads: a definition here stands before the C library's.
 * Where the address sanitizer has these names, or the library is another one, nothing is counted. */
#if defined(__SANITIZE_ADDRESS__)
#    define HAS_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define HAS_ASAN 1
#    endif
#endif

#if defined(HAS_ASAN) || !defined(__GLIBC__)
#    define CAN_COUNT 0
static size_t allocations(void) { return 0; }
#else
#    define CAN_COUNT 1
#    include <stdatomic.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_size_t counted;
static size_t allocations(void) { return atomic_load(&counted); }

void *malloc(size_t bytes) {
    atomic_fetch_add(&counted, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&counted, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
    atomic_fetch_add(&counted, 1);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&counted, 1);
    return __libc_memalign(alignment, bytes);
}
#endif

/* ---- running ----------------------------------------------------------------------------------------------------- */

enum { T = 10, B_MAX = 8 };

typedef struct batch {
    int32_t ids[B_MAX * T], targets[B_MAX * T];
} batch;

static batch batch_of(size_t V, uint64_t seed) {
    batch b;
    tiny_ids(b.ids, B_MAX * T, V, seed);
    tiny_ids(b.targets, B_MAX * T, V, seed + 1000);
    return b;
}

/* One step of the given number; the mean loss. */
static double step(tiny *t, const ls_partition_setup *setup, uint64_t number, const batch *b) {
    ls_loss_sum loss = {0};
    float start = ls_clip_backward_start((int64_t)(setup->B * T), 0);
    tiny_tokens tokens = {b->ids, b->targets, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    assert_int_equal(ls_partition_step(t->partition, number, start, &feed), LS_OK);
    assert_int_equal(ls_partition_losses(t->partition, &loss), LS_OK);
    return ls_loss_sum_mean(&loss);
}

static void evaluate(tiny *t, size_t count, const int32_t *ids, const int32_t *targets, ls_loss_sum *loss) {
    tiny_tokens tokens = {ids, targets, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    assert_int_equal(ls_partition_evaluate(t->partition, count, T, &feed, loss, NULL), LS_OK);
}

static ls_partition_setup training(size_t B, size_t micro, int G) {
    return (ls_partition_setup){
        .train = true, .B = B, .T = T, .G = G, .moments = 2, .seed = 5, .layout = {.micro = micro}};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void measured_bytes_are_used_bytes(void **state) {
    (void)state;
    const ls_shape shapes[] = {tiny_gpt2(), tiny_llama()};
    ls_partition_setup setups[] = {training(8, 8, 8),
                                   training(7, 3, 4),
                                   training(1, 1, 1),
                                   training(8, 1, 8),
                                   {.B = 3, .T = 5, .G = 1, .layout = {.micro = 3}},
                                   training(7, 3, 4),
                                   training(8, 8, 8),
                                   training(8, 2, 4),
                                   {.B = 3, .T = 5, .G = 1, .layout = {.micro = 3}}};
    setups[1].dropout = 0.1;
    setups[2].moments = 0;
    setups[5].policy = (ls_policy){.act = LS_BF16, .reduce = LS_BF16};
    setups[6].policy.act = LS_F16;
    setups[6].leaves = setups[6].numerics = true;
    setups[7].policy = (ls_policy){.act = LS_BF16, .accumulate = LS_BF16};
    setups[8].policy.act = LS_BF16;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
            for (int slices = 1; slices <= 2; slices++) {
                tiny t;
                ls_arena measured;
                tiny_open(&t, &shapes[s], slices, 1, &setups[i]);
                const ls_arena *used = ls_partition_arena(t.partition);
                ls_partition_setup one = tiny_one(t.model, &setups[i]);
                assert_int_equal(ls_partition_measure(t.model, &one, &measured), LS_OK);
                assert_int_equal(measured.peak, used->peak);
                assert_int_equal(used->peak, used->capacity);
                assert_int_equal(measured.kinds, used->kinds);
                size_t sum = 0;
                for (int k = 0; k < used->kinds; k++) {
                    assert_string_equal(measured.kind[k].name, used->kind[k].name);
                    assert_int_equal(measured.kind[k].bytes, used->kind[k].bytes);
                    sum += used->kind[k].bytes;
                }
                assert_int_equal(sum, used->peak);
                tiny_close(&t);
            }
}

static size_t padded(size_t bytes) {
    return (bytes + LS_ARENA_ALIGN_BYTES - 1) / LS_ARENA_ALIGN_BYTES * LS_ARENA_ALIGN_BYTES;
}

static size_t gradient_bytes(const ls_shape *shape, const ls_partition_setup *setup) {
    ls_model *model = NULL;
    ls_arena arena;
    assert_int_equal(ls_model_create(shape, 1, &model), LS_OK);
    ls_partition_setup one = tiny_one(model, setup);
    assert_int_equal(ls_partition_measure(model, &one, &arena), LS_OK);
    size_t bytes = ls_arena_kind_bytes(&arena, "gradients");
    ls_model_destroy(model);
    return bytes;
}

/* Where the batch is one micro-batch, matrices and tables have one gradient each, however many groups there are. */
static void one_micro_batch_needs_no_group_slots(void **state) {
    (void)state;
    const ls_shape shapes[] = {tiny_gpt2(), tiny_llama()};
    for (size_t s = 0; s < 2; s++) {
        ls_model *model = NULL;
        size_t matrices = 0, vectors = 0;
        assert_int_equal(ls_model_create(&shapes[s], 1, &model), LS_OK);
        for (int i = 0; i < ls_model_params(model); i++) {
            const ls_param *param = ls_model_param(model, i);
            bool summed = param->kind == LS_PARAM_VECTOR || param->kind == LS_PARAM_POSITIONS;
            *(summed ? &vectors : &matrices) += padded(ls_param_elems(param) * sizeof(float));
        }
        ls_model_destroy(model);
        ls_partition_setup whole = training(8, 8, 8), one_group = training(8, 8, 1), cut = training(8, 1, 8);
        assert_int_equal(gradient_bytes(&shapes[s], &one_group), matrices + vectors);
        size_t bytes = gradient_bytes(&shapes[s], &whole);
        assert_in_range(bytes, matrices + vectors, matrices + 2 * vectors);
        assert_true(gradient_bytes(&shapes[s], &cut) >= 3 * matrices);
    }
}

static void steady_state_allocates_nothing(void **state) {
    (void)state;
    const ls_shape shapes[] = {tiny_gpt2(), tiny_llama()};
    ls_optimizer adamw = {.kind = LS_OPTIMIZER_ADAMW, .adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}};
    for (size_t s = 0; s < 2; s++)
        for (int threads = 1; threads <= 2; threads++) {
            tiny t;
            ls_partition_setup setup = training(7, 3, 4);
            setup.dropout = 0.2;
            tiny_open(&t, &shapes[s], 2, threads, &setup);
            batch b = batch_of(shapes[s].V, 1);
            ls_adamw_powers powers = {0};
            float logits[64];
            size_t before = 0;
            for (int i = 1; i <= 6; i++) {
                ls_exact_sum squares = {0};
                ls_loss_sum loss = {0};
                (void)step(&t, &setup, (uint64_t)i, &b);
                assert_int_equal(ls_partition_square_norm(t.partition, NULL, &squares, NULL), LS_OK);
                ls_adamw_powers_move(&powers, &adamw.adamw, i);
                ls_optimizer_update update = ls_optimizer_update_at(&adamw, &powers, 1e-3, 1);
                assert_int_equal(ls_optimizer_step(&update, t.device, &(ls_policy){0}, t.model), LS_OK);
                evaluate(&t, 2, b.ids, b.targets, &loss);
                assert_int_equal(ls_partition_extend(t.partition, 0, 3, b.ids, logits), LS_OK);
                if (i == 3) before = allocations();
            }
            if (CAN_COUNT) {
                assert_true(before > 0);
                assert_int_equal(allocations(), before);
            }
            tiny_close(&t);
        }
}

/* ---- the same forward pass --------------------------------------------------------------------------------------- */

/* Row `row` of the logits, 16-bit ones with hgmma, is that one. */
static void same_logits(const ls_nn *nn, size_t row, const float *want) {
    const void *logits = nn->scratch.logits;
    size_t V = nn->shape->V;
    if (ls_nn_logits_dtype(nn) == LS_F32) {
        assert_memory_equal((const float *)logits + row * V, want, V * sizeof(float));
        return;
    }
    for (size_t i = 0; i < V; i++) {
        float x = ls_bf16_to_f32(((const uint16_t *)logits)[row * V + i]);
        assert_memory_equal(&x, &want[i], sizeof x);
    }
}

/* Logits of every position: in one call for each length, in random cuts, and as evaluation has them. */
static void extend_and_evaluate_agree(const ls_shape *shape, int slices, int threads, bool train, ls_policy policy) {
    tiny t;
    size_t V = shape->V;
    ls_partition_setup setup = {.train = train, .B = 2, .T = T, .G = 1, .policy = policy, .layout = {.micro = 2}};
    tiny_open(&t, shape, slices, threads, &setup);
    batch b = batch_of(V, 9);
    ls_loss_sum loss = {0};
    float whole[T][64], cut[64];
    assert_in_range(V, 1, 64);
    for (size_t n = 1; n <= T; n++)
        assert_int_equal(ls_partition_extend(t.partition, 0, n, b.ids, whole[n - 1]), LS_OK);
    for (uint64_t turn = 0; turn < 40; turn++) {
        size_t first = 0;
        while (first < T) {
            size_t rows = 1 + ls_rng_below(ls_rng_key_make(3, turn, 0), first, T - first);
            assert_int_equal(ls_partition_extend(t.partition, first, rows, b.ids + first, cut), LS_OK);
            first += rows;
            assert_memory_equal(cut, whole[first - 1], V * sizeof(float));
        }
    }
    /* The sequence stands second in its micro-batch, beside another one. */
    batch turned = b;
    memcpy(turned.ids + T, b.ids, T * sizeof *b.ids);
    memcpy(turned.ids, b.ids + T, T * sizeof *b.ids);
    evaluate(&t, 2, turned.ids, turned.targets, &loss);
    for (size_t n = 0; n < T; n++) same_logits(&t.partition->nn, T + n, whole[n]);
    tiny_close(&t);
}

static void text_has_the_bits_of_training(void **state) {
    (void)state;
    ls_shape gpt2 = tiny_gpt2(), llama = tiny_llama();
    for (int slices = 1; slices <= 2; slices++)
        for (int threads = 1; threads <= 2; threads++)
            for (int train = 0; train <= 1; train++) {
                extend_and_evaluate_agree(&gpt2, slices, threads, train, (ls_policy){0});
                extend_and_evaluate_agree(&llama, slices, threads, train, (ls_policy){0});
            }
}

static void text_has_the_bits_of_16_bit_training(void **state) {
    (void)state;
    ls_shape gpt2 = tiny_gpt2(), llama = tiny_llama();
    for (int train = 0; train <= 1; train++) {
        extend_and_evaluate_agree(&gpt2, 2, 1, train, (ls_policy){.act = LS_BF16});
        extend_and_evaluate_agree(&llama, 1, 2, train, (ls_policy){.act = LS_F16});
        for (int u = LS_UNIT_CHAIN + 1; u < LS_UNITS; u++)
            if (ls_unit_is_here((ls_unit)u))
                extend_and_evaluate_agree(&llama, 2, 1, train, (ls_policy){.act = LS_BF16, .unit = (ls_unit)u});
    }
}

/* The loss that training reports is that of evaluation where nothing is dropped, for any micro-batch. */
static void training_loss_is_that_of_evaluation(void **state) {
    (void)state;
    ls_shape shape = tiny_llama();
    batch b = batch_of(shape.V, 2);
    double first = 0;
    for (size_t micro = 1; micro <= 8; micro++) {
        tiny t;
        ls_partition_setup setup = training(8, micro, 4);
        ls_loss_sum loss = {0};
        tiny_open(&t, &shape, 2, 1, &setup);
        double trained = step(&t, &setup, 0, &b);
        for (size_t i = 0; i < 8; i++) evaluate(&t, 1, b.ids + i * T, b.targets + i * T, &loss);
        assert_true(trained == ls_loss_sum_mean(&loss));
        if (micro == 1) first = trained;
        assert_true(trained == first);
        tiny_close(&t);
    }
}

/* A shorter sequence has the losses of the longer one's begin, and context alone is what is not scored: the two parts
 * of a sequence add up to the whole, exactly. */
static void short_sequences_and_context_add_up(void **state) {
    (void)state;
    const ls_shape shapes[] = {tiny_gpt2(), tiny_llama()};
    enum { COUNT = 5 };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        tiny t;
        ls_partition_setup setup = {.B = 3, .T = T, .G = 1, .layout = {.micro = 3}};
        batch b = batch_of(shapes[s].V, 3);
        ls_loss_sum whole = {0};
        tiny_open(&t, &shapes[s], 2, 1, &setup);
        evaluate(&t, COUNT, b.ids, b.targets, &whole);
        for (size_t first = 1; first < T; first++) {
            int32_t ids[COUNT * T], targets[COUNT * T];
            for (size_t i = 0; i < COUNT * first; i++) {
                ids[i] = b.ids[i / first * T + i % first];
                targets[i] = b.targets[i / first * T + i % first];
            }
            tiny_tokens begin = {ids, targets, first}, all = {b.ids, b.targets, T};
            ls_partition_feed feed = {.read = tiny_read, .ctx = &begin};
            ls_loss_sum sum = {0};
            assert_int_equal(ls_partition_evaluate(t.partition, COUNT, first, &feed, &sum, NULL), LS_OK);
            assert_int_equal(sum.count, COUNT * first);
            feed = (ls_partition_feed){.read = tiny_read, .ctx = &all, .context = first};
            assert_int_equal(ls_partition_evaluate(t.partition, COUNT, T, &feed, &sum, NULL), LS_OK);
            assert_int_equal(sum.count, whole.count);
            assert_int_equal(sum.total, whole.total);
        }
        tiny_close(&t);
    }
}

/* ---- gradients with dropout -------------------------------------------------------------------------------------- */

static double loss_at(tiny *t, const ls_partition_setup *setup, const batch *b, const ls_param *param, size_t elem,
                      float value) {
    assert_int_equal(ls_partition_write(t->partition, param, LS_TENSOR_WEIGHT, elem, 1, &value), LS_OK);
    return step(t, setup, 4, b);
}

/* Central differences of the mean loss, some elements of every parameter. The masks belong to seed, step and place, so
 * they are the same at both sides. */
static void check_gradients(const ls_shape *shape, double dropout) {
    tiny t;
    ls_partition_setup setup = training(4, 3, 2);
    setup.dropout = dropout;
    tiny_open(&t, shape, 2, 1, &setup);
    batch b = batch_of(shape->V, 3);
    double scale = ls_clip_token_scale((int64_t)(setup.B * T), 0), error = 0, size = 0;
    for (int i = 0; i < ls_model_params(t.model); i++) {
        const ls_param *param = ls_model_param(t.model, i);
        size_t elems = ls_param_elems(param);
        for (size_t elem = 0; elem < elems; elem += elems / 6 + 1) {
            const float h = 0x1p-6F;
            float value, gradient;
            (void)step(&t, &setup, 4, &b);
            assert_int_equal(ls_partition_read(t.partition, param, LS_TENSOR_WEIGHT, elem, 1, &value), LS_OK);
            assert_int_equal(ls_partition_read(t.partition, param, LS_TENSOR_GRAD, elem, 1, &gradient), LS_OK);
            double above = loss_at(&t, &setup, &b, param, elem, value + h);
            double below = loss_at(&t, &setup, &b, param, elem, value - h);
            double difference = (above - below) / (2 * (double)h), found = scale * (double)gradient;
            assert_int_equal(ls_partition_write(t.partition, param, LS_TENSOR_WEIGHT, elem, 1, &value), LS_OK);
            error += (found - difference) * (found - difference);
            size += difference * difference;
            if (fabs(found - difference) > 2e-3 + 0.05 * fabs(difference))
                fail_msg("%s[%zu]: gradient %g, difference %g", param->name, elem, found, difference);
        }
    }
    assert_true(size > 0);
    assert_true(sqrt(error / size) < 5e-3);
    tiny_close(&t);
}

static void gradients_are_finite_differences(void **state) {
    (void)state;
    ls_shape gpt2 = tiny_gpt2(), llama = tiny_llama();
    gpt2.init_std = llama.init_std = 0.1;
    check_gradients(&gpt2, 0);
    check_gradients(&gpt2, 0.3);
    check_gradients(&llama, 0.3);
}

/* Another step or seed drops other elements; the same one the same. */
static void masks_belong_to_seed_and_step(void **state) {
    (void)state;
    ls_shape shape = tiny_gpt2();
    batch b = batch_of(shape.V, 8);
    double losses[3][2];
    for (int i = 0; i < 3; i++) {
        tiny t;
        ls_partition_setup setup = training(4, i == 1 ? 1 : 4, 2);
        setup.dropout = 0.5;
        setup.seed = i == 2 ? 6 : 5;
        tiny_open(&t, &shape, 1, 1, &setup);
        for (uint64_t n = 0; n < 2; n++) losses[i][n] = step(&t, &setup, n, &b);
        tiny_close(&t);
    }
    for (int n = 0; n < 2; n++) {
        assert_true(losses[0][n] == losses[1][n]);
        assert_true(losses[0][n] != losses[2][n]);
    }
    assert_true(losses[0][0] != losses[0][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_bytes_are_used_bytes),        cmocka_unit_test(one_micro_batch_needs_no_group_slots),
        cmocka_unit_test(text_has_the_bits_of_16_bit_training), cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(text_has_the_bits_of_training),        cmocka_unit_test(training_loss_is_that_of_evaluation),
        cmocka_unit_test(gradients_are_finite_differences),     cmocka_unit_test(masks_belong_to_seed_and_step),
        cmocka_unit_test(short_sequences_and_context_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
