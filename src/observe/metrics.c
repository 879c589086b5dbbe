/* metrics.c: writing lines.
 *
 * A line is put together in one buffer. `used` beyond the buffer means that it did not fit; nothing is written past
 * the end, and ls_metrics_end() reports it. */
#include "observe/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"

enum { NUMBER_MAX = 48 };

struct ls_metrics {
    int fd;
    size_t used;
    char *path;
    int64_t bytes, file_max; /* of the file */
    int64_t step;            /* of the last line; −1: none of this process */
    int64_t keep;            /* files that were set aside and stay whole; 0: all */
    char line[LS_METRICS_LINE_MAX];
};

/* ---- a line ------------------------------------------------------------------------------------------------------ */

/* Appends bytes to the line. If they do not fit, none are copied, and `used` is one more than the buffer from then
 * on. */
static void append_bytes(ls_metrics *m, const char *text, size_t bytes) {
    if (m->used + bytes <= sizeof m->line)
        memcpy(m->line + m->used, text, bytes);
    else
        bytes = sizeof m->line + 1 - m->used; /* stays one past the end, whatever follows */
    m->used += bytes;
}

static void put_text(ls_metrics *m, const char *text) { append_bytes(m, text, strlen(text)); }

/* Returns the length in bytes of the UTF-8 character at `s`, a text with a NUL; 0 if it is invalid: a wrong byte, a
 * surrogate, overlong, or beyond U+10FFFF. */
static size_t character_bytes(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    size_t bytes = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return bytes;
}

/* Appends the text as a JSON string: escapes control characters, and replaces each wrong byte of UTF-8 with U+FFFD. */
static void put_quoted(ls_metrics *m, const char *text) {
    put_text(m, "\"");
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        char escape[8];
        size_t bytes = character_bytes(s);
        if (bytes == 0) {
            put_text(m, "\xEF\xBF\xBD");
            bytes = 1;
        } else if (*s < 0x20 || *s == 0x7F) {
            snprintf(escape, sizeof escape, "\\u%04x", *s);
            put_text(m, escape);
        } else {
            if (*s == '"' || *s == '\\') put_text(m, "\\");
            append_bytes(m, (const char *)s, bytes);
        }
        s += bytes;
    }
    put_text(m, "\"");
}

/* Appends a comma, if needed, a quote, the key, and `behind`, which begins with the closing quote. Returns false,
 * without doing anything, if m is NULL, so that callers need no other check. */
static bool put_key(ls_metrics *m, const char *key, const char *behind) {
    if (!m) return false;
    put_text(m, m->used == 1 ? "\"" : ",\"");
    put_text(m, key);
    put_text(m, behind);
    return true;
}

/* Appends formatted text of less than NUMBER_MAX bytes; longer text is cut. */
__attribute__((format(printf, 2, 3))) static void put_printed(ls_metrics *m, const char *format, ...) {
    char text[NUMBER_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    put_text(m, text);
}

/* Appends the fewest digits, 9 or more, that read back to the same bits; "nan", "inf" or "-inf" as JSON strings. */
static void put_number(ls_metrics *m, double value) {
    char text[NUMBER_MAX];
    if (!isfinite(value)) {
        put_text(m, isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    for (int digits = 9; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    put_text(m, text);
}

void ls_metrics_begin(ls_metrics *m) {
    if (!m) return;
    m->used = 0;
    put_text(m, "{");
}

void ls_metrics_add_i64(ls_metrics *m, const char *key, int64_t value) {
    if (m && strcmp(key, "step") == 0) m->step = value;
    if (put_key(m, key, "\":")) put_printed(m, "%" PRId64, value);
}

void ls_metrics_add_f64(ls_metrics *m, const char *key, double value) {
    if (put_key(m, key, "\":")) put_number(m, value);
}

void ls_metrics_add_hex(ls_metrics *m, const char *key, double value) {
    ls_metrics_add_f64(m, key, value);
    if (!put_key(m, key, "_hex\":")) return;
    if (isfinite(value))
        put_printed(m, "\"%a\"", value);
    else
        put_number(m, value);
}

void ls_metrics_add_bool(ls_metrics *m, const char *key, bool value) {
    if (put_key(m, key, "\":")) put_text(m, value ? "true" : "false");
}

void ls_metrics_add_text(ls_metrics *m, const char *key, const char *text) {
    if (put_key(m, key, "\":")) put_quoted(m, text);
}

void ls_metrics_add_i64_list(ls_metrics *m, const char *key, const int *values, int count) {
    if (!put_key(m, key, "\":[")) return;
    for (int i = 0; i < count; i++) put_printed(m, "%s%d", i ? "," : "", values[i]);
    put_text(m, "]");
}

void ls_metrics_add_ms_list(ls_metrics *m, const char *key, const double *ms, int count) {
    if (!put_key(m, key, "\":[")) return;
    for (int i = 0; i < count; i++) put_printed(m, "%s%.3f", i ? "," : "", ms[i]);
    put_text(m, "]");
}

void ls_metrics_add_flags(ls_metrics *m, const char *key, const bool *flags, int count) {
    const char *before = "";
    if (!put_key(m, key, "\":[")) return;
    for (int i = 0; i < count; i++) {
        if (!flags[i]) continue;
        put_printed(m, "%s%d", before, i);
        before = ",";
    }
    put_text(m, "]");
}

/* ---- checksums --------------------------------------------------------------------------------------------------- */

static const char checksum_key[] = ",\"checksum\":\"";
enum { KEY_BYTES = sizeof checksum_key - 1, DIGITS = 16, CHECKSUM_BYTES = KEY_BYTES + DIGITS + 2 };

/* Writes the checksum of a line's first bytes, 64 bits of XXH3, as 16 hexadecimal digits and a NUL. */
static void checksum_text(const char *line, size_t bytes, char text[DIGITS + 1]) {
    (void)snprintf(text, DIGITS + 1, "%016" PRIx64, ls_hash_bytes(line, bytes).lo);
}

/* Ends the line: its checksum as the last member (none if the object is empty or did not fit), the brace and the
 * newline. */
static void put_end(ls_metrics *m) {
    char text[DIGITS + 1];
    if (m->used > 1 && m->used <= sizeof m->line) {
        checksum_text(m->line, m->used, text);
        put_text(m, checksum_key);
        put_text(m, text);
        put_text(m, "\"");
    }
    put_text(m, "}\n");
}

bool ls_metrics_line_is_intact(const char *line, size_t bytes) {
    char text[DIGITS + 1];
    if (bytes <= CHECKSUM_BYTES) return true;
    size_t before = bytes - CHECKSUM_BYTES;
    if (memcmp(line + before, checksum_key, KEY_BYTES) != 0 || memcmp(line + bytes - 2, "\"}", 2) != 0) return true;
    checksum_text(line, before, text);
    return memcmp(line + before + KEY_BYTES, text, DIGITS) == 0;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

ls_status ls_metrics_open(const char *path, ls_metrics **out) {
    *out = NULL;
    ls_status status = LS_OK;
    ls_metrics *m = calloc(1, sizeof *m);
    if (m) m->fd = -1;
    if (m) m->path = strdup(path);
    if (!m || !m->path) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the metrics");
        goto out;
    }
    /* The folder may belong to another user, whose symbolic link must not redirect writes to a file of this user. */
    m->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (m->fd < 0) {
        status = ls_fail_errno(LS_ERR_INPUT, "cannot write metrics to %s", path);
        goto out;
    }
    struct stat about;
    m->bytes = fstat(m->fd, &about) == 0 ? (int64_t)about.st_size : 0;
    m->file_max = LS_METRICS_FILE_MAX;
    m->step = -1;
    *out = m;
    m = NULL;
out:
    if (m) free(m->path);
    free(m);
    return status;
}

void ls_metrics_set_file_max(ls_metrics *m, int64_t bytes) {
    if (m) m->file_max = bytes;
}

/* Thins all files set aside but the latest m->keep. A failure is only logged, because training must not stop for it. */
static void thin_files(const ls_metrics *m) {
    ls_metrics_file *files = NULL;
    int count = 0;
    if (m->keep <= 0) return;
    ls_status status = ls_metrics_files(m->path, &files, &count);
    for (int i = 0; status == LS_OK && i < count - m->keep; i++) status = ls_metrics_thin(files[i].path.text);
    if (status != LS_OK) ls_log_warn("%s; earlier metrics stay as they are (--keep-metrics)", ls_status_message());
    free(files);
}

void ls_metrics_set_keep(ls_metrics *m, int64_t keep) {
    if (!m) return;
    m->keep = keep;
    thin_files(m);
}

ls_status ls_metrics_close(ls_metrics *m) {
    if (!m) return LS_OK;
    ls_status status = LS_OK;
    if (close(m->fd) != 0) status = ls_fail_errno(LS_ERR_FAILED, "cannot close metrics file %s", m->path);
    free(m->path);
    free(m);
    return status;
}

int ls_metrics_share(ls_metrics *m) { return m ? fcntl(m->fd, F_DUPFD_CLOEXEC, 0) : -1; }

/* Writes the line; if that fails halfway, truncates the file to where the line began. If even that fails, the next
 * ls_metrics_cut() repairs the file. */
static ls_status write_line(ls_metrics *m) {
    size_t done = 0;
    while (done < m->used) {
        ssize_t put_bytes = write(m->fd, m->line + done, m->used - done);
        if (put_bytes < 0 && errno == EINTR) continue;
        if (put_bytes < 0) break;
        done += (size_t)put_bytes;
    }
    if (done == m->used) {
        m->bytes += (int64_t)done;
        return LS_OK;
    }
    ls_status status = ls_fail_errno(LS_ERR_FAILED, "cannot write metrics to %s", m->path);
    off_t end = done > 0 ? lseek(m->fd, 0, SEEK_END) : -1;
    if (end >= (off_t)done && ftruncate(m->fd, end - (off_t)done) != 0)
        return ls_fail_at(status, "an incomplete line remains: ");
    return status;
}

/* Rotates: syncs the file to disk, sets it aside under the name of its last step, and begins a new one with a line
 * that names it. If that fails or the name is taken, the file stays in use, and the next attempt comes at twice the
 * size. */
static ls_status begin_file(ls_metrics *m) {
    ls_path aside;
    ls_metrics_about about;
    int64_t step = m->step;
    m->file_max *= 2; /* whatever fails now is not tried at every line */
    LS_TRY(ls_metrics_look(m->path, &about));
    if (fsync(m->fd) != 0 && errno != EINVAL) return ls_fail_errno(LS_ERR_FAILED, "cannot sync %s to disk", m->path);
    LS_TRY(ls_metrics_set_aside(m->path, step, &aside));
    if (!aside.text[0]) return LS_OK;
    int fd = open(m->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot write metrics to %s", m->path);
    (void)close(m->fd); /* it was forced to disk */
    m->fd = fd;
    m->bytes = 0;
    m->file_max /= 2;
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", step);
    ls_metrics_add_text(m, "continues", strrchr(aside.text, '/') + 1);
    ls_metrics_add_i64(m, "saved_step", about.saved_step);
    put_end(m);
    LS_TRY(write_line(m));
    thin_files(m);
    return LS_OK;
}

ls_status ls_metrics_end(ls_metrics *m) {
    if (!m) return LS_OK;
    put_end(m);
    if (m->used <= sizeof m->line) {
        LS_TRY(write_line(m));
        return m->bytes >= m->file_max && m->step >= 0 ? begin_file(m) : LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "a metrics line exceeds %d bytes; it was not written to %s", LS_METRICS_LINE_MAX,
                   m->path);
}
