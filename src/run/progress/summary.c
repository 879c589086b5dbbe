/* summary.c: sums over the steps of a run, and the line made of them. */
#include "run/progress/summary.h"

#include <inttypes.h>
#include <stdio.h>

#include "run/progress/progress.h"

void ls_run_summary_add_step(ls_run_summary *s, double seconds, double samples) {
    s->steps++;
    s->step_s += seconds;
    s->samples += samples;
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
