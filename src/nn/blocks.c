/* blocks.c: looking through the list. */
#include "nn/blocks.h"

#include <string.h>

int ls_model_params(const ls_model *model) {
    int count = 0;
    for (int b = 0; b < model->nblocks; b++) count += model->blocks[b].nparams;
    return count;
}

ls_param *ls_model_param(const ls_model *model, int i) {
    for (int b = 0; b < model->nblocks; b++) {
        if (i < model->blocks[b].nparams) return &model->blocks[b].param[i];
        i -= model->blocks[b].nparams;
    }
    return NULL;
}

ls_param *ls_model_find(const ls_model *model, const char *name) {
    for (int b = 0; b < model->nblocks; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++)
            if (strcmp(model->blocks[b].param[i].name, name) == 0) return &model->blocks[b].param[i];
    return NULL;
}

size_t ls_model_elems(const ls_model *model) {
    size_t elems = 0;
    for (int b = 0; b < model->nblocks; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++) elems += ls_param_elems(&model->blocks[b].param[i]);
    return elems;
}

ls_block_cost ls_model_block_cost(const ls_model *model, int b, size_t B, size_t T) {
    const ls_block *block = &model->blocks[b];
    ls_block_cost cost = block->kind->cost(block, &model->shape, B, T);
    for (int i = 0; i < block->nparams; i++)
        cost.weight_bytes += (double)ls_param_elems(&block->param[i]) * sizeof(float);
    if (block->table && block->table != &block->param[block->nparams - 1])
        cost.weight_bytes += (double)ls_param_elems(block->table) * sizeof(float);
    ls_nn nn = {.shape = &model->shape, .S = model->S, .B = B, .T = T};
    ls_saved saved;
    ls_arena arena;
    ls_arena_measure(&arena);
    block->kind->carve_saved(&saved, &nn, &arena);
    cost.saved_bytes = (double)arena.peak;
    if (b > 0) cost.saved_bytes += (double)B * (double)T * (double)model->shape.C * sizeof(float);
    return cost;
}

double ls_model_step_flops(const ls_model *model, size_t B, size_t T) {
    double flops = 0;
    for (int b = 0; b < model->nblocks; b++) {
        ls_block_cost cost = ls_model_block_cost(model, b, B, T);
        flops += cost.product_flops + cost.attention_flops;
    }
    return 3 * flops;
}
