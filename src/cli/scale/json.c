/* json.c: `lockstep scale` for programs. Times are in seconds, rates in bytes a second. */
#include "base/status.h"
#include "cli/print_json.h"
#include "cli/scale/scale.h"
#include "parallel/traffic/traffic.h"

static json_t *kinds_json(const ls_scaling_point *p) {
    json_t *kinds = json_object();
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++)
        if (p->messages[k] > 0)
            json_object_set_new(kinds, ls_traffic_kind_name((ls_traffic_kind)k),
                                json_pack("{s:f, s:f, s:f, s:f}", "messages", p->messages[k], "bytes", p->bytes[k],
                                          "sync_s", p->sync[k], "hidden_s", p->hidden[k]));
    return kinds;
}

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

static json_t *fit_json(const ls_scaling_fit *t) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "sequence_s", t->sequence_s,
                     "contended_s", t->contended_s, "shared_s", t->shared_s, "fixed_s", t->fixed_s, "overhead_s",
                     t->other_s, "overhead_sequence_s", t->other_sequence_s, "message_s", t->latency_s, "byte_s",
                     t->byte_s, "hides", t->hides, "idle", t->idle, "error", t->error, "sync_error", t->sync_error);
}

static json_t *whole(size_t value) { return value ? json_integer((json_int_t)value) : json_null(); }

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

static json_t *found_json(const ls_scale_plan *plan, const ls_scale_found *f) {
    json_t *points = json_array(), *next = json_array(), *crossovers = json_array();
    for (int i = 0; i < f->points; i++) json_array_append_new(points, point_json(f, &f->point[i], true));
    for (int i = 0; i < f->nexts; i++) json_array_append_new(next, point_json(f, &f->next[i], false));
    for (int i = 0; i < f->crossovers; i++) json_array_append_new(crossovers, crossover_json(plan, &f->crossover[i]));
    return json_pack("{s:s, s:I, s:I, s:s, s:i, s:o, s:o, s:o, s:o, s:i, s:o, s:s, s:s}", "model", f->name,
                     "parameters", (json_int_t)f->parameters, "seq", (json_int_t)f->seq, "sample", ls_scale_sample(f),
                     "zero", f->zero, "measured", points, "fit", f->fitted ? fit_json(&f->fit) : json_null(),
                     "predicted", next, "crossovers", crossovers, "best_workers", f->best_workers,
                     "noise_scale_sequences", f->noise.valid ? json_real(f->noise.sequences) : json_null(), "why",
                     f->why, "limit", f->limit);
}

ls_status ls_scale_print_json(const ls_scale_plan *plan, const ls_scale_found *found, int count) {
    json_t *models = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(models, found_json(plan, &found[i]));
    return ls_cli_print_json_lines(json_pack("{s:i, s:i, s:I, s:f, s:f, s:o}", "cores", plan->cores, "threads",
                                             plan->threads, "steps", (json_int_t)plan->steps, "link_latency_s",
                                             plan->link_latency_s, "link_bytes_per_s", plan->link_bytes_per_s, "models",
                                             models));
}
