/* scale_words.c: puts into sentences what `lockstep scale` measured and found. */
#include <stdarg.h>
#include <string.h>

#include "report/scale_page.h"

ls_number ls_scale_range(double low, double high) {
    ls_number out;
    if (high > 0)
        snprintf(out.text, sizeof out.text, "%.4g to %.4g", low, high);
    else
        snprintf(out.text, sizeof out.text, "from %.4g", low);
    return out;
}

/* Appends to the text, cut to its room. */
__attribute__((format(printf, 2, 3))) static void say(char text[LS_SCALE_SENTENCE_MAX], const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, LS_SCALE_SENTENCE_MAX - used, format, args);
    va_end(args);
}

/* Returns the point to describe: the largest batch on the most workers that have cores of their own, else on the most
 * workers; NULL if only one number of workers was measured. */
static const ls_scaling_point *typical(const ls_scale_plan *plan, const ls_scale_found *f) {
    size_t batch = plan->batch[plan->batches - 1];
    for (int c = plan->counts - 1; c > 0; c--) {
        const ls_scaling_point *p = ls_scale_point_of(f, plan->count[c], batch);
        if (p && p->crowding <= 1) return p;
    }
    return plan->counts > 1 ? ls_scale_point_of(f, plan->count[plan->counts - 1], batch) : NULL;
}

/* Returns what takes most of the time that ideal workers would not need, as a clause. */
static const char *largest_loss(const ls_scale_found *f, const ls_scaling_point *p) {
    const ls_scaling_point *one = ls_scale_point_of(f, 1, p->batch);
    double sync = ls_scaling_sync_of(p), messages = 0, bytes = 0;
    double extra = one ? p->compute - one->compute / p->workers : 0;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        messages += f->fit.latency_s * p->messages[k];
        bytes += f->fit.byte_s * p->bytes[k];
    }
    if (p->crowding > 1) return "there are more threads than cores, so workers share cores";
    if (extra > sync && extra > p->idle)
        return "compute itself does not scale, because of work that does not depend on the batch and of shared memory "
               "bandwidth";
    if (p->idle > sync) return "workers wait for the slowest of them";
    return bytes > messages ? "most of the loss is moving the bytes of gradients and weights"
                            : "most of the loss is the latency of messages";
}

/* Appends what was trained, with which threads, and for how many steps. */
static void describe_measurement(const ls_scale_plan *plan, const ls_scale_found *f, char text[LS_SCALE_SENTENCE_MAX]) {
    say(text, "%zu parameters, ", f->parameters);
    if (f->images)
        say(text, "images of %zu x %zu x %zu", f->image.channels, f->image.height, f->image.width);
    else
        say(text, "%zu tokens per sequence", f->seq);
    say(text, ", %d thread%s per worker, %d core%s, zero %d; %lld steps%s at each size", plan->threads,
        plan->threads == 1 ? "" : "s", plan->cores, plan->cores == 1 ? "" : "s", f->zero, (long long)plan->steps,
        plan->steps_given ? "" : " or more");
}

/* Appends how much faster more workers are, and what limits them. */
static void say_why(const ls_scale_plan *plan, const ls_scale_found *f, char why[LS_SCALE_SENTENCE_MAX]) {
    const ls_scaling_point *p = typical(plan, f);
    if (!p) {
        say(why, "Only one worker count was measured: there is nothing to compare.");
        return;
    }
    double speedup = ls_scale_speedup(f, p), sync = ls_scaling_sync_of(p), hidden = ls_scaling_hidden_of(p);
    const ls_scale_crossover *x = NULL;
    for (int i = 0; i < f->crossovers; i++)
        if (f->crossover[i].workers == p->workers) x = &f->crossover[i];
    say(why,
        "With batch %zu, %d workers are %.2f times as fast as one: each computes %s and waits %s for synchronisation",
        p->batch, p->workers, speedup, LS_SECONDS(p->compute), LS_SECONDS(sync));
    if (hidden > 0) say(why, " (%s more overlap with compute)", LS_SECONDS(hidden));
    say(why, ", a ratio of %.3g; ", ls_scale_ratio(p));
    say(why, "%s%s; ", speedup < .9 * p->workers ? "" : "the loss: ", largest_loss(f, p));
    if (!x || x->batch == 0)
        say(why, "they are not predicted to beat one worker at any batch size.");
    else if (x->batch <= (size_t)p->workers)
        say(why, "they beat one worker at any batch size.");
    else
        say(why, "they beat one worker from a batch of about %zu on (%s).", x->batch,
            ls_scale_range((double)x->batch_low, (double)x->batch_high).text);
}

/* Appends a warning if other processes slowed down the steps, or the fit differs from the measurements. */
static void warn_of_doubt(const ls_scale_found *f, char why[LS_SCALE_SENTENCE_MAX]) {
    double most = 0;
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        if (p->crowding <= 1 && p->queued > most * p->seconds) most = p->queued / p->seconds;
    }
    if (most > .05)
        say(why,
            " These times are not reliable: other programs used the cores for up to %.0f %% of a step; measure again "
            "when the machine is idle.",
            100 * most);
    else if (f->fit.error > .2)
        say(why,
            " Treat this with care: the fit differs from the measured steps by %.0f %%, as on a busy machine; measure "
            "again when it is idle, or with more --steps.",
            100 * f->fit.error);
}

/* Appends how many workers are useful by the gradient noise scale. */
static void say_limit(const ls_scale_plan *plan, const ls_scale_found *f, char limit[LS_SCALE_SENTENCE_MAX]) {
    double noise = f->noise.sequences;
    size_t first = plan->batch[0];
    if (!f->noise.valid) {
        say(limit, "The gradient noise scale could not be estimated from so few steps.");
        return;
    }
    say(limit,
        "The gradient noise scale at the beginning of training is about %.3g %ss: batches far above it have "
        "diminishing returns, so ",
        noise, ls_scale_sample(f));
    if (noise >= 2 * (double)first)
        say(limit, "with %zu %ss per worker about %.0f workers are useful.", first, ls_scale_sample(f),
            noise / (double)first);
    else
        say(limit, "more workers with %zu %ss each help little, however fast the machine.", first, ls_scale_sample(f));
    if (f->made_up && f->images)
        say(limit, " (Measured on the built-in drawings: use --data for other images.)");
    else if (f->made_up)
        say(limit, " (Measured on synthetic tokens, which are not representative: use --data for a meaningful value.)");
}

ls_scale_words ls_scale_say(const ls_scale_plan *plan, const ls_scale_found *f) {
    ls_scale_words words = {.about = ""};
    describe_measurement(plan, f, words.about);
    if (!f->fitted) return words;
    say_why(plan, f, words.why);
    warn_of_doubt(f, words.why);
    say_limit(plan, f, words.limit);
    return words;
}
