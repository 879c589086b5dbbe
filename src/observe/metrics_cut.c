/* metrics_cut.c: the metrics of a run that goes on, cut back to its checkpoint.
 *
 * The file is read once to find where the history of the checkpoint ends: behind the last line of its step or an
 * earlier one. Up to there a line that is damaged, or of a later step, is out of place.
 *
 *     step 1 · step 2 · rubbish · step 3 · step 4 · step 5 · torn        last_step 3
 *     └──── kept ────┘  aside     kept  │  dropped            aside
 *                                       end of the history
 *
 * An event is recorded during its step, which may never have been completed, so lines of the step before may follow it:
 * the event is dropped then and is not damage.
 *
 * Without damage before the end the file is only shortened. Otherwise its sound lines are written to a new file, which
 * then takes its name: a crash at any moment leaves the old file or the new. Damaged lines are on disk in their own
 * file before anything else changes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "observe/metrics.h"

enum { ASIDE_MAX = 10000, SHOWN = 200 };

/* ---- lines ------------------------------------------------------------------------------------------------------- */

typedef struct line {
    char *text; /* LS_METRICS_LINE_MAX bytes */
    size_t bytes;
    bool ended; /* by a newline */
    off_t at;   /* where it begins */
} line;

/* KEPT: step <= last_step. LATER: a later step. EVENT: an event of step last_step + 1. LOOSE: an object without a
 * step. */
typedef enum line_kind { LINE_KEPT, LINE_LATER, LINE_EVENT, LINE_LOOSE, LINE_DAMAGED } line_kind;

/* Sets about->saved_step if the line records a checkpoint, or if it begins a file and names the last one of the file
 * before. The checkpoint's step is that of the line unless "saved_step" says otherwise. */
static void note_saved(const json_t *object, int64_t step, ls_metrics_about *about) {
    const json_t *saved_step = json_object_get(object, "saved_step");
    if (json_is_true(json_object_get(object, "saved")))
        about->saved_step = json_is_integer(saved_step) ? (int64_t)json_integer_value(saved_step) : step;
    if (json_object_get(object, "continues") && json_is_integer(saved_step))
        about->saved_step = (int64_t)json_integer_value(saved_step);
}

/* Returns the kind of a line (see line_kind), compared with `last_step`. Updates *about, its highest step and last
 * checkpoint, unless it is NULL. */
static line_kind judge_line(const line *l, int64_t last_step, ls_metrics_about *about) {
    json_error_t error;
    if (!ls_metrics_line_is_intact(l->text, l->bytes)) return LINE_DAMAGED;
    json_t *object = json_loadb(l->text, l->bytes, JSON_REJECT_DUPLICATES, &error);
    line_kind kind = LINE_DAMAGED;
    if (json_is_object(object)) {
        const json_t *member = json_object_get(object, "step");
        int64_t step = json_is_integer(member) ? (int64_t)json_integer_value(member) : -1;
        kind = step < 0 ? LINE_LOOSE : step > last_step ? LINE_LATER : LINE_KEPT;
        if (kind == LINE_LATER && step == last_step + 1 && json_object_get(object, "event")) kind = LINE_EVENT;
        if (about && step > about->last_step) about->last_step = step;
        if (about && step >= 0) note_saved(object, step, about);
    }
    json_decref(object);
    return kind;
}

/* Reads the next line without its newline; returns false at the end of the file. A line longer than
 * LS_METRICS_LINE_MAX comes in pieces, which count as damaged. */
static bool next_line(FILE *file, line *l) {
    l->at += (off_t)l->bytes + l->ended;
    l->bytes = 0;
    l->ended = false;
    for (int c; l->bytes < LS_METRICS_LINE_MAX && (c = getc_unlocked(file)) != EOF;) {
        l->ended = c == '\n';
        if (l->ended) return true;
        l->text[l->bytes++] = (char)c;
    }
    return l->bytes > 0;
}

typedef struct cutter {
    const char *path;
    FILE *file;
    line line;
    int64_t last_step;
    off_t end;          /* of the history, without a newline that is still to come */
    bool lacks_newline; /* the last line of the history */
    bool is_spoiled;    /* a line in the history is out of place */
    FILE *sound, *aside;
    char sound_path[PATH_MAX];
    ls_metrics_cut_report report;
} cutter;

/* Opens the metrics as c->file and allocates the line buffer. Leaves c->file NULL, and returns LS_OK, if there is no
 * file. Follows no links, because the folder may belong to another user, and refuses what is not a regular file. */
static ls_status open_file(cutter *c, int mode) {
    struct stat about;
    int fd = open(c->path, mode | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return LS_OK;
    if (fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open the metrics %s", c->path);
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        (void)close(fd);
        return ls_fail(LS_ERR_INPUT, "the metrics %s are not a regular file", c->path);
    }
    c->file = fdopen(fd, mode == O_RDONLY ? "r" : "r+");
    c->line.text = malloc(LS_METRICS_LINE_MAX);
    if (!c->file) (void)close(fd);
    return c->file && c->line.text ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", c->path);
}

/* Closes all files, removes the new file if it was not renamed, and frees the line buffer. */
static void close_files(cutter *c) {
    FILE *const files[] = {c->file, c->sound, c->aside};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i]) (void)fclose(files[i]); /* what was written was forced to disk before */
    if (c->sound_path[0]) (void)unlink(c->sound_path);
    free(c->line.text);
}

/* ---- where the history ends -------------------------------------------------------------------------------------- */

/* Returns the kind of the line before for a line without a step (LOOSE), which is kept or dropped with it. */
static line_kind settle_line_kind(line_kind kind, line_kind before) { return kind == LINE_LOOSE ? before : kind; }

/* Reads all lines: sets the end of the history (the offset where the file is to be cut) and counts lines for the
 * report. `about` may be NULL. */
static ls_status find_history_end(cutter *c, ls_metrics_about *about) {
    int64_t later = 0, damaged = 0, events = 0;
    line_kind last = LINE_KEPT;
    while (next_line(c->file, &c->line)) {
        line_kind kind = settle_line_kind(judge_line(&c->line, c->last_step, about), last);
        later += kind == LINE_LATER;
        events += kind == LINE_EVENT;
        damaged += kind == LINE_DAMAGED;
        c->report.damaged += kind == LINE_DAMAGED;
        if (kind != LINE_DAMAGED) last = kind;
        if (kind != LINE_KEPT) continue;
        /* Lines of later steps before this one are out of place as well. */
        c->is_spoiled = c->is_spoiled || later + damaged + events > 0;
        c->report.damaged += later;
        later = damaged = events = 0;
        c->report.kept++;
        c->end = c->line.at + (off_t)c->line.bytes + c->line.ended;
        c->lacks_newline = !c->line.ended;
    }
    c->report.dropped = later + events;
    return ferror(c->file) ? ls_fail_errno(LS_ERR_FAILED, "cannot read %s", c->path) : LS_OK;
}

ls_status ls_metrics_look(const char *path, ls_metrics_about *out) {
    cutter c = {.path = path, .last_step = INT64_MAX};
    *out = (ls_metrics_about){.saved_step = -1};
    ls_status status = open_file(&c, O_RDONLY);
    if (status == LS_OK && c.file) status = find_history_end(&c, out);
    close_files(&c);
    return status;
}

/* ---- setting aside ----------------------------------------------------------------------------------------------- */

/* Creates the file for damaged lines, PATH.damaged-N with the first free N, as c->aside. */
static ls_status open_aside(cutter *c) {
    int fd = -1;
    for (int n = 1; fd < 0 && n < ASIDE_MAX; n++) {
        if (snprintf(c->report.aside, sizeof c->report.aside, "%s.damaged-%d", c->path, n) >= PATH_MAX) break;
        fd = open(c->report.aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    c->aside = fd >= 0 ? fdopen(fd, "w") : NULL;
    return c->aside ? LS_OK
                    : ls_fail_errno(LS_ERR_FAILED, "cannot move damaged lines of %.*s to another file", SHOWN, c->path);
}

/* Creates the temporary file for the lines that stay, as c->sound; none if the file only needs to be shortened. */
static ls_status open_sound(cutter *c) {
    if (!c->is_spoiled) return LS_OK;
    if (snprintf(c->sound_path, sizeof c->sound_path, "%s.tmp-%ld", c->path, (long)getpid()) >= PATH_MAX)
        return ls_fail(LS_ERR_INPUT, "the path %.*s… is too long", SHOWN, c->path);
    int fd = open(c->sound_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    c->sound = fd >= 0 ? fdopen(fd, "w") : NULL;
    return c->sound ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot write %.*s again", SHOWN, c->path);
}

/* Copies a line to `out`. Errors show in force_to_disk(). */
static void put_line(const line *l, bool with_newline, FILE *out) {
    (void)fwrite(l->text, 1, l->bytes, out);
    if (with_newline) (void)fputc('\n', out);
}

/* Flushes and syncs the file, if it is open; fails also if an earlier write to it failed. */
static ls_status force_to_disk(const cutter *c, FILE *file) {
    if (!file || (fflush(file) == 0 && !ferror(file) && (fsync(fileno(file)) == 0 || errno == EINVAL))) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot move damaged lines of %.*s to another file", SHOWN, c->path);
}

/* Reads the file again, copies damaged lines to c->aside and lines that stay to c->sound (if open), and syncs both to
 * disk. */
static ls_status sort_lines(cutter *c) {
    line_kind last = LINE_KEPT;
    rewind(c->file);
    c->line = (line){.text = c->line.text};
    while (next_line(c->file, &c->line)) {
        bool in_history = c->line.at < c->end;
        line_kind kind = settle_line_kind(judge_line(&c->line, c->last_step, NULL), last);
        if (kind != LINE_DAMAGED) last = kind;
        if (kind == LINE_DAMAGED || (kind == LINE_LATER && in_history)) {
            c->report.damaged_bytes += (off_t)c->line.bytes + c->line.ended;
            put_line(&c->line, c->line.ended, c->aside);
        } else if (kind == LINE_KEPT && c->sound) {
            put_line(&c->line, true, c->sound);
        }
    }
    if (ferror(c->file)) return ls_fail_errno(LS_ERR_FAILED, "cannot read %s", c->path);
    LS_TRY(force_to_disk(c, c->aside));
    return force_to_disk(c, c->sound);
}

/* Saves the damaged lines in a file of their own and, if lines within the history are out of place, writes the lines
 * that stay to a temporary file, which replace() puts in place. On failure removes the file of damaged lines. */
static ls_status rewrite_without_damage(cutter *c) {
    if (c->report.damaged > 0) LS_TRY(open_aside(c));
    ls_status status = open_sound(c);
    if (status == LS_OK) status = sort_lines(c);
    if (status != LS_OK && c->report.damaged > 0) (void)unlink(c->report.aside);
    return status;
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

/* Truncates the file at the end of the history, and adds the newline that its last line may lack. */
static ls_status shorten(const cutter *c) {
    int fd = fileno(c->file);
    if (ftruncate(fd, c->end) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot shorten %s", c->path);
    if (!c->lacks_newline) return LS_OK;
    if (pwrite(fd, "\n", 1, c->end) == 1) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot end the last line of %s", c->path);
}

/* Renames the temporary file to the name of the metrics. */
static ls_status replace(cutter *c) {
    if (rename(c->sound_path, c->path) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot put the new %.*s in place", SHOWN, c->path);
    c->sound_path[0] = '\0';
    return LS_OK;
}

ls_status ls_metrics_cut(const char *path, int64_t last_step, ls_metrics_cut_report *report) {
    cutter c = {.path = path, .last_step = last_step};
    ls_status status = LS_OK;
    if (report) *report = (ls_metrics_cut_report){0};
    LS_TRY_OUT(ls_metrics_go_back(path, last_step));
    LS_TRY_OUT(open_file(&c, O_RDWR));
    if (!c.file) goto out;
    LS_TRY_OUT(find_history_end(&c, NULL));
    if (c.report.damaged > 0 || c.is_spoiled) LS_TRY_OUT(rewrite_without_damage(&c));
    LS_TRY_OUT(c.is_spoiled ? replace(&c) : shorten(&c));
    if (report) *report = c.report;
out:
    close_files(&c);
    return status;
}
