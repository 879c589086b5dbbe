/* calls.c: what of each call is memory of the device and what is memory of the host. */
#include "device/fake/calls.h"

#include <string.h>

static void tensor_at(const ls_fake_copier *c, void *member) {
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    pointer = c->translate(c->memory, pointer);
    memcpy(member, &pointer, sizeof pointer);
}

static void list_at(const ls_fake_copier *c, void *member, size_t bytes) {
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    pointer = c->keep(c->keeper, pointer, bytes);
    memcpy(member, &pointer, sizeof pointer);
}

#define TENSOR(member) tensor_at(c, &call->member)
#define LIST(member, count) list_at(c, &call->member, (count) * sizeof *call->member)

static void own_tensors(const ls_fake_copier *c, const void *const *list, size_t count, void *member) {
    const void **own = c->keep(c->keeper, list, count * sizeof *list);
    for (size_t i = 0; own && i < count; i++) own[i] = c->translate(c->memory, own[i]);
    memcpy(member, &own, sizeof own);
}

static void own_groups(const ls_fake_copier *c, const ls_token_groups **member) {
    ls_token_groups *call = c->keep(c->keeper, *member, sizeof **member);
    if (call) {
        LIST(bounds, (size_t)call->groups + 1);
        LIST(tokens, (size_t)call->slices + 1);
    }
    *member = call;
}

static void own_tokens(const ls_fake_copier *c, const ls_embed_tokens **member) {
    ls_embed_tokens *call = c->keep(c->keeper, *member, sizeof **member);
    if (call) TENSOR(ids);
    *member = call;
}

static void own_ls_gemm(const ls_fake_copier *c, ls_gemm *call) {
    TENSOR(a);
    TENSOR(b);
    TENSOR(c);
    TENSOR(bias);
    if (call->slices > 1) LIST(bounds, (size_t)call->slices + 1);
    for (int i = 0; i < call->siblings; i++) TENSOR(sibling[i]);
    LIST(patches, 1);
    LIST(b_rows, 1);
    LIST(c_rows, 1);
}

static void own_ls_conv_call(const ls_fake_copier *c, ls_conv_call *call) {
    TENSOR(x);
    TENSOR(w);
    TENSOR(bias);
    TENSOR(y);
    TENSOR(dy);
    TENSOR(dx);
    TENSOR(dw);
    if (call->slices > 1) LIST(bounds, (size_t)call->slices + 1);
    for (int i = 0; i < call->siblings; i++) TENSOR(sibling[i]);
}

static void own_ls_pooling_call(const ls_fake_copier *c, ls_pooling_call *call) {
    TENSOR(x);
    TENSOR(y);
    TENSOR(taps);
    TENSOR(dy);
    TENSOR(dx);
}

static void own_ls_batch_norm_call(const ls_fake_copier *c, ls_batch_norm_call *call) {
    TENSOR(x);
    TENSOR(w);
    TENSOR(b);
    TENSOR(residual);
    TENSOR(y);
    TENSOR(mean);
    TENSOR(rstd);
    TENSOR(var);
    TENSOR(dy);
    TENSOR(dx);
    TENSOR(dresidual);
    TENSOR(sum);
    TENSOR(dot);
    TENSOR(sums);
}

static void own_ls_norm_call(const ls_fake_copier *c, ls_norm_call *call) {
    TENSOR(x);
    TENSOR(branch);
    TENSOR(sum);
    TENSOR(dx_copy);
    TENSOR(dx_sums);
    TENSOR(w);
    TENSOR(b);
    TENSOR(y);
    TENSOR(mean);
    TENSOR(rstd);
    TENSOR(dy);
    TENSOR(dx);
    TENSOR(dw);
    TENSOR(db);
    own_groups(c, &call->groups);
}

static void own_ls_act_call(const ls_fake_copier *c, ls_act_call *call) {
    TENSOR(y);
    TENSOR(dy);
    TENSOR(x);
}

static void own_ls_gated_call(const ls_fake_copier *c, ls_gated_call *call) {
    TENSOR(gate);
    TENSOR(up);
    TENSOR(y);
    TENSOR(dy);
    TENSOR(dgate);
    TENSOR(dup);
}

static void own_ls_bias_gelu_call(const ls_fake_copier *c, ls_bias_gelu_call *call) {
    TENSOR(c);
    TENSOR(bias);
    TENSOR(pre);
    TENSOR(y);
}

static void own_ls_bias_grad_call(const ls_fake_copier *c, ls_bias_grad_call *call) {
    TENSOR(db);
    TENSOR(dy);
    own_groups(c, &call->groups);
}

static void own_ls_bias_add_call(const ls_fake_copier *c, ls_bias_add_call *call) {
    TENSOR(y);
    TENSOR(c);
    TENSOR(bias);
}

static void own_ls_dropout_call(const ls_fake_copier *c, ls_dropout_call *call) {
    TENSOR(x);
    TENSOR(residual);
    TENSOR(y);
}

static void own_ls_rope_call(const ls_fake_copier *c, ls_rope_call *call) {
    TENSOR(y);
    TENSOR(x);
    TENSOR(cos);
    TENSOR(sin);
}

static void own_ls_embed_call(const ls_fake_copier *c, ls_embed_call *call) {
    TENSOR(y);
    TENSOR(token);
    TENSOR(position);
    own_tokens(c, &call->tokens);
}

static void own_ls_token_grad_call(const ls_fake_copier *c, ls_token_grad_call *call) {
    TENSOR(dtoken);
    TENSOR(dy);
    own_tokens(c, &call->tokens);
    own_groups(c, &call->groups);
}

static void own_ls_position_grad_call(const ls_fake_copier *c, ls_position_grad_call *call) {
    TENSOR(dposition);
    TENSOR(dy);
    own_groups(c, &call->groups);
}

static void own_ls_loss_call(const ls_fake_copier *c, ls_loss_call *call) {
    TENSOR(z);
    LIST(bounds, call->slices + 1);
    TENSOR(targets);
    TENSOR(m);
    TENSOR(l);
    TENSOR(loss);
    TENSOR(z_target);
    TENSOR(sums);
    TENSOR(dz);
}

static void own_ls_attention_call(const ls_fake_copier *c, ls_attention_call *call) {
    ls_attention *parts = c->keep(c->keeper, call->parts, (size_t)call->nparts * sizeof *parts);
    for (int i = 0; parts && i < call->nparts; i++) {
        ls_attention *part = &parts[i];
        void *const members[] = {&part->q.at, &part->k.at,    &part->v.at,  &part->o.at,  &part->m,    &part->l,
                                 &part->dots, &part->dout.at, &part->dq.at, &part->dk.at, &part->dv.at};
        for (size_t j = 0; j < sizeof members / sizeof *members; j++) tensor_at(c, members[j]);
    }
    call->parts = parts;
}

static void own_ls_update_call(const ls_fake_copier *c, ls_update_call *all) {
    ls_update_piece *own = c->keep(c->keeper, all->pieces, (size_t)all->count * sizeof *own);
    for (int p = 0; own && p < all->count; p++) {
        ls_update_piece *call = &own[p];
        TENSOR(w);
        for (int i = 0; i < LS_MOMENTS_MAX; i++) TENSOR(moment[i]);
        TENSOR(copy);
        TENSOR(g);
        TENSOR(sums.once);
        TENSOR(sums.rest);
        TENSOR(sums.copy);
        TENSOR(check.sums);
        TENSOR(check.damage);
        LIST(step, 1);
    }
    all->pieces = own;
}

static void own_ls_state_sums_call(const ls_fake_copier *c, ls_state_sums_call *all) {
    ls_state_piece *own = c->keep(c->keeper, all->pieces, (size_t)all->count * sizeof *own);
    for (int p = 0; own && p < all->count; p++) {
        ls_state_piece *call = &own[p];
        TENSOR(out);
        TENSOR(x);
    }
    all->pieces = own;
}

static void own_ls_scale_call(const ls_fake_copier *c, ls_scale_call *call) {
    TENSOR(y);
    TENSOR(x);
}

static void own_ls_set_call(const ls_fake_copier *c, ls_set_call *call) { TENSOR(y); }

static void own_ls_convert_call(const ls_fake_copier *c, ls_convert_call *call) {
    TENSOR(out);
    TENSOR(in);
}

static void own_ls_round_call(const ls_fake_copier *c, ls_round_call *call) {
    TENSOR(y);
    TENSOR(x);
}

static void own_ls_add_call(const ls_fake_copier *c, ls_add_call *call) {
    TENSOR(y);
    TENSOR(a);
    TENSOR(b);
}

static void own_ls_copy_rows_call(const ls_fake_copier *c, ls_copy_rows_call *call) {
    TENSOR(to);
    TENSOR(from);
}

static void own_ls_tree_sum_call(const ls_fake_copier *c, ls_tree_sum_call *call) {
    TENSOR(out);
    own_tensors(c, call->contributions, (size_t)call->leaves, &call->contributions);
}

static void own_ls_tree_rows_call(const ls_fake_copier *c, ls_tree_rows_call *call) {
    ls_tree_rows_piece *own = c->keep(c->keeper, call->pieces, (size_t)call->count * sizeof *own);
    for (int i = 0; own && i < call->count; i++) own[i].rows = c->translate(c->memory, own[i].rows);
    call->pieces = own;
}

static void own_ls_max_call(const ls_fake_copier *c, ls_max_call *call) {
    TENSOR(out);
    own_tensors(c, (const void *const *)call->inputs, (size_t)call->count, &call->inputs);
}

static void own_ls_square_sums_call(const ls_fake_copier *c, ls_square_sums_call *call) {
    TENSOR(words);
    ls_square_piece *own = c->keep(c->keeper, call->pieces, (size_t)call->count * sizeof *own);
    for (int i = 0; own && i < call->count; i++) own[i].x = c->translate(c->memory, own[i].x);
    call->pieces = own;
}

static void own_ls_add_losses_call(const ls_fake_copier *c, ls_add_losses_call *call) {
    TENSOR(sum);
    TENSOR(loss);
}

static void own_ls_count_right_call(const ls_fake_copier *c, ls_count_right_call *call) {
    TENSOR(right);
    TENSOR(z);
    TENSOR(targets);
}

static void own_ls_count_call(const ls_fake_copier *c, ls_count_call *call) {
    TENSOR(out);
    TENSOR(x);
}

static void own_ls_difference_call(const ls_fake_copier *c, ls_difference_call *call) {
    TENSOR(before);
    TENSOR(after);
    TENSOR(by);
    TENSOR(lost);
}

static void own_ls_hash_call(const ls_fake_copier *c, ls_hash_call *call) {
    TENSOR(out);
    TENSOR(x);
}

static void own_ls_hash_blocks_call(const ls_fake_copier *c, ls_hash_blocks_call *call) {
    TENSOR(out);
    TENSOR(x);
}

static void own_ls_find_bad_call(const ls_fake_copier *c, ls_find_bad_call *call) {
    TENSOR(x);
    TENSOR(index);
}

void ls_fake_own(ls_fake_op op, void *call, const ls_fake_copier *copier) {
    switch (op) {
#define OWN(name, call_type)                                                                                           \
    case LS_FAKE_##name: own_##call_type(copier, call); break;
        LS_OPS(OWN)
#undef OWN
    case LS_FAKE_OPS: break;
    }
}

ls_status ls_fake_run(ls_fake_op op, ls_device *cpu, const void *call) {
    switch (op) {
#define RUN(name, call_type)                                                                                           \
    case LS_FAKE_##name: return cpu->ops->name(cpu, call);
        LS_OPS(RUN)
#undef RUN
    case LS_FAKE_OPS: break;
    }
    return LS_OK;
}
