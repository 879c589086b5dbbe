/* print_json.c: results for a program to read. */
#include "cli/print_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* Output that could not be written is main()'s to notice. */
static ls_status print(json_t *value, size_t flags) {
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the JSON of the results");
    puts(text);
    free(text);
    return LS_OK;
}

ls_status ls_cli_print_json(json_t *value) { return print(value, JSON_COMPACT); }
ls_status ls_cli_print_json_lines(json_t *value) { return print(value, JSON_INDENT(1) | JSON_REAL_PRECISION(6)); }

json_t *ls_cli_json_real_if(bool there, double value) { return there ? json_real(value) : NULL; }
json_t *ls_cli_json_text_if(const char *text) { return text ? json_string(text) : NULL; }
