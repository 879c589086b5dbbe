/* ruined.c: where the loss ends, against where it began and against what the data allows.
 *
 * The rules of loss.c look for a rise after progress. A run that is ruined in its first steps makes no progress to rise
 * from: its loss ends above where it began, or it blew up at once and never came down to what knowing the frequencies
 * of tokens alone would give (a unigram's entropy, which the run records). A rate of 0 ruins more quietly. */
#include <math.h>

#include "observe/diagnose/rules.h"

static const double WORSE = 1.05, WORSE_BY = .1; /* times the first loss, and above it */
static const double SCATTERS = 4;                /* and so many deviations of single steps, where it began elsewhere */
static const double BLOWN = 1.5;                 /* times the first loss, for some steps */
static const double KNOWS_LITTLE = .7;           /* of the first loss, where the data's entropy is not known */
static const double WILD_LR = .05;               /* of AdamW: weights have 0.02 to 0.2, and move by about the rate */
enum { FIRST = 3, END = 9, SMOOTH = 5, LEAST_STEPS = 8 };

/* ---- how it went ------------------------------------------------------------------------------------------------- */

/* The loss at the first steps, at the end, and at its highest. */
typedef struct course {
    double first, end, top;      /* medians of a few steps */
    long long top_step, up_step; /* of the highest loss; of the first that is clearly above the first ones */
} course;

/* Measures the course of the loss with medians of a few steps. The series must have LEAST_STEPS steps. */
static course measure_course(const ls_series *s) {
    course c = {.first = ls_series_before(s, FIRST - 1, FIRST), .end = ls_series_before(s, s->count - 1, END)};
    /* The second step may be beyond all bounds already. */
    if (s->at[0].loss < c.first) c.first = s->at[0].loss;
    c.top = c.first;
    c.top_step = c.up_step = s->at[0].step;
    bool up = false;
    for (size_t i = FIRST; i < s->count; i++) {
        double now = ls_series_before(s, i, SMOOTH);
        if (now > WORSE * c.first && !up) up = true, c.up_step = s->at[i].step;
        if (now > c.top) c.top = now, c.top_step = s->at[i].step;
    }
    return c;
}

/* Returns the loss that a model which has learned anything is below: the entropy of single tokens, or a part of the
 * first loss. */
static double bound_of_learning(const ls_case *c, double first) {
    double unigram = c->run->start.unigram;
    return unigram > 0 && unigram < first ? unigram : KNOWS_LITTLE * first;
}

/* Returns --lr, or the highest rate recorded if that is unknown; 0 if neither is known. */
static double planned_lr(const ls_case *c) {
    double lr = ls_run_log_option_number(c->run, "lr");
    return lr > 0 ? lr : c->series.peak_lr;
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Advises to start over with a tenth of the rate, or the usual one of AdamW if that is lower. */
static void advise_lower_lr(const ls_case *c, ls_finding *f) {
    double lr = planned_lr(c);
    if (!(lr > 0))
        LS_ACTION(f, "a lower --lr with a --warmup, from scratch");
    else
        LS_ACTION(f, "--lr %.1g instead of %.3g, from scratch, because the weights of this run are unusable",
                  ls_case_is_adamw(c) && lr / 10 > LS_USUAL_LR ? LS_USUAL_LR : lr / 10, lr);
}

/* Adds the loss that token frequencies alone would give as evidence, if the run recorded it. */
static void add_unigram(const ls_case *c, ls_finding *f, double end) {
    double unigram = c->run->start.unigram;
    if (unigram > 0) LS_EVIDENCE(f, "token frequencies alone give a loss of %.3f; the run ends at %.3f", unigram, end);
}

/* Puts the finding before its effects (jumps of the loss, overflow and underflow), and removes their advice. */
static void put_before_effects(ls_case *c, ls_finding *f) {
    for (int i = 0; i < c->out->finding_count; i++) {
        ls_finding *other = &c->out->finding[i];
        bool follows = other->cause == LS_CAUSE_OVERFLOW || other->cause == LS_CAUSE_UNDERFLOW ||
                       (other->cause == LS_CAUSE_BAD_DATA && other->group == LS_RUN_NONE);
        if (other->is_note || !follows) continue;
        if (other->onset <= f->onset) f->onset = other->onset - 1;
        other->action[0] = '\0';
    }
}

/* Adds the finding, and returns true, if the learning rate was 0 in every step. */
static bool add_zero_lr(ls_case *c) {
    const ls_run_log *run = c->run;
    if (run->step_count < FIRST) return false;
    for (size_t i = 0; i < run->step_count; i++)
        if (run->steps[i].lr != 0) return false;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR_ZERO, run->steps[0].step, run->steps[run->step_count - 1].step, 0);
    LS_TITLE(f, "nothing is learned: the learning rate is 0 in every step");
    if (c->series.count >= FIRST)
        LS_EVIDENCE(f, "the loss is %.3f at first and %.3f at the end", ls_series_before(&c->series, FIRST - 1, FIRST),
                    ls_series_before(&c->series, c->series.count - 1, END));
    LS_ACTION(f, "a --lr above 0: 0.001 is usual for AdamW and small models");
    return true;
}

/* Blames the learning rate if numbers overflowed with a rate at which AdamW cannot work. */
static void add_wild_lr(ls_case *c) {
    const ls_series *s = &c->series;
    const ls_finding *overflow = ls_case_find(c, LS_CAUSE_OVERFLOW);
    double lr = planned_lr(c);
    if (ls_case_find(c, LS_CAUSE_LR) || !ls_case_is_adamw(c) || !(lr >= WILD_LR)) return;
    if (!overflow && s->first_bad == LS_RUN_NONE && c->run->of_kind[LS_EVENT_NON_FINITE] == 0) return;
    long long step = overflow ? overflow->step : s->first_bad != LS_RUN_NONE ? s->first_bad : 1;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR, step, step, lr);
    LS_TITLE(f, "learning rate too high: numbers are no longer finite at step %lld, with a rate of %.3g", step, lr);
    LS_EVIDENCE(f,
                "AdamW moves each weight by about the learning rate per step; %.3g destroys weights of 0.02 to 0.2 in "
                "any number format",
                lr);
    put_before_effects(c, f);
    advise_lower_lr(c, f);
}

void ls_diagnose_ruined(ls_case *c) {
    const ls_series *s = &c->series;
    if (add_zero_lr(c)) return;
    add_wild_lr(c);
    if (s->count < LEAST_STEPS || ls_case_find(c, LS_CAUSE_LR) || ls_case_find(c, LS_CAUSE_FAULT)) return;
    course how = measure_course(s);
    bool worse = how.end > WORSE * how.first && how.end > how.first + WORSE_BY;
    /* Guesses of a model that knows nothing are all as good as each other. One that knows something has steps that are
     * easier than others, and the first may be such. */
    if (s->at[0].step > 1 && how.end < how.first + SCATTERS * ls_series_noise(s, s->count - 1)) worse = false;
    /* A rate that blew it up is too high even where it came down with the rate. */
    bool is_wild = ls_case_is_adamw(c) && s->peak_lr >= WILD_LR;
    bool blown = how.top > BLOWN * how.first && (is_wild || how.end > bound_of_learning(c, how.first));
    if (!worse && !blown) return;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR, how.up_step, s->at[s->count - 1].step, how.end / how.first);
    if (worse)
        LS_TITLE(f, "learning rate too high: the loss ends at %.3f, above the %.3f that it began with", how.end,
                 how.first);
    else
        LS_TITLE(f, "learning rate too high: the loss rose from %.3f to %.3f at once, and ends at %.3f%s", how.first,
                 how.top, how.end, how.end > bound_of_learning(c, how.first) ? " with nothing learned" : "");
    if (how.top > how.first) LS_EVIDENCE(f, "its highest is %.4g, at step %lld", how.top, how.top_step);
    add_unigram(c, f, how.end);
    if (s->peak_lr > 0) LS_EVIDENCE(f, "the learning rate was up to %.3g", s->peak_lr);
    put_before_effects(c, f);
    advise_lower_lr(c, f);
}
