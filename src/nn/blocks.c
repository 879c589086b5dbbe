/* blocks.c: parameters of a block and of all blocks; their counts and costs. */
#include "nn/blocks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters of a block --------------------------------------------------------------------------------------- */

ls_param *ls_block_add(ls_block *block, ls_role role, ls_param param) {
    char local[LS_PARAM_NAME_MAX];
    assert(block->nparams < LS_BLOCK_PARAMS_MAX && !ls_block_unit_param(block, role, param.unit));
    memcpy(local, param.name, sizeof local);
    int length = 1;
    if (block->label[0]) length = snprintf(param.name, sizeof param.name, "%s.%.40s", block->label, local);
    assert(length > 0 && length < (int)sizeof param.name);
    (void)length;
    param.role = role;
    block->param[block->nparams] = param;
    return &block->param[block->nparams++];
}

ls_param *ls_block_unit_param(ls_block *block, ls_role role, int unit) {
    for (int i = 0; i < block->nparams; i++)
        if (block->param[i].role == role && block->param[i].unit == unit) return &block->param[i];
    return NULL;
}

ls_param *ls_block_param(ls_block *block, ls_role role) { return ls_block_unit_param(block, role, 0); }

ls_param *ls_block_table(ls_block *block) {
    return block->table ? block->table : ls_block_param(block, LS_ROLE_TOKENS);
}

bool ls_block_borrows_table(ls_block *block) { return block->table && !ls_block_param(block, LS_ROLE_HEAD); }

/* ---- the model --------------------------------------------------------------------------------------------------- */

int ls_model_params(const ls_model *model) { return model->nparams; }

ls_param *ls_model_param(const ls_model *model, int i) {
    return i >= 0 && i < model->nparams ? model->params[i] : NULL;
}

ls_param *ls_model_find(const ls_model *model, const char *name) {
    for (int i = 0; i < model->nparams; i++)
        if (strcmp(model->params[i]->name, name) == 0) return model->params[i];
    return NULL;
}

ls_param *ls_model_tokens(const ls_model *model) { return ls_block_param(&model->blocks[0], LS_ROLE_TOKENS); }

void ls_model_take_slices(ls_model *model, int first, int count) {
    for (int i = 0; i < model->nparams; i++) ls_param_take_slices(model->params[i], model->S, first, count);
}

size_t ls_model_elems(const ls_model *model) {
    size_t elems = 0;
    for (int i = 0; i < model->nparams; i++) elems += ls_param_elems(model->params[i]);
    return elems;
}

size_t ls_model_learned_elems(const ls_model *model) {
    size_t elems = 0;
    for (int i = 0; i < model->nparams; i++)
        if (!model->params[i]->running) elems += ls_param_elems(model->params[i]);
    return elems;
}

enum { SAVED_BYTES_MAX = 512 };

ls_block_cost ls_model_block_cost(const ls_model *model, const ls_policy *policy, int b, size_t B, size_t T) {
    ls_block *block = &model->blocks[b];
    double rows = (double)B * (double)T, elems = 0, products = 0;
    for (int i = 0; i < block->nparams; i++) {
        double own = (double)ls_param_elems(&block->param[i]);
        elems += own;
        if (block->param[i].kind == LS_PARAM_MATRIX) products += own * (double)block->param[i].positions;
    }
    if (ls_block_borrows_table(block)) {
        elems += (double)ls_param_elems(block->table);
        products += (double)ls_param_elems(block->table);
    }
    ls_block_cost cost = {.product_flops = 2 * rows * products, .weight_bytes = elems * sizeof(float)};
    if (block->kind->add_cost) block->kind->add_cost(block, &model->shape, B, T, &cost);
    ls_nn nn = {.policy = *policy, .shape = &model->shape};
    max_align_t saved[SAVED_BYTES_MAX / sizeof(max_align_t)];
    ls_arena arena;
    assert(block->kind->saved_bytes <= sizeof saved);
    ls_nn_take_slices(&nn, model->S, 0, model->S);
    ls_nn_set_rows(&nn, B, T);
    ls_arena_measure(&arena, 0);
    if (block->kind->carve_saved) block->kind->carve_saved(block, saved, &nn, LS_SAVE_ALL, &arena);
    cost.saved_bytes = (double)arena.peak;
    if (b > 0) cost.saved_bytes += (double)B * (double)T * (double)block->in * sizeof(float);
    return cost;
}

double ls_model_step_flops(const ls_model *model, size_t B, size_t T) {
    double flops = 0;
    for (int b = 0; b < model->nblocks; b++) {
        ls_block_cost cost = ls_model_block_cost(model, &(ls_policy){0}, b, B, T);
        flops += cost.product_flops + cost.attention_flops;
    }
    return 3 * flops;
}
