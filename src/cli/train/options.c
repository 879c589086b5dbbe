/* options.c: the options of `lockstep train`. */
#include "cli/train/options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "checkpoint/store.h"
#include "cli/cli.h"
#include "cli/train/paths.h"
#include "parallel/layout/layout.h"
#include "run/folder/run_dir.h"

/* ---- of the run before ------------------------------------------------------------------------------------------- */

/* The run whose options are taken over; "": none. */
static void find_run(const ls_options *given, char run[PATH_MAX]) {
    const char *folder = given->resume ? given->out : given->fork;
    run[0] = '\0';
    if (!folder || given->config || strlen(folder) >= PATH_MAX) return;
    if (ls_run_dir_holds_run(folder))
        memcpy(run, folder, strlen(folder) + 1);
    else if (!given->fork || !ls_run_dir_of_checkpoint(folder, run))
        run[0] = '\0';
}

static bool any_given(const ls_options *given, const ls_option_id *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (given->source[ids[i]].origin != LS_ORIGIN_DEFAULT) return true;
    return false;
}

/* A run may go on under another layout. What the former one said of the workers, or of the order of the work, would
 * collide with what is said of it now. */
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

static ls_status take_over(const char *run, bool fork, ls_options *out) {
    static const ls_option_id own[] = {LS_OPT_out, LS_OPT_resume, LS_OPT_fork, LS_OPT_transport, LS_OPT_slow_link};
    static const ls_option_id of_model[] = {LS_OPT_model, LS_OPT_preset};
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/config.json", run);
    if (length >= PATH_MAX || !ls_file_exists(path)) return LS_OK;
    LS_TRY(ls_options_set(out, LS_OPT_config, path, LS_ORIGIN_FLAG, 0));
    LS_TRY(ls_options_read_file(out, LS_COMMAND_TRAIN));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) ls_options_reset(out, own[i]);
    for (size_t i = 0; fork && i < sizeof of_model / sizeof *of_model; i++) ls_options_reset(out, of_model[i]);
    return ls_train_paths_settle(run, out);
}

ls_status ls_train_options_inherit(const ls_options *given, ls_options *out) {
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
            LS_TRY(ls_options_set(out, (ls_option_id)i, source->text, source->origin, source->line));
    }
    return ls_train_paths_keep_outputs_inside(out);
}

/* ---- what they mean ---------------------------------------------------------------------------------------------- */

ls_status ls_train_options_check(const ls_options *o) {
    bool launched = ls_launcher_place().size > 0;
    if (launched && o->transport == LS_TRANSPORT_SHM)
        return ls_options_fail(
            o, LS_OPT_transport,
            "mpirun or srun started this process: leave --transport out, or start lockstep without a launcher");
    if (!launched && o->transport == LS_TRANSPORT_MPI)
        return ls_options_fail(o, LS_OPT_transport,
                               "start it with mpirun or srun (mpirun -n 4 lockstep train …), or leave --transport out");
    if (o->resume && !o->out) return ls_options_fail(o, LS_OPT_resume, "name the run to resume: --out DIR");
    if (o->preset && o->model) return ls_options_fail(o, LS_OPT_preset, "--model is given too; use one of them");
    if (o->fork && (o->preset || o->model))
        return ls_options_fail(o, LS_OPT_fork, "a fork keeps the model of its run; leave --model and --preset out");
    if (o->resume && o->fork) return ls_options_fail(o, LS_OPT_fork, "a run is resumed or forked, not both");
    return LS_OK;
}

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

const char *ls_train_model_name(const ls_options *o) {
    const char *named = o->fork ? o->fork : o->preset ? o->preset : o->model;
    return named ? named : o->resume && has_checkpoint(o->out) ? o->out : "tiny";
}

ls_status ls_train_options_pin(ls_options *o, const ls_settings *set) {
    const struct {
        ls_option_id id;
        int64_t value;
    } open[] = {{LS_OPT_seq, (int64_t)set->T},         {LS_OPT_global_batch, (int64_t)set->B},
                {LS_OPT_groups, set->groups},          {LS_OPT_slices, set->slices},
                {LS_OPT_warmup, set->lr.warmup_steps}, {LS_OPT_eval_every, set->eval_every}};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        char text[32];
        if (o->source[open[i].id].origin != LS_ORIGIN_DEFAULT) continue;
        snprintf(text, sizeof text, "%lld", (long long)open[i].value);
        LS_TRY(ls_options_set(o, open[i].id, text, LS_ORIGIN_FILE, 0));
    }
    return LS_OK;
}
