/* layout.c: a layout in words, and as a file for train --layout. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/plan/command.h"

ls_status ls_plan_layout_write(const char *path, const ls_knobs *layout) {
    json_t *json = ls_knobs_to_json(layout, NULL, NULL, 0);
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a layout");
    ls_status status = ls_file_write_atomic(path, text, strlen(text));
    free(text);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "--out: ");
}
