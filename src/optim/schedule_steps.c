/* schedule_steps.c: the steps at which a learning rate falls, as a user writes them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/value.h"
#include "optim/schedule.h"

enum { ENTRY_MAX = 32 };

/* One entry as it stands: a number of steps, or a share of all. */
typedef struct entry {
    bool is_share;
    int64_t step;
    double share;
} entry;

static ls_status parse_entry(const char *text, size_t length, entry *out) {
    char word[ENTRY_MAX];
    *out = (entry){0};
    if (length < sizeof word) {
        memcpy(word, text, length);
        word[length] = '\0';
        if (ls_value_parse_int(word, &out->step) == LS_OK && out->step > 0) return LS_OK;
        out->is_share = true;
        if (ls_value_parse_float(word, &out->share) == LS_OK && out->share > 0 && out->share < 1) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "'%.*s' is neither a step number, e.g. 3000, nor a fraction of all steps, e.g. 0.5",
                   (int)(length < ENTRY_MAX ? length : ENTRY_MAX), text);
}

static ls_status check_order(const entry *before, const entry *now) {
    if (before->is_share != now->is_share)
        return ls_fail(LS_ERR_INPUT, "mixes step numbers and fractions; use one or the other");
    if (now->is_share ? now->share > before->share : now->step > before->step) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "must be in ascending order");
}

/* Nearest, so that 0.29 of 100 is 29 though 0.29·100 is a little less. */
static int64_t step_of(const entry *e, int64_t total) {
    if (!e->is_share) return e->step;
    int64_t step = (int64_t)(e->share * (double)total + 0.5);
    return step < total ? step : total;
}

ls_status ls_lr_steps_parse(const char *text, int64_t total_steps, ls_lr_steps *out) {
    ls_lr_steps steps = {0};
    entry before = {0}, now;
    for (const char *at = text;; before = now) {
        size_t length = strcspn(at, ",");
        LS_TRY(parse_entry(at, length, &now));
        if (steps.count > 0) LS_TRY(check_order(&before, &now));
        if (steps.count == LS_LR_STEPS_MAX) return ls_fail(LS_ERR_INPUT, "has more than %d entries", LS_LR_STEPS_MAX);
        steps.at[steps.count++] = step_of(&now, total_steps);
        if (at[length] == '\0') break;
        at += length + 1;
    }
    *out = steps;
    return LS_OK;
}

void ls_lr_steps_text(const ls_lr_steps *steps, char text[LS_LR_STEPS_TEXT_MAX]) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < steps->count && used < LS_LR_STEPS_TEXT_MAX; i++)
        used +=
            (size_t)snprintf(text + used, LS_LR_STEPS_TEXT_MAX - used, "%s%" PRId64, i > 0 ? "," : "", steps->at[i]);
}
