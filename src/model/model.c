/* model.c: building the list of blocks. */
#include "model/model.h"

#include <stdlib.h>

#include "model/image_blocks.h"
#include "model/shape_file.h"

/* Fails unless the number of slices is a power of two, at most LS_SLICES_MAX and the number of key/value heads. */
static ls_status check_slices(const ls_shape *shape, int slices) {
    if (slices >= 1 && slices <= LS_SLICES_MAX && (slices & (slices - 1)) == 0 && (size_t)slices <= shape->kv_heads)
        return LS_OK;
    int most = 1;
    while (2 * most <= LS_SLICES_MAX && (size_t)(2 * most) <= shape->kv_heads) most *= 2;
    return ls_fail(LS_ERR_INPUT, "--slices %d: %s has %zu key/value heads; use a power of two up to %d", slices,
                   shape->name, shape->kv_heads, most);
}

/* Sets kind and parameters of each block, and numbers the parameters in the order of blocks. All slices are this
 * worker's at first. With tied tables the last block borrows the embedding's. */
static void fill_blocks(ls_model *model) {
    uint32_t number = 0;
    if (ls_shape_sees_images(&model->shape)) ls_image_blocks(model);
    for (int b = 0; b < model->nblocks; b++) {
        ls_block *block = &model->blocks[b];
        bool first = b == 0, last = b == model->nblocks - 1;
        if (!ls_shape_sees_images(&model->shape)) {
            block->kind = first ? &ls_block_embed : last ? &ls_block_head : &ls_block_transformer;
            block->layer = b - 1;
            block->in = block->out = model->shape.C;
        }
        block->kind->declare(block, &model->shape);
        for (int i = 0; i < block->nparams; i++) {
            block->param[i].number = number;
            model->params[number++] = &block->param[i];
        }
    }
    model->nparams = (int)number;
    ls_model_take_slices(model, 0, model->S);
    if (model->shape.tied) model->blocks[model->nblocks - 1].table = ls_model_tokens(model);
}

ls_status ls_model_create(const ls_shape *shape, int slices, ls_model **out) {
    *out = NULL;
    LS_TRY(ls_shape_check(shape));
    LS_TRY(check_slices(shape, slices));
    ls_model *model = calloc(1, sizeof *model);
    if (model) {
        model->blocks = calloc(shape->L + 2, sizeof *model->blocks);
        model->params = calloc((shape->L + 2) * LS_BLOCK_PARAMS_MAX, sizeof *model->params);
    }
    if (!model || !model->blocks || !model->params) {
        ls_model_destroy(model);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the %zu blocks of %s", shape->L + 2, shape->name);
    }
    model->shape = *shape;
    model->S = slices;
    model->nblocks = (int)shape->L + 2;
    fill_blocks(model);
    *out = model;
    return LS_OK;
}

double ls_model_count_params(const ls_shape *shape) {
    const ls_block_kind *const kinds[] = {&ls_block_embed, &ls_block_transformer, &ls_block_head};
    double count = 0;
    for (int k = 0; k < 3; k++) {
        ls_block block = {.kind = kinds[k]};
        block.kind->declare(&block, shape);
        for (int i = 0; i < block.nparams; i++)
            count += (double)ls_param_elems(&block.param[i]) * (k == 1 ? (double)shape->L : 1);
    }
    return count;
}

void ls_model_destroy(ls_model *model) {
    if (!model) return;
    free(model->blocks);
    free(model->params);
    free(model);
}

int ls_model_default_slices(const ls_shape *shape, ls_unit unit) {
    enum { MOST = 8, MOST_HGMMA = 2 }; /* sums that wait for their sibling in the tree take room from a tile of a GPU */
    int slices = 1, most = ls_unit_is_tensor_core(unit) ? MOST_HGMMA : MOST;
    while (slices < most && (size_t)(2 * slices) <= shape->kv_heads) slices *= 2;
    return slices;
}

void ls_model_suit_unit(ls_shape *shape, ls_unit unit) {
    enum { HGMMA_GRAIN = 64 }; /* rows of a TMA box, and whole 16 bytes */
    shape->vocabulary_grain = ls_unit_is_tensor_core(unit) ? HGMMA_GRAIN : 0;
}
