/* state_sum.c: the sums of a partition's state; there is room for two sets: as last made, and as found now. */
#include "parallel/partition/state_sum.h"

#include "numerics/state_sum.h"
#include "parallel/partition/state.h"

/* One word after the sums of the parameters records what an update has found damaged. */
size_t ls_partition_state_room(const ls_partition *partition) {
    return partition->setup.sums_state ? (size_t)partition->model->nparams * LS_PARAM_SUMS + 1 : 0;
}

static size_t count_params(const ls_partition *partition) { return (size_t)partition->model->nparams * LS_PARAM_SUMS; }

bool ls_partition_sums_state(const ls_partition *partition) { return partition->setup.sums_state; }

static ls_status begin(ls_partition *partition, ls_hash128 *sums, ls_optimizer_update *update) {
    update->sums = sums;
    update->sums_rest = partition->setup.checks_state || partition->sums_rest;
    return ls_device_fill(partition->device, sums, 0, ls_partition_state_room(partition) * sizeof *sums);
}

ls_status ls_partition_begin_sums(ls_partition *partition, ls_optimizer_update *update) {
    if (!partition->setup.sums_state) return LS_OK;
    partition->state_is_read = false;
    LS_TRY(begin(partition, partition->state_sums, update));
    partition->sums_copies = partition->copy_sums && partition->device->is_host;
    if (partition->sums_copies) {
        update->copy_sums = partition->copy_sums;
        LS_TRY(ls_device_fill(partition->device, partition->copy_sums, 0,
                              ls_partition_copy_room(partition) * sizeof *partition->copy_sums));
    }
    update->keeps_blocks = true;
    update->damage = &partition->state_sums[count_params(partition)].lo;
    return LS_OK;
}

bool ls_partition_read_damage(const ls_partition *partition, ls_damage *out) {
    uint64_t word = partition->host_state[count_params(partition)].lo;
    *out = ls_damage_read(word);
    return word != 0;
}

static ls_status sum_to(ls_partition *partition, ls_hash128 *sums, bool keeps_blocks) {
    ls_optimizer_update update = {.keeps_blocks = keeps_blocks};
    LS_TRY(begin(partition, sums, &update));
    return ls_optimizer_sum(&update, partition->device, &partition->setup.policy, partition->model);
}

ls_status ls_partition_sum_state(ls_partition *partition) {
    if (!partition->setup.sums_state) return LS_OK;
    partition->state_is_read = false;
    return sum_to(partition, partition->state_sums, true);
}

ls_status ls_partition_read_state(ls_partition *partition) {
    if (partition->state_is_read) return LS_OK;
    LS_TRY(ls_device_copy_out(partition->device, partition->host_state, partition->state_sums,
                              ls_partition_state_room(partition) * sizeof(ls_hash128)));
    partition->state_is_read = true;
    return LS_OK;
}

ls_status ls_partition_find_state(ls_partition *partition) {
    LS_TRY(sum_to(partition, partition->found_sums, false));
    return ls_device_copy_out(partition->device, partition->host_found, partition->found_sums,
                              ls_partition_state_room(partition) * sizeof(ls_hash128));
}

void ls_partition_sum_rest(ls_partition *partition) { partition->sums_rest = true; }

ls_status ls_partition_rescue_state(ls_partition *partition, ls_hash128 *out) {
    return ls_device_rescue(partition->device, out, partition->state_sums, count_params(partition) * sizeof *out);
}

static ls_status check_sums(const ls_partition *partition) {
    if (partition->setup.sums_state) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the state of this run is not hashed; leave --check at replicas or state");
}

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
    add_part(partition, partition->host_state, part, by_tensor);
    return LS_OK;
}

ls_hash128 ls_partition_param_sum(const ls_partition *partition, int param) {
    ls_hash128 sum = {0, 0};
    for (int i = 0; i < LS_PARAM_SUMS; i++) ls_state_add(&sum, partition->host_state[param * LS_PARAM_SUMS + i]);
    return sum;
}

ls_status ls_partition_state_now(ls_partition *partition, ls_hash128 *part, ls_hash128 *by_tensor) {
    LS_TRY(check_sums(partition));
    LS_TRY(ls_partition_find_state(partition));
    add_part(partition, partition->host_found, part, by_tensor);
    return LS_OK;
}
