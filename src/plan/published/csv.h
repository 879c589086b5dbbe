/* csv.h: comma-separated values with quotes (RFC 4180), read whole. */
#ifndef LS_PLAN_PUBLISHED_CSV_H
#define LS_PLAN_PUBLISHED_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct ls_csv {
    const char *name; /* for messages; borrowed */
    char *text;       /* holds all fields */
    char **field;     /* [rows][columns]; the first row is the names; fields that a row lacks are empty */
    size_t *line;     /* of the file, by row */
    size_t rows, columns;
} ls_csv;

/* LS_ERR_INPUT for a file that cannot be read, has no rows, quotes that do not end, or a row with more fields than
 * names. */
ls_status ls_csv_read(const char *path, ls_csv *out);
/* The same from memory; `name` is for messages. */
ls_status ls_csv_parse(const char *name, const char *text, size_t bytes, ls_csv *out);
void ls_csv_free(ls_csv *csv);
bool ls_csv_has(const ls_csv *csv, const char *column);
/* The field of a row; "" where there is no such column. */
const char *ls_csv_field(const ls_csv *csv, size_t row, const char *column);
/* LS_ERR_INPUT that names the file, the line, the column and its value. */
ls_status ls_csv_refuse(const ls_csv *csv, size_t row, const char *column, const char *what);

#endif
