/* text_course.c: writes sentences about the whole training: what failures cost, and how often to save. */
#include "report/memo/facts.h"

/* Adds a row to the table: `what`, and the days, chip-hours and cost of a training of this many seconds. */
static void put_run(ls_page *doc, const ls_memo_facts *f, const char *what, double seconds) {
    double hours = seconds / 3600 * ls_cluster_chips(&f->task->cluster);
    ls_page_put(doc, "\n%s\t%.1f\t%s", what, seconds / 86400, LS_WHOLE(hours));
    if (f->price > 0) ls_page_put(doc, "\t%s", LS_WHOLE(hours * f->price));
}

void ls_memo_course(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_question *q = f->answer->question;
    ls_course c = ls_plan_course_of(q, f->task, &f->choice);
    if (!(c.mtbf_seconds > 0)) return;
    LS_HEADING(doc, "The whole run, with failures");
    LS_TEXT(doc,
            "A node fails every %s on average, so some node of %d fails every %s. A checkpoint is %s; at %s/s it takes "
            "%s. After a failure %s pass until training goes on, and what was computed since the last checkpoint is "
            "lost.",
            LS_SECONDS(q->failures.node_seconds), f->nodes, LS_SECONDS(c.mtbf_seconds), LS_GB(c.checkpoint_bytes),
            LS_GB(q->failures.bytes_per_second), LS_SECONDS(c.save_seconds), LS_SECONDS(q->failures.restart_seconds));
    if (!(c.seconds > 0)) {
        LS_TEXT(doc, "\1The run never ends, because failures come faster than it recovers.\2 Save faster.");
        return;
    }
    double often = ls_course_seconds(&c, c.interval_seconds / 4, q->failures.restart_seconds);
    double seldom = ls_course_seconds(&c, c.interval_seconds * 4, q->failures.restart_seconds);
    LS_TEXT(doc, "\1Save every %s of training.\2 Goodput, the share of the time that is progress, is then %.1f %%.",
            LS_SECONDS(c.interval_seconds), 100 * c.goodput);
    if (often > 0)
        ls_page_put(doc, " Saving four times as often makes the run %s longer", LS_PERCENT(often / c.seconds - 1));
    if (seldom > 0)
        ls_page_put(doc, ", four times less often %s longer", LS_PERCENT(seldom / c.seconds - 1));
    else
        ls_page_put(doc, ", and saving four times less often it never ends");
    ls_page_put(doc, ".");
    if (f->price > 0)
        ls_page_add_table(doc, "lrrr", "%s tokens\tdays\t%s-hours\tcost at %g per hour", LS_SHORT(f->tokens), f->chip,
                          f->price);
    else
        ls_page_add_table(doc, "lrr", "%s tokens\tdays\t%s-hours", LS_SHORT(f->tokens), f->chip);
    put_run(doc, f, "without failures and checkpoints", c.work_seconds);
    char with[64];
    snprintf(with, sizeof with, "with %s failures", LS_WHOLE(c.failures));
    put_run(doc, f, with, c.seconds);
}
