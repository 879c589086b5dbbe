/* clip.c: the factor of a step, from docs/reference/arithmetic.md, "Step". */
#include "optim/clip.h"

#include <assert.h>
#include <math.h>

/* Returns ⌈log2 tokens⌉. */
static int log2_up(int64_t tokens) {
    int log2 = 0;
    while ((INT64_C(1) << log2) < tokens) log2++;
    return log2;
}

/* Returns the exponent of the power of two with which backward starts: e − ⌈log2 N⌉. */
static int start_exponent(int64_t tokens, int loss_exponent) {
    assert(tokens >= 1 && tokens <= INT64_C(1) << LS_CLIP_TOKENS_LOG2_MAX);
    assert(loss_exponent >= -LS_CLIP_LOSS_EXPONENT_MAX && loss_exponent <= LS_CLIP_LOSS_EXPONENT_MAX);
    return loss_exponent - log2_up(tokens);
}

float ls_clip_backward_start(int64_t tokens, int loss_exponent) {
    return ldexpf(1.0f, start_exponent(tokens, loss_exponent));
}

double ls_clip_token_scale(int64_t tokens, int loss_exponent) {
    return ldexp(1.0, -start_exponent(tokens, loss_exponent)) / (double)tokens;
}

ls_clip ls_clip_factor(double squares, int64_t non_finite, double token_scale, double threshold) {
    assert(threshold >= 0 && token_scale > 0);
    double norm = sqrt(squares) * token_scale;
    if (non_finite != 0 || !isfinite(norm)) return (ls_clip){.norm = (double)NAN, .factor = NAN};
    bool clipped = threshold > 0 && norm > threshold;
    double factor = clipped ? token_scale * (threshold / norm) : token_scale;
    return (ls_clip){.finite = true, .clipped = clipped, .norm = norm, .factor = (float)factor};
}
