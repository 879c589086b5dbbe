/* csv.h: reads a whole file of comma-separated values with quotes (RFC 4180) whose first row names the columns. */
#ifndef LS_PLAN_PUBLISHED_CSV_H
#define LS_PLAN_PUBLISHED_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct ls_csv {
    const char *name;     /* for messages; borrowed */
    char *text;           /* holds all fields */
    char **field;         /* [rows][columns]; the first row is the names; fields that a row lacks are empty */
    size_t *line;         /* of the file, by row */
    size_t rows, columns; /* rows with the header */
} ls_csv;

/* Reads a file of at most 64 MiB; empty lines are left out. `path` must outlive *out, which the caller frees with
 * ls_csv_free(). LS_ERR_INPUT if it cannot be read, has no rows, a NUL, a quote that does not end, text behind a
 * closing quote, or a row with more fields than names. */
ls_status ls_csv_read(const char *path, ls_csv *out);
/* Parses a text likewise; `name` is for messages and must outlive *out. */
ls_status ls_csv_parse(const char *name, const char *text, size_t bytes, ls_csv *out);
void ls_csv_free(ls_csv *csv);
/* Returns whether there is a column of that name. */
bool ls_csv_has(const ls_csv *csv, const char *column);
/* Returns the field of a row, which belongs to csv; "" if there is no such column. Row 0 has the names. */
const char *ls_csv_field(const ls_csv *csv, size_t row, const char *column);
/* Returns LS_ERR_INPUT with a message of the file, the line, the column, its value and `what`. */
ls_status ls_csv_refuse(const ls_csv *csv, size_t row, const char *column, const char *what);

#endif
