/* results.c: sums of hashes of results, by site. */
#include "parallel/partition/results.h"

#include <string.h>

#include "parallel/layout/micro_batches.h"
#include "parallel/partition/state.h"

static size_t site_of(const ls_partition *partition, int made) {
    const ls_partition_at *at = &partition->at;
    int n = partition->model->nblocks, place = at->is_back ? 2 * n - 1 - at->block : at->block;
    return (size_t)place * LS_RESULTS_MAX + (size_t)made;
}

/* Sequence `number` of the batch is part of what makes the hash, so that two that are exchanged are noticed. */
static ls_status add_sequence(ls_partition *partition, ls_hash128 *sum, size_t number, const char *x, size_t bytes) {
    ls_hash128 both[2] = {{0, 0}, {number, bytes}};
    LS_TRY(partition->nn.ops->hash(partition->nn.device, &both[0], x, bytes));
    ls_hash128 one = ls_hash_combine(both, 2);
    sum->lo += one.lo;
    sum->hi += one.hi;
    return LS_OK;
}

/* What is common to this micro-batch and a group. */
static ls_status add_group(ls_partition *partition, int group, ls_hash128 *sum, const char *x, size_t bytes) {
    const ls_micro *micro = partition->at.micro;
    size_t begin = ls_slice_begin(partition->setup.B, partition->setup.G, group);
    size_t end = ls_slice_begin(partition->setup.B, partition->setup.G, group + 1);
    size_t each = bytes / (micro->end - micro->begin);
    if (begin < micro->begin) begin = micro->begin;
    if (end > micro->end) end = micro->end;
    for (size_t s = begin; s < end; s++) LS_TRY(add_sequence(partition, sum, s, x + (s - micro->begin) * each, each));
    return LS_OK;
}

ls_status ls_partition_add_result(ls_partition *partition, int made, const void *x, size_t bytes) {
    const ls_result_sums *results = partition->results;
    size_t sites = ls_result_sites(partition->model), site = site_of(partition, made);
    for (int i = 0; results && i < results->count; i++)
        if (results->group[i] >= 0)
            LS_TRY(add_group(partition, results->group[i], &results->sites[(size_t)i * sites + site], x, bytes));
    return LS_OK;
}

static ls_status take(void *ctx, const void *y, ls_dtype dtype, size_t elems) {
    ls_partition *partition = ctx;
    int made = partition->at.made;
    if (!partition->at.micro) return LS_OK;
    if (made < LS_RESULTS_MAX - 2) partition->at.made++;
    LS_TRY(ls_partition_add_result(partition, made, y, elems * ls_dtype_bytes(dtype)));
    return ls_partition_look_at_result(partition, made, y, dtype, elems);
}

void ls_partition_watch_results(ls_partition *partition) {
    partition->nn.made =
        partition->results || partition->hunt ? (ls_made_watch){take, partition} : (ls_made_watch){NULL, NULL};
}

void ls_partition_sum_results(ls_partition *partition, const ls_result_sums *results) {
    partition->results = results;
    ls_partition_watch_results(partition);
}

size_t ls_result_first(const ls_hash128 *a, const ls_hash128 *b, size_t sites) {
    size_t i = 0;
    while (i < sites && ls_hash_equal(a[i], b[i])) i++;
    return i;
}
