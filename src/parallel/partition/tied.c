/* tied.c: a table that the embedding and the head share while they are on different stages.
 *
 * The first stage owns the table. The last stage has a copy: after backward it sends the gradient of its use to the
 * first stage, and after the update it receives the weights. */
#include "comm/movers/tensors.h"
#include "parallel/partition/state.h"

bool ls_partition_is_tied(const ls_partition *partition, const ls_param *param) {
    return param->kind == LS_PARAM_TOKENS && partition->model->shape.tied;
}

const ls_param *ls_partition_tied_copy(const ls_partition *partition) { return partition->tied.copy; }

void ls_partition_tie_head(ls_partition *partition) {
    ls_model *model = partition->model;
    ls_block *embedding = &model->blocks[0], *head = &model->blocks[model->nblocks - 1];
    const ls_partition_setup *setup = &partition->setup;
    embedding->shares_table = model->shape.tied && setup->layout.pp == 1;
    if (!model->shape.tied) return;
    head->table = ls_model_tokens(model);
    if (setup->layout.pp == 1 || setup->place.pp != setup->layout.pp - 1) return;
    head->copy = *head->table;
    head->table = partition->tied.copy = &head->copy;
}

void ls_partition_lay_tied(ls_partition *partition, ls_arena *arena) {
    const ls_partition_setup *setup = &partition->setup;
    bool first = setup->train && partition->model->shape.tied && setup->layout.pp > 1 && setup->place.pp == 0;
    const ls_param *table = ls_model_tokens(partition->model);
    partition->tied.grad =
        first ? ls_partition_take_f32(arena, "communication", ls_param_range_elems(table->own), 1) : NULL;
    partition->tied.receives = first;
}

ls_status ls_partition_send_tied_grad(ls_partition *partition) {
    const ls_param *table = ls_model_tokens(partition->model), *copy = partition->tied.copy;
    if (!partition->comms.pp) return LS_OK;
    if (copy)
        return ls_tensor_send(partition->device, partition->comms.pp, 0, LS_TAG_TIED_GRAD, copy->own_grad,
                              ls_param_range_elems(copy->own) * sizeof(float));
    if (!partition->tied.receives) return LS_OK;
    size_t elems = ls_param_range_elems(table->own);
    LS_TRY(ls_tensor_recv(partition->device, partition->comms.pp, partition->setup.layout.pp - 1, LS_TAG_TIED_GRAD,
                          partition->tied.grad, elems * sizeof(float)));
    return partition->nn.ops->add(
        partition->device, &(ls_add_call){table->own_grad, table->own_grad, partition->tied.grad, LS_F32, elems});
}

ls_status ls_partition_send_tied_weight(ls_partition *partition) {
    const ls_param *copy = partition->tied.copy, *table = copy ? copy : ls_model_tokens(partition->model);
    bool is_16 = ls_policy_is_16(&partition->setup.policy);
    if (!copy && !partition->tied.receives) return LS_OK;
    size_t bytes = ls_param_range_elems(table->own) * ls_dtype_bytes(partition->setup.policy.act);
    if (copy)
        return ls_tensor_recv(partition->device, partition->comms.pp, 0, LS_TAG_TIED_WEIGHT,
                              is_16 ? (void *)copy->own_w16 : copy->own_w, bytes);
    const void *own = is_16 ? (const void *)table->own_w16 : table->own_w;
    return ls_tensor_send(partition->device, partition->comms.pp, partition->setup.layout.pp - 1, LS_TAG_TIED_WEIGHT,
                          own, bytes);
}
