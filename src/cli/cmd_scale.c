/* cmd_scale.c: `lockstep scale`: measures the speedup by more workers, fits a model of the step time to it, and
 * predicts where more workers stop helping, and why. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "config/value.h"
#include "parallel/traffic/traffic.h"
#include "report/scale_page.h"
#include "run/inputs/inputs.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

enum { DEFAULT_STEPS = 20, PIECE_MAX = 24 };

/* Parses numbers from min to max separated by commas into out[0 … *count − 1], sorted and without duplicates; entries
 * already in `out` stay. Fails beyond `most` numbers. */
static ls_status read_list(const ls_options *o, ls_option_id id, const char *text, int64_t min, int64_t max, int most,
                           int64_t *out, int *count) {
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        char piece[PIECE_MAX];
        int64_t value;
        snprintf(piece, sizeof piece, "%.*s", (int)(length < PIECE_MAX ? length : PIECE_MAX - 1), at);
        if (length == 0 || length >= PIECE_MAX || ls_value_parse_int(piece, &value) != LS_OK)
            return ls_options_fail(o, id, "must be whole numbers separated by commas, e.g. 1,2,4");
        if (value < min || value > max)
            return ls_options_fail(o, id, "%lld must be between %lld and %lld", (long long)value, (long long)min,
                                   (long long)max);
        int i = 0;
        while (i < *count && out[i] < value) i++;
        if (i == *count || out[i] != value) {
            if (*count == most) return ls_options_fail(o, id, "at most %d numbers can be measured", most);
            memmove(out + i + 1, out + i, (size_t)(*count - i) * sizeof *out);
            out[i] = value;
            ++*count;
        }
        at += length;
        if (!*at) return LS_OK;
    }
}

/* Sets the numbers of workers to measure: 1 and those of --workers or, without it, 2, 4, 8 … up to the cores. */
static ls_status read_workers(ls_scale_plan *p) {
    int64_t list[LS_SCALE_COUNTS_MAX + 1] = {1};
    int count = 1;
    if (p->opts->workers_list) {
        LS_TRY(read_list(p->opts, LS_OPT_workers_list, p->opts->workers_list, 1, LS_WORKERS_MAX, LS_SCALE_COUNTS_MAX,
                         list, &count));
    } else {
        for (int w = 2; (w == 2 || w * p->threads <= p->cores) && w <= 64; w *= 2) list[count++] = w;
    }
    p->counts = count;
    for (int i = 0; i < count; i++) p->count[i] = (int)list[i];
    return LS_OK;
}

/* Sets the global batches to measure: those of --global-batch or, without it, two that suit the largest number of
 * workers. */
static ls_status read_batches(ls_scale_plan *p) {
    int most = p->count[p->counts - 1], count = 0;
    int64_t list[LS_SCALE_BATCHES_MAX + 1];
    if (p->opts->global_batch_list) {
        LS_TRY(read_list(p->opts, LS_OPT_global_batch_list, p->opts->global_batch_list, 1, 1 << 20,
                         LS_SCALE_BATCHES_MAX, list, &count));
        if (list[0] < most)
            return ls_options_fail(p->opts, LS_OPT_global_batch_list,
                                   "%lld sequences cannot be divided among %d workers: use at least %d",
                                   (long long)list[0], most, most);
    } else {
        list[count++] = most > 4 ? 2 * most : 8; /* batch norm needs two images for each worker */
        list[count] = 4 * list[0];
        count++;
    }
    p->batches = count;
    for (int i = 0; i < count; i++) p->batch[i] = (size_t)list[i];
    return LS_OK;
}

/* Sets the names of the models to measure, those of --model; the caller frees them. */
static ls_status read_models(ls_scale_plan *p) {
    const char *text = p->opts->model ? p->opts->model : "tiny";
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0) return ls_options_fail(p->opts, LS_OPT_model, "must be models separated by commas");
        if (p->models == LS_SCALE_MODELS_MAX)
            return ls_options_fail(p->opts, LS_OPT_model, "at most %d models can be measured", LS_SCALE_MODELS_MAX);
        p->model[p->models] = strndup(at, length);
        if (!p->model[p->models]) return ls_fail(LS_ERR_RESOURCE, "out of memory for a name");
        p->models++;
        at += length;
        if (!*at) return LS_OK;
    }
}

/* Fills the plan from the options and checks it. The first LS_SCALE_WARMUP of --steps are not measured. */
static ls_status read_options(ls_scale_plan *p) {
    const ls_options *o = p->opts;
    ls_workers_options workers;
    ls_scaling_point points[LS_SCALING_POINTS_MAX];
    if (ls_launcher_place().size > 0)
        return ls_fail(LS_ERR_INPUT, "scale starts its own workers: run it without mpirun or srun");
    LS_TRY(ls_workers_options_from(o, &workers));
    p->link_latency_s = workers.link_latency_s;
    p->link_bytes_per_s = workers.link_bytes_per_s;
    p->threads = o->threads > 0 ? (int)o->threads : 1;
    p->cores = ls_cpu_count();
    p->steps_given = ls_options_is_asked_for(o, LS_OPT_steps);
    if (p->steps_given && (o->steps < LS_SCALE_WARMUP + 2 || o->steps > 100000))
        return ls_options_fail(o, LS_OPT_steps, "must be between %d and 100000: the first %d steps are warm-up",
                               LS_SCALE_WARMUP + 2, LS_SCALE_WARMUP);
    p->steps = p->steps_given ? o->steps - LS_SCALE_WARMUP : DEFAULT_STEPS;
    LS_TRY(read_workers(p));
    LS_TRY(read_batches(p));
    LS_TRY(read_models(p));
    if (ls_scale_plan_sizes(p, points) <= LS_SCALING_POINTS_MAX) return LS_OK;
    return ls_options_fail(o, LS_OPT_global_batch_list, "more than %d sizes per model; use fewer workers or batches",
                           LS_SCALING_POINTS_MAX);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Prints a factor in a column of this width; "-" if it is 0, which means not known. */
static void print_factor(double value, int width) {
    if (value > 0)
        printf(" %*.2f", width, value);
    else
        printf(" %*s", width, "-");
}

/* Prints the table of measured steps: for each number of workers and batch the parts of a step in milliseconds, speedup
 * and efficiency. */
static void print_points(const ls_scale_found *f) {
    printf("\n%7s %6s %9s %9s %9s %9s %9s %9s %9s %8s %8s %6s\n", "workers", "batch", "step", "compute", "sync",
           "overlap", "overhead", "idle", "compute", "speed-up", "effici-", "weak");
    printf("%7s %6s %9s %9s %9s %9s %9s %9s %9s %8s %8s %6s\n", "", "", "ms", "ms", "ms", "ms", "ms", "ms", "/ sync",
           "", "ency", "");
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        double speedup = ls_scale_speedup(f, p);
        printf("%7d %6zu %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f", p->workers, p->batch, 1e3 * p->seconds, 1e3 * p->compute,
               1e3 * ls_scaling_sync_of(p), 1e3 * ls_scaling_hidden_of(p), 1e3 * p->other, 1e3 * p->idle);
        print_factor(ls_scale_ratio(p), 9);
        print_factor(speedup, 8);
        print_factor(speedup / p->workers, 8);
        print_factor(ls_scale_weak(f, p), 6);
        printf("%s\n", p->crowding > 1 ? "  *" : "");
    }
}

/* Prints messages, bytes and time of each kind of communication; nothing if no worker sent any. */
static void print_kinds(const ls_scale_found *f) {
    bool any = false;
    for (int i = 0; i < f->points; i++) {
        const ls_scaling_point *p = &f->point[i];
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            if (!(p->messages[k] > 0)) continue;
            if (!any)
                printf("\n%7s %6s  %-14s %9s %9s %9s %10s\n", "workers", "batch", "kind", "messages", "MB", "sync ms",
                       "overlap ms");
            any = true;
            printf("%7d %6zu  %-14s %9.0f %9.3f %9.3f %10.3f\n", p->workers, p->batch,
                   ls_traffic_kind_name((ls_traffic_kind)k), p->messages[k], 1e-6 * p->bytes[k], 1e3 * p->sync[k],
                   1e3 * p->hidden[k]);
        }
    }
}

/* Prints the constants of the fitted model of the step time, and its error. */
static void print_fit(const ls_scale_found *f) {
    const ls_scaling_fit *t = &f->fit;
    printf("\nfit: compute %.4g ms per %s", 1e3 * t->sequence_s, ls_scale_sample(f));
    if (t->contended_s > 0) printf(" (%.4g more with many workers)", 1e3 * t->contended_s);
    if (t->shared_s > 0) printf(" + %.4g ms / workers", 1e3 * t->shared_s);
    if (t->fixed_s > 0) printf(" + %.4g ms", 1e3 * t->fixed_s);
    if (t->has_sync) {
        printf("; latency %.4g us per message", 1e6 * t->latency_s);
        if (t->byte_s > 0) printf(", %.*f MB/s", t->byte_s < 1e-8 ? 0 : 2, 1e-6 / t->byte_s);
        if (t->hides > 0) printf("; reduce-scatters overlap with %.0f %% of compute", 100 * t->hides);
        printf("; idle %.1f %% of compute", 100 * t->idle);
    }
    printf("; mean error per step %.1f %%\n", 100 * t->error);
}

/* Prints the predicted step time of more workers than were measured. */
static void print_next(const ls_scale_found *f) {
    for (int i = 0; i < f->nexts; i++) {
        const ls_scaling_point *p = &f->next[i];
        if (i == 0) printf("\npredicted, for workers with cores of their own:\n");
        printf("%7d workers, batch %6zu: %.4g ms per step (%.4g to %.4g)", p->workers, p->batch, 1e3 * p->seconds,
               1e3 * p->low, 1e3 * p->high);
        double speedup = ls_scale_speedup(f, p), weak = ls_scale_weak(f, p);
        if (speedup > 0) printf(", speed-up %.2f, efficiency %.2f", speedup, speedup / p->workers);
        if (weak > 0) printf(", weak efficiency %.2f", weak);
        printf("\n");
    }
}

/* Prints, for each number of workers, the batch or link bandwidth from which on it is faster than one worker, and the
 * fastest number. */
static void print_crossovers(const ls_scale_plan *plan, const ls_scale_found *f) {
    for (int i = 0; i < f->crossovers; i++) {
        const ls_scale_crossover *x = &f->crossover[i];
        if (i == 0) printf("\n");
        printf("%d workers beat one ", x->workers);
        if (x->batch == 0)
            printf("at no batch size");
        else if (x->batch <= (size_t)x->workers)
            printf("at any batch size");
        else
            printf("from batch %zu on (%s)", x->batch,
                   ls_scale_range((double)x->batch_low, (double)x->batch_high).text);
        if (x->lost) printf("; measured: not yet at %zu", x->lost);
        if (x->won) printf("%s at %zu they do", x->lost ? "," : "; measured:", x->won);
        if (plan->link_bytes_per_s > 0 && x->rate > 0)
            printf("; with batch %zu from %.4g Mbit/s on (%s)", plan->batch[plan->batches - 1], 8e-6 * x->rate,
                   ls_scale_range(8e-6 * x->rate_low, 8e-6 * x->rate_high).text);
        if (plan->link_bytes_per_s > 0 && x->rate == 0)
            printf("; with batch %zu at no bandwidth, because of this latency", plan->batch[plan->batches - 1]);
        printf("\n");
    }
    if (f->best_workers > 0)
        printf("batch %zu is fastest on %d worker%s, among all worker counts measured or predicted\n",
               plan->batch[plan->batches - 1], f->best_workers, f->best_workers == 1 ? "" : "s");
}

/* Prints all results of a model as text. */
static void print_scaling_text(const ls_scale_plan *plan, const ls_scale_found *f) {
    bool crowded = false;
    for (int i = 0; i < f->points; i++) crowded = crowded || f->point[i].crowding > 1;
    ls_scale_words words = ls_scale_say(plan, f);
    printf("%s: %s\n", f->name, words.about);
    ls_cli_print_device(plan->opts->device, LS_UNIT_CHAIN);
    if (plan->opts->slow_link) printf("link between workers: %s\n", plan->opts->slow_link);
    print_points(f);
    if (crowded)
        printf("* more threads than cores, so they share cores: these rows do not predict workers with cores of their "
               "own\n");
    print_kinds(f);
    if (!f->fitted) return;
    print_fit(f);
    print_next(f);
    print_crossovers(plan, f);
    printf("\n%s\n%s\n", words.why, words.limit);
}

/* ---- JSON: times in seconds, rates in bytes a second ------------------------------------------------------------- */

/* Returns a new object with messages, bytes and seconds of each kind of communication that occurred. */
static json_t *kinds_json(const ls_scaling_point *p) {
    json_t *kinds = json_object();
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++)
        if (p->messages[k] > 0)
            json_object_set_new(kinds, ls_traffic_kind_name((ls_traffic_kind)k),
                                json_pack("{s:f, s:f, s:f, s:f}", "messages", p->messages[k], "bytes", p->bytes[k],
                                          "sync_s", p->sync[k], "hidden_s", p->hidden[k]));
    return kinds;
}

/* Returns a new object for a point; what only a measurement has is left out of a prediction. 0 becomes null where it
 * means not known. */
static json_t *point_json(const ls_scale_found *f, const ls_scaling_point *p, bool measured) {
    double speedup = ls_scale_speedup(f, p);
    json_t *one = json_pack("{s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "workers", p->workers, "global_batch",
                            (json_int_t)p->batch, "sequences_of_the_busiest", p->sequences, "step_s", p->seconds,
                            "low_s", p->low, "high_s", p->high, "compute_s", p->compute, "sync_s",
                            ls_scaling_sync_of(p), "idle_s", p->idle, "overhead_s", p->other);
    json_object_set_new(one, "speedup", speedup > 0 ? json_real(speedup) : json_null());
    json_object_set_new(one, "efficiency", speedup > 0 ? json_real(speedup / p->workers) : json_null());
    double weak = ls_scale_weak(f, p), ratio = ls_scale_ratio(p);
    json_object_set_new(one, "weak_efficiency", weak > 0 ? json_real(weak) : json_null());
    if (!measured) return one;
    json_object_set_new(one, "hidden_s", json_real(ls_scaling_hidden_of(p)));
    json_object_set_new(one, "compute_to_sync", ratio > 0 ? json_real(ratio) : json_null());
    json_object_set_new(one, "steps", json_integer((json_int_t)p->steps));
    json_object_set_new(one, "queued_s", json_real(p->queued));
    json_object_set_new(one, "crowded", json_boolean(p->crowding > 1));
    json_object_set_new(one, "kinds", kinds_json(p));
    return one;
}

/* Returns a new object with the constants of the fit. */
static json_t *fit_json(const ls_scaling_fit *t) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "sequence_s", t->sequence_s,
                     "contended_s", t->contended_s, "shared_s", t->shared_s, "fixed_s", t->fixed_s, "overhead_s",
                     t->other_s, "overhead_sequence_s", t->other_sequence_s, "message_s", t->latency_s, "byte_s",
                     t->byte_s, "hides", t->hides, "idle", t->idle, "error", t->error, "sync_error", t->sync_error);
}

/* Returns a new number, or null for 0, which means that there is none. */
static json_t *whole(size_t value) { return value ? json_integer((json_int_t)value) : json_null(); }

/* Returns a new object for a crossover; the bandwidth is null if no bandwidth suffices, and left out without
 * --slow-link. */
static json_t *crossover_json(const ls_scale_plan *plan, const ls_scale_crossover *x) {
    json_t *one = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "workers", x->workers, "global_batch", whole(x->batch),
                            "low", whole(x->batch_low), "high", whole(x->batch_high), "measured_lost", whole(x->lost),
                            "measured_won", whole(x->won));
    if (plan->link_bytes_per_s > 0)
        json_object_set_new(
            one, "bandwidth",
            x->rate > 0 ? json_pack("{s:f, s:f, s:f}", "bytes_per_s", x->rate, "low", x->rate_low, "high", x->rate_high)
                        : json_null());
    return one;
}

/* Returns a new object with all results of a model. */
static json_t *found_json(const ls_scale_plan *plan, const ls_scale_found *f) {
    json_t *points = json_array(), *next = json_array(), *crossovers = json_array();
    ls_scale_words words = ls_scale_say(plan, f);
    for (int i = 0; i < f->points; i++) json_array_append_new(points, point_json(f, &f->point[i], true));
    for (int i = 0; i < f->nexts; i++) json_array_append_new(next, point_json(f, &f->next[i], false));
    for (int i = 0; i < f->crossovers; i++) json_array_append_new(crossovers, crossover_json(plan, &f->crossover[i]));
    return json_pack("{s:s, s:I, s:I, s:s, s:i, s:o, s:o, s:o, s:o, s:i, s:o, s:s, s:s}", "model", f->name,
                     "parameters", (json_int_t)f->parameters, "seq", (json_int_t)f->seq, "sample", ls_scale_sample(f),
                     "zero", f->zero, "measured", points, "fit", f->fitted ? fit_json(&f->fit) : json_null(),
                     "predicted", next, "crossovers", crossovers, "best_workers", f->best_workers,
                     "noise_scale_sequences", f->noise.valid ? json_real(f->noise.sequences) : json_null(), "why",
                     words.why, "limit", words.limit);
}

/* Prints the results of all models as JSON. */
static ls_status print_scaling_json(const ls_scale_plan *plan, const ls_scale_found *found, int count) {
    json_t *models = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(models, found_json(plan, &found[i]));
    return ls_cli_print_json_lines(json_pack("{s:i, s:i, s:I, s:f, s:f, s:o}", "cores", plan->cores, "threads",
                                             plan->threads, "steps", (json_int_t)plan->steps, "link_latency_s",
                                             plan->link_latency_s, "link_bytes_per_s", plan->link_bytes_per_s, "models",
                                             models));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Writes scaling.html into the folder of --out, which it creates, and prints its path. */
static ls_status write_page(const ls_scale_plan *plan, const ls_scale_found *found) {
    const ls_options *o = plan->opts;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/scaling.html", o->out) >= (int)sizeof path)
        return ls_options_fail(o, LS_OPT_out, "the name is too long");
    LS_TRY(ls_dir_make(o->out));
    LS_TRY(ls_scale_page_write(plan, found, plan->models, path));
    if (!o->json) printf("\nwritten to %s\n", path);
    return LS_OK;
}

/* Prints a line of progress to standard error. A callback of ls_scale_measure(). */
static void say_of_model(const char *model, const char *what) { fprintf(stderr, "%s: %s\n", model, what); }

/* Prints each measured step time to standard error. */
static void say_points(const ls_scale_found *f) {
    for (int i = 0; i < f->points; i++)
        fprintf(stderr, "%s: %d worker%s, batch %zu: %s per step (%d of %d)\n", f->name, f->point[i].workers,
                f->point[i].workers == 1 ? "" : "s", f->point[i].batch, ls_number_seconds(f->point[i].seconds).text,
                i + 1, f->points);
}

/* Measures each model and prints its results; writes the JSON and the page at the end. */
static ls_status measure_models(const ls_scale_plan *plan, ls_scale_found *found) {
    const ls_options *o = plan->opts;
    for (int i = 0; i < plan->models; i++) {
        LS_TRY(ls_scale_measure(plan, plan->model[i], &found[i]));
        say_points(&found[i]);
        if (o->json) continue;
        if (i > 0) printf("\n");
        print_scaling_text(plan, &found[i]);
    }
    if (o->json) LS_TRY(print_scaling_json(plan, found, plan->models));
    return o->out ? write_page(plan, found) : LS_OK;
}

/* Runs `lockstep scale`, which starts its own workers for each measurement. */
ls_status ls_cmd_scale(const ls_options *opts) {
    ls_scale_plan plan = {.opts = opts, .say = say_of_model};
    ls_scale_found *found = NULL;
    ls_status status = LS_OK;
    LS_TRY_OUT(read_options(&plan));
    found = calloc((size_t)plan.models, sizeof *found);
    status = found ? measure_models(&plan, found) : ls_fail(LS_ERR_RESOURCE, "out of memory for the measurements");
out:
    free(found);
    for (int i = 0; i < plan.models; i++) free(plan.model[i]);
    return status;
}
