/* overflow.c: values that leave the range of their type.
 *
 * A dynamic loss scale overflows by design: once or a few times at the start, when it begins too high, and now and then
 * when it tries to grow. What is not normal: that it falls far below where it was, that most steps are skipped, that it
 * reaches its floor, or that something which is not scaled becomes infinite. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observe/advice.h"
#include "observe/diagnose/rules.h"

enum {
    GAP = 8,   /* steps between skips of the start */
    NEAR = 24, /* steps in which a scale falls when it falls */
    FALL = 3,  /* powers of two by which it falls then */
    SKIPS = 4, /* skips in that time */
    ENOUGH = 8 /* skips before their share says something */
};
static const double MANY = 0.3; /* share of skipped steps */

/* ---- skipped steps ----------------------------------------------------------------------------------------------- */

/* Steps that were skipped because fp16 gradients overflowed: those of the start, which are normal, and later ones. */
typedef struct skips {
    size_t first;           /* index of the first step that is judged: behind the start */
    size_t start_count;     /* skips of the start */
    size_t count, steps;    /* behind the start */
    size_t fall;            /* index of the skip with which a fall begins; SIZE_MAX: none */
    int fall_from, fall_to; /* exponents of the loss scale */
} skips;

/* Counts the skips of the start, which lasts as long as they are at most GAP steps apart, from the first step on. */
static void count_start_skips(const ls_run_log *run, skips *s) {
    size_t last = 0, i = 0;
    bool any = false;
    for (; i < run->step_count && i - last <= GAP; i++) {
        if (!run->steps[i].skipped) continue;
        last = i;
        any = true;
        s->start_count++;
    }
    s->first = any ? last + 1 : 0;
}

/* Returns the lowest exponent of the loss scale in NEAR steps from index `i` on (INT_MAX: none); sets *skipped to the
 * number of steps skipped among them. */
static int lowest_scale_after(const ls_run_log *run, size_t i, size_t *skipped) {
    int lowest = INT_MAX;
    *skipped = 0;
    for (size_t k = i; k < run->step_count && k - i < NEAR; k++) {
        if (run->steps[k].skipped) ++*skipped;
        if (run->steps[k].scale != INT_MIN && run->steps[k].scale < lowest) lowest = run->steps[k].scale;
    }
    return lowest;
}

/* Counts the skips behind the start, and finds the first from which the scale falls fast. */
static void find_scale_fall(const ls_run_log *run, skips *s) {
    s->fall = SIZE_MAX;
    for (size_t i = s->first; i < run->step_count; i++) {
        size_t near;
        if (!run->steps[i].skipped) continue;
        s->count++;
        if (s->fall != SIZE_MAX || run->steps[i].scale == INT_MIN) continue;
        int low = lowest_scale_after(run, i, &near);
        if (near < SKIPS || low > run->steps[i].scale - FALL) continue;
        s->fall = i;
        s->fall_from = run->steps[i].scale;
        s->fall_to = low;
    }
    s->steps = run->step_count - s->first;
}

/* ---- what came before -------------------------------------------------------------------------------------------- */

/* Returns the share of values near the overflow limit in this block, of the gradients of its parameters or of the
 * stream, whichever is larger; 0 if it was not recorded. */
static double high_share_of(const ls_run_log *run, const ls_point *p, int block) {
    for (size_t i = p->first; i < p->first + p->count; i++) {
        const ls_run_log_numerics *n = &run->numerics[i];
        if (n->block != block) continue;
        double a = isnan(n->grad_high) ? 0 : (double)n->grad_high, b = isnan(n->act_high) ? 0 : (double)n->act_high;
        return a > b ? a : b;
    }
    return 0;
}

/* Adds as evidence the block with most values near the overflow limit at f->step, if they grew tenfold; the onset
 * moves to where that began. */
static void add_growth(const ls_case *c, ls_finding *f) {
    const ls_points *points = &c->points;
    size_t end = 0;
    while (end < points->count && points->point[end].step <= f->step) end++;
    if (end < 2) return;
    const ls_point *last = &points->point[end - 1];
    int block = last->worst_high;
    double share = block < 0 ? 0 : high_share_of(c->run, last, block);
    if (share < 1e-3) return;
    size_t from = end - 1;
    while (from > 0 && high_share_of(c->run, &points->point[from - 1], block) >= share / 10) from--;
    if (from == 0) return; /* no growth: it was there all the time */
    const ls_point *first = &points->point[from];
    if (!f->block[0]) memcpy(f->block, c->run->blocks[block], LS_RUN_NAME_MAX);
    if (first->step < f->onset) f->onset = first->step;
    LS_EVIDENCE(f, "values near the overflow limit in %s: fraction %.2g at step %lld, %.2g at step %lld",
                c->run->blocks[block], high_share_of(c->run, first - 1, block), first[-1].step, share, last->step);
}

/* Returns the first event of this kind at step `from` or later, or NULL. */
static const ls_run_log_event *first_event(const ls_run_log *run, ls_run_log_event_kind kind, long long from) {
    for (size_t i = 0; i < run->event_count; i++)
        if (run->events[i].kind == kind && run->events[i].step >= from) return &run->events[i];
    return NULL;
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Returns whether --loss-scale was a number; false if it was not recorded. */
static bool scale_is_constant(const ls_run_log *run) {
    const char *scale = ls_run_log_option_get(run, "loss-scale");
    return scale && strcmp(scale, "dynamic") != 0;
}

/* Adds the finding for a loss scale that fell fast, or reached its minimum (`floor`, or NULL). */
static void add_scale_fall(ls_case *c, const skips *s, const ls_run_log_event *floor) {
    const ls_run_log *run = c->run;
    long long step = s->fall != SIZE_MAX ? run->steps[s->fall].step : floor->step;
    const ls_run_log_event *event = first_event(run, LS_EVENT_OVERFLOW, step);
    if (!event || (floor && floor->step < event->step)) event = floor ? floor : event;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_OVERFLOW, step,
                                   floor ? floor->step : run->steps[run->step_count - 1].step, (double)s->count);
    if (event) ls_finding_name(f, event);
    LS_TITLE(f, "fp16 overflows repeatedly from step %lld on%s%s", step, f->tensor[0] ? ", first in " : "", f->tensor);
    if (s->fall != SIZE_MAX)
        LS_EVIDENCE(f, "the loss scale fell from 2^%d to 2^%d within %d steps", s->fall_from, s->fall_to, NEAR);
    if (s->count > 0)
        LS_EVIDENCE(f, "%zu of %zu steps were skipped, not counting those at the start of the run", s->count, s->steps);
    if (floor)
        LS_EVIDENCE(f, "step %lld: the loss scale is at its minimum%s%s", floor->step,
                    floor->tensor[0] ? ", overflow in " : "", floor->tensor);
    add_growth(c, f);
    if (floor)
        LS_ACTION(f, "%s", ls_advice_at_floor(scale_is_constant(run)));
    else
        LS_ACTION(f, "use --precision bf16, which has the range of fp32; or a lower --lr or --clip if %s keeps growing",
                  f->block[0] ? f->block : "a block");
}

/* Adds the finding for a run that skipped a large part of its steps. */
static void add_many_skips(ls_case *c, const skips *s) {
    const ls_run_log *run = c->run;
    const ls_run_log_event *event = first_event(run, LS_EVENT_OVERFLOW, 0);
    size_t skipped = s->start_count + s->count, i = 0;
    while (i < run->step_count && !run->steps[i].skipped) i++;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_OVERFLOW, run->steps[i].step, run->steps[run->step_count - 1].step,
                                   (double)skipped / (double)run->step_count);
    if (event) ls_finding_name(f, event);
    LS_TITLE(f, "fp16 overflows in %.0f %% of the steps: the loss scale is too high for this run", 100 * f->size);
    LS_EVIDENCE(f, "%zu of %zu steps were skipped; the loss scale is 2^%d at step %lld and 2^%d at the end", skipped,
                run->step_count, run->steps[i].scale, run->steps[i].step, run->steps[run->step_count - 1].scale);
    add_growth(c, f);
    LS_ACTION(f, "use --loss-scale dynamic with a lower initial value; or --precision bf16, which needs no loss scale");
}

/* Notes the skips of the start, which are normal. */
static void note_start_skips(ls_case *c, const skips *s) {
    const ls_run_log *run = c->run;
    if (s->start_count == 0) return;
    ls_finding *f =
        ls_note_add(c, LS_CAUSE_OVERFLOW, run->steps[0].step, run->steps[s->first - 1].step, (double)s->start_count);
    LS_TITLE(f, "the initial loss scale was too high: %zu step%s skipped until step %lld, which is normal",
             s->start_count, s->start_count == 1 ? " was" : "s were", f->last_step);
}

/* Notes the few later skips, when the loss scale tried to grow, which are normal. */
static void note_growth_skips(ls_case *c, const skips *s) {
    if (s->count == 0) return;
    const ls_run_log *run = c->run;
    size_t i = s->first;
    while (!run->steps[i].skipped) i++;
    ls_finding *f = ls_note_add(c, LS_CAUSE_OVERFLOW, run->steps[i].step, run->steps[i].step, (double)s->count);
    LS_TITLE(f, "%zu more step%s skipped when the loss scale tried to grow, which is normal", s->count,
             s->count == 1 ? " was" : "s were");
}

/* Reports the first non-finite value, unless a repetition of the step did not give it again: then it is a fault
 * (faults.c). */
static void add_non_finite(ls_case *c) {
    const ls_run_log_event *e = NULL;
    for (size_t i = 0; i < c->run->event_count && !e; i++)
        if (c->run->events[i].kind == LS_EVENT_NON_FINITE &&
            (c->run->events[i].recurs || !c->run->events[i].has_recurs))
            e = &c->run->events[i];
    if (!e) return;
    ls_finding *f =
        ls_finding_add(c, LS_CAUSE_OVERFLOW, e->step, e->step, (double)c->run->of_kind[LS_EVENT_NON_FINITE]);
    ls_finding_name(f, e);
    f->worker = e->worker;
    char worker[32] = "", micro[48] = "", index[48] = "", base[LS_BASE_TEXT_MAX];
    ls_case_name_base(c, e->step - 1, base); /* the state before the step gives the value: go back beyond it */
    if (e->worker >= 0) snprintf(worker, sizeof worker, ", on worker %d", e->worker);
    if (e->micro >= 0) snprintf(micro, sizeof micro, ", micro-batch %lld", e->micro);
    if (e->index >= 0) snprintf(index, sizeof index, ", element %lld", e->index);
    LS_TITLE(f, "%s in %s%s%s, %s%s", e->value[0] ? e->value : "a value that is not finite",
             e->block[0] ? e->block : "the model", e->tensor[0] ? ", " : "", e->tensor,
             e->what[0] ? e->what : "in a step", worker);
    LS_EVIDENCE(f, "step %lld%s%s%s", e->step, micro, index,
                e->has_recurs ? "; it happened again when the step was repeated: not a hardware fault" : "");
    add_growth(c, f);
    if (ls_case_is_fp16(c))
        LS_ACTION(f, "use --precision bf16: the values that overflow here are not scaled, so a lower --loss-scale does "
                     "not help");
    else
        LS_ACTION(f, "use a lower --lr or --clip, %s, with --numerics 1 to see which block grows", base);
}

void ls_diagnose_overflow(ls_case *c) {
    const ls_run_log *run = c->run;
    const ls_run_log_event *floor = first_event(run, LS_EVENT_FLOOR, 0);
    skips s = {0};
    count_start_skips(run, &s);
    find_scale_fall(run, &s);
    size_t all = s.start_count + s.count;
    bool is_fall = s.fall != SIZE_MAX;
    bool mostly = (double)all >= 0.9 * (double)run->step_count && all >= ENOUGH;
    bool often = s.count >= ENOUGH && (double)s.count >= MANY * (double)s.steps;
    if (mostly && !floor)
        add_many_skips(c, &s);
    else if (is_fall || floor)
        add_scale_fall(c, &s, floor);
    else if (often)
        add_many_skips(c, &s);
    else
        note_growth_skips(c, &s);
    if (!mostly) note_start_skips(c, &s);
    add_non_finite(c);
}
