/* page.c: composes the sections of a page of runs, and writes the report. */
#include "report/run/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "observe/diagnose/diagnose.h"
#include "report/numbers.h"

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* Adds a line to the block of key figures. */
static void put_fact(ls_page *page, const char *value, const char *what) { ls_page_put(page, "%s\t%s\n", value, what); }

/* Adds the mean training loss of the last steps, and that of the last step. */
static void put_losses(ls_page *page, const ls_view_facts *f) {
    char value[32], what[64];
    snprintf(value, sizeof value, "%.4f", f->train_loss);
    snprintf(what, sizeof what, "training loss, mean of the last %d steps", f->train_window);
    if (isfinite(f->train_loss) && f->train_window > 1) put_fact(page, value, what);
    snprintf(value, sizeof value, "%.4f", f->last_loss);
    if (f->step > 0) put_fact(page, value, "training loss of the last step");
}

/* Adds the block of key figures; leaves out what is not known. */
static void put_facts(ls_page *page, const ls_view *run, const ls_view_facts *f) {
    char text[80];
    ls_page_add(page, LS_PAGE_FACTS, "%s", "");
    if (f->steps > 0)
        snprintf(text, sizeof text, "%s of %s", LS_WHOLE((double)f->step), LS_WHOLE((double)f->steps));
    else
        snprintf(text, sizeof text, "%s", LS_WHOLE((double)f->step));
    put_fact(page, text, "steps done");
    put_fact(page, f->state, "state");
    put_losses(page, f);
    snprintf(text, sizeof text, "%.4f", f->loss);
    if (isfinite(f->loss)) put_fact(page, text, "validation loss");
    if (f->speed > 0) put_fact(page, LS_WHOLE(f->speed), run->is_images ? "images per second" : "tokens per second");
    if (f->mfu > 0) put_fact(page, LS_PERCENT(f->mfu), "MFU");
    if (f->eta_s > 0) put_fact(page, LS_SECONDS(f->eta_s), "left");
    if (f->trained_s > 0) put_fact(page, LS_SECONDS(f->trained_s), "in steps");
    if (f->goodput > 0) put_fact(page, LS_PERCENT(f->goodput), "goodput");
}

/* Adds the evidence of a finding and its advice. */
static void put_cause(ls_page *page, const ls_finding *f) {
    for (int i = 0; i < f->evidence_count; i++) LS_ITEM(page, "%s", f->evidence[i]);
    if (f->action[0]) LS_TEXT(page, "What to do: %s", f->action);
}

/* Adds the title of a finding, its evidence and its advice. */
static void put_finding(ls_page *page, const ls_finding *f) {
    LS_TEXT(page, "\1%s\2", f->title);
    put_cause(page, f);
}

/* Adds the section with the doctor's diagnosis. d NULL: there is none, because the run has too many steps for a live
 * page. */
static void put_doctor(ls_page *page, const ls_view *run, const ls_diagnosis *d) {
    const ls_run_log *log = ls_view_log(run);
    LS_HEADING(page, "What the doctor says");
    if (!d) {
        LS_TEXT(
            page,
            "There are %s steps, too many to diagnose on this page; run \1lockstep doctor %s\2, or lockstep report.",
            LS_WHOLE((double)log->step_count), run->folder.text);
        return;
    }
    if (d->verdict == LS_VERDICT_CLEAN)
        LS_TEXT(page, "The recorded data shows no problem.");
    else if (d->verdict == LS_VERDICT_NOT_ENOUGH)
        LS_TEXT(page, "Too little was recorded for a diagnosis.");
    for (int i = 0; i < d->finding_count && i < 6; i++) put_finding(page, &d->finding[i]);
    if (d->use.steps > 0) {
        LS_TEXT(page, "Where the time of all workers went:");
        ls_page_add_table(page, "lr", "what\tshare of the time\n");
        for (int u = 0; u < LS_USES; u++)
            if (d->use.share[u] >= .001)
                ls_page_put(page, "%s\t%s\n", ls_use_name((ls_use)u), LS_PERCENT(d->use.share[u]));
    }
    for (int i = 0; i < d->missing_count; i++) LS_ITEM(page, "not recorded: %s", d->missing[i]);
    if (run->doctor->steps < log->step_count)
        LS_TEXT(page, "Covers the steps up to %lld.", log->steps[run->doctor->steps - (run->doctor->steps > 0)].step);
}

/* Adds the last three texts that the run generated; nothing without any. */
static void put_samples(ls_page *page, const ls_run_log *log) {
    enum { SHOWN = 3, BYTES = 4000 };
    if (log->sample_count == 0) return;
    LS_HEADING(page, "Samples");
    for (size_t i = log->sample_count, n = 0; i-- > 0 && n < SHOWN; n++) {
        LS_TEXT(page, "At step %lld:", log->samples[i].step);
        ls_page_add(page, LS_PAGE_CODE, "%.*s", BYTES, log->samples[i].text);
    }
}

/* Adds the table of the run's options. */
static void put_options(ls_page *page, const ls_run_log *log) {
    LS_HEADING(page, "Configuration");
    ls_page_add_table(page, "ll", "option\tvalue\n");
    for (size_t i = 0; i < log->option_count; i++)
        if (log->options[i].value[0]) ls_page_put(page, "%s\t%s\n", log->options[i].name, log->options[i].value);
}

/* Reads a text member of a small JSON file in the run's folder; "" if there is none. */
static void read_member(const char *folder, const char *file, const char *member, char *out, size_t room) {
    ls_path path = ls_path_in(folder, file);
    json_t *root = NULL;
    const char *value = NULL;
    out[0] = '\0';
    if (ls_json_load_file(path.text, 1 << 20, &root) != LS_OK) return;
    if (json_is_object(root)) value = json_string_value(json_object_get(root, member));
    if (value) ls_run_log_copy_text(out, room, value);
    json_decref(root);
}

/* Adds the section with the identity's hash (two runs with the same one have the same bits), the newest checkpoint and
 * the hash of its weights. */
static void put_identity(ls_page *page, const ls_view *run) {
    const ls_run_log *log = ls_view_log(run);
    char hash[64], latest[64], weights[64] = "";
    const ls_run_log_step *last = log->step_count > 0 ? &log->steps[log->step_count - 1] : NULL;
    read_member(run->folder.text, "identity.json", "hash", hash, sizeof hash);
    ls_path link = ls_path_in(run->folder.text, "checkpoints/latest");
    char *text;
    size_t bytes;
    latest[0] = '\0';
    if (ls_file_read(link.text, 60, &text, &bytes) == LS_OK) {
        text[strcspn(text, " \n")] = '\0';
        ls_run_log_copy_text(latest, sizeof latest, text);
        free(text);
    }
    if (latest[0] && !strchr(latest, '/')) {
        ls_path state = ls_path_format("checkpoints/%s/state.json", latest);
        read_member(run->folder.text, state.text, "weights_xxh128", weights, sizeof weights);
    }
    LS_HEADING(page, "Identity and hashes");
    LS_TEXT(page,
            "Two runs with the same identity have the same bits after every step, whatever their layout and machine.");
    ls_page_add_table(page, "ll", "what\tvalue\n");
    ls_page_put(page, "folder\t%s\n", run->folder.text);
    if (hash[0]) ls_page_put(page, "identity\t%s\n", hash);
    if (log->start.version[0]) ls_page_put(page, "lockstep\t%s\n", log->start.version);
    if (log->start.cpu[0])
        ls_page_put(page, "machine\t%s, %d thread%s a worker, device %s\n", log->start.cpu, log->start.threads,
                    log->start.threads == 1 ? "" : "s", log->start.device);
    if (log->device.is_gpu)
        ls_page_put(page, "GPU\t%d × %s, %s\n", log->device.gpus, log->device.gpu, log->device.precision);
    if (last && last->state_before[0])
        ls_page_put(page, "state before step %lld\t%s\n", last->step, last->state_before);
    if (last) ls_page_put(page, "loss of step %lld\t%a\n", last->step, last->loss);
    if (latest[0]) ls_page_put(page, "newest checkpoint\t%s\n", latest);
    if (weights[0]) ls_page_put(page, "its weights, xxh128\t%s\n", weights);
    if (log->damaged_lines > 0) ls_page_put(page, "damaged lines of metrics\t%lld\n", log->damaged_lines);
}

/* ---- several ----------------------------------------------------------------------------------------------------- */

/* Adds a cell; a dash if the value is not finite. */
static void put_number(ls_page *page, int digits, double value) {
    char text[32] = "–";
    if (isfinite(value)) snprintf(text, sizeof text, "%.*f", digits, value);
    ls_page_put(page, "\t%s", text);
}

/* Returns the diagnosis in a few words. d NULL: not made yet. */
static const char *name_verdict(const ls_diagnosis *d) {
    if (!d) return "not diagnosed yet";
    if (d->cause_count > 0) return ls_cause_name(d->finding[0].cause);
    return d->verdict == LS_VERDICT_CLEAN ? "nothing found" : "too few steps";
}

/* Adds a table with a row for each run. is_live: long runs are diagnosed later, or never. */
static ls_status put_comparison(ls_page *page, const ls_view *runs, int count, bool is_live) {
    LS_HEADING(page, "Comparison");
    ls_page_add_table(page, "llrrrrrrrl",
                      "run\tstate\tsteps\tmean training loss\tlast training loss\tvalidation loss\tbest\ttokens/s\t"
                      "time in steps\tdoctor\n");
    for (int r = 0; r < count; r++) {
        ls_view_facts f;
        const ls_diagnosis *d;
        LS_TRY(ls_view_diagnose(&runs[r], is_live, &d));
        ls_view_facts_find(ls_view_log(&runs[r]), &f);
        ls_page_put(page, "%s\t%s\t%s", runs[r].name, f.state, LS_WHOLE((double)f.step));
        put_number(page, 4, f.train_loss);
        if (isfinite(f.train_loss) && f.train_window > 1) ls_page_put(page, " (%d steps)", f.train_window);
        put_number(page, 4, f.last_loss);
        put_number(page, 4, f.loss);
        put_number(page, 4, f.best_loss);
        put_number(page, 0, f.speed);
        ls_page_put(page, "\t%s\t%s\n", f.trained_s > 0 ? LS_SECONDS(f.trained_s) : "–", name_verdict(d));
    }
    return LS_OK;
}

/* Returns the value of a run's option; "": not recorded. */
static const char *value_of(const ls_run_log *log, const char *name) {
    const char *value = ls_run_log_option_get(log, name);
    return value ? value : "";
}

/* Returns whether option `name` is in the table already, or needs no row: all runs have the same value, or it is the
 * run's folder. `run` is the first run that has the option. */
static bool is_same_or_listed(const ls_view *runs, int count, int run, const char *name) {
    const char *value = value_of(ls_view_log(&runs[run]), name);
    bool same = true;
    for (int r = 0; r < run; r++)
        if (ls_run_log_option_get(ls_view_log(&runs[r]), name)) return true;
    for (int r = 0; r < count; r++) same = same && strcmp(value, value_of(ls_view_log(&runs[r]), name)) == 0;
    return same || strcmp(name, "out") == 0;
}

/* Adds a table of the options whose values differ between runs, those that only some of the runs have among them. */
static void put_differences(ls_page *page, const ls_view *runs, int count) {
    bool any = false;
    /* The page keeps the pointer: one text for each number of runs. */
    static const char *const aligns[] = {"l",      "ll",      "lll",      "llll",     "lllll",
                                         "llllll", "lllllll", "llllllll", "lllllllll"};
    for (int run = 0; run < count; run++) {
        const ls_run_log *log = ls_view_log(&runs[run]);
        for (size_t i = 0; i < log->option_count; i++) {
            const char *name = log->options[i].name;
            if (is_same_or_listed(runs, count, run, name)) continue;
            if (!any) {
                LS_TEXT(page, "Options that differ:");
                ls_page_add_table(page, aligns[count], "option");
                for (int r = 0; r < count; r++) ls_page_put(page, "\t%s", runs[r].name);
                ls_page_put(page, "\n");
            }
            any = true;
            ls_page_put(page, "%s", name);
            for (int r = 0; r < count; r++) ls_page_put(page, "\t%s", value_of(ls_view_log(&runs[r]), name));
            ls_page_put(page, "\n");
        }
    }
    if (!any) LS_TEXT(page, "All options of the runs are the same.");
}

/* Adds the section of one of several runs: sentences, and the first cause that the doctor names. */
static ls_status put_run(ls_page *page, const ls_view *run) {
    const ls_diagnosis *d;
    ls_view_facts f;
    LS_TRY(ls_view_diagnose(run, false, &d));
    ls_view_facts_find(ls_view_log(run), &f);
    LS_HEADING(page, "%s", run->name);
    ls_run_words(page, run, &f, d);
    if (d->cause_count > 0) put_cause(page, &d->finding[0]);
    return LS_OK;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Adds all charts over steps. */
static ls_status put_curves(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *o) {
    LS_HEADING(page, "Loss");
    LS_TRY(ls_run_loss_charts(page, runs, count, o));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_ACCURACY));
    LS_HEADING(page, "Learning rate and gradients");
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_LR));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_NORM));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_SCALE));
    LS_HEADING(page, "Speed and memory");
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_SPEED));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_MFU));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_STEP_TIME));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_GOODPUT));
    LS_TRY(ls_run_chart(page, runs, count, o, LS_VIEW_MEMORY));
    return ls_run_chart(page, runs, count, o, LS_VIEW_GPU_MEMORY);
}

ls_status ls_run_page_fill(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *o) {
    const ls_run_log *log = ls_view_log(&runs[0]);
    const ls_diagnosis *d = NULL;
    ls_view_facts f;
    ls_view_facts_find(log, &f);
    if (count == 1) {
        ls_page_add(page, LS_PAGE_TITLE, "%s", runs[0].name);
        ls_page_add(page, LS_PAGE_LEAD, "%s%s%s, %s", f.model[0] ? f.model : "a model", f.layout[0] ? ", " : "",
                    f.layout, f.state);
        LS_TRY(ls_view_diagnose(&runs[0], o->is_live, &d));
        put_facts(page, &runs[0], &f);
        ls_run_words(page, &runs[0], &f, d);
    } else {
        ls_page_add(page, LS_PAGE_TITLE, "%d runs", count);
        ls_page_add(page, LS_PAGE_LEAD, "%s", runs[0].name);
        for (int r = 1; r < count; r++) ls_page_put(page, ", %s", runs[r].name);
        LS_TRY(put_comparison(page, runs, count, o->is_live));
        put_differences(page, runs, count);
        if (!o->is_live) {
            for (int r = 0; r < count; r++) LS_TRY(put_run(page, &runs[r]));
        }
    }
    LS_TRY(put_curves(page, runs, count, o));
    if (count > 1) return LS_OK;
    LS_HEADING(page, "Workers");
    ls_run_layout_chart(page, log, o->now);
    if (!ls_run_time_chart(page, log))
        LS_TEXT(page, "The time of workers by activity is recorded if there are several.");
    if (o->is_live) put_samples(page, log);
    ls_run_events(page, log);
    put_doctor(page, &runs[0], d);
    if (!o->is_live) put_samples(page, log);
    put_identity(page, &runs[0]);
    put_options(page, log);
    return LS_OK;
}

ls_status ls_report_write(const char *const *folders, int count, const char *path) {
    ls_view *runs = calloc((size_t)count, sizeof *runs);
    ls_page *page = calloc(1, sizeof *page);
    ls_run_page_options options = {.x = LS_VIEW_BY_STEP};
    char *text = NULL;
    size_t bytes = 0;
    int opened = 0;
    ls_status status = runs && page ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a report");
    for (; status == LS_OK && opened < count; opened += status == LS_OK) {
        status = ls_view_open(folders[opened], &runs[opened]);
        if (status == LS_OK && ls_view_log(&runs[opened])->step_count > 400) options.smooth = 1;
        if (status == LS_OK && ls_view_log(&runs[opened])->step_count > 20000) options.smooth = 2;
    }
    if (status == LS_OK) status = ls_run_page_fill(page, runs, count, &options);
    if (status == LS_OK) status = ls_page_end(page);
    if (status == LS_OK) status = ls_page_html(page, &text, &bytes);
    if (status == LS_OK) status = ls_file_write_atomic(path, text, bytes);
    free(text);
    if (page) ls_page_free(page);
    free(page);
    while (opened > 0) ls_view_close(&runs[--opened]);
    free(runs);
    return status;
}
