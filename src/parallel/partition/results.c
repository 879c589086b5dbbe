/* results.c: sums of hashes of results, by site. */
#include "parallel/partition/results.h"

#include <string.h>

#include "parallel/layout/micro_batches.h"
#include "parallel/partition/state.h"

static size_t site_of(const ls_stage *stage, int made) {
    const ls_stage_at *at = &stage->at;
    int n = stage->model->nblocks, place = at->is_back ? 2 * n - 1 - at->block : at->block;
    return (size_t)place * LS_RESULTS_MAX + (size_t)made;
}

/* Sequence `number` of the batch is part of what makes the hash, so that two that are exchanged are noticed. */
static ls_status add_sequence(ls_stage *stage, ls_hash128 *sum, size_t number, const char *x, size_t bytes) {
    ls_hash128 both[2] = {{0, 0}, {number, bytes}};
    LS_TRY(stage->nn.ops->hash(stage->nn.device, &both[0], x, bytes));
    ls_hash128 one = ls_hash_combine(both, 2);
    sum->lo += one.lo;
    sum->hi += one.hi;
    return LS_OK;
}

/* What is common to this micro-batch and a group. */
static ls_status add_group(ls_stage *stage, int group, ls_hash128 *sum, const char *x, size_t bytes) {
    const ls_micro *micro = stage->at.micro;
    size_t begin = ls_slice_begin(stage->setup.B, stage->setup.G, group);
    size_t end = ls_slice_begin(stage->setup.B, stage->setup.G, group + 1);
    size_t each = bytes / (micro->end - micro->begin);
    if (begin < micro->begin) begin = micro->begin;
    if (end > micro->end) end = micro->end;
    for (size_t s = begin; s < end; s++) LS_TRY(add_sequence(stage, sum, s, x + (s - micro->begin) * each, each));
    return LS_OK;
}

ls_status ls_stage_add_result(ls_stage *stage, int made, const void *x, size_t bytes) {
    const ls_result_sums *results = stage->results;
    size_t sites = ls_result_sites(stage->model), site = site_of(stage, made);
    for (int i = 0; results && i < results->count; i++)
        if (results->group[i] >= 0)
            LS_TRY(add_group(stage, results->group[i], &results->sites[(size_t)i * sites + site], x, bytes));
    return LS_OK;
}

static ls_status take(void *ctx, const void *y, ls_dtype dtype, size_t elems) {
    ls_stage *stage = ctx;
    int made = stage->at.made;
    if (!stage->at.micro) return LS_OK;
    if (made < LS_RESULTS_MAX - 2) stage->at.made++;
    LS_TRY(ls_stage_add_result(stage, made, y, elems * ls_dtype_bytes(dtype)));
    return ls_stage_look_at_result(stage, made, y, dtype, elems);
}

void ls_stage_watch_results(ls_stage *stage) {
    stage->nn.made = stage->results || stage->hunt ? (ls_made_watch){take, stage} : (ls_made_watch){NULL, NULL};
}

void ls_stage_sum_results(ls_stage *stage, const ls_result_sums *results) {
    stage->results = results;
    ls_stage_watch_results(stage);
}

size_t ls_result_first(const ls_hash128 *a, const ls_hash128 *b, size_t sites) {
    size_t i = 0;
    while (i < sites && ls_hash_equal(a[i], b[i])) i++;
    return i;
}
