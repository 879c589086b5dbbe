/* metrics.h: writes the metrics of a run as JSON lines, one object per line, to an append-only file.
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
 * A file that has grown to LS_METRICS_FILE_MAX is set aside when its line ends, as metrics-LASTSTEP.jsonl beside it
 * (the step in twelve digits), and a new one begins, with a line that names it:
 * {"step":N,"continues":"…","saved_step":M}. So `cat metrics*.jsonl` is the whole series, names are its index, and a
 * run that goes on reads no more than one file.
 *
 * "step" is the number of steps done when the line was written, so that a checkpoint of step s belongs to the lines up
 * to s. One thread at a time. All functions but open and cut do nothing for NULL: workers that keep no metrics need no
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

/* Opens the file, creating it if needed. For a resumed run call ls_metrics_cut() first. */
ls_status ls_metrics_open(const char *path, ls_metrics **out);
/* Another size at which files are set aside, for tests. */
void ls_metrics_set_file_max(ls_metrics *metrics, int64_t bytes);
/* Thins the files that were set aside but for the latest `keep`, now and whenever another one is; 0: none. What goes
 * wrong is told in the log, and the file stays whole. */
void ls_metrics_set_keep(ls_metrics *metrics, int64_t keep);
/* Drops a line that was begun but not ended. */
ls_status ls_metrics_close(ls_metrics *metrics);

/* A line: begin, members, end. Keys are plain words. A line that grows too long is reported at its end, and not
 * written. */
void ls_metrics_begin(ls_metrics *metrics);
void ls_metrics_add_i64(ls_metrics *metrics, const char *key, int64_t value);
void ls_metrics_add_f64(ls_metrics *metrics, const char *key, double value);
/* Two members: the number, and under "<key>_hex" its hex float. */
void ls_metrics_add_hex(ls_metrics *metrics, const char *key, double value);
void ls_metrics_add_bool(ls_metrics *metrics, const char *key, bool value);
void ls_metrics_add_text(ls_metrics *metrics, const char *key, const char *text);
void ls_metrics_add_i64_list(ls_metrics *metrics, const char *key, const int *values, int count);
/* Milliseconds, to the microsecond. */
void ls_metrics_add_ms_list(ls_metrics *metrics, const char *key, const double *ms, int count);
/* The numbers of the flags that are set. */
void ls_metrics_add_flags(ls_metrics *metrics, const char *key, const bool *flags, int count);
ls_status ls_metrics_end(ls_metrics *metrics);

/* Whether a line, without its newline, matches its checksum; true for a line without one. */
bool ls_metrics_line_is_intact(const char *line, size_t bytes);

/* Another descriptor of the file, for fsync(2): to be called before a checkpoint is completed, so that no power cut can
 * leave a checkpoint without its lines. The caller closes it; −1: there is none. */
int ls_metrics_share(ls_metrics *metrics);

/* ---- files that were set aside (metrics_files.c) ----------------------------------------------------------------- */

typedef struct ls_metrics_file {
    int64_t last_step; /* no line is of a later one */
    ls_path path;
} ls_metrics_file;

/* Those beside `path`, in the order of their steps. The caller frees *files, which is NULL when there are none. */
ls_status ls_metrics_files(const char *path, ls_metrics_file **files, int *count);
/* Sets the file of this name aside, whose last line is of `last_step`. *out: its new name; "": it stays. */
ls_status ls_metrics_set_aside(const char *path, int64_t last_step, ls_path *out);
/* Every so many steps there is one in a file that was thinned. */
enum { LS_METRICS_THIN_EVERY = 100 };
/* Of the lines of steps, numerics and noise in this file those of every LS_METRICS_THIN_EVERY-th step stay, and those
 * of the last step; all others stay. The file begins with a line {"step":N,"thinned":100} then. Does nothing to a file
 * that has one. The file is replaced whole. */
ls_status ls_metrics_thin(const char *path);
/* Makes the file that contains the end of `step` the current one and removes later files. */
ls_status ls_metrics_go_back(const char *path, int64_t step);

/* ---- files of runs that go on (metrics_cut.c) -------------------------------------------------------------------- */

typedef struct ls_metrics_about {
    int64_t last_step;  /* the highest; 0: none */
    int64_t saved_step; /* of the last line that tells of a checkpoint; −1: none does */
} ls_metrics_about;

/* What the lines of the newest file that can be read tell. A file that is not there tells nothing. */
ls_status ls_metrics_look(const char *path, ls_metrics_about *out);

typedef struct ls_metrics_cut_report {
    int64_t kept;          /* lines */
    int64_t dropped;       /* lines of later steps */
    int64_t damaged;       /* lines that were set aside, the torn last line among them */
    int64_t damaged_bytes; /* of those */
    char aside[PATH_MAX];  /* the file they were written to; "": there were none */
} ls_metrics_cut_report;

/* Brings the file back to where a checkpoint of `last_step` was made: lines whose "step" is greater are dropped, with
 * those without a step that follow them. A last line that only lacks its newline gets it. Lines that are not intact or
 * no JSON objects, and lines of later steps that stand before earlier ones, cannot be right: they go, byte for byte, to
 * a new file beside it, "<path>.damaged-N", and the others stay. A file that is not there is fine. Files that were set
 * aside after that step go, and the report does not count them. `report` may be NULL. */
ls_status ls_metrics_cut(const char *path, int64_t last_step, ls_metrics_cut_report *report);

#endif
