/* clip.h: from the gradient as backward left it to the one factor f of the step (rule 11).
 *
 * Backward starts from (p − 1[target])·2^(e − ⌈log2 N⌉), with N the global number of tokens and e the exponent of the
 * loss scale (0 without one), and so leaves G = g·N·2^(e − ⌈log2 N⌉), g being the true gradient: that of the mean loss.
 * The step multiplies by f once, which undoes this and clips. All in double, f rounded to fp32 once.
 * Formulas: docs/reference/arithmetic.md, "Step". */
#ifndef LS_OPTIM_CLIP_H
#define LS_OPTIM_CLIP_H

#include <stdbool.h>
#include <stdint.h>

enum { LS_CLIP_TOKENS_LOG2_MAX = 48, LS_CLIP_LOSS_EXPONENT_MAX = 64 };

/* 2^(e − ⌈log2 N⌉), where backward starts; exact. 1 ≤ tokens ≤ 2^48, |e| ≤ 64, here and below. */
float ls_clip_backward_start(int64_t tokens, int loss_exponent);
/* 2^(⌈log2 N⌉ − e) / N: the true gradient is this times what backward left. */
double ls_clip_token_scale(int64_t tokens, int loss_exponent);

typedef struct ls_clip {
    bool finite;  /* whether every element of the gradient, and so its norm, is finite */
    bool clipped; /* whether the norm was above the threshold */
    double norm;  /* of the true gradient, before clipping; NaN unless finite */
    float factor; /* f; NaN unless finite: the step must be skipped, or the run ended */
} ls_clip;

/* `squares` is the exact sum of the squares of what backward left (ls_exact_sum_value), `non_finite` how many of its
 * parts were not finite (ls_exact_sum_non_finite). A threshold of 0 means no clipping. */
ls_clip ls_clip_factor(double squares, int64_t non_finite, double token_scale, double threshold);

#endif
