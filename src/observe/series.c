/* series.c: reads the files of a series once, and then what is appended to them.
 *
 * A file is identified by its inode; the source remembers how far it was read, and the last bytes before that place.
 * While those bytes are unchanged, what follows them is new. If they changed, the run was cut back: the log returns to
 * its mark at the beginning of that file, which is read again (some 4 MiB). A file that is set aside keeps its inode,
 * so it is recognised under its new name. A cut that leaves those bytes unchanged dropped nothing that had been
 * read. */
#include "observe/series.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "observe/metrics.h"

enum {
    PIECE = 1 << 20,
    TAIL_MAX = 128,
    END_BYTES = 64 << 10,
    PARENTS_MAX = 64,
    PARENT_BYTES_MAX = 1 << 20,
    SHOWN = 160
};
static const off_t METRICS_BYTES_MAX = (off_t)4 << 30;

typedef struct source {
    dev_t dev;
    ino_t ino;
    off_t offset;         /* behind the last line that was read */
    bool is_long;         /* inside a line that is too long to be one */
    size_t rest_bytes;    /* of a last line without its newline that was accepted as it is */
    ls_run_log_mark mark; /* the log before this file */
    char tail[TAIL_MAX];  /* before `offset` */
    size_t tail_bytes;
} source;

struct ls_series {
    ls_path folder, metrics;
    ls_series_flags flags;
    ls_run_log log;
    source *sources; /* in their order; the last one grows */
    size_t count;
    char *piece;
};

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* Counts a line that is too long to be read as damaged. */
static ls_status add_too_long(ls_run_log *log) {
    log->lines++;
    log->damaged_lines++;
    return LS_OK;
}

/* Adds the lines in the first `bytes` of the piece, and moves those behind the last newline, *rest, to its front. */
static ls_status add_lines(ls_series *s, source *from, size_t bytes, size_t *rest) {
    const char *p = s->piece, *end = p + bytes, *newline;
    while ((newline = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        ls_status status =
            from->is_long ? add_too_long(&s->log) : ls_run_log_add_line(&s->log, p, (size_t)(newline - p));
        from->is_long = false;
        LS_TRY(status);
        p = newline + 1;
    }
    *rest = (size_t)(end - p);
    if (*rest > LS_METRICS_LINE_MAX) from->is_long = true;
    if (from->is_long) *rest = 0;
    memmove(s->piece, end - *rest, *rest);
    return LS_OK;
}

/* Remembers the bytes before from->offset, to notice later that the file was cut back. */
static void keep_tail(source *from, int fd) {
    size_t bytes = from->offset < TAIL_MAX ? (size_t)from->offset : TAIL_MAX;
    from->tail_bytes = ls_fd_read(fd, from->tail, bytes, from->offset - (off_t)bytes);
}

/* Adds the lines from from->offset to the end of the file. `is_last`: no process will complete a last line without a
 * newline, so it is added (or counted as damaged) as it is; otherwise it stays for the next call. */
static ls_status read_on(ls_series *s, source *from, int fd, bool is_last) {
    size_t held = 0, got;
    off_t begin = from->offset;
    do {
        errno = 0;
        got = ls_fd_read(fd, s->piece + held, PIECE - held, from->offset + (off_t)held);
        if (got < PIECE - held && errno != 0)
            return ls_fail_errno(LS_ERR_FAILED, "cannot read %.*s", SHOWN, s->metrics.text);
        size_t bytes = held + got;
        LS_TRY(add_lines(s, from, bytes, &held));
        from->offset += (off_t)(bytes - held);
    } while (got > 0 && from->offset - begin < METRICS_BYTES_MAX);
    keep_tail(from, fd);
    s->log.ends_torn = false;
    if (!is_last || (held == 0 && !from->is_long)) return LS_OK;
    long long damaged = s->log.damaged_lines;
    from->rest_bytes = held;
    LS_TRY(from->is_long ? add_too_long(&s->log) : ls_run_log_add_line(&s->log, s->piece, held));
    s->log.ends_torn = s->log.damaged_lines > damaged;
    return LS_OK;
}

/* Opens a metrics file to read and gets its status. Sets *fd to -1, without failing, if there is none; the caller
 * closes it. Refuses files that are not regular or exceed METRICS_BYTES_MAX. */
static ls_status open_file(const char *path, int *fd, struct stat *about) {
    *fd = -1;
    if (stat(path, about) != 0)
        return errno == ENOENT ? LS_OK : ls_fail_errno(LS_ERR_INPUT, "cannot stat %.*s", SHOWN, path);
    if (!S_ISREG(about->st_mode)) return ls_fail(LS_ERR_INPUT, "metrics file %.*s is not a regular file", SHOWN, path);
    if (about->st_size > METRICS_BYTES_MAX)
        return ls_fail(LS_ERR_INPUT, "%.*s has %lld bytes; the limit is %lld", SHOWN, path, (long long)about->st_size,
                       (long long)METRICS_BYTES_MAX);
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT) return LS_OK;
    if (*fd < 0 || fstat(*fd, about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %.*s", SHOWN, path);
    return LS_OK;
}

/* Returns whether the source is this file, whatever its name is now. */
static bool is_same_file(const source *from, const struct stat *about) {
    return from->ino == about->st_ino && from->dev == about->st_dev;
}

/* Returns whether the part of the file that was read is still there: its last bytes are compared. */
static bool is_unchanged(const source *from, int fd, const struct stat *about) {
    char tail[TAIL_MAX];
    if (about->st_size < from->offset) return false;
    if (from->rest_bytes > 0 && about->st_size != from->offset + (off_t)from->rest_bytes) return false;
    size_t got = ls_fd_read(fd, tail, from->tail_bytes, from->offset - (off_t)from->tail_bytes);
    return got == from->tail_bytes && memcmp(tail, from->tail, got) == 0;
}

/* Returns whether lines may have been appended since the file was read. */
static bool has_more(const source *from, const struct stat *about) {
    return about->st_size > from->offset && from->rest_bytes == 0;
}

/* Adds a file, unread, as the last source, with a mark of the log before it. */
static ls_status add_source(ls_series *s, const struct stat *about) {
    LS_TRY(ls_array_grow(&s->sources, s->count, sizeof *s->sources, "files of a series"));
    source *from = &s->sources[s->count++];
    *from = (source){.dev = about->st_dev, .ino = about->st_ino};
    ls_run_log_mark_make(&s->log, &from->mark);
    return LS_OK;
}

/* ---- parents ----------------------------------------------------------------------------------------------------- */

/* The run that another was forked from, and the step of the fork. */
typedef struct parent {
    ls_path path;
    long long step;
} parent;

/* Compares two identities (the options that can change a result) without "steps", which may have been raised since. */
static bool is_same_run(const json_t *then, const json_t *now) {
    json_t *a = json_copy(json_object_get(then, "fields")), *b = json_copy(json_object_get(now, "fields"));
    if (a && b) {
        (void)json_object_del(a, "steps");
        (void)json_object_del(b, "steps");
    }
    bool same = a && b && json_equal(a, b);
    json_decref(a);
    json_decref(b);
    return same;
}

/* Reads parent.json of a fork; returns false if there is none, or if the folder it names is absent or holds another
 * run now. */
static bool find_parent(const char *folder, parent *out) {
    json_t *json = NULL, *identity = NULL;
    ls_path path = ls_path_in(folder, "parent.json");
    bool found = false;
    if (!ls_file_exists(path.text) || ls_json_load_file(path.text, PARENT_BYTES_MAX, &json) != LS_OK) return false;
    const char *text = json_string_value(json_object_get(json, "path"));
    const json_t *step = json_object_get(json, "step");
    if (text && json_is_integer(step) && json_integer_value(step) >= 0) {
        out->path = ls_path_format("%s", text);
        out->step = (long long)json_integer_value(step);
        path = ls_path_in(text, "identity.json");
        found = ls_json_load_file(path.text, PARENT_BYTES_MAX, &identity) == LS_OK &&
                is_same_run(json_object_get(json, "identity"), identity);
    }
    json_decref(identity);
    json_decref(json);
    return found;
}

static ls_status read_files(ls_series *s, const char *folder, bool is_own);

/* Reads the parents up to the steps at which they were forked, the oldest first. The chain ends after PARENTS_MAX, or
 * where a parent was forked at a later step than its child. */
static ls_status read_parents(ls_series *s) {
    parent *list = NULL, next;
    size_t count = 0;
    ls_status status = LS_OK;
    const char *folder = s->folder.text;
    while (count < PARENTS_MAX && find_parent(folder, &next)) {
        if (count > 0 && next.step > list[count - 1].step) break;
        LS_TRY_OUT(ls_array_grow(&list, count, sizeof *list, "parents of a run"));
        list[count++] = next;
        folder = list[count - 1].path.text;
    }
    for (size_t i = count; i-- > 0;) {
        s->log.limit_step = list[i].step;
        status = read_files(s, list[i].path.text, false);
        if (status == LS_ERR_RESOURCE) goto out;
        status = LS_OK; /* an unreadable parent only shortens the series */
    }
    s->log.stopped = false;
    s->log.ends_torn = false;
out:
    s->log.limit_step = LLONG_MAX;
    free(list);
    return status;
}

/* ---- all files --------------------------------------------------------------------------------------------------- */

/* Reads the files set aside, then the current one. Opens the current file before it lists the others, because a run
 * may set it aside meanwhile; its inode then shows that it is listed twice. Files of a parent (`is_own` false) are
 * not kept as sources. */
static ls_status read_files(ls_series *s, const char *folder, bool is_own) {
    ls_path path = ls_path_in(folder, "metrics.jsonl");
    struct stat about, old_about;
    int fd = -1, old = -1, count = 0;
    ls_metrics_file *files = NULL;
    bool is_last = !is_own || !s->log.is_open;
    ls_status status;
    LS_TRY_OUT(open_file(path.text, &fd, &about));
    LS_TRY_OUT(ls_metrics_files(path.text, &files, &count));
    for (int i = 0; i < count; i++) {
        LS_TRY_OUT(open_file(files[i].path.text, &old, &old_about));
        if (old >= 0 && !(fd >= 0 && old_about.st_ino == about.st_ino && old_about.st_dev == about.st_dev)) {
            LS_TRY_OUT(add_source(s, &old_about));
            LS_TRY_OUT(read_on(s, &s->sources[s->count - 1], old, true));
        }
        if (old >= 0) (void)close(old);
        old = -1;
    }
    if (fd >= 0) {
        LS_TRY_OUT(add_source(s, &about));
        LS_TRY_OUT(read_on(s, &s->sources[s->count - 1], fd, is_last));
    }
out:
    if (old >= 0) (void)close(old);
    if (fd >= 0) (void)close(fd);
    free(files);
    if (!is_own) s->count = 0; /* a parent is not read on */
    return status;
}

/* Reads the run from its beginning, with its parents if asked. Fails if all lines of the metrics are damaged. */
static ls_status read_all(ls_series *s) {
    if (s->flags & LS_SERIES_PARENTS) LS_TRY(read_parents(s));
    LS_TRY(read_files(s, s->folder.text, true));
    if (s->log.lines > 0 && s->log.lines == s->log.damaged_lines)
        return ls_fail(LS_ERR_INPUT, "%.*s contains no metrics line: each must be a JSON object", SHOWN,
                       s->metrics.text);
    return LS_OK;
}

ls_status ls_series_open(const char *run, ls_series_flags flags, ls_series **out) {
    ls_status status;
    *out = NULL;
    ls_series *s = calloc(1, sizeof *s);
    if (s) ls_run_log_init(&s->log);
    if (s) s->piece = malloc(PIECE);
    if (!s || !s->piece) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to read %.*s", SHOWN, run);
        goto out;
    }
    s->folder = ls_path_format("%s", run);
    s->metrics = ls_path_in(run, "metrics.jsonl");
    s->flags = flags;
    LS_TRY_OUT(ls_run_log_add_folder(&s->log, run));
    LS_TRY_OUT(read_all(s));
    *out = s;
    return LS_OK;
out:
    ls_series_close(s);
    return status;
}

void ls_series_close(ls_series *s) {
    if (!s) return;
    ls_run_log_free(&s->log);
    free(s->sources);
    free(s->piece);
    free(s);
}

const ls_run_log *ls_series_log(const ls_series *s) { return &s->log; }

void ls_series_take_log(ls_series *s, ls_run_log *out) {
    *out = s->log;
    ls_run_log_init(&s->log);
    ls_series_close(s);
}

/* ---- refreshing -------------------------------------------------------------------------------------------------- */

/* The log before a refresh, and the steps that it dropped, to see which of them came back the same. */
typedef struct before {
    ls_run_log_mark mark;
    ls_run_log_step *steps; /* those from `first` on; NULL: none were dropped */
    size_t first, count;
    long long last_step;
    bool went_back;
} before;

/* Returns the last step that was read, or LS_RUN_NONE. */
static long long last_step(const ls_run_log *log) {
    return log->step_count > 0 ? log->steps[log->step_count - 1].step : LS_RUN_NONE;
}

/* Copies the steps from index `first` on into *b before they are dropped, unless an earlier call did. */
static ls_status remember_steps(ls_series *s, size_t first, before *b) {
    size_t count = s->log.step_count > first ? s->log.step_count - first : 0;
    if (b->went_back && b->first <= first) return LS_OK;
    ls_run_log_step *steps = malloc((count + 1) * sizeof *steps);
    if (!steps) return ls_fail(LS_ERR_RESOURCE, "out of memory to read %.*s", SHOWN, s->metrics.text);
    if (count > 0) memcpy(steps, s->log.steps + first, count * sizeof *steps);
    free(b->steps);
    b->steps = steps;
    b->first = first;
    b->count = count;
    b->went_back = true;
    return LS_OK;
}

/* Returns whether two records are of the same step with the same loss and time, to the bit: the step was not
 * repeated. */
static bool is_same_step(const ls_run_log_step *a, const ls_run_log_step *b) {
    return a->step == b->step && memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 &&
           memcmp(&a->ms, &b->ms, sizeof a->ms) == 0;
}

/* Reads all files from the beginning, into an empty log. */
static ls_status read_again(ls_series *s, before *b) {
    LS_TRY(remember_steps(s, 0, b));
    ls_run_log_free(&s->log);
    s->count = 0;
    LS_TRY(ls_run_log_add_folder(&s->log, s->folder.text));
    return read_all(s);
}

/* Drops the records of the sources from index `first` on. *is_whole false: impossible, and the run must be read
 * again. */
static ls_status drop_sources(ls_series *s, size_t first, before *b, bool *is_whole) {
    *is_whole = true;
    if (first >= s->count) return LS_OK;
    LS_TRY(remember_steps(s, s->sources[first].mark.steps, b));
    *is_whole = ls_run_log_go_back(&s->log, &s->sources[first].mark);
    s->count = first;
    return LS_OK;
}

/* Reads after the list of files has changed: one was set aside, or the run went back before the newest one began.
 * Sets *is_whole to false if the caller must read the run again. */
static ls_status read_new_files(ls_series *s, before *b, bool *is_whole) {
    ls_metrics_file *files = NULL;
    struct stat about;
    int fd = -1, count = 0;
    size_t known = 0;
    ls_status status;
    LS_TRY(ls_metrics_files(s->metrics.text, &files, &count));
    for (int i = 0; i <= count; i++) {
        LS_TRY_OUT(open_file(i < count ? files[i].path.text : s->metrics.text, &fd, &about));
        if (fd < 0) continue;
        bool is_known = known < s->count && is_same_file(&s->sources[known], &about) &&
                        is_unchanged(&s->sources[known], fd, &about);
        if (!is_known) {
            LS_TRY_OUT(drop_sources(s, known, b, is_whole));
            if (!*is_whole) goto out;
            LS_TRY_OUT(add_source(s, &about));
        }
        if (has_more(&s->sources[known], &about))
            LS_TRY_OUT(read_on(s, &s->sources[known], fd, i < count || !s->log.is_open));
        known++;
        (void)close(fd);
        fd = -1;
    }
    status = drop_sources(s, known, b, is_whole);
out:
    if (fd >= 0) (void)close(fd);
    free(files);
    return status;
}

/* Reads what was appended to the newest file if it is still the one that was read, else compares all files. Sets
 * *is_whole to false if the caller must read the run again. */
static ls_status read_more(ls_series *s, before *b, bool *is_whole) {
    struct stat about;
    int fd;
    *is_whole = true;
    LS_TRY(open_file(s->metrics.text, &fd, &about));
    source *newest = s->count > 0 ? &s->sources[s->count - 1] : NULL;
    if (fd < 0 || !newest || !is_same_file(newest, &about) || !is_unchanged(newest, fd, &about)) {
        if (fd >= 0) (void)close(fd);
        return read_new_files(s, b, is_whole);
    }
    ls_status status = LS_OK;
    if (has_more(newest, &about)) status = read_on(s, newest, fd, !s->log.is_open);
    (void)close(fd);
    return status;
}

/* Returns the earliest step of the records added since the mark; LLONG_MAX if there are none. */
static long long first_added(const ls_run_log *log, const ls_run_log_mark *m) {
    long long first = LLONG_MAX;
#define LOOK(list, count, from)                                                                                        \
    if (log->count > (from) && log->list[from].step < first) first = log->list[from].step
    LOOK(steps, step_count, m->steps);
    LOOK(validations, validation_count, m->validations);
    LOOK(saves, save_count, m->saves);
    LOOK(events, event_count, m->events);
    LOOK(numerics, numerics_count, m->numerics);
    LOOK(noises, noise_count, m->noises);
    LOOK(starts, start_count, m->starts);
    LOOK(samples, sample_count, m->samples);
#undef LOOK
    return first;
}

ls_status ls_series_refresh(ls_series *s, ls_series_change *change) {
    before b = {.last_step = last_step(&s->log)};
    bool is_whole = true;
    *change = (ls_series_change){.first_step = LLONG_MAX};
    ls_run_log_mark_make(&s->log, &b.mark);
    s->log.is_open = ls_run_folder_is_open(s->folder.text);
    ls_status status = ls_run_log_add_checkpoints(&s->log, s->folder.text);
    if (status == LS_OK) status = read_more(s, &b, &is_whole);
    if (status == LS_OK && !is_whole) status = read_again(s, &b);
    if (b.went_back || s->log.cuts != b.mark.cuts) {
        size_t same = 0;
        while (same < b.count && b.first + same < s->log.step_count &&
               is_same_step(&b.steps[same], &s->log.steps[b.first + same]))
            same++;
        size_t at = b.went_back ? b.first + same : 0;
        change->any = true;
        change->went_back = true;
        change->first_step = at > 0 && at <= s->log.step_count ? s->log.steps[at - 1].step : 0;
        /* Only an incomplete line was completed. */
        if (b.went_back && same == b.count && s->log.cuts == b.mark.cuts) change->went_back = false;
    } else {
        change->first_step = first_added(&s->log, &b.mark);
        change->any = change->first_step != LLONG_MAX;
    }
    free(b.steps);
    return status;
}

ls_status ls_series_read_end(const char *run, ls_run_log *out) {
    ls_path path = ls_path_in(run, "metrics.jsonl");
    struct stat about;
    int fd = -1;
    char *text = NULL;
    ls_status status;
    ls_run_log_init(out);
    LS_TRY_OUT(ls_run_log_add_folder(out, run));
    LS_TRY_OUT(open_file(path.text, &fd, &about));
    if (fd < 0) goto out;
    text = malloc(END_BYTES);
    if (!text) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to read %.*s", SHOWN, path.text);
        goto out;
    }
    off_t begin = about.st_size > END_BYTES ? about.st_size - END_BYTES : 0;
    size_t bytes = ls_fd_read(fd, text, END_BYTES, begin), skip = 0;
    if (begin > 0) { /* half a line */
        const char *newline = memchr(text, '\n', bytes);
        skip = newline ? (size_t)(newline - text) + 1 : bytes;
    }
    while (out->is_open && bytes > skip && text[bytes - 1] != '\n') bytes--; /* it has no end yet */
    status = ls_run_log_add_metrics(out, text + skip, bytes - skip);
out:
    free(text);
    if (fd >= 0) (void)close(fd);
    if (status != LS_OK) ls_run_log_free(out);
    return status;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* Returns n, or NaN for 0 and less: columns of counts have no value then. */
static double count_of(long long n) { return n > 0 ? (double)n : (double)NAN; }

#define STEP_COLUMN(function, value)                                                                                   \
    static double function(const ls_run_log *run, size_t i) { return value; }
STEP_COLUMN(get_loss, run->steps[i].loss)
STEP_COLUMN(get_norm, run->steps[i].norm)
STEP_COLUMN(get_lr, run->steps[i].lr)
STEP_COLUMN(get_ms, run->steps[i].ms)
STEP_COLUMN(get_tokens, run->steps[i].tokens_s)
STEP_COLUMN(get_mfu, run->steps[i].mfu)
STEP_COLUMN(get_gpu_wait, run->steps[i].gpu_wait_ms)
STEP_COLUMN(get_memory, run->steps[i].memory)
STEP_COLUMN(get_gpu_memory, run->steps[i].gpu_memory)
STEP_COLUMN(get_scale, run->steps[i].scale == INT_MIN ? (double)NAN : (double)run->steps[i].scale)
STEP_COLUMN(get_skipped, count_of(run->steps[i].skipped))
STEP_COLUMN(get_dropped, count_of(run->steps[i].dropped))
STEP_COLUMN(get_audited, count_of(run->steps[i].audited))
STEP_COLUMN(get_unix, count_of(run->steps[i].unix_ms))
STEP_COLUMN(get_val_loss, run->validations[i].loss)
STEP_COLUMN(get_accuracy, run->validations[i].accuracy)
STEP_COLUMN(get_val_ms, run->validations[i].ms)
#undef STEP_COLUMN

/* For columns that every record has: a NaN was recorded as such. */
static bool is_always_told(const ls_run_log *run, size_t i) { return (void)run, (void)i, true; }
/* Returns whether the step recorded a norm, NaN included. */
static bool has_norm(const ls_run_log *run, size_t i) { return run->steps[i].has_norm; }

const ls_series_column ls_series_columns[] = {
    {.name = "loss", .label = "loss", .unit = "nats", .get = get_loss, .is_told = is_always_told},
    {.name = "norm", .label = "gradient norm", .unit = "", .get = get_norm, .is_told = has_norm},
    {.name = "lr", .label = "learning rate", .unit = "", .get = get_lr},
    {.name = "ms", .label = "time of a step", .unit = "ms", .get = get_ms},
    {.name = "tokens_per_s", .label = "speed", .unit = "tokens/s", .get = get_tokens},
    {.name = "mfu", .label = "MFU", .unit = "", .get = get_mfu},
    {.name = "gpu_wait_ms", .label = "wait for the GPU", .unit = "ms", .get = get_gpu_wait},
    {.name = "memory_bytes", .label = "memory of the workers", .unit = "bytes", .get = get_memory},
    {.name = "gpu_memory_bytes", .label = "memory of the GPU", .unit = "bytes", .get = get_gpu_memory},
    {.name = "scale", .label = "exponent of the loss scale", .unit = "", .get = get_scale},
    {.name = "skipped", .label = "update skipped", .unit = "", .is_count = true, .get = get_skipped},
    {.name = "dropped", .label = "gradient groups left out", .unit = "", .is_count = true, .get = get_dropped},
    {.name = "audited", .label = "gradient groups audited", .unit = "", .is_count = true, .get = get_audited},
    {.name = "unix_ms", .label = "time of day", .unit = "ms", .is_count = true, .get = get_unix},
    {.name = "val_loss",
     .label = "validation loss",
     .unit = "nats",
     .of_validation = true,
     .get = get_val_loss,
     .is_told = is_always_told},
    {.name = "val_accuracy", .label = "accuracy", .unit = "", .of_validation = true, .get = get_accuracy},
    {.name = "val_ms", .label = "time of an evaluation", .unit = "ms", .of_validation = true, .get = get_val_ms},
};
const size_t ls_series_column_count = sizeof ls_series_columns / sizeof *ls_series_columns;

const ls_series_column *ls_series_column_find(const char *name) {
    for (size_t i = 0; i < ls_series_column_count; i++)
        if (strcmp(ls_series_columns[i].name, name) == 0) return &ls_series_columns[i];
    return NULL;
}

bool ls_series_has_column(const ls_run_log *run, const ls_series_column *column) {
    size_t count = column->of_validation ? run->validation_count : run->step_count;
    for (size_t i = 0; i < count; i++)
        if (!isnan(column->get(run, i))) return true;
    return false;
}
