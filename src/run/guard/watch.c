/* watch.c: decides which outliers are looked for, by what that costs, and says why not others. */
#include "run/guard/watch.h"

#include <stdio.h>

#include "device/choose.h"
#include "nn/grad_plan.h"
#include "parallel/layout/micro_batches.h"
#include "run/guard/contribution.h"
#include "run/guard/guard.h"

/* Tokens of a group from which on its squares cost less than a hundredth of its step (docs/log/performance.md), with
 * the chain of fp32, with a matrix unit, which multiplies several times as fast, and on a GPU. */
enum { TOKENS = 512, TOKENS_UNIT = 2048, TOKENS_GPU = 16384 };

/* Returns the tokens of a gradient group. */
static size_t group_tokens(const ls_settings *s) { return s->B / (size_t)s->groups * s->T; }

size_t ls_watch_least_tokens(const ls_settings *s) {
    if (s->options.device && ls_device_is_gpu(s->options.device)) return TOKENS_GPU;
    return s->policy.unit == LS_UNIT_CHAIN ? TOKENS : TOKENS_UNIT;
}

/* Returns whether the gradients of single groups need no more slots (memory for a gradient) in this replica than that
 * of the whole batch. */
static bool has_slots(const ls_settings *s, const ls_layout *layout, int replica) {
    size_t begin = ls_slice_begin(s->B, s->groups, ls_layout_first_group(layout, replica));
    size_t end = ls_slice_begin(s->B, s->groups, ls_layout_first_group(layout, replica + 1));
    ls_grad_slots whole = ls_grad_slots_count(s->B, s->groups, LS_GRAD_WHOLE, begin, end, layout->micro);
    ls_grad_slots leaves = ls_grad_slots_count(s->B, s->groups, LS_GRAD_LEAVES, begin, end, layout->micro);
    return whole.product == leaves.sum && whole.sum == leaves.sum;
}

/* Returns whether comparing groups needs memory that the run does not have for another reason. */
static bool takes_memory(const ls_settings *s, const ls_layout *layout) {
    if (ls_settings_watch_groups(s) || ls_policy_wants_leaves(&s->policy)) return false;
    if (layout->dp > 1 && layout->zero >= 2) return false;
    for (int d = 0; d < layout->dp; d++)
        if (layout->micro == 0 || !has_slots(s, layout, d)) return true;
    return false;
}

/* Returns the number of matrix elements in the transformer blocks of one worker, on average over the stages. */
static size_t matrix_elems(const ls_shape *shape, const ls_layout *layout) {
    size_t rows = ls_shape_qkv_width(shape) + ls_shape_query_width(shape) + ls_shape_mlp_width(shape) + shape->hidden;
    return shape->L * shape->C * rows / (size_t)(layout->tp * layout->pp);
}

/* Returns whether squaring the gradients of groups, and exchanging the sums, takes more than about 1 % of a step.
 * Groups of images are small, so they always do. */
static bool takes_time(const ls_settings *s, const ls_layout *layout) {
    enum { SHARE = 100 };
    if (ls_shape_sees_images(&s->shape) || group_tokens(s) < ls_watch_least_tokens(s)) return true;
    return matrix_elems(&s->shape, layout) * sizeof(float) < SHARE * ls_guard_words(s->groups) * sizeof(int64_t);
}

ls_watch ls_watch_choose(const ls_settings *s, const ls_layout *layout) {
    if (s->options.on_outlier != LS_OUTLIER_AUTO) return ls_settings_wants_outliers(s) ? LS_WATCH_ON : LS_WATCH_OFF;
    if (s->groups == 1) return LS_WATCH_ALONE;
    if (ls_device_is_apart(s->options.device)) return LS_WATCH_DEVICE;
    if (takes_memory(s, layout)) return LS_WATCH_MEMORY;
    return takes_time(s, layout) ? LS_WATCH_TIME : LS_WATCH_ON;
}

/* Returns the reason as a clause; NULL for LS_WATCH_ON and LS_WATCH_OFF, which have none. */
static const char *why_not(ls_watch watch) {
    static const char *const why[] = {
        [LS_WATCH_ALONE] = "there is only one gradient group",
        [LS_WATCH_MEMORY] = "it needs memory for per-group gradients",
        [LS_WATCH_TIME] = "with groups or a model this small it costs more than 1 % of a step",
        [LS_WATCH_DEVICE] = "on a GPU it needs memory for per-group gradients",
    };
    return why[watch];
}

void ls_watch_text(ls_watch watch, const ls_settings *s, const ls_layout *layout, char text[LS_WATCH_TEXT_MAX]) {
    const char *action = ls_outlier_action_name(s->options.on_outlier);
    const char *workers = !ls_contribution_is_watched(s, layout) ? NULL
                          : layout->dp > 1 ? "each worker's gradient is compared with the other replicas"
                                           : "each worker's part of the gradient is compared with its last steps";
    const char *add = watch == LS_WATCH_ALONE ? "" : "; enable it with --on-outlier warn";
    if (watch == LS_WATCH_OFF)
        snprintf(text, LS_WATCH_TEXT_MAX, "gradient-outlier detection is off (--on-outlier off)");
    else if (watch == LS_WATCH_ON && workers)
        snprintf(text, LS_WATCH_TEXT_MAX,
                 "gradient-outlier detection is on for gradient groups, and %s (--on-outlier %s)", workers, action);
    else if (watch == LS_WATCH_ON)
        snprintf(text, LS_WATCH_TEXT_MAX, "gradient-outlier detection is on for gradient groups (--on-outlier %s)",
                 action);
    else if (workers)
        snprintf(text, LS_WATCH_TEXT_MAX,
                 "gradient-outlier detection: %s (--on-outlier %s); off for single groups (%s)%s", workers, action,
                 why_not(watch), add);
    else
        snprintf(text, LS_WATCH_TEXT_MAX, "gradient-outlier detection is off (%s)%s", why_not(watch), add);
}
