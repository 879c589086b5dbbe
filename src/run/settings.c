/* settings.c: resolves the options of a training run to settings: fills defaults, checks values and combinations, and
 * lists what belongs to the identity. Functions resolve_* fill their part of the settings and fail with LS_ERR_INPUT,
 * naming the option. */
#include "run/settings.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "config/value.h"
#include "device/choose.h"
#include "model/model.h"
#include "model/shape_file.h"

enum {
    DEFAULT_BATCH_TOKENS = 8192,
    DEFAULT_BATCH_IMAGES = 256,
    GHOST_MAX = 32,
    DEFAULT_T_MAX = 1024,
    DEFAULT_GROUPS = 8,
    GROUP_TOKENS = 8192,
    ARITHMETIC_VERSION = 1,
    HGMMA_RULE =
        2 /* of what is the unit's own (docs/reference/arithmetic.md); 1: fp32 logits. Only runs with hgmma have it */
};

/* Finds the first option that the user set although it has an effect only if `choice` is `value`; LS_OPTION_COUNT if
 * there is none. */
static ls_option_id find_asked_for(const ls_options *o, ls_option_id choice, int value) {
    ls_option_id id = 0;
    for (; id < LS_OPTION_COUNT; id++) {
        ls_option_with with = ls_option_info_get(id)->with;
        if (with.id == choice && with.values == 1u << value && ls_options_is_asked_for(o, id)) break;
    }
    return id;
}

/* Returns the default number of gradient groups: a power of two up to 8 and the batch. With the matrix unit hgmma
 * fewer, so that each of more than two groups has at least 8192 tokens, because each group costs a pass over the
 * gradients. */
static int default_groups(const ls_settings *s) {
    size_t most = DEFAULT_GROUPS, by_tokens = s->B * s->T / GROUP_TOKENS;
    int groups = 1;
    if (ls_unit_is_tensor_core(s->policy.unit) && by_tokens < most) most = by_tokens > 2 ? by_tokens : 2;
    while ((size_t)(2 * groups) <= most && (size_t)(2 * groups) <= s->B) groups *= 2;
    return groups;
}

/* Sets the number of slices (parts into which every layer is cut, the same in every layout): a power of two, at most
 * the key/value heads. */
static ls_status resolve_slices(const ls_options *o, ls_settings *s) {
    s->slices = o->slices > 0 ? (int)o->slices : ls_model_default_slices(&s->shape, s->policy.unit);
    if ((s->slices & (s->slices - 1)) == 0 && (size_t)s->slices <= s->shape.kv_heads) return LS_OK;
    return ls_options_fail(o, LS_OPT_slices, "must be a power of two, at most the %zu key/value heads of %s",
                           s->shape.kv_heads, s->shape.name);
}

/* Sets sequence length T, sequences of a batch B, gradient groups and slices, and checks the micro-batch against B. */
static ls_status resolve_batch(const ls_options *o, ls_settings *s) {
    const ls_shape *shape = &s->shape;
    s->T = o->seq > 0 ? (size_t)o->seq : shape->T < DEFAULT_T_MAX ? shape->T : DEFAULT_T_MAX;
    if (s->T > shape->T)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions: use at most --seq %zu", shape->name, shape->T,
                               shape->T);
    size_t per_batch = ls_shape_sees_images(shape) ? DEFAULT_BATCH_IMAGES : DEFAULT_BATCH_TOKENS / s->T;
    s->B = o->global_batch > 0 ? (size_t)o->global_batch : per_batch > 0 ? per_batch : 1;
    s->groups = o->groups > 0 ? (int)o->groups : default_groups(s);
    if ((size_t)s->groups > s->B)
        return ls_options_fail(o, LS_OPT_groups, "a batch of %zu sequences has at most %zu groups", s->B, s->B);
    LS_TRY(resolve_slices(o, s));
    if ((size_t)o->micro_batch > s->B)
        return ls_options_fail(o, LS_OPT_micro_batch, "the whole batch has only %zu sequences: use --micro-batch %zu",
                               s->B, s->B);
    return LS_OK;
}

/* Fails if the attention weights of a batch exceed the random numbers of a step, 2^48: each weight has its own. */
static ls_status check_dropout(const ls_options *o, const ls_settings *s) {
    double pairs = (double)s->B * (double)s->shape.H * (double)s->T * (double)s->T;
    if (o->dropout == 0 || pairs <= (double)LS_RNG_INDEX_LIMIT) return LS_OK;
    return ls_options_fail(
        o, LS_OPT_dropout,
        "attention has more than 2^48 weights in a batch of %zu sequences of %zu tokens, too many to "
        "drop some: use a smaller --global-batch or --seq, or no dropout",
        s->B, s->T);
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

/* Returns the fastest matrix unit of this machine; units are listed from the slowest to the fastest. */
static ls_unit best_unit(void) {
    ls_unit best = LS_UNIT_CHAIN;
    for (int u = LS_UNIT_CHAIN; u < LS_UNITS; u++)
        if (ls_unit_is_fast_here((ls_unit)u)) best = (ls_unit)u;
    return best;
}

ls_status ls_settings_precision(const ls_options *o, ls_policy *out) {
    static const ls_dtype dtypes[] = {[LS_PLAN_FP32] = LS_F32, [LS_PLAN_BF16] = LS_BF16, [LS_PLAN_FP16] = LS_F16};
    if (o->precision >= LS_PLAN_FP8)
        return ls_options_fail(o, LS_OPT_precision, "only plan supports it: use bf16, fp16 or fp32");
    *out = (ls_policy){.act = dtypes[o->precision], .unit = o->matrix_unit};
    bool is_auto = o->matrix_unit == LS_UNIT_AUTO, is_open = is_auto || !ls_options_is_given(o, LS_OPT_matrix_unit);
    if (is_open) out->unit = ls_policy_is_16(out) ? ls_device_default_unit(o->device) : LS_UNIT_CHAIN;
    if (is_auto && out->unit == LS_UNIT_CHAIN && out->act == LS_BF16) out->unit = best_unit();
    if (!ls_unit_takes(out->unit, out->act))
        return ls_options_fail(o, LS_OPT_matrix_unit,
                               ls_unit_is_tensor_core(out->unit)
                                   ? "it multiplies bf16 and fp16: use --precision bf16, or chain"
                                   : "hardware units multiply bf16: use --precision bf16, or chain");
    if (ls_device_is_gpu(o->device) && out->unit != LS_UNIT_CHAIN && !ls_unit_is_tensor_core(out->unit))
        return ls_options_fail(o, LS_OPT_matrix_unit, "it is a CPU's: use auto, the GPU's tensor cores, or chain");
    return ls_unit_check(out->unit);
}

/* Sets the loss scale of fp16; otherwise it is constant and 1, and options that only fp16 uses are refused. */
static ls_status resolve_scale(const ls_options *o, ls_settings *s) {
    ls_loss_scale_settings *scale = &s->loss_scale;
    *scale = (ls_loss_scale_settings){.constant = true, .hysteresis = 1};
    if (s->policy.act != LS_F16) {
        ls_option_id id = find_asked_for(o, LS_OPT_precision, LS_PLAN_FP16);
        if (id == LS_OPTION_COUNT) return LS_OK;
        return ls_options_fail(o, id, "only fp16 gradients vanish: use --precision fp16, or leave it out");
    }
    scale->hysteresis = (int)o->loss_scale_hysteresis;
    if (strcmp(o->loss_scale, "dynamic") != 0) {
        if (ls_loss_scale_parse(o->loss_scale, &scale->initial) == LS_OK) return LS_OK;
        return ls_options_fail(o, LS_OPT_loss_scale, "must be dynamic, or a power of two from 2^-14 to 2^24");
    }
    scale->constant = false;
    scale->window = o->loss_scale_window;
    scale->ceiling = LS_LOSS_SCALE_EXPONENT_MAX;
    if (ls_loss_scale_exponent(o->loss_scale_initial, &scale->initial) != LS_OK)
        return ls_options_fail(o, LS_OPT_loss_scale_initial, "must be a power of two");
    if (ls_loss_scale_exponent(o->loss_scale_min, &scale->floor) != LS_OK)
        return ls_options_fail(o, LS_OPT_loss_scale_min, "must be a power of two");
    if (scale->floor > scale->initial)
        return ls_options_fail(o, LS_OPT_loss_scale_initial, "is below --loss-scale-min: begin at or above the floor");
    return ls_loss_scale_check(scale);
}

/* Sets all number types: of activations, of gradients on the wire and while they are summed, and whether there are
 * master weights. */
static ls_status resolve_policy(const ls_options *o, ls_settings *s) {
    LS_TRY(ls_settings_precision(o, &s->policy));
    s->policy.reduce = o->reduce_dtype;
    s->policy.accumulate = o->accumulate_dtype;
    s->policy.no_master = !o->master_weights;
    if (s->policy.no_master && !ls_policy_is_16(&s->policy))
        return ls_options_fail(o, LS_OPT_master_weights, "with --precision fp32 there are no other weights");
    return resolve_scale(o, s);
}

/* Sets the optimizer and its constants; the learning rate comes from resolve_lr(). */
static ls_status resolve_optimizer(const ls_options *o, ls_settings *s) {
    s->optimizer = (ls_optimizer){
        .kind = o->optimizer,
        .adamw = {.beta1 = o->beta1, .beta2 = o->beta2, .epsilon = o->eps},
        .sgd = {.momentum = o->momentum, .nesterov = o->nesterov},
        .weight_decay = o->weight_decay,
    };
    LS_TRY(ls_adamw_options_check(&s->optimizer.adamw));
    return ls_sgd_options_check(&s->optimizer.sgd);
}

/* Sets up batch-norm statistics over the whole batch (--bn sync). Refuses --ghost, --audit and --on-outlier skip,
 * because each gradient group has a share in the statistics and cannot be computed or left out alone. */
static ls_status resolve_bn_sync(const ls_options *o, ls_settings *s) {
    s->bn_sync = true;
    s->ghost = s->B / (size_t)s->groups;
    if (o->ghost > 0) return ls_options_fail(o, LS_OPT_ghost, "--bn sync has no ghost groups: leave one of them out");
    if (s->B < 2) return ls_options_fail(o, LS_OPT_global_batch, "batch norm needs two images at least");
    if (o->audit > 0)
        return ls_options_fail(o, LS_OPT_audit,
                               "computes a gradient group again alone, which --bn sync does not allow: leave one out");
    if (o->on_outlier == LS_OUTLIER_SKIP)
        return ls_options_fail(o, LS_OPT_on_outlier,
                               "a group that is left out would stay in the statistics of --bn sync: use stop or warn");
    return LS_OK;
}

/* Resolves the size of ghost groups, which divide a gradient group. Without --ghost it is the largest divisor of a
 * gradient group's images up to 32. LS_ERR_INPUT if that is 1, or does not divide --micro-batch. */
static ls_status resolve_ghost(const ls_options *o, ls_settings *s) {
    size_t group = s->B / (size_t)s->groups;
    bool sync = o->bn == LS_BN_SYNC;
    if (!ls_shape_has_batch_norm(&s->shape)) {
        if (o->ghost == 0 && !sync) return LS_OK;
        return ls_options_fail(o, sync ? LS_OPT_bn : LS_OPT_ghost, "%s has no batch norm: leave it out", s->shape.name);
    }
    if (s->B % (size_t)s->groups != 0)
        return ls_options_fail(o, LS_OPT_global_batch,
                               "batch norm needs gradient groups of one size, and %d groups do not divide it: use "
                               "--global-batch %zu, or other --groups",
                               s->groups, s->B + (size_t)s->groups - s->B % (size_t)s->groups);
    if (sync) return resolve_bn_sync(o, s);
    s->ghost = o->ghost > 0 ? (size_t)o->ghost : group < GHOST_MAX ? group : GHOST_MAX;
    while (o->ghost == 0 && group % s->ghost != 0) s->ghost--;
    if (group % s->ghost != 0)
        return ls_options_fail(o, LS_OPT_ghost,
                               "a gradient group has %zu images, which are no multiple of it: use a divisor of %zu, or "
                               "other --groups",
                               group, group);
    if (s->ghost > 1 && (size_t)o->micro_batch % s->ghost == 0) return LS_OK; /* 0: chosen later */
    if (o->ghost == 1)
        return ls_options_fail(o, LS_OPT_ghost, "batch norm needs two images at least: use --ghost 2 or more");
    if (s->ghost == 1)
        return ls_options_fail(o, LS_OPT_global_batch,
                               "batch norm needs two images at least in each of the %d gradient groups: use "
                               "--global-batch %d or more, or fewer --groups",
                               s->groups, 2 * s->groups);
    return ls_options_fail(o, LS_OPT_micro_batch, "batch norm takes %zu images together: use a multiple of it",
                           s->ghost);
}

/* Refuses options that image models do not support: precisions other than fp32, and dropout in families without it. */
static ls_status check_images(const ls_options *o, const ls_settings *s) {
    if (!ls_shape_sees_images(&s->shape)) return LS_OK;
    if (s->policy.act != LS_F32 || s->policy.reduce != LS_F32 || s->policy.accumulate != LS_F32)
        return ls_options_fail(o, LS_OPT_precision, "image models train in fp32; leave it out");
    if (o->dropout > 0 && !ls_shape_family(&s->shape)->has_dropout)
        return ls_options_fail(o, LS_OPT_dropout, "%s has no dropout: leave it out", s->shape.name);
    return LS_OK;
}

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

/* Sets the peak learning rate: --lr, times the factor of --lr-scaling for this batch. */
static ls_status resolve_scaling(const ls_options *o, ls_settings *s) {
    static const double highest = 1000; /* as --lr alone */
    s->lr.peak = o->lr;
    if (o->lr_scaling == LS_LR_SCALING_NONE) {
        if (!ls_options_is_asked_for(o, LS_OPT_lr_base_batch)) return LS_OK;
        return ls_options_fail(o, LS_OPT_lr_base_batch,
                               "nothing is scaled with the batch: add --lr-scaling linear or sqrt, or leave it out");
    }
    if (!ls_options_is_given(o, LS_OPT_lr_base_batch))
        return ls_options_fail(o, LS_OPT_lr_scaling, "name the batch that --lr %g was tuned for: --lr-base-batch N",
                               o->lr);
    s->lr.peak = o->lr * ls_lr_scaling_factor(o->lr_scaling, (double)s->B, (double)o->lr_base_batch);
    if (s->lr.peak <= highest) return LS_OK;
    return ls_options_fail(o, LS_OPT_lr_scaling,
                           "--lr %g becomes %g for a batch of %zu, and %g is the most: use a lower --lr, or the "
                           "--lr-base-batch that it was found with",
                           o->lr, s->lr.peak, s->B, highest);
}

void ls_settings_lr_text(const ls_settings *s, char text[LS_SETTINGS_LR_TEXT_MAX]) {
    const ls_options *o = &s->options;
    text[0] = '\0';
    if (o->lr_scaling == LS_LR_SCALING_NONE) return;
    snprintf(text, LS_SETTINGS_LR_TEXT_MAX, "%g × %g (%s, batch %zu / %" PRId64 ") = %g", o->lr,
             ls_lr_scaling_factor(o->lr_scaling, (double)s->B, (double)o->lr_base_batch),
             ls_lr_scaling_name(o->lr_scaling), s->B, o->lr_base_batch, s->lr.peak);
}

bool ls_settings_lr_is_sudden(const ls_settings *s) {
    return s->options.lr_scaling == LS_LR_SCALING_LINEAR && s->lr.peak > s->options.lr && s->lr.warmup_steps == 0;
}

/* Sets the steps at which the learning rate falls, of --lr-schedule step; refuses its options for other schedules. */
static ls_status resolve_steps(const ls_options *o, ls_settings *s) {
    ls_lr_schedule *lr = &s->lr;
    if (lr->kind != LS_LR_STEP) {
        ls_option_id id = find_asked_for(o, LS_OPT_lr_schedule, LS_LR_STEP);
        if (id == LS_OPTION_COUNT) return LS_OK;
        return ls_options_fail(o, id, "only --lr-schedule step has it; the schedule is %s", ls_lr_kind_name(lr->kind));
    }
    lr->gamma = o->lr_gamma;
    LS_TRY(ls_options_blame(o, LS_OPT_lr_steps, ls_lr_steps_parse(o->lr_steps, lr->total_steps, &lr->steps)));
    if (lr->warmup_steps >= lr->total_steps || lr->steps.at[0] >= lr->warmup_steps) return LS_OK;
    return ls_options_fail(o, LS_OPT_lr_steps,
                           "the rate would fall at step %" PRId64 ", within the %" PRId64
                           " steps of warm-up: use a later step, or a shorter --warmup",
                           lr->steps.at[0], lr->warmup_steps);
}

/* Returns the default warm-up in steps: a tenth of the steps, at most 100. */
static int64_t default_warmup(int64_t steps) { return steps / 10 < 100 ? steps / 10 : 100; }

/* Sets the learning-rate schedule. */
static ls_status resolve_lr(const ls_options *o, ls_settings *s) {
    s->lr =
        (ls_lr_schedule){.kind = o->lr_schedule,
                         .min_fraction = o->lr_min,
                         .decay_fraction = o->lr_decay,
                         .warmup_steps = ls_options_is_given(o, LS_OPT_warmup) ? o->warmup : default_warmup(o->steps),
                         .total_steps = o->steps};
    LS_TRY(resolve_scaling(o, s));
    LS_TRY(resolve_steps(o, s));
    return ls_lr_schedule_check(&s->lr);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Parses --save-every: a number without unit counts steps, one with a unit is a time, "auto" is a time that is adapted
 * later. Also refuses --early-stop without evaluations. */
static ls_status resolve_saving(const ls_options *o, ls_settings *s) {
    const double longest_s = 366 * 86400.0;
    const int64_t most = INT64_C(281474976710655);
    const double first_auto_s = 60;
    const char *text = o->save_every;
    size_t length = strlen(text);
    s->save_auto = strcmp(text, "auto") == 0;
    if (s->save_auto) s->save_every_s = first_auto_s;
    bool is_steps = strspn(text, "0123456789") == length, is_time = false;
    if (is_steps && (ls_value_parse_int(text, &s->save_every) != LS_OK || s->save_every > most))
        return ls_options_fail(o, LS_OPT_save_every, "must be at most %lld steps", (long long)most);
    if (!is_steps && length > 0 && !strchr("0123456789.", text[length - 1]))
        is_time = ls_value_parse_time(text, &s->save_every_s) == LS_OK;
    if (!s->save_auto && !is_steps && (!is_time || !(s->save_every_s > 0 && s->save_every_s <= longest_s)))
        return ls_options_fail(
            o, LS_OPT_save_every,
            "must be a number of steps, such as 100, or a time in ms, s, min, h or day, such as 10min; auto "
            "chooses a time by --mtbf; 0 saves only at the end");
    if (o->early_stop > 0 && s->options.eval_every == 0)
        return ls_options_fail(o, LS_OPT_early_stop, "needs evaluations: add --eval-every N, the steps between them");
    return LS_OK;
}

ls_status ls_settings_resolve(const ls_options *o, const ls_shape *shape, ls_settings *out) {
    *out = (ls_settings){.options = *o, .shape = *shape, .val_fraction = o->val_data ? 0 : o->val_fraction};
    if (!ls_options_is_given(o, LS_OPT_eval_every)) out->options.eval_every = o->steps / 10;
    LS_TRY(resolve_saving(o, out));
    LS_TRY(resolve_policy(o, out));
    ls_model_suit_unit(&out->shape, out->policy.unit);
    LS_TRY(resolve_batch(o, out));
    LS_TRY(check_dropout(o, out));
    LS_TRY(check_images(o, out));
    LS_TRY(resolve_ghost(o, out));
    LS_TRY(resolve_optimizer(o, out));
    return resolve_lr(o, out);
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

/* Adds a scalar member of the shape's JSON to the identity, under PREFIX + KEY; a boolean becomes 0 or 1. */
static ls_status add_member(ls_identity *id, const char *prefix, const char *key, const json_t *value) {
    char name[LS_IDENTITY_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", prefix, key);
    if (json_is_string(value)) return ls_identity_add_text(id, name, json_string_value(value), LS_IDENTITY_FIXED);
    if (json_is_real(value)) return ls_identity_add_f64(id, name, json_real_value(value), LS_IDENTITY_FIXED);
    int64_t number = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
    return ls_identity_add_i64(id, name, number, LS_IDENTITY_FIXED);
}

/* Adds the fields of a shape to the identity, except its name, which changes no result. Members of lists and objects
 * become fields of their own; eps is a field only if the model has norms. */
static ls_status add_shape(const ls_shape *shape, ls_identity *id) {
    ls_status status = LS_OK;
    bool has_eps = ls_shape_family(shape)->norm != LS_NORM_NONE;
    json_t *json = ls_shape_to_json(shape), *value;
    const char *key;
    if (!json) return ls_fail(LS_ERR_RESOURCE, "out of memory for the identity of a run");
    json_object_foreach(json, key, value) {
        bool is_own = strcmp(key, "name") != 0 && strcmp(key, "widths") != 0 && strcmp(key, "rope-scaling") != 0;
        if (is_own && (has_eps || strcmp(key, "eps") != 0)) LS_TRY_OUT(add_member(id, "model.", key, value));
    }
    json_object_foreach(json_object_get(json, "rope-scaling"), key, value)
        LS_TRY_OUT(add_member(id, "model.rope-", key, value));
    for (size_t i = 0; ls_family_has_field(ls_shape_family(shape), LS_FIELD_WIDTHS) && i <= shape->L; i++) {
        char name[32];
        snprintf(name, sizeof name, "model.hidden-%zu", i + 1);
        LS_TRY_OUT(ls_identity_add_i64(id, name, (int64_t)shape->image.hidden[i], LS_IDENTITY_FIXED));
    }
out:
    json_decref(json);
    return status;
}

/* Returns the options with their resolved values, as far as these change the result, for the identity. Borrows texts
 * from the settings and `lr_steps`, which it fills. */
static ls_options resolved(const ls_settings *s, char lr_steps[LS_LR_STEPS_TEXT_MAX]) {
    const ls_loss_scale_settings *scale = &s->loss_scale;
    ls_options o = s->options;
    o.global_batch = (int64_t)s->B;
    o.seq = (int64_t)s->T;
    o.groups = s->groups;
    o.slices = s->slices;
    o.ghost = (int64_t)s->ghost;
    o.matrix_unit = s->policy.unit;
    if (o.on_outlier != LS_OUTLIER_SKIP) o.on_outlier = LS_OUTLIER_OFF; /* the others only tell */
    o.loss_scale = scale->constant ? "constant" : "dynamic";
    o.loss_scale_initial = ldexp(1, scale->initial);
    if (scale->constant) o.loss_scale_window = 0;
    if (scale->constant) o.loss_scale_min = 0;
    o.lr = s->lr.peak;
    o.warmup = s->lr.warmup_steps;
    /* Fractions of another number of steps are another experiment, numbers of steps are not. */
    ls_lr_steps_text(&s->lr.steps, lr_steps);
    o.lr_steps = lr_steps;
    return o;
}

ls_status ls_settings_identity(const ls_settings *s, ls_identity *id) {
    char lr_steps[LS_LR_STEPS_TEXT_MAX];
    ls_options o = resolved(s, lr_steps);
    LS_TRY(ls_identity_add_i64(id, "arithmetic", ARITHMETIC_VERSION, LS_IDENTITY_FIXED));
    LS_TRY(add_shape(&s->shape, id));
    LS_TRY(ls_identity_add_options(id, &o));
    if (ls_unit_is_tensor_core(s->policy.unit))
        LS_TRY(ls_identity_add_i64(id, "hgmma-rule", HGMMA_RULE, LS_IDENTITY_FIXED));
    /* Of fp16 runs only those with hgmma name their unit: chain was the only one. */
    if (s->policy.act != LS_F16 || s->policy.unit == LS_UNIT_CHAIN) return LS_OK;
    return ls_identity_add_text(id, ls_option_info_get(LS_OPT_matrix_unit)->name, ls_unit_name(s->policy.unit),
                                LS_IDENTITY_FIXED);
}
