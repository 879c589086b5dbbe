/* metrics.h: writes the metrics of a run as JSON lines, one object per line, to an append-only file of the run
 * folder. The trainer's rank 0 writes it; series.h reads it.
 *
 *     {"step":10,"loss":4.1234,"loss_hex":"0x1.07e5c91d14e3cp+2","lr":0.0006,"norm":"nan","checksum":"…"}
 *
 * 1. A line is written whole by one write(2); if the disk is full, a partial line is truncated again.
 * 2. Numbers read back to the same bits. NaN and infinities are the texts "nan", "inf", "-inf", so every line is JSON.
 * 3. Text that is not UTF-8 is made so, with U+FFFD for each wrong byte.
 * 4. Nothing is allocated for a line.
 * 5. The last member of a line, "checksum", covers all bytes before it, so a line with a flipped bit is recognised even
 *    if it is valid JSON. Older versions wrote no checksum.
 *
 * Rotation (ls_metrics_end() does it): when a file has reached LS_METRICS_FILE_MAX at the end of a line, it is renamed
 * ("set aside") to metrics-LASTSTEP.jsonl (twelve digits), and a new file begins with a line that names it:
 * {"step":N,"continues":"…","saved_step":M}. So `cat metrics*.jsonl` is the whole series, the names are its index, and
 * a run that resumes reads only one file.
 *
 * "step" is the number of steps done when the line was written, so that a checkpoint of step s belongs to the lines up
 * to s. One thread at a time. Functions on an ls_metrics do nothing for NULL, so workers that keep no metrics need no
 * branches. */
#ifndef LS_OBSERVE_METRICS_H
#define LS_OBSERVE_METRICS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/files.h"
#include "base/status.h"

enum { LS_METRICS_LINE_MAX = 64 * 1024, LS_METRICS_FILE_MAX = 4 << 20 }; /* bytes, newline included */

typedef struct ls_metrics ls_metrics;

/* Opens the file to append, creating it if needed; refuses a symbolic link. For a resumed run call ls_metrics_cut()
 * first. The caller closes it with ls_metrics_close(). */
ls_status ls_metrics_open(const char *path, ls_metrics **out);
/* Sets the size at which files are set aside. For tests. */
void ls_metrics_set_file_max(ls_metrics *metrics, int64_t bytes);
/* Thins (ls_metrics_thin()) all files that were set aside except the latest `keep`, now and after each rotation; 0
 * thins none. A failure is logged as a warning, and the file stays whole. */
void ls_metrics_set_keep(ls_metrics *metrics, int64_t keep);
/* Closes the file and frees `metrics`, even if closing fails. A line that was begun but not ended is lost. */
ls_status ls_metrics_close(ls_metrics *metrics);

/* Begins a line; members and ls_metrics_end() follow. Keys are plain words, not escaped. Only ls_metrics_end() writes
 * and reports errors. */
void ls_metrics_begin(ls_metrics *metrics);
/* Adds a whole number. One with the key "step" also sets the step that names the next file set aside. */
void ls_metrics_add_i64(ls_metrics *metrics, const char *key, int64_t value);
/* Adds a number with the digits that read back to the same bits; NaN and infinities as texts. */
void ls_metrics_add_f64(ls_metrics *metrics, const char *key, double value);
/* Adds two members: the number, and under "<key>_hex" its hex float as text. */
void ls_metrics_add_hex(ls_metrics *metrics, const char *key, double value);
/* Adds true or false. */
void ls_metrics_add_bool(ls_metrics *metrics, const char *key, bool value);
/* Adds a text, escaped, with U+FFFD for bytes that are not UTF-8. */
void ls_metrics_add_text(ls_metrics *metrics, const char *key, const char *text);
/* Adds a list of whole numbers. */
void ls_metrics_add_i64_list(ls_metrics *metrics, const char *key, const int *values, int count);
/* Adds a list of times in milliseconds, rounded to the microsecond. */
void ls_metrics_add_ms_list(ls_metrics *metrics, const char *key, const double *ms, int count);
/* Adds a list of the indices of the flags that are set. */
void ls_metrics_add_flags(ls_metrics *metrics, const char *key, const bool *flags, int count);
/* Ends the line and writes it. Refuses a line of more than LS_METRICS_LINE_MAX bytes (LS_ERR_INPUT), and rotates the
 * file if it has become too large. If the rotation fails, so does this call, although the line was written. */
ls_status ls_metrics_end(ls_metrics *metrics);

/* Returns whether a line, given without its newline, matches its checksum; true also for a line without one. */
bool ls_metrics_line_is_intact(const char *line, size_t bytes);

/* Duplicates the descriptor of the file so that another thread can fsync(2) it before it completes a checkpoint: no
 * power cut may leave a checkpoint without its lines. The caller closes it; −1 for NULL or on failure. */
int ls_metrics_share(ls_metrics *metrics);

/* ---- files that were set aside (metrics_files.c) ----------------------------------------------------------------- */

typedef struct ls_metrics_file {
    int64_t last_step; /* no line is of a later one */
    ls_path path;
} ls_metrics_file;

/* Lists the files set aside beside `path`, steps ascending. The caller frees *files; NULL if there are none. */
ls_status ls_metrics_files(const char *path, ls_metrics_file **files, int *count);
/* Renames the file to its name as a file set aside, metrics-LASTSTEP.jsonl, and sets *out to that. *out is "" if the
 * file stays: `last_step` is negative, or the name is taken. */
ls_status ls_metrics_set_aside(const char *path, int64_t last_step, ls_path *out);
enum { LS_METRICS_THIN_EVERY = 100 };
/* Removes the step, numerics and noise lines of the file except those of every LS_METRICS_THIN_EVERY-th step and of the
 * last one; lines of other kinds stay. The file then begins with {"step":N,"thinned":100}, and a file that does is left
 * alone. Replaces the file atomically. */
ls_status ls_metrics_thin(const char *path);
/* Makes the file that contains the end of `step` the current one (named `path`) and removes all later files; does
 * nothing if the current file contains it. */
ls_status ls_metrics_go_back(const char *path, int64_t step);

/* ---- files of runs that resume (metrics_cut.c) ------------------------------------------------------------------- */

typedef struct ls_metrics_about {
    int64_t last_step;  /* the highest; 0: none */
    int64_t saved_step; /* of the last line that records a checkpoint; −1: none does */
} ls_metrics_about;

/* Reads the file `path` for its highest step and last checkpoint, without damaged lines. It need not exist. */
ls_status ls_metrics_look(const char *path, ls_metrics_about *out);

typedef struct ls_metrics_cut_report {
    int64_t kept;          /* lines */
    int64_t dropped;       /* lines of later steps */
    int64_t damaged;       /* lines that were set aside, the torn last line among them */
    int64_t damaged_bytes; /* of those */
    char aside[PATH_MAX];  /* the file they were written to; "": there were none */
} ls_metrics_cut_report;

/* Cuts the metrics back to where a checkpoint of `last_step` was made: drops lines with a greater "step", and lines
 * without a step that follow them, and removes files that were set aside later (not counted in the report). A last line
 * that only lacks its newline gets it. Damaged lines (wrong checksum, not a JSON object, or a later step before an
 * earlier one) are moved byte for byte to a new file, "<path>.damaged-N". An absent file is no error. `report` may be
 * NULL. */
ls_status ls_metrics_cut(const char *path, int64_t last_step, ls_metrics_cut_report *report);

#endif
