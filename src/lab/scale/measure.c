/* measure.c: trains short runs of each size, and evaluates them.
 *
 * Each round trains all sizes in turn, so that a temporary load of the machine affects all of them, and steps of a
 * quiet round replace those of a busy one. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/inputs/inputs.h"
#include "lab/scale/scale.h"
#include "parallel/traffic/traffic.h"

enum { DEFAULT_SEQ = 128, NOISE_STEPS = 10, ROUNDS = 3, ROUNDS_MAX = 9, ROUNDS_FROM = 12, ROUND_STEPS_MAX = 300 };
#define ROUND_NS_MAX UINT64_C(5000000000)

/* Least seconds of a size in a round, unless the user gives the steps: the times of short steps vary most. */
static const double round_s = 0.15;

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Inserts a size in the order of workers, then of batches, unless it is listed. If the list is full, only counts it. */
static void add_size(const ls_scale_plan *p, int workers, size_t batch, ls_scaling_point *points, int *count) {
    int at = 0;
    while (at < *count && (points[at].workers < workers || (points[at].workers == workers && points[at].batch < batch)))
        at++;
    if (at < *count && points[at].workers == workers && points[at].batch == batch) return;
    if (*count == LS_SCALING_POINTS_MAX) {
        ++*count;
        return;
    }
    double crowding = (double)workers * p->threads / p->cores;
    memmove(points + at + 1, points + at, (size_t)(*count - at) * sizeof *points);
    points[at] = (ls_scaling_point){.workers = workers, .batch = batch, .crowding = crowding > 1 ? crowding : 1};
    ++*count;
}

int ls_scale_plan_sizes(const ls_scale_plan *p, ls_scaling_point *points) {
    int count = 0;
    for (int c = 0; c < p->counts; c++)
        for (int b = 0; b <= p->batches && count <= LS_SCALING_POINTS_MAX; b++)
            add_size(p, p->count[c], b < p->batches ? p->batch[b] : p->batch[0] * (size_t)p->count[c], points, &count);
    return count;
}

/* Chooses the number of gradient groups, at least one for each worker: the same for all sizes, as far as the
 * batch allows. */
static int choose_groups(const ls_scale_plan *p, size_t batch) {
    int most = p->count[p->counts - 1], groups = 1, wanted = most > 8 ? most : 8;
    while (groups * 2 <= 4096 && groups < wanted) groups *= 2;
    while ((size_t)groups > batch) groups /= 2;
    return groups < most ? most : groups;
}

/* Chooses groups of one size, at least two images, as batch norm requires; returns 0 if that gives fewer groups than
 * workers. */
static int choose_equal_groups(const ls_scale_plan *p, size_t batch, int workers) {
    int groups = choose_groups(p, batch);
    while (groups >= workers && (batch % (size_t)groups != 0 || batch / (size_t)groups < 2)) groups--;
    return groups >= workers ? groups : 0;
}

/* Opens the model with the batch of a size, and a sequence length and groups if the user gives none. */
static ls_status open_case(const ls_scale_plan *p, const char *model, int workers, size_t batch, ls_lab_model *out) {
    ls_options o = *p->opts; /* borrows texts; nothing to end */
    ls_start start;
    LS_TRY(ls_start_look(model, &start));
    bool has_norm = ls_shape_has_batch_norm(&start.shape);
    size_t positions = start.shape.T;
    ls_start_close(&start);
    o.model = model;
    o.global_batch = (int64_t)batch;
    if (o.groups == 0) o.groups = has_norm ? choose_equal_groups(p, batch, workers) : choose_groups(p, batch);
    if (o.groups == 0)
        return ls_options_fail(p->opts, LS_OPT_global_batch_list,
                               "%s has batch norm, which needs equal groups of at least two images, one per worker: "
                               "%zu images cannot be divided like that among %d workers; use a multiple of %d",
                               model, batch, workers, 2 * workers);
    if (o.seq == 0) o.seq = positions < DEFAULT_SEQ ? (int64_t)positions : DEFAULT_SEQ;
    return ls_lab_model_open(&o, model, LS_SCALE_WARMUP + ROUND_STEPS_MAX, out);
}

/* Opens every size, so that an impossible one fails before anything is measured. */
static ls_status try_sizes(const ls_scale_plan *p, const char *model, const ls_scale_found *found) {
    for (int i = 0; i < found->points; i++) {
        ls_lab_model one;
        LS_TRY(open_case(p, model, found->point[i].workers, found->point[i].batch, &one));
        ls_lab_model_close(&one);
    }
    return LS_OK;
}

/* Makes the layout of the options for so many workers, and chooses a micro-batch if they name none. */
static ls_status make_layout(const ls_scale_plan *p, ls_lab_model *one, int workers, ls_layout *out) {
    ls_layout_request request;
    json_t *file = NULL;
    LS_TRY(ls_layout_request_from_options(p->opts, &file, &request));
    json_decref(file);
    request.workers = workers;
    if (workers == 1) ls_knob_leave_open(&request, LS_KNOB_zero); /* there is no other worker to divide with */
    LS_TRY(ls_layout_make(&request, &one->task, out));
    return out->micro > 0 ? LS_OK : ls_trainer_choose_micro(NULL, &one->settings, out);
}

/* Fills in what is known of a size before it is measured: its sequences per worker, and messages and bytes of the
 * worker that has most. Also makes its layout. */
static ls_status fill_known(const ls_scale_plan *p, ls_lab_model *one, ls_scaling_point *point, ls_layout *layout) {
    LS_TRY(make_layout(p, one, point->workers, layout));
    int groups = one->settings.groups, most = 0;
    for (int d = 0, first = 0; d < layout->dp; first += layout->share[d++]) {
        int end = first + layout->share[d];
        size_t each = one->settings.B * (size_t)end / (size_t)groups - one->settings.B * (size_t)first / (size_t)groups;
        if ((int)each > most) most = (int)each;
    }
    point->sequences = most;
    for (int rank = 0; point->workers > 1 && rank < point->workers; rank++) {
        ls_step_traffic traffic;
        LS_TRY(ls_traffic_of_step(&one->task, layout, ls_layout_place(layout, rank), &traffic));
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            double messages = 0, bytes = 0;
            for (int axis = 0; axis < LS_TRAFFIC_AXES; axis++) {
                messages += (double)traffic.of[axis][k].calls * (axis == LS_AXIS_DP || axis == LS_TRAFFIC_WORLD);
                bytes += (double)traffic.of[axis][k].bytes;
            }
            if (messages > point->messages[k]) point->messages[k] = messages;
            if (bytes > point->bytes[k]) point->bytes[k] = bytes;
        }
    }
    return LS_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* Trains the record's steps under the layout in new workers. */
static ls_status run_steps(const ls_scale_plan *p, const ls_lab_model *one, const ls_layout *layout,
                           ls_scale_record *record) {
    ls_trial_place place = {.options = p->opts};
    ls_trial trial = ls_trial_make(one, layout, p->threads);
    trial.steps = ls_scale_steps;
    trial.ctx = record;
    return ls_trial_run(&place, &trial);
}

/* Generates all drawings, which are cached, before the workers begin, so that steps are those of later epochs. */
static ls_status make_drawings(const ls_lab_model *one) {
    const ls_image_shape *image = &one->settings.shape.image;
    uint64_t count = ls_images_get_about(one->images)->count;
    uint8_t *pixels = malloc(image->channels * image->height * image->width);
    ls_status status = pixels ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for an image");
    int32_t label;
    for (uint64_t i = 0; i < count && status == LS_OK; i++) status = ls_images_pixels(one->images, i, pixels, &label);
    free(pixels);
    return status;
}

/* Copies what reports say about the run: lengths, images, ZeRO, parameters. */
static void describe_run(const ls_lab_model *one, const ls_layout *layout, ls_scale_found *found) {
    const ls_shape *shape = &one->settings.shape;
    found->seq = one->settings.T;
    found->images = ls_shape_sees_images(shape);
    found->image = shape->image;
    if (ls_layout_workers(layout) > 1) found->zero = layout->zero;
    found->parameters = ls_model_elems(one->model);
}

/* Returns the steps of one round that count, more of them if steps are short. */
static int64_t steps_of_round(const ls_scale_plan *p, int rounds, int round, const ls_scaling_point *point) {
    int64_t at = round % rounds, steps = p->steps * (at + 1) / rounds - p->steps * at / rounds;
    if (p->steps_given || round == 0) return steps;
    double wanted = round_s / point->seconds;
    if (wanted > ROUND_STEPS_MAX) wanted = ROUND_STEPS_MAX;
    return (double)steps < wanted ? (int64_t)wanted : steps;
}

/* Trains one size for `steps` steps, adds them to its series, and sets the measured figures of the point from all
 * rounds so far. */
static ls_status measure_point(const ls_scale_plan *p, const char *model, int64_t steps, ls_scaling_point *point,
                               ls_scale_series *series, ls_scale_found *found) {
    ls_lab_model one;
    ls_layout layout;
    ls_scale_record record = {0};
    ls_status status;
    LS_TRY(open_case(p, model, point->workers, point->batch, &one));
    if (one.images && !p->opts->data) LS_TRY_OUT(make_drawings(&one));
    LS_TRY_OUT(fill_known(p, &one, point, &layout));
    LS_TRY_OUT(ls_scale_record_open(point->workers, LS_SCALE_WARMUP + steps, &record));
    LS_TRY_OUT(run_steps(p, &one, &layout, &record));
    LS_TRY_OUT(ls_scale_series_add(series, &record));
    LS_TRY_OUT(ls_scale_series_take(series, point));
    describe_run(&one, &layout, found);
out:
    ls_scale_record_close(&record);
    ls_lab_model_close(&one);
    return status;
}

/* Measures the gradient noise scale with one worker and the largest batch, in a run of its own, because observing the
 * gradients of groups takes time. */
static ls_status measure_noise(const ls_scale_plan *p, const char *model, ls_scale_found *found) {
    ls_lab_model one;
    ls_layout layout;
    ls_scale_record record = {0};
    ls_status status;
    LS_TRY(open_case(p, model, 1, p->batch[p->batches - 1], &one));
    one.settings.options.numerics = 1;
    LS_TRY_OUT(make_layout(p, &one, 1, &layout));
    LS_TRY_OUT(ls_scale_record_open(1, NOISE_STEPS, &record));
    if (one.settings.groups > 1) LS_TRY_OUT(run_steps(p, &one, &layout, &record));
    found->noise = *record.noise;
out:
    ls_scale_record_close(&record);
    ls_lab_model_close(&one);
    return status;
}

/* Lists sizes to predict: twice and four times as many workers, with each batch that they can divide (batch norm: into
 * two images each), and with the first batch for each of them. */
static ls_status list_next_sizes(const ls_scale_plan *p, const char *model, ls_scale_found *found) {
    int most = p->count[p->counts - 1];
    for (int factor = 2; factor <= 4; factor *= 2) {
        for (int b = 0; b <= p->batches && most * factor <= LS_WORKERS_MAX; b++) {
            size_t workers = (size_t)most * (size_t)factor,
                   batch = b < p->batches ? p->batch[b] : p->batch[0] * workers;
            bool again = false;
            for (int i = 0; b == p->batches && i < b; i++) again = again || p->batch[i] == batch;
            if (batch < workers || again) continue;
            ls_scaling_point *next = &found->next[found->nexts];
            ls_layout layout;
            ls_lab_model one;
            *next = (ls_scaling_point){.workers = (int)workers, .batch = batch, .crowding = 1};
            LS_TRY(open_case(p, model, 1, batch, &one));
            if (one.settings.groups < next->workers) one.settings.groups = one.task.G = next->workers;
            bool is_thin = ls_shape_has_batch_norm(&one.settings.shape) && batch < 2 * workers;
            ls_status status = is_thin ? LS_OK : fill_known(p, &one, next, &layout);
            ls_lab_model_close(&one);
            if (status != LS_OK) return status;
            found->nexts += !is_thin;
        }
    }
    return LS_OK;
}

/* Returns whether another round helps: the machine was busy, rounds are short, and the user gave no steps. */
static bool wants_more(const ls_scale_plan *p, const ls_scale_series *series, const ls_scale_found *found, int round,
                       uint64_t round_ns) {
    if (p->steps_given || round >= ROUNDS_MAX || round_ns > ROUND_NS_MAX) return false;
    for (int i = 0; i < found->points; i++)
        if (found->point[i].crowding <= 1 && !ls_scale_series_is_calm(&series[i])) return true;
    return false;
}

/* Trains all sizes in turn, round by round. */
static ls_status measure_all(const ls_scale_plan *p, const char *model, ls_scale_series *series, ls_scale_found *out) {
    int rounds = p->steps < ROUNDS_FROM ? 1 : ROUNDS;
    bool more = true;
    for (int round = 0; more; round++) {
        uint64_t begin = ls_clock_ns();
        for (int i = 0; i < out->points; i++) {
            ls_scaling_point *point = &out->point[i];
            LS_TRY(measure_point(p, model, steps_of_round(p, rounds, round, point), point, &series[i], out));
        }
        more = round + 1 < rounds || wants_more(p, series, out, round + 1, ls_clock_ns() - begin);
        char done[48];
        snprintf(done, sizeof done, "round %d of %d done", round + 1, rounds);
        if (more)
            p->say(out->name, round + 1 < rounds ? done : "other programs use the cores: measuring one more round");
    }
    return LS_OK;
}

/* ---- evaluation: the fit, the next sizes, and the range in which more workers help ------------------------------- */

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

/* Predicts the times of the sizes that were not measured, with their bands. */
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

/* Finds from which batch, and over which bandwidth of a slow link, so many workers are faster than one; with bands. */
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

/* Finds the number of workers with the shortest step for the largest batch, measured or predicted. */
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

/* Fits the measured points and evaluates the fit; f->fitted stays false if there are too few. */
static void fit_scaling(const ls_scale_plan *plan, ls_scale_found *f) {
    f->fitted = ls_scaling_fit_make(f->point, f->points, &f->fit);
    if (!f->fitted) return;
    if (!f->fit.has_sync) f->nexts = 0; /* nothing is known of synchronising */
    predict_next(f);
    for (int c = 0; c < plan->counts; c++)
        if (plan->count[c] > 1) find_crossover(plan, f, plan->count[c]);
    find_best(plan, f);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

ls_status ls_scale_measure(const ls_scale_plan *p, const char *model, ls_scale_found *out) {
    const char *slash = strrchr(model, '/');
    *out = (ls_scale_found){.made_up = !p->opts->data};
    snprintf(out->name, sizeof out->name, "%s", slash && slash[1] ? slash + 1 : model);
    out->points = ls_scale_plan_sizes(p, out->point);
    LS_TRY(try_sizes(p, model, out));
    LS_TRY(list_next_sizes(p, model, out));
    ls_scale_series *series = calloc((size_t)out->points, sizeof *series);
    ls_status status = series ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the measurements");
    if (status == LS_OK) status = measure_all(p, model, series, out);
    for (int i = 0; series && i < out->points; i++) free(series[i].step);
    free(series);
    if (status == LS_OK) status = measure_noise(p, model, out);
    if (status == LS_OK) fit_scaling(p, out);
    return status;
}
