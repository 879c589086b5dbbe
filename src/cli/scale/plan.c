/* plan.c: what `lockstep scale` measures, checked before anything starts. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/status.h"
#include "cli/cli.h"
#include "run/inputs/layout.h"
#include "cli/scale/scale.h"
#include "config/value.h"

enum { DEFAULT_STEPS = 20, PIECE_MAX = 24 };

/* Numbers between min and max, separated by commas, in ascending order and each once. */
static ls_status read_list(const ls_options *o, ls_option_id id, const char *text, int64_t min, int64_t max, int room,
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
            if (*count == room) return ls_options_fail(o, id, "at most %d numbers can be measured", room);
            memmove(out + i + 1, out + i, (size_t)(*count - i) * sizeof *out);
            out[i] = value;
            ++*count;
        }
        at += length;
        if (!*at) return LS_OK;
    }
}

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

static ls_status make(ls_scale_plan *p) {
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
    ls_option_origin steps = o->source[LS_OPT_steps].origin;
    p->steps_given = steps == LS_ORIGIN_ENV || steps == LS_ORIGIN_FLAG;
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

ls_status ls_scale_plan_make(const ls_options *opts, ls_scale_plan *out) {
    *out = (ls_scale_plan){.opts = opts};
    ls_status status = make(out);
    if (status != LS_OK) ls_scale_plan_free(out);
    return status;
}

void ls_scale_plan_free(ls_scale_plan *plan) {
    for (int i = 0; i < plan->models; i++) free(plan->model[i]);
    plan->models = 0;
}

/* In order of workers, then of batches, each once. */
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
