/* sum_order.c: trains the same steps with every way of adding, one after the other, each in new workers. */
#include "lab/verify/sum_order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

/* ---- the record -------------------------------------------------------------------------------------------------- */

ls_status ls_order_record_open(int64_t steps, size_t elems, ls_order_record *out) {
    *out = (ls_order_record){.steps = steps, .elems = elems};
    out->loss = ls_trial_alloc((size_t)steps, sizeof *out->loss);
    out->grad = ls_trial_alloc(elems, sizeof *out->grad);
    out->weight = ls_trial_alloc(elems, sizeof *out->weight);
    out->weights = ls_trial_alloc(1, sizeof *out->weights);
    if (out->loss && out->grad && out->weight && out->weights) return LS_OK;
    ls_order_record_close(out);
    return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a record of %lld steps and %zu elements", (long long)steps,
                         elems);
}

void ls_order_record_close(ls_order_record *record) {
    ls_trial_free(record->loss);
    ls_trial_free(record->grad);
    ls_trial_free(record->weight);
    ls_trial_free(record->weights);
    *record = (ls_order_record){0};
}

/* Copies a tensor of all parameters into one array, in the order of the model; worker 0 writes. Collective. */
static ls_status fetch_all(ls_trainer *t, ls_partition_tensor which, float *out) {
    for (int i = 0; i < ls_model_params(t->model); i++) {
        ls_verify_tensor fetch = {.param = i, .which = which, .values = out};
        LS_TRY(ls_verify_fetch(t, &fetch));
        out += ls_param_elems(ls_model_param(t->model, i));
    }
    return LS_OK;
}

/* ---- gradients of the groups ------------------------------------------------------------------------------------- */

typedef struct groups {
    int count;
    size_t elems;
    ls_model *model[LS_ORDER_GROUPS_MAX];
    ls_partition *partition[LS_ORDER_GROUPS_MAX];
    float *grad[LS_ORDER_GROUPS_MAX]; /* host, all parameters one behind the other */
    float *flat;                      /* the weights, then the sum */
} groups;

/* Releases what groups_open() made; does nothing for zeros. */
static void groups_close(groups *g) {
    for (int i = 0; i < g->count; i++) {
        ls_partition_destroy(g->partition[i]);
        ls_model_destroy(g->model[i]);
        free(g->grad[i]);
    }
    free(g->flat);
}

/* Opens a partition for each gradient group, as a replica that has one group. Without a world it reduces with no other
 * replica and keeps the gradient of its group. After a failure the caller still closes the groups. */
static ls_status groups_open(ls_trainer *t, groups *g) {
    const ls_settings *s = &t->settings;
    ls_partition_setup setup = *ls_partition_setup_of(t->partition);
    *g = (groups){.count = s->groups, .elems = ls_model_elems(t->model)};
    assert(!setup.world && s->groups <= LS_ORDER_GROUPS_MAX);
    setup.layout.dp = s->groups;
    setup.moments = 0;
    for (int i = 0; i < g->count; i++) setup.layout.share[i] = 1;
    g->flat = malloc(g->elems * sizeof *g->flat);
    if (!g->flat) goto no_memory;
    for (int i = 0; i < g->count; i++) {
        setup.place.dp = i;
        g->grad[i] = malloc(g->elems * sizeof *g->grad[i]);
        if (!g->grad[i]) goto no_memory;
        LS_TRY(ls_model_create(&s->shape, s->slices, &g->model[i]));
        LS_TRY(ls_partition_create(g->model[i], t->device, &setup, &g->partition[i]));
    }
    return LS_OK;
no_memory:
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the gradients of %d groups: use a smaller model", g->count);
}

typedef enum direction { READ, WRITE } direction;

/* Copies a tensor of all parameters between the partition and one array. */
static ls_status copy_all(ls_partition *partition, ls_partition_tensor which, float *host, direction to) {
    ls_model *model = ls_partition_model(partition);
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *param = ls_model_param(model, i);
        size_t elems = ls_param_elems(param);
        LS_TRY(to == READ ? ls_partition_read(partition, param, which, 0, elems, host)
                          : ls_partition_write(partition, param, which, 0, elems, host));
        host += elems;
    }
    return LS_OK;
}

/* Computes the gradient of each group, with the trainer's weights, and sums the losses. */
static ls_status make_gradients(ls_trainer *t, groups *g, ls_loss_sum *loss) {
    ls_partition_feed feed = ls_trainer_feed(t);
    LS_TRY(copy_all(t->partition, LS_TENSOR_WEIGHT, g->flat, READ));
    for (int i = 0; i < g->count; i++) {
        LS_TRY(copy_all(g->partition[i], LS_TENSOR_WEIGHT, g->flat, WRITE));
        LS_TRY(ls_partition_settle(g->partition[i]));
        LS_TRY(ls_partition_step(g->partition[i], (uint64_t)t->step, ls_trainer_backward_start(t), &feed));
        LS_TRY(ls_partition_losses(g->partition[i], loss));
        LS_TRY(copy_all(g->partition[i], LS_TENSOR_GRAD, g->grad[i], READ));
    }
    return LS_OK;
}

/* Adds the groups' gradients into g->flat in the order of the way. */
static void sum_in_order(const ls_trainer *t, const ls_order_way *way, groups *g) {
    const float *const *grads = (const float *const *)g->grad;
    int turn[LS_ORDER_GROUPS_MAX];
    switch (way->kind) {
    case LS_ORDER_RING: ls_order_ring(grads, g->count, way->workers, g->flat, g->elems); break;
    case LS_ORDER_RING16: ls_order_ring16(grads, g->count, way->workers, g->flat, g->elems); break;
    default:
        ls_order_arrival(t->settings.options.seed, way->run, (uint64_t)t->step, g->count, turn);
        ls_order_in_turn(grads, turn, g->count, g->flat, g->elems);
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Computes the gradients of a step and their sum in the way of the task. */
static ls_status compute_gradients(const ls_order_task *task, ls_trainer *t, groups *g, ls_step_result *result) {
    ls_loss_sum loss = {0};
    if (task->way.kind == LS_ORDER_LOCKSTEP) {
        LS_TRY(ls_trainer_gradients(t, 0, result));
        return task->fault ? ls_verify_plant(task->fault, t) : LS_OK;
    }
    LS_TRY(make_gradients(t, g, &loss));
    sum_in_order(t, &task->way, g);
    LS_TRY(copy_all(t->partition, LS_TENSOR_GRAD, g->flat, WRITE));
    return ls_trainer_judge(t, 0, &loss, result);
}

/* Trains the steps and fills the record. */
static ls_status train_steps(const ls_order_task *task, ls_trainer *t, groups *g) {
    ls_order_record *record = task->record;
    ls_verify_hash weights;
    while (t->step < record->steps) {
        ls_step_result result;
        LS_TRY(compute_gradients(task, t, g, &result));
        if (t->step == 0) LS_TRY(fetch_all(t, LS_TENSOR_GRAD, record->grad));
        if (t->rank == 0) record->loss[t->step] = result.loss;
        LS_TRY(ls_trainer_update(t, &result));
    }
    LS_TRY(fetch_all(t, LS_TENSOR_WEIGHT, record->weight));
    LS_TRY(ls_partition_hash(t->partition, weights.text));
    if (t->rank == 0) *record->weights = weights;
    return LS_OK;
}

ls_status ls_order_steps(ls_trainer *t, void *ctx) {
    const ls_order_task *task = ctx;
    groups g = {0};
    ls_status status = LS_OK;
    if (task->way.kind != LS_ORDER_LOCKSTEP) LS_TRY_OUT(groups_open(t, &g));
    status = train_steps(task, t, &g);
out:
    groups_close(&g);
    return status;
}

/* ---- all ways ---------------------------------------------------------------------------------------------------- */

/* Runs the task in workers of its own. */
static ls_status train_way(const ls_order_request *request, const ls_lab_model *one, ls_order_task *task) {
    ls_trial_place place = {.options = request->options};
    ls_layout_request layout_request = ls_layout_request_none();
    ls_layout layout;
    ls_knob_give(&layout_request, LS_KNOB_dp, task->way.kind == LS_ORDER_LOCKSTEP ? task->way.workers : 1);
    LS_TRY(ls_layout_make(&layout_request, &one->task, &layout));
    ls_trial trial = ls_trial_make(one, &layout, (int)request->options->threads);
    trial.steps = ls_order_steps;
    trial.ctx = task;
    return ls_trial_run(&place, &trial);
}

/* Stores the result of a way and how it differs from its base. */
static ls_status keep_result(const ls_order_record *record, const ls_order_record *base, ls_order_result *r) {
    size_t bytes = (size_t)record->steps * sizeof *r->loss;
    r->loss = malloc(bytes);
    if (!r->loss) return ls_fail(LS_ERR_RESOURCE, "out of memory for %lld losses", (long long)record->steps);
    memcpy(r->loss, record->loss, bytes);
    r->weights = *record->weights;
    r->grad = ls_order_compare(record->grad, base->grad, record->elems);
    r->weight = ls_order_compare(record->weight, base->weight, record->elems);
    r->first_bits = ls_order_first_bits(record->loss, base->loss, record->steps);
    r->first_seen = ls_order_first_seen(record->loss, base->loss, record->steps);
    return LS_OK;
}

/* Returns whether two results have the same bits. */
static bool is_equal(const ls_order_result *r, const ls_order_result *base) {
    return r->grad.changed == 0 && r->weight.changed == 0 && r->first_bits == 0 &&
           strcmp(r->weights.text, base->weights.text) == 0;
}

/* Trains one way, compares it, and closes its record unless a later way is compared with it. */
static ls_status run_way(const ls_order_request *request, const ls_lab_model *one, ls_order_case *done, int way,
                         ls_order_record records[LS_ORDER_WAYS_MAX]) {
    ls_order_result *r = &done->result[way];
    ls_order_task task = {.way = r->way, .record = &records[way], .fault = request->fault};
    request->on_start(request->ctx, done, way);
    LS_TRY(ls_order_record_open(one->steps, ls_model_elems(one->model), &records[way]));
    LS_TRY(train_way(request, one, &task));
    LS_TRY(keep_result(&records[way], &records[r->way.base], r));
    if (r->way.kind == LS_ORDER_LOCKSTEP && !done->different && !is_equal(r, &done->result[r->way.base]))
        done->different = r;
    bool wanted = false;
    for (int i = way; i < done->ways; i++) wanted |= done->result[i].way.base == way;
    if (!wanted) ls_order_record_close(&records[way]);
    return request->on_row(request->ctx, done, way);
}

ls_status ls_order_run(const ls_order_request *request, const ls_lab_model *one, ls_order_case *done) {
    ls_order_record records[LS_ORDER_WAYS_MAX] = {{0}};
    ls_order_way ways[LS_ORDER_WAYS_MAX];
    ls_status status = LS_OK;
    *done = (ls_order_case){.steps = one->steps, .ways = ls_order_ways(one->settings.groups, ways)};
    snprintf(done->model, sizeof done->model, "%.60s", one->settings.shape.name);
    for (int i = 0; i < done->ways; i++) done->result[i].way = ways[i];
    for (int i = 0; i < done->ways && status == LS_OK; i++) status = run_way(request, one, done, i, records);
    for (int i = 0; i < done->ways; i++) ls_order_record_close(&records[i]);
    return status;
}

void ls_order_case_free(ls_order_case *done) {
    for (int i = 0; i < done->ways; i++) free(done->result[i].loss);
}
