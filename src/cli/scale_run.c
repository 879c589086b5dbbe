/* scale_run.c: the measuring of `lockstep scale`: a short training for each size, through the workers of verify. */
#include <stdlib.h>
#include <string.h>

#include "cli/layout_option.h"
#include "cli/scale.h"
#include "cli/verify_case.h"
#include "cli/verify_run.h"
#include "parallel/traffic.h"

enum { DEFAULT_SEQ = 128, NOISE_STEPS = 10 };

/* Groups bound the workers; they are the same for all sizes, as far as the batch allows. */
static int groups_of(const ls_scale_plan *p, size_t batch) {
    int most = p->count[p->counts - 1], groups = 1, wanted = most > 8 ? most : 8;
    while (groups * 2 <= 4096 && groups < wanted) groups *= 2;
    while ((size_t)groups > batch) groups /= 2;
    return groups < most ? most : groups;
}

static ls_status open_case(const ls_scale_plan *p, const char *model, size_t batch, ls_verify_case *out) {
    ls_options o = *p->opts; /* borrows texts; nothing to end */
    o.model = model;
    o.global_batch = (int64_t)batch;
    if (o.groups == 0) o.groups = groups_of(p, batch);
    if (o.seq == 0) {
        ls_start start;
        LS_TRY(ls_start_look(model, &start));
        o.seq = start.shape.T < DEFAULT_SEQ ? (int64_t)start.shape.T : DEFAULT_SEQ;
        ls_start_close(&start);
    }
    return ls_verify_case_open(&o, model, p->steps, out);
}

static ls_status make_layout(const ls_scale_plan *p, ls_verify_case *one, int workers, ls_layout *out) {
    ls_layout_wish wish;
    json_t *file = NULL;
    LS_TRY(ls_layout_wish_from_options(p->opts, &file, &wish));
    json_decref(file);
    wish.workers = workers;
    if (workers == 1) wish.zero = -1; /* there is nobody to divide with */
    LS_TRY(ls_layout_make(&wish, &one->task, out));
    return out->micro > 0 ? LS_OK : ls_trainer_choose_micro(&one->settings, out);
}

/* What of a size is known before it is measured. */
static ls_status know(const ls_scale_plan *p, ls_verify_case *one, ls_scaling_point *point, ls_layout *layout) {
    ls_status status = make_layout(p, one, point->workers, layout);
    if (status != LS_OK) return status;
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

/* ---- from steps to a point ----------------------------------------------------------------------------------------
 */

static double mean_seconds(const ls_scale_record *r, int64_t step) {
    double sum = 0;
    for (int w = 0; w < r->workers; w++) sum += r->step[(int64_t)w * r->steps + step].seconds;
    return sum / r->workers;
}

static void add_step(ls_scaling_point *p, double *link, const ls_scale_record *r, int64_t step, double weight) {
    for (int w = 0; w < r->workers; w++) {
        const ls_scale_step *s = &r->step[(int64_t)w * r->steps + step];
        p->seconds += weight * s->seconds;
        p->compute += weight * s->compute;
        p->idle += weight * s->idle;
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            p->sync[k] += weight * s->sync[k];
            link[k] += weight * s->link[k];
        }
    }
}

/* While a worker waits for one kind, the transfer of another may have the link: only of their sums can be told what was
 * hidden, and it is put down to the kinds that were waited for less than they took. */
static void divide_sync(ls_scaling_point *p, const double *link) {
    double all = 0, shortage = 0, sync = ls_scaling_sync_of(p);
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        all += link[k];
        if (link[k] > p->sync[k]) shortage += link[k] - p->sync[k];
    }
    /* A few hundredths less than transfers take is how clocks are read, not something hidden. */
    double hidden = sync < .97 * all ? all - sync : 0;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        if (link[k] > p->sync[k] && hidden > 0) p->hidden[k] = (link[k] - p->sync[k]) * hidden / shortage;
        p->own[k] = all > 0 ? link[k] * (sync + hidden) / all : p->sync[k];
    }
}

/* The faster half of the steps: what else a machine does only adds to the others. */
static ls_status take(const ls_scale_record *r, ls_scaling_point *p) {
    int64_t count = r->steps - LS_SCALE_WARMUP;
    double link[LS_TRAFFIC_KINDS] = {0};
    int64_t *order = malloc((size_t)count * sizeof *order);
    if (!order) return ls_fail(LS_ERR_RESOURCE, "out of memory for %lld steps", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i;
        double seconds = mean_seconds(r, i + LS_SCALE_WARMUP);
        for (; at > 0 && mean_seconds(r, order[at - 1]) > seconds; at--) order[at] = order[at - 1];
        order[at] = i + LS_SCALE_WARMUP;
    }
    int64_t half = (count + 1) / 2;
    for (int64_t i = 0; i < half; i++) add_step(p, link, r, order[i], 1.0 / (double)(half * r->workers));
    p->low = mean_seconds(r, order[count / 4]);
    p->high = mean_seconds(r, order[count - 1 - count / 4]);
    free(order);
    p->other = p->seconds - p->compute - p->idle - ls_scaling_sync_of(p);
    if (p->other < 0) p->other = 0;
    divide_sync(p, link);
    return LS_OK;
}

static ls_status run_steps(const ls_scale_plan *p, const ls_verify_case *one, const ls_layout *layout, int workers,
                           ls_scale_record *record) {
    ls_verify_place place = {.options = p->opts};
    ls_verify_order order = {.workers = workers, .threads = p->threads, .times = record};
    order.job = (ls_verify_job){.settings = &one->settings,
                                .data = ls_verify_case_data(one),
                                .weights = one->start.weights,
                                .layout = *layout,
                                .steps = record->steps};
    return ls_verify_run(&place, &order);
}

static ls_status measure(const ls_scale_plan *p, const char *model, ls_scaling_point *point, ls_scale_found *found) {
    ls_verify_case one;
    ls_layout layout;
    ls_scale_record record = {0};
    ls_status status;
    LS_TRY(open_case(p, model, point->batch, &one));
    LS_TRY_OUT(know(p, &one, point, &layout));
    LS_TRY_OUT(ls_scale_record_open(point->workers, p->steps, &record));
    LS_TRY_OUT(run_steps(p, &one, &layout, point->workers, &record));
    LS_TRY_OUT(take(&record, point));
    found->seq = one.settings.T;
    if (point->workers > 1) found->zero = layout.zero;
    found->parameters = 0;
    for (int i = 0; i < ls_model_params(one.model); i++)
        found->parameters += ls_param_elems(ls_model_param(one.model, i));
out:
    ls_scale_record_close(&record);
    ls_verify_case_close(&one);
    return status;
}

/* In a run of its own: watching the gradients of groups takes time. */
static ls_status measure_noise(const ls_scale_plan *p, const char *model, ls_scale_found *found) {
    ls_verify_case one;
    ls_layout layout;
    ls_scale_record record = {0};
    ls_status status;
    LS_TRY(open_case(p, model, p->batch[p->batches - 1], &one));
    one.settings.numerics = 1;
    LS_TRY_OUT(make_layout(p, &one, 1, &layout));
    LS_TRY_OUT(ls_scale_record_open(1, NOISE_STEPS, &record));
    if (one.settings.groups > 1) LS_TRY_OUT(run_steps(p, &one, &layout, 1, &record));
    found->noise = *record.noise;
out:
    ls_scale_record_close(&record);
    ls_verify_case_close(&one);
    return status;
}

/* Sizes that follow: twice and four times as many workers, with each batch that they can divide, and with the first
 * batch for each of them. */
static ls_status look_ahead(const ls_scale_plan *p, const char *model, ls_scale_found *found) {
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
            ls_verify_case one;
            *next = (ls_scaling_point){.workers = (int)workers, .batch = batch, .crowding = 1};
            LS_TRY(open_case(p, model, batch, &one));
            if (one.settings.groups < next->workers) one.settings.groups = one.task.G = next->workers;
            ls_status status = know(p, &one, next, &layout);
            ls_verify_case_close(&one);
            if (status != LS_OK) return status;
            found->nexts++;
        }
    }
    return LS_OK;
}

ls_status ls_scale_run(const ls_scale_plan *p, const char *model, ls_scale_found *out) {
    const char *slash = strrchr(model, '/');
    *out = (ls_scale_found){.made_up = !p->opts->data};
    snprintf(out->name, sizeof out->name, "%s", slash && slash[1] ? slash + 1 : model);
    out->points = ls_scale_plan_sizes(p, out->point);
    LS_TRY(look_ahead(p, model, out)); /* first: what cannot be is said before anything is measured */
    for (int i = 0; i < out->points; i++) {
        ls_scaling_point *point = &out->point[i];
        LS_TRY(measure(p, model, point, out));
        fprintf(stderr, "%s: %d worker%s, batch %zu: %s a step (%d of %d)\n", out->name, point->workers,
                point->workers == 1 ? "" : "s", point->batch, ls_memo_seconds(point->seconds).text, i + 1, out->points);
    }
    return measure_noise(p, model, out);
}
