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

double ls_model_step_flops(const ls_model *model, size_t B, size_t T) {
    double flops = 0;
    for (int b = 0; b < model->nblocks; b++) {
        ls_block_cost cost = model->blocks[b].kind->cost(&model->blocks[b], &model->shape, B, T);
        flops += cost.product_flops + cost.attention_flops;
    }
    return 3 * flops;
}
