/* summary.c: sums over the steps of a run, and the two lines made of them. */
#include "train/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/progress.h"

void ls_run_summary_add_step(ls_run_summary *s, double seconds, double samples) {
    s->steps++;
    s->step_s += seconds;
    s->samples += samples;
}

void ls_run_summary_add_evaluation(ls_run_summary *s, int64_t step, double loss) {
    if (!isfinite(loss) || (s->has_best && loss >= s->best_loss)) return;
    s->has_best = true;
    s->best_loss = loss;
    s->best_step = step;
}

/* "1m36s", and tenths of a second below a minute. */
static void duration_text(double seconds, char text[LS_PROGRESS_TEXT_MAX]) {
    if (seconds < 59.95)
        snprintf(text, LS_PROGRESS_TEXT_MAX, "%.1fs", seconds);
    else
        ls_progress_time_text(seconds, text);
}

void ls_run_summary_time_text(const ls_run_summary *s, char line[LS_RUN_SUMMARY_LINE_MAX]) {
    char wall[LS_PROGRESS_TEXT_MAX], steps[LS_PROGRESS_TEXT_MAX], speed[LS_PROGRESS_TEXT_MAX] = "";
    duration_text(s->wall_s, wall);
    duration_text(s->step_s, steps);
    if (s->step_s > 0) ls_progress_speed_text(s->samples / s->step_s, s->is_images, speed);
    if (s->steps == 0)
        snprintf(line, LS_RUN_SUMMARY_LINE_MAX, "%s, no steps", wall);
    else
        snprintf(line, LS_RUN_SUMMARY_LINE_MAX, "%s, %s of it in %" PRId64 " step%s%s%s", wall, steps, s->steps,
                 s->steps == 1 ? "" : "s", *speed ? ": " : "", speed);
}

void ls_run_summary_best_text(const ls_run_summary *s, char line[LS_RUN_SUMMARY_LINE_MAX]) {
    line[0] = '\0';
    if (!s->has_best) return;
    int used =
        snprintf(line, LS_RUN_SUMMARY_LINE_MAX, "validation loss %.4f at step %" PRId64, s->best_loss, s->best_step);
    if (s->first_step > 0)
        snprintf(line + used, (size_t)(LS_RUN_SUMMARY_LINE_MAX - used), " (of those after step %" PRId64 ")",
                 s->first_step);
}
