/* summary.h: what a run tells of itself at its end: time and speed.
 *
 * Of this process alone: a run that was resumed has earlier steps, which metrics.jsonl holds. The training loop fills
 * it on the first worker; plain values, nothing to release. */
#ifndef LS_RUN_PROGRESS_SUMMARY_H
#define LS_RUN_PROGRESS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_run_summary {
    int64_t first_step; /* steps that the run had when this process began */
    int64_t steps;      /* made by this process */
    double step_s;      /* seconds in them */
    double wall_s;      /* with evaluations, samples and checkpoints */
    double samples;     /* tokens, or images */
    bool is_images;
} ls_run_summary;

void ls_run_summary_add_step(ls_run_summary *summary, double seconds, double samples);

enum { LS_RUN_SUMMARY_LINE_MAX = 160 };

/* "1m36s, 1m30s of it in 300 steps: 45.7k tok/s" */
void ls_run_summary_time_text(const ls_run_summary *summary, char line[LS_RUN_SUMMARY_LINE_MAX]);

#endif
