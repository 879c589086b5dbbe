/* scale_page.c: composes the page of `lockstep scale --out`. */
#include <stdlib.h>

#include "base/files.h"
#include "report/scale_page.h"
#include "parallel/traffic/traffic.h"

/* Adds a factor and then `end`; a dash for 0, which means not known. */
static void put_factor_or_dash(ls_page *page, double value, const char *end) {
    if (value > 0)
        ls_page_put(page, "%.2f%s", value, end);
    else
        ls_page_put(page, "–%s", end);
}

/* Adds a cell in milliseconds with three digits or, from 1 s on, more. */
static void put_ms(ls_page *page, double seconds) {
    ls_page_put(page, "%.*f\t", seconds < .001 ? 3 : seconds < .01 ? 2 : seconds < .1 ? 1 : 0, 1e3 * seconds);
}

/* Adds the table of measured sizes: where the time goes, speedup and efficiency. */
static void put_table(ls_page *page, const ls_scale_found *f) {
    ls_page_add_table(
        page, "rrrrrrrrrrrr",
        "workers\tbatch\tstep, ms\tcompute\tsync\toverlap\toverhead\tidle\tratio\tspeed-up\teff.\tweak\n");
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        const double times[] = {p->seconds, p->compute, ls_scaling_sync_of(p), ls_scaling_hidden_of(p),
                                p->other,   p->idle};
        ls_page_put(page, "%d%s\t%zu\t", p->workers, p->crowding > 1 ? " *" : "", p->batch);
        for (size_t t = 0; t < sizeof times / sizeof *times; t++) put_ms(page, times[t]);
        put_factor_or_dash(page, ls_scale_ratio(p), "\t");
        put_factor_or_dash(page, ls_scale_speedup(f, p), "\t");
        put_factor_or_dash(page, ls_scale_speedup(f, p) / p->workers, "\t");
        put_factor_or_dash(page, ls_scale_weak(f, p), "\n");
    }
}

/* Adds the table of communication by kind; nothing if only one worker was measured. */
static void put_kinds(ls_page *page, const ls_scale_plan *plan, const ls_scale_found *f) {
    if (plan->counts < 2) return;
    ls_page_add_table(page, "rrlrrrr", "workers\tbatch\tkind of collective\tmessages\tMB\tsync, ms\toverlap, ms\n");
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++)
            if (p->messages[k] > 0)
                ls_page_put(page, "%d\t%zu\t%s\t%.0f\t%s\t%s\t%s\n", p->workers, p->batch,
                            ls_traffic_kind_name((ls_traffic_kind)k), p->messages[k],
                            ls_number_plain(1e-6 * p->bytes[k]).text, ls_number_plain(1e3 * p->sync[k]).text,
                            ls_number_plain(1e3 * p->hidden[k]).text);
    }
}

/* Adds the table of predictions; nothing if there are none. */
static void put_next(ls_page *page, const ls_scale_found *f) {
    if (f->nexts == 0 || !f->fitted) return;
    LS_TEXT(page,
            "Predicted for workers with cores of their own, from %.3g ms of compute per %s, %.3g µs per message and "
            "%.3g ns per byte; the fit matches the measured steps within %.1f %%.",
            1e3 * f->fit.sequence_s, ls_scale_sample(f), 1e6 * f->fit.latency_s, 1e9 * f->fit.byte_s,
            100 * f->fit.error);
    ls_page_add_table(page, "rrrrrrr", "workers\tbatch\tstep\trange\tspeed-up\teff.\tweak\n");
    for (int i = 0; i < f->nexts; i++) {
        const ls_scaling_point *p = &f->next[i];
        ls_page_put(page, "%d\t%zu\t%s\t%s to %s\t", p->workers, p->batch, LS_SECONDS(p->seconds), LS_SECONDS(p->low),
                    LS_SECONDS(p->high));
        put_factor_or_dash(page, ls_scale_speedup(f, p), "\t");
        put_factor_or_dash(page, ls_scale_speedup(f, p) / p->workers, "\t");
        put_factor_or_dash(page, ls_scale_weak(f, p), "\n");
    }
}

/* Adds, for each number of workers, from which batch or bandwidth on it is faster than one. */
static void put_crossovers(ls_page *page, const ls_scale_plan *plan, const ls_scale_found *f) {
    for (int i = 0; i < f->crossovers; i++) {
        const ls_scale_crossover *x = &f->crossover[i];
        if (x->batch == 0)
            LS_ITEM(page, "%d workers do not beat one at any batch size.", x->workers);
        else if (x->batch <= (size_t)x->workers)
            LS_ITEM(page, "%d workers beat one at any batch size.", x->workers);
        else
            LS_ITEM(page, "%d workers beat one from a batch of \1%zu\2 on (%s).", x->workers, x->batch,
                    ls_scale_range((double)x->batch_low, (double)x->batch_high).text);
        if (plan->link_bytes_per_s > 0 && x->rate > 0)
            LS_ITEM(page, "With batch %zu, %d workers beat one from \1%.4g Mbit/s\2 on (%s).",
                    plan->batch[plan->batches - 1], x->workers, 8e-6 * x->rate,
                    ls_scale_range(8e-6 * x->rate_low, 8e-6 * x->rate_high).text);
    }
}

/* Adds the section of a model. */
static void put_model(ls_page *page, const ls_scale_plan *plan, const ls_scale_found *f) {
    LS_HEADING(page, "%s", f->name);
    ls_scale_words words = ls_scale_say(plan, f);
    LS_TEXT(page, "%s.", words.about);
    LS_TEXT(page, "%s", words.why);
    LS_TEXT(page, "%s", words.limit);
    ls_scale_parts_chart(page, f);
    if (plan->counts > 1) ls_scale_speed_chart(page, f);
    put_table(page, f);
    put_kinds(page, plan, f);
    put_next(page, f);
    put_crossovers(page, plan, f);
}

/* Adds everything: title, a section for each model, and how to read it. */
static void put_page(ls_page *page, const ls_scale_plan *plan, const ls_scale_found *found, int count) {
    bool crowded = false;
    for (int m = 0; m < count; m++)
        for (int i = 0; i < found[m].points; i++) crowded = crowded || found[m].point[i].crowding > 1;
    ls_page_add(page, LS_PAGE_TITLE, "Do more workers help?");
    ls_page_add(page, LS_PAGE_LEAD, "Measured on %d core%s, %d thread%s per worker, over %s%s.", plan->cores,
                plan->cores == 1 ? "" : "s", plan->threads, plan->threads == 1 ? "" : "s",
                plan->opts->slow_link ? "a link of " : "shared memory",
                plan->opts->slow_link ? plan->opts->slow_link : "");
    for (int m = 0; m < count; m++) put_model(page, plan, &found[m]);
    LS_HEADING(page, "How to read this");
    LS_TEXT(page,
            "All times are means over the workers, of the faster half of the steps. Sync is exposed communication: "
            "time spent waiting after all workers had reached a collective. Overlap is communication that ran while "
            "the worker computed. Idle is waiting for the slowest worker. Overhead is the rest of a step. Ratio is "
            "compute over synchronisation, exposed and overlapped. Speed-up compares with one worker and the same "
            "batch, eff. is speed-up "
            "divided by workers, weak compares with one worker and the same number of sequences per worker.");
    if (crowded)
        LS_TEXT(page, "* More threads than cores, so they share cores: these rows do not predict workers with cores of "
                      "their own.");
}

ls_status ls_scale_page_write(const ls_scale_plan *plan, const ls_scale_found *found, int count, const char *path) {
    ls_page page = {0};
    char *text = NULL;
    size_t bytes = 0;
    put_page(&page, plan, found, count);
    ls_status status = ls_page_end(&page);
    if (status == LS_OK) status = ls_page_html(&page, &text, &bytes);
    if (status == LS_OK) status = ls_file_write_atomic(path, text, bytes);
    free(text);
    ls_page_free(&page);
    return status;
}
