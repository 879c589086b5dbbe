/* clip.h: gradient clipping by the global norm, and removal of the loss scale: computes the one factor f by which an
 * update multiplies every gradient element. The training step calls it on every worker with the same sums.
 *
 * Backward starts from (p − 1[target])·2^(e − ⌈log2 N⌉), with N the global number of tokens and e the exponent of the
 * loss scale (0 without one). So it produces G = g·N·2^(e − ⌈log2 N⌉), where g is the true gradient, that of the mean
 * loss. The step multiplies by f once, which removes the scale and clips. All in double; f is rounded to fp32 once.
 * Formulas: docs/reference/arithmetic.md, "Step". */
#ifndef LS_OPTIM_CLIP_H
#define LS_OPTIM_CLIP_H

#include <stdbool.h>
#include <stdint.h>

enum { LS_CLIP_TOKENS_LOG2_MAX = 48, LS_CLIP_LOSS_EXPONENT_MAX = 64 };

/* Returns 2^(e − ⌈log2 N⌉), the scale at the start of backward; exact. 1 ≤ tokens ≤ 2^48, |e| ≤ 64, here and below. */
float ls_clip_backward_start(int64_t tokens, int loss_exponent);
/* Returns 2^(⌈log2 N⌉ − e) / N, by which the result of backward is multiplied to get the true gradient. */
double ls_clip_token_scale(int64_t tokens, int loss_exponent);

typedef struct ls_clip {
    bool finite;  /* every element of the gradient is finite, and so is the norm */
    bool clipped; /* the norm was above the threshold, which was not 0; false unless finite */
    double norm;  /* of the true gradient, before clipping; NaN unless finite */
    float factor; /* f; NaN unless finite: the caller must skip the step or end the run */
} ls_clip;

/* Computes the norm and the factor of a step. `squares` is the exact sum of the squares of backward's result
 * (ls_exact_sum_value). `non_finite` counts what that sum had to leave out because it was infinite or NaN
 * (ls_exact_sum_non_finite); if it is not 0, or the norm itself overflows, the result is not finite. `token_scale` is
 * that of ls_clip_token_scale(). Threshold 0: no clipping. */
ls_clip ls_clip_factor(double squares, int64_t non_finite, double token_scale, double threshold);

#endif
