/* layout.c: a layout in words, and as a file for train --layout. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/plan/command.h"

__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, LS_PLAN_TEXT_MAX - used, format, args);
    va_end(args);
}

void ls_plan_layout_text(const ls_plan_layout *l, char text[LS_PLAN_TEXT_MAX]) {
    text[0] = '\0';
    add(text, "dp %d × tp %d × pp %d, micro-batch %zu", l->dp, l->tp, l->pp, l->micro);
    if (l->pp > 1) add(text, ", %s", ls_schedule_kind_name(l->schedule));
    if (l->virtual_stages > 1) add(text, " with %d virtual stages", l->virtual_stages);
    add(text, ", zero %d", l->zero);
    if (l->recompute != LS_RECOMPUTE_NONE) add(text, ", %s recomputation", ls_recompute_name(l->recompute));
    if (l->sequence_parallel) add(text, ", sequence parallel");
    add(text, ", %s", ls_plan_type_name(l->type));
}

void ls_plan_layout_short(const ls_plan_layout *l, char text[LS_PLAN_TEXT_MAX]) {
    text[0] = '\0';
    add(text, "dp %d tp %d pp %d", l->dp, l->tp, l->pp);
    if (l->virtual_stages > 1) add(text, "×%d", l->virtual_stages);
    add(text, " mb %zu z%d", l->micro, l->zero);
    if (l->recompute != LS_RECOMPUTE_NONE) add(text, " %s", ls_recompute_name(l->recompute));
}

static int put(json_t *object, ls_option_id id, json_t *value) {
    return json_object_set_new(object, ls_option_info_get(id)->name, value);
}

json_t *ls_plan_layout_to_json(const ls_plan_layout *l) {
    json_t *json = json_object();
    int bad = put(json, LS_OPT_dp, json_integer(l->dp));
    bad |= put(json, LS_OPT_tp, json_integer(l->tp));
    bad |= put(json, LS_OPT_pp, json_integer(l->pp));
    bad |= put(json, LS_OPT_schedule, json_string(ls_schedule_kind_name(l->schedule)));
    bad |= put(json, LS_OPT_virtual_stages, json_integer(l->virtual_stages));
    bad |= put(json, LS_OPT_zero, json_integer(l->zero));
    bad |= put(json, LS_OPT_recompute, json_string(ls_recompute_name(l->recompute)));
    bad |= put(json, LS_OPT_sequence_parallel, json_boolean(l->sequence_parallel));
    bad |= put(json, LS_OPT_micro_batch, json_integer((json_int_t)l->micro));
    if (!bad) return json;
    json_decref(json);
    return NULL;
}

ls_status ls_plan_layout_write(const char *path, const ls_plan_layout *layout) {
    json_t *json = ls_plan_layout_to_json(layout);
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a layout");
    ls_status status = ls_file_write_atomic(path, text, strlen(text));
    free(text);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "--out: ");
}
