/* numerics.c: `lockstep doctor RUN --show numerics`: prints what rounding did, block by block, in one step of a run. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/doctor/report.h"
#include "cli/print.h"

/* ---- which step -------------------------------------------------------------------------------------------------- */

/* Sets *step to `wanted`, or to the newest recorded step if `wanted` is 0. LS_ERR_INPUT if that step was not recorded;
 * the message then names the nearest one. LS_ERR_INPUT, too, if the run recorded none. */
static ls_status choose_step(const char *name, const ls_run_log *run, int64_t wanted, int64_t *step) {
    if (run->numerics_count == 0)
        return ls_fail(LS_ERR_INPUT, "%s has no numerics records: train with --numerics 10", name);
    int64_t first = run->numerics[0].step, last = run->numerics[run->numerics_count - 1].step, nearest = first;
    for (size_t i = 0; i < run->numerics_count; i++) {
        int64_t s = run->numerics[i].step;
        if (wanted > 0 && llabs(s - wanted) < llabs(nearest - wanted)) nearest = s;
    }
    *step = wanted > 0 ? nearest : last;
    if (wanted == 0 || nearest == wanted) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "step %lld of %s has no numerics record; steps %lld to %lld are recorded, the nearest is %lld",
                   (long long)wanted, name, (long long)first, (long long)last, (long long)nearest);
}

/* Returns the record of a block at a step; NULL: none. The last one counts, because a resumed run records a step
 * again. */
static const ls_run_log_numerics *find_block_numerics(const ls_run_log *run, int64_t step, int block) {
    const ls_run_log_numerics *found = NULL;
    for (size_t i = 0; i < run->numerics_count; i++)
        if (run->numerics[i].step == step && run->numerics[i].block == block) found = &run->numerics[i];
    return found;
}

/* Returns the last noise record of a step, or NULL if there is none. */
static const ls_run_log_noise *find_noise(const ls_run_log *run, int64_t step) {
    const ls_run_log_noise *found = NULL;
    for (size_t i = 0; i < run->noise_count; i++)
        if (run->noises[i].step == step) found = &run->noises[i];
    return found;
}

/* Returns the record of a step, or NULL. */
static const ls_run_log_step *find_step(const ls_run_log *run, int64_t step) {
    for (size_t i = 0; i < run->step_count; i++)
        if (run->steps[i].step == step) return &run->steps[i];
    return NULL;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* Prints a number with three digits in a column; "-" for NaN, which means not recorded. */
static void print_norm(float x) {
    if (isnan(x))
        printf(" %9s", "-");
    else
        printf(" %9.3g", (double)x);
}

/* Prints a share in percent; "-" for NaN, which means not recorded. Distinguishes 0 from shares that would round to
 * 0. */
static void print_share(float x) {
    double percent = 100 * (double)x;
    if (isnan(x))
        printf(" %9s", "-");
    else if (percent > 0 && percent < 0.01)
        printf(" %9s", "< 0.01 %");
    else
        printf(" %7.2f %%", percent);
}

/* Prints a share of a gradient, or "all zero" if its norm is 0, as after complete underflow in 16 bits. */
static void print_share_of(float share, float norm) {
    if (norm == 0.0F)
        printf(" %9s", "all zero");
    else
        print_share(share);
}

/* Prints run, step, precision and loss scale, and the head of the table. */
static void print_head(const char *name, const ls_run_log *run, int64_t step) {
    const char *precision = ls_run_log_option_get(run, "precision");
    const ls_run_log_step *at = find_step(run, step);
    printf("%s: numerics of step %lld", name, (long long)step);
    if (precision) printf(", %s", precision);
    if (at && at->scale != INT_MIN) printf(", loss scale 2^%d", at->scale);
    printf("\n\n%-12s   %-29s %-19s %-19s %s\n", "", "------- norms of -------", "--- gradients ---",
           "- act. gradients -", "---- updates ----");
    printf("%-12s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "block", "gradient", "weight", "update", "flushed", "high",
           "flushed", "high", "lost", "/ weight");
}

/* Prints the gradient noise scale of the step: the batch size beyond which larger batches gain little. */
static void print_noise(const ls_run_log *run, int64_t step) {
    const ls_run_log_noise *noise = find_noise(run, step);
    if (!noise || !(noise->scale_tokens > 0)) {
        printf("\ngradient noise scale: unknown for this step\n");
        return;
    }
    printf("\ngradient noise scale: %.4g tokens, %.4g sequences; larger batches have diminishing returns\n",
           noise->scale_tokens, noise->scale_sequences);
}

/* Prints a row for each block of the model that was recorded. */
static void print_table(const char *name, const ls_run_log *run, int64_t step) {
    bool zero = false;
    print_head(name, run, step);
    for (int b = 0; b < run->block_count; b++) {
        const ls_run_log_numerics *n = find_block_numerics(run, step, b);
        if (!n) continue;
        printf("%-12s", run->blocks[b]);
        print_norm(n->grad_norm);
        print_norm(n->weight_norm);
        print_norm(n->update_norm);
        print_share_of(n->grad_flushed, n->grad_norm);
        print_share_of(n->grad_high, n->grad_norm);
        print_share(n->act_flushed);
        print_share(n->act_high);
        print_share(n->lost);
        print_norm(n->update_norm / n->weight_norm);
        printf("\n");
        zero |= n->grad_norm == 0.0F;
    }
    if (zero)
        printf("\nall zero: every gradient of the block is 0, so nothing is left to be flushed; in 16 bits they have "
               "most likely underflowed\n");
    print_noise(run, step);
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

/* Returns a new number, or null if the gradient's norm is 0 or the share was not recorded. */
static json_t *share_json(float share, float norm) {
    return norm == 0.0F ? json_null() : ls_cli_json_number((double)share);
}

/* Returns the record of a block as a new object. */
static json_t *block_json(const char *block, const ls_run_log_numerics *n) {
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "block", block, "grad_norm",
                     ls_cli_json_number((double)n->grad_norm), "weight_norm",
                     ls_cli_json_number((double)n->weight_norm), "update_norm",
                     ls_cli_json_number((double)n->update_norm), "grad_flushed",
                     share_json(n->grad_flushed, n->grad_norm), "grad_high", share_json(n->grad_high, n->grad_norm),
                     "act_flushed", ls_cli_json_number((double)n->act_flushed), "act_high",
                     ls_cli_json_number((double)n->act_high), "lost", ls_cli_json_number((double)n->lost));
}

/* Returns a new list of the recorded blocks; NULL: out of memory. */
static json_t *blocks_json(const ls_run_log *run, int64_t step) {
    json_t *list = json_array();
    for (int b = 0; list && b < run->block_count; b++) {
        const ls_run_log_numerics *n = find_block_numerics(run, step, b);
        if (n && json_array_append_new(list, block_json(run->blocks[b], n)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Returns the noise scale of the step as a new object, or null. */
static json_t *noise_json(const ls_run_log *run, int64_t step) {
    const ls_run_log_noise *noise = find_noise(run, step);
    if (!noise) return json_null();
    return json_pack("{s:o, s:o}", "scale_tokens", ls_cli_json_number(noise->scale_tokens), "scale_sequences",
                     ls_cli_json_number(noise->scale_sequences));
}

/* Prints the step as JSON. */
static ls_status print_numerics_json(const char *name, const ls_run_log *run, int64_t step) {
    const ls_run_log_step *at = find_step(run, step);
    json_t *scale = at && at->scale != INT_MIN ? json_integer(at->scale) : json_null();
    return ls_cli_print_json(json_pack("{s:o, s:I, s:o, s:o, s:o}", "run", ls_cli_json_path(name), "step",
                                       (json_int_t)step, "scale", scale, "blocks", blocks_json(run, step), "noise",
                                       noise_json(run, step)));
}

ls_status ls_doctor_print_numerics(const char *name, const ls_run_log *run, int64_t wanted, bool json) {
    int64_t step = 0;
    LS_TRY(choose_step(name, run, wanted, &step));
    if (json) return print_numerics_json(name, run, step);
    print_table(name, run, step);
    return LS_OK;
}
