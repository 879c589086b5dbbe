/* csv.c: reads CSV files. The fields point into the text of the file, in which the parser writes their NULs. */
#include "plan/published/csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"

enum { BYTES_MAX = 64 << 20, COLUMNS_MAX = 256 };

typedef struct reader {
    const char *path;
    char *at;
    size_t line;
} reader;

/* Splits off the next field, unquoted in place and ended by a NUL. *last: the field ends its row. Advances r->line only
 * inside quotes. */
static ls_status next_field(reader *r, char **field, bool *last) {
    char *from = r->at, *to;
    size_t began = r->line;
    *field = to = from;
    if (*from == '"') {
        for (from++;; from++) {
            if (*from == '\0') return ls_fail(LS_ERR_INPUT, "%s, line %zu: unterminated quote", r->path, began);
            if (*from == '\n') r->line++;
            if (*from == '"' && from[1] == '"')
                from++;
            else if (*from == '"')
                break;
            *to++ = *from;
        }
        from++;
        if (*from != ',' && *from != '\r' && *from != '\n' && *from != '\0')
            return ls_fail(LS_ERR_INPUT, "%s, line %zu: text after a closing quote", r->path, r->line);
    } else {
        while (*from != ',' && *from != '\r' && *from != '\n' && *from != '\0') *to++ = *from++;
    }
    char end = *from;
    if (end == '\r' && from[1] == '\n') from++, end = '\n';
    *last = end != ',';
    r->at = end == '\0' ? from : from + 1;
    *to = '\0';
    return LS_OK;
}

/* Splits a row into fields and sets *count to their number; more than `capacity` is an error. */
static ls_status next_row(reader *r, char **fields, size_t capacity, size_t *count) {
    bool last = false;
    for (*count = 0; !last; (*count)++) {
        char *field;
        LS_TRY(next_field(r, &field, &last));
        if (*count == capacity)
            return ls_fail(LS_ERR_INPUT,
                           "%s, line %zu: more than %zu fields; put a field that contains a comma in quotes", r->path,
                           r->line, capacity);
        fields[*count] = field;
    }
    return LS_OK;
}

/* Appends a row; fields that it lacks become empty. */
static ls_status add_row(ls_csv *csv, char **fields, size_t count, size_t line) {
    static char none[] = "";
    LS_TRY(ls_array_grow(&csv->field, csv->rows, csv->columns * sizeof *csv->field, "rows"));
    LS_TRY(ls_array_grow(&csv->line, csv->rows, sizeof *csv->line, "rows"));
    for (size_t i = 0; i < csv->columns; i++) csv->field[csv->rows * csv->columns + i] = i < count ? fields[i] : none;
    csv->line[csv->rows++] = line;
    return LS_OK;
}

/* Fails with a hint if the header has another separator, as spreadsheets in some languages write. */
static ls_status check_separator(const ls_csv *csv) {
    static const struct {
        char is;
        const char *name;
    } others[] = {{';', "semicolons"}, {'\t', "tabs"}, {'|', "vertical bars"}};
    for (size_t i = 0; csv->columns == 1 && i < sizeof others / sizeof others[0]; i++)
        if (strchr(csv->field[0], others[i].is))
            return ls_fail(LS_ERR_INPUT, "%s: its columns are separated by %s; separate them by commas", csv->name,
                           others[i].name);
    return LS_OK;
}

/* Reads the header and all rows into *out; empty lines are passed over. */
static ls_status read_rows(reader *r, ls_csv *out) {
    char *fields[COLUMNS_MAX];
    size_t count;
    LS_TRY(next_row(r, fields, COLUMNS_MAX, &out->columns));
    LS_TRY(add_row(out, fields, out->columns, 1));
    LS_TRY(check_separator(out));
    while (*r->at) {
        size_t line = ++r->line;
        LS_TRY(next_row(r, fields, out->columns, &count));
        if (count == 1 && !*fields[0]) continue; /* an empty line */
        LS_TRY(add_row(out, fields, count, line));
    }
    if (out->rows < 2) return ls_fail(LS_ERR_INPUT, "%s has no rows below the header line", r->path);
    return LS_OK;
}

/* Parses out->text of `bytes` bytes, which ends with a NUL; frees *out if that fails. */
static ls_status parse(size_t bytes, ls_csv *out) {
    ls_status status = LS_OK;
    if (strlen(out->text) != bytes) status = ls_fail(LS_ERR_INPUT, "%s is not text: it contains a NUL byte", out->name);
    reader r = {.path = out->name, .at = out->text, .line = 1};
    if (status == LS_OK) status = read_rows(&r, out);
    if (status != LS_OK) ls_csv_free(out);
    return status;
}

ls_status ls_csv_read(const char *path, ls_csv *out) {
    size_t bytes;
    *out = (ls_csv){.name = path};
    LS_TRY(ls_file_read(path, BYTES_MAX, &out->text, &bytes));
    return parse(bytes, out);
}

ls_status ls_csv_parse(const char *name, const char *text, size_t bytes, ls_csv *out) {
    *out = (ls_csv){.name = name};
    if (bytes > BYTES_MAX) return ls_fail(LS_ERR_INPUT, "%s has %zu bytes; the limit is %d", name, bytes, BYTES_MAX);
    out->text = malloc(bytes + 1);
    if (!out->text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the %zu bytes of %s", bytes, name);
    memcpy(out->text, text, bytes);
    out->text[bytes] = '\0';
    return parse(bytes, out);
}

void ls_csv_free(ls_csv *csv) {
    free(csv->text);
    free(csv->field);
    free(csv->line);
    memset(csv, 0, sizeof *csv);
}

/* Returns a row's field; NULL: no such column. */
static const char *find_field(const ls_csv *csv, size_t row, const char *column) {
    for (size_t i = 0; i < csv->columns; i++)
        if (strcmp(csv->field[i], column) == 0) return csv->field[row * csv->columns + i];
    return NULL;
}

bool ls_csv_has(const ls_csv *csv, const char *column) { return find_field(csv, 0, column) != NULL; }

const char *ls_csv_field(const ls_csv *csv, size_t row, const char *column) {
    const char *field = find_field(csv, row, column);
    return field ? field : "";
}

ls_status ls_csv_refuse(const ls_csv *csv, size_t row, const char *column, const char *what) {
    return ls_fail(LS_ERR_INPUT, "%s, line %zu: %s is \"%s\"; %s", csv->name, csv->line[row], column,
                   ls_csv_field(csv, row, column), what);
}
