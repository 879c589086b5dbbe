/* loss_scale.h: the loss scale of fp16 training, a state machine that every worker runs on the same answers.
 *
 * Backward starts 2^e times too large, so that small gradients do not become 0 in fp16, and the step divides by 2^e
 * again (optim/clip.h). A step whose gradient is not finite overflowed: its update does not happen, on any worker.
 *
 *     good step       one more good step; `window` of them in a row: e + 1 (not above the ceiling), patience restored
 *     overflow        good steps start again, patience − 1; with none left: e − 1, and at the floor the run must stop
 *
 * Patience is the hysteresis: that many overflows, then every further one, lower the scale, until a good window
 * restores it. A constant scale never moves: there any good step restores the patience, and without it the run stops.
 *
 * 1. floor ≤ e ≤ ceiling, always.
 * 2. The state is a function of the settings and of the sequence of answers, so it is equal on all workers.
 * 3. A state written as words and read back goes on as if nothing had been. */
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
    bool constant;
    int initial;        /* exponent to start from */
    int floor, ceiling; /* exponents; not used by a constant scale */
    int64_t window;     /* good steps in a row before it grows; not used by a constant scale */
    int hysteresis;     /* overflows before it shrinks; 1: at once */
} ls_loss_scale_settings;

typedef struct ls_loss_scale {
    int exponent;
    int patience;       /* overflows that are still borne */
    int64_t good_steps; /* since the last overflow or growth; 0 for a constant scale */
} ls_loss_scale;

typedef enum ls_loss_scale_verdict {
    LS_LOSS_SCALE_GOOD,    /* do the update */
    LS_LOSS_SCALE_SKIPPED, /* no update; go on with the new exponent */
    LS_LOSS_SCALE_FLOOR,   /* no update, and the scale cannot be lowered: stop the run */
} ls_loss_scale_verdict;

/* 2^16, at most 2^24, at least 1, growing after 1000 good steps, hysteresis 2: docs/explain/numerics.md says why. */
ls_loss_scale_settings ls_loss_scale_defaults(void);
/* LS_ERR_INPUT, with the setting and its value in the message, unless every setting is in its range. */
ls_status ls_loss_scale_check(const ls_loss_scale_settings *settings);

/* The exponent of a scale given as a number, such as 65536 or 0.5, or as a power, such as 2^16. Anything else than a
 * power of two from 2^-14 to 2^24 is LS_ERR_INPUT. */
ls_status ls_loss_scale_parse(const char *text, int *exponent);
ls_status ls_loss_scale_exponent(double scale, int *exponent);

/* The settings must have been checked, here and below. */
ls_loss_scale ls_loss_scale_start(const ls_loss_scale_settings *settings);
/* Takes in a step that ran with state->exponent: whether anything in it overflowed. */
ls_loss_scale_verdict ls_loss_scale_after(ls_loss_scale *state, const ls_loss_scale_settings *settings, bool overflow);

/* For a checkpoint. Words that cannot be a state under these settings are LS_ERR_INPUT, and *state is unchanged. */
void ls_loss_scale_save(const ls_loss_scale *state, int64_t words[LS_LOSS_SCALE_WORDS]);
ls_status ls_loss_scale_restore(ls_loss_scale *state, const ls_loss_scale_settings *settings,
                                const int64_t words[LS_LOSS_SCALE_WORDS]);

#endif
