/* text_doubt.c: writes sentences about alternatives (fewer devices, a robust layout, a larger cluster if nothing fits),
 * and about how reliable the predictions are. */
#include <string.h>

#include "plan/cost/cost_case.h"
#include "plan/published/error_bands.h"
#include "report/memo/facts.h"

/* Formats "8 of the 16 A100-80GB-SXM", "the 32 H100-80GB-SXM of one site alone" or "both sites". */
static ls_memo_line devices(const ls_memo_facts *f, const ls_plan_size *use) {
    const ls_cluster *asked = &f->answer->question->task.cluster;
    ls_memo_line out;
    int i = use->chips[0] == 0;
    const ls_site *site = &asked->site[i];
    if (asked->sites > 1 && use->chips[0] > 0 && use->chips[1] > 0)
        snprintf(out.text, sizeof out.text, "both sites");
    else if (asked->sites > 1)
        snprintf(out.text, sizeof out.text, "%d of the %d %s of one site alone", use->chips[i], site->chips,
                 site->chip.name);
    else
        snprintf(out.text, sizeof out.text, "%d of the %d %s", use->chips[0], site->chips, site->chip.name);
    return out;
}

void ls_memo_use(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_use *use = &f->answer->use;
    if (ls_plan_use_is_fewer(use))
        LS_TEXT(doc,
                "\1Use %s: %s tokens per second against %s with all of them.\2 Every size from one %s to all was "
                "priced (%d sizes); what follows is about the fastest.",
                devices(f, &use->fastest).text, LS_WHOLE(use->fastest.tokens_per_second),
                LS_WHOLE(use->all.tokens_per_second), f->chip, use->sizes);
    if (ls_plan_use_has_nearly(use))
        LS_TEXT(doc, "\1%s are nearly as fast\2: %s tokens per second against %s.", devices(f, &use->nearly).text,
                LS_WHOLE(use->nearly.tokens_per_second), LS_WHOLE(use->fastest.tokens_per_second));
}

/* ---- where the world is not as assumed --------------------------------------------------------------------------- */

/* Adds a paragraph about the robust layout, which loses less if the bandwidth is half; nothing if the search found
 * none. */
static void put_robust(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_sensitivity *s = &f->answer->sensitivity;
    const ls_prediction *p = &f->choice.prediction;
    int worst = 0;
    if (!(s->robust.prediction.seconds > 0)) return;
    for (int k = 1; k < LS_TIME_KINDS; k++)
        if (s->slow.time[k] - p->time[k] > s->slow.time[worst] - p->time[worst]) worst = k;
    LS_TEXT(
        doc,
        "\1The robust choice is %s\2: %s per step, %s more than the fastest, but %s where the bandwidth %s is half. "
        "The fastest collapses there: %s takes %s instead of %s. Where that link is shared or unproven, use it "
        "(--robust writes it to the layout file).",
        LS_LAYOUT(&s->robust.layout), LS_SECONDS(s->robust.prediction.seconds),
        LS_PERCENT(s->robust.prediction.seconds / p->seconds - 1), LS_SECONDS(s->robust_link_seconds), s->where,
        ls_time_kind_phrase((ls_time_kind)worst), LS_SECONDS(s->slow.time[worst]), LS_SECONDS(p->time[worst]));
}

void ls_memo_sensitivity(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_sensitivity *s = &f->answer->sensitivity;
    const ls_prediction *p = &f->choice.prediction;
    double e = f->answer->error;
    LS_TEXT(doc, "\1How sensitive the choice is.\2 ");
    if (ls_cluster_chips(&f->task->cluster) > 1) {
        ls_page_put(doc, "With half the bandwidth %s (%s) a step takes %s", s->where,
                    ls_link_rate_text(&s->link, LS_PLAN_LINK_SHARE).text, LS_SECONDS(s->slow.seconds));
        if (ls_knobs_equal(&s->link_best.layout, &f->choice.layout))
            ls_page_put(doc, ", and this layout is still the best. ");
        else
            ls_page_put(doc, "; then %s would be the best, %s. ", LS_LAYOUT(&s->link_best.layout),
                        LS_SECONDS(s->link_best.prediction.seconds));
    }
    ls_page_put(doc, "Within the error band of ±%.0f %% it is %s to %s, and %d of the runners-up may be as fast. ",
                100 * e, LS_SECONDS(p->seconds * (1 - e)), LS_SECONDS(p->seconds * (1 + e)), s->near);
    if (s->fits_less)
        ls_page_put(doc, "With 5 %% less memory it still fits.");
    else if (s->memory_best.prediction.seconds > 0)
        ls_page_put(doc, "With 5 %% less memory it does not fit; then %s would be the best, %s.",
                    LS_LAYOUT(&s->memory_best.layout), LS_SECONDS(s->memory_best.prediction.seconds));
    else
        ls_page_put(doc, "With 5 %% less memory nothing fits.");
    put_robust(doc, f);
}

void ls_memo_remedy(ls_page *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    const ls_plan_remedy *r = &f->answer->remedy;
    LS_TEXT(doc,
            "\1Nothing fits.\2 Of the %s layouts possible on this cluster, the one that needs least, %s, needs %s on "
            "its most loaded %s. There are %s: it lacks %s.",
            LS_WHOLE((double)f->found->tried), LS_LAYOUT(&f->choice.layout), LS_GIB(p->memory_bytes), f->chip,
            LS_GIB(p->capacity_bytes), LS_GIB(p->memory_bytes - p->capacity_bytes));
    if (r->is_freed)
        LS_ITEM(doc, "With other options it fits as it is: %s, %s and %s per step.", LS_LAYOUT(&r->freed.layout),
                LS_GIB(r->freed.prediction.memory_bytes), LS_SECONDS(r->freed.prediction.seconds));
    if (r->is_offloaded)
        LS_ITEM(doc, "With the optimizer's states on the host (--offload) it fits, as %s: %s of %s, %s per step.",
                LS_LAYOUT(&r->offloaded.layout), LS_GIB(r->offloaded.prediction.memory_bytes),
                LS_GIB(r->offloaded.prediction.capacity_bytes), LS_SECONDS(r->offloaded.prediction.seconds));
    if (r->chips > 0)
        LS_ITEM(doc, "The smallest cluster of this kind that fits has \1%d %s%s\2, as %s: %s of %s, %s per step.",
                r->chips, f->chips, f->task->cluster.sites > 1 ? " at each site" : "", LS_LAYOUT(&r->with.layout),
                LS_GIB(r->with.prediction.memory_bytes), LS_GIB(r->with.prediction.capacity_bytes),
                LS_SECONDS(r->with.prediction.seconds));
    else
        LS_ITEM(doc, "No number of these %s that was tried is enough: use larger ones, or a smaller model.", f->chips);
    if (r->chip.name[0])
        LS_ITEM(doc, "As many %s would do, as %s: %s of %s, %s per step.", r->chip.name, LS_LAYOUT(&r->other.layout),
                LS_GIB(r->other.prediction.memory_bytes), LS_GIB(r->other.prediction.capacity_bytes),
                LS_SECONDS(r->other.prediction.seconds));
    for (int i = 0; i < f->changes && i < 3; i++)
        LS_ITEM(doc, "It would fit with %s: %s of %s.", f->change[i].what,
                LS_GIB(f->change[i].to.prediction.memory_bytes), LS_GIB(f->change[i].to.prediction.capacity_bytes));
}

/* ---- how sure ---------------------------------------------------------------------------------------------------- */

/* Adds an item that names the source of a figure; NULL or "": the cluster file. */
static void put_source(ls_page *doc, const char *name, const char *source) {
    LS_ITEM(doc, "%s: %s.", name, source && *source ? source : "as the cluster file says");
}

/* Adds a table of the errors of predictions against published runs of this chip, or of all chips if it has none. */
static void put_bands(ls_page *doc, const ls_memo_facts *f) {
    int rows;
    (void)ls_error_band_of(f->site->chip.name, &rows);
    if (rows == 0)
        LS_TEXT(doc,
                "\1No measured run of %s is among them\2, so the band is twice the mean of all. The runs there are, by "
                "source:",
                f->site->chip.name);
    else
        LS_TEXT(doc, "The %d measured runs of %s, by source:", rows, f->site->chip.name);
    ls_page_add_table(doc, "llrrr", "source\tchip\truns\tmean error\tbias");
    for (int i = 0; ls_error_band_row(i); i++) {
        const ls_error_band *band = ls_error_band_row(i);
        if (rows > 0 && strcmp(band->chip, f->site->chip.name) != 0) continue;
        ls_page_put(doc, "\n%s\t%s\t%d\t%s\t%s%s", band->source, band->chip, band->rows, LS_PERCENT(band->mean),
                    band->bias < 0 ? "−" : "+", LS_PERCENT(band->bias < 0 ? -band->bias : band->bias));
    }
}

/* Adds a warning if no measured run reached the predicted MFU, or none is known; else nothing. */
static void put_best_mfu(ls_page *doc, const ls_memo_facts *f) {
    const char *type = ls_plan_type_name(f->choice.layout.type);
    double mfu = ls_plan_mfu(f->task, &f->choice), best = ls_plan_best_mfu(f->task, f->choice.layout.type);
    if (!(best > 0))
        LS_TEXT(doc, "No measured run of %s in %s is known: nothing confirms the MFU of %s.", f->site->chip.name, type,
                LS_PERCENT(mfu));
    else if (mfu > best)
        LS_TEXT(doc, "\1The MFU of %s is above the best ever measured\2 on %s in %s, %s: expect less than predicted.",
                LS_PERCENT(mfu), f->site->chip.name, type, LS_PERCENT(best));
}

/* Adds items about conventions of the training framework on which the answer depends; nothing without any. */
static void put_habits(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_answer *a = f->answer;
    for (int i = 0; i < a->habits; i++) {
        double then = a->habit[i].best.prediction.seconds;
        if (then > 0)
            LS_ITEM(doc, "The answer depends on the training program: %s the best layout takes %s.", a->habit[i].what,
                    LS_SECONDS(then));
        else
            LS_ITEM(doc, "The answer depends on the training program: %s nothing fits.", a->habit[i].what);
    }
    if (a->habits > 0) LS_ITEM(doc, "What %s keeps: %s.", f->task->stack.name, f->task->stack.memory_source);
}

void ls_memo_trust(ls_page *doc, const ls_memo_facts *f) {
    const double e = f->answer->error, s = f->choice.prediction.seconds;
    int near = f->fits ? f->answer->sensitivity.near : 0;
    LS_HEADING(doc, "How far to trust this");
    LS_TEXT(doc,
            "This is a prediction; nothing was run. Compared with published runs the predicted step times are off by "
            "%.0f %% on average, for this cluster by about %.0f %% (lockstep plan --validate prints the table).",
            100 * ls_error_band_all(), 100 * e);
    if (f->fits)
        ls_page_put(doc, " So expect \1%s to %s\2 per step, %s to %s tokens per second.", LS_SECONDS(s * (1 - e)),
                    LS_SECONDS(s * (1 + e)), LS_WHOLE(f->tokens_per_second / (1 + e)),
                    LS_WHOLE(f->tokens_per_second / (1 - e)));
    if (f->fits) put_best_mfu(doc, f);
    put_bands(doc, f);
    if (near > 0)
        LS_TEXT(doc,
                "%d of the runners-up %s within this margin of the best. Errors of similar layouts are correlated, so "
                "the ranking is more reliable than the times, but measure the first two before a long run.",
                near, near == 1 ? "is" : "are");
    put_habits(doc, f);
    put_source(doc, f->site->chip.name, f->site->chip.source);
    if (ls_cluster_chips(&f->task->cluster) > 1) put_source(doc, f->site->inside.name, f->site->inside.source);
    if (f->nodes > 1) put_source(doc, f->site->between.name, f->site->between.source);
    put_source(doc, f->task->stack.name, f->task->stack.what);
    LS_TEXT(doc, "Memory is in GiB (2^30 bytes), traffic in GB (10^9).");
}
