/* loss_scale.c: the loss scale of fp16 training. Integers only; a scale is represented by its exponent. */
#include "optim/loss_scale.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "config/value.h"

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_INPUT, naming `what`, unless low ≤ value ≤ high. */
static ls_status check_range(const char *what, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %" PRId64 "; it must be between %" PRId64 " and %" PRId64, what, value, low,
                   high);
}

/* Fails with LS_ERR_INPUT, naming `what`, unless the exponent is that of a scale from 2^-14 to 2^24. */
static ls_status check_exponent(const char *what, int exponent) {
    if (exponent >= LS_LOSS_SCALE_EXPONENT_MIN && exponent <= LS_LOSS_SCALE_EXPONENT_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is 2^%d; it must be between 2^%d and 2^%d", what, exponent,
                   LS_LOSS_SCALE_EXPONENT_MIN, LS_LOSS_SCALE_EXPONENT_MAX);
}

ls_status ls_loss_scale_check(const ls_loss_scale_settings *s) {
    LS_TRY(check_exponent("the initial loss scale", s->initial));
    LS_TRY(check_range("the hysteresis of the loss scale", s->hysteresis, 1, LS_LOSS_SCALE_HYSTERESIS_MAX));
    if (s->constant) return LS_OK;
    LS_TRY(check_exponent("the minimum loss scale", s->floor));
    LS_TRY(check_exponent("the maximum loss scale", s->ceiling));
    if (s->initial < s->floor)
        return ls_fail(LS_ERR_INPUT,
                       "the initial loss scale, 2^%d, is below the minimum, 2^%d; raise the former or lower the latter",
                       s->initial, s->floor);
    if (s->initial > s->ceiling)
        return ls_fail(LS_ERR_INPUT,
                       "the initial loss scale, 2^%d, is above the maximum, 2^%d; lower the former or raise the latter",
                       s->initial, s->ceiling);
    return check_range("the number of steps without overflow before the loss scale grows", s->window, 1,
                       LS_LOSS_SCALE_WINDOW_MAX);
}

ls_status ls_loss_scale_exponent(double scale, int *exponent) {
    for (int e = LS_LOSS_SCALE_EXPONENT_MIN; e <= LS_LOSS_SCALE_EXPONENT_MAX; e++) {
        if (ldexp(1.0, e) != scale) continue;
        *exponent = e;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT,
                   "a loss scale of %.17g is not a power of two between 2^%d and 2^%d, e.g. 65536 or 2^16", scale,
                   LS_LOSS_SCALE_EXPONENT_MIN, LS_LOSS_SCALE_EXPONENT_MAX);
}

ls_status ls_loss_scale_parse(const char *text, int *exponent) {
    int64_t power = 0;
    double scale = 0;
    bool is_power = strncmp(text, "2^", 2) == 0;
    ls_status status = is_power ? ls_value_parse_int(text + 2, &power) : ls_value_parse_float(text, &scale);
    if (status != LS_OK) return ls_fail(LS_ERR_INPUT, "'%.40s' is not a loss scale; use e.g. 65536 or 2^16", text);
    if (!is_power) return ls_loss_scale_exponent(scale, exponent);
    if (power < LS_LOSS_SCALE_EXPONENT_MIN || power > LS_LOSS_SCALE_EXPONENT_MAX)
        return ls_fail(LS_ERR_INPUT, "a loss scale of %.40s is out of range; it must be between 2^%d and 2^%d", text,
                       LS_LOSS_SCALE_EXPONENT_MIN, LS_LOSS_SCALE_EXPONENT_MAX);
    *exponent = (int)power;
    return LS_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

ls_loss_scale ls_loss_scale_start(const ls_loss_scale_settings *settings) {
    return (ls_loss_scale){.exponent = settings->initial, .patience = settings->hysteresis};
}

/* Updates the state after a step without overflow: counts it; after a whole window resets count and hysteresis, and
 * raises the exponent unless it is at the ceiling. A constant scale only resets its hysteresis, after every step. */
static void after_good(ls_loss_scale *state, const ls_loss_scale_settings *s) {
    if (s->constant) {
        state->patience = s->hysteresis;
        return;
    }
    if (++state->good_steps < s->window) return;
    state->good_steps = 0;
    state->patience = s->hysteresis;
    if (state->exponent < s->ceiling) state->exponent++;
}

ls_loss_scale_verdict ls_loss_scale_after(ls_loss_scale *state, const ls_loss_scale_settings *settings, bool overflow) {
    assert(settings->constant || (state->exponent >= settings->floor && state->exponent <= settings->ceiling));
    if (!overflow) {
        after_good(state, settings);
        return LS_LOSS_SCALE_GOOD;
    }
    state->good_steps = 0;
    if (state->patience > 0) state->patience--;
    if (state->patience > 0) return LS_LOSS_SCALE_SKIPPED;
    if (settings->constant || state->exponent == settings->floor) return LS_LOSS_SCALE_FLOOR;
    state->exponent--;
    return LS_LOSS_SCALE_SKIPPED;
}

/* ---- checkpoint -------------------------------------------------------------------------------------------------- */

void ls_loss_scale_save(const ls_loss_scale *state, int64_t words[LS_LOSS_SCALE_WORDS]) {
    words[0] = state->exponent;
    words[1] = state->patience;
    words[2] = state->good_steps;
}

ls_status ls_loss_scale_restore(ls_loss_scale *state, const ls_loss_scale_settings *s,
                                const int64_t words[LS_LOSS_SCALE_WORDS]) {
    int low = s->constant ? s->initial : s->floor, high = s->constant ? s->initial : s->ceiling;
    LS_TRY(check_range("the exponent of the saved loss scale", words[0], low, high));
    LS_TRY(check_range("the saved hysteresis counter of the loss scale", words[1], 0, s->hysteresis));
    LS_TRY(check_range("the saved number of steps without overflow of the loss scale", words[2], 0,
                       s->constant ? 0 : s->window - 1));
    *state = (ls_loss_scale){.exponent = (int)words[0], .patience = (int)words[1], .good_steps = words[2]};
    return LS_OK;
}
