/* results.c: sums of hashes of the intermediate results of blocks, by site (results.h), by which an audit finds the
 * worker that erred. */
#include "parallel/partition/results.h"

#include "parallel/partition/state.h"

void ls_partition_begin_results(ls_partition *partition, const ls_micro *micro, int number, int block, bool is_back) {
    partition->results.at = (ls_partition_at){.micro = micro, .number = number, .block = block, .is_back = is_back};
}

/* Returns the site of result number `made` of the block that runs now. */
static size_t site_of(const ls_partition *partition, int made) {
    const ls_partition_at *at = &partition->results.at;
    int n = partition->model->nblocks, place = at->is_back ? 2 * n - 1 - at->block : at->block;
    return (size_t)place * LS_RESULTS_MAX + (size_t)made;
}

/* Adds the hash of a sequence to a sum. The sequence number is hashed too, so that exchanged sequences change the
 * sum. */
static void add_sequence(ls_hash128 *sum, size_t number, ls_hash128 hash, size_t bytes) {
    ls_hash128 both[2] = {hash, {number, bytes}}, one = ls_hash_combine(both, 2);
    sum->lo += one.lo;
    sum->hi += one.hi;
}

/* Adds the sequences that a micro-batch shares with a group to the group's sum; `x` has the result of all its
 * sequences. */
static ls_status add_group(ls_partition *partition, int group, ls_hash128 *sum, const ls_micro *made, const char *x,
                           size_t bytes) {
    size_t begin = ls_slice_begin(partition->setup.B, partition->setup.G, group);
    size_t end = ls_slice_begin(partition->setup.B, partition->setup.G, group + 1);
    size_t each = bytes / (made->end - made->begin);
    if (begin < made->begin) begin = made->begin;
    if (end > made->end) end = made->end;
    if (begin >= end) return LS_OK;
    for (size_t s = begin; s < end; s++)
        LS_TRY(ls_partition_make_hash(partition, s - begin, x + (s - made->begin) * each, each));
    LS_TRY(ls_partition_read_hashes(partition, partition->sums.host_hashes, end - begin));
    for (size_t s = begin; s < end; s++) add_sequence(sum, s, partition->sums.host_hashes[s - begin], each);
    return LS_OK;
}

/* Adds the sequences of a result to the sums of all requested groups. */
static ls_status add_result(ls_partition *partition, int made, const ls_micro *of, const void *x, size_t bytes) {
    const ls_result_sums *results = partition->results.sums;
    size_t sites = ls_result_sites(partition->model), site = site_of(partition, made);
    for (int i = 0; results && i < results->count; i++)
        if (results->group[i] >= 0)
            LS_TRY(add_group(partition, results->group[i], &results->sites[(size_t)i * sites + site], of, x, bytes));
    return LS_OK;
}

ls_status ls_partition_add_result(ls_partition *partition, int made, const void *x, size_t bytes) {
    return add_result(partition, made, partition->results.at.micro, x, bytes);
}

/* Adds a matmul's result to the sums and checks it in a hunt; the observer of nn. Results of some sequences have the
 * numbers that those of all have, so how many came at once makes no difference. */
static ls_status take(void *ctx, ls_made_part *part, const void *y, ls_dtype dtype, size_t elems) {
    ls_partition *partition = ctx;
    if (!partition->results.at.micro) return LS_OK;
    int *count = part ? &part->made : &partition->results.at.made, made = *count;
    ls_micro of = *partition->results.at.micro;
    if (part) of.begin += part->first;
    if (part) of.end = of.begin + part->count;
    if (made < LS_RESULTS_MAX - 2) ++*count;
    LS_TRY(add_result(partition, made, &of, y, elems * ls_dtype_bytes(dtype)));
    return ls_partition_look_at_result(partition, made, y, dtype, elems);
}

void ls_partition_watch_results(ls_partition *partition) {
    partition->nn.made = partition->results.sums || partition->hunt ? (ls_made_watch){take, partition, NULL}
                                                                    : (ls_made_watch){NULL, NULL, NULL};
}

void ls_partition_sum_results(ls_partition *partition, const ls_result_sums *results) {
    partition->results.sums = results;
    ls_partition_watch_results(partition);
}

size_t ls_result_first(const ls_hash128 *a, const ls_hash128 *b, size_t sites) {
    size_t i = 0;
    while (i < sites && ls_hash_equal(a[i], b[i])) i++;
    return i;
}
