/* event.c: writes numerical events as lines of metrics and as sentences. */
#include "run/guard/event.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [LS_EVENT_OVERFLOW] = "overflow", [LS_EVENT_FLOOR] = "floor",     [LS_EVENT_NON_FINITE] = "non-finite",
    [LS_EVENT_OUTLIER] = "outlier",   [LS_EVENT_REPLICA] = "replica", [LS_EVENT_STATE] = "state",
    [LS_EVENT_AUDIT] = "audit",
};

void ls_event_block_name(const ls_model *model, int b, char block[LS_PARAM_NAME_MAX]) {
    if (b == 0 || b == model->nblocks - 1)
        snprintf(block, LS_PARAM_NAME_MAX, "%s", b == 0 ? "embedding" : "head");
    else
        snprintf(block, LS_PARAM_NAME_MAX, "blocks.%d", b - 1);
}

void ls_event_block_of(const char *tensor, char block[LS_PARAM_NAME_MAX]) {
    int layer;
    if (sscanf(tensor, "blocks.%d.", &layer) == 1)
        snprintf(block, LS_PARAM_NAME_MAX, "blocks.%d", layer);
    else if (strncmp(tensor, "tokens", 6) == 0 || strncmp(tensor, "positions", 9) == 0)
        snprintf(block, LS_PARAM_NAME_MAX, "embedding");
    else
        snprintf(block, LS_PARAM_NAME_MAX, "head");
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Adds tensor and block, if the event has them. */
static void add_place(const ls_train_event *e, ls_metrics *m) {
    if (e->tensor[0]) ls_metrics_add_text(m, "tensor", e->tensor);
    if (e->block[0]) ls_metrics_add_text(m, "block", e->block);
}

/* Adds the members of a value that was not finite; its place only if the origin was found. */
static void add_non_finite(const ls_train_event *e, ls_metrics *m) {
    ls_metrics_add_bool(m, "recurs", e->recurs);
    if (e->nworkers > 0) ls_metrics_add_i64(m, "worker", e->workers[0]);
    if (!e->phase) return;
    if (e->micro >= 0) ls_metrics_add_i64(m, "worker", e->worker);
    ls_metrics_add_text(m, "phase", e->phase);
    if (e->micro >= 0) ls_metrics_add_i64(m, "micro", e->micro);
    ls_metrics_add_i64(m, "index", e->index);
    ls_metrics_add_text(m, "value", e->value);
}

/* Adds the members of an outlier group, or, with group −1, of an outlier worker. */
static void add_outlier(const ls_train_event *e, ls_metrics *m) {
    const ls_outlier_finding *f = &e->finding;
    bool is_group = e->group >= 0;
    if (is_group) ls_metrics_add_i64(m, "group", e->group);
    ls_metrics_add_i64(m, "worker", e->worker);
    if (is_group) ls_metrics_add_i64(m, "first_sample", e->first_sample);
    if (is_group) ls_metrics_add_i64(m, "samples", e->samples);
    ls_metrics_add_f64(m, "norm", f->norm);
    ls_metrics_add_f64(m, "median", f->median);
    ls_metrics_add_f64(m, "spread", f->spread);
    ls_metrics_add_f64(m, "score", f->score);
    if (is_group) ls_metrics_add_f64(m, "group_loss", f->loss);
    if (is_group) ls_metrics_add_f64(m, "peers_loss", f->loss_median);
    if (is_group) ls_metrics_add_f64(m, "loss_score", f->loss_score);
    if (e->again) {
        ls_metrics_add_f64(m, "angle_deg", e->pull.angle_deg);
        ls_metrics_add_f64(m, "length_with", e->pull.with);
        ls_metrics_add_f64(m, "length_without", e->pull.without);
        ls_metrics_add_bool(m, "recurs", e->recurs);
    }
    ls_metrics_add_text(m, "action", ls_outlier_action_name(e->action));
}

/* Adds the members of an audit that failed. */
static void add_audit(const ls_train_event *e, ls_metrics *m) {
    ls_metrics_add_i64(m, "group", e->group);
    ls_metrics_add_i64(m, "owner", e->owner);
    ls_metrics_add_i64(m, "auditor", e->auditor);
    ls_metrics_add_i64(m, "wrong", e->worker);
    ls_metrics_add_bool(m, "persistent", e->persistent);
}

/* Adds the steps that are suspect, and how the run has continued, if it has. */
static void add_doubt(const ls_train_event *e, ls_metrics *m) {
    if (e->suspect_from > 0) ls_metrics_add_i64(m, "suspect_from", e->suspect_from);
    if (e->suspect_from > 0) ls_metrics_add_i64(m, "suspect_to", e->suspect_to);
    if (e->found_step > 0) ls_metrics_add_i64(m, "found_step", e->found_step);
    if (e->found_step > 0) ls_metrics_add_bool(m, "left_out", e->left_out);
}

ls_status ls_event_record(const ls_train_event *e, ls_metrics *m) {
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", e->step);
    ls_metrics_add_text(m, "event", names[e->kind]);
    switch (e->kind) {
    case LS_EVENT_OVERFLOW:
    case LS_EVENT_FLOOR:
        ls_metrics_add_i64(m, "scale", e->scale);
        ls_metrics_add_i64(m, "next_scale", e->next_scale);
        break;
    case LS_EVENT_NON_FINITE: add_non_finite(e, m); break;
    case LS_EVENT_OUTLIER: add_outlier(e, m); break;
    case LS_EVENT_REPLICA: ls_metrics_add_i64_list(m, "workers", e->workers, e->nworkers); break;
    case LS_EVENT_STATE:
        ls_metrics_add_i64(m, "worker", e->worker);
        ls_metrics_add_text(m, "what", e->what);
        if (e->elements > 0) ls_metrics_add_i64(m, "first_element", e->first_element);
        if (e->elements > 0) ls_metrics_add_i64(m, "elements", e->elements);
        break;
    case LS_EVENT_AUDIT: add_audit(e, m); break;
    }
    add_place(e, m);
    add_doubt(e, m);
    return ls_metrics_end(m);
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

/* Writes the sentence of an event NON_FINITE: what value, where it appeared first, and whether it recurred. */
static void say_non_finite(const ls_train_event *e, char *text, size_t bytes) {
    char who[32] = "";
    if (e->nworkers > 0) snprintf(who, sizeof who, " on worker %d", e->workers[0]);
    if (!e->recurs)
        snprintf(text, bytes,
                 "a value was not finite%s, but was finite when the step was repeated: a transient hardware fault; the "
                 "result of the repeated step is used",
                 who);
    else if (!e->phase)
        snprintf(
            text, bytes,
            "the loss or the gradient is not finite, also when the step was repeated; its origin was not recorded");
    else if (e->micro < 0)
        snprintf(text, bytes,
                 "first %s in the sum of gradients over groups: %s, %s, element %lld; each addend is finite", e->value,
                 e->block, e->tensor, (long long)e->index);
    else
        snprintf(text, bytes, "first %s in the %s pass: %s, %s, element %lld, micro-batch %d, worker %d", e->value,
                 e->phase, e->block, e->tensor, (long long)e->index, e->micro, e->worker);
}

/* Writes the sentence of an event OUTLIER about a worker. */
static void say_worker(const ls_train_event *e, char *text, size_t bytes) {
    const ls_outlier_finding *f = &e->finding;
    snprintf(text, bytes,
             "the gradient of worker %d is %.1f times as large as %s (norm in a block %.3g, usual: %.3g); %s",
             e->worker, f->norm / f->median,
             e->replicas > 1 ? "those of other replicas" : "expected from its last steps and the other workers",
             f->norm, f->median,
             e->action == LS_OUTLIER_STOP ? "the run stops"
                                          : "it was kept; --audit 0.05 shows whether that worker computes wrongly");
}

/* Writes the sentence of an event OUTLIER, about a gradient group or a worker. */
static void say_outlier(const ls_train_event *e, char *text, size_t bytes) {
    const ls_outlier_finding *f = &e->finding;
    if (e->group < 0) {
        say_worker(e, text, bytes);
        return;
    }
    if (e->again && !e->recurs) {
        snprintf(text, bytes,
                 "the gradient of group %d (worker %d) had norm %.3g (usual: %.3g), but not when it was recomputed: a "
                 "transient hardware fault; the result of the repeated step is used",
                 e->group, e->worker, f->norm, f->median);
        return;
    }
    char pull[128] = "";
    if (e->again)
        snprintf(pull, sizeof pull,
                 "it rotated the summed gradient by %.1f degrees and made its norm %.2f times as large; ",
                 e->pull.angle_deg, e->pull.without > 0 ? e->pull.with / e->pull.without : 0);
    snprintf(text, bytes,
             "the gradient of group %d (samples %lld to %lld, worker %d) has norm %.3g (usual: %.3g) and loss %.3g "
             "(usual: %.3g); %s%s",
             e->group, (long long)e->first_sample, (long long)(e->first_sample + e->samples - 1), e->worker, f->norm,
             f->median, f->loss, f->loss_median, pull,
             e->action == LS_OUTLIER_SKIP   ? "the step was repeated without it"
             : e->action == LS_OUTLIER_STOP ? "the run stops"
             : e->action == LS_OUTLIER_AUTO ? "it was kept (--on-outlier skip-group leaves such groups out)"
                                            : "it was kept (--on-outlier warn)");
}

/* Writes the sentence of an event REPLICA: which parameter differs on which workers. */
static void say_replica(const ls_train_event *e, char *text, size_t bytes) {
    size_t used =
        (size_t)snprintf(text, bytes, "the copies of %s on several workers differ; suspect: worker", e->tensor);
    for (int i = 0; i < e->nworkers && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", i ? ", " : " ", e->workers[i]);
}

/* Appends to the sentence which steps are suspect, because no check has covered them; nothing if there are none. */
static void say_doubt(const ls_train_event *e, char *text, size_t bytes) {
    size_t used = strlen(text);
    if (e->suspect_from <= 0) return;
    const char *since = e->kind == LS_EVENT_AUDIT ? "audit" : "check";
    if (e->suspect_from == e->suspect_to)
        snprintf(text + used, bytes - used, "; step %lld, made since the last clean %s, is suspect",
                 (long long)e->suspect_from, since);
    else
        snprintf(text + used, bytes - used, "; steps %lld to %lld, made since the last clean %s, are suspect",
                 (long long)e->suspect_from, (long long)e->suspect_to, since);
}

void ls_event_text(const ls_train_event *e, char *text, size_t bytes) {
    int used = snprintf(text, bytes, "step %lld: ", (long long)e->step);
    if (used < 0 || (size_t)used >= bytes) return;
    text += used;
    bytes -= (size_t)used;
    switch (e->kind) {
    case LS_EVENT_OVERFLOW:
        snprintf(text, bytes, "%s overflowed at loss scale 2^%d: update skipped; the loss scale is 2^%d now", e->tensor,
                 e->scale, e->next_scale);
        break;
    case LS_EVENT_FLOOR:
        snprintf(text, bytes, "%s of %s overflowed at loss scale 2^%d, the lowest allowed", e->tensor, e->block,
                 e->scale);
        break;
    case LS_EVENT_NON_FINITE: say_non_finite(e, text, bytes); break;
    case LS_EVENT_OUTLIER: say_outlier(e, text, bytes); break;
    case LS_EVENT_REPLICA: say_replica(e, text, bytes); break;
    case LS_EVENT_STATE:
        if (e->elements > 0)
            snprintf(text, bytes,
                     "elements %lld to %lld of the %s of %s on worker %d changed before the last update overwrote "
                     "them: memory corruption",
                     (long long)e->first_element, (long long)(e->first_element + e->elements - 1), e->what, e->tensor,
                     e->worker);
        else
            snprintf(text, bytes, "the %s of %s on worker %d changed after the last update: memory corruption", e->what,
                     e->tensor, e->worker);
        break;
    case LS_EVENT_AUDIT:
        if (e->worker < 0)
            snprintf(text, bytes,
                     "audit: worker %d recomputed group %d of worker %d with a different result; a third computation "
                     "agrees with neither",
                     e->auditor, e->group, e->owner);
        else
            snprintf(
                text, bytes,
                "audit: worker %d recomputed group %d of worker %d with a different result; worker %d was wrong, %s",
                e->auditor, e->group, e->owner, e->worker,
                e->persistent ? "and again when it repeated the computation"
                              : "but right when it repeated the computation");
        break;
    }
    say_doubt(e, text, bytes);
}
