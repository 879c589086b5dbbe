/* state_sum.c: the checksums of a partition's state (weights and optimizer state); there is room for two sets: as the
 * last update made them, and as found in memory now. */
#include "parallel/partition/state_sum.h"

#include "numerics/state_sum.h"
#include "parallel/partition/state.h"

/* Counts one word more than the sums of the parameters: it records what an update has found damaged. */
size_t ls_partition_state_room(const ls_partition *partition) {
    return partition->setup.sums_state ? (size_t)partition->model->nparams * LS_PARAM_SUMS + 1 : 0;
}

/* Returns the number of sums of all parameters. */
static size_t count_params(const ls_partition *partition) { return (size_t)partition->model->nparams * LS_PARAM_SUMS; }

bool ls_partition_sums_state(const ls_partition *partition) { return partition->setup.sums_state; }

/* Clears a set of sums and lets `update` add to it. */
static ls_status begin(ls_partition *partition, ls_hash128 *sums, ls_optimizer_update *update) {
    update->sums = sums;
    update->sums_rest = partition->setup.checks_state || partition->state.sums_rest;
    return ls_device_fill(partition->device, sums, 0, ls_partition_state_room(partition) * sizeof *sums);
}

ls_status ls_partition_begin_sums(ls_partition *partition, ls_optimizer_update *update) {
    if (!partition->setup.sums_state) return LS_OK;
    partition->state.is_read = false;
    LS_TRY(begin(partition, partition->state.made, update));
    LS_TRY(ls_partition_begin_copy_sums(partition, update));
    update->keeps_blocks = true;
    update->damage = &partition->state.made[count_params(partition)].lo;
    return LS_OK;
}

/* Assigns memory to the sums of blocks of elements, with which an update finds damage. */
static void lay_block_sums(ls_partition *partition, ls_arena *arena) {
    for (int i = 0; i < partition->model->nparams; i++) {
        ls_param *param = partition->model->params[i];
        const size_t sums = ls_check_sums(ls_param_range_elems(param->own));
        param->block_sums = sums ? ls_arena_take_array(arena, "scratch", sums, sizeof *param->block_sums) : NULL;
    }
}

void ls_partition_lay_state(ls_partition *partition, ls_arena *arena) {
    if (!partition->setup.sums_state) return;
    partition->state.found =
        ls_arena_take_array(arena, "scratch", ls_partition_state_room(partition), sizeof *partition->state.found);
    lay_block_sums(partition, arena);
}

bool ls_partition_read_damage(const ls_partition *partition, ls_damage *out) {
    uint64_t word = partition->state.host_made[count_params(partition)].lo;
    *out = ls_damage_read(word);
    return word != 0;
}

/* Computes a set of sums from what is in memory. `keeps_blocks`: also the sums of blocks of elements. */
static ls_status sum_to(ls_partition *partition, ls_hash128 *sums, bool keeps_blocks) {
    ls_optimizer_update update = {.keeps_blocks = keeps_blocks};
    LS_TRY(begin(partition, sums, &update));
    return ls_optimizer_sum(&update, partition->device, &partition->setup.policy, partition->model);
}

ls_status ls_partition_sum_state(ls_partition *partition) {
    if (!partition->setup.sums_state) return LS_OK;
    partition->state.is_read = false;
    return sum_to(partition, partition->state.made, true);
}

ls_status ls_partition_read_state(ls_partition *partition) {
    if (partition->state.is_read) return LS_OK;
    LS_TRY(ls_device_copy_out(partition->device, partition->state.host_made, partition->state.made,
                              ls_partition_state_room(partition) * sizeof(ls_hash128)));
    partition->state.is_read = true;
    return LS_OK;
}

ls_status ls_partition_find_state(ls_partition *partition) {
    LS_TRY(sum_to(partition, partition->state.found, false));
    return ls_device_copy_out(partition->device, partition->state.host_found, partition->state.found,
                              ls_partition_state_room(partition) * sizeof(ls_hash128));
}

void ls_partition_sum_rest(ls_partition *partition) { partition->state.sums_rest = true; }

ls_status ls_partition_rescue_state(ls_partition *partition, ls_hash128 *out) {
    return ls_device_rescue(partition->device, out, partition->state.made, count_params(partition) * sizeof *out);
}

/* Returns LS_ERR_INPUT if there are no sums. */
static ls_status check_sums(const ls_partition *partition) {
    if (partition->setup.sums_state) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the state of this run is not hashed; leave --check at replicas or state");
}

/* Adds up the sums of the elements that this worker reports, and lists them by tensor unless NULL. */
static void add_part(const ls_partition *partition, const ls_hash128 *sums, ls_hash128 *part, ls_hash128 *by_tensor) {
    *part = (ls_hash128){0, 0};
    for (int i = 0; i < partition->model->nparams; i++)
        for (int t = 0; t < LS_STATE_TENSORS; t++) {
            ls_hash128 one = sums[i * LS_PARAM_SUMS + t];
            ls_state_add(part, one);
            if (by_tensor) by_tensor[i * LS_STATE_TENSORS + t] = one;
        }
}

ls_status ls_partition_state_part(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor) {
    LS_TRY(check_sums(partition));
    LS_TRY(ls_partition_read_state(partition));
    add_part(partition, partition->state.host_made, part, by_tensor);
    return LS_OK;
}

ls_hash128 ls_partition_param_sum(const ls_partition *partition, int param) {
    ls_hash128 sum = {0, 0};
    for (int i = 0; i < LS_PARAM_SUMS; i++) ls_state_add(&sum, partition->state.host_made[param * LS_PARAM_SUMS + i]);
    return sum;
}

ls_status ls_partition_state_now(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor) {
    LS_TRY(check_sums(partition));
    LS_TRY(ls_partition_find_state(partition));
    add_part(partition, partition->state.host_found, part, by_tensor);
    return LS_OK;
}
