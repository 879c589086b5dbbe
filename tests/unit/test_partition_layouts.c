/* test_partition_layouts.c: whatever the layout, the bits of one worker: losses, every gradient of the first step,
 * weights after three, evaluation and logits; and the bytes that were measured for each worker are those it uses.
 *
 * Workers are forked, and leave what they found in shared memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/log.h"
#include "layered.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "run/generate.h"
#include "sample.h"
#include "sparse_tokenizer.h"

enum {
    B = 10,
    G = 7,
    T = LAYERED_T,
    STEPS = 3,
    PARAMS_MAX = 80,
    WORKERS_MAX = 12,
    V_MAX = 512,
    LENGTHS = 3,
    DRAWS = 12
};

/* Of every group, sizes 1 and 2 come up: ⌊10(g+1)/7⌋ − ⌊10g/7⌋. */
static const layered_request cases[] = {
    {.micro = 3, .recompute = LS_RECOMPUTE_FULL},
    {.micro = 1, .recompute = LS_RECOMPUTE_SELECTIVE},
    /* data */
    {.dp = 2, .zero = 0, .micro = 1},
    {.dp = 3, .zero = 1, .micro = 2, .shares = "3,1,3"},
    {.dp = 4, .zero = 2, .micro = 1},
    {.dp = 7, .zero = 2, .micro = 2},
    {.dp = 2, .zero = 3, .micro = 2, .shares = "2,5"},
    {.dp = 3, .zero = 3, .micro = 1},
    {.dp = 5, .zero = 1, .micro = 3, .recompute = LS_RECOMPUTE_FULL},
    /* tensor */
    {.tp = 2, .micro = 10},
    {.tp = 4, .micro = 3},
    {.tp = 2, .micro = 2, .sequence_parallel = true, .recompute = LS_RECOMPUTE_SELECTIVE},
    {.tp = 4, .micro = 3, .sequence_parallel = true, .recompute = LS_RECOMPUTE_FULL},
    /* pipeline */
    {.pp = 2, .micro = 1},
    {.pp = 3, .micro = 2, .schedule = "gpipe"},
    {.pp = 4, .micro = 1, .schedule = "zero-bubble"},
    {.pp = 2, .micro = 2, .schedule = "interleaved", .virtual_stages = 3},
    {.pp = 7, .micro = 4, .schedule = "naive"},
    {.pp = 2, .micro = 3, .schedule = "zero-bubble", .recompute = LS_RECOMPUTE_FULL},
    {.pp = 3, .micro = 1, .schedule = "interleaved", .recompute = LS_RECOMPUTE_FULL},
    {.pp = 3, .micro = 3, .stages = "1,5,1"},
    /* all together */
    {.dp = 2, .tp = 2, .zero = 1, .micro = 1, .sequence_parallel = true},
    {.dp = 2, .tp = 2, .zero = 3, .micro = 2, .sequence_parallel = true, .recompute = LS_RECOMPUTE_FULL},
    {.dp = 2, .pp = 2, .zero = 2, .micro = 1},
    {.dp = 2, .pp = 2, .zero = 3, .micro = 1, .schedule = "zero-bubble", .shares = "5,2"},
    {.dp = 3, .pp = 2, .zero = 2, .micro = 2, .schedule = "gpipe", .shares = "1,5,1"},
    {.tp = 2, .pp = 2, .micro = 2, .schedule = "zero-bubble", .sequence_parallel = true},
    {.tp = 2, .pp = 2, .micro = 1, .schedule = "interleaved", .recompute = LS_RECOMPUTE_FULL},
    {.dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro = 2},
    {.dp = 2, .tp = 2, .pp = 2, .zero = 3, .micro = 1, .schedule = "interleaved", .sequence_parallel = true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* What workers leave behind; all of them find the same, but for `bytes`, and check that of logits. */
typedef struct outcome {
    ls_loss_sum loss[STEPS], evaluated[2];
    char grads[PARAMS_MAX][LS_HASH_TEXT_BYTES];
    char weights[LS_HASH_TEXT_BYTES];
    float logits[WORKERS_MAX][LENGTHS][V_MAX];
    int32_t drawn[WORKERS_MAX][2 * DRAWS];
    size_t bytes[WORKERS_MAX];
} outcome;

typedef struct job {
    ls_shape shape;
    ls_partition_setup setup; /* but for place, world and mesh */
    outcome *out;
} job;

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

typedef struct worker {
    const job *job;
    int rank;
    int32_t ids[B * T], targets[B * T];
    ls_model *model;
    ls_device *device;
    ls_mesh *mesh;
    ls_partition *partition;
    ls_adamw_powers powers;
} worker;

/* Every step has tokens of its own. */
static ls_partition_feed feed_of(worker *w, tiny_tokens *tokens, uint64_t step, size_t T_now) {
    tiny_ids(w->ids, B * T, w->job->shape.V, step);
    tiny_ids(w->targets, B * T, w->job->shape.V, step + 1000);
    *tokens = (tiny_tokens){w->ids, w->targets, T_now};
    return (ls_partition_feed){.read = tiny_read, .ctx = tokens};
}

static ls_status sum_loss(worker *w, ls_loss_sum *loss) {
    return ls_partition_sum(w->partition, (int64_t *)loss, sizeof *loss / sizeof(int64_t));
}

static ls_status gradients(worker *w, uint64_t step, ls_loss_sum *loss) {
    tiny_tokens tokens;
    ls_partition_feed feed = feed_of(w, &tokens, step, T);
    LS_TRY(ls_partition_step(w->partition, step, ls_clip_backward_start(B * T, 0), &feed));
    LS_TRY(ls_partition_losses(w->partition, loss));
    return sum_loss(w, loss);
}

static ls_status update(worker *w, int64_t updates) {
    ls_optimizer adamw = {
        .kind = LS_OPTIMIZER_ADAMW, .weight_decay = 0.1, .adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}};
    ls_exact_sum squares = {0};
    LS_TRY(ls_partition_square_norm(w->partition, NULL, &squares, NULL));
    ls_exact_sum_settle(&squares);
    LS_TRY(ls_partition_sum(w->partition, squares.words, LS_EXACT_WORDS));
    ls_clip clip = ls_clip_factor(ls_exact_sum_value(&squares), ls_exact_sum_non_finite(&squares),
                                  ls_clip_token_scale(B * T, 0), 0.5);
    if (!clip.clipped)
        return ls_fail(LS_ERR_FAILED, "a norm of %g is not clipped: the test sees nothing of it", clip.norm);
    ls_adamw_powers_move(&w->powers, &adamw.adamw, updates);
    ls_optimizer_update update = ls_optimizer_update_at(&adamw, &w->powers, 1e-2, clip.factor);
    LS_TRY(ls_optimizer_step(&update, w->device, &w->job->setup.policy, w->model));
    return ls_partition_publish(w->partition);
}

static ls_status train(worker *w) {
    outcome *out = w->job->out;
    for (int step = 0; step < STEPS; step++) {
        ls_loss_sum loss = {0};
        LS_TRY(gradients(w, (uint64_t)step, &loss));
        if (w->rank == 0) out->loss[step] = loss;
        for (int i = 0; step == 0 && i < ls_model_params(w->model); i++) {
            char text[LS_HASH_TEXT_BYTES];
            LS_TRY(ls_partition_hash_tensor(w->partition, ls_model_param(w->model, i), LS_TENSOR_GRAD, text));
            if (w->rank == 0) memcpy(out->grads[i], text, sizeof text);
        }
        LS_TRY(update(w, step + 1));
    }
    return LS_OK;
}

/* All sequences and a part of them, at full length and shorter. */
static ls_status evaluate(worker *w) {
    for (int i = 0; i < 2; i++) {
        tiny_tokens tokens;
        ls_loss_sum loss = {0};
        size_t T_now = i == 0 ? T : T - 1;
        ls_partition_feed feed = feed_of(w, &tokens, 77, T_now);
        LS_TRY(ls_partition_evaluate(w->partition, i == 0 ? B : 3, T_now, &feed, &loss, NULL));
        LS_TRY(sum_loss(w, &loss));
        if (w->rank == 0) w->job->out->evaluated[i] = loss;
    }
    return LS_OK;
}

/* Logits behind 2, 3 and 5 tokens, in pieces where keys stay. */
static ls_status generate(worker *w) {
    static const size_t lengths[LENGTHS] = {2, 3, 5};
    tiny_ids(w->ids, T, w->job->shape.V, 99);
    for (int i = 0; i < LENGTHS; i++) {
        size_t first = ls_partition_keeps_keys(w->partition) && i > 0 ? lengths[i - 1] : 0;
        LS_TRY(ls_partition_extend(w->partition, first, lengths[i] - first, w->ids + first,
                                   w->job->out->logits[w->rank][i]));
    }
    return LS_OK;
}

typedef struct draws {
    int32_t *ids;
    size_t count;
} draws;

static ls_status keep_id(void *ctx, int32_t id, bool *stop) {
    draws *d = ctx;
    d->ids[d->count++] = id;
    *stop = false;
    return LS_OK;
}

/* A text that fills the positions, greedy and drawn, of a model whose vocabulary is larger than its tokenizer. */
static ls_status write_texts(worker *w) {
    static const int32_t prompt[] = {1, 7};
    draws d = {.ids = w->job->out->drawn[w->rank]};
    ls_tokenizer *tokenizer = sparse_tokenizer();
    if (!tokenizer) return LS_ERR_FAILED;
    ls_status status = LS_OK;
    for (int i = 0; i < 2 && status == LS_OK; i++) {
        ls_generate_options options = {
            .temperature = 2 * i, .top_p = 1, .seed = 8, .max_tokens = DRAWS, .tokenizer = tokenizer};
        status = ls_generate(w->partition, T, &options, prompt, 2, keep_id, &d);
    }
    ls_tokenizer_close(tokenizer);
    return status;
}

static ls_status hash_weights(worker *w) {
    char text[LS_HASH_TEXT_BYTES];
    LS_TRY(ls_partition_hash(w->partition, text));
    if (w->rank == 0) memcpy(w->job->out->weights, text, sizeof text);
    return LS_OK;
}

static ls_status run_stage(worker *w, ls_world *world) {
    const job *j = w->job;
    ls_partition_setup setup = j->setup;
    setup.place = ls_layout_place(&setup.layout, w->rank);
    LS_TRY(ls_model_create(&j->shape, LAYERED_SLICES, &w->model));
    LS_TRY(ls_device_open_cpu(1, NULL, NULL, &w->device));
    if (ls_world_size(world) > 1) {
        LS_TRY(ls_mesh_create(world, setup.layout.dp, setup.layout.tp, setup.layout.pp, &w->mesh));
        setup.world = world;
        setup.mesh = w->mesh;
    }
    LS_TRY(ls_partition_create(w->model, w->device, &setup, &w->partition));
    j->out->bytes[w->rank] = ls_partition_arena(w->partition)->peak;
    LS_TRY(ls_partition_init_weights(w->partition, 7));
    if (setup.train) LS_TRY(train(w));
    LS_TRY(hash_weights(w));
    LS_TRY(evaluate(w));
    LS_TRY(generate(w));
    return write_texts(w);
}

static ls_status work(ls_world *world, void *arg) {
    worker w = {.job = arg, .rank = ls_world_rank(world)};
    ls_fpenv_set();
    ls_status status = run_stage(&w, world);
    ls_partition_destroy(w.partition);
    ls_mesh_destroy(w.mesh);
    ls_device_destroy(w.device);
    ls_model_destroy(w.model);
    return status;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static outcome *new_outcome(void) {
    outcome *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(out != MAP_FAILED);
    return out;
}

static void run(const job *j) {
    job mine = *j;
    ls_workers_options options = {
        .workers = ls_layout_workers(&j->setup.layout), .threads = 1, .timeout_s = 60, .no_pin = 1};
    memset(j->out, 0, sizeof *j->out);
    assert_in_range(options.workers, 1, WORKERS_MAX);
    if (ls_workers_run(&options, work, &mine) == LS_OK) return;
    char text[200];
    ls_layout_text(&j->setup.layout, text, sizeof text);
    fail_msg("%s, %s: %s", j->shape.name, text, ls_status_message());
}

/* Says what differs; returns how much does. */
static int compare(const job *j, const ls_model *model, const outcome *want) {
    const outcome *got = j->out;
    char layout[200];
    int wrong = 0;
    ls_layout_text(&j->setup.layout, layout, sizeof layout);
#define SAME(a, b, ...)                                                                                                \
    if (memcmp(&(a), &(b), sizeof(a)) != 0 && ++wrong) {                                                               \
        print_error("%s, %s: ", j->shape.name, layout);                                                                \
        print_error(__VA_ARGS__);                                                                                      \
    }
    for (int i = 0; i < STEPS; i++) SAME(got->loss[i], want->loss[i], "the loss of step %d differs\n", i);
    for (int i = 0; i < ls_model_params(model); i++)
        SAME(got->grads[i], want->grads[i], "the gradient of %s differs\n", ls_model_param(model, i)->name);
    SAME(got->weights, want->weights, "the weights differ\n");
    for (int i = 0; i < 2; i++) SAME(got->evaluated[i], want->evaluated[i], "evaluation %d differs\n", i);
    for (int r = 0; r < ls_layout_workers(&j->setup.layout); r++)
        SAME(got->logits[r], want->logits[0], "the logits of worker %d differ\n", r);
    for (int r = 0; r < ls_layout_workers(&j->setup.layout); r++)
        SAME(got->drawn[r], want->drawn[0], "the texts of worker %d differ\n", r);
#undef SAME
    return wrong;
}

/* What is measured without any worker is what each of them uses. */
static void check_bytes(const job *j) {
    for (int r = 0; r < ls_layout_workers(&j->setup.layout); r++) {
        ls_partition_setup setup = j->setup;
        ls_model *model = NULL;
        ls_arena arena;
        setup.place = ls_layout_place(&setup.layout, r);
        assert_int_equal(ls_model_create(&j->shape, LAYERED_SLICES, &model), LS_OK);
        assert_int_equal(ls_partition_measure(model, &setup, &arena), LS_OK);
        assert_int_equal(arena.peak, j->out->bytes[r]);
        ls_model_destroy(model);
    }
}

/* Something was computed: a test that compares zeros sees nothing. */
static void check_reference(const job *j, int params) {
    const outcome *one = j->out;
    assert_true(params <= PARAMS_MAX && j->shape.V <= V_MAX);
    assert_int_equal(one->evaluated[0].count, B * T);
    assert_int_equal(one->evaluated[1].count, 3 * (T - 1));
    assert_true(one->evaluated[0].total > 0 && one->evaluated[1].total > 0);
    assert_memory_not_equal(one->logits[0][0], one->logits[0][1], j->shape.V * sizeof(float));
    assert_memory_not_equal(one->drawn[0], one->drawn[0] + DRAWS, DRAWS * sizeof(int32_t));
    for (int i = 0; i < 2 * DRAWS; i++) assert_true(sparse_has(one->drawn[0][i]));
    for (int i = 0; i < STEPS && j->setup.train; i++) {
        assert_int_equal(one->loss[i].count, B * T);
        assert_true(one->loss[i].bad == 0 && one->loss[i].total > 0);
        for (int k = 0; k < i; k++) assert_int_not_equal(one->loss[i].total, one->loss[k].total);
    }
}

/* `plan` says whether there is training, its dropout and types. */
static void check_model(ls_shape shape, ls_partition_setup plan, const layered_request *list, int count) {
    ls_model *model = NULL;
    assert_int_equal(ls_model_create(&shape, LAYERED_SLICES, &model), LS_OK);
    ls_layout_task task = {.model = model, .B = B, .T = T, .G = G, .policy = plan.policy};
    ls_partition_setup setup = {.B = B, .T = T, .G = G, .moments = plan.train ? 2 : 0, .seed = 5};
    setup.train = plan.train;
    setup.leaves = plan.leaves;
    setup.dropout = plan.dropout;
    setup.policy = plan.policy;
    setup.layout = ls_layout_one(&task, B);
    job one = {.shape = shape, .setup = setup, .out = new_outcome()}, many = one;
    many.out = new_outcome();
    run(&one);
    check_reference(&one, ls_model_params(model));
    int wrong = 0;
    for (int i = sample_first(4); i < count; i += sample_every(4)) {
        many.setup.layout = layered_layout(&list[i], &task);
        run(&many);
        wrong += compare(&many, model, one.out);
        check_bytes(&many);
    }
    assert_int_equal(wrong, 0);
    ls_model_destroy(model);
    munmap(one.out, sizeof *one.out);
    munmap(many.out, sizeof *many.out);
}

static void tied_gpt2_with_dropout(void **state) {
    (void)state;
    check_model(layered_gpt2(), (ls_partition_setup){.train = true, .dropout = 0.2}, cases, CASES);
}

static void llama_with_grouped_heads(void **state) {
    (void)state;
    check_model(layered_llama(), (ls_partition_setup){.train = true}, cases, CASES);
}

/* Without gradients: as `eval` and `generate` make a stage. */
static void forward_alone(void **state) {
    (void)state;
    static const layered_request list[] = {
        {.micro = 3},
        {.dp = 3, .zero = 3, .micro = 2},
        {.tp = 4, .micro = 2, .sequence_parallel = true},
        {.pp = 3, .micro = 2},
        {.dp = 2, .tp = 2, .pp = 2, .zero = 3, .micro = 1, .virtual_stages = 2},
    };
    check_model(layered_gpt2(), (ls_partition_setup){0}, list, sizeof list / sizeof *list);
    check_model(layered_llama(), (ls_partition_setup){0}, list, sizeof list / sizeof *list);
    check_model(layered_gpt2(), (ls_partition_setup){.policy = {.act = LS_BF16}}, list, sizeof list / sizeof *list);
    check_model(layered_llama(), (ls_partition_setup){.policy = {.act = LS_F16}}, list, sizeof list / sizeof *list);
}

/* ---- other types ------------------------------------------------------------------------------------------------- */

/* All kinds of sharding, tensor and sequence parallelism, a tied table on two stages, recomputation. */
static const layered_request cases16[] = {
    {.micro = 3, .recompute = LS_RECOMPUTE_FULL},
    {.dp = 2, .zero = 0, .micro = 1},
    {.dp = 3, .zero = 1, .micro = 2, .shares = "3,1,3"},
    {.dp = 7, .zero = 2, .micro = 2},
    {.dp = 3, .zero = 3, .micro = 1},
    {.tp = 4, .micro = 3},
    {.tp = 2, .micro = 2, .sequence_parallel = true, .recompute = LS_RECOMPUTE_SELECTIVE},
    {.pp = 3, .micro = 2, .schedule = "gpipe"},
    {.pp = 2, .micro = 3, .schedule = "zero-bubble", .recompute = LS_RECOMPUTE_FULL},
    {.dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro = 2},
    {.dp = 2, .tp = 2, .zero = 3, .micro = 2, .sequence_parallel = true, .recompute = LS_RECOMPUTE_FULL},
    {.dp = 2, .pp = 2, .zero = 3, .micro = 1, .schedule = "zero-bubble", .shares = "5,2"},
};

/* A third of them, from `first` on; with LS_TEST_LONG all. */
static void check_16(ls_shape shape, double dropout, int first, ls_partition_setup plan) {
    enum { CASES16 = sizeof cases16 / sizeof *cases16, EVERY = 3 };
    layered_request some[CASES16];
    int count = 0, every = getenv("LS_TEST_LONG") ? 1 : EVERY;
    for (int i = every == 1 ? 0 : first; i < CASES16; i += every) some[count++] = cases16[i];
    plan.train = true;
    plan.dropout = dropout;
    check_model(shape, plan, some, count);
}

/* Norms of q and k, whose gradients each worker of a TP group computes for its own heads. */
static void qk_norm(void **state) {
    (void)state;
    ls_shape shape = layered_llama();
    shape.qk_norm = true;
    check_model(shape, (ls_partition_setup){.train = true}, cases, CASES);
    check_model(shape, (ls_partition_setup){.policy = {.act = LS_BF16}}, cases16, 1); /* forward alone */
    for (int i = 0; i < 3; i++) check_16(shape, 0, i, (ls_partition_setup){.policy = {.act = LS_BF16}});
    for (int i = 0; i < 3; i++) check_16(shape, 0, i, (ls_partition_setup){.policy = {.act = LS_F16}, .leaves = true});
}

static void gelu_gate(void **state) {
    (void)state;
    ls_shape shape = layered_llama();
    shape.gelu_gate = true;
    check_16(shape, 0, 0, (ls_partition_setup){0});
    check_16(shape, 0, 1, (ls_partition_setup){.policy = {.act = LS_BF16}});
    check_16(shape, 0, 2, (ls_partition_setup){.policy = {.act = LS_F16}});
}

static void bf16(void **state) {
    (void)state;
    check_16(layered_gpt2(), 0.2, 0, (ls_partition_setup){.policy = {.act = LS_BF16}});
    check_16(layered_llama(), 0, 1, (ls_partition_setup){.policy = {.act = LS_BF16}});
    check_16(layered_gpt2(), 0, 2, (ls_partition_setup){.policy = {.act = LS_BF16, .reduce = LS_BF16}});
}

static void fp16(void **state) {
    (void)state;
    check_16(layered_gpt2(), 0.2, 1, (ls_partition_setup){.policy = {.act = LS_F16}, .leaves = true});
    check_16(layered_llama(), 0, 2, (ls_partition_setup){.policy = {.act = LS_F16}});
}

/* Leaves alone, and what is there to see what goes wrong. */
static void fp32_with_leaves_and_the_experiments(void **state) {
    (void)state;
    check_16(layered_gpt2(), 0, 2, (ls_partition_setup){.leaves = true});
    check_16(layered_gpt2(), 0, 1, (ls_partition_setup){.policy = {.reduce = LS_BF16}});
    check_16(layered_llama(), 0, 0,
             (ls_partition_setup){.policy = {.act = LS_BF16, .accumulate = LS_BF16, .no_master = true}});
}

/* The fastest unit that this CPU has. */
static void hardware_unit(void **state) {
    (void)state;
    ls_unit unit = LS_UNIT_CHAIN;
    for (int u = 0; u < LS_UNITS; u++)
        if (ls_unit_is_here((ls_unit)u)) unit = (ls_unit)u;
    if (unit == LS_UNIT_CHAIN) skip();
    check_16(layered_gpt2(), 0.2, 0, (ls_partition_setup){.policy = {.act = LS_BF16, .unit = unit}});
    check_16(layered_llama(), 0, 1, (ls_partition_setup){.policy = {.act = LS_BF16, .unit = unit, .reduce = LS_BF16}});
    check_16(layered_gpt2(), 0, 2, (ls_partition_setup){.policy = {.act = LS_BF16, .unit = unit}});
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR); /* more workers than cores are meant */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tied_gpt2_with_dropout),
        cmocka_unit_test(llama_with_grouped_heads),
        cmocka_unit_test(forward_alone),
        cmocka_unit_test(qk_norm),
        cmocka_unit_test(gelu_gate),
        cmocka_unit_test(bf16),
        cmocka_unit_test(fp16),
        cmocka_unit_test(fp32_with_leaves_and_the_experiments),
        cmocka_unit_test(hardware_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
