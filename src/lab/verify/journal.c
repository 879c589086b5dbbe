/* journal.c: one JSON line for each finished row, and the keys of rows that an earlier run found equal. */
#include "lab/verify/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"

enum { FILE_BYTES_MAX = 1 << 28 };

/* Returns the key of a row: a hash of the three texts. */
static ls_hash128 hash_key(const char *model, const char *weights, const char *layout) {
    ls_hash128 parts[] = {ls_hash_bytes(model, strlen(model)), ls_hash_bytes(weights, strlen(weights)),
                          ls_hash_bytes(layout, strlen(layout))};
    return ls_hash_combine(parts, sizeof parts / sizeof *parts);
}

/* Adds a key to those of equal rows. */
static ls_status remember_key(ls_verify_journal *j, ls_hash128 key) {
    LS_TRY(ls_array_grow(&j->done, j->count, sizeof *j->done, "rows"));
    j->done[j->count++] = key;
    return LS_OK;
}

/* Remembers the row of a line if it was equal. A line that is not a row was cut when a process died and is ignored, so
 * that its layout runs again. */
static ls_status read_journal_line(ls_verify_journal *j, const char *line, size_t bytes) {
    const char *model, *weights, *layout;
    bool equal = false;
    ls_status status = LS_OK;
    json_t *row = json_loadb(line, bytes, 0, NULL);
    bool sound = row && ls_json_get_text(row, "model", &model) == LS_OK &&
                 ls_json_get_text(row, "reference", &weights) == LS_OK &&
                 ls_json_get_text(row, "layout", &layout) == LS_OK && ls_json_get_bool(row, "equal", &equal) == LS_OK;
    if (sound && equal) status = remember_key(j, hash_key(model, weights, layout));
    json_decref(row);
    return status;
}

/* Reads all rows. *cut is set to whether the last line has no newline. */
static ls_status read_rows(ls_verify_journal *j, bool *cut) {
    char *text = NULL;
    size_t bytes = 0;
    ls_status status = LS_OK;
    LS_TRY(ls_file_read(j->path, FILE_BYTES_MAX, &text, &bytes));
    for (size_t at = 0; at < bytes && status == LS_OK;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t length = newline ? (size_t)(newline - (text + at)) : bytes - at;
        status = read_journal_line(j, text + at, length);
        at += length + 1;
    }
    *cut = bytes > 0 && text[bytes - 1] != '\n';
    free(text);
    return status;
}

ls_status ls_verify_journal_open(const char *dir, bool resume, ls_verify_journal *out) {
    ls_status status = LS_OK;
    bool cut = false;
    *out = (ls_verify_journal){.fd = -1};
    if (!dir) return LS_OK;
    if (asprintf(&out->path, "%s/verify.jsonl", dir) < 0) {
        out->path = NULL;
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a path");
    }
    if (ls_file_exists(out->path) && !resume) {
        status = ls_fail(LS_ERR_INPUT,
                         "--out %s: it contains results already: continue with --resume, or use another folder", dir);
        goto out;
    }
    LS_TRY_OUT(ls_dir_make(dir));
    if (ls_file_exists(out->path)) LS_TRY_OUT(read_rows(out, &cut));
    out->fd = open(out->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (out->fd < 0 || (cut && write(out->fd, "\n", 1) != 1))
        status = ls_fail_errno(LS_ERR_INPUT, "cannot write %s", out->path);
out:
    if (status != LS_OK) ls_verify_journal_close(out);
    return status;
}

void ls_verify_journal_close(ls_verify_journal *j) {
    if (j->fd >= 0) close(j->fd);
    free(j->path);
    free(j->done);
    *j = (ls_verify_journal){.fd = -1};
}

bool ls_verify_journal_has(const ls_verify_journal *j, const char *model, const char *weights, const char *layout) {
    ls_hash128 key = hash_key(model, weights, layout);
    for (size_t i = 0; i < j->count; i++)
        if (ls_hash_equal(j->done[i], key)) return true;
    return false;
}

ls_status ls_verify_journal_add(ls_verify_journal *j, const json_t *row) {
    char *text = NULL, *line = NULL;
    ls_status status = LS_OK;
    if (j->fd < 0) return LS_OK;
    text = json_dumps(row, JSON_COMPACT);
    int length = text ? asprintf(&line, "%s\n", text) : -1;
    if (length < 0) {
        line = NULL;
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
    } else if (write(j->fd, line, (size_t)length) != length) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot write to %s", j->path);
    }
    free(line);
    free(text);
    return status;
}
