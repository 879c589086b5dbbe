/* settings_lr.c: from options to a learning rate. */
#include "run/settings_lr.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_given(const ls_options *o, ls_option_id id) { return o->source[id].origin != LS_ORIGIN_DEFAULT; }

/* Files have every option, those of other runs too. */
static bool is_asked_for(const ls_options *o, ls_option_id id) {
    return o->source[id].origin == LS_ORIGIN_FLAG || o->source[id].origin == LS_ORIGIN_ENV;
}

/* ---- scaling with the batch -------------------------------------------------------------------------------------- */

static ls_status resolve_scaling(const ls_options *o, ls_settings *s) {
    static const double highest = 1000; /* as --lr alone */
    LS_TRY(ls_lr_scaling_parse(o->lr_scaling, &s->lr_scaling));
    s->lr_given = s->lr.peak = o->lr;
    s->lr_base_batch = o->lr_base_batch;
    if (s->lr_scaling == LS_LR_SCALING_NONE) {
        if (!is_asked_for(o, LS_OPT_lr_base_batch)) return LS_OK;
        return ls_options_fail(o, LS_OPT_lr_base_batch,
                               "nothing is scaled with the batch: add --lr-scaling linear or sqrt, or leave it out");
    }
    if (!is_given(o, LS_OPT_lr_base_batch))
        return ls_options_fail(o, LS_OPT_lr_scaling, "say which batch --lr %g is for: --lr-base-batch N", o->lr);
    s->lr.peak = o->lr * ls_lr_scaling_factor(s->lr_scaling, (double)s->B, (double)s->lr_base_batch);
    if (s->lr.peak <= highest) return LS_OK;
    return ls_options_fail(o, LS_OPT_lr_scaling,
                           "--lr %g becomes %g for a batch of %zu, and %g is the most: use a lower --lr, or the "
                           "--lr-base-batch that it was found with",
                           o->lr, s->lr.peak, s->B, highest);
}

void ls_settings_lr_text(const ls_settings *s, char text[LS_SETTINGS_LR_TEXT_MAX]) {
    text[0] = '\0';
    if (s->lr_scaling == LS_LR_SCALING_NONE) return;
    snprintf(text, LS_SETTINGS_LR_TEXT_MAX, "%g × %g (%s, batch %zu / %" PRId64 ") = %g", s->lr_given,
             ls_lr_scaling_factor(s->lr_scaling, (double)s->B, (double)s->lr_base_batch),
             ls_lr_scaling_name(s->lr_scaling), s->B, s->lr_base_batch, s->lr.peak);
}

bool ls_settings_lr_is_sudden(const ls_settings *s) {
    return s->lr_scaling == LS_LR_SCALING_LINEAR && s->lr.peak > s->lr_given && s->lr.warmup_steps == 0;
}

/* ---- schedule ---------------------------------------------------------------------------------------------------- */

static ls_status resolve_steps(const ls_options *o, ls_settings *s) {
    static const ls_option_id options[] = {LS_OPT_lr_steps, LS_OPT_lr_gamma};
    ls_lr_schedule *lr = &s->lr;
    for (size_t i = 0; lr->kind != LS_LR_STEP && i < sizeof options / sizeof *options; i++)
        if (is_asked_for(o, options[i]))
            return ls_options_fail(o, options[i], "only --lr-schedule step has it; the schedule is %s",
                                   ls_lr_kind_name(lr->kind));
    if (lr->kind != LS_LR_STEP) return LS_OK;
    lr->gamma = o->lr_gamma;
    if (ls_lr_steps_parse(o->lr_steps, lr->total_steps, &lr->steps) != LS_OK) {
        char where[LS_OPTION_WHERE_MAX];
        ls_options_where(o, LS_OPT_lr_steps, where);
        return ls_fail_at(LS_ERR_INPUT, "%s: ", where);
    }
    if (lr->warmup_steps >= lr->total_steps || lr->steps.at[0] >= lr->warmup_steps) return LS_OK;
    return ls_options_fail(o, LS_OPT_lr_steps,
                           "the rate would fall at step %" PRId64 ", within the %" PRId64
                           " steps of warm-up: use a later step, or a shorter --warmup",
                           lr->steps.at[0], lr->warmup_steps);
}

static int64_t default_warmup(int64_t steps) { return steps / 10 < 100 ? steps / 10 : 100; }

ls_status ls_settings_resolve_lr(const ls_options *o, ls_settings *s) {
    s->lr = (ls_lr_schedule){.min_fraction = o->lr_min,
                             .decay_fraction = o->lr_decay,
                             .warmup_steps = is_given(o, LS_OPT_warmup) ? o->warmup : default_warmup(s->steps),
                             .total_steps = s->steps};
    LS_TRY(ls_lr_kind_parse(o->lr_schedule, &s->lr.kind));
    LS_TRY(resolve_scaling(o, s));
    LS_TRY(resolve_steps(o, s));
    return ls_lr_schedule_check(&s->lr);
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

/* The steps as they came out: shares of another number of steps are another experiment, numbers of steps are not. */
static ls_status add_steps(const ls_settings *s, ls_identity *id) {
    char text[LS_LR_STEPS_TEXT_MAX];
    ls_lr_steps_text(&s->lr.steps, text);
    LS_TRY(ls_identity_add_text(id, "lr-steps", text, LS_IDENTITY_FIXED));
    return ls_identity_add_f64(id, "lr-gamma", s->lr.gamma, LS_IDENTITY_FIXED);
}

ls_status ls_settings_lr_identity(const ls_settings *s, ls_identity *id) {
    const ls_identity_rule F = LS_IDENTITY_FIXED;
    ls_identity_rule steps = ls_lr_depends_on_total(s->lr.kind) ? F : LS_IDENTITY_FREE;
    LS_TRY(ls_identity_add_text(id, "lr-schedule", ls_lr_kind_name(s->lr.kind), F));
    LS_TRY(ls_identity_add_f64(id, "lr", s->lr.peak, F));
    if (s->lr.kind == LS_LR_STEP) {
        LS_TRY(add_steps(s, id));
    } else {
        LS_TRY(ls_identity_add_f64(id, "lr-min", s->lr.min_fraction, F));
        LS_TRY(ls_identity_add_f64(id, "lr-decay", s->lr.decay_fraction, F));
    }
    LS_TRY(ls_identity_add_i64(id, "warmup", s->lr.warmup_steps, F));
    return ls_identity_add_i64(id, "steps", s->steps, steps);
}
