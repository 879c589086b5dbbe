/* csv.h: comma-separated values with quotes (RFC 4180), read whole. */
#ifndef LS_PLAN_PUBLISHED_CSV_H
#define LS_PLAN_PUBLISHED_CSV_H

#include <stddef.h>

#include "base/status.h"

typedef struct ls_csv {
    char *text;   /* holds all fields */
    char **field; /* [rows][columns]; the first row is the names; fields that a row lacks are empty */
    size_t *line; /* of the file, by row */
    size_t rows, columns;
} ls_csv;

/* LS_ERR_INPUT for a file that cannot be read, has no rows, quotes that do not end, or a row with more fields than
 * names. */
ls_status ls_csv_read(const char *path, ls_csv *out);
/* The same from memory; `name` is for messages. */
ls_status ls_csv_parse(const char *name, const char *text, size_t bytes, ls_csv *out);
void ls_csv_free(ls_csv *csv);
/* Number of the column with that name; −1: none. */
int ls_csv_column(const ls_csv *csv, const char *name);
static inline const char *ls_csv_field(const ls_csv *csv, size_t row, int column) {
    return column < 0 ? "" : csv->field[row * csv->columns + (size_t)column];
}

#endif
