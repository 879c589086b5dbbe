/* check.c: verifies hashes of parameters and of the state (weights and optimizer state), and finds the workers at
 * fault. A copy is a weight as matmuls read it, where that is not the memory that this worker updates; own elements are
 * those it updates. */
#include "parallel/partition/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "numerics/float16.h"
#include "numerics/state_sum.h"
#include "parallel/partition/audit.h"
#include "parallel/partition/state.h"
#include "parallel/partition/state_sum.h"

enum { MAJORITY = 4 }; /* weight of a verdict by majority, against 1 of one that clears no worker */

/* The verdict that each worker sends to all: words that are 0 on the other workers. */
typedef struct verdict {
    int64_t wrong; /* evidence against this worker along dp and tp; the workers with most are named, if above 0 */
    int64_t param; /* where it was noticed, plus 1; 0: nowhere */
    int64_t tensor;
    int64_t is_received; /* found by a receiver; the finding of an owner is more certain */
    int64_t is_late;     /* noticed by the last update, when others had made theirs */
    int64_t block;       /* of own elements, where it is late */
} verdict;

_Static_assert(sizeof(verdict) == LS_CHECK_WORDS * sizeof(int64_t), "verdicts are added as a list of int64");

/* Returns the order in which findings are preferred: by parameter, those of receivers last. */
static int64_t order_of(const verdict *v) { return v->param + v->is_received * (INT64_C(1) << 32); }

/* Agrees on one finding: the first parameter that any worker reports, and the workers with the most certain verdict. Of
 * two workers that disagree along tp, one may agree with all others along dp; the other one is then at fault.
 * Collective. */
static ls_status agree(ls_partition *partition, verdict own, ls_check_finding *out) {
    size_t workers = (size_t)ls_layout_workers(&partition->setup.layout);
    void *told;
    LS_TRY(ls_partition_tell_all(partition, &own, sizeof own, &told));
    const verdict *all = told;
    int64_t first = 0, sure = 0;
    *out = (ls_check_finding){.param = -1};
    for (size_t i = 0; i < workers; i++)
        if (all[i].param > 0 && (first == 0 || order_of(&all[i]) < first)) first = order_of(&all[i]);
    for (size_t i = 0; i < workers && first > 0; i++)
        if (order_of(&all[i]) == first && all[i].wrong > sure) sure = all[i].wrong;
    for (size_t i = 0; i < workers && first > 0; i++) {
        if (order_of(&all[i]) != first) continue;
        out->param = (int)all[i].param - 1;
        if (all[i].wrong == 0 || all[i].wrong < sure) continue;
        out->tensor = (ls_check_tensor)all[i].tensor;
        out->is_late = all[i].is_late != 0;
        out->block = all[i].block;
        out->workers[out->nworkers++] = (int)i;
    }
    out->found = first > 0;
    free(told);
    return LS_OK;
}

/* ---- replicas ---------------------------------------------------------------------------------------------------- */

/* Returns whether the parameter's weights are gathered when they are used: ZeRO 3. */
static bool is_gathered(const ls_partition *partition, const ls_param *param) {
    return partition->setup.layout.zero == 3 && (param->kind == LS_PARAM_MATRIX || param->kind == LS_PARAM_TOKENS);
}

/* Hashes the fp32 and 16-bit weights that this worker computes with into hashes `at` and at + 1. Adds none for gathered
 * or absent weights, which have no second holder to compare with. */
static ls_status make_replica(ls_partition *partition, const ls_param *param, size_t at) {
    size_t elems = ls_param_local_elems(param);
    if (!param->held || is_gathered(partition, param)) return LS_OK;
    LS_TRY(ls_partition_make_hash(partition, at, param->w, elems * sizeof(float)));
    return ls_partition_make_hash(partition, at + 1, param->w16, elems * sizeof(uint16_t));
}

/* Combines the two hashes of a parameter; 0 if both are 0. */
static ls_hash128 join_replica(const ls_hash128 both[2]) {
    const ls_hash128 none = {0, 0};
    return ls_hash_equal(both[0], none) && ls_hash_equal(both[1], none) ? none : ls_hash_combine(both, 2);
}

/* Computes one hash for each parameter as this worker computes with it; 0: nothing to compare. */
static ls_status hash_replicas(ls_partition *partition, ls_hash128 *out) {
    size_t count = (size_t)ls_model_params(partition->model);
    LS_TRY(ls_partition_begin_hashes(partition, 2 * count));
    for (size_t i = 0; i < count; i++) LS_TRY(make_replica(partition, ls_model_param(partition->model, (int)i), 2 * i));
    LS_TRY(ls_partition_read_hashes(partition, partition->sums.host_hashes, 2 * count));
    for (size_t i = 0; i < count; i++) out[i] = join_replica(partition->sums.host_hashes + 2 * i);
    return LS_OK;
}

/* Compares lists of hashes along one axis, and notes the first parameter that differs, with the evidence against this
 * worker. Members see the same lists and so blame the same. Collective over `comm`. */
static ls_status compare_lists(ls_comm *comm, const ls_hash128 *own, int count, verdict *v) {
    int size = ls_comm_size(comm), rank = ls_comm_rank(comm);
    ls_status status = LS_OK;
    size_t bytes[LS_WORKERS_MAX], list = (size_t)count * sizeof *own;
    ls_hash128 one = ls_hash_combine(own, (size_t)count), ones[LS_WORKERS_MAX];
    bool named[LS_WORKERS_MAX];
    for (int r = 0; r < size; r++) bytes[r] = sizeof one;
    LS_TRY(ls_comm_all_gather(comm, &one, ones, bytes));
    if (ls_blame_holders(ones, (size_t)size, named) == LS_BLAME_NOBODY) return LS_OK;
    ls_hash128 *all = malloc((size_t)size * list);
    if (!all) return ls_fail(LS_ERR_RESOURCE, "out of memory for the hashes of %d parameters", count);
    for (int r = 0; r < size; r++) bytes[r] = list;
    LS_TRY_OUT(ls_comm_all_gather(comm, own, all, bytes));
    for (int i = 0; i < count; i++) {
        for (int r = 0; r < size; r++) ones[r] = all[(size_t)r * (size_t)count + (size_t)i];
        ls_blame blame = ls_blame_holders(ones, (size_t)size, named);
        if (blame == LS_BLAME_NOBODY) continue;
        if (v->param == 0 || i + 1 < v->param) *v = (verdict){.param = i + 1};
        if (v->param == i + 1 && named[rank]) v->wrong += blame == LS_BLAME_SOME ? MAJORITY : 1;
        break;
    }
out:
    free(all);
    return status;
}

ls_status ls_partition_check_replicas(ls_partition *partition, ls_check_finding *out) {
    int count = ls_model_params(partition->model);
    verdict v = {0};
    ls_status status = LS_OK;
    *out = (ls_check_finding){.param = -1};
    if (!partition->comms.dp && !partition->comms.tp) return LS_OK;
    ls_hash128 *hashes = calloc((size_t)count, sizeof *hashes);
    if (!hashes) return ls_fail(LS_ERR_RESOURCE, "out of memory for the hashes of %d parameters", count);
    LS_TRY_OUT(hash_replicas(partition, hashes));
    if (partition->comms.dp) LS_TRY_OUT(compare_lists(partition->comms.dp, hashes, count, &v));
    for (int i = 0; i < count; i++)
        if (ls_model_param(partition->model, i)->split) hashes[i] = (ls_hash128){0, 0};
    if (partition->comms.tp) LS_TRY_OUT(compare_lists(partition->comms.tp, hashes, count, &v));
    status = agree(partition, v, out);
out:
    free(hashes);
    return status;
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* Returns whether matmuls read fp32 weights other than the worker's own elements. */
static bool has_fp32_copy(const ls_param *p) {
    return p->w && (p->w != p->own_w || ls_param_range_elems(p->own) != ls_param_local_elems(p));
}
/* Returns whether this worker computes with a copy of the weight besides the elements that it updates. */
static bool has_copy(const ls_partition *partition, const ls_param *p) {
    return p->held && !is_gathered(partition, p) && (p->w16 || has_fp32_copy(p) || p == partition->tied.copy);
}

/* Returns the number of parameters that may have a copy: those of the model, then the last stage's copy of a tied
 * table. */
static int count_places(const ls_partition *partition) {
    return partition->model->nparams + (partition->tied.copy != NULL);
}
/* Returns the parameter in one of these places. */
static const ls_param *place_at(const ls_partition *partition, int i) {
    return i < partition->model->nparams ? ls_model_param(partition->model, i) : partition->tied.copy;
}

/* Returns how many parameters have a copy on this worker. */
static size_t count_copies(const ls_partition *partition) {
    size_t copies = 0;
    for (int i = 0; i < count_places(partition); i++) copies += has_copy(partition, place_at(partition, i));
    return copies;
}

/* Returns the number of sums of copies; 0: copies are not checked. */
static size_t copy_room(const ls_partition *partition) {
    return partition->setup.checks_state ? LS_COPY_SUMS * (size_t)(partition->model->nparams + 1) : 0;
}

void ls_partition_alloc_check(ls_partition *partition) {
    const ls_partition_setup *setup = &partition->setup;
    size_t shards = (size_t)partition->nbuckets * (size_t)setup->layout.dp;
    partition->check.bad_shard_param = -1;
    if (!setup->checks_state) return;
    partition->check.host_copies = ls_partition_take(partition, copy_room(partition), sizeof(ls_hash128));
    if (setup->layout.zero == 3 && setup->checks_shards)
        partition->check.shard_hashes = ls_partition_take(partition, shards, sizeof(ls_hash128));
}

void ls_partition_lay_check(ls_partition *partition, ls_arena *arena) {
    if (partition->setup.checks_state)
        partition->check.copy_sums = ls_arena_take_array(arena, "scratch", copy_room(partition), sizeof(ls_hash128));
}

ls_status ls_partition_begin_copy_sums(ls_partition *partition, ls_optimizer_update *update) {
    partition->check.sums_copies = partition->check.copy_sums != NULL;
    if (!partition->check.sums_copies) return LS_OK;
    update->copy_sums = partition->check.copy_sums;
    return ls_device_fill(partition->device, partition->check.copy_sums, 0,
                          copy_room(partition) * sizeof *partition->check.copy_sums);
}

void ls_partition_omit_copy_sums(ls_partition *partition, ls_optimizer_update *update) {
    update->copy_sums = NULL;
    partition->check.sums_copies = false;
}

/* Lists the pieces of memory for the state sums (numerics/state_sum.h) of a parameter's copies. State sums suffice,
 * because no other worker compares them, and one kernel launch computes many. 16-bit weights are summed in pairs, or
 * hashed at once if that is impossible. `has_pairs`: they have been summed already. */
static ls_status put_copies(ls_partition *partition, const ls_param *p, uint64_t tensor, bool has_pairs,
                            ls_hash128 *out, ls_state_piece *pieces, int *count) {
    size_t elems = ls_param_local_elems(p);
    const void *pairs = p->w16;
    if (has_fp32_copy(p) || (p == partition->tied.copy && p->w))
        pieces[(*count)++] = (ls_state_piece){.out = out, .x = p->w, .tensor = tensor, .n = elems};
    if (!pairs || has_pairs) return LS_OK;
    if (elems % 2 || (uintptr_t)pairs % sizeof(float))
        return partition->nn.ops->hash(partition->device, &(ls_hash_call){out + 1, pairs, elems * sizeof(uint16_t)});
    pieces[(*count)++] = (ls_state_piece){.out = out + 1, .x = pairs, .tensor = tensor + 1, .n = elems / 2};
    return LS_OK;
}

/* Sums the weights that matmuls read: LS_COPY_SUMS sums for each parameter, in device memory. `has_pairs`: the update
 * has already made the sums of the copies that it wrote completely. */
static ls_status sum_copies(ls_partition *partition, bool has_pairs, ls_hash128 *out) {
    enum { AT_ONCE = 128 };
    ls_state_piece pieces[AT_ONCE + LS_COPY_SUMS];
    size_t count = (size_t)count_places(partition);
    int waiting = 0;
    if (!has_pairs) LS_TRY(ls_device_fill(partition->device, out, 0, copy_room(partition) * sizeof *out));
    for (size_t i = 0; i < count; i++) {
        const ls_param *p = place_at(partition, (int)i);
        bool is_summed = has_pairs && p != partition->tied.copy && ls_optimizer_sums_copy(p);
        if (has_copy(partition, p))
            LS_TRY(put_copies(partition, p, LS_COPY_SUMS * i, is_summed, out + LS_COPY_SUMS * i, pieces, &waiting));
        if (waiting == 0 || (waiting < AT_ONCE && i + 1 < count)) continue;
        LS_TRY(partition->nn.ops->state_sums(partition->device, &(ls_state_sums_call){pieces, waiting}));
        waiting = 0;
    }
    return LS_OK;
}

/* Exchanges the hashes of the shards, so that each worker can verify the weights that it gathers. Collective. */
static ls_status remember_shards(ls_partition *partition) {
    size_t dp = (size_t)partition->setup.layout.dp, count = (size_t)partition->nbuckets, bytes[LS_WORKERS_MAX];
    if (!partition->check.shard_hashes) return LS_OK;
    LS_TRY(ls_partition_begin_hashes(partition, count));
    for (size_t i = 0; i < count; i++) {
        const ls_bucket *bucket = &partition->buckets[i];
        if (!ls_bucket_is_matrix(bucket)) continue;
        const void *x = bucket->shard_w16 ? (const void *)bucket->shard_w16 : bucket->shard_w;
        size_t each = bucket->shard_w16 ? sizeof(uint16_t) : sizeof(float);
        LS_TRY(ls_partition_make_hash(partition, i, x, ls_bucket_own_elems(bucket) * each));
    }
    LS_TRY(ls_partition_read_hashes(partition, partition->sums.host_hashes, count));
    for (size_t r = 0; r < dp; r++) bytes[r] = sizeof(ls_hash128);
    for (size_t i = 0; i < count; i++)
        if (ls_bucket_is_matrix(&partition->buckets[i]))
            LS_TRY(ls_comm_all_gather(partition->comms.dp, partition->sums.host_hashes + i,
                                      partition->check.shard_hashes + i * dp, bytes));
    return LS_OK;
}

/* The update has already summed own weights and moments. The sums of copies stay on the device until they are compared,
 * so that the host does not wait for them. */
ls_status ls_partition_remember_state(ls_partition *partition) {
    if (count_copies(partition) > 0)
        LS_TRY(sum_copies(partition, partition->check.sums_copies, partition->check.copy_sums));
    partition->check.sums_copies = false;
    LS_TRY(remember_shards(partition));
    partition->check.remembers = true;
    return LS_OK;
}

ls_status ls_partition_check_gathered(ls_partition *partition, const ls_bucket *bucket) {
    int dp = partition->setup.layout.dp;
    if (!partition->check.remembers || !partition->check.shard_hashes) return LS_OK;
    void *all = bucket->w16 ? (void *)bucket->w16 : bucket->w;
    ls_fault_at(partition->device, LS_FAULT_GATHERED, bucket->param[0]->name, -1, all, bucket->shard[dp],
                bucket->w16 ? sizeof(uint16_t) : sizeof(float));
    const ls_hash128 *expected = partition->check.shard_hashes + (size_t)(bucket - partition->buckets) * (size_t)dp;
    ls_hash128 got[LS_WORKERS_MAX];
    size_t each = bucket->w16 ? sizeof(uint16_t) : sizeof(float);
    LS_TRY(ls_partition_begin_hashes(partition, (size_t)dp));
    for (int r = 0; r < dp; r++)
        LS_TRY(ls_partition_make_hash(partition, (size_t)r, (const char *)all + bucket->shard[r] * each,
                                      (bucket->shard[r + 1] - bucket->shard[r]) * each));
    LS_TRY(ls_partition_read_hashes(partition, got, (size_t)dp));
    for (int r = 0; r < dp; r++) {
        if (ls_hash_equal(got[r], expected[r]) || partition->check.bad_shard_param >= 0) continue;
        partition->check.bad_shard_param = (int)bucket->param[0]->number;
        partition->check.bad_shard_row = r;
    }
    return LS_OK;
}

/* Returns whether the last update found a damaged block, as this worker's verdict. */
static bool find_late(const ls_partition *partition, verdict *v) {
    ls_damage damage;
    if (!ls_partition_read_damage(partition, &damage)) return false;
    *v = (verdict){.wrong = 1,
                   .param = (int64_t)damage.name + 1,
                   .tensor = damage.state,
                   .is_late = 1,
                   .block = (int64_t)damage.block};
    return true;
}

/* Finds the first parameter whose elements differ from its sums. Checks the findings of the update first, because the
 * sums do not contain a block that the update left unchanged. */
static ls_status check_sums(ls_partition *partition, verdict *v) {
    LS_TRY(ls_partition_read_state(partition));
    if (find_late(partition, v)) return LS_OK;
    LS_TRY(ls_partition_find_state(partition));
    for (int i = 0; i < partition->model->nparams * LS_PARAM_SUMS; i++)
        if (!ls_hash_equal(partition->state.host_found[i], partition->state.host_made[i])) {
            *v = (verdict){.wrong = 1, .param = i / LS_PARAM_SUMS + 1, .tensor = i % LS_STATE_TENSORS};
            return LS_OK;
        }
    return LS_OK;
}

/* Finds the first parameter of which a copy differs from its recorded sum. */
static ls_status check_copies(ls_partition *partition, verdict *v) {
    size_t sums = copy_room(partition);
    if (count_copies(partition) == 0) return LS_OK;
    LS_TRY(sum_copies(partition, false, partition->sums.hashes));
    LS_TRY(ls_partition_read_hashes(partition, partition->sums.host_hashes, sums));
    LS_TRY(ls_device_copy_out(partition->device, partition->check.host_copies, partition->check.copy_sums,
                              sums * sizeof *partition->check.copy_sums));
    for (size_t i = 0; i < sums; i++)
        if (!ls_hash_equal(partition->sums.host_hashes[i], partition->check.host_copies[i])) {
            const ls_param *p = place_at(partition, (int)(i / LS_COPY_SUMS));
            *v = (verdict){.wrong = 1, .param = p->number + 1, .tensor = LS_CHECK_COPY};
            return LS_OK;
        }
    return LS_OK;
}

/* Verifies gathered weights after their use, as long as their buffer has not been reused; check.bad_shard_param gets
 * what differs. */
static ls_status check_held(ls_partition *partition) {
    const ls_buffer_pool *pools[] = {&partition->weights.block, &partition->weights.table};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < pools[p]->count; i++) {
            const ls_bucket *bucket = pools[p]->user[i];
            if (bucket && !bucket->gathering) LS_TRY(ls_partition_check_gathered(partition, bucket));
        }
    return LS_OK;
}

/* Checks all of this worker's state: gathered weights, own elements, copies, in this order. Leaves *v empty if all is
 * right. */
static ls_status look(ls_partition *partition, verdict *v) {
    *v = (verdict){0};
    if (!partition->setup.sums_state) return LS_OK;
    LS_TRY(check_held(partition));
    LS_TRY(check_sums(partition, v));
    if (v->param == 0 && partition->check.remembers) LS_TRY(check_copies(partition, v));
    /* A shard arrived damaged. The place of the damage is unknown, so this worker, which received it, is named. */
    if (v->param == 0 && partition->check.bad_shard_param >= 0)
        *v = (verdict){.wrong = 1, .param = partition->check.bad_shard_param + 1, .is_received = 1};
    partition->check.bad_shard_param = -1;
    return LS_OK;
}

ls_status ls_partition_look_at_state(ls_partition *partition, bool *found) {
    verdict v;
    LS_TRY(look(partition, &v));
    *found = v.param > 0;
    memcpy(partition->check.seen_state, &v, sizeof v);
    return LS_OK;
}

ls_status ls_partition_look_at_update(ls_partition *partition, bool *found) {
    verdict v = {0};
    if (partition->setup.sums_state) {
        LS_TRY(ls_partition_read_state(partition));
        (void)find_late(partition, &v);
    }
    *found = v.param > 0;
    memcpy(partition->check.seen_state, &v, sizeof v);
    return LS_OK;
}

ls_status ls_partition_tell_state(ls_partition *partition, ls_check_finding *out) {
    verdict v;
    memcpy(&v, partition->check.seen_state, sizeof v);
    return agree(partition, v, out);
}

ls_status ls_partition_check_state(ls_partition *partition, ls_check_finding *out) {
    bool found;
    *out = (ls_check_finding){.param = -1};
    if (!partition->setup.sums_state) return LS_OK;
    LS_TRY(ls_partition_look_at_state(partition, &found));
    return ls_partition_tell_state(partition, out);
}

/* ---- the judge --------------------------------------------------------------------------------------------------- */

/* The sum that owners recorded of a parameter's weight, and of how many elements. */
typedef struct recorded {
    ls_hash128 sum;
    uint64_t elems;
} recorded;

/* Returns whether this worker has all its rows of the weight in fp32, whichever worker updates them. */
static bool is_whole(const ls_partition *partition, const ls_param *p) {
    return p->held && p->w && !is_gathered(partition, p) && ls_param_local_elems(p) > 0;
}

/* Sums weights that this worker holds completely, as their owners would have recorded them; 0 for others. */
static ls_status sum_whole(ls_partition *partition, ls_hash128 *out) {
    enum { AT_ONCE = 128 };
    ls_state_piece pieces[AT_ONCE];
    int count = ls_model_params(partition->model), waiting = 0;
    LS_TRY(ls_partition_begin_hashes(partition, (size_t)count));
    for (int i = 0; i < count; i++) {
        const ls_param *p = ls_model_param(partition->model, i);
        if (is_whole(partition, p))
            pieces[waiting++] = (ls_state_piece){.out = partition->sums.hashes + i,
                                                 .x = p->w,
                                                 .tensor = ls_param_state_tensor(p),
                                                 .first = p->first_row * p->columns,
                                                 .n = ls_param_local_elems(p)};
        if (waiting == 0 || (waiting < AT_ONCE && i + 1 < count)) continue;
        LS_TRY(partition->nn.ops->state_sums(partition->device, &(ls_state_sums_call){pieces, waiting}));
        waiting = 0;
    }
    return ls_partition_read_hashes(partition, out, (size_t)count);
}

/* Adds the lists of the other members. Without `with_split` leaves out split parameters, of which members of a TP group
 * have different rows. */
static ls_status add_recorded(const ls_partition *partition, ls_comm *comm, bool with_split, recorded *list) {
    size_t count = (size_t)ls_model_params(partition->model), bytes[LS_WORKERS_MAX];
    if (!comm) return LS_OK;
    size_t size = (size_t)ls_comm_size(comm), own = (size_t)ls_comm_rank(comm);
    recorded *all = malloc(size * count * sizeof *all);
    if (!all) return ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of %zu parameters", count);
    for (size_t r = 0; r < size; r++) bytes[r] = count * sizeof *all;
    ls_status status = ls_comm_all_gather(comm, list, all, bytes);
    for (size_t k = 0; status == LS_OK && k < size * count; k++) {
        size_t i = k % count;
        if (k / count == own || (!with_split && ls_model_param(partition->model, (int)i)->split)) continue;
        ls_state_add(&list[i].sum, all[k].sum);
        list[i].elems += all[k].elems;
    }
    free(all);
    return status;
}

/* Compares weights that this worker holds whole in fp32 with the sums that their owners recorded, if the owners of all
 * its rows are in its DP and TP group: it skips a tied copy, whose owner is on another stage. */
static ls_status compare_whole(ls_partition *partition, ls_hash128 *now, recorded *list, verdict *v) {
    int count = ls_model_params(partition->model);
    LS_TRY(sum_whole(partition, now));
    LS_TRY(ls_partition_read_state(partition));
    for (int i = 0; i < count; i++)
        list[i] = (recorded){partition->state.host_made[i * LS_PARAM_SUMS],
                             ls_param_range_elems(ls_model_param(partition->model, i)->once)};
    LS_TRY(add_recorded(partition, partition->comms.dp, true, list));
    LS_TRY(add_recorded(partition, partition->comms.tp, false, list));
    for (int i = 0; i < count; i++) {
        const ls_param *p = ls_model_param(partition->model, i);
        if (!is_whole(partition, p) || list[i].elems != ls_param_local_elems(p)) continue;
        if (ls_hash_equal(now[i], list[i].sum)) continue;
        *v = (verdict){.wrong = 1, .param = i + 1, .tensor = LS_CHECK_COPY};
        return LS_OK;
    }
    return LS_OK;
}

/* Sets *is_same to whether the 16-bit weights of own elements are the rounded fp32 weights. */
static ls_status compare_rounded(ls_partition *partition, const ls_param *p, bool *is_same) {
    bool bf16 = partition->setup.policy.act == LS_BF16;
    size_t own = ls_param_range_elems(p->own), most = partition->staging.elems;
    if (most > LS_PARTITION_HOST16) most = LS_PARTITION_HOST16;
    *is_same = true;
    for (size_t at = 0, n; p->held && p->own_w && p->own_w16 && at < own && *is_same; at += n) {
        n = own - at < most ? own - at : most;
        LS_TRY(ls_device_copy_out(partition->device, partition->staging.f32, p->own_w + at, n * sizeof *p->own_w));
        LS_TRY(
            ls_device_copy_out(partition->device, partition->staging.rounded, p->own_w16 + at, n * sizeof *p->own_w16));
        for (size_t i = 0; i < n && *is_same; i++) {
            float x = partition->staging.f32[i];
            *is_same = partition->staging.rounded[i] == (bf16 ? ls_bf16_from_f32(x) : ls_f16_from_f32(x));
        }
    }
    return LS_OK;
}

/* Finds the first parameter whose 16-bit weights are not its rounded fp32 weights, unless *v has a finding already. */
static ls_status check_rounded(ls_partition *partition, verdict *v) {
    bool is_same = true;
    if (v->param > 0 || !ls_policy_is_16(&partition->setup.policy)) return LS_OK;
    for (int i = 0; i < ls_model_params(partition->model) && is_same; i++) {
        LS_TRY(compare_rounded(partition, ls_model_param(partition->model, i), &is_same));
        if (!is_same) *v = (verdict){.wrong = 1, .param = i + 1, .tensor = LS_CHECK_COPY};
    }
    return LS_OK;
}

ls_status ls_partition_judge_memory(ls_partition *partition, ls_check_finding *out) {
    size_t count = (size_t)ls_model_params(partition->model);
    verdict own, whole = {0};
    ls_status status = LS_OK;
    *out = (ls_check_finding){.param = -1};
    if (!partition->setup.sums_state) return LS_OK;
    recorded *list = calloc(count, sizeof *list);
    ls_hash128 *now = calloc(count, sizeof *now);
    if (!list || !now) status = ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of %zu parameters", count);
    LS_TRY_OUT(status);
    LS_TRY_OUT(look(partition, &own));
    LS_TRY_OUT(check_rounded(partition, &own));
    LS_TRY_OUT(compare_whole(partition, now, list, &whole));
    own.wrong *= MAJORITY; /* replicas may have received the owner's damage, and then have it too */
    LS_TRY_OUT(agree(partition, own.param > 0 ? own : whole, out));
    if (!out->found) {
        LS_TRY_OUT(ls_partition_check_replicas(partition, out));
        out->tensor = LS_CHECK_COPY;
    }
out:
    free(list);
    free(now);
    return status;
}
