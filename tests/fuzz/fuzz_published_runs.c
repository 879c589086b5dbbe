/* fuzz_published_runs.c: any bytes as a table of measured runs. What is accepted has a reason or a prediction above
 * zero. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/published/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_rows rows;
    ls_validation v;
    char *text = malloc(bytes ? bytes : 1); /* no room behind the last byte */
    if (!text) return 0;
    memcpy(text, data, bytes);
    if (ls_rows_parse("fuzz", text, bytes, &rows) == LS_OK) {
        if (ls_validate(&rows, bytes % 2, &v) == LS_OK) {
            for (size_t i = 0; i < v.rows; i++)
                if (v.row[i].modelled && !(v.row[i].predicted > 0)) abort();
            ls_validation_free(&v);
        }
        ls_rows_free(&rows);
    }
    free(text);
    return 0;
}
