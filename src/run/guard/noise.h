/* noise.h: estimates the gradient noise scale (--numerics), from the norms of the gradients of groups, which are fixed
 * parts of the batch, and of the whole one. Called by the step; recorded by the loop.
 *
 * A group's mean gradient is the true gradient g plus noise: with n tokens in it, E|mean|² = |g|² + tr(Σ)/n, Σ being
 * the covariance of one token's gradient. Groups and whole batch are two sizes of n, so both unknowns can be solved for
 * without bias; formulas, and what the result is good for, are in docs/explain/numerics.md. (McCandlish, Kaplan, Amodei
 * and others, "An Empirical Model of Large-Batch Training", 2018.)
 *
 *     noise scale = tr(Σ) / |g|², in tokens
 *
 * One step's estimates are very noisy, so numerator and denominator are averaged separately over recent measurements.
 * Double, + − × ÷ only, in the order of the groups: equal on all workers. */
#ifndef LS_RUN_GUARD_NOISE_H
#define LS_RUN_GUARD_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { LS_NOISE_WORDS = 4 };

/* A measurement counts this much less with each later one: the last 50 or so matter. */
#define LS_NOISE_DECAY 0.98

/* All zero is the start. */
typedef struct ls_noise {
    int64_t count;
    double trace, grad_sq; /* moving averages, times `weight` */
    double weight;         /* of all measurements: 1 − decay^count */
} ls_noise;

/* The measurements of one step. */
typedef struct ls_noise_step {
    size_t groups;
    const double *squares; /* of each group's leaf: its part of the sum, as backward left it */
    const int64_t *tokens; /* of each group; 0: it is absent */
    double whole_squares;  /* of the sum of the leaves */
    double scale;          /* what backward left, times this, is the gradient of the mean loss: ls_clip_token_scale() */
} ls_noise_step;

/* Adds the step to the averages. Returns false, and changes nothing, with fewer than two groups or a value that is not
 * finite. */
bool ls_noise_add(ls_noise *noise, const ls_noise_step *step);

typedef struct ls_noise_value {
    bool valid;            /* something was measured, and the estimate of |g|² is above 0 */
    double grad_sq, trace; /* averages of the estimates of |g|² and tr(Σ); either may be negative by chance */
    double scale_tokens, scale_sequences; /* 0 unless valid, or where the trace is not above 0 */
} ls_noise_value;

/* Returns the present estimates. `tokens` and `sequences` are those of a whole batch; both ≥ 1. */
ls_noise_value ls_noise_get(const ls_noise *noise, int64_t tokens, int64_t sequences);

/* Writes the state as words for a checkpoint; doubles are stored as their bits. */
void ls_noise_save(const ls_noise *noise, int64_t words[LS_NOISE_WORDS]);
/* Restores saved words. Words that ls_noise_save() cannot have written are LS_ERR_INPUT, and *noise is unchanged. */
ls_status ls_noise_restore(ls_noise *noise, const int64_t words[LS_NOISE_WORDS]);

#endif
