/* noise.c: estimates the squared norm of the true gradient and the variance of its noise, and averages both over
 * steps. */
#include "run/guard/noise.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Solves for tr(Σ) and |g|², and adds both to the averages. With the gradients ("leaves") l_g of groups of n_g tokens,
 * N in all, and the mean gradient of a group m_g = (N/n_g)·l_g:
 *
 *     A = Σ (n_g/N)·|m_g|² = Σ (N/n_g)·|l_g|²      E A = |g|² + tr·G/N
 *     W = |Σ l_g|²                                 E W = |g|² + tr/N
 *
 * which holds for groups of any sizes, so tr = N·(A − W)/(G − 1) and |g|² = (G·W − A)/(G − 1) have no bias. */
bool ls_noise_add(ls_noise *noise, const ls_noise_step *step) {
    int64_t all = 0, groups = 0;
    for (size_t g = 0; g < step->groups; g++) {
        all += step->tokens[g];
        groups += step->tokens[g] > 0;
    }
    if (groups < 2) return false;
    double unit = step->scale * step->scale, parts = 0, whole = unit * step->whole_squares;
    for (size_t g = 0; g < step->groups; g++)
        if (step->tokens[g] > 0) parts += (double)all / (double)step->tokens[g] * (unit * step->squares[g]);
    double trace = (double)all * (parts - whole) / (double)(groups - 1);
    double grad_sq = ((double)groups * whole - parts) / (double)(groups - 1);
    if (!isfinite(trace) || !isfinite(grad_sq)) return false;
    noise->trace = LS_NOISE_DECAY * noise->trace + (1 - LS_NOISE_DECAY) * trace;
    noise->grad_sq = LS_NOISE_DECAY * noise->grad_sq + (1 - LS_NOISE_DECAY) * grad_sq;
    noise->weight = LS_NOISE_DECAY * noise->weight + (1 - LS_NOISE_DECAY);
    noise->count++;
    return true;
}

ls_noise_value ls_noise_get(const ls_noise *noise, int64_t tokens, int64_t sequences) {
    if (noise->count == 0) return (ls_noise_value){.valid = false};
    ls_noise_value value = {.grad_sq = noise->grad_sq / noise->weight, .trace = noise->trace / noise->weight};
    double scale = value.trace > 0 ? value.trace / value.grad_sq : 0;
    value.valid = value.grad_sq > 0 && isfinite(scale);
    if (!value.valid) return value;
    value.scale_tokens = scale;
    value.scale_sequences = scale * ((double)sequences / (double)tokens);
    return value;
}

/* ---- checkpoint -------------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(ls_noise) == LS_NOISE_WORDS * sizeof(int64_t), "saved as a list of int64");

void ls_noise_save(const ls_noise *noise, int64_t words[LS_NOISE_WORDS]) { memcpy(words, noise, sizeof *noise); }

ls_status ls_noise_restore(ls_noise *noise, const int64_t words[LS_NOISE_WORDS]) {
    ls_noise read;
    memcpy(&read, words, sizeof read);
    bool is_start = read.count == 0 && read.trace == 0 && read.grad_sq == 0 && read.weight == 0;
    bool is_average = read.count > 0 && isfinite(read.trace) && isfinite(read.grad_sq) && read.weight > 0 &&
                      read.weight < 1.001; /* rounding may carry it past 1 */
    if (!is_start && !is_average)
        return ls_fail(LS_ERR_INPUT, "the saved noise scale (%" PRId64 " measurements) is damaged", read.count);
    *noise = read;
    return LS_OK;
}
