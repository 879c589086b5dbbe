/* loss.c: what the loss alone tells: bad data, a learning rate that is too high, and that a run broke.
 *
 * Bad data: single steps, or some in a row, whose loss jumps up and is back at once. The sampler mixes the data, so a
 * region of garbage comes up in many steps. A learning rate that is too high: the loss rises and stays up, the norm
 * grows with it, in all blocks alike; or the updates are so long that weights cannot keep what they learned. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/diagnose/rules.h"
#include "optim/schedule.h"

static const double UP = 4;             /* score of each step that a jump lasts, where it is the only one */
static const double HIGH = 6;           /* score of a jump that lasts some steps */
static const double FAR = 8;            /* score of a jump that needs few others like it */
static const double RATIO = 0.04;       /* update norm / weight norm that is too long; 0.001 to 0.01 is usual */
static const double RATIO_MUCH = 0.1;   /* and one that is so at once */
static const double RATIO_OFTEN = 0.03; /* and one that is too long at a third of the measurements near the peak */
static const double NEAR_PEAK = 0.5;    /* of the learning rate */
static const double LARGE = 10;         /* growth of the norm before a run breaks */
static const double LONE = 3.5;         /* scatters of a step beside its neighbours */
enum { BEGIN_STEPS = 10, LONG = 4, LASTING = 6, EARLIER = 5, OFTEN = 5 };
enum { BESIDE = 6, AROUND = 65, LONE_FROM = 24 }; /* neighbours at each side; steps for the scatter; from which on */

/* ---- bad data ---------------------------------------------------------------------------------------------------- */

/* The sharp episodes (jumps of the loss that are over at once) of a run. */
typedef struct jumps {
    size_t count, far, longest; /* far: with a score of FAR or more; longest: most steps near the peak of one episode */
    size_t lasting;             /* most steps with a score of UP or more in one episode whose score is HIGH or more */
    const ls_episode *first, *largest;
    long long last_step;
} jumps;

/* Returns the number of steps of the episode with a score of UP or more. */
static size_t count_steps_up(const ls_series *s, const ls_episode *e) {
    size_t count = 0;
    for (size_t i = e->first; i <= e->last; i++) count += (double)s->at[i].score >= UP;
    return count;
}

/* Counts the sharp episodes before a lasting rise: once that begins, everything jumps. */
static jumps count_jumps(const ls_case *c) {
    const ls_series *s = &c->series;
    jumps j = {0};
    for (size_t i = 0; i < s->episode_count; i++) {
        const ls_episode *e = &s->episode[i];
        if (!e->sharp || (c->rise.found && e->first >= c->rise.low)) continue;
        j.count++;
        j.far += e->score >= FAR;
        if (e->high > j.longest) j.longest = e->high;
        size_t lasting = count_steps_up(s, e);
        if (e->score >= HIGH && lasting > j.lasting) j.lasting = lasting;
        if (!j.first) j.first = e;
        if (!j.largest || e->score > j.largest->score) j.largest = e;
        j.last_step = s->at[e->last].step;
    }
    return j;
}

/* Returns whether there are more jumps than by chance: in healthy runs less than one step in 1000 has a score of 5, and
 * as many fall as rise. */
static bool jumps_show_bad_data(const ls_series *s, const jumps *j) {
    size_t some = 4 + s->count / 800, few = 3 + s->count / 5000, chance = 2 * s->jumps_down;
    return j->count >= some + chance || j->far >= few + chance || j->lasting >= LASTING;
}

/* Steps whose loss stands out from that of the steps just before and after them. This detects smaller jumps than a
 * comparison with earlier steps alone, because the trend cancels; so more of them are needed, and hardly any
 * downward. */
typedef struct lone_steps {
    size_t up, down;
    size_t first, last, largest; /* indices in the series, of those that are up */
    double rest, score;          /* of the largest: above its neighbours, in scatters */
} lone_steps;

/* Returns how far the loss of a step is above the median of its neighbours: BESIDE on each side. */
static double above_neighbours(const ls_series *s, size_t at) {
    double beside[2 * BESIDE];
    size_t n = 0;
    for (size_t i = at < BESIDE ? 0 : at - BESIDE; i <= at + BESIDE && i < s->count; i++)
        if (i != at) beside[n++] = s->at[i].loss;
    return s->at[at].loss - ls_median(beside, n);
}

/* The numbers of a sliding window, sorted. */
typedef struct sliding {
    double x[AROUND];
    size_t n;
} sliding;

/* Returns the first index whose number is not below the value (binary search). */
static size_t find_place(const sliding *w, double value) {
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->x[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds a value in its place; the window must have room. */
static void insert_sorted(sliding *w, double value) {
    size_t at = find_place(w, value);
    memmove(w->x + at + 1, w->x + at, (w->n - at) * sizeof *w->x);
    w->x[at] = value;
    w->n++;
}

/* Removes a value that the window contains. */
static void remove_sorted(sliding *w, double value) {
    size_t at = find_place(w, value);
    w->n--;
    memmove(w->x + at, w->x + at + 1, (w->n - at) * sizeof *w->x);
}

/* Returns the median of the window, which must not be empty. */
static double median_of_sorted(const sliding *w) {
    size_t n = w->n;
    return n % 2 ? w->x[n / 2] : 0.5 * w->x[n / 2 - 1] + 0.5 * w->x[n / 2];
}

/* Finds lone steps before a lasting rise of the loss. The scatter of a step is 1.4826 times the median distance of
 * the AROUND steps around it from their neighbours; a step stands out if it is LONE scatters away. */
static lone_steps find_lone_steps(const ls_case *c) {
    const ls_series *s = &c->series;
    lone_steps l = {0};
    double rest[AROUND];
    sliding window = {.n = 0};
    size_t end = c->rise.found ? c->rise.low : s->count, known = 0;
    for (size_t i = 0; i + BESIDE < end; i++) {
        if (i > AROUND / 2) remove_sorted(&window, fabs(rest[(i - AROUND / 2 - 1) % AROUND]));
        for (; known < end && known <= i + AROUND / 2; known++) {
            rest[known % AROUND] = above_neighbours(s, known);
            insert_sorted(&window, fabs(rest[known % AROUND]));
        }
        if (i < LONE_FROM) continue;
        double scatter = 1.4826 * median_of_sorted(&window), least = 1e-3 * fabs(s->at[i].loss);
        double score = rest[i % AROUND] / (scatter > least ? scatter : least);
        l.down += score < -LONE;
        if (!(score > LONE)) continue;
        if (l.up++ == 0) l.first = i;
        l.last = i;
        if (score > l.score) l.score = score, l.largest = i, l.rest = rest[i % AROUND];
    }
    return l;
}

/* Returns whether there are more lone steps than by chance: one step in 4000 is so far above its neighbours, and one
 * so far below. */
static bool lone_steps_show_bad_data(const ls_series *s, const lone_steps *l) {
    return l->up >= 7 + s->count / 200 + 4 * l->down;
}

bool ls_loss_tells_data(const ls_case *c) {
    jumps j = count_jumps(c);
    lone_steps l = find_lone_steps(c);
    return jumps_show_bad_data(&c->series, &j) || lone_steps_show_bad_data(&c->series, &l);
}

/* Adds as evidence which samples the step f->step read, from the batch size and where a fork started; nothing if not
 * recorded. */
static void describe_step_samples(const ls_case *c, ls_finding *f) {
    double batch = ls_run_log_option_number(c->run, "global-batch"),
           start = ls_run_log_option_number(c->run, "start-samples");
    double start_step = ls_run_log_option_number(c->run, "start-step");
    if (!(batch >= 1 && batch < 1e9)) return;
    if (isnan(start) || isnan(start_step)) start = start_step = 0;
    double first = start + ((double)f->step - 1 - start_step) * batch;
    if (first >= 0) LS_EVIDENCE(f, "step %lld used samples %.0f to %.0f of the run", f->step, first, first + batch - 1);
}

/* Sets the advice for bad data that only the loss shows. */
static void advise_data(ls_finding *f) {
    LS_ACTION(f, "look for unusual text (binary, another encoding, repetitions) in --data and remove it; --on-outlier "
                 "warn makes the run report the group and its samples");
}

/* Adds the finding of bad data for lone steps. */
static void add_lone_steps(ls_case *c, const lone_steps *l) {
    const ls_series *s = &c->series;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_BAD_DATA, s->at[l->first].step, s->at[l->last].step, (double)l->up);
    LS_TITLE(f, "bad data: the loss of %zu single steps stands out, first at step %lld", l->up, f->step);
    LS_EVIDENCE(f, "largest at step %lld: loss %.3f, %.3f above the steps beside it (%.1f times the usual scatter)",
                s->at[l->largest].step, s->at[l->largest].loss, l->rest, l->score);
    LS_EVIDENCE(f, "%zu step%s fell equally far below, so this is not noise", l->down, l->down == 1 ? "" : "s");
    describe_step_samples(c, f);
    advise_data(f);
}

void ls_diagnose_data(ls_case *c) {
    const ls_series *s = &c->series;
    jumps j = count_jumps(c);
    lone_steps l = find_lone_steps(c);
    if (ls_case_find(c, LS_CAUSE_BAD_DATA)) return;
    if (!jumps_show_bad_data(s, &j)) {
        if (lone_steps_show_bad_data(s, &l)) add_lone_steps(c, &l);
        return;
    }
    ls_finding *f = ls_finding_add(c, LS_CAUSE_BAD_DATA, s->at[j.first->first].step, j.last_step, (double)j.count);
    LS_TITLE(f, "bad data: the loss spikes and recovers at once, %zu time%s, first at step %lld", j.count,
             j.count == 1 ? "" : "s", f->step);
    LS_EVIDENCE(f, "step %lld: loss %.3f, median before it %.3f (%.0f times the usual scatter)", f->step, j.first->peak,
                j.first->level, j.first->score);
    LS_EVIDENCE(f, "largest at step %lld: loss %.3f after %.3f (%.0f times the scatter); the longest lasts %zu step%s",
                s->at[j.largest->first].step, j.largest->peak, j.largest->level, j.largest->score, j.longest,
                j.longest == 1 ? "" : "s");
    LS_EVIDENCE(f, "%zu steps fell equally far below the median: this is not noise", s->jumps_down);
    describe_step_samples(c, f);
    advise_data(f);
}

/* ---- a plateau of the loss --------------------------------------------------------------------------------------- */

/* The longest stretch in which the loss stays where it is while the learning rate is near its peak.
 *
 * If updates are too long, weights wander as fast as they learn: the loss falls at first, stays, and falls again only
 * when the rate is lower. A plateau alone proves nothing: models learn in stages, and every run flattens in the end. So
 * the rule also requires long updates (--numerics records them) or, if they were not recorded, AdamW with a rate that
 * is certainly too high and a loss that has hardly begun to fall. */
typedef struct plateau {
    size_t steps;          /* 0: there is none */
    long long first, last; /* steps of the run */
    double loss;
    double ratio; /* the largest update norm / weight norm in it; NaN: not recorded */
} plateau;

static const double STILL = 0.97;              /* of the loss at its beginning: what falls below it is no plateau */
static const double PLATEAU_RATIO = 0.03;      /* update norm / weight norm at its longest, */
static const double PLATEAU_RATIO_MID = 0.015; /* and in the middle */
static const double ADAMW_LR = 0.02;    /* AdamW moves each weight by about the rate, and weights have 0.02 to 0.2 */
static const double PLATEAU_HIGH = 0.4; /* of the first loss */
enum { PLATEAU_LEAST = 40, PLATEAU_SHARE = 8, PLATEAU_SMOOTH = 9, PLATEAU_BEGIN = 10 };

/* Returns the first index from `first` on where the loss is below STILL times `loss`, or the rate is not near its
 * peak. */
static size_t find_plateau_end(const ls_series *s, size_t first, double loss) {
    size_t at = first;
    while (at < s->count && s->at[at].lr >= NEAR_PEAK * s->peak_lr &&
           ls_series_before(s, at, PLATEAU_SMOOTH) >= STILL * loss)
        at++;
    return at;
}

/* Finds the longest plateau. Tries starts an eighth of a stretch apart, which takes O(n) time and misses little. */
static void find_longest_plateau(const ls_series *s, plateau *out) {
    for (size_t i = PLATEAU_BEGIN; i < s->count;) {
        double loss = ls_series_before(s, i, PLATEAU_SMOOTH);
        size_t end = find_plateau_end(s, i, loss), length = end - i;
        if (length > out->steps)
            *out = (plateau){.first = s->at[i].step, .last = s->at[end - 1].step, .steps = length, .loss = loss};
        i += 1 + length / 8;
    }
}

/* Sets p->ratio to the largest and *median to the median update/weight ratio in the plateau and ten steps before. */
static ls_status measure_ratio(const ls_case *c, plateau *p, double *median) {
    const ls_points *points = &c->points;
    double *ratio = calloc(points->count + 1, sizeof *ratio);
    size_t n = 0;
    if (!ratio) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu measurements", points->count);
    for (size_t i = 0; i < points->count; i++) {
        const ls_point *point = &points->point[i];
        if (point->step <= PLATEAU_BEGIN || point->step < p->first - PLATEAU_BEGIN || point->step > p->last) continue;
        if (!isfinite(point->ratio)) continue;
        if (!(p->ratio >= point->ratio)) p->ratio = point->ratio;
        ratio[n++] = point->ratio;
    }
    *median = ls_median(ratio, n);
    free(ratio);
    return LS_OK;
}

bool ls_case_is_adamw(const ls_case *c) {
    int optimizer;
    return ls_run_option_choice(c->run, LS_OPT_optimizer, &optimizer) && optimizer == LS_OPTIMIZER_ADAMW;
}

/* Finds the plateau that a high learning rate explains; out->steps is 0 if there is none. */
static ls_status find_plateau(const ls_case *c, plateau *out) {
    const ls_series *s = &c->series;
    size_t least = s->count / PLATEAU_SHARE > PLATEAU_LEAST ? s->count / PLATEAU_SHARE : PLATEAU_LEAST;
    plateau p = {0};
    double median;
    *out = (plateau){0};
    find_longest_plateau(s, &p);
    if (p.steps < least) return LS_OK;
    p.ratio = (double)NAN;
    LS_TRY(measure_ratio(c, &p, &median));
    bool is_long = p.ratio >= PLATEAU_RATIO && median >= PLATEAU_RATIO_MID;
    bool is_wild =
        isnan(p.ratio) && ls_case_is_adamw(c) && s->peak_lr >= ADAMW_LR && p.loss >= PLATEAU_HIGH * s->at[0].loss;
    if (is_long || is_wild) *out = p;
    return LS_OK;
}

/* ---- learning rate ----------------------------------------------------------------------------------------------- */

/* Measurements with updates that are too long against the weights. */
typedef struct lengths {
    const ls_point *first, *worst; /* NULL: none */
    size_t count;
} lengths;

/* Finds the first consecutive measurements of too long updates that span BEGIN_STEPS steps, or one far too long. */
static lengths find_long_updates(const ls_case *c) {
    lengths found = {0}, now = {0};
    for (size_t i = 0; i < c->points.count; i++) {
        const ls_point *p = &c->points.point[i];
        if (p->step <= BEGIN_STEPS) continue;
        if (!(p->ratio >= RATIO)) {
            now = (lengths){0};
            continue;
        }
        if (!now.first) now.first = p;
        if (!now.worst || p->ratio > now.worst->ratio) now.worst = p;
        now.count++;
        bool lasts = p->step - now.first->step >= BEGIN_STEPS || now.worst->ratio >= RATIO_MUCH;
        if (lasts && (!found.first || found.first == now.first)) found = now;
    }
    return found;
}

/* Finds updates that are rather long in at least a third of the measurements near the peak of the rate. */
static lengths find_often_long_updates(const ls_case *c) {
    lengths found = {0};
    size_t all = 0;
    for (size_t i = 0; i < c->points.count; i++) {
        const ls_point *p = &c->points.point[i];
        if (p->step <= BEGIN_STEPS || !(p->lr >= NEAR_PEAK * c->series.peak_lr)) continue;
        all++;
        if (!(p->ratio >= RATIO_OFTEN)) continue;
        if (!found.first) found.first = p;
        if (!found.worst || p->ratio > found.worst->ratio) found.worst = p;
        found.count++;
    }
    return found.count >= OFTEN && 3 * found.count >= all ? found : (lengths){0};
}

/* Returns the median gradient norm of the five steps up to index `at`. */
static double norm_near(const ls_series *s, size_t at) {
    double x[5];
    size_t n = 0;
    for (size_t i = at < 4 ? 0 : at - 4; i <= at && i < s->count; i++)
        if (isfinite(s->at[i].norm)) x[n++] = s->at[i].norm;
    return ls_median(x, n);
}

/* Adds evidence of a lasting rise: loss, gradient norm and learning rate. */
static void describe_rise(const ls_case *c, ls_finding *f) {
    const ls_series *s = &c->series;
    const ls_rise *r = &c->rise;
    LS_EVIDENCE(f, "the loss rose from %.3f at step %lld to %.3f at step %lld", r->low_loss, s->at[r->low].step,
                r->top_loss, s->at[r->top].step);
    double low = norm_near(s, r->low), top = norm_near(s, r->top);
    if (top > 1.5 * low) LS_EVIDENCE(f, "the gradient norm grew from %.3g to %.3g meanwhile", low, top);
    if (isfinite(s->at[r->first].lr) && s->peak_lr > 0)
        LS_EVIDENCE(f, "the learning rate was %.3g at that point, %.0f %% of its peak", s->at[r->first].lr,
                    100 * s->at[r->first].lr / s->peak_lr);
}

/* Returns the factor by which --lr-scaling multiplied --lr; 1 if that was not recorded. */
static double lr_scaling_of(const ls_run_log *run) {
    double batch = ls_run_log_option_number(run, "global-batch"), base = ls_run_log_option_number(run, "lr-base-batch");
    int scaling;
    if (!(batch >= 1) || !(base >= 1) || !ls_run_option_choice(run, LS_OPT_lr_scaling, &scaling)) return 1;
    return ls_lr_scaling_factor((ls_lr_scaling)scaling, batch, base);
}

/* Advises the rate at which the loss began to rise (or the peak), divided by `factor`: never one that these rules would
 * find too high. */
static void advise_lr(const ls_case *c, ls_finding *f, double factor) {
    double lr = c->series.peak_lr, planned = ls_run_log_option_number(c->run, "lr"),
           warmup = ls_run_log_option_number(c->run, "warmup"), scale = lr_scaling_of(c->run);
    char longer[64] = "", base[LS_BASE_TEXT_MAX];
    ls_case_name_base(c, f->onset, base);
    if (isfinite(warmup) && c->rise.found && (double)c->series.at[c->rise.first].step <= 2 * warmup + 10)
        snprintf(longer, sizeof longer, " and --warmup %.0f", warmup > 10 ? 2 * warmup : 100);
    if (c->rise.found && c->series.at[c->rise.first].lr > 0) lr = c->series.at[c->rise.first].lr;
    if (ls_case_is_adamw(c) && lr / factor >= ADAMW_LR) lr = LS_USUAL_LR * factor;
    if (lr > 0)
        LS_ACTION(f, "--lr %.1g instead of %.3g%s, %s", lr / scale / factor,
                  planned > 0 ? planned : c->series.peak_lr / scale, longer, base);
    else
        LS_ACTION(f, "a lower --lr%s, %s", longer, base);
}

/* Moves the onset of `f` behind that of another cause before or at the rise, because that cause explains the rise. */
static void set_onset(const ls_case *c, ls_finding *f) {
    for (int i = 0; i < c->out->finding_count; i++) {
        const ls_finding *other = &c->out->finding[i];
        if (other->is_note || other == f || ls_cause_is_of_time(other->cause)) continue;
        if (other->onset <= f->step + EARLIER && f->onset <= other->onset) f->onset = other->onset + 1;
    }
}

/* Moves the onset of `f` before bad data that only the loss shows: with updates this long the loss jumps by itself. */
static void go_before_jumps(const ls_case *c, ls_finding *f) {
    for (int i = 0; i < c->out->finding_count; i++) {
        const ls_finding *other = &c->out->finding[i];
        if (other->is_note || other->cause != LS_CAUSE_BAD_DATA || other->group != LS_RUN_NONE) continue;
        if (f->onset >= other->onset) f->onset = other->onset - 1;
    }
}

/* Counts long episodes from which the loss recovers slowly, and finds the first and the largest. */
static size_t count_waves(const ls_case *c, const ls_episode **first, const ls_episode **largest) {
    const ls_series *s = &c->series;
    size_t count = 0;
    for (size_t i = 0; i < s->episode_count; i++) {
        const ls_episode *e = &s->episode[i];
        if (e->sharp || e->score < FAR || e->last - e->first + 1 < LONG) continue;
        if (count++ == 0) *first = *largest = e;
        if (e->score > (*largest)->score) *largest = e;
    }
    return count;
}

/* Adds the finding for repeated, slow rises of the loss; returns NULL if there are too few of them. */
static ls_finding *add_waves(ls_case *c) {
    const ls_series *s = &c->series;
    const ls_episode *first = NULL, *largest = NULL;
    size_t count = count_waves(c, &first, &largest);
    if (count < 3 + s->count / 20000) return NULL;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR, s->at[first->first].step, s->at[first->first].step, (double)count);
    LS_TITLE(f, "learning rate too high: the loss rises %zu times and recovers slowly, first at step %lld", count,
             f->step);
    LS_EVIDENCE(f, "largest rise from step %lld to %lld: loss %.3f after %.3f", s->at[largest->first].step,
                s->at[largest->last].step, largest->peak, largest->level);
    set_onset(c, f);
    return f;
}

/* Adds the finding for a lasting rise of the loss. */
static ls_finding *add_rise(ls_case *c) {
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR, c->series.at[c->rise.first].step, c->series.at[c->rise.top].step,
                                   c->rise.top_loss - c->rise.low_loss);
    LS_TITLE(f, "learning rate too high: the loss rises at step %lld and stays up for %zu steps", f->step,
             c->rise.steps);
    describe_rise(c, f);
    set_onset(c, f);
    return f;
}

/* Adds the finding for updates that are too long against the weights. */
static ls_finding *add_long_updates(ls_case *c, const lengths *l) {
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR, l->first->step, l->worst->step, l->worst->ratio);
    LS_TITLE(f, "learning rate too high: each update is %.0f %% of the weights, from step %lld on",
             100 * l->worst->ratio, f->step);
    return f;
}

/* Adds the finding for a loss that stays where it is while the learning rate is near its peak. */
static ls_finding *add_plateau(ls_case *c, const plateau *p) {
    ls_finding *f = ls_finding_add(c, LS_CAUSE_LR, p->first, p->last, p->ratio);
    LS_TITLE(f, "learning rate too high: the loss is stuck at %.3f from step %lld to %lld", p->loss, p->first, p->last);
    set_onset(c, f);
    return f;
}

/* Adds evidence of a plateau. `has_lengths`: the caller adds the lengths of updates itself. */
static void describe_plateau(const ls_case *c, const plateau *p, bool has_lengths, ls_finding *f) {
    const ls_series *s = &c->series;
    LS_EVIDENCE(f,
                "the loss, initially %.3f, fell by less than 3 %% of %.3f in %zu steps, from step %lld to %lld, while "
                "the learning rate was at least half its peak; the final loss is %.3f",
                s->at[0].loss, p->loss, p->steps, p->first, p->last, ls_series_before(s, s->count - 1, 9));
    if (has_lengths) return;
    if (isfinite(p->ratio))
        LS_EVIDENCE(f, "updates were up to %.1f %% of the weight norm meanwhile; 0.1 to 1 %% is usual", 100 * p->ratio);
    else
        LS_EVIDENCE(f,
                    "AdamW moves each weight by about the learning rate, %.3g, per step: too much for weights of 0.02 "
                    "to 0.2 to converge",
                    s->peak_lr);
}

ls_status ls_diagnose_lr(ls_case *c) {
    lengths l = find_long_updates(c);
    if (!l.first) l = find_often_long_updates(c);
    plateau flat = {0};
    ls_finding *f = c->rise.found ? add_rise(c) : add_waves(c);
    if (!f) {
        LS_TRY(find_plateau(c, &flat));
        f = l.first ? add_long_updates(c, &l) : flat.steps > 0 ? add_plateau(c, &flat) : NULL;
    }
    if (!f) return LS_OK;
    if (flat.steps > 0) describe_plateau(c, &flat, l.first != NULL, f);
    if (flat.steps > 0 || l.first) go_before_jumps(c, f);
    double factor = flat.steps > 0 && flat.ratio > 0.04 ? flat.ratio / 0.01 : 4;
    if (l.first) {
        LS_EVIDENCE(f,
                    "update-to-weight ratio (norms, median of the inner blocks): %.3f at step %lld, at most %.3f at "
                    "step %lld; usual is 0.001 to 0.01",
                    l.first->ratio, l.first->step, l.worst->ratio, l.worst->step);
        if (l.first->step < f->onset) f->onset = l.first->step;
        if (l.worst->ratio > factor * 0.01) factor = l.worst->ratio / 0.01;
    }
    advise_lr(c, f, factor > 100 ? 100 : factor);
    return LS_OK;
}

void ls_diagnose_unknown(ls_case *c) {
    const ls_series *s = &c->series;
    size_t at = 0; /* also where no finite step follows */
    for (int i = 0; i < c->out->finding_count; i++) {
        const ls_finding *f = &c->out->finding[i];
        if (!f->is_note && !ls_cause_is_of_time(f->cause)) return;
    }
    if (s->first_bad == LS_RUN_NONE) return;
    double late = ls_series_find(s, s->first_bad, &at) ? norm_near(s, at) : (double)NAN;
    double early = s->count > 0 ? norm_near(s, at / 2) : (double)NAN;
    bool grew = late > LARGE * early;
    ls_cause cause = ls_case_is_fp16(c) ? LS_CAUSE_OVERFLOW : grew ? LS_CAUSE_LR : LS_CAUSE_UNKNOWN;
    ls_finding *f = ls_finding_add(c, cause, s->first_bad, s->first_bad, 0);
    char base[LS_BASE_TEXT_MAX];
    ls_case_name_base(c, s->first_bad, base);
    LS_TITLE(f, "%s%sloss or gradient is not finite from step %lld on",
             cause == LS_CAUSE_UNKNOWN ? "" : ls_cause_name(cause), cause == LS_CAUSE_UNKNOWN ? "" : ": ",
             s->first_bad);
    if (grew) LS_EVIDENCE(f, "the gradient norm grew from %.3g to %.3g before", early, late);
    if (cause == LS_CAUSE_UNKNOWN)
        LS_ACTION(f, "train again %s with --numerics 1, which records where it starts", base);
    else if (cause == LS_CAUSE_OVERFLOW)
        LS_ACTION(f, "use --loss-scale dynamic, or --precision bf16, which needs no loss scale");
    else
        advise_lr(c, f, 4);
}
