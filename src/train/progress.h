/* progress.h: what a person sees while a model learns.
 *
 *     step 120/900 | loss 4.1234 (0x1.07e5c91d14e3cp+2) | norm 0.512 | lr 6.00e-04 | 123 ms | 45.7k tok/s | MFU 41.2% |
 *     ETA 1m36s
 *
 * On a terminal one line is drawn again and again, at most ten times a second, cut to the width of the window by
 * leaving out whole fields, the least important first. Elsewhere (a file, a pipe, a dumb terminal) every step is a
 * plain line. Colours are for terminals only, and not where NO_COLOR is set.
 *
 * Nothing is allocated. Writes only to the stream it was given; an error there is the status of the call. One thread.
 */
#ifndef LS_TRAIN_PROGRESS_H
#define LS_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef struct ls_progress_step {
    int64_t step, steps; /* steps done, and in all */
    double loss, norm, lr;
    double seconds; /* that the step took */
    double tokens;  /* of the step */
    double mfu;     /* share of the peak, 0 … 1; 0: not known, left out */
    bool is_images; /* `tokens` counts images */
    int audited;    /* gradient groups that were computed twice; 0: none, left out */
} ls_progress_step;

enum { LS_PROGRESS_LINE_MAX = 512 };

/* How to write; ls_progress_init() finds out, a test may set it. */
typedef struct ls_progress {
    FILE *out;
    bool live; /* one line, drawn again and again */
    bool colours;
    int columns; /* of the window; 0: asked for at each drawing */
    uint64_t (*now_ns)(void);
    /* private */
    bool drawn, late; /* a line stands there unended; the last step is not on it yet */
    uint64_t drawn_ns;
    int64_t timed; /* steps in the average */
    double average_s;
    ls_progress_step last;
} ls_progress;

void ls_progress_init(ls_progress *progress, FILE *out);
ls_status ls_progress_step_done(ls_progress *progress, const ls_progress_step *step);
/* A line of its own, above the one that is drawn: evaluations, samples, checkpoints. `text` has no newline at its end.
 */
ls_status ls_progress_note(ls_progress *progress, const char *text);
/* Shows the last step and leaves the line. May be called again, and before any step. */
ls_status ls_progress_end(ls_progress *progress);

/* The line without colours or newline, cut to `columns` (0: everything). A negative eta_s: not known. Returns its
 * bytes. */
size_t ls_progress_format(const ls_progress_step *step, double eta_s, int columns, char line[LS_PROGRESS_LINE_MAX]);
/* Seconds left, from a moving average of the time of a step; negative before the first. */
double ls_progress_eta(const ls_progress *progress);

#endif
