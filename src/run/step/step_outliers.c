/* step_outliers.c: gradient groups and workers whose gradients are outliers: measures, reports and leaves them out. */
#include <math.h>
#include <string.h>

#include "numerics/elementary.h"
#include "parallel/layout/micro_batches.h"
#include "run/step/step_pass.h"

/* Returns the squared norm of the gradient sum over `tokens` tokens, before it was divided by their number, so that
 * passes over different groups can be compared. */
static double square_of(const ls_step_result *result, int64_t tokens) {
    double length = result->norm * (double)tokens;
    return length * length;
}

/* Returns the first worker of the replica that computes a group. */
static int owner_of(const ls_trainer *t, int group) {
    const ls_layout *layout = &t->layout;
    for (int d = 0; d < layout->dp; d++) {
        if (layout->zero < 2 || layout->dp == 1) {
            if (group < ls_layout_first_group(layout, d + 1)) return d * layout->tp;
        } else {
            for (int r = 0; r < layout->share[d]; r++)
                if (ls_layout_group(layout, d, r) == group) return d * layout->tp;
        }
    }
    return 0;
}

/* Returns whether the first `count` findings have nearly (to 1/16) the same squares as in the pass before, so that they
 * are no transient fault. A rounding difference is no fault; findings whose norm was not finite are not compared. */
static bool is_repeated(const ls_trainer *t, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const ls_outlier_finding *f = &t->guard.findings[i];
        double before = t->guard.before[f->group], now = t->guard.all_squares[f->group];
        if (f->finite && !(fabs(now - before) <= before / 16)) return false;
    }
    return true;
}

/* Returns the angle of a cosine in degrees, by bisection, so that it has the same bits everywhere. */
static double angle_of(double cosine) {
    double low = 0, high = 180;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (ls_cos_f64(middle * (3.14159265358979323846 / 180)) > cosine)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Computes the gradient of the flagged groups only. Backward starts from a factor of at most `start`, that for all
 * groups: a higher one could overflow fp16 and would change the gradient. */
static ls_status pass_alone(ls_trainer *t, int stop, size_t count, float start, ls_step_result *result) {
    int exponent = t->scale.exponent;
    ls_step_set_absent(&t->guard, count, false);
    for (float alone = ls_trainer_backward_start(t); alone > start; alone *= 0.5F) t->scale.exponent--;
    ls_status status = ls_step_pass_without(t, stop, count, false, result);
    t->scale.exponent = exponent;
    return status;
}

/* Measures how the flagged groups change the gradient, by two more passes: the angle, and the norms with and without
 * them, from three norms. *recurs is false, and *out is zero, if their norms were not reproduced; the second of these
 * passes is then not made. Leaves the partition with the gradient without the flagged groups or, if *recurs is false,
 * of them alone. */
static ls_status measure_pull(ls_trainer *t, int stop, size_t count, ls_step_result *result, ls_outlier_pull *out,
                              bool *recurs) {
    const ls_settings *s = &t->settings;
    int64_t all = (int64_t)(s->B * s->T);
    double with = square_of(result, all), only, without;
    memcpy(t->guard.before, t->guard.all_squares, (size_t)t->guard.groups * sizeof *t->guard.before);
    LS_TRY(pass_alone(t, stop, count, ls_trainer_backward_start(t), result));
    only = square_of(result, ls_guard_tokens(&t->guard, s));
    *out = (ls_outlier_pull){0};
    *recurs = is_repeated(t, count);
    if (!*recurs) return LS_OK;
    LS_TRY(ls_step_pass_without(t, stop, count, true, result));
    without = square_of(result, ls_guard_tokens(&t->guard, s));
    double cosine = (with + without - only) / (2 * sqrt(with) * sqrt(without));
    *out = (ls_outlier_pull){
        .angle_deg = angle_of(cosine), .with = sqrt(with) / (double)all, .without = sqrt(without) / (double)all};
    return LS_OK;
}

/* Reports the first `count` findings as events. `pull` is NULL if the groups were not recomputed. Fails with
 * --on-outlier stop, unless the fault was transient, after the first of them. */
static ls_status report_outliers(ls_trainer *t, size_t count, const ls_outlier_pull *pull, bool recurs) {
    const ls_settings *s = &t->settings;
    for (size_t i = 0; i < count; i++) {
        const ls_outlier_finding *f = &t->guard.findings[i];
        int group = (int)f->group;
        size_t first = ls_slice_begin(s->B, s->groups, group), end = ls_slice_begin(s->B, s->groups, group + 1);
        ls_train_event event = {.kind = LS_EVENT_OUTLIER,
                                .group = group,
                                .worker = owner_of(t, group),
                                .first_sample = (int64_t)(ls_trainer_samples(t) + first),
                                .samples = (int64_t)(end - first),
                                .finding = *f,
                                .again = pull != NULL,
                                .recurs = recurs,
                                .action = s->options.on_outlier};
        if (pull) event.pull = *pull;
        LS_TRY(ls_step_report(t, &event));
        if (s->options.on_outlier == LS_OUTLIER_STOP && recurs)
            return ls_step_end_run(t, &event, "inspect these samples, or use --on-outlier skip-group");
    }
    return LS_OK;
}

/* Returns the factor from what backward left to the gradient of the mean loss over the whole batch. */
static double gradient_scale(const ls_trainer *t) {
    return ls_clip_token_scale((int64_t)(t->settings.B * t->settings.T), t->scale.exponent);
}

/* Reports workers whose gradients are outliers, and adds the step to the history of workers. Their contributions are
 * kept, because no pass is repeated for a worker; --on-outlier stop ends the run. */
static ls_status judge_workers(ls_trainer *t) {
    ls_contribution *c = &t->guard.contribution;
    ls_outlier_action action = t->settings.options.on_outlier;
    size_t count = ls_contribution_judge(c, gradient_scale(t));
    for (size_t i = 0; i < count; i++) {
        ls_train_event event = {.kind = LS_EVENT_OUTLIER,
                                .group = -1,
                                .worker = c->of[i].worker,
                                .finding = c->of[i].of,
                                .replicas = t->layout.dp,
                                .action = action == LS_OUTLIER_SKIP ? LS_OUTLIER_WARN : action};
        LS_TRY(ls_step_report(t, &event));
        if (action == LS_OUTLIER_STOP)
            return ls_step_end_run(t, &event,
                                   "find out with --audit 1 whether that worker computes wrongly, or use "
                                   "--on-outlier warn");
    }
    ls_contribution_remember(c);
    return LS_OK;
}

/* Judges the groups, reports outliers, and leaves the partition with the gradient to use: of all groups, or, with
 * --on-outlier skip-group, without outliers that recur. *told is whether there were any; only without any the step is
 * added to the history. Fails if all groups are outliers; with --on-outlier auto reports nothing then. */
static ls_status judge_groups(ls_trainer *t, int stop, ls_step_result *result, bool *told) {
    const ls_settings *s = &t->settings;
    ls_guard *guard = &t->guard;
    ls_outlier_step step = {
        .squares = guard->all_squares, .losses = guard->losses, .tokens = guard->tokens, .scale = gradient_scale(t)};
    size_t count = ls_outlier_judge(guard->outlier, &step, guard->findings);
    ls_outlier_pull pull;
    bool recurs;
    *told = count > 0;
    if (count == 0) {
        ls_outlier_remember(guard->outlier);
        return LS_OK;
    }
    if (s->options.on_outlier == LS_OUTLIER_AUTO) /* recomputing takes three more passes, too much by default */
        return count < (size_t)guard->groups ? report_outliers(t, count, NULL, false) : LS_OK;
    t->failure.ended_whole = count == (size_t)guard->groups;
    if (t->failure.ended_whole)
        return ls_fail(LS_ERR_FAILED, "step %lld: the gradient of every group is an outlier; raise --outlier-threshold",
                       (long long)(t->step + 1));
    LS_TRY(measure_pull(t, stop, count, result, &pull, &recurs));
    LS_TRY(report_outliers(t, count, &pull, recurs));
    if (s->options.on_outlier == LS_OUTLIER_WARN || !recurs) return ls_step_pass_with_all(t, stop, result);
    result->dropped = (int)count;
    return LS_OK;
}

ls_status ls_step_judge_outliers(ls_trainer *t, int stop, ls_step_result *result) {
    bool told = false;
    if (t->guard.outlier) LS_TRY(judge_groups(t, stop, result, &told));
    return told || t->guard.contribution.workers == 0 ? LS_OK : judge_workers(t);
}
