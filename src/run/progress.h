/* progress.h: the lines that a terminal or a log shows while a model learns.
 *
 *     step 120/900 | loss 4.1234 | norm 0.512 | lr 6.00e-04 | 123 ms | 45.7k tok/s | MFU 41.2% | ETA 1m36s
 *
 * On a terminal a block of lines is redrawn in place, at most ten times a second, and at once after a resize
 * (progress_block.c). A window that is too small for the block gets one line, which fits because whole fields are left
 * out, the least important first. Elsewhere (a file, a pipe, a dumb terminal) some of the steps are a plain line each:
 * ls_progress_cadence() says which. metrics.jsonl has every step, with the loss to its last bit. Only terminals get
 * colours, and only without NO_COLOR.
 *
 * Also here: the summary at the end of a run, the frame around a generated sample, and the sentence about a faster
 * matrix unit. The commands of the program call it with the events of a run; the loop frames samples. The caller owns
 * the struct, calls from one thread of rank 0, and hides the block (ls_progress_hide) before it writes to the terminal
 * itself. Only ls_sample_frame() allocates. No call that writes fails: a run must not end when its
 * pipe is closed, so the stream keeps the error, and the program looks at it when it ends.
 */
#ifndef LS_RUN_PROGRESS_H
#define LS_RUN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "device/unit.h"
#include "nn/policy.h"

enum { LS_PROGRESS_LINE_MAX = 512, LS_PROGRESS_TIME_MAX = 64 };

/* Formats a duration: "1m36s", "2d03h"; "?" for NaN and for 10^9 s (31 years) or more. */
void ls_progress_time_text(double seconds, char text[LS_PROGRESS_TIME_MAX]);
/* Formats a time of `ms` milliseconds, with two decimals below 10 ms and one below 100 ms: "0.52 ms" or "123 ms". */
void ls_progress_ms_text(double ms, char text[LS_PROGRESS_TIME_MAX]);
/* Formats tokens, or images, per second: "45.7k tok/s" or "312 img/s". */
void ls_progress_speed_text(double per_s, bool is_images, char text[LS_PROGRESS_TIME_MAX]);

/* What is shown of a completed step. */
typedef enum ls_progress_show {
    LS_PROGRESS_HOLD, /* nothing now; ls_progress_end() shows it if no other step follows */
    LS_PROGRESS_DRAW, /* the terminal is redrawn */
    LS_PROGRESS_LINE, /* a line of its own, which stays */
} ls_progress_show;

/* What ls_progress_cadence() decides by. */
typedef struct ls_progress_moment {
    bool live;         /* a terminal */
    int64_t log_every; /* --log-every; 0: automatic */
    int64_t step, steps;
    int64_t nth;       /* number of the step in this process, from 1; differs from `step` after --resume */
    uint64_t since_ns; /* since the last line that stays; on a terminal since the last drawing */
} ls_progress_moment;

/* Decides whether a step is shown. With log_every N every Nth step gets a line that stays. On a terminal the first step
 * of the process is drawn at once, and other steps at most ten times a second. Elsewhere, with log_every 0, the first
 * ten steps of the process get a line, and then the first after five seconds without one. The last step is always
 * shown. */
ls_progress_show ls_progress_cadence(const ls_progress_moment *moment);

/* What the block shows beside the last step. */
enum { LS_PROGRESS_POINTS = 64, LS_PROGRESS_BLOCK_LINES = 4, LS_PROGRESS_NOTICE_MAX = 160 };

typedef struct ls_progress_seen {
    /* The loss curve: `count` means of `stride` steps each; the last point has in_last steps, which may be fewer. */
    double points[LS_PROGRESS_POINTS];
    int count, in_last;
    int64_t stride;
    /* Evaluations. */
    bool evaluated;
    int64_t val_step, best_step;
    double val_loss, val_accuracy, best_loss; /* accuracy −1: none */
    /* Guards. */
    int64_t notices, skipped, audited;   /* how many */
    char notice[LS_PROGRESS_NOTICE_MAX]; /* the last one */
} ls_progress_seen;

/* How to write. ls_progress_init() sets it for the stream; a test may change the first members. */
typedef struct ls_progress {
    FILE *out;
    bool live;  /* a terminal, which is redrawn */
    bool block; /* as a block, if the window has room */
    bool utf8;  /* bars and curves may use characters beyond ASCII */
    bool colours;
    int64_t log_every;
    int columns; /* of the window; 0: columns and rows are read at each drawing */
    int rows;
    uint64_t (*now_ns)(void); /* the clock; ls_clock_ns */
    /* private */
    bool drawn, late;  /* an unfinished line or block is on the terminal; it does not show the last step yet */
    uint64_t shown_ns; /* when a step was last shown */
    int64_t timed;     /* steps in the average */
    double average_s;  /* moving average of the seconds of a step */
    ls_step last;
    ls_progress_seen seen;
    int widths[LS_PROGRESS_BLOCK_LINES], drawn_lines; /* of the drawn block; 0: a single line */
} ls_progress;

/* Initializes the display, with no step yet. `out` is borrowed and stays open; whether it is a terminal decides the
 * rest. On a terminal also installs a handler for SIGWINCH. */
void ls_progress_init(ls_progress *progress, FILE *out, int64_t log_every);
/* Takes a completed step: shows it, or holds it back, as ls_progress_cadence() says. */
ls_status ls_progress_step_done(ls_progress *progress, const ls_step *step);
/* Writes a line of its own above the drawn block: a sample, a checkpoint. `text` has no newline at its end. */
ls_status ls_progress_note(ls_progress *progress, const char *text);
/* Writes `text` as ls_progress_note() does, and shows the evaluation in the block from then on; NULL, or a loss that is
 * not finite: the one before stays. */
ls_status ls_progress_evaluated(ls_progress *progress, const ls_evaluation *evaluation, const char *text);
/* Writes `text` as ls_progress_note() does, and counts and shows its first line as a notice of a guard. */
ls_status ls_progress_noticed(ls_progress *progress, const char *text);
/* Erases what is drawn, so that something else can be written to the terminal. The next step draws it again. */
void ls_progress_hide(ls_progress *progress);
/* Shows the last step, if it was held back, and ends the drawn line, so that it stays; of a block only the last step
 * stays, as a line. May be called again, and before any step. */
ls_status ls_progress_end(ls_progress *progress);

/* Formats the line of a step without colours or newline, cut to `columns` (0: all fields). A negative eta_s is left
 * out. Returns the number of bytes. NaN prints without a sign. */
size_t ls_progress_format(const ls_step *step, double eta_s, int columns, char line[LS_PROGRESS_LINE_MAX]);
/* Returns the estimated seconds until the last step, from a moving average of step times; negative before the first
 * step, and behind the last. */
double ls_progress_eta(const ls_progress *progress);

/* ---- the block (progress_block.c) -------------------------------------------------------------------------------- */

/* Adds a step to the loss curve, unless its loss is not finite, and to the counts of skipped and audited. */
void ls_progress_seen_step(ls_progress_seen *seen, const ls_step *step);
/* The lines of a block, without newlines. `width` counts the columns, not the bytes of colours. */
typedef struct ls_progress_block {
    char line[LS_PROGRESS_BLOCK_LINES][LS_PROGRESS_LINE_MAX];
    int width[LS_PROGRESS_BLOCK_LINES];
} ls_progress_block;
/* Formats the block; no line is wider than `columns`: pieces that do not fit are left out. */
void ls_progress_block_make(const ls_progress *progress, int columns, ls_progress_block *out);
/* Returns the rows that lines of these widths occupy in a window of `columns` columns, which wraps longer ones. */
int ls_progress_block_rows(const int *widths, int lines, int columns);

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* The summary at the end of a run. It counts the work of this process; metrics.jsonl has the steps before a resume. The
 * training loop fills it on rank 0. */
typedef struct ls_run_summary {
    int64_t first_step; /* steps that the run had when this process began */
    int64_t steps;      /* completed by this process */
    double step_s;      /* seconds in these steps */
    double wall_s;      /* in all, with evaluations, samples and checkpoints */
    double samples;     /* tokens, or images */
    bool is_images;
} ls_run_summary;

enum { LS_RUN_SUMMARY_LINE_MAX = 256 };

/* Formats it: "30 steps in 41.9 s (367 tok/s); 58.2 s in total". */
void ls_run_summary_time_text(const ls_run_summary *summary, char line[LS_RUN_SUMMARY_LINE_MAX]);

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Frames a text that the model generated, so that it stands out from the lines of the log:
 *
 *     --- sample at step 100 ---
 *       | It was the best of
 *       | times
 *
 * A generated text must not control the terminal that shows it, so it becomes valid UTF-8 with symbols in place of
 * control characters (data/tokenizer/utf8_stream.h). The caller frees *out, which has no newline at its end. Fails if
 * memory runs out. */
ls_status ls_sample_frame(int64_t step, const char *text, size_t bytes, char **out);

/* ---- faster units ------------------------------------------------------------------------------------------------ */

/* One sentence that says whether another matrix unit (--matrix-unit) would make this run faster. It names only units
 * that were faster than chain in whole steps (docs/log/performance.md, "16 bit"): bfmmla, 2.9 times with GPT-2 124M,
 * and amx, 2.4 times; small models gain less. avx512-bf16 was slower there, and is not named. */
enum { LS_UNIT_HINT_MAX = 160 };

/* Returns whether some CPUs have a faster matrix unit for this policy: bf16 with the unit chain. The same on all
 * workers. */
bool ls_unit_hint_is_of_use(const ls_policy *policy);
/* Writes what the matrix unit means on this device, if that may surprise: on a GPU, or hgmma on a CPU; "" otherwise. */
void ls_unit_hint_device(const ls_policy *policy, bool is_gpu, char text[LS_UNIT_HINT_MAX]);
/* Writes which option gives a 16-bit run the same bits on a machine with another default unit; "" for fp32, which has
 * no units. `is_named`: the user has already chosen the unit. */
void ls_unit_hint_agree(const ls_policy *policy, bool is_named, char text[LS_UNIT_HINT_MAX]);
/* Sets having[u] to 1 for each unit that this worker's CPU has in hardware, and to 0 for the others. The sum over all
 * workers is the input of ls_unit_hint_text().
 */
void ls_unit_hint_count(int64_t having[LS_UNITS]);
/* Writes the hint for CPUs. having[u]: number of workers that have unit u; "" unless all have the same faster one. */
void ls_unit_hint_text(const int64_t having[LS_UNITS], int workers, char text[LS_UNIT_HINT_MAX]);

#endif
