/* progress_block.c: draws the block that a terminal shows during training.
 *
 *     step 120/900  ━━━━━━━━╸─────────────────────────────────  13 %  ETA 1m36s
 *     loss 4.1234   ▇▆▅▄▃▃▂▂▁▁   validation 4.2101 (best 4.1950 at step 80)
 *     45.7k tok/s · 123 ms a step · MFU 41.2 % · lr 6.00e-04 · norm 0.512
 *     guards  quiet
 *
 * A line consists of pieces, each with its width and colour. The first piece that does not fit is omitted, and so are
 * the pieces after it, so that a line is never wider than the window and never cut inside a number. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run/progress.h"

enum { BAR_MIN = 8, BAR_MAX = 48, CURVE_MAX = 32, CURVE_MIN = 6, PIECE_MAX = 256 };

#define DIM "\x1b[2m"
#define BOLD "\x1b[1m"
#define RED "\x1b[1;31m"
#define YELLOW "\x1b[33m"
#define CYAN "\x1b[36m"
#define PLAIN "\x1b[0m"

/* ---- history ----------------------------------------------------------------------------------------------------- */

/* Adds a loss to the curve: to the mean of its last point, or as a new one. If the list is full, first merges each two
 * points into their mean. */
static void add_point(ls_progress_seen *s, double loss) {
    if (s->stride == 0) s->stride = 1;
    if (s->count > 0 && s->in_last < s->stride) {
        double *last = &s->points[s->count - 1];
        s->in_last++;
        *last += (loss - *last) / s->in_last;
        return;
    }
    if (s->count == LS_PROGRESS_POINTS) {
        for (int i = 0; i < LS_PROGRESS_POINTS / 2; i++) s->points[i] = (s->points[2 * i] + s->points[2 * i + 1]) / 2;
        s->count = LS_PROGRESS_POINTS / 2;
        s->stride *= 2;
    }
    s->points[s->count++] = loss;
    s->in_last = 1;
}

void ls_progress_seen_step(ls_progress_seen *s, const ls_step *step) {
    if (isfinite(step->loss)) add_point(s, step->loss);
    s->skipped += step->skipped != 0;
    s->audited += step->audited;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* A line under way; `full`: a piece did not fit, so that no other follows. */
typedef struct writer {
    char *line;
    size_t used;
    int width, columns;
    bool colours, full;
} writer;

/* Returns the number of columns of a text: its UTF-8 characters, each of which is one column wide here. */
static int text_columns(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Appends a piece in a colour ("": none), if it fits completely; otherwise the line is full. */
static void put_piece(writer *w, const char *colour, const char *text) {
    int width = text_columns(text);
    size_t bytes = strlen(text) + strlen(colour) + sizeof PLAIN;
    if (w->full || w->width + width > w->columns || w->used + bytes >= LS_PROGRESS_LINE_MAX) {
        w->full = true;
        return;
    }
    bool is_coloured = w->colours && *colour;
    w->used += (size_t)snprintf(w->line + w->used, LS_PROGRESS_LINE_MAX - w->used, "%s%s%s", is_coloured ? colour : "",
                                text, is_coloured ? PLAIN : "");
    w->width += width;
}

/* Appends a formatted piece. */
__attribute__((format(printf, 3, 4))) static void put_printed(writer *w, const char *colour, const char *format, ...) {
    char text[PIECE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    put_piece(w, colour, text);
}

/* Appends `count` times a character, which may have several bytes, as one piece. */
static void put_repeated(writer *w, const char *colour, const char *character, int count) {
    char text[PIECE_MAX] = "";
    size_t used = 0;
    for (int i = 0; i < count && used + strlen(character) < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", character);
    put_piece(w, colour, text);
}

/* ---- the lines of the block -------------------------------------------------------------------------------------- */

/* Appends the progress bar of `width` columns. */
static void put_bar(writer *w, const ls_progress *p, int width) {
    double share = p->last.steps > 0 ? (double)p->last.step / (double)p->last.steps : 0;
    int done = (int)(share * width);
    if (done > width) done = width;
    put_repeated(w, CYAN, p->utf8 ? "━" : "#", done);
    put_repeated(w, DIM, p->utf8 ? "─" : "-", width - done);
}

/* Writes the first line: step, bar, percent and time left. */
static void make_steps(const ls_progress *p, writer *w) {
    const ls_step *s = &p->last;
    char eta[LS_PROGRESS_TIME_MAX] = "", end[PIECE_MAX];
    double eta_s = ls_progress_eta(p);
    if (eta_s >= 0) ls_progress_time_text(eta_s, eta);
    double percent = s->steps > 0 ? floor(100 * (double)s->step / (double)s->steps) : 0;
    snprintf(end, sizeof end, "  %.0f %%%s%s", percent, *eta ? "  ETA " : "", eta);
    put_printed(w, BOLD, "step %" PRId64 "/%" PRId64, s->step, s->steps);
    int room = w->columns - w->width - 2 - text_columns(end);
    if (room >= BAR_MIN) {
        put_piece(w, "", "  ");
        put_bar(w, p, room < BAR_MAX ? room : BAR_MAX);
    }
    put_piece(w, "", end);
}

/* Appends the loss curve in at most `width` columns, scaled from its minimum to its maximum; each column is the mean of
 * its share of the points. */
static void put_curve(writer *w, const ls_progress *p, int width) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
    enum { LEVELS = sizeof blocks / sizeof *blocks };
    const ls_progress_seen *s = &p->seen;
    char text[PIECE_MAX] = "";
    size_t used = 0;
    int columns = s->count < width ? s->count : width;
    double low = HUGE_VAL, high = -HUGE_VAL, values[CURVE_MAX];
    for (int c = 0; c < columns; c++) {
        int from = c * s->count / columns, to = (c + 1) * s->count / columns;
        values[c] = 0;
        for (int i = from; i < to; i++) values[c] += s->points[i] / (to - from);
        if (values[c] < low) low = values[c];
        if (values[c] > high) high = values[c];
    }
    for (int c = 0; c < columns; c++) {
        int level = high > low ? (int)((values[c] - low) / (high - low) * (LEVELS - 1) + 0.5) : 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", (p->utf8 ? blocks : ascii)[level]);
    }
    put_piece(w, CYAN, text);
}

/* Writes the second line: loss, its curve, and the last and best evaluation. */
static void make_loss(const ls_progress *p, writer *w) {
    const ls_step *s = &p->last;
    const ls_progress_seen *seen = &p->seen;
    char validation[PIECE_MAX] = "", best[PIECE_MAX] = "";
    put_piece(w, DIM, "loss ");
    put_printed(w, isfinite(s->loss) ? BOLD : RED, fabs(s->loss) < 1e6 ? "%.4f" : "%.4g",
                isnan(s->loss) ? (double)NAN : s->loss);
    if (seen->evaluated) {
        if (seen->val_accuracy >= 0)
            snprintf(validation, sizeof validation, "   validation %.4f, %.2f %% right", seen->val_loss,
                     100 * seen->val_accuracy);
        else
            snprintf(validation, sizeof validation, "   validation %.4f", seen->val_loss);
        if (seen->best_step != seen->val_step)
            snprintf(best, sizeof best, " (best %.4f at step %" PRId64 ")", seen->best_loss, seen->best_step);
    }
    int room = w->columns - w->width - 3 - text_columns(validation) - text_columns(best);
    if (room > CURVE_MAX) room = CURVE_MAX;
    if (room >= CURVE_MIN && seen->count > 1) {
        put_piece(w, "", "   ");
        put_curve(w, p, room);
    }
    put_piece(w, "", validation);
    put_piece(w, DIM, best);
}

/* Writes the third line: speed, average time of a step, MFU if known, learning rate, norm (red if not finite). */
static void make_speed(const ls_progress *p, writer *w) {
    const ls_step *s = &p->last;
    const char *dot = p->utf8 ? " · " : " | ";
    char speed[LS_PROGRESS_TIME_MAX], ms[LS_PROGRESS_TIME_MAX];
    ls_progress_speed_text(s->seconds > 0 ? s->samples / s->seconds : 0, s->is_images, speed);
    ls_progress_ms_text(1e3 * (p->timed > 0 ? p->average_s : s->seconds), ms);
    put_piece(w, BOLD, speed);
    put_printed(w, "", "%s%s a step", dot, ms);
    if (s->mfu > 0) put_printed(w, "", "%sMFU %.1f %%", dot, 100 * s->mfu);
    put_printed(w, "", "%slr %.2e", dot, s->lr);
    put_piece(w, "", dot);
    put_printed(w, isfinite(s->norm) ? "" : RED, "norm %.4g", isnan(s->norm) ? (double)NAN : s->norm);
}

/* Writes the fourth line: skipped updates, notices and audits, and the last notice, cut to the window. */
static void make_guards(const ls_progress *p, writer *w) {
    const ls_progress_seen *s = &p->seen;
    char text[LS_PROGRESS_NOTICE_MAX];
    put_piece(w, DIM, "guards  ");
    if (s->notices == 0 && s->skipped == 0) put_piece(w, "", "quiet");
    if (s->skipped > 0) put_printed(w, YELLOW, "%" PRId64 " update%s skipped", s->skipped, s->skipped == 1 ? "" : "s");
    if (s->skipped > 0 && s->notices > 0) put_piece(w, "", ", ");
    if (s->notices > 0) put_printed(w, YELLOW, "%" PRId64 " notice%s", s->notices, s->notices == 1 ? "" : "s");
    if (s->audited > 0) put_printed(w, DIM, ", %" PRId64 " audited", s->audited);
    if (!s->notice[0]) return;
    /* Truncates the last piece to the remaining columns. */
    int room = w->columns - w->width - 2, width = 0;
    size_t bytes = 0;
    while (s->notice[bytes] && width < room - 1) {
        do bytes++;
        while (((unsigned char)s->notice[bytes] & 0xC0) == 0x80);
        width++;
    }
    if (room < 12) return;
    snprintf(text, sizeof text, "%.*s", (int)bytes, s->notice);
    put_piece(w, "", ": ");
    put_piece(w, "", text);
}

void ls_progress_block_make(const ls_progress *p, int columns, ls_progress_block *out) {
    static void (*const make[LS_PROGRESS_BLOCK_LINES])(const ls_progress *, writer *) = {make_steps, make_loss,
                                                                                         make_speed, make_guards};
    for (int i = 0; i < LS_PROGRESS_BLOCK_LINES; i++) {
        writer w = {.line = out->line[i], .columns = columns, .colours = p->colours};
        out->line[i][0] = '\0';
        make[i](p, &w);
        out->width[i] = w.width;
    }
}

int ls_progress_block_rows(const int *widths, int lines, int columns) {
    int rows = 0;
    for (int i = 0; i < lines; i++)
        rows += widths[i] > columns && columns > 0 ? (widths[i] + columns - 1) / columns : 1;
    return rows;
}
