/* loss_scale.h: the dynamic loss scale of fp16 training, a state machine that every worker runs on the same inputs.
 *
 * Backward starts with gradients scaled by 2^e, so that small ones do not underflow in fp16, and the step divides by
 * 2^e again (optim/clip.h). If the gradient of a step is not finite, it has overflowed, and every worker skips the
 * update.
 *
 *     good step       counts; after `window` of them in a row: e + 1 (at most the ceiling), and the hysteresis is reset
 *     overflow        the count restarts, hysteresis − 1; if it is now 0: e − 1, or at the floor the run must stop
 *
 * A hysteresis of h means that h − 1 overflows since the last reset only skip their step; the h-th lowers the scale,
 * and so does every further one, until a good window resets the hysteresis. A constant scale never changes: any good
 * step resets its hysteresis, and h overflows in a row stop the run.
 *
 * 1. floor ≤ e ≤ ceiling, always.
 * 2. The state is a function of the settings and of the sequence of inputs, so it is equal on all workers.
 * 3. A state that is saved as words and restored continues exactly. */
#ifndef LS_OPTIM_LOSS_SCALE_H
#define LS_OPTIM_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    LS_LOSS_SCALE_EXPONENT_MIN = -14,
    LS_LOSS_SCALE_EXPONENT_MAX = 24,
    LS_LOSS_SCALE_WINDOW_MAX = 1000000000,
    LS_LOSS_SCALE_HYSTERESIS_MAX = 1000,
    LS_LOSS_SCALE_WORDS = 3,
};

typedef struct ls_loss_scale_settings {
    bool constant;      /* the scale never changes */
    int initial;        /* exponent at the start */
    int floor, ceiling; /* exponents; not used by a constant scale */
    int64_t window;     /* good steps in a row before it grows; not used by a constant scale */
    int hysteresis;     /* which overflow since the last reset lowers it first, from 1 on; 1: the first */
} ls_loss_scale_settings;

typedef struct ls_loss_scale {
    int exponent; /* e: the scale is 2^e */
    int patience; /* rest of the hysteresis: the overflow that brings it to 0 lowers the scale; 0: each one does */
    int64_t good_steps; /* since the last overflow or full window; 0 for a constant scale */
} ls_loss_scale;

typedef enum ls_loss_scale_verdict {
    LS_LOSS_SCALE_GOOD,    /* do the update */
    LS_LOSS_SCALE_SKIPPED, /* no update; continue with the new exponent */
    LS_LOSS_SCALE_FLOOR,   /* no update, and the scale, at its floor or constant, cannot be lowered: stop the run */
} ls_loss_scale_verdict;

/* Checks the settings. LS_ERR_INPUT names the setting that is out of range and its value. */
ls_status ls_loss_scale_check(const ls_loss_scale_settings *settings);

/* Parses a loss scale, "65536", "0.5" or "2^16", and sets *exponent to its power of two. Anything other than a power of
 * two from 2^-14 to 2^24 is LS_ERR_INPUT. */
ls_status ls_loss_scale_parse(const char *text, int *exponent);
/* Sets *exponent to log2 of a scale. Anything other than a power of two from 2^-14 to 2^24 is LS_ERR_INPUT. */
ls_status ls_loss_scale_exponent(double scale, int *exponent);

/* Returns the state before the first step: the initial exponent with the full hysteresis. The settings must have been
 * checked, here and below. */
ls_loss_scale ls_loss_scale_start(const ls_loss_scale_settings *settings);
/* Updates the state after a step that ran with scale 2^state->exponent, and returns what to do with the step.
 * `overflow`: its gradient was not finite. Every worker calls it with the same input. */
ls_loss_scale_verdict ls_loss_scale_after(ls_loss_scale *state, const ls_loss_scale_settings *settings, bool overflow);

/* Writes the state as words of a checkpoint. */
void ls_loss_scale_save(const ls_loss_scale *state, int64_t words[LS_LOSS_SCALE_WORDS]);
/* Restores a saved state. Words that are no valid state under these settings are LS_ERR_INPUT, and *state is
 * unchanged. */
ls_status ls_loss_scale_restore(ls_loss_scale *state, const ls_loss_scale_settings *settings,
                                const int64_t words[LS_LOSS_SCALE_WORDS]);

#endif
