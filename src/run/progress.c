/* progress.c: formats the line of a step, decides which of its fields fit, and draws it on a terminal.
 *
 * Fields stand in a fixed order. Each has a rank: when a line is wider than the window, the field of the highest rank
 * is left out, again and again, until the rest fits. All text is ASCII, so bytes are columns. */
#include "run/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/launch/launcher.h"
#include "data/tokenizer/utf8_stream.h"

enum { TEXT_MAX = LS_PROGRESS_TIME_MAX, COLUMNS_UNKNOWN = 80, REDRAW_NS = 100000000, FIRST_STEPS = 10 };
enum { BLOCK_COLUMNS_MIN = 40, BLOCK_ROWS_MIN = LS_PROGRESS_BLOCK_LINES + 4, ROWS_UNKNOWN = 24 };

/* Between lines of a file or pipe, unless --log-every says otherwise. */
static const uint64_t line_ns = 5000000000;

/* The weight of the newest step in the average once there are enough. */
static const double newest_weight = 0.05;

#define SEPARATOR " | "
#define TO_LINE_START "\r\x1b[K"

typedef enum field_id {
    FIELD_STEP,
    FIELD_LOSS,
    FIELD_NORM,
    FIELD_LR,
    FIELD_TIME,
    FIELD_SPEED,
    FIELD_MFU,
    FIELD_AUDIT,
    FIELD_ETA,
    FIELDS
} field_id;

/* The higher, the sooner left out; 0: never. */
static const int field_rank[FIELDS] = {
    [FIELD_STEP] = 0,  [FIELD_LOSS] = 0, [FIELD_NORM] = 5, [FIELD_LR] = 4,    [FIELD_TIME] = 3,
    [FIELD_SPEED] = 2, [FIELD_MFU] = 6,  [FIELD_ETA] = 1,  [FIELD_AUDIT] = 6,
};

typedef struct fields {
    char text[FIELDS][TEXT_MAX]; /* empty: left out */
} fields;

/* ---- text -------------------------------------------------------------------------------------------------------- */

void ls_progress_time_text(double seconds, char text[TEXT_MAX]) {
    if (!(seconds < 1e9)) { /* NaN, too */
        snprintf(text, TEXT_MAX, "?");
        return;
    }
    int64_t s = llrint(seconds);
    if (s < 60)
        snprintf(text, TEXT_MAX, "%" PRId64 "s", s);
    else if (s < 3600)
        snprintf(text, TEXT_MAX, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, TEXT_MAX, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    else
        snprintf(text, TEXT_MAX, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
}

void ls_progress_ms_text(double ms, char text[TEXT_MAX]) {
    snprintf(text, TEXT_MAX, "%.*f ms", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

void ls_progress_speed_text(double per_s, bool is_images, char text[TEXT_MAX]) {
    const char *unit = is_images ? "img" : "tok";
    if (per_s < 1e4)
        snprintf(text, TEXT_MAX, "%.0f %s/s", per_s, unit);
    else if (per_s < 1e6)
        snprintf(text, TEXT_MAX, "%.1fk %s/s", per_s / 1e3, unit);
    else
        snprintf(text, TEXT_MAX, "%.2fM %s/s", per_s / 1e6, unit);
}

/* Returns the number of decimal digits. */
static int digits_of(int64_t n) {
    char text[TEXT_MAX];
    return snprintf(text, sizeof text, "%" PRId64, n);
}

/* Returns x; a NaN always as the same NaN, because its sign, which would be printed, differs between machines. */
static double one_nan(double x) { return isnan(x) ? (double)NAN : x; }

/* Fills the text of each field; those without a value stay empty. A negative eta_s has none. */
static void format_fields(fields *f, const ls_step *s, double eta_s) {
    char eta[TEXT_MAX];
    *f = (fields){0};
    snprintf(f->text[FIELD_STEP], TEXT_MAX, "step %*" PRId64 "/%" PRId64, digits_of(s->steps), s->step, s->steps);
    snprintf(f->text[FIELD_LOSS], TEXT_MAX, fabs(s->loss) < 1e6 ? "loss %.4f" : "loss %.4g", one_nan(s->loss));
    snprintf(f->text[FIELD_NORM], TEXT_MAX, "norm %.4g", one_nan(s->norm));
    snprintf(f->text[FIELD_LR], TEXT_MAX, "lr %.2e", s->lr);
    ls_progress_ms_text(s->seconds * 1e3, f->text[FIELD_TIME]);
    if (s->seconds > 0) ls_progress_speed_text(s->samples / s->seconds, s->is_images, f->text[FIELD_SPEED]);
    if (s->mfu > 0) snprintf(f->text[FIELD_MFU], TEXT_MAX, "MFU %.1f%%", s->mfu * 100);
    if (s->audited > 0) snprintf(f->text[FIELD_AUDIT], TEXT_MAX, "%d audited", s->audited);
    if (eta_s < 0) return;
    ls_progress_time_text(eta_s, eta);
    snprintf(f->text[FIELD_ETA], TEXT_MAX, "ETA %.*s", TEXT_MAX - 8, eta);
}

/* Returns the columns of the fields with their separators. */
static size_t fields_width(const fields *f) {
    size_t width = 0;
    for (int i = 0; i < FIELDS; i++) {
        if (!f->text[i][0]) continue;
        width += strlen(f->text[i]) + (i == 0 ? 0 : strlen(SEPARATOR));
    }
    return width;
}

/* Leaves fields out, the least important first, until the rest fits into `columns` (0: no limit), or only those of rank
 * 0 are left. */
static void fit(fields *f, int columns) {
    while (columns > 0 && fields_width(f) > (size_t)columns) {
        int worst = 0;
        for (int i = 0; i < FIELDS; i++)
            if (f->text[i][0] && field_rank[i] > field_rank[worst]) worst = i;
        if (field_rank[worst] == 0) return;
        f->text[worst][0] = '\0';
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Returns the escape sequence that begins the field: bold for the loss, red if a number is not finite, else "". */
static const char *colour_of(field_id id, const ls_step *s) {
    if (id == FIELD_LOSS) return isfinite(s->loss) ? "\x1b[1m" : "\x1b[1;31m";
    if (id == FIELD_NORM) return isfinite(s->norm) ? "" : "\x1b[1;31m";
    return "";
}

/* Appends a text, cut where the line is full. */
static void append(char line[LS_PROGRESS_LINE_MAX], const char *text) {
    size_t used = strlen(line);
    snprintf(line + used, LS_PROGRESS_LINE_MAX - used, "%s", text);
}

/* Joins the fields to a line. */
static void join_fields(const fields *f, const ls_step *s, bool colours, char line[LS_PROGRESS_LINE_MAX]) {
    line[0] = '\0';
    for (int i = 0; i < FIELDS; i++) {
        if (!f->text[i][0]) continue;
        const char *colour = colours ? colour_of((field_id)i, s) : "";
        if (i != 0) append(line, SEPARATOR);
        append(line, colour);
        append(line, f->text[i]);
        if (*colour) append(line, "\x1b[0m");
    }
}

size_t ls_progress_format(const ls_step *step, double eta_s, int columns, char line[LS_PROGRESS_LINE_MAX]) {
    fields f;
    format_fields(&f, step, eta_s);
    fit(&f, columns);
    join_fields(&f, step, false, line);
    if (columns > 0 && strlen(line) > (size_t)columns) line[columns] = '\0';
    return strlen(line);
}

/* ---- cadence ----------------------------------------------------------------------------------------------------- */

ls_progress_show ls_progress_cadence(const ls_progress_moment *m) {
    bool last = m->step == m->steps;
    if (m->log_every > 0 && m->step % m->log_every == 0) return LS_PROGRESS_LINE;
    if (m->live) return last || m->nth == 1 || m->since_ns >= REDRAW_NS ? LS_PROGRESS_DRAW : LS_PROGRESS_HOLD;
    if (last) return LS_PROGRESS_LINE;
    if (m->log_every > 0) return LS_PROGRESS_HOLD;
    return m->nth <= FIRST_STEPS || m->since_ns >= line_ns ? LS_PROGRESS_LINE : LS_PROGRESS_HOLD;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* Returns whether the environment variable exists and is not empty. */
static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value;
}

/* Returns whether the locale, by the first variable that is set, uses UTF-8. */
static bool is_utf8(void) {
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!is_set(variables[i])) continue;
        const char *value = getenv(variables[i]);
        return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static volatile sig_atomic_t window_changed;

/* Signal handler of SIGWINCH: notes that the window has changed. */
static void note_window(int signal_number) {
    (void)signal_number;
    window_changed = 1;
}

void ls_progress_init(ls_progress *p, FILE *out, int64_t log_every) {
    const char *term = getenv("TERM");
    int fd = fileno(out);
    *p = (ls_progress){.out = out, .now_ns = ls_clock_ns, .log_every = log_every};
    /* Open MPI's launcher gives workers a terminal of its own, whatever it writes to itself. */
    bool is_ours = ls_launcher_place().size == 0;
    p->live = is_ours && fd >= 0 && isatty(fd) && !(term && strcmp(term, "dumb") == 0);
    p->block = p->live;
    p->utf8 = is_utf8();
    p->colours = p->live && !is_set("NO_COLOR");
    if (!p->live) return;
    struct sigaction action = {.sa_handler = note_window, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGWINCH, &action, NULL); /* without it the next drawing notices */
}

/* Gets the size of the window: that of the struct, which tests set, else the terminal's, else 80 by 24. */
static void window_of(const ls_progress *p, int *columns, int *rows) {
    struct winsize window = {0};
    int fd = fileno(p->out);
    *columns = p->columns;
    *rows = p->rows > 0 ? p->rows : ROWS_UNKNOWN;
    if (p->columns > 0) return;
    bool known = fd >= 0 && ioctl(fd, TIOCGWINSZ, &window) == 0;
    *columns = known && window.ws_col > 0 ? window.ws_col : COLUMNS_UNKNOWN;
    *rows = known && window.ws_row > 0 ? window.ws_row : ROWS_UNKNOWN;
}

/* Returns the columns of the window. */
static int columns_of(const ls_progress *p) {
    int columns, rows;
    window_of(p, &columns, &rows);
    return columns;
}

/* Flushes the output and returns LS_OK, because a run must not end when its pipe is closed or the log's disk is full.
 * The stream keeps the error, which the program reports when it ends. */
static ls_status flush(const ls_progress *p) {
    (void)fflush(p->out);
    return LS_OK;
}

/* Draws the line of the last step over the one before, with as many fields as fit. Leaves the last column free, because
 * some terminals wrap after it. */
static void put_live_line(const ls_progress *p) {
    char line[LS_PROGRESS_LINE_MAX];
    fields f;
    int columns = columns_of(p) > 1 ? columns_of(p) - 1 : 1;
    format_fields(&f, &p->last, ls_progress_eta(p));
    fit(&f, columns);
    join_fields(&f, &p->last, p->colours, line);
    /* What is never left out may still be too wide. */
    if (fields_width(&f) > (size_t)columns) (void)ls_progress_format(&p->last, -1, columns, line);
    fprintf(p->out, TO_LINE_START "%s", line);
}

/* Writes the last step as a line without colours and newline, whatever its width. */
static void put_plain_line(const ls_progress *p) {
    char line[LS_PROGRESS_LINE_MAX];
    (void)ls_progress_format(&p->last, ls_progress_eta(p), 0, line);
    fputs(line, p->out);
}

/* Erases what is drawn: moves the cursor to the begin of its first row, wherever a window that was made narrower has
 * put that. The cursor is below the block, so that output of other processes begins a line. */
static void erase(ls_progress *p) {
    if (!p->drawn) return;
    if (p->drawn_lines == 0) {
        fputs(TO_LINE_START, p->out);
    } else {
        int rows = ls_progress_block_rows(p->widths, p->drawn_lines, columns_of(p));
        fprintf(p->out, "\r\x1b[%dA\x1b[J", rows);
    }
    p->drawn = false;
    p->drawn_lines = 0;
}

/* Draws the block with the cursor below it; returns false, without drawing, if the window is too small. */
static bool put_block(ls_progress *p) {
    ls_progress_block block;
    int columns, rows;
    window_of(p, &columns, &rows);
    if (!p->block || columns < BLOCK_COLUMNS_MIN || rows < BLOCK_ROWS_MIN) return false;
    ls_progress_block_make(p, columns - 1, &block);
    for (int i = 0; i < LS_PROGRESS_BLOCK_LINES; i++) {
        fprintf(p->out, "%s\r\n", block.line[i]);
        p->widths[i] = block.width[i];
    }
    p->drawn_lines = LS_PROGRESS_BLOCK_LINES;
    return true;
}

/* Draws the last step. If `stays` is true, it becomes a line that later output does not overwrite. */
static ls_status show(ls_progress *p, bool stays) {
    if (p->drawn_lines > 0) erase(p);
    window_changed = 0;
    if (!p->live)
        put_plain_line(p);
    else if (stays || !put_block(p))
        put_live_line(p);
    if (stays) fputc('\n', p->out);
    p->drawn = !stays;
    p->late = false;
    p->shown_ns = p->now_ns();
    return flush(p);
}

/* Adds a step's time to the moving average, in which the newest step has a weight of at least 5 %. */
static void average(ls_progress *p, double seconds) {
    p->timed++;
    double weight = 1.0 / (double)p->timed;
    p->average_s += (seconds - p->average_s) * (weight > newest_weight ? weight : newest_weight);
}

double ls_progress_eta(const ls_progress *p) {
    if (p->timed == 0 || p->last.step > p->last.steps) return -1;
    return p->average_s * (double)(p->last.steps - p->last.step);
}

ls_status ls_progress_step_done(ls_progress *p, const ls_step *step) {
    p->last = *step;
    average(p, step->seconds);
    ls_progress_seen_step(&p->seen, step);
    ls_progress_moment moment = {.live = p->live,
                                 .log_every = p->log_every,
                                 .step = step->step,
                                 .steps = step->steps,
                                 .nth = p->timed,
                                 .since_ns = p->now_ns() - p->shown_ns};
    ls_progress_show how = ls_progress_cadence(&moment);
    if (how == LS_PROGRESS_HOLD && p->live && window_changed) how = LS_PROGRESS_DRAW;
    p->late = how == LS_PROGRESS_HOLD;
    return p->late ? LS_OK : show(p, how == LS_PROGRESS_LINE);
}

ls_status ls_progress_note(ls_progress *p, const char *text) {
    bool drawn = p->drawn;
    erase(p);
    fprintf(p->out, "%s\n", text);
    return drawn ? show(p, false) : flush(p);
}

void ls_progress_hide(ls_progress *p) {
    erase(p);
    (void)flush(p);
}

ls_status ls_progress_evaluated(ls_progress *p, const ls_evaluation *evaluation, const char *text) {
    ls_progress_seen *s = &p->seen;
    if (evaluation && isfinite(evaluation->loss)) {
        s->val_step = p->last.step;
        s->val_loss = evaluation->loss;
        s->val_accuracy = evaluation->accuracy;
        if (!s->evaluated || evaluation->loss < s->best_loss) {
            s->best_loss = evaluation->loss;
            s->best_step = p->last.step;
        }
        s->evaluated = true;
    }
    return ls_progress_note(p, text);
}

ls_status ls_progress_noticed(ls_progress *p, const char *text) {
    p->seen.notices++;
    snprintf(p->seen.notice, sizeof p->seen.notice, "%.*s", (int)strcspn(text, "\n"), text);
    return ls_progress_note(p, text);
}

ls_status ls_progress_end(ls_progress *p) {
    if (p->late || (p->drawn && p->drawn_lines > 0)) return show(p, true);
    if (!p->drawn) return LS_OK;
    p->drawn = false;
    fputc('\n', p->out);
    return flush(p);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Formats a duration: "41.9 s" below a minute, else "1m36s". */
static void duration_text(double seconds, char text[TEXT_MAX]) {
    if (seconds < 59.95)
        snprintf(text, TEXT_MAX, "%.1f s", seconds);
    else
        ls_progress_time_text(seconds, text);
}

void ls_run_summary_time_text(const ls_run_summary *s, char line[LS_RUN_SUMMARY_LINE_MAX]) {
    char wall[TEXT_MAX], steps[TEXT_MAX], speed[TEXT_MAX] = "";
    duration_text(s->wall_s, wall);
    duration_text(s->step_s, steps);
    if (s->step_s > 0) ls_progress_speed_text(s->samples / s->step_s, s->is_images, speed);
    if (s->steps == 0)
        snprintf(line, LS_RUN_SUMMARY_LINE_MAX, "no steps; %s in total", wall);
    else
        snprintf(line, LS_RUN_SUMMARY_LINE_MAX, "%" PRId64 " step%s in %s%s%s%s; %s in total", s->steps,
                 s->steps == 1 ? "" : "s", steps, *speed ? " (" : "", speed, *speed ? ")" : "", wall);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static const char margin[] = "  | ";

ls_status ls_sample_frame(int64_t step, const char *text, size_t bytes, char **out) {
    enum { HEADING_MAX = 64 };
    ls_utf8_stream stream = {.for_terminal = true};
    size_t lines = 1, used, shown_bytes;
    while (bytes > 0 && text[bytes - 1] == '\n') bytes--;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    char *shown = malloc(ls_utf8_stream_room(bytes)),
         *framed = *out = malloc(HEADING_MAX + lines * sizeof margin + ls_utf8_stream_room(bytes) + 1);
    if (!shown || !framed) {
        free(shown);
        free(framed);
        *out = NULL;
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %zu bytes", bytes);
    }
    shown_bytes = ls_utf8_stream_add(&stream, text, bytes, shown);
    shown_bytes += ls_utf8_stream_end(&stream, shown + shown_bytes);
    used = (size_t)snprintf(framed, HEADING_MAX, "--- sample at step %" PRId64 " ---\n%s", step, margin);
    for (size_t i = 0; i < shown_bytes; i++) {
        framed[used++] = shown[i];
        if (shown[i] != '\n') continue;
        memcpy(framed + used, margin, sizeof margin - 1);
        used += sizeof margin - 1;
    }
    framed[used] = '\0';
    free(shown);
    return LS_OK;
}

/* ---- faster units ------------------------------------------------------------------------------------------------ */

/* The fastest first. */
static const ls_unit faster[] = {LS_UNIT_AMX, LS_UNIT_BFMMLA};

bool ls_unit_hint_is_of_use(const ls_policy *policy) { return policy->act == LS_BF16 && policy->unit == LS_UNIT_CHAIN; }

void ls_unit_hint_device(const ls_policy *policy, bool is_gpu, char text[LS_UNIT_HINT_MAX]) {
    const char *hint = "";
    if (ls_policy_is_16(policy) && ls_unit_is_tensor_core(policy->unit))
        hint = is_gpu
                   ? ": the GPU's tensor cores; --matrix-unit chain gives the same bits as every CPU, but is much "
                     "slower"
                   : " on a CPU: emulates the tensor cores of a GPU bit by bit, slowly, to check a run made on a GPU";
    else if (ls_policy_is_16(policy) && is_gpu)
        hint = ": does not use tensor cores, so it is no faster than fp32";
    text[0] = '\0';
    if (*hint) snprintf(text, LS_UNIT_HINT_MAX, "matrix unit %s%s", ls_unit_name(policy->unit), hint);
}

void ls_unit_hint_agree(const ls_policy *policy, bool is_named, char text[LS_UNIT_HINT_MAX]) {
    text[0] = '\0';
    if (is_named || !ls_policy_is_16(policy)) return;
    snprintf(text, LS_UNIT_HINT_MAX,
             "to get the same bits on another machine, use --matrix-unit %s there: CPUs default to chain, Hopper GPUs "
             "to hgmma",
             ls_unit_name(policy->unit));
}

void ls_unit_hint_count(int64_t having[LS_UNITS]) {
    for (int u = 0; u < LS_UNITS; u++) having[u] = ls_unit_is_fast_here((ls_unit)u);
}

void ls_unit_hint_text(const int64_t having[LS_UNITS], int workers, char text[LS_UNIT_HINT_MAX]) {
    text[0] = '\0';
    for (size_t i = 0; i < sizeof faster / sizeof *faster; i++) {
        if (having[faster[i]] < workers) continue;
        snprintf(text, LS_UNIT_HINT_MAX,
                 "matrix unit chain: same bits on every CPU; --matrix-unit %s is about twice as fast here and changes "
                 "the result",
                 ls_unit_name(faster[i]));
        return;
    }
}
