/* summary.h: what a run tells of itself at its end: time, speed, the best validation loss.
 *
 * Of this process alone: a run that was resumed has earlier steps and evaluations, which metrics.jsonl holds. The
 * training loop fills it on the first worker; plain values, nothing to release. */
#ifndef LS_TRAIN_SUMMARY_H
#define LS_TRAIN_SUMMARY_H

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
    bool has_best;
    double best_loss; /* the lowest validation loss, and after which step */
    int64_t best_step;
} ls_run_summary;

void ls_run_summary_add_step(ls_run_summary *summary, double seconds, double samples);
/* A loss that is not finite is never the best; of equal ones the first is. */
void ls_run_summary_add_evaluation(ls_run_summary *summary, int64_t step, double loss);

enum { LS_RUN_SUMMARY_LINE_MAX = 160 };

/* "1m36s, 1m30s of it in 300 steps: 45.7k tok/s" */
void ls_run_summary_time_text(const ls_run_summary *summary, char line[LS_RUN_SUMMARY_LINE_MAX]);
/* "validation loss 2.1234 at step 200"; empty where nothing was evaluated. */
void ls_run_summary_best_text(const ls_run_summary *summary, char line[LS_RUN_SUMMARY_LINE_MAX]);

#endif
