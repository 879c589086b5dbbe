/* plan_json.c: makes the JSON of a plan. Functions *_to_json return a new reference that the caller puts into its own
 * object, and add_* set members of `out`. If memory is short an object is NULL, and jansson makes every object that
 * should contain it NULL, too, so that only ls_plan_whole_json() checks. */
#include "api/plan.h"

#include "model/model.h"

/* Returns seconds of a step by kind, such as compute and exposed communication. */
static json_t *times_to_json(const double *time) {
    json_t *object = json_object();
    for (int k = 0; k < LS_TIME_KINDS; k++)
        json_object_set_new(object, ls_time_kind_name((ls_time_kind)k), json_real(time[k]));
    return object;
}

/* Returns bytes of the largest worker by kind, such as weights and activations. */
static json_t *memory_to_json(const double *memory) {
    json_t *object = json_object();
    for (int k = 0; k < LS_MEMORY_KINDS; k++)
        json_object_set_new(object, ls_memory_kind_name((ls_memory_kind)k), json_real(memory[k]));
    return object;
}

/* Returns the set of knobs (a bit for each) that a layout of this task shows besides those it always has. */
static unsigned members_of_task(const ls_plan_task *task) {
    return 1u << LS_KNOB_type | (task->cluster.sites > 1 ? 1u << LS_KNOB_stages_across : 0);
}

/* Returns a layout of a changed task (another cluster or batch) without the list of its stages, which hold only for the
 * task that was asked for. */
static json_t *layout_to_json(const ls_plan_task *task, const ls_knobs *l) {
    return ls_knobs_to_json(l, NULL, NULL, members_of_task(task));
}

/* Adds "with_failures" to a layout: how long the whole training takes with failures and checkpoints; nothing without
 * --mtbf. */
static void add_course(const ls_plan_question *q, const ls_plan_task *task, const ls_plan_choice *choice, json_t *out) {
    ls_course c = ls_plan_course_of(q, task, choice);
    if (!(c.mtbf_seconds > 0)) return;
    double hours = c.seconds / 3600 * ls_cluster_chips(&task->cluster);
    json_t *object = json_pack("{s:f, s:f, s:f, s:f, s:b, s:f, s:f, s:f, s:f}", "mtbf_seconds", c.mtbf_seconds,
                               "checkpoint_bytes", c.checkpoint_bytes, "checkpoint_seconds", c.save_seconds,
                               "interval_seconds", c.interval_seconds, "ends", c.seconds > 0, "days", c.seconds / 86400,
                               "goodput", c.goodput, "failures", c.failures, "gpu_hours", hours);
    if (object && q->price > 0) json_object_set_new(object, "cost", json_real(hours * q->price));
    json_object_set_new(out, "with_failures", object);
}

/* Returns a layout with its predicted time, memory and speed; with --tokens also days, GPU hours and cost of the whole
 * training. */
static json_t *choice_to_json(const ls_plan_question *q, const ls_plan_task *task, const ls_plan_choice *c) {
    const ls_prediction *p = &c->prediction;
    double rate = ls_plan_tokens_per_second(task, p), lacks = p->memory_bytes - p->capacity_bytes;
    json_t *object = json_pack(
        "{s:o, s:b, s:f, s:f, s:f, s:i, s:f, s:o, s:f, s:f, s:f, s:i, s:o, s:f, s:f}", "layout",
        ls_plan_to_json(task, &c->layout, members_of_task(task)), "fits", lacks <= 0, "seconds", p->seconds,
        "tokens_per_second", rate, "mfu", ls_plan_mfu(task, c), "micro_batches", p->micros, "model_flops",
        p->model_flops, "time_seconds", times_to_json(p->time), "memory_bytes", p->memory_bytes, "capacity_bytes",
        p->capacity_bytes, "lacks_bytes", lacks > 0 ? lacks : 0.0, "heaviest_stage", p->heaviest_stage, "memory",
        memory_to_json(p->memory), "dp_link_seconds", p->link_dp, "dp_hidden_seconds", p->hidden_dp);
    if (object && q->tokens > 0) {
        double days = q->tokens / rate / 86400, hours = days * 24 * ls_cluster_chips(&task->cluster);
        json_object_set_new(object, "days", json_real(days));
        json_object_set_new(object, "gpu_hours", json_real(hours));
        if (q->price > 0) json_object_set_new(object, "cost", json_real(hours * q->price));
        add_course(q, task, c, object);
    }
    return object;
}

/* Returns an array of layouts first … count − 1 of the list. */
static json_t *choices_to_json(const ls_plan_answer *a, const ls_plan_choice *list, int first, int count) {
    json_t *array = json_array();
    for (int i = first; i < count; i++) json_array_append_new(array, choice_to_json(a->question, &a->task, &list[i]));
    return array;
}

/* Returns the sites of a cluster and the link between them. */
static json_t *cluster_to_json(const ls_cluster *cluster) {
    json_t *sites = json_array();
    for (int i = 0; i < cluster->sites; i++) {
        const ls_site *s = &cluster->site[i];
        json_array_append_new(sites, json_pack("{s:s, s:i, s:i, s:s, s:s, s:f}", "chip", s->chip.name, "chips",
                                               s->chips, "chips_per_node", s->node, "inside", s->inside.name, "between",
                                               s->between.name, "memory_bytes", s->chip.memory_bytes));
    }
    if (cluster->sites < 2) return json_pack("{s:o}", "sites", sites);
    return json_pack("{s:o, s:s}", "sites", sites, "link", cluster->across.name);
}

/* Returns the single changes (to hardware or options) that would help, with their gain in time. */
static json_t *changes_to_json(const ls_plan_answer *a) {
    json_t *array = json_array();
    for (int i = 0; i < a->changes; i++) {
        const ls_plan_change *c = &a->change[i];
        json_array_append_new(array, json_pack("{s:s, s:b, s:f, s:f, s:o}", "what", c->what, "hardware", c->hardware,
                                               "gain", c->gain, "seconds", c->to.prediction.seconds, "layout",
                                               layout_to_json(&a->task, &c->to.layout)));
    }
    return array;
}

/* Returns a scaling curve: for each number of chips its best layout, null if none fits, and its speed. */
static json_t *points_to_json(const ls_plan_answer *a, const ls_plan_point *list, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++) {
        const ls_plan_point *p = &list[i];
        bool fits = p->best.prediction.seconds > 0;
        json_t *layout = fits ? layout_to_json(&a->task, &p->best.layout) : json_null();
        json_array_append_new(array,
                              json_pack("{s:i, s:f, s:f, s:f, s:f, s:o}", "chips", p->chips, "tokens_per_second",
                                        p->tokens_per_second, "held_tokens_per_second", p->held_tokens_per_second,
                                        "ideal_tokens_per_second", p->ideal_tokens_per_second, "seconds",
                                        p->best.prediction.seconds, "layout", layout));
    }
    return array;
}

/* Returns how much memory is needed without memory-saving options, and after each of them is added. */
static json_t *ladder_to_json(const ls_plan_answer *a) {
    json_t *array = json_array();
    for (int i = 0; i < a->rungs; i++)
        json_array_append_new(array, json_pack("{s:s, s:f, s:o}", "what", a->rung[i].what, "bytes", a->rung[i].bytes,
                                               "memory", memory_to_json(a->rung[i].memory)));
    return array;
}

/* Adds where the time of the best layout goes, what would help, how it scales, and, for two sites, where the link
 * between them cuts it. */
static void add_reasons(const ls_plan_answer *a, json_t *out) {
    json_object_set_new(out, "losses",
                        json_pack("{s:f, s:o, s:s}", "useful_seconds", a->losses.useful, "lost_seconds",
                                  times_to_json(a->losses.lost), "worst", ls_time_kind_name(a->losses.worst)));
    json_object_set_new(out, "changes", changes_to_json(a));
    json_object_set_new(out, "scaling",
                        json_pack("{s:o, s:o}", "batch_grows", points_to_json(a, a->weak, a->weak_points),
                                  "batch_stays", points_to_json(a, a->strong, a->strong_points)));
    json_object_set_new(out, "ladder", ladder_to_json(a));
    if (a->task.cluster.sites > 1)
        json_object_set_new(out, "cut",
                            json_pack("{s:s, s:f, s:f, s:f}", "divided",
                                      a->best->layout.stages_across ? "stages" : "replicas", "bytes_each_way",
                                      a->across_bytes, "seconds", a->across_seconds, "other_way_seconds",
                                      a->not_cut.prediction.seconds));
}

/* Returns the best layout on a part of the cluster, with the number of its chips at each site. */
static json_t *size_to_json(const ls_plan_answer *a, const ls_plan_size *size) {
    ls_plan_task task = ls_plan_task_of_size(&a->question->task, size);
    json_t *chips = json_array();
    for (int i = 0; i < a->question->task.cluster.sites; i++)
        json_array_append_new(chips, json_integer(size->chips[i]));
    return json_pack("{s:o, s:f, s:f, s:o}", "chips", chips, "seconds", size->best.prediction.seconds,
                     "tokens_per_second", size->tokens_per_second, "layout", layout_to_json(&task, &size->best.layout));
}

/* Adds "use": whether fewer chips than the cluster has are faster, or nearly as fast. */
static void add_use(const ls_plan_answer *a, json_t *out) {
    json_t *object =
        json_pack("{s:i, s:b, s:o, s:o}", "sizes", a->use.sizes, "fewer_are_faster", ls_plan_use_is_fewer(&a->use),
                  "all", size_to_json(a, &a->use.all), "fastest", size_to_json(a, &a->use.fastest));
    if (object && ls_plan_use_has_nearly(&a->use))
        json_object_set_new(object, "nearly_as_fast", size_to_json(a, &a->use.nearly));
    json_object_set_new(out, "use", object);
}

/* Returns time and layout alone; null if no layout fits (seconds 0). */
static json_t *brief_to_json(const ls_plan_answer *a, const ls_plan_choice *c) {
    if (!(c->prediction.seconds > 0)) return json_null();
    return json_pack("{s:f, s:o}", "seconds", c->prediction.seconds, "layout", layout_to_json(&a->task, &c->layout));
}

/* Adds how the best layout changes with half the bandwidth of its busiest link or with less memory; with --robust also
 * the robust layout. */
static void add_sensitivity(const ls_plan_answer *a, json_t *out) {
    const ls_plan_sensitivity *s = &a->sensitivity;
    json_object_set_new(out, "sensitivity",
                        json_pack("{s:{s:s, s:f, s:f, s:o}, s:{s:f, s:i}, s:{s:f, s:b, s:o}}", "half_bandwidth",
                                  "where", s->where, "bandwidth_share", LS_PLAN_LINK_SHARE, "seconds", s->slow.seconds,
                                  "best", brief_to_json(a, &s->link_best), "error_band", "share", a->error,
                                  "layouts_within", s->near, "less_memory", "memory_share", LS_PLAN_MEMORY_SHARE,
                                  "fits", s->fits_less, "best", brief_to_json(a, &s->memory_best)));
    if (!(s->robust.prediction.seconds > 0)) return;
    json_t *robust = choice_to_json(a->question, &a->task, &s->robust);
    if (robust) json_object_set_new(robust, "half_bandwidth_seconds", json_real(s->robust_link_seconds));
    json_object_set_new(out, "robust", robust);
}

/* Adds the kind of time that limits scaling, and what would treat it; null if there is none. */
static void add_bottleneck(const ls_plan_answer *a, json_t *out) {
    const ls_plan_bottleneck *b = &a->bottleneck;
    if (!b->is_there) {
        json_object_set_new(out, "scaling_bottleneck", json_null());
        return;
    }
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:f, s:o}", "kind", ls_time_kind_name(b->kind), "from_chips", b->from.chips,
                  "to_chips", b->to.chips, "growth", b->growth, "chip_seconds_more", times_to_json(b->more));
    if (object && b->is_treated)
        json_object_set_new(object, "treatment",
                            json_pack("{s:s, s:b, s:f, s:f}", "what", b->treatment.what, "hardware",
                                      b->treatment.hardware, "gain", b->treatment.gain, "seconds_of_kind_saved",
                                      b->treated_seconds));
    json_object_set_new(out, "scaling_bottleneck", object);
}

/* Adds "would_fit", when no layout fits: other knobs, offloading, more chips or larger ones, as far as they would
 * help. */
static void add_remedy(const ls_plan_answer *a, json_t *out) {
    const ls_plan_remedy *r = &a->remedy;
    const ls_plan_task *task = &a->question->task;
    json_t *object = json_object();
    if (r->is_freed)
        json_object_set_new(object, "other_knobs",
                            json_pack("{s:f, s:o}", "seconds", r->freed.prediction.seconds, "layout",
                                      layout_to_json(task, &r->freed.layout)));
    if (r->is_offloaded)
        json_object_set_new(object, "offload",
                            json_pack("{s:f, s:o}", "seconds", r->offloaded.prediction.seconds, "layout",
                                      layout_to_json(task, &r->offloaded.layout)));
    if (r->chips > 0)
        json_object_set_new(object, "more_chips",
                            json_pack("{s:i, s:f, s:o}", "chips", r->chips, "seconds", r->with.prediction.seconds,
                                      "layout", layout_to_json(task, &r->with.layout)));
    if (r->chip.name[0])
        json_object_set_new(object, "larger_chip",
                            json_pack("{s:s, s:f, s:o}", "chip", r->chip.name, "seconds", r->other.prediction.seconds,
                                      "layout", layout_to_json(task, &r->other.layout)));
    json_object_set_new(out, "would_fit", object);
}

/* Returns the best layout under each convention of the training framework (--stack) in which programs differ. */
static json_t *habits_to_json(const ls_plan_answer *a) {
    json_t *array = json_array();
    for (int i = 0; i < a->habits; i++)
        json_array_append_new(array, json_pack("{s:s, s:b, s:o}", "what", a->habit[i].what, "fits",
                                               a->habit[i].best.prediction.seconds > 0, "best",
                                               brief_to_json(a, &a->habit[i].best)));
    return array;
}

/* Returns the whole answer for a cluster of chips; NULL if memory is short. */
static json_t *answer_to_json(const ls_plan_answer *a) {
    const ls_plan_question *q = a->question;
    const ls_plan_task *task = &q->task;
    json_t *best = a->best ? choice_to_json(q, &a->task, a->best) : json_null();
    json_t *out = json_pack("{s:{s:s, s:f, s:I}, s:o, s:I, s:I, s:s, s:I, s:I, s:o, s:o, s:o}", "model", "name",
                            task->shape.name, "parameters", ls_model_count_params(&task->shape), "layers",
                            (json_int_t)task->shape.L, "cluster", cluster_to_json(&task->cluster), "seq",
                            (json_int_t)task->seq, "global_batch", (json_int_t)task->global_batch, "program",
                            task->stack.name, "tried", (json_int_t)a->found.tried, "fit", (json_int_t)a->found.fit,
                            "best", best, "runners_up", choices_to_json(a, a->found.fits, 1, a->found.fitting),
                            "misfits", choices_to_json(a, a->found.lacks, 0, a->found.missing));
    if (out) json_object_set_new(out, "depends_on_program", habits_to_json(a));
    if (out && a->best) {
        double best_mfu = ls_plan_best_mfu(&a->task, a->best->layout.type);
        json_object_set_new(out, "best_measured_mfu", best_mfu > 0 ? json_real(best_mfu) : json_null());
        add_use(a, out);
        add_sensitivity(a, out);
        add_bottleneck(a, out);
        add_reasons(a, out);
    }
    if (out && !a->best) add_remedy(a, out);
    return out;
}

/* ---- this program on a machine that was measured ----------------------------------------------------------------- */

/* Returns in *out the device memory of every worker of a layout, in bytes, as a dry run computes it. */
static ls_status workers_to_json(const ls_plan *plan, const ls_layout *layout, json_t **out) {
    *out = json_array();
    for (int rank = 0; rank < ls_layout_workers(layout); rank++) {
        ls_dry_worker w;
        LS_TRY(ls_dry_measure(&plan->settings, layout, rank, &w));
        json_array_append_new(*out, json_pack("{s:i, s:I, s:I}", "worker", rank, "bytes", (json_int_t)w.arena,
                                              "outside_bytes", (json_int_t)w.outside));
    }
    return LS_OK;
}

/* Returns in *out a layout of this program with predicted time, memory and speed. *out may be set on failure, too; the
 * caller releases it. */
static ls_status native_choice_to_json(const ls_plan *plan, const ls_native_choice *c, json_t **out) {
    const ls_prediction *p = &c->prediction;
    json_t *workers = NULL;
    ls_status status = workers_to_json(plan, &c->layout, &workers);
    double lacks = p->memory_bytes - p->capacity_bytes, peak = ls_native_peak(&plan->machine, &plan->settings.policy);
    *out = json_pack("{s:o, s:o, s:o, s:b, s:f, s:f, s:i, s:f, s:f, s:f, s:o}", "time_seconds", times_to_json(p->time),
                     "memory", memory_to_json(p->memory), "layout", ls_layout_to_json(&c->layout), "fits", lacks <= 0,
                     "seconds", p->seconds, "tokens_per_second",
                     (double)plan->settings.B * (double)plan->settings.T / p->seconds, "micro_batches", p->micros,
                     "memory_bytes", p->memory_bytes, "capacity_bytes", p->capacity_bytes, "lacks_bytes",
                     lacks > 0 ? lacks : 0.0, "workers", workers);
    json_object_set_new(*out, "dp_link_seconds", json_real(p->link_dp));
    json_object_set_new(*out, "dp_hidden_seconds", json_real(p->hidden_dp));
    if (peak > 0) json_object_set_new(*out, "mfu", json_real(p->model_flops / p->seconds / peak));
    return status;
}

/* Returns in *out the whole answer of a native plan; NULL on failure. */
static ls_status native_to_json(const ls_plan *plan, json_t **out) {
    const ls_native_found *found = &plan->found;
    json_t *list = json_array(), *misfit = json_null();
    ls_status status = LS_OK;
    for (int i = 0; status == LS_OK && i < found->fitting; i++) {
        json_t *one = NULL;
        status = native_choice_to_json(plan, &found->fits[i], &one);
        json_array_append_new(list, one);
    }
    if (status == LS_OK && found->missing > 0) status = native_choice_to_json(plan, &found->lacks, &misfit);
    *out = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:o}", "model", plan->settings.shape.name, "machine",
                     plan->machine.cpu, "program", "lockstep", "cores", plan->machine.cores, "tried", found->tried,
                     "fit", found->tried - found->missing, "layouts", list, "nearest_misfit", misfit);
    json_object_set_new(*out, "device", json_string(plan->machine.is_gpus ? "cuda" : "cpu"));
    json_object_set_new(*out, "precision", json_string(ls_dtype_word(plan->settings.policy.act)));
    json_object_set_new(*out, "matrix_unit", json_string(ls_unit_name(plan->settings.policy.unit)));
    char text[256];
    json_t *warnings = json_array();
    const ls_native_choice *first = ls_native_first(found);
    if (first &&
        ls_native_warn_slices(&plan->settings.policy, plan->settings.slices, first->layout.tp, text, sizeof text))
        json_array_append_new(warnings, json_string(text));
    json_object_set_new(*out, "slices", json_integer(plan->settings.slices));
    json_object_set_new(*out, "groups", json_integer(plan->settings.groups));
    json_object_set_new(*out, "warnings", warnings);
    if (plan->machine.is_gpus) {
        json_object_set_new(*out, "gpu", json_string(plan->machine.gpu.name));
        json_object_set_new(*out, "gpus", json_integer(plan->machine.gpu.count));
    }
    if (status == LS_OK) return LS_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

ls_status ls_plan_whole_json(ls_plan *plan, json_t **out) {
    *out = plan->json;
    if (*out) return LS_OK;
    if (plan->is_native)
        LS_TRY(native_to_json(plan, &plan->json));
    else
        plan->json = answer_to_json(&plan->answer);
    *out = plan->json;
    return *out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the JSON of the results");
}
