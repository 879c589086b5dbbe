/* steps.c: trains the steps of a trial and records hashes. */
#include "lab/verify/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "config/value.h"
#include "numerics/float16.h"

/* ---- the record -------------------------------------------------------------------------------------------------- */

ls_status ls_verify_record_open(int64_t steps, int params, ls_verify_record *out) {
    size_t hashes_bytes = (size_t)params * sizeof(ls_verify_hash);
    *out = (ls_verify_record){.steps = steps, .params = params};
    out->totals = ls_trial_alloc(1, sizeof *out->totals);
    out->loss = ls_trial_alloc((size_t)steps, sizeof *out->loss);
    out->grad = ls_trial_alloc((size_t)steps, hashes_bytes);
    out->weight = ls_trial_alloc(1, hashes_bytes);
    if (out->totals && out->loss && out->grad && out->weight) return LS_OK;
    ls_verify_record_close(out);
    return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a record of %lld steps: use fewer", (long long)steps);
}

void ls_verify_record_close(ls_verify_record *record) {
    ls_trial_free(record->totals);
    ls_trial_free(record->loss);
    ls_trial_free(record->grad);
    ls_trial_free(record->weight);
    *record = (ls_verify_record){0};
}

/* ---- a fault ----------------------------------------------------------------------------------------------------- */

/* Parses a number up to the next colon and moves *at behind it; false: there is none. */
static bool parse_part(const char **at, int64_t *out) {
    char number[24];
    size_t length = strcspn(*at, ":");
    if (length >= sizeof number || (*at)[length] != ':') return false;
    memcpy(number, *at, length);
    number[length] = '\0';
    *at += length + 1;
    return ls_value_parse_int(number, out) == LS_OK;
}

ls_status ls_verify_fault_parse(const char *text, ls_verify_fault *out) {
    int64_t rank = 0, step = 0;
    const char *at = text;
    bool sound = parse_part(&at, &rank) && rank >= 0 && rank < LS_WORKERS_MAX && parse_part(&at, &step) && step > 0;
    if (!sound || !*at)
        return ls_fail(LS_ERR_INPUT, "'%.64s': must be worker:step:tensor, such as 1:2:tokens.weight", text);
    *out = (ls_verify_fault){.rank = (int)rank, .step = step, .tensor = at};
    return LS_OK;
}

ls_status ls_verify_plant(const ls_verify_fault *fault, ls_trainer *t) {
    const ls_param *param = ls_model_find(t->model, fault->tensor);
    ls_partition_piece piece;
    float value;
    if (!param) return ls_fail(LS_ERR_INPUT, "a fault was asked for in %.64s: there is no such tensor", fault->tensor);
    if (t->rank != fault->rank || t->step + 1 != fault->step) return LS_OK;
    for (int i = 0; ls_partition_piece_get(t->partition, param, LS_TENSOR_REPORTED, i, &piece); i++) {
        if (piece.count == 0) continue;
        LS_TRY(ls_partition_read(t->partition, param, LS_TENSOR_GRAD, piece.first, 1, &value));
        value = ls_f32_from_bits(ls_f32_bits(value) ^ 1);
        return ls_partition_write(t->partition, param, LS_TENSOR_GRAD, piece.first, 1, &value);
    }
    return LS_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Returns the bytes that this worker has sent since it started. Received bytes are counted by their senders. */
static uint64_t traffic_of(ls_trainer *t) {
    uint64_t bytes = 0;
    for (int c = 0; t->mesh && c <= LS_AXIS_COUNT; c++) {
        const ls_comm *comm = c < LS_AXIS_COUNT ? ls_mesh_comm(t->mesh, (ls_axis)c) : ls_world_comm(t->world);
        for (int kind = 0; kind < LS_TRAFFIC_KINDS; kind++) {
            ls_traffic traffic;
            ls_comm_traffic(comm, (ls_traffic_kind)kind, &traffic);
            if (kind != LS_TRAFFIC_RECEIVE) bytes += traffic.bytes;
        }
    }
    return bytes;
}

/* Hashes one tensor of every parameter. Collective; only worker 0 writes `out`. */
static ls_status hash_all(ls_trainer *t, ls_partition_tensor which, ls_verify_hash *out) {
    for (int i = 0; i < ls_model_params(t->model); i++) {
        ls_verify_hash hash;
        LS_TRY(ls_partition_hash_tensor(t->partition, ls_model_param(t->model, i), which, hash.text));
        if (t->rank == 0) out[i] = hash;
    }
    return LS_OK;
}

/* Copies `count` elements of a tensor from `first` on to fetch->values of worker 0. Each element belongs to one worker,
 * so the sum of its bits and the others' zeros is the element. Collective. */
static ls_status fetch_chunk(ls_trainer *t, const ls_param *param, const ls_verify_tensor *fetch, size_t first,
                             size_t count, float *host, int64_t *bits) {
    ls_partition_piece piece;
    memset(bits, 0, count * sizeof *bits);
    for (int i = 0; ls_partition_piece_get(t->partition, param, LS_TENSOR_REPORTED, i, &piece); i++) {
        size_t begin = piece.first > first ? piece.first : first, end = piece.first + piece.count;
        if (end > first + count) end = first + count;
        if (end <= begin) continue;
        LS_TRY(ls_partition_read(t->partition, param, fetch->which, begin, end - begin, host));
        for (size_t k = begin; k < end; k++) bits[k - first] = ls_f32_bits(host[k - begin]);
    }
    LS_TRY(ls_partition_sum(t->partition, bits, count));
    for (size_t k = 0; t->rank == 0 && k < count; k++) fetch->values[first + k] = ls_f32_from_bits((uint32_t)bits[k]);
    return LS_OK;
}

ls_status ls_verify_fetch(ls_trainer *t, const ls_verify_tensor *fetch) {
    enum { AT_ONCE = 1 << 16 };
    ls_status status = LS_OK;
    const ls_param *param = ls_model_param(t->model, fetch->param);
    size_t elems = ls_param_elems(param);
    float *host = malloc(AT_ONCE * sizeof *host);
    int64_t *bits = malloc(AT_ONCE * sizeof *bits);
    if (!host || !bits) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the values of a tensor");
        goto out;
    }
    for (size_t at = 0; at < elems; at += AT_ONCE)
        LS_TRY_OUT(fetch_chunk(t, param, fetch, at, elems - at < AT_ONCE ? elems - at : AT_ONCE, host, bits));
out:
    free(host);
    free(bits);
    return status;
}

/* Runs and records one step. The time excludes hashing. */
static ls_status record_one_step(const ls_verify_job *job, ls_trainer *t, ls_verify_totals *totals) {
    ls_verify_record *record = job->record;
    bool last = t->step + 1 == job->steps;
    uint64_t bytes = traffic_of(t);
    double start = ls_clock_seconds();
    ls_step_result result;
    LS_TRY(ls_trainer_gradients(t, 0, &result));
    totals->seconds += ls_clock_seconds() - start;
    totals->traffic_bytes += traffic_of(t) - bytes;
    if (job->fault) LS_TRY(ls_verify_plant(job->fault, t));
    if (record) LS_TRY(hash_all(t, LS_TENSOR_GRAD, record->grad + (size_t)t->step * (size_t)record->params));
    if (record && t->rank == 0) record->loss[t->step] = result.loss;
    if (last && job->fetch && job->fetch->which == LS_TENSOR_GRAD) LS_TRY(ls_verify_fetch(t, job->fetch));
    bytes = traffic_of(t);
    start = ls_clock_seconds();
    LS_TRY(ls_trainer_update(t, &result));
    totals->seconds += ls_clock_seconds() - start;
    totals->traffic_bytes += traffic_of(t) - bytes;
    return LS_OK;
}

ls_status ls_verify_steps(ls_trainer *t, void *ctx) {
    const ls_verify_job *job = ctx;
    ls_verify_totals totals = {.validation = (double)NAN};
    double right;
    while (t->step < job->steps) LS_TRY(record_one_step(job, t, &totals));
    if (job->fetch && job->fetch->which == LS_TENSOR_WEIGHT) LS_TRY(ls_verify_fetch(t, job->fetch));
    if (!job->record) return LS_OK;
    int64_t sum = (int64_t)totals.traffic_bytes;
    LS_TRY(ls_partition_sum(t->partition, &sum, 1));
    totals.traffic_bytes = (uint64_t)sum;
    LS_TRY(hash_all(t, LS_TENSOR_WEIGHT, job->record->weight));
    LS_TRY(ls_partition_hash(t->partition, totals.weights.text));
    if (t->input.has_val) LS_TRY(ls_trainer_evaluate(t, 1, &totals.validation, &right));
    if (t->rank == 0) *job->record->totals = totals;
    return LS_OK;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* Returns whether two numbers have the same bits, or both are NaN. */
static bool same_number(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

/* Returns how many of `count` hashes differ; *first is set to the first of them. */
static int count_different(const ls_verify_hash *a, const ls_verify_hash *b, int count, int *first) {
    int n = 0;
    for (int i = count - 1; i >= 0; i--) {
        if (strcmp(a[i].text, b[i].text) == 0) continue;
        *first = i;
        n++;
    }
    return n;
}

ls_verify_difference ls_verify_compare(const ls_verify_record *a, const ls_verify_record *b) {
    ls_verify_difference d = {.kind = LS_VERIFY_EQUAL};
    for (int64_t s = 0; s < a->steps; s++) {
        size_t at = (size_t)s * (size_t)a->params;
        d.step = s + 1;
        d.params = count_different(a->grad + at, b->grad + at, a->params, &d.param);
        if (d.params > 0) d.kind = LS_VERIFY_GRADIENT;
        if (d.params == 0 && !same_number(a->loss[s], b->loss[s])) d.kind = LS_VERIFY_LOSS;
        if (d.kind != LS_VERIFY_EQUAL) return d;
    }
    d.params = count_different(a->weight, b->weight, a->params, &d.param);
    if (d.params > 0)
        d.kind = LS_VERIFY_WEIGHT;
    else if (!same_number(a->totals->validation, b->totals->validation))
        d.kind = LS_VERIFY_VALIDATION;
    return d;
}

size_t ls_verify_first_element(const float *a, const float *b, size_t elems) {
    for (size_t i = 0; i < elems; i++)
        if (ls_f32_bits(a[i]) != ls_f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i]))) return i;
    return elems;
}
