/* run_options.c: the options of a training run before it starts: takes over those of a resumed or forked run from its
 * config.json, checks combinations, and fills in values that were left open. */
#include "api/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "config/saved_config.h"
#include "comm/launch/launcher.h"
#include "data/text/paths.h"
#include "model/shape_file.h"
#include "parallel/layout/layout.h"
#include "run/folder/run_dir.h"

/* ---- files that the config.json of a run names ------------------------------------------------------------------- */

/* Inputs (--data, --val-data, --tokenizer, --model, --layout) may be relative. They are looked for from the current
 * directory, as they always were, and then from the one in which the run was started, which config.json records.
 * Outputs stay in the run's folder: the run may belong to another user, whose config must not choose which of this
 * user's files is overwritten. */

/* Returns whether a name, or a pattern with wildcards, leads to at least one file. */
static bool is_there(const char *name) {
    ls_paths paths = {0};
    if (ls_file_exists(name)) return true;
    if (!strpbrk(name, "*?[") || ls_paths_expand(name, LS_SPLIT_ALL, &paths) != LS_OK) return false;
    ls_paths_fini(&paths);
    return true;
}

/* Appends one name of a list to `text`, with the folder `started_in` in front if it exists only there. Returns false if
 * there is no room. */
static bool append_name(char *text, size_t room, const char *name, const char *started_in) {
    char there[2 * PATH_MAX];
    size_t used = strlen(text);
    snprintf(there, sizeof there, "%s/%s", started_in, name);
    bool moved = *name && *name != '/' && !is_there(name) && is_there(there);
    return snprintf(text + used, room - used, "%s%s", used ? "," : "", moved ? there : name) < (int)(room - used);
}

/* Rewrites an option that is a list of files, each with the folder in which it is found; unchanged if nothing moves. */
static ls_status settle_list(ls_options *o, ls_option_id id, const char *started_in) {
    const char *old = o->source[id].text;
    size_t names = 1, room;
    for (const char *c = old; *c; c++) names += *c == ',';
    room = strlen(old) + names * (strlen(started_in) + 2) + 1;
    char *text = calloc(1, room), *list = strdup(old), *rest = list;
    bool whole = text && list;
    for (char *name; whole && (name = strsep(&rest, ",")) != NULL;) whole = append_name(text, room, name, started_in);
    ls_status status = whole ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a list of files");
    if (whole && strcmp(text, old) != 0) status = ls_options_put(o, id, text, LS_ORIGIN_FILE, 0);
    free(text);
    free(list);
    return status;
}

/* Rewrites input files of options that were read from the config.json of the run directory `run`, and from nowhere
 * else, so that they are found from the current directory. Does nothing if the run does not record where it was
 * started. */
static ls_status settle_inputs(const char *run, ls_options *o) {
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

/* Changes --trace FILE that comes from a config file to --trace run, with a warning: the config of another user must
 * not choose which file is overwritten. Flags and environment are the user's own and stay. */
static ls_status keep_outputs_inside(ls_options *o) {
    if (o->source[LS_OPT_trace].origin != LS_ORIGIN_FILE || !o->trace || strcmp(o->trace, "run") == 0) return LS_OK;
    ls_log_warn("the config names %.200s for the trace; it goes to trace.json in the run's folder instead: give "
                "--trace %.200s to write there",
                o->trace, o->trace);
    return ls_options_put(o, LS_OPT_trace, "run", LS_ORIGIN_FILE, 0);
}

/* ---- of the run before ------------------------------------------------------------------------------------------- */

/* Returns whether the options resume a run: --resume, or --resume auto with a run in --out. */
static bool is_resuming(const ls_options *given) {
    return given->resume || (given->resume_auto && given->out && ls_run_dir_holds_run(given->out));
}

/* Finds the run directory whose options are taken over, for --resume or --fork; "": none, as with --config. */
static void find_run(const ls_options *given, char run[PATH_MAX]) {
    const char *folder = is_resuming(given) ? given->out : given->fork;
    run[0] = '\0';
    if (!folder || given->config || strlen(folder) >= PATH_MAX) return;
    if (ls_run_dir_holds_run(folder))
        memcpy(run, folder, strlen(folder) + 1);
    else if (!given->fork || !ls_run_dir_of_checkpoint(folder, run))
        run[0] = '\0';
}

/* Returns whether one of these options has a value that is not the default. */
static bool any_given(const ls_options *given, const ls_option_id *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (given->source[ids[i]].origin != LS_ORIGIN_DEFAULT) return true;
    return false;
}

/* Resets the previous run's layout options that would collide with those given now, and its --workers under a
 * launcher. */
static void drop_layout(const ls_options *given, ls_options *out) {
    static const ls_option_id mesh[] = {LS_OPT_workers, LS_OPT_dp, LS_OPT_tp, LS_OPT_pp, LS_OPT_layout};
    static const ls_option_id order[] = {LS_OPT_schedule, LS_OPT_virtual_stages, LS_OPT_stages};
    if (any_given(given, mesh, sizeof mesh / sizeof *mesh)) {
        ls_options_reset(out, LS_OPT_layout);
        for (int i = 0; i < LS_OPTION_COUNT; i++)
            if (ls_layout_is_option((ls_option_id)i)) ls_options_reset(out, (ls_option_id)i);
    } else if (any_given(given, order, sizeof order / sizeof *order)) {
        for (size_t i = 0; i < sizeof order / sizeof *order; i++) ls_options_reset(out, order[i]);
    }
    if (ls_launcher_place().size > 0) ls_options_reset(out, LS_OPT_workers); /* the launcher says how many */
}

/* Logs a warning, in the first process if a launcher started several. */
static void warn_damaged(const char *run, const char *then) {
    if (ls_launcher_place().rank <= 0)
        ls_log_warn("%.200s/" LS_CONFIG_FILE
                    " is damaged or was edited: %s; if you edited it, give the edited file with --config FILE",
                    run, then);
}

/* Finds the sound config.json of the run, or its copy, with a warning if it is damaged. Returns false if there is
 * neither. */
static bool find_config(const char *run, char path[PATH_MAX]) {
    ls_saved_config found = ls_saved_config_find(run, path);
    if (found == LS_CONFIG_OF_COPY)
        warn_damaged(run, "the options are read from its copy");
    else if (found == LS_CONFIG_DAMAGED)
        warn_damaged(run, "its copy is damaged or missing too, so only the options of this command apply");
    return found == LS_CONFIG_SOUND || found == LS_CONFIG_OF_COPY;
}

/* Reads the options of the run into *out, without those that belong to one invocation or, for a fork, to the model. No
 * config.json: changes nothing. */
static ls_status take_over(const char *run, bool fork, ls_options *out) {
    static const ls_option_id own[] = {LS_OPT_out,       LS_OPT_resume,    LS_OPT_resume_auto, LS_OPT_fork,
                                       LS_OPT_transport, LS_OPT_slow_link, LS_OPT_json};
    static const ls_option_id of_model[] = {LS_OPT_model, LS_OPT_preset};
    char path[PATH_MAX];
    if (!find_config(run, path)) return LS_OK;
    LS_TRY(ls_options_put(out, LS_OPT_config, path, LS_ORIGIN_FLAG, 0));
    LS_TRY(ls_options_read_file(out, LS_COMMAND_TRAIN));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) ls_options_reset(out, own[i]);
    for (size_t i = 0; fork && i < sizeof of_model / sizeof *of_model; i++) ls_options_reset(out, of_model[i]);
    return settle_inputs(run, out);
}

ls_status ls_run_options_inherit(const ls_options *given, ls_options *out) {
    char run[PATH_MAX];
    ls_options_defaults(out);
    find_run(given, run);
    if (run[0]) {
        LS_TRY(take_over(run, given->fork != NULL, out));
        drop_layout(given, out);
    }
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option_source *source = &given->source[i];
        if (source->origin != LS_ORIGIN_DEFAULT)
            LS_TRY(ls_options_put(out, (ls_option_id)i, source->text, source->origin, source->line));
    }
    if (given->resume_auto && is_resuming(given)) LS_TRY(ls_options_put(out, LS_OPT_resume, "true", LS_ORIGIN_FLAG, 0));
    return keep_outputs_inside(out);
}

/* ---- what they mean ---------------------------------------------------------------------------------------------- */

ls_status ls_run_options_check(const ls_options *o) {
    bool launched = ls_launcher_place().size > 0;
    if (launched && o->transport == LS_TRANSPORT_SHM)
        return ls_options_fail(
            o, LS_OPT_transport,
            "mpirun or srun started this process: leave --transport out, or start lockstep without a launcher");
    if (!launched && o->transport == LS_TRANSPORT_MPI)
        return ls_options_fail(o, LS_OPT_transport,
                               "start it with mpirun or srun (mpirun -n 4 lockstep train …), or leave --transport out");
    if (o->resume_auto && !o->out) return ls_options_fail(o, LS_OPT_resume_auto, "name the run: --out DIR");
    if (o->resume && !o->out) return ls_options_fail(o, LS_OPT_resume, "name the run to resume: --out DIR");
    if (o->resume) LS_TRY(ls_run_dir_check_resume(o->out)); /* before what a new run would lack is asked for */
    if (o->preset && o->model) return ls_options_fail(o, LS_OPT_preset, "--model is given too; use one of them");
    if (o->fork && (o->preset || o->model))
        return ls_options_fail(o, LS_OPT_fork, "a fork keeps the model of its run; leave --model and --preset out");
    if (o->resume && o->fork) return ls_options_fail(o, LS_OPT_fork, "a run is resumed or forked, not both");
    return LS_OK;
}

/* Returns whether the run directory has a checkpoint, complete or not; false if it cannot be read. */
static bool has_checkpoint(const char *run) {
    ls_store *store = NULL;
    ls_store_entry *entries = NULL;
    int count = 0;
    if (ls_store_open(run, LS_STORE_READ, &store) != LS_OK) return false;
    bool has = ls_store_list(store, &entries, &count) == LS_OK && count > 0;
    free(entries);
    ls_store_close(store);
    return has;
}

const char *ls_run_model_name(const ls_options *o) {
    const char *named = o->fork ? o->fork : o->preset ? o->preset : o->model;
    return named ? named : o->resume && has_checkpoint(o->out) ? o->out : "tiny";
}

ls_status ls_run_options_pin(ls_options *o, const ls_settings *set) {
    const struct {
        ls_option_id id;
        int64_t value;
    } open[] = {{LS_OPT_seq, (int64_t)set->T},         {LS_OPT_global_batch, (int64_t)set->B},
                {LS_OPT_groups, set->groups},          {LS_OPT_slices, set->slices},
                {LS_OPT_warmup, set->lr.warmup_steps}, {LS_OPT_eval_every, set->options.eval_every}};
    if (o->source[LS_OPT_matrix_unit].origin == LS_ORIGIN_DEFAULT)
        LS_TRY(ls_options_put(o, LS_OPT_matrix_unit, ls_unit_name(set->policy.unit), LS_ORIGIN_FILE, 0));
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        char text[32];
        if (o->source[open[i].id].origin != LS_ORIGIN_DEFAULT) continue;
        snprintf(text, sizeof text, "%lld", (long long)open[i].value);
        LS_TRY(ls_options_put(o, open[i].id, text, LS_ORIGIN_FILE, 0));
    }
    return LS_OK;
}
