/* settings.c: from options to a run. */
#include "run/settings.h"

#include <string.h>

#include "base/rng.h"
#include "config/value.h"
#include "model/model.h"
#include "run/settings_lr.h"

enum {
    DEFAULT_BATCH_TOKENS = 8192,
    DEFAULT_BATCH_IMAGES = 256,
    GHOST_MAX = 32,
    DEFAULT_T_MAX = 1024,
    DEFAULT_GROUPS = 8,
    ARITHMETIC_VERSION = 1
};

/* Raised whenever a rule of dropout changes: runs without it are not touched. 1 did not drop attention's weights. */
enum { DROPOUT_RULE = 2 };

static bool is_given(const ls_options *o, ls_option_id id) { return o->source[id].origin != LS_ORIGIN_DEFAULT; }

static int default_groups(size_t B) {
    int groups = 1;
    while (groups < DEFAULT_GROUPS && (size_t)(2 * groups) <= B) groups *= 2;
    return groups;
}

static ls_status resolve_slices(const ls_options *o, ls_settings *s) {
    s->slices = o->slices > 0 ? (int)o->slices : ls_model_default_slices(&s->shape);
    if ((s->slices & (s->slices - 1)) == 0 && (size_t)s->slices <= s->shape.kv_heads) return LS_OK;
    return ls_options_fail(o, LS_OPT_slices, "must be a power of two, at most the %zu key/value heads of %s",
                           s->shape.kv_heads, s->shape.name);
}

static ls_status resolve_batch(const ls_options *o, ls_settings *s) {
    const ls_shape *shape = &s->shape;
    s->T = o->seq > 0 ? (size_t)o->seq : shape->T < DEFAULT_T_MAX ? shape->T : DEFAULT_T_MAX;
    if (s->T > shape->T)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions: use at most --seq %zu", shape->name, shape->T,
                               shape->T);
    size_t per_batch = ls_shape_sees_images(shape) ? DEFAULT_BATCH_IMAGES : DEFAULT_BATCH_TOKENS / s->T;
    s->B = o->global_batch > 0 ? (size_t)o->global_batch : per_batch > 0 ? per_batch : 1;
    s->groups = o->groups > 0 ? (int)o->groups : default_groups(s->B);
    if ((size_t)s->groups > s->B)
        return ls_options_fail(o, LS_OPT_groups, "a batch of %zu sequences has at most %zu groups", s->B, s->B);
    LS_TRY(resolve_slices(o, s));
    s->micro = o->micro_batch > 0 ? (size_t)o->micro_batch : 0;
    if (s->micro > s->B)
        return ls_options_fail(o, LS_OPT_micro_batch, "the whole batch has only %zu sequences: use --micro-batch %zu",
                               s->B, s->B);
    return LS_OK;
}

/* Every pair of query and key of a batch has a random number of its own. */
static ls_status check_dropout(const ls_options *o, const ls_settings *s) {
    double pairs = (double)s->B * (double)s->shape.H * (double)s->T * (double)s->T;
    if (s->dropout == 0 || pairs <= (double)LS_RNG_INDEX_LIMIT) return LS_OK;
    return ls_options_fail(
        o, LS_OPT_dropout,
        "attention has more than 2^48 weights in a batch of %zu sequences of %zu tokens, too many to "
        "drop some: use a smaller --global-batch or --seq, or no dropout",
        s->B, s->T);
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

static ls_dtype dtype_of(const char *name) {
    return strcmp(name, "bf16") == 0 ? LS_BF16 : strcmp(name, "fp16") == 0 ? LS_F16 : LS_F32;
}

/* The fastest last. */
static ls_unit best_unit(void) {
    ls_unit best = LS_UNIT_CHAIN;
    for (int u = LS_UNIT_CHAIN; u < LS_UNITS; u++)
        if (ls_unit_is_here((ls_unit)u)) best = (ls_unit)u;
    return best;
}

ls_status ls_settings_precision(const ls_options *o, ls_policy *out) {
    if (strcmp(o->precision, "fp8") == 0)
        return ls_options_fail(o, LS_OPT_precision, "only plan knows it: use bf16, fp16 or fp32");
    *out = (ls_policy){.act = dtype_of(o->precision)};
    if (strcmp(o->matrix_unit, "auto") == 0)
        out->unit = out->act == LS_BF16 ? best_unit() : LS_UNIT_CHAIN;
    else
        LS_TRY(ls_unit_parse(o->matrix_unit, &out->unit));
    if (out->unit != LS_UNIT_CHAIN && out->act != LS_BF16)
        return ls_options_fail(o, LS_OPT_matrix_unit, "hardware units multiply bf16: use --precision bf16, or chain");
    return ls_unit_check(out->unit);
}

/* Files have every option, those of other runs too. */
static ls_status check_no_scale(const ls_options *o) {
    static const ls_option_id options[] = {LS_OPT_loss_scale, LS_OPT_loss_scale_initial, LS_OPT_loss_scale_window,
                                           LS_OPT_loss_scale_hysteresis, LS_OPT_loss_scale_min};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        ls_option_origin origin = o->source[options[i]].origin;
        if (origin == LS_ORIGIN_FLAG || origin == LS_ORIGIN_ENV)
            return ls_options_fail(o, options[i], "only fp16 gradients vanish: use --precision fp16, or leave it out");
    }
    return LS_OK;
}

static ls_status resolve_scale(const ls_options *o, ls_settings *s) {
    ls_loss_scale_settings *scale = &s->loss_scale;
    *scale = (ls_loss_scale_settings){.constant = true, .hysteresis = 1};
    if (s->policy.act != LS_F16) return check_no_scale(o);
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

static void resolve_guards(const ls_options *o, ls_settings *s) {
    const char *action = o->on_outlier;
    s->on_outlier = strcmp(action, "warn") == 0         ? LS_OUTLIER_WARN
                    : strcmp(action, "skip-group") == 0 ? LS_OUTLIER_SKIP
                    : strcmp(action, "stop") == 0       ? LS_OUTLIER_STOP
                                                        : LS_OUTLIER_OFF;
    s->outlier_threshold = o->outlier_threshold;
    s->numerics = o->numerics;
    s->audit = o->audit;
    s->checks_state = strcmp(o->check, "state") == 0;
    s->checks_replicas = s->checks_state || strcmp(o->check, "replicas") == 0;
}

static ls_status resolve_policy(const ls_options *o, ls_settings *s) {
    LS_TRY(ls_settings_precision(o, &s->policy));
    s->policy.reduce = dtype_of(o->reduce_dtype);
    s->policy.accumulate = dtype_of(o->accumulate_dtype);
    s->policy.no_master = !o->master_weights;
    if (s->policy.no_master && !ls_policy_is_16(&s->policy))
        return ls_options_fail(o, LS_OPT_master_weights, "with --precision fp32 there are no other weights");
    resolve_guards(o, s);
    return resolve_scale(o, s);
}

static ls_status resolve_optimizer(const ls_options *o, ls_settings *s) {
    bool adamw = strcmp(o->optimizer, "adamw") == 0;
    s->optimizer = (ls_optimizer){
        .kind = adamw ? LS_OPTIMIZER_ADAMW : LS_OPTIMIZER_SGD,
        .adamw = {.beta1 = o->beta1, .beta2 = o->beta2, .epsilon = o->eps},
        .sgd = {.momentum = o->momentum, .nesterov = o->nesterov},
        .weight_decay = o->weight_decay,
    };
    LS_TRY(ls_adamw_options_check(&s->optimizer.adamw));
    return ls_sgd_options_check(&s->optimizer.sgd);
}

/* Statistics of the whole batch: each gradient group has a share in them. */
static ls_status resolve_bn_sync(const ls_options *o, ls_settings *s) {
    s->bn_sync = true;
    s->ghost = s->B / (size_t)s->groups;
    if (o->ghost > 0) return ls_options_fail(o, LS_OPT_ghost, "--bn sync has no ghost groups: leave one of them out");
    if (s->B < 2) return ls_options_fail(o, LS_OPT_global_batch, "batch norm needs two images at least");
    if (s->audit > 0)
        return ls_options_fail(o, LS_OPT_audit,
                               "computes a gradient group again alone, which --bn sync does not allow: leave one out");
    if (s->on_outlier == LS_OUTLIER_SKIP)
        return ls_options_fail(o, LS_OPT_on_outlier,
                               "a group that is left out would stay in the statistics of --bn sync: use stop or warn");
    return LS_OK;
}

/* A ghost group lies inside a gradient group. Without --ghost as many images as a gradient group has, up to 32. */
static ls_status resolve_ghost(const ls_options *o, ls_settings *s) {
    size_t group = s->B / (size_t)s->groups;
    bool sync = strcmp(o->bn, "sync") == 0;
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
    if (s->ghost > 1 && s->micro % s->ghost == 0) return LS_OK; /* 0: chosen later */
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

/* Convolutions are fp32; what is dropped is behind linear layers. */
static ls_status check_images(const ls_options *o, const ls_settings *s) {
    if (!ls_shape_sees_images(&s->shape)) return LS_OK;
    if (s->policy.act != LS_F32 || s->policy.reduce != LS_F32 || s->policy.accumulate != LS_F32)
        return ls_options_fail(o, LS_OPT_precision, "image models train in fp32; leave it out");
    if (s->dropout > 0 && s->shape.arch == LS_ARCH_RESNET18)
        return ls_options_fail(o, LS_OPT_dropout, "%s has no dropout: leave it out", s->shape.name);
    return LS_OK;
}

/* Digits alone are steps; with a unit behind them it is a time. */
static ls_status resolve_saving(const ls_options *o, ls_settings *s) {
    const double longest_s = 366 * 86400.0;
    const int64_t most = INT64_C(281474976710655);
    const char *text = o->save_every;
    size_t length = strlen(text);
    bool is_steps = strspn(text, "0123456789") == length, is_time = false;
    if (is_steps && (ls_value_parse_int(text, &s->save_every) != LS_OK || s->save_every > most))
        return ls_options_fail(o, LS_OPT_save_every, "must be at most %lld steps", (long long)most);
    if (!is_steps && length > 0 && !strchr("0123456789.", text[length - 1]))
        is_time = ls_value_parse_time(text, &s->save_every_s) == LS_OK;
    if (!is_steps && (!is_time || !(s->save_every_s > 0 && s->save_every_s <= longest_s)))
        return ls_options_fail(
            o, LS_OPT_save_every,
            "must be a number of steps, such as 100, or a time in ms, s, min, h or day, such as 10min; 0 "
            "saves only at the end");
    if (s->early_stop > 0 && s->eval_every == 0)
        return ls_options_fail(o, LS_OPT_early_stop, "needs evaluations: add --eval-every N, the steps between them");
    return LS_OK;
}

ls_status ls_settings_resolve(const ls_options *o, const ls_shape *shape, ls_settings *out) {
    *out = (ls_settings){.shape = *shape,
                         .steps = o->steps,
                         .seed = (uint64_t)o->seed,
                         .clip = o->clip,
                         .dropout = o->dropout,
                         .val_fraction = o->val_data ? 0 : o->val_fraction,
                         .eval_every = is_given(o, LS_OPT_eval_every) ? o->eval_every : o->steps / 10,
                         .eval_batches = o->eval_batches,
                         .sample_every = o->sample_every,
                         .sample_tokens = (int)o->max_tokens,
                         .early_stop = o->early_stop,
                         .keep = (int)o->keep};
    LS_TRY(resolve_saving(o, out));
    LS_TRY(resolve_batch(o, out));
    LS_TRY(check_dropout(o, out));
    LS_TRY(resolve_policy(o, out));
    LS_TRY(check_images(o, out));
    LS_TRY(resolve_ghost(o, out));
    LS_TRY(resolve_optimizer(o, out));
    return ls_settings_resolve_lr(o, out);
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

static ls_status add_image_shape(const ls_shape *shape, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    const ls_image_shape *image = &shape->image;
    LS_TRY(ls_identity_add_text(id, "model.arch", ls_shape_arch_name(shape->arch), F));
    LS_TRY(ls_identity_add_i64(id, "model.classes", (int64_t)shape->V, F));
    LS_TRY(ls_identity_add_i64(id, "model.channels", (int64_t)image->channels, F));
    LS_TRY(ls_identity_add_i64(id, "model.image-height", (int64_t)image->height, F));
    LS_TRY(ls_identity_add_i64(id, "model.image-width", (int64_t)image->width, F));
    if (shape->arch == LS_ARCH_LENET) LS_TRY(ls_identity_add_i64(id, "model.sigmoid", image->sigmoid, F));
    if (shape->arch == LS_ARCH_RESNET18) LS_TRY(ls_identity_add_i64(id, "model.small", image->small, F));
    if (shape->arch == LS_ARCH_RESNET18) LS_TRY(ls_identity_add_f64(id, "model.eps", shape->eps, F));
    for (size_t i = 0; shape->arch == LS_ARCH_MLP && i <= shape->L; i++) {
        char field[32];
        snprintf(field, sizeof field, "model.hidden-%zu", i + 1);
        LS_TRY(ls_identity_add_i64(id, field, (int64_t)image->hidden[i], F));
    }
    return LS_OK;
}

static ls_status add_shape(const ls_shape *shape, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    if (ls_shape_sees_images(shape)) return add_image_shape(shape, id);
    LS_TRY(ls_identity_add_text(id, "model.arch", ls_shape_arch_name(shape->arch), F));
    LS_TRY(ls_identity_add_i64(id, "model.vocab", (int64_t)shape->V, F));
    LS_TRY(ls_identity_add_i64(id, "model.width", (int64_t)shape->C, F));
    LS_TRY(ls_identity_add_i64(id, "model.layers", (int64_t)shape->L, F));
    LS_TRY(ls_identity_add_i64(id, "model.heads", (int64_t)shape->H, F));
    LS_TRY(ls_identity_add_i64(id, "model.kv-heads", (int64_t)shape->kv_heads, F));
    LS_TRY(ls_identity_add_i64(id, "model.head-size", (int64_t)shape->head_size, F));
    LS_TRY(ls_identity_add_i64(id, "model.hidden", (int64_t)shape->hidden, F));
    LS_TRY(ls_identity_add_i64(id, "model.positions", (int64_t)shape->T, F));
    LS_TRY(ls_identity_add_i64(id, "model.tied", shape->tied, F));
    LS_TRY(ls_identity_add_i64(id, "model.attention-bias", shape->attention_bias, F));
    LS_TRY(ls_identity_add_i64(id, "model.mlp-bias", shape->mlp_bias, F));
    LS_TRY(ls_identity_add_f64(id, "model.eps", shape->eps, F));
    LS_TRY(ls_identity_add_f64(id, "model.init-std", shape->init_std, F));
    if (!ls_shape_is_llama(shape)) return LS_OK;
    LS_TRY(ls_identity_add_f64(id, "model.rope-base", shape->rope.base, F));
    if (!shape->rope.scaled) return LS_OK;
    LS_TRY(ls_identity_add_f64(id, "model.rope-factor", shape->rope.factor, F));
    LS_TRY(ls_identity_add_f64(id, "model.rope-low", shape->rope.low_factor, F));
    LS_TRY(ls_identity_add_f64(id, "model.rope-high", shape->rope.high_factor, F));
    return ls_identity_add_i64(id, "model.rope-original", (int64_t)shape->rope.original_T, F);
}

static ls_status add_optimizer(const ls_settings *s, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    const ls_optimizer *opt = &s->optimizer;
    bool adamw = opt->kind == LS_OPTIMIZER_ADAMW;
    LS_TRY(ls_identity_add_text(id, "optimizer", adamw ? "adamw" : "sgd", F));
    if (adamw) {
        LS_TRY(ls_identity_add_f64(id, "beta1", opt->adamw.beta1, F));
        LS_TRY(ls_identity_add_f64(id, "beta2", opt->adamw.beta2, F));
        LS_TRY(ls_identity_add_f64(id, "eps", opt->adamw.epsilon, F));
    } else {
        LS_TRY(ls_identity_add_f64(id, "momentum", opt->sgd.momentum, F));
        LS_TRY(ls_identity_add_i64(id, "nesterov", opt->sgd.nesterov, F));
    }
    LS_TRY(ls_identity_add_f64(id, "weight-decay", opt->weight_decay, F));
    return ls_identity_add_f64(id, "clip", s->clip, F);
}

const char *ls_settings_dtype_name(ls_dtype dtype) {
    return dtype == LS_F32 ? "fp32" : dtype == LS_BF16 ? "bf16" : "fp16";
}

static ls_status add_scale(const ls_loss_scale_settings *scale, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    LS_TRY(ls_identity_add_text(id, "loss-scale", scale->constant ? "constant" : "dynamic", F));
    LS_TRY(ls_identity_add_i64(id, "loss-scale-initial", scale->initial, F));
    LS_TRY(ls_identity_add_i64(id, "loss-scale-hysteresis", scale->hysteresis, F));
    if (scale->constant) return LS_OK;
    LS_TRY(ls_identity_add_i64(id, "loss-scale-window", scale->window, F));
    return ls_identity_add_i64(id, "loss-scale-min", scale->floor, F);
}

/* What is as in fp32 adds no field, so that runs from before there was a choice go on. */
static ls_status add_policy(const ls_settings *s, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    const ls_policy *p = &s->policy;
    if (p->act != LS_F32) LS_TRY(ls_identity_add_text(id, "precision", ls_settings_dtype_name(p->act), F));
    if (p->act == LS_BF16) LS_TRY(ls_identity_add_text(id, "matrix-unit", ls_unit_name(p->unit), F));
    if (p->reduce != LS_F32) LS_TRY(ls_identity_add_text(id, "reduce-dtype", ls_settings_dtype_name(p->reduce), F));
    if (p->accumulate != LS_F32)
        LS_TRY(ls_identity_add_text(id, "accumulate-dtype", ls_settings_dtype_name(p->accumulate), F));
    if (p->no_master) LS_TRY(ls_identity_add_text(id, "master-weights", "no", F));
    return p->act == LS_F16 ? add_scale(&s->loss_scale, id) : LS_OK;
}

/* Of guards, what changes a run: the others only tell. */
static ls_status add_guards(const ls_settings *s, ls_identity *id) {
    if (s->on_outlier != LS_OUTLIER_SKIP) return LS_OK;
    LS_TRY(ls_identity_add_text(id, "on-outlier", "skip-group", LS_IDENTITY_FIXED));
    return ls_identity_add_f64(id, "outlier-threshold", s->outlier_threshold, LS_IDENTITY_FIXED);
}

ls_status ls_settings_identity(const ls_settings *s, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    LS_TRY(ls_identity_add_i64(id, "arithmetic", ARITHMETIC_VERSION, F));
    LS_TRY(add_shape(&s->shape, id));
    LS_TRY(ls_identity_add_i64(id, "seed", (int64_t)s->seed, F));
    LS_TRY(ls_identity_add_i64(id, "global-batch", (int64_t)s->B, F));
    LS_TRY(ls_identity_add_i64(id, "seq", (int64_t)s->T, F));
    LS_TRY(ls_identity_add_i64(id, "groups", s->groups, F));
    LS_TRY(ls_identity_add_i64(id, "slices", s->slices, F));
    LS_TRY(ls_identity_add_f64(id, "dropout", s->dropout, F));
    if (s->dropout > 0) LS_TRY(ls_identity_add_i64(id, "dropout-rule", DROPOUT_RULE, F));
    if (s->ghost > 0 && !s->bn_sync) LS_TRY(ls_identity_add_i64(id, "ghost", (int64_t)s->ghost, F));
    if (s->bn_sync) LS_TRY(ls_identity_add_text(id, "bn", "sync", F));
    LS_TRY(add_optimizer(s, id));
    LS_TRY(add_policy(s, id));
    LS_TRY(add_guards(s, id));
    return ls_settings_lr_identity(s, id);
}
