/* blocks.c: looking through the list. */
#include "nn/blocks.h"

#include <string.h>

int ls_model_params(const ls_model *model) { return model->nparams; }

ls_param *ls_model_param(const ls_model *model, int i) {
    return i >= 0 && i < model->nparams ? model->params[i] : NULL;
}

ls_param *ls_model_find(const ls_model *model, const char *name) {
    for (int i = 0; i < model->nparams; i++)
        if (strcmp(model->params[i]->name, name) == 0) return model->params[i];
    return NULL;
}

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

/* A table that the head shares with the embedding is not among its own parameters. */
static bool has_foreign_table(const ls_block *block) {
    return block->table && block->table != &block->param[block->nparams - 1];
}

ls_block_cost ls_model_block_cost(const ls_model *model, const ls_policy *policy, int b, size_t B, size_t T) {
    const ls_block *block = &model->blocks[b];
    double rows = (double)B * (double)T, seen = rows * ((double)T + 1) / 2, elems = 0, products = 0;
    for (int i = 0; i < block->nparams; i++) {
        double own = (double)ls_param_elems(&block->param[i]);
        elems += own;
        if (block->param[i].kind == LS_PARAM_MATRIX) products += own * (double)block->param[i].positions;
    }
    if (has_foreign_table(block)) {
        elems += (double)ls_param_elems(block->table);
        products += (double)ls_param_elems(block->table);
    }
    ls_block_cost cost = {.product_flops = 2 * rows * products, .weight_bytes = elems * sizeof(float)};
    if (block->kind == &ls_block_transformer)
        cost.attention_flops = 4 * seen * (double)ls_shape_query_width(&model->shape);
    ls_nn nn = {.policy = *policy, .shape = &model->shape};
    ls_saved saved;
    ls_arena arena;
    ls_nn_take_slices(&nn, model->S, 0, model->S);
    ls_nn_set_rows(&nn, B, T);
    ls_arena_measure(&arena, 0);
    if (block->kind->carve_saved) block->kind->carve_saved(block, &saved, &nn, LS_SAVE_ALL, &arena);
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
