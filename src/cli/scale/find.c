/* find.c: what the measured sizes say: the fit, the next sizes, where workers begin and cease to help, and why.
 */
#include <stdarg.h>
#include <string.h>

#include "cli/scale/scale.h"

const ls_scaling_point *ls_scale_point_of(const ls_scale_found *f, int workers, size_t batch) {
    for (int i = 0; i < f->points; i++)
        if (f->point[i].workers == workers && f->point[i].batch == batch) return &f->point[i];
    return NULL;
}

double ls_scale_speedup(const ls_scale_found *f, const ls_scaling_point *p) {
    const ls_scaling_point *one = ls_scale_point_of(f, 1, p->batch);
    return one && p->seconds > 0 ? one->seconds / p->seconds : 0;
}

double ls_scale_weak(const ls_scale_found *f, const ls_scaling_point *p) {
    const ls_scaling_point *one =
        p->batch % (size_t)p->workers ? NULL : ls_scale_point_of(f, 1, p->batch / (size_t)p->workers);
    return one && p->seconds > 0 ? one->seconds / p->seconds : 0;
}

double ls_scale_ratio(const ls_scaling_point *p) {
    double sync = ls_scaling_sync_of(p) + ls_scaling_hidden_of(p);
    return sync > 0 ? p->compute / sync : 0;
}

ls_memo_number ls_scale_range(double low, double high) {
    ls_memo_number out;
    if (high > 0)
        snprintf(out.text, sizeof out.text, "%.4g to %.4g", low, high);
    else
        snprintf(out.text, sizeof out.text, "from %.4g", low);
    return out;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------
 */

static void predict_next(ls_scale_found *f) {
    double band = ls_scaling_band(&f->fit);
    for (int i = 0; i < f->nexts; i++) {
        ls_scaling_point *p = &f->next[i];
        ls_scaling_parts parts = ls_scaling_predict(&f->fit, p, 1);
        p->seconds = parts.seconds;
        p->low = parts.seconds / (1 + band);
        p->high = parts.seconds * (1 + band);
        p->compute = parts.compute;
        p->idle = parts.idle;
        p->other = parts.other;
        p->sync[0] = parts.sync; /* of all kinds */
    }
}

static void find_crossover(const ls_scale_plan *plan, ls_scale_found *f, int workers) {
    ls_scale_crossover *x = &f->crossover[f->crossovers++];
    const ls_scaling_point *like = NULL;
    double spread = 2 * f->fit.sync_error < .9 ? 2 * f->fit.sync_error : .9;
    *x = (ls_scale_crossover){.workers = workers};
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        if (p->workers != workers) continue;
        if (!like || p->batch > like->batch) like = p;
        double speedup = ls_scale_speedup(f, p);
        if (speedup > 1 && (x->won == 0 || p->batch < x->won)) x->won = p->batch;
        if (speedup > 0 && speedup <= 1 && p->batch > x->lost) x->lost = p->batch;
    }
    if (!like) return;
    x->batch = ls_scaling_batch_crossover(&f->fit, like, 1);
    x->batch_low = ls_scaling_batch_crossover(&f->fit, like, 1 - spread);
    x->batch_high = ls_scaling_batch_crossover(&f->fit, like, 1 + spread);
    const ls_scaling_point *largest = ls_scale_point_of(f, workers, plan->batch[plan->batches - 1]);
    if (!(plan->link_bytes_per_s > 0) || !largest) return;
    x->rate = ls_scaling_rate_crossover(&f->fit, largest, plan->link_bytes_per_s, 1);
    x->rate_low = ls_scaling_rate_crossover(&f->fit, largest, plan->link_bytes_per_s, 1 - spread);
    x->rate_high = ls_scaling_rate_crossover(&f->fit, largest, plan->link_bytes_per_s, 1 + spread);
}

/* Among the sizes that were measured or predicted for the largest batch. */
static void find_best(const ls_scale_plan *plan, ls_scale_found *f) {
    size_t batch = plan->batch[plan->batches - 1];
    double least = 0;
    for (int i = 0; i < f->points + f->nexts; i++) {
        const ls_scaling_point *p = i < f->points ? &f->point[i] : &f->next[i - f->points];
        if (p->batch != batch || (least > 0 && p->seconds >= least)) continue;
        least = p->seconds;
        f->best_workers = p->workers;
    }
}

/* ---- words --------------------------------------------------------------------------------------------------------
 */

static void say(char text[LS_SCALE_SENTENCE_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(char text[LS_SCALE_SENTENCE_MAX], const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, LS_SCALE_SENTENCE_MAX - used, format, args);
    va_end(args);
}

/* The largest number of workers with cores of their own, with the largest batch; else whatever is there. */
static const ls_scaling_point *typical(const ls_scale_plan *plan, const ls_scale_found *f) {
    size_t batch = plan->batch[plan->batches - 1];
    for (int c = plan->counts - 1; c > 0; c--) {
        const ls_scaling_point *p = ls_scale_point_of(f, plan->count[c], batch);
        if (p && p->crowding <= 1) return p;
    }
    return plan->counts > 1 ? ls_scale_point_of(f, plan->count[plan->counts - 1], batch) : NULL;
}

/* What takes most of the time that ideal workers would not have spent. */
static const char *largest_loss(const ls_scale_found *f, const ls_scaling_point *p) {
    const ls_scaling_point *one = ls_scale_point_of(f, 1, p->batch);
    double sync = ls_scaling_sync_of(p), messages = 0, bytes = 0;
    double extra = one ? p->compute - one->compute / p->workers : 0;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        messages += f->fit.latency_s * p->messages[k];
        bytes += f->fit.byte_s * p->bytes[k];
    }
    if (p->crowding > 1) return "more threads than cores, so workers take turns";
    if (extra > sync && extra > p->idle)
        return "compute itself does not scale: work that does not depend on the batch, and shared memory bandwidth";
    if (p->idle > sync) return "workers wait for the slowest of them";
    return bytes > messages ? "most of the loss is moving the bytes of gradients and weights"
                            : "most of the loss is the latency of messages";
}

void ls_scale_describe(const ls_scale_plan *plan, const ls_scale_found *f, char text[LS_SCALE_SENTENCE_MAX]) {
    text[0] = '\0';
    say(text, "%zu parameters, ", f->parameters);
    if (f->images)
        say(text, "images of %zu x %zu x %zu", f->image.channels, f->image.height, f->image.width);
    else
        say(text, "%zu tokens per sequence", f->seq);
    say(text, ", %d thread%s per worker, %d core%s, zero %d; %lld steps%s at each size", plan->threads,
        plan->threads == 1 ? "" : "s", plan->cores, plan->cores == 1 ? "" : "s", f->zero, (long long)plan->steps,
        plan->steps_given ? "" : " or more");
}

static void say_why(const ls_scale_plan *plan, ls_scale_found *f) {
    const ls_scaling_point *p = typical(plan, f);
    if (!p) {
        say(f->why, "Only one worker count was measured: there is nothing to compare.");
        return;
    }
    double speedup = ls_scale_speedup(f, p), sync = ls_scaling_sync_of(p), hidden = ls_scaling_hidden_of(p);
    const ls_scale_crossover *x = NULL;
    for (int i = 0; i < f->crossovers; i++)
        if (f->crossover[i].workers == p->workers) x = &f->crossover[i];
    say(f->why,
        "With batch %zu, %d workers are %.2f times as fast as one: each computes %s and waits %s for "
        "synchronisation",
        p->batch, p->workers, speedup, ls_memo_seconds(p->compute).text, ls_memo_seconds(sync).text);
    if (hidden > 0) say(f->why, " (%s more overlap with compute)", ls_memo_seconds(hidden).text);
    say(f->why, ", a ratio of %.3g; ", ls_scale_ratio(p));
    say(f->why, "%s%s; ", speedup < .9 * p->workers ? "" : "the loss: ", largest_loss(f, p));
    if (!x || x->batch == 0)
        say(f->why, "they are not predicted to beat one worker with any batch.");
    else if (x->batch <= (size_t)p->workers)
        say(f->why, "they beat one worker with any batch.");
    else
        say(f->why, "they beat one worker from a batch of about %zu on (%s).", x->batch,
            ls_scale_range((double)x->batch_low, (double)x->batch_high).text);
}

/* Steps that others had a part in must not be believed, nor a fit that misses what was measured. */
static void warn_of_doubt(ls_scale_found *f) {
    double most = 0;
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        if (p->crowding <= 1 && p->queued > most * p->seconds) most = p->queued / p->seconds;
    }
    if (most > .05)
        say(f->why,
            " These times are not reliable: other programs used the cores for up to %.0f %% of a step; measure again "
            "when the machine is idle.",
            100 * most);
    else if (f->fit.error > .2)
        say(f->why,
            " Treat this with care: the fit differs from the measured steps by %.0f %%, as on a busy machine; measure "
            "again when it is idle, or with more --steps.",
            100 * f->fit.error);
}

static void say_limit(const ls_scale_plan *plan, ls_scale_found *f) {
    double noise = f->noise.sequences;
    size_t first = plan->batch[0];
    if (!f->noise.valid) {
        say(f->limit, "The gradient noise scale could not be estimated from so few steps.");
        return;
    }
    say(f->limit,
        "The gradient noise scale at the beginning of training is about %.3g %ss: batches far above it have "
        "diminishing returns, so ",
        noise, ls_scale_sample(f));
    if (noise >= 2 * (double)first)
        say(f->limit, "with %zu %ss per worker about %.0f workers are useful.", first, ls_scale_sample(f),
            noise / (double)first);
    else
        say(f->limit, "more workers with %zu %ss each help little, however fast the machine.", first,
            ls_scale_sample(f));
    if (f->made_up && f->images)
        say(f->limit, " (Measured on the built-in drawings: use --data for other images.)");
    else if (f->made_up)
        say(f->limit,
            " (Measured on synthetic tokens, which are not representative: use --data for a meaningful value.)");
}

void ls_scale_find(const ls_scale_plan *plan, ls_scale_found *f) {
    f->fitted = ls_scaling_fit_make(f->point, f->points, &f->fit);
    if (!f->fitted) return;
    if (!f->fit.has_sync) f->nexts = 0; /* nothing is known of synchronising */
    predict_next(f);
    for (int c = 0; c < plan->counts; c++)
        if (plan->count[c] > 1) find_crossover(plan, f, plan->count[c]);
    find_best(plan, f);
    say_why(plan, f);
    warn_of_doubt(f);
    say_limit(plan, f);
}
