/* Settings: defaults that follow from identity fields alone, errors that name the option, and which options make
 * another experiment. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/shape_file.h"
#include "run/settings.h"

static ls_shape shape_of(const char *preset) {
    ls_shape shape;
    assert_int_equal(ls_shape_preset(preset, &shape), LS_OK);
    return shape;
}

/* Names and values in turn, NULL at the end. The texts of the settings are those of the last call. On the CPU, unless
 * they say otherwise: units have defaults of the device. */
static ls_status resolve(const ls_shape *shape, const char *const *given, ls_settings *out) {
    static ls_options options;
    ls_options_fini(&options);
    ls_options_defaults(&options);
    assert_int_equal(ls_options_put(&options, LS_OPT_device, "cpu", LS_ORIGIN_FLAG, 0), LS_OK);
    for (; *given; given += 2) {
        ls_option_id id = ls_option_find(given[0]);
        assert_in_range(id, 0, LS_OPTION_COUNT - 1);
        assert_int_equal(ls_options_put(&options, id, given[1], LS_ORIGIN_FLAG, 0), LS_OK);
    }
    return ls_settings_resolve(&options, shape, out);
}

#define RESOLVE(shape, out, ...) resolve(shape, (const char *const[]){__VA_ARGS__, NULL}, out)

static void defaults(void **state) {
    (void)state;
    ls_settings s;
    ls_shape tiny = shape_of("tiny"), gpt2 = shape_of("gpt2-124m"), llama = shape_of("llama-8b");
    const char *const nothing[] = {NULL};
    assert_int_equal(resolve(&tiny, nothing, &s), LS_OK);
    assert_int_equal(s.T, 256);
    assert_int_equal(s.B, 32);
    assert_int_equal(s.groups, 8);
    assert_int_equal(s.slices, 8);
    assert_int_equal(s.options.steps, 1000);
    assert_int_equal(s.lr.warmup_steps, 100);
    assert_int_equal(s.options.eval_every, 100);
    assert_int_equal(s.options.micro_batch, 0);
    assert_int_equal(resolve(&gpt2, nothing, &s), LS_OK);
    assert_int_equal(s.T, 1024);
    assert_int_equal(s.B, 8);
    /* 131072 positions, of which a sequence takes 1024 unless told otherwise. */
    assert_int_equal(resolve(&llama, nothing, &s), LS_OK);
    assert_int_equal(s.T, 1024);
    assert_int_equal(RESOLVE(&llama, &s, "seq", "100000"), LS_OK);
    assert_int_equal(s.B, 1);
    assert_int_equal(s.groups, 1);
}

static void defaults_follow_other_options(void **state) {
    (void)state;
    ls_settings s;
    ls_shape tiny = shape_of("tiny");
    const struct {
        const char *batch;
        int groups;
    } cases[] = {{"1", 1}, {"2", 2}, {"3", 2}, {"4", 4}, {"7", 4}, {"8", 8}, {"100", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(RESOLVE(&tiny, &s, "global-batch", cases[i].batch), LS_OK);
        assert_int_equal(s.groups, cases[i].groups);
    }
    assert_int_equal(RESOLVE(&tiny, &s, "steps", "50"), LS_OK);
    assert_int_equal(s.lr.warmup_steps, 5);
    assert_int_equal(s.options.eval_every, 5);
    assert_int_equal(RESOLVE(&tiny, &s, "steps", "0"), LS_OK);
    assert_int_equal(s.lr.warmup_steps, 0);
    assert_int_equal(RESOLVE(&tiny, &s, "warmup", "0", "eval-every", "0", "steps", "5000"), LS_OK);
    assert_int_equal(s.lr.warmup_steps, 0);
    assert_int_equal(s.options.eval_every, 0);
    assert_int_equal(RESOLVE(&tiny, &s, "val-data", "x", "val-fraction", "0.3"), LS_OK);
    assert_true(s.val_fraction == 0);
    tiny.kv_heads = 3;
    tiny.H = 6;
    assert_int_equal(RESOLVE(&tiny, &s, "steps", "1"), LS_OK);
    assert_int_equal(s.slices, 2);
}

#define REFUSED(shape, message, ...)                                                                                   \
    do {                                                                                                               \
        ls_settings refused_;                                                                                          \
        assert_int_equal(RESOLVE(shape, &refused_, __VA_ARGS__), LS_ERR_INPUT);                                        \
        assert_string_equal(ls_status_message(), message);                                                             \
    } while (0)

static void errors_name_the_option(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    REFUSED(&tiny, "--seq 257: tiny has 256 positions: use at most --seq 256", "seq", "257");
    REFUSED(&tiny, "--groups 5: a batch of 4 sequences has at most 4 groups", "groups", "5", "global-batch", "4");
    REFUSED(&tiny, "--micro-batch 5: the whole batch has only 4 sequences: use --micro-batch 4", "micro-batch", "5",
            "global-batch", "4");
    ls_shape llama = shape_of("llama-8b");
    REFUSED(
        &llama,
        "--dropout 0.5: attention has more than 2^48 weights in a batch of 1000 sequences of 100000 tokens, too many "
        "to drop some: use a smaller --global-batch or --seq, or no dropout",
        "seq", "100000", "global-batch", "1000", "dropout", "0.5");
    REFUSED(&tiny, "--slices 3: must be a power of two, at most the 8 key/value heads of tiny", "slices", "3");
    REFUSED(&tiny, "--slices 16: must be a power of two, at most the 8 key/value heads of tiny", "slices", "16");
}

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

static void rates_follow_the_batch(void **state) {
    (void)state;
    ls_settings s;
    ls_shape tiny = shape_of("tiny");
    char text[LS_SETTINGS_LR_TEXT_MAX];
    assert_int_equal(RESOLVE(&tiny, &s, "lr", "0.1", "global-batch", "1024"), LS_OK);
    assert_true(s.lr.peak == 0.1 && !ls_settings_lr_is_sudden(&s));
    ls_settings_lr_text(&s, text);
    assert_string_equal(text, "");
    assert_int_equal(
        RESOLVE(&tiny, &s, "lr", "0.1", "global-batch", "1024", "lr-scaling", "linear", "lr-base-batch", "256"), LS_OK);
    assert_true(s.lr.peak == 0.4 && !ls_settings_lr_is_sudden(&s));
    ls_settings_lr_text(&s, text);
    assert_string_equal(text, "0.1 × 4 (linear, batch 1024 / 256) = 0.4");
    /* Without warm-up, but only where the rate was raised, and as far as linear raises it. */
    const char *const sudden[][2] = {{"linear", "256"}, {"linear", "1024"}, {"linear", "2048"}, {"sqrt", "256"}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(RESOLVE(&tiny, &s, "warmup", "0", "global-batch", "1024", "lr-scaling", sudden[i][0],
                                 "lr-base-batch", sudden[i][1]),
                         LS_OK);
        assert_int_equal(ls_settings_lr_is_sudden(&s), i == 0);
    }
    assert_int_equal(
        RESOLVE(&tiny, &s, "lr", "0.001", "global-batch", "64", "lr-scaling", "sqrt", "lr-base-batch", "256"), LS_OK);
    assert_true(s.lr.peak == 0.0005);
    ls_settings_lr_text(&s, text);
    assert_string_equal(text, "0.001 × 0.5 (sqrt, batch 64 / 256) = 0.0005");
    /* The batch that was left open counts too: 8192 tokens' worth. */
    assert_int_equal(RESOLVE(&tiny, &s, "lr", "0.25", "lr-scaling", "linear", "lr-base-batch", "128"), LS_OK);
    assert_true(s.B == 32 && s.lr.peak == 0.0625);
}

static void rates_fall_in_steps(void **state) {
    (void)state;
    ls_settings s;
    ls_shape tiny = shape_of("tiny");
    assert_int_equal(RESOLVE(&tiny, &s, "lr", "0.5", "lr-schedule", "step", "steps", "200"), LS_OK);
    assert_true(s.lr.steps.count == 2 && s.lr.steps.at[0] == 100 && s.lr.steps.at[1] == 150);
    assert_true(s.lr.gamma == 0.1 && s.lr.warmup_steps == 20);
    assert_true(ls_lr_at(&s.lr, 99) == 0.5 && ls_lr_at(&s.lr, 100) == 0.5 * 0.1);
    assert_int_equal(RESOLVE(&tiny, &s, "lr-schedule", "step", "lr-steps", "7,9", "lr-gamma", "0.5", "warmup", "7"),
                     LS_OK);
    assert_true(s.lr.steps.at[0] == 7 && s.lr.steps.at[1] == 9 && s.lr.gamma == 0.5);
    /* A run that is all warm-up. */
    assert_int_equal(RESOLVE(&tiny, &s, "lr-schedule", "step", "steps", "0", "warmup", "10"), LS_OK);
    REFUSED(&tiny,
            "--lr-steps 7,9: the rate would fall at step 7, within the 8 steps of warm-up: use a later step, or a "
            "shorter --warmup",
            "lr-schedule", "step", "lr-steps", "7,9", "warmup", "8");
    REFUSED(&tiny, "--lr-steps 0.7,0.3: must be in ascending order", "lr-schedule", "step", "lr-steps", "0.7,0.3");
    REFUSED(&tiny, "--lr-steps 7: only --lr-schedule step has it; the schedule is cosine", "lr-steps", "7");
    REFUSED(&tiny, "--lr-gamma 0.5: only --lr-schedule step has it; the schedule is wsd", "lr-gamma", "0.5",
            "lr-schedule", "wsd");
}

static void scalings_that_are_refused(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    REFUSED(&tiny,
            "--lr-base-batch 8: nothing is scaled with the batch: add --lr-scaling linear or sqrt, or leave it out",
            "lr-base-batch", "8");
    REFUSED(&tiny, "--lr-scaling linear: name the batch that --lr 0.3 was tuned for: --lr-base-batch N", "lr-scaling",
            "linear", "lr", "0.3");
    REFUSED(&tiny,
            "--lr-scaling linear: --lr 10 becomes 10240 for a batch of 1024, and 1000 is the most: use a lower --lr, "
            "or the "
            "--lr-base-batch that it was found with",
            "lr-scaling", "linear", "lr", "10", "lr-base-batch", "1", "global-batch", "1024");
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

static ls_identity *identity_of(const ls_shape *shape, const char *const *given) {
    ls_settings s;
    ls_identity *identity = NULL;
    assert_int_equal(resolve(shape, given, &s), LS_OK);
    assert_int_equal(ls_identity_create(&identity), LS_OK);
    assert_int_equal(ls_settings_identity(&s, identity), LS_OK);
    return identity;
}

/* Whether the option makes another experiment of the base, and then that it is the one field that differs. */
static bool makes_another(const ls_shape *shape, const char *const base[5], const char *name, const char *value) {
    const char *const changed[] = {base[0], base[1], base[2], base[3], name, value, NULL};
    ls_identity *a = identity_of(shape, base), *b = identity_of(shape, changed);
    ls_identity_change change;
    ls_hash128 of_a, of_b;
    size_t count = ls_identity_diff(a, b, &change, 1);
    assert_int_equal(ls_identity_hash(a, &of_a), LS_OK);
    assert_int_equal(ls_identity_hash(b, &of_b), LS_OK);
    assert_int_equal(count > 0, !ls_hash_equal(of_a, of_b));
    if (count > 0) {
        assert_int_equal(count, 1);
        assert_string_equal(change.name, name);
    }
    ls_identity_destroy(a);
    ls_identity_destroy(b);
    return count > 0;
}

static void which_options_make_another_experiment(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    const char *const adamw[] = {"warmup", "3", "global-batch", "8", NULL};
    const char *const dropout[] = {"dropout", "0.2", "global-batch", "8", NULL};
    const char *const sgd[] = {"warmup", "3", "optimizer", "sgd", NULL};
    const char *const constant[] = {"warmup", "3", "lr-schedule", "constant", NULL};
    const char *const falling[] = {"warmup", "3", "lr-schedule", "step", NULL};
    const char *const at[] = {"lr-steps", "200,300", "lr-schedule", "step", NULL};
    const char *const another[][2] = {{"seed", "1"},         {"seq", "10"},       {"groups", "2"},
                                      {"slices", "2"},       {"lr", "0.1"},       {"lr-schedule", "linear"},
                                      {"lr-min", "0.2"},     {"lr-decay", "0.3"}, {"steps", "999"},
                                      {"weight-decay", "0"}, {"beta1", "0.8"},    {"beta2", "0.9"},
                                      {"eps", "1e-7"},       {"clip", "2"},       {"global-batch", "16"},
                                      {"warmup", "4"}};
    const char *const same[][2] = {{"micro-batch", "2"},  {"threads", "3"},      {"isa", "portable"},
                                   {"eval-every", "7"},   {"keep", "9"},         {"save-every", "4"},
                                   {"pin", "false"},      {"sample-every", "2"}, {"max-tokens", "5"},
                                   {"eval-batches", "3"}, {"momentum", "0.5"},   {"out", "x"}};
    for (size_t i = 0; i < sizeof another / sizeof *another; i++)
        if (!makes_another(&tiny, adamw, another[i][0], another[i][1]))
            fail_msg("%s makes no difference", another[i][0]);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (makes_another(&tiny, adamw, same[i][0], same[i][1])) fail_msg("%s makes a difference", same[i][0]);
    assert_true(makes_another(&tiny, dropout, "dropout", "0.1"));
    assert_true(makes_another(&tiny, sgd, "momentum", "0.5"));
    assert_true(makes_another(&tiny, sgd, "nesterov", "true"));
    assert_false(makes_another(&tiny, sgd, "beta1", "0.5"));
    assert_false(makes_another(&tiny, constant, "steps", "999"));
    assert_true(makes_another(&tiny, falling, "lr-steps", "0.5,0.8"));
    assert_true(makes_another(&tiny, falling, "lr-gamma", "0.2"));
    assert_true(makes_another(&tiny, falling, "lr", "0.2"));
    assert_false(makes_another(&tiny, falling, "lr-steps", "500,750"));
    assert_false(makes_another(&tiny, falling, "lr-min", "0"));
    assert_false(makes_another(&tiny, at, "steps", "2000"));
    assert_true(makes_another(&tiny, at, "warmup", "9"));
}

/* The value of an option in the identity as it would be described, and whether another value makes a difference there.
 * `given` has two names and values at most, `another` is the value of the option. */
static bool reads_back(const ls_shape *shape, const char *const given[4], const ls_option_info *info,
                       const char *another) {
    const char *const changed[] = {info->name, another, given[0], given[1], given[2], given[3], NULL};
    ls_settings s;
    if (resolve(shape, given, &s) != LS_OK || resolve(shape, changed, &s) != LS_OK) return false;
    ls_identity *a = identity_of(shape, changed), *b = identity_of(shape, given), *back;
    ls_identity_change change[16];
    char *text = NULL, expected[32];
    size_t bytes, count = ls_identity_diff(a, b, change, 16), at = 0;
    assert_int_equal(ls_identity_to_text(a, &text, &bytes), LS_OK);
    assert_int_equal(ls_identity_from_text("back", text, bytes, &back), LS_OK);
    assert_int_equal(ls_identity_diff(a, back, NULL, 0), 0);
    while (at < count && strcmp(change[at].name, info->name) != 0) at++;
    snprintf(expected, sizeof expected, "%s", another);
    if (info->kind == LS_OPTION_BOOL)
        snprintf(expected, sizeof expected, "%s",
                 info->identity.as == LS_AS_YES_NO ? "no"
                 : another[0] == 't'               ? "1"
                                                   : "0");
    if (info->identity.as == LS_AS_EXPONENT) snprintf(expected, sizeof expected, "%d", ilogb(strtod(another, NULL)));
    /* Texts are there as they came out: tested above. */
    if (at < count && info->kind != LS_OPTION_STRING) assert_string_equal(change[at].here, expected);
    ls_identity_destroy(back);
    ls_identity_destroy(a);
    ls_identity_destroy(b);
    free(text);
    return at < count;
}

/* Every option that the table says changes the result does, where it acts, and its value is what is recorded. */
static void options_are_read_back(void **state) {
    (void)state;
    static const char *const numbers[] = {"4", "0.5", "2", "false", "true", "0.25", NULL};
    ls_shape tiny = shape_of("tiny"), resnet = shape_of("resnet18");
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id), *other = ls_option_info_get(info->with.id);
        const char *given[5] = {NULL};
        bool works = false, images = id == LS_OPT_ghost || id == LS_OPT_bn;
        if (!info->identity.place || info->identity.as == LS_AS_DATA) continue;
        if (id == LS_OPT_matrix_unit) continue; /* a CPU may have only one: see below */
        int at = 0;
        const ls_option_choice *c = other->choices;
        while (info->with.values && !(info->with.values >> c->value & 1u)) c++;
        if (info->with.values) given[at++] = other->name, given[at++] = c->word;
        if (id == LS_OPT_master_weights) given[at++] = "precision", given[at++] = "bf16";
        for (int i = 0; !works && numbers[i] && !info->choices; i++) {
            ls_options probe;
            ls_options_defaults(&probe);
            if (ls_options_put(&probe, id, numbers[i], LS_ORIGIN_FLAG, 0) == LS_OK)
                works = reads_back(images ? &resnet : &tiny, given, info, numbers[i]);
            ls_options_fini(&probe);
        }
        for (c = info->choices; !works && c && c->word; c++)
            works = reads_back(images ? &resnet : &tiny, given, info, c->word);
        if (!works) fail_msg("--%s is not in the identity", info->name);
    }
}

/* A schedule whose steps are shares moves with the number of steps, and the field that says so is the one that moves.
 */
static void shares_depend_on_the_steps(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    const char *const shorter[] = {"lr-schedule", "step", "warmup", "3", "steps", "1000", NULL};
    const char *const longer[] = {"lr-schedule", "step", "warmup", "3", "steps", "2000", NULL};
    ls_identity *a = identity_of(&tiny, shorter), *b = identity_of(&tiny, longer);
    ls_identity_change change;
    assert_int_equal(ls_identity_diff(a, b, &change, 1), 1);
    assert_string_equal(change.name, "lr-steps");
    assert_string_equal(change.here, "500,750");
    assert_string_equal(change.there, "1000,1500");
    ls_identity_destroy(a);
    ls_identity_destroy(b);
}

/* However the rate came about. */
static void a_scaled_rate_is_the_rate(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    const char *const scaled[] = {"lr", "0.1", "lr-scaling", "linear", "lr-base-batch", "8", NULL};
    const char *const given[] = {"lr", "0.4", NULL};
    const char *const other[] = {"lr", "0.1", "lr-scaling", "sqrt", "lr-base-batch", "8", NULL};
    ls_identity *a = identity_of(&tiny, scaled), *b = identity_of(&tiny, given), *c = identity_of(&tiny, other);
    ls_identity_change change;
    assert_int_equal(ls_identity_diff(a, b, NULL, 0), 0);
    assert_int_equal(ls_identity_diff(a, c, &change, 1), 1);
    assert_string_equal(change.name, "lr");
    assert_string_equal(change.there, "0.2");
    ls_identity_destroy(a);
    ls_identity_destroy(b);
    ls_identity_destroy(c);
}

/* The rule of dropout is part of an experiment only where something is dropped. */
static void rule_of_dropout(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    ls_identity *without = identity_of(&tiny, (const char *const[]){"dropout", "0", NULL});
    ls_identity *with = identity_of(&tiny, (const char *const[]){"dropout", "0.1", NULL});
    int64_t rule = 0;
    assert_false(ls_identity_get_i64(without, "dropout-rule", &rule));
    assert_true(ls_identity_get_i64(with, "dropout-rule", &rule));
    assert_int_equal(rule, 2);
    ls_identity_destroy(without);
    ls_identity_destroy(with);
}

/* Runs of older logits with hgmma do not go on; all other runs have no such field. */
static void rule_of_hgmma(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    ls_identity *chain = identity_of(&tiny, (const char *const[]){"precision", "bf16", NULL});
    const char *const types[] = {"bf16", "fp16"};
    int64_t rule = 0;
    assert_false(ls_identity_get_i64(chain, "hgmma-rule", &rule));
    for (int i = 0; i < 2; i++) {
        ls_identity *unit =
            identity_of(&tiny, (const char *const[]){"precision", types[i], "matrix-unit", "hgmma", NULL});
        assert_true(ls_identity_get_i64(unit, "hgmma-rule", &rule));
        assert_int_equal(rule, 2);
        ls_identity_destroy(unit);
    }
    ls_identity_destroy(chain);
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

static void precision_options(void **state) {
    (void)state;
    ls_settings s;
    ls_shape tiny = shape_of("tiny");
    assert_int_equal(RESOLVE(&tiny, &s, "precision", "fp16"), LS_OK);
    assert_int_equal(s.policy.act, LS_F16);
    assert_int_equal(s.policy.unit, LS_UNIT_CHAIN);
    assert_int_equal(s.policy.reduce, LS_F32);
    assert_false(s.policy.no_master);
    assert_false(s.loss_scale.constant);
    assert_int_equal(s.loss_scale.initial, 16);
    assert_int_equal(s.loss_scale.floor, 0);
    assert_int_equal(s.loss_scale.ceiling, 24);
    assert_int_equal(s.loss_scale.window, 1000);
    assert_int_equal(s.loss_scale.hysteresis, 2);
    assert_int_equal(RESOLVE(&tiny, &s, "precision", "fp16", "loss-scale", "2^10"), LS_OK);
    assert_true(s.loss_scale.constant && s.loss_scale.initial == 10);
    assert_int_equal(RESOLVE(&tiny, &s, "precision", "fp16", "loss-scale-initial", "16777216", "loss-scale-min", "4"),
                     LS_OK);
    assert_true(!s.loss_scale.constant && s.loss_scale.initial == 24 && s.loss_scale.floor == 2);
    assert_int_equal(RESOLVE(&tiny, &s, "precision", "bf16", "reduce-dtype", "bf16", "master-weights", "false"), LS_OK);
    assert_int_equal(s.policy.act, LS_BF16);
    assert_int_equal(s.policy.unit, LS_UNIT_CHAIN); /* the same on every CPU, unless told otherwise */
    assert_int_equal(s.policy.reduce, LS_BF16);
    assert_true(s.policy.no_master);
    assert_true(s.loss_scale.constant && s.loss_scale.initial == 0);
    assert_int_equal(RESOLVE(&tiny, &s, "precision", "bf16", "matrix-unit", "auto"), LS_OK);
    assert_true(ls_unit_is_here(s.policy.unit));
    assert_int_equal(RESOLVE(&tiny, &s, "precision", "fp16", "matrix-unit", "auto"), LS_OK);
    assert_int_equal(s.policy.unit, LS_UNIT_CHAIN);
}

static void precision_that_is_refused(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    for (int i = 0; i < 2; i++)
        for (int u = LS_UNIT_CHAIN + 1; u < LS_UNITS; u++) {
            ls_settings s;
            char want[128];
            const char *unit = ls_unit_name((ls_unit)u);
            if (ls_unit_is_tensor_core((ls_unit)u)) continue;
            assert_int_equal(RESOLVE(&tiny, &s, "precision", i ? "fp16" : "fp32", "matrix-unit", unit), LS_ERR_INPUT);
            snprintf(want, sizeof want,
                     "--matrix-unit %s: hardware units multiply bf16: use --precision bf16, or chain", unit);
            assert_string_equal(ls_status_message(), want);
        }
    REFUSED(&tiny, "--matrix-unit hgmma: it multiplies bf16 and fp16: use --precision bf16, or chain", "matrix-unit",
            "hgmma");
    REFUSED(&tiny, "--loss-scale 8: only fp16 gradients vanish: use --precision fp16, or leave it out", "precision",
            "bf16", "loss-scale", "8");
    REFUSED(&tiny, "--loss-scale 8: only fp16 gradients vanish: use --precision fp16, or leave it out", "loss-scale",
            "8");
    REFUSED(&tiny, "--loss-scale-window 9: only fp16 gradients vanish: use --precision fp16, or leave it out",
            "precision", "bf16", "loss-scale-window", "9");
    REFUSED(&tiny, "--loss-scale 3: must be dynamic, or a power of two from 2^-14 to 2^24", "precision", "fp16",
            "loss-scale", "3");
    REFUSED(&tiny, "--loss-scale 2^25: must be dynamic, or a power of two from 2^-14 to 2^24", "precision", "fp16",
            "loss-scale", "2^25");
    REFUSED(&tiny, "--loss-scale much: must be dynamic, or a power of two from 2^-14 to 2^24", "precision", "fp16",
            "loss-scale", "much");
    REFUSED(&tiny, "--loss-scale-initial 1000: must be a power of two", "precision", "fp16", "loss-scale-initial",
            "1000");
    REFUSED(&tiny, "--loss-scale-min 3: must be a power of two", "precision", "fp16", "loss-scale-min", "3");
    REFUSED(&tiny, "--loss-scale-initial 2: is below --loss-scale-min: begin at or above the floor", "precision",
            "fp16", "loss-scale-initial", "2", "loss-scale-min", "4");
    REFUSED(&tiny, "--master-weights false: with --precision fp32 there are no other weights", "master-weights",
            "false");
}

/* Fewer slices and groups, and slices of the vocabulary at multiples of 64. */
static void defaults_of_hgmma(void **state) {
    (void)state;
    static const struct {
        const char *batch, *seq;
        int groups;
    } cases[] = {{"1", "64", 1},    {"4", "64", 2},    {"32", "256", 2},
                 {"32", "1024", 4}, {"64", "1024", 8}, {"512", "1024", 8}};
    ls_shape gpt2 = shape_of("gpt2-124m"), llama = shape_of("llama-8b");
    ls_settings s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(RESOLVE(&gpt2, &s, "precision", "bf16", "matrix-unit", "hgmma", "global-batch", cases[i].batch,
                                 "seq", cases[i].seq),
                         LS_OK);
        assert_int_equal(s.groups, cases[i].groups);
        assert_int_equal(s.slices, 2);
    }
    assert_int_equal(ls_shape_first_id(&s.shape, 2, 1), 393 * 64);
    assert_int_equal(ls_shape_first_id(&s.shape, 2, 2), 50257);
    assert_int_equal(ls_shape_first_id(&gpt2, 2, 1), 25128);
    assert_int_equal(RESOLVE(&llama, &s, "precision", "fp16", "matrix-unit", "hgmma", "slices", "8", "groups", "1"),
                     LS_OK);
    assert_int_equal(s.slices, 8);
    assert_int_equal(s.groups, 1);
    /* With a GPU's name it is the default: which GPU it is, is looked at later where there is none here. */
    assert_int_equal(RESOLVE(&gpt2, &s, "precision", "fp32", "device", "cuda"), LS_OK);
    assert_int_equal(s.policy.unit, LS_UNIT_CHAIN);
    assert_int_equal(RESOLVE(&gpt2, &s, "precision", "fp16", "device", "cuda", "matrix-unit", "chain"), LS_OK);
    assert_int_equal(s.policy.unit, LS_UNIT_CHAIN);
}

/* Of another machine, or of none. */
static void units_that_this_cpu_lacks(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    int lacking = 0;
    for (int u = LS_UNIT_CHAIN + 1; u < LS_UNITS; u++) {
        ls_settings s;
        char want[64];
        const char *unit = ls_unit_name((ls_unit)u);
        ls_status status = RESOLVE(&tiny, &s, "precision", "bf16", "matrix-unit", unit);
        if (ls_unit_is_here((ls_unit)u)) {
            assert_int_equal(status, LS_OK);
            assert_int_equal(s.policy.unit, u);
            continue;
        }
        lacking++;
        assert_int_equal(status, LS_ERR_INPUT);
        snprintf(want, sizeof want, "has no matrix unit %s; it has: chain", unit);
        if (!strstr(ls_status_message(), want)) fail_msg("%s", ls_status_message());
    }
    assert_true(lacking > 0); /* no CPU has those of ARM and of x86-64 */
}

/* Whether the identity has a field of this name; its value does not matter. */
static bool has_field(const ls_identity *identity, const char *name) {
    char *text = NULL;
    char member[80];
    size_t bytes;
    assert_int_equal(ls_identity_to_text(identity, &text, &bytes), LS_OK);
    snprintf(member, sizeof member, "\"%s\":", name);
    bool has = strstr(text, member) != NULL;
    free(text);
    return has;
}

static void expect_fields(const ls_shape *shape, const char *const *given, const char *const *names) {
    static const char *const all[] = {
        "precision",         "matrix-unit",    "reduce-dtype",       "accumulate-dtype",
        "master-weights",    "loss-scale",     "loss-scale-initial", "loss-scale-hysteresis",
        "loss-scale-window", "loss-scale-min", "on-outlier",         "outlier-threshold",
        "numerics"};
    ls_identity *identity = identity_of(shape, given);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool wanted = false;
        for (const char *const *name = names; *name; name++) wanted |= strcmp(*name, all[i]) == 0;
        if (has_field(identity, all[i]) != wanted) fail_msg("%s with %s", all[i], given[0] ? given[1] : "nothing");
    }
    ls_identity_destroy(identity);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Only what is not as it was in fp32: older runs go on. */
static void fields_of_precision(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    const char *const none[] = {NULL};
    expect_fields(&tiny, none, none);
    expect_fields(&tiny, LIST("precision", "bf16"), LIST("precision", "matrix-unit"));
    expect_fields(&tiny, LIST("precision", "bf16", "reduce-dtype", "bf16"),
                  LIST("precision", "matrix-unit", "reduce-dtype"));
    expect_fields(&tiny, LIST("reduce-dtype", "bf16"), LIST("reduce-dtype"));
    expect_fields(&tiny, LIST("accumulate-dtype", "bf16"), LIST("accumulate-dtype"));
    expect_fields(&tiny, LIST("precision", "bf16", "master-weights", "false"),
                  LIST("precision", "matrix-unit", "master-weights"));
    expect_fields(&tiny, LIST("precision", "fp16"),
                  LIST("precision", "loss-scale", "loss-scale-initial", "loss-scale-hysteresis", "loss-scale-window",
                       "loss-scale-min"));
    expect_fields(&tiny, LIST("precision", "fp16", "matrix-unit", "hgmma"),
                  LIST("precision", "matrix-unit", "loss-scale", "loss-scale-initial", "loss-scale-hysteresis",
                       "loss-scale-window", "loss-scale-min"));
    expect_fields(&tiny, LIST("precision", "fp16", "loss-scale", "1"),
                  LIST("precision", "loss-scale", "loss-scale-initial", "loss-scale-hysteresis"));
    /* What only tells is no part of it. */
    expect_fields(&tiny, LIST("on-outlier", "warn"), none);
    expect_fields(&tiny, LIST("on-outlier", "stop", "numerics", "5"), none);
    expect_fields(&tiny, LIST("on-outlier", "skip-group"), LIST("on-outlier", "outlier-threshold"));
}

/* The hash that identities of these settings had before there was a choice of types. */
static void identity_of_fp32_is_unchanged(void **state) {
    (void)state;
    ls_shape tiny = shape_of("tiny");
    const char *const none[] = {NULL};
    const char *const plain[] = {"precision", "fp32", "matrix-unit", "chain", "reduce-dtype", "fp32", NULL};
    char text[33];
    ls_hash128 hash;
    for (int i = 0; i < 2; i++) {
        ls_identity *identity = identity_of(&tiny, i ? plain : none);
        assert_int_equal(ls_identity_hash(identity, &hash), LS_OK);
        ls_hash_text(hash, text);
        assert_string_equal(text, "fee748a7838890ba3498b948aa1cf267");
        ls_identity_destroy(identity);
    }
}

/* Every number of a shape is in the identity, but not its name. */
static void shapes_make_another_experiment(void **state) {
    (void)state;
    const char *const nothing[] = {"slices", "1", NULL};
    const ls_shape base = shape_of("llama-8b");
    ls_identity *a = identity_of(&base, nothing);
    ls_shape other[17];
    for (int i = 0; i < 17; i++) other[i] = base;
    other[0].V++, other[1].C++, other[2].L++, other[3].H = 16, other[4].T++, other[5].kv_heads = 4;
    other[6].head_size = 64, other[7].hidden++, other[8].tied = true, other[9].attention_bias = true;
    other[10].mlp_bias = true, other[11].eps = 1e-6, other[12].init_std = 0.03, other[13].rope.base = 7;
    other[14].rope.factor = 3, other[15].rope.high_factor = 5, other[16].rope.original_T = 5;
    for (int i = 0; i < 17; i++) {
        ls_identity *b = identity_of(&other[i], nothing);
        assert_int_equal(ls_identity_diff(a, b, NULL, 0), 1);
        ls_identity_destroy(b);
    }
    ls_shape renamed = base;
    strcpy(renamed.name, "mine");
    ls_identity *b = identity_of(&renamed, nothing);
    assert_int_equal(ls_identity_diff(a, b, NULL, 0), 0);
    ls_identity_destroy(b);
    ls_identity_destroy(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(defaults_follow_other_options),
        cmocka_unit_test(errors_name_the_option),
        cmocka_unit_test(rates_follow_the_batch),
        cmocka_unit_test(rates_fall_in_steps),
        cmocka_unit_test(scalings_that_are_refused),
        cmocka_unit_test(options_are_read_back),
        cmocka_unit_test(which_options_make_another_experiment),
        cmocka_unit_test(shares_depend_on_the_steps),
        cmocka_unit_test(a_scaled_rate_is_the_rate),
        cmocka_unit_test(rule_of_dropout),
        cmocka_unit_test(precision_options),
        cmocka_unit_test(precision_that_is_refused),
        cmocka_unit_test(rule_of_hgmma),
        cmocka_unit_test(defaults_of_hgmma),
        cmocka_unit_test(units_that_this_cpu_lacks),
        cmocka_unit_test(fields_of_precision),
        cmocka_unit_test(identity_of_fp32_is_unchanged),
        cmocka_unit_test(shapes_make_another_experiment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
