/* hf_names.c: what Hugging Face calls our parameters. */
#include "interop/hf_names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

typedef struct name_row {
    const char *ours, *theirs; /* in a block: behind "blocks.3." and "transformer.h.3." */
    int part;                  /* of a fused parameter; WHOLE */
    bool transposed;
} name_row;

enum { WHOLE = -1, BLOCK_PREFIX_MAX = 64 };

static const name_row gpt2_first[] = {
    {"tokens.weight", "wte.weight", WHOLE, false},
    {"positions.weight", "wpe.weight", WHOLE, false},
    {NULL, NULL, 0, false},
};
static const name_row gpt2_block[] = {
    {"attn.norm.weight", "ln_1.weight", WHOLE, false},
    {"attn.norm.bias", "ln_1.bias", WHOLE, false},
    {"attn.qkv.weight", "attn.c_attn.weight", WHOLE, true},
    {"attn.qkv.bias", "attn.c_attn.bias", WHOLE, false},
    {"attn.out.weight", "attn.c_proj.weight", WHOLE, false},
    {"attn.out.bias", "attn.c_proj.bias", WHOLE, false},
    {"mlp.norm.weight", "ln_2.weight", WHOLE, false},
    {"mlp.norm.bias", "ln_2.bias", WHOLE, false},
    {"mlp.in.weight", "mlp.c_fc.weight", WHOLE, true},
    {"mlp.in.bias", "mlp.c_fc.bias", WHOLE, false},
    {"mlp.out.weight", "mlp.c_proj.weight", WHOLE, false},
    {"mlp.out.bias", "mlp.c_proj.bias", WHOLE, false},
    {NULL, NULL, 0, false},
};
static const name_row gpt2_last[] = {
    {"norm.weight", "ln_f.weight", WHOLE, false},
    {"norm.bias", "ln_f.bias", WHOLE, false},
    {NULL, NULL, 0, false},
};

static const name_row llama_first[] = {
    {"tokens.weight", "embed_tokens.weight", WHOLE, false},
    {NULL, NULL, 0, false},
};
static const name_row llama_block[] = {
    {"attn.norm.weight", "input_layernorm.weight", WHOLE, false},
    {"attn.qkv.weight", "self_attn.q_proj.weight", 0, false},
    {"attn.qkv.weight", "self_attn.k_proj.weight", 1, false},
    {"attn.qkv.weight", "self_attn.v_proj.weight", 2, false},
    {"attn.qkv.bias", "self_attn.q_proj.bias", 0, false},
    {"attn.qkv.bias", "self_attn.k_proj.bias", 1, false},
    {"attn.qkv.bias", "self_attn.v_proj.bias", 2, false},
    {"attn.out.weight", "self_attn.o_proj.weight", WHOLE, true},
    {"attn.out.bias", "self_attn.o_proj.bias", WHOLE, false},
    {"mlp.norm.weight", "post_attention_layernorm.weight", WHOLE, false},
    {"mlp.in.weight", "mlp.gate_proj.weight", 0, false},
    {"mlp.in.weight", "mlp.up_proj.weight", 1, false},
    {"mlp.in.bias", "mlp.gate_proj.bias", 0, false},
    {"mlp.in.bias", "mlp.up_proj.bias", 1, false},
    {"mlp.out.weight", "mlp.down_proj.weight", WHOLE, true},
    {"mlp.out.bias", "mlp.down_proj.bias", WHOLE, false},
    {NULL, NULL, 0, false},
};
static const name_row llama_last[] = {
    {"norm.weight", "norm.weight", WHOLE, false},
    {NULL, NULL, 0, false},
};

static const name_row head[] = {
    {"head.weight", LS_HF_HEAD, WHOLE, false},
    {NULL, NULL, 0, false},
};

static const struct {
    const char *prefix, *blocks;
    const name_row *first, *block, *last;
} names[LS_ARCH_COUNT] = {
    [LS_ARCH_GPT2] = {"transformer.", "transformer.h.", gpt2_first, gpt2_block, gpt2_last},
    [LS_ARCH_LLAMA] = {"model.", "model.layers.", llama_first, llama_block, llama_last},
};

const char *ls_hf_prefix(const ls_shape *shape) { return names[shape->arch].prefix; }

bool ls_hf_is_buffer(const ls_shape *shape, const char *name) {
    if (ls_shape_is_llama(shape)) return ls_ends_with(name, "rotary_emb.inv_freq");
    return ls_ends_with(name, ".attn.bias") || ls_ends_with(name, ".attn.masked_bias");
}

ls_status ls_hf_check_shape(const ls_shape *shape) {
    if (ls_shape_is_llama(shape)) return LS_OK;
    if (shape->kv_heads != shape->H)
        return ls_fail(LS_ERR_INPUT,
                       "'%s' has %zu heads and %zu kv-heads; Hugging Face's GPT-2 has no grouped-query attention",
                       shape->name, shape->H, shape->kv_heads);
    if (ls_shape_query_width(shape) != shape->C)
        return ls_fail(LS_ERR_INPUT,
                       "'%s' has %zu heads of %zu and width %zu; Hugging Face's GPT-2 needs heads × head size = width",
                       shape->name, shape->H, shape->head_size, shape->C);
    return LS_OK;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Where the parameters of a block are, and what stands in front of their names. */
typedef struct place {
    const ls_model *model;
    const ls_block *block;
    const char *ours, *theirs;
} place;

static const ls_param *find(const place *at, const char *name) {
    size_t skip = strlen(at->ours);
    for (int i = 0; i < at->block->nparams; i++)
        if (strcmp(at->block->param[i].name + skip, name) == 0) return &at->block->param[i];
    return NULL;
}

/* A bias that GPT-2 always has; false: this tensor is not there at all. */
static bool stand_in(const ls_shape *shape, const char *ours, ls_hf_tensor *out) {
    if (ls_shape_is_llama(shape) || !ls_ends_with(ours, ".bias")) return false;
    bool qkv = strcmp(ours, "attn.qkv.bias") == 0, wide = strcmp(ours, "mlp.in.bias") == 0;
    out->rows = qkv ? ls_shape_qkv_width(shape) : wide ? ls_shape_mlp_width(shape) : shape->C;
    out->columns = 1;
    return true;
}

static bool fill(const place *at, const name_row *row, ls_hf_tensor *out) {
    const ls_param *param = find(at, row->ours);
    *out = (ls_hf_tensor){.param = param, .transposed = row->transposed, .dims = 1};
    if (param) {
        bool whole = row->part == WHOLE;
        out->first_row = whole ? 0 : param->part[row->part].first_row;
        out->rows = whole ? param->rows : param->units * param->part[row->part].unit_rows;
        out->columns = param->columns;
        out->dims = param->kind == LS_PARAM_VECTOR ? 1 : 2;
    } else if (!stand_in(&at->model->shape, row->ours, out)) {
        return false;
    }
    out->shape[0] = (int64_t)(row->transposed ? out->columns : out->rows);
    out->shape[1] = (int64_t)(row->transposed ? out->rows : out->columns);
    int length = snprintf(out->name, sizeof out->name, "%s%s", at->theirs, row->theirs);
    assert(length > 0 && length < LS_HF_NAME_MAX);
    (void)length;
    return true;
}

static void add_rows(const place *at, const name_row *rows, ls_hf_tensor *list, int *count) {
    for (; rows->ours; rows++) *count += fill(at, rows, &list[*count]);
}

ls_status ls_hf_tensors(const ls_model *model, ls_hf_tensor **out, int *count) {
    ls_arch arch = model->shape.arch;
    size_t capacity = (model->shape.L + 2) * (sizeof llama_block / sizeof *llama_block);
    char ours[BLOCK_PREFIX_MAX], theirs[BLOCK_PREFIX_MAX];
    ls_hf_tensor *list = calloc(capacity, sizeof *list);
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of %zu tensors", capacity);
    *count = 0;
    place at = {model, &model->blocks[0], "", names[arch].prefix};
    add_rows(&at, names[arch].first, list, count);
    for (int b = 1; b < model->nblocks - 1; b++) {
        snprintf(ours, sizeof ours, "blocks.%d.", b - 1);
        snprintf(theirs, sizeof theirs, "%s%d.", names[arch].blocks, b - 1);
        at = (place){model, &model->blocks[b], ours, theirs};
        add_rows(&at, names[arch].block, list, count);
    }
    at = (place){model, &model->blocks[model->nblocks - 1], "", names[arch].prefix};
    add_rows(&at, names[arch].last, list, count);
    at.theirs = "";
    add_rows(&at, head, list, count);
    *out = list;
    return LS_OK;
}
