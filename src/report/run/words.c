/* words.c: describes a run in sentences, and its events. */
#include <math.h>
#include <string.h>

#include "numerics/elementary.h"
#include "report/numbers.h"
#include "report/run/page.h"

void ls_run_event_text(const ls_run_log_event *e, char *text, size_t room) {
    int used = snprintf(text, room, "step %lld: ", e->step);
    if (used < 0 || (size_t)used >= room) return;
    text += used;
    room -= (size_t)used;
    switch (e->kind) {
    case LS_EVENT_OVERFLOW: snprintf(text, room, "overflow, update skipped, loss scale lowered"); break;
    case LS_EVENT_FLOOR: snprintf(text, room, "overflow at the lowest loss scale"); break;
    case LS_EVENT_NON_FINITE:
        snprintf(text, room, "%s in %s %s", e->value[0] ? e->value : "not finite", e->block, e->tensor);
        break;
    case LS_EVENT_OUTLIER:
        if (e->group == LS_RUN_NONE)
            snprintf(text, room, "the gradient of worker %d stands out (score %.3g)", e->worker, e->score);
        else
            snprintf(text, room, "gradient group %d stands out (score %.3g): %s", e->group, e->score, e->what);
        break;
    case LS_EVENT_REPLICA: snprintf(text, room, "replicas differ in %s %s", e->block, e->tensor); break;
    case LS_EVENT_STATE:
        snprintf(text, room, "worker %d: %s of %s changed in memory", e->worker, e->what, e->tensor);
        break;
    case LS_EVENT_AUDIT:
        snprintf(text, room, "audit: two computations of group %d differ, worker %d", e->group, e->worker);
        break;
    case LS_EVENT_STOPPED: snprintf(text, room, "stopped: %s", e->what); break;
    default: snprintf(text, room, "an event that this version does not know"); break;
    }
}

void ls_run_events(ls_page *page, const ls_run_log *log) {
    enum { SHOWN = 60 };
    char text[LS_RUN_TEXT_MAX + 3 * LS_RUN_NAME_MAX];
    size_t all = log->event_count + (log->start_count > 1 ? log->start_count - 1 : 0);
    if (all == 0) return;
    LS_HEADING(page, "Events");
    size_t first = log->start_count > SHOWN / 2 ? log->start_count - SHOWN / 2 : 1;
    for (size_t i = first; i < log->start_count; i++) {
        const ls_run_log_start *s = &log->starts[i];
        if (s->restart > 0 && isfinite(s->recovery_ms))
            LS_ITEM(page, "step %lld: a worker was lost; new workers continued after %s", s->step,
                    LS_SECONDS(s->recovery_ms / 1e3));
        else if (s->restart > 0)
            LS_ITEM(page, "step %lld: a worker was lost; new workers continued", s->step);
        else
            LS_ITEM(page, "step %lld: the run was resumed", s->step);
    }
    for (size_t i = log->event_count > SHOWN ? log->event_count - SHOWN : 0; i < log->event_count; i++) {
        ls_run_event_text(&log->events[i], text, sizeof text);
        LS_ITEM(page, "%s", text);
    }
    if (all > SHOWN) LS_TEXT(page, "The newest of %zu events; metrics.jsonl has them all.", all);
}

/* Adds a paragraph: what was trained, how many steps are done, how long it took, and how it ended. */
static void say_what(ls_page *page, const ls_view *run, const ls_view_facts *f) {
    const ls_run_log *log = ls_view_log(run);
    const char *data = ls_run_log_option_get(log, "data"), *precision = ls_run_log_option_get(log, "precision");
    const char *optimizer = ls_run_log_option_get(log, "optimizer");
    LS_TEXT(page, "\1%s\2%s%s was trained%s%s", f->model[0] ? f->model : "A model", f->layout[0] ? " on " : "",
            f->layout, data ? " with " : "", data ? data : "");
    if (precision) ls_page_put(page, ", in %s", precision);
    if (optimizer) ls_page_put(page, ", by %s", optimizer);
    ls_page_put(page, ". ");
    if (f->steps > 0)
        ls_page_put(page, "\1%s of %s steps\2 are done", LS_WHOLE((double)f->step), LS_WHOLE((double)f->steps));
    else
        ls_page_put(page, "\1%s steps\2 are done", LS_WHOLE((double)f->step));
    if (f->tokens > 0) ls_page_put(page, ", on %s %s", LS_SHORT(f->tokens), run->is_images ? "images" : "tokens");
    if (f->trained_s > 0) ls_page_put(page, ", in %s of training", LS_SECONDS(f->trained_s));
    if (f->goodput > 0) ls_page_put(page, ", which is %s of the time that passed", LS_PERCENT(f->goodput));
    ls_page_put(page, ". ");
    if (strcmp(f->state, "training") == 0)
        ls_page_put(page, "The run is training%s%s%s. ", f->eta_s > 0 ? ", about " : "",
                    f->eta_s > 0 ? LS_SECONDS(f->eta_s) : "", f->eta_s > 0 ? " are left" : "");
    else if (strcmp(f->state, "stopped") == 0)
        ls_page_put(page, "It stopped before its last step: %s. ", log->stop);
    else if (strcmp(f->state, "ended early") == 0)
        ls_page_put(page,
                    "It ended before its last step and recorded no reason: it was killed, or the machine went down. ");
}

/* Adds the losses of the last steps and of validation. */
static void say_how_well(ls_page *page, const ls_view *run, const ls_view_facts *f) {
    if (f->step > 0) LS_TEXT(page, "The training loss of the last step is \1%.4f\2", f->last_loss);
    if (f->step > 0 && isfinite(f->train_loss) && f->train_window > 1)
        ls_page_put(page, ", the mean of the last %d steps \1%.4f\2", f->train_window, f->train_loss);
    if (f->step > 0) ls_page_put(page, ". ");
    if (!isfinite(f->loss)) return;
    ls_page_put(page, "The validation loss is \1%.4f\2", f->loss);
    if (!run->is_images) ls_page_put(page, ", a perplexity of %.4g", ls_exp_f64(f->loss));
    if (f->best_loss < f->loss) ls_page_put(page, "; the best was \1%.4f\2 at step %lld", f->best_loss, f->best_step);
    ls_page_put(page, ". ");
}

/* Ends the paragraph about events with the verdict. Events alone do not prove that a run went well: the doctor also
 * judges the course of the loss. */
static void say_verdict(ls_page *page, const ls_diagnosis *d, bool any_event) {
    if (d && d->cause_count > 0)
        ls_page_put(page, "%s The doctor says: \1%s\2.", any_event ? "." : "no event was recorded.",
                    d->finding[0].title);
    else if (any_event)
        ls_page_put(page, ".");
    else if (d && d->verdict == LS_VERDICT_CLEAN)
        ls_page_put(page, "nothing out of the ordinary was recorded.");
    else
        ls_page_put(page, "no event was recorded%s.", d ? "; there are too few steps to judge the run" : "");
}

/* Adds a paragraph that counts restarts and events by kind, and the doctor's verdict. */
static void say_events(ls_page *page, const ls_run_log *log, const ls_view_facts *f, const ls_diagnosis *d) {
    static const char *const names[LS_EVENT_KINDS] = {"overflows",
                                                      "overflows at the lowest scale",
                                                      "values that are not finite",
                                                      "outliers",
                                                      "replicas that differ",
                                                      "changes in memory",
                                                      "audits that fail",
                                                      "stops"};
    bool any = false;
    LS_TEXT(page, "What happened: ");
    if (f->sessions > 1 || f->restarts > 0) {
        ls_page_put(page, "%d start%s of the program, %d replacement%s of workers", f->sessions - f->restarts,
                    f->sessions - f->restarts == 1 ? "" : "s", f->restarts, f->restarts == 1 ? "" : "s");
        any = true;
    }
    for (int k = 0; k < LS_EVENT_KINDS; k++) {
        if (log->of_kind[k] == 0) continue;
        ls_page_put(page, "%s%zu × %s", any ? "; " : "", log->of_kind[k], names[k]);
        any = true;
    }
    say_verdict(page, d, any);
}

void ls_run_words(ls_page *page, const ls_view *run, const ls_view_facts *facts, const ls_diagnosis *diagnosis) {
    say_what(page, run, facts);
    say_how_well(page, run, facts);
    say_events(page, ls_view_log(run), facts, diagnosis);
}
