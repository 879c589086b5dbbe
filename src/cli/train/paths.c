/* paths.c: where the files are that a config names. */
#include "cli/train/paths.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "data/text/paths.h"
#include "model/shape_file.h"
#include "run/folder/run_dir.h"

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* A name or a pattern that leads to a file. */
static bool is_there(const char *name) {
    ls_paths paths = {0};
    if (ls_file_exists(name)) return true;
    if (!strpbrk(name, "*?[") || ls_paths_expand(name, LS_SPLIT_ALL, &paths) != LS_OK) return false;
    ls_paths_fini(&paths);
    return true;
}

/* Appends one name of a list to `text`, from the folder where it is found. False: no room. */
static bool append_name(char *text, size_t room, const char *name, const char *started_in) {
    char there[2 * PATH_MAX];
    size_t used = strlen(text);
    snprintf(there, sizeof there, "%s/%s", started_in, name);
    bool moved = *name && *name != '/' && !is_there(name) && is_there(there);
    return snprintf(text + used, room - used, "%s%s", used ? "," : "", moved ? there : name) < (int)(room - used);
}

static ls_status settle_list(ls_options *o, ls_option_id id, const char *started_in) {
    const char *old = o->source[id].text;
    size_t names = 1, room;
    for (const char *c = old; *c; c++) names += *c == ',';
    room = strlen(old) + names * (strlen(started_in) + 2) + 1;
    char *text = calloc(1, room), *list = strdup(old), *rest = list;
    bool whole = text && list;
    for (char *name; whole && (name = strsep(&rest, ",")) != NULL;) whole = append_name(text, room, name, started_in);
    ls_status status = whole ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a list of files");
    if (whole && strcmp(text, old) != 0) status = ls_options_set(o, id, text, LS_ORIGIN_FILE, 0);
    free(text);
    free(list);
    return status;
}

ls_status ls_train_paths_settle(const char *run, ls_options *o) {
    static const ls_option_id inputs[] = {LS_OPT_data, LS_OPT_val_data, LS_OPT_tokenizer, LS_OPT_model, LS_OPT_layout};
    char started_in[PATH_MAX];
    ls_shape shape;
    if (!ls_run_dir_started_in(run, started_in) || started_in[0] != '/') return LS_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        ls_option_id id = inputs[i];
        if (o->source[id].origin != LS_ORIGIN_FILE || !o->source[id].text) continue;
        if (id == LS_OPT_model && ls_shape_preset(o->source[id].text, &shape) == LS_OK) continue;
        LS_TRY(settle_list(o, id, started_in));
    }
    return LS_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

ls_status ls_train_paths_keep_outputs_inside(ls_options *o) {
    if (o->source[LS_OPT_trace].origin != LS_ORIGIN_FILE || !o->trace || strcmp(o->trace, "run") == 0) return LS_OK;
    ls_log_warn("the config names %.200s for the trace; it goes to trace.json in the run's folder instead: give "
                "--trace %.200s to write there",
                o->trace, o->trace);
    return ls_options_set(o, LS_OPT_trace, "run", LS_ORIGIN_FILE, 0);
}
