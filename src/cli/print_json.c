/* print_json.c: results for a program to read. */
#include "cli/print_json.h"

#include <math.h>
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
json_t *ls_cli_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *ls_cli_json_path(const char *path) {
    json_t *text = json_string(path);
    return text ? text : json_string("(not UTF-8)");
}

json_t *ls_cli_json_list(int count, json_t *(*item)(const void *ctx, int i), const void *ctx) {
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++)
        if (json_array_append_new(list, item(ctx, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}
