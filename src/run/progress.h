/* progress.h: what a person sees while a model learns.
 *
 *     step 120/900 | loss 4.1234 | norm 0.512 | lr 6.00e-04 | 123 ms | 45.7k tok/s | MFU 41.2% | ETA 1m36s
 *
 * On a terminal a block of lines is drawn again and again, at most ten times a second, and at once where the window has
 * another size (progress_block.c); in a window too small for it one line, cut to its width by leaving out whole fields,
 * the least important first. Elsewhere (a file, a pipe, a dumb terminal) some steps are a
 * plain line each: ls_progress_cadence() says which. The loss to its last bit is in metrics.jsonl, where every step is.
 * Colours are for terminals only, and not where NO_COLOR is set.
 *
 * Nothing is allocated. Writes only to the stream it was given; an error there is the status of the call. One thread.
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

/* "1m36s", "2d03h"; "?": not known. */
void ls_progress_time_text(double seconds, char text[LS_PROGRESS_TIME_MAX]);
/* "0.52 ms", "12.3 ms", "123 ms"; "45.7k tok/s", or images. */
void ls_progress_ms_text(double ms, char text[LS_PROGRESS_TIME_MAX]);
void ls_progress_speed_text(double per_s, bool is_images, char text[LS_PROGRESS_TIME_MAX]);

/* What becomes of a step that is done. */
typedef enum ls_progress_show {
    LS_PROGRESS_HOLD, /* nothing now; the end of the run shows it if it is the last */
    LS_PROGRESS_DRAW, /* the line of the terminal is redrawn */
    LS_PROGRESS_LINE, /* a line that stays */
} ls_progress_show;

typedef struct ls_progress_moment {
    bool live;         /* a terminal */
    int64_t log_every; /* --log-every; 0: automatic */
    int64_t step, steps;
    int64_t nth;       /* step of this process, from 1: not `step` after --resume */
    uint64_t since_ns; /* since the line that stayed last; on a terminal since any drawing */
} ls_progress_moment;

/* log_every N: every Nth step stays. Automatic: on a terminal none does; elsewhere the first ten of the process, and
 * then the first after five seconds without a line. The last step of the run always stays. */
ls_progress_show ls_progress_cadence(const ls_progress_moment *moment);

/* What the block of a terminal shows beside the last step. */
enum { LS_PROGRESS_POINTS = 64, LS_PROGRESS_BLOCK_LINES = 4, LS_PROGRESS_NOTICE_MAX = 160 };

typedef struct ls_progress_seen {
    /* Means of the loss of `stride` steps each; the last may have fewer. */
    double points[LS_PROGRESS_POINTS];
    int count, in_last;
    int64_t stride;
    /* Evaluations. */
    bool evaluated;
    int64_t val_step, best_step;
    double val_loss, val_accuracy, best_loss; /* accuracy −1: none */
    /* What guards noticed. */
    int64_t notices, skipped, audited;
    char notice[LS_PROGRESS_NOTICE_MAX]; /* the last */
} ls_progress_seen;

/* How to write; ls_progress_init() finds out, a test may set it. */
typedef struct ls_progress {
    FILE *out;
    bool live;  /* drawn again and again */
    bool block; /* as a block, where the window has room */
    bool utf8;  /* bars and curves of characters that are not ASCII */
    bool colours;
    int64_t log_every;
    int columns; /* of the window; 0: asked for at each drawing */
    int rows;    /* likewise, with the columns */
    uint64_t (*now_ns)(void);
    /* private */
    bool drawn, late;  /* a line stands there unended; the last step is not on it yet */
    uint64_t shown_ns; /* when a step was last shown */
    int64_t timed;     /* steps in the average */
    double average_s;
    ls_step last;
    ls_progress_seen seen;
    int widths[LS_PROGRESS_BLOCK_LINES], drawn_lines; /* of what stands there; 0: one line */
} ls_progress;

void ls_progress_init(ls_progress *progress, FILE *out, int64_t log_every);
ls_status ls_progress_step_done(ls_progress *progress, const ls_step *step);
/* Lines of their own, above the one that is drawn: evaluations, samples, checkpoints. `text` has no newline at its end.
 */
ls_status ls_progress_note(ls_progress *progress, const char *text);
/* The same for an evaluation, and for what a guard noticed: the block shows them too. */
ls_status ls_progress_evaluated(ls_progress *progress, const ls_evaluation *evaluation, const char *text);
ls_status ls_progress_noticed(ls_progress *progress, const char *text);
/* Takes away what is drawn, before something else is written to the terminal; the next step draws it again. */
void ls_progress_hide(ls_progress *progress);
/* Shows the last step and leaves the line. May be called again, and before any step. */
ls_status ls_progress_end(ls_progress *progress);

/* The line without colours or newline, cut to `columns` (0: everything). A negative eta_s: not known. Returns its
 * bytes. */
size_t ls_progress_format(const ls_step *step, double eta_s, int columns, char line[LS_PROGRESS_LINE_MAX]);
/* Seconds left, from a moving average of the time of a step; negative before the first. */
double ls_progress_eta(const ls_progress *progress);

/* ---- the block (progress_block.c) -------------------------------------------------------------------------------- */

void ls_progress_seen_step(ls_progress_seen *seen, const ls_step *step);
/* The lines of the block, each at most `columns` wide, without newlines; colours are not counted. */
typedef struct ls_progress_block {
    char line[LS_PROGRESS_BLOCK_LINES][LS_PROGRESS_LINE_MAX];
    int width[LS_PROGRESS_BLOCK_LINES];
} ls_progress_block;
void ls_progress_block_make(const ls_progress *progress, int columns, ls_progress_block *out);
/* Rows that lines of these widths take in a window of so many columns, which has wrapped them. */
int ls_progress_block_rows(const int *widths, int lines, int columns);

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* What a run tells of itself at its end, of this process alone: a run that was resumed has earlier steps, which
 * metrics.jsonl holds. The training loop fills it on the first worker. */
typedef struct ls_run_summary {
    int64_t first_step; /* steps that the run had when this process began */
    int64_t steps;      /* made by this process */
    double step_s;      /* seconds in them */
    double wall_s;      /* with evaluations, samples and checkpoints */
    double samples;     /* tokens, or images */
    bool is_images;
} ls_run_summary;

enum { LS_RUN_SUMMARY_LINE_MAX = 256 };

/* "1m36s, 1m30s of it in 300 steps: 45.7k tok/s" */
void ls_run_summary_time_text(const ls_run_summary *summary, char line[LS_RUN_SUMMARY_LINE_MAX]);

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* A text that the model made, set apart from the lines of the log:
 *
 *     --- sample at step 100 ---
 *       | It was the best of
 *       | times
 *
 * Logs are shown on terminals, which a text must not control: it becomes valid UTF-8, with symbols in place of control
 * characters (data/tokenizer/utf8_stream.h). The caller frees *out, a text without a newline at its end. */
ls_status ls_sample_frame(int64_t step, const char *text, size_t bytes, char **out);

/* ---- faster units ------------------------------------------------------------------------------------------------ */

/* Whether a run with the portable matrix unit leaves speed on the table, in one sentence. Only units that were measured
 * to be faster than chain in whole steps are named (docs/log/performance.md, "16 bit"): bfmmla, 2.9 times with GPT-2
 * 124M, and amx, 2.4 times; small models gain less. avx512-bf16 was slower there, and is not. */
enum { LS_UNIT_HINT_MAX = 160 };

/* A run of this policy could be faster on some CPUs. The same in all workers. */
bool ls_unit_hint_is_of_use(const ls_policy *policy);
/* What is to be said of the unit on a GPU, or of hgmma on a CPU; "": nothing. */
void ls_unit_hint_device(const ls_policy *policy, bool is_gpu, char text[LS_UNIT_HINT_MAX]);
/* Which option gives a 16-bit run the same bits on a machine that has another default. `is_named`: the user gave it.
 * "": there is nothing to say, since fp32 has no units. */
void ls_unit_hint_agree(const ls_policy *policy, bool is_named, char text[LS_UNIT_HINT_MAX]);
/* 1 for each unit that this worker has; summed over the workers it is what ls_unit_hint_text() takes. */
void ls_unit_hint_count(int64_t having[LS_UNITS]);
/* Empty where not all workers have a faster unit. */
void ls_unit_hint_text(const int64_t having[LS_UNITS], int workers, char text[LS_UNIT_HINT_MAX]);

#endif
