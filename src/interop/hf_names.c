/* hf_names.c: tables of Hugging Face's names for our parameters, by family of models. */
#include "interop/hf_names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

/* The blocks that have a parameter: the first, those of the layers, the last; HEAD is in the last block too, but its
 * name in files has no prefix. */
typedef enum section { FIRST, BLOCK, LAST, HEAD } section;

typedef struct name_row {
    section section;
    const char *ours, *theirs; /* of a layer: behind "blocks.3." and "transformer.h.3." */
    int part;                  /* index of the part of a fused parameter (q, k, v; gate, up); WHOLE: not fused there */
    bool transposed;           /* the file has [columns][rows] of ours */
} name_row;

enum { WHOLE = -1, BLOCK_PREFIX_MAX = 64 };

static const name_row gpt2[] = {
    {FIRST, "tokens.weight", "wte.weight", WHOLE, false},
    {FIRST, "positions.weight", "wpe.weight", WHOLE, false},
    {BLOCK, "attn.norm.weight", "ln_1.weight", WHOLE, false},
    {BLOCK, "attn.norm.bias", "ln_1.bias", WHOLE, false},
    {BLOCK, "attn.qkv.weight", "attn.c_attn.weight", WHOLE, true},
    {BLOCK, "attn.qkv.bias", "attn.c_attn.bias", WHOLE, false},
    {BLOCK, "attn.out.weight", "attn.c_proj.weight", WHOLE, false},
    {BLOCK, "attn.out.bias", "attn.c_proj.bias", WHOLE, false},
    {BLOCK, "mlp.norm.weight", "ln_2.weight", WHOLE, false},
    {BLOCK, "mlp.norm.bias", "ln_2.bias", WHOLE, false},
    {BLOCK, "mlp.in.weight", "mlp.c_fc.weight", WHOLE, true},
    {BLOCK, "mlp.in.bias", "mlp.c_fc.bias", WHOLE, false},
    {BLOCK, "mlp.out.weight", "mlp.c_proj.weight", WHOLE, false},
    {BLOCK, "mlp.out.bias", "mlp.c_proj.bias", WHOLE, false},
    {LAST, "norm.weight", "ln_f.weight", WHOLE, false},
    {LAST, "norm.bias", "ln_f.bias", WHOLE, false},
    {HEAD, "head.weight", LS_HF_HEAD, WHOLE, false},
};

static const name_row llama[] = {
    {FIRST, "tokens.weight", "embed_tokens.weight", WHOLE, false},
    {BLOCK, "attn.norm.weight", "input_layernorm.weight", WHOLE, false},
    {BLOCK, "attn.qkv.weight", "self_attn.q_proj.weight", 0, false},
    {BLOCK, "attn.qkv.weight", "self_attn.k_proj.weight", 1, false},
    {BLOCK, "attn.qkv.weight", "self_attn.v_proj.weight", 2, false},
    {BLOCK, "attn.qkv.bias", "self_attn.q_proj.bias", 0, false},
    {BLOCK, "attn.qkv.bias", "self_attn.k_proj.bias", 1, false},
    {BLOCK, "attn.qkv.bias", "self_attn.v_proj.bias", 2, false},
    {BLOCK, "attn.q_norm.weight", "self_attn.q_norm.weight", WHOLE, false},
    {BLOCK, "attn.k_norm.weight", "self_attn.k_norm.weight", WHOLE, false},
    {BLOCK, "attn.out.weight", "self_attn.o_proj.weight", WHOLE, true},
    {BLOCK, "attn.out.bias", "self_attn.o_proj.bias", WHOLE, false},
    {BLOCK, "mlp.norm.weight", "post_attention_layernorm.weight", WHOLE, false},
    {BLOCK, "mlp.in.weight", "mlp.gate_proj.weight", 0, false},
    {BLOCK, "mlp.in.weight", "mlp.up_proj.weight", 1, false},
    {BLOCK, "mlp.in.bias", "mlp.gate_proj.bias", 0, false},
    {BLOCK, "mlp.in.bias", "mlp.up_proj.bias", 1, false},
    {BLOCK, "mlp.out.weight", "mlp.down_proj.weight", WHOLE, true},
    {BLOCK, "mlp.out.bias", "mlp.down_proj.bias", WHOLE, false},
    {LAST, "norm.weight", "norm.weight", WHOLE, false},
    {HEAD, "head.weight", LS_HF_HEAD, WHOLE, false},
};

/* q, k and v in one tensor, gate and up in another, in the order of ours. */
static const name_row phi3[] = {
    {FIRST, "tokens.weight", "embed_tokens.weight", WHOLE, false},
    {BLOCK, "attn.norm.weight", "input_layernorm.weight", WHOLE, false},
    {BLOCK, "attn.qkv.weight", "self_attn.qkv_proj.weight", WHOLE, false},
    {BLOCK, "attn.out.weight", "self_attn.o_proj.weight", WHOLE, true},
    {BLOCK, "mlp.norm.weight", "post_attention_layernorm.weight", WHOLE, false},
    {BLOCK, "mlp.in.weight", "mlp.gate_up_proj.weight", WHOLE, false},
    {BLOCK, "mlp.out.weight", "mlp.down_proj.weight", WHOLE, true},
    {LAST, "norm.weight", "norm.weight", WHOLE, false},
    {HEAD, "head.weight", LS_HF_HEAD, WHOLE, false},
};

static const name_row starcoder2[] = {
    {FIRST, "tokens.weight", "embed_tokens.weight", WHOLE, false},
    {BLOCK, "attn.norm.weight", "input_layernorm.weight", WHOLE, false},
    {BLOCK, "attn.norm.bias", "input_layernorm.bias", WHOLE, false},
    {BLOCK, "attn.qkv.weight", "self_attn.q_proj.weight", 0, false},
    {BLOCK, "attn.qkv.weight", "self_attn.k_proj.weight", 1, false},
    {BLOCK, "attn.qkv.weight", "self_attn.v_proj.weight", 2, false},
    {BLOCK, "attn.qkv.bias", "self_attn.q_proj.bias", 0, false},
    {BLOCK, "attn.qkv.bias", "self_attn.k_proj.bias", 1, false},
    {BLOCK, "attn.qkv.bias", "self_attn.v_proj.bias", 2, false},
    {BLOCK, "attn.out.weight", "self_attn.o_proj.weight", WHOLE, true},
    {BLOCK, "attn.out.bias", "self_attn.o_proj.bias", WHOLE, false},
    {BLOCK, "mlp.norm.weight", "post_attention_layernorm.weight", WHOLE, false},
    {BLOCK, "mlp.norm.bias", "post_attention_layernorm.bias", WHOLE, false},
    {BLOCK, "mlp.in.weight", "mlp.c_fc.weight", WHOLE, false},
    {BLOCK, "mlp.in.bias", "mlp.c_fc.bias", WHOLE, false},
    {BLOCK, "mlp.out.weight", "mlp.c_proj.weight", WHOLE, true},
    {BLOCK, "mlp.out.bias", "mlp.c_proj.bias", WHOLE, false},
    {LAST, "norm.weight", "norm.weight", WHOLE, false},
    {LAST, "norm.bias", "norm.bias", WHOLE, false},
    {HEAD, "head.weight", LS_HF_HEAD, WHOLE, false},
};

enum { BUFFERS_MAX = 2 };

/* Biases that Hugging Face's code for a family always has: an export writes zeros for those that the model lacks. */
enum { QKV_BIAS = 1, OUT_BIAS = 2, MLP_BIASES = 4, UNLESS_ALL_ARE_ABSENT = 8 };

typedef struct name_table {
    const char *prefix, *blocks;
    const char *buffers[BUFFERS_MAX]; /* ends of the names of tensors in older files that hold no parameter */
    unsigned biases;                  /* QKV_BIAS | … */
    const name_row *rows;
    size_t count;
} name_table;

#define ROWS(rows) rows, sizeof(rows) / sizeof *(rows)
static const name_table hf_gpt2 = {"transformer.",
                                   "transformer.h.",
                                   {".attn.bias", ".attn.masked_bias"},
                                   QKV_BIAS | OUT_BIAS | MLP_BIASES,
                                   ROWS(gpt2)};
static const name_table hf_llama = {"model.", "model.layers.", {"rotary_emb.inv_freq"}, 0, ROWS(llama)};
static const name_table hf_qwen2 = {"model.", "model.layers.", {"rotary_emb.inv_freq"}, QKV_BIAS, ROWS(llama)};
static const name_table hf_phi3 = {"model.", "model.layers.", {"rotary_emb.inv_freq"}, 0, ROWS(phi3)};
static const name_table hf_starcoder2 = {"model.",
                                         "model.layers.",
                                         {"rotary_emb.inv_freq"},
                                         QKV_BIAS | OUT_BIAS | MLP_BIASES | UNLESS_ALL_ARE_ABSENT,
                                         ROWS(starcoder2)};
/* Families whose tensors have Llama's names. */
#define hf_mistral hf_llama
#define hf_qwen3 hf_llama
#define hf_smollm3 hf_llama
static const name_table hf_none = {0}; /* no weights are read or written */

static const name_table *const tables[LS_ARCH_COUNT] = {
#define LS_FAMILY(ID, NAME, HF, ...) [LS_ARCH_##ID] = &hf_##HF,
#include "nn/families.def"
};

const char *ls_hf_prefix(const ls_shape *shape) { return tables[shape->arch]->prefix; }

bool ls_hf_is_buffer(const ls_shape *shape, const char *name) {
    const char *const *ends = tables[shape->arch]->buffers;
    for (int i = 0; i < BUFFERS_MAX && ends[i]; i++)
        if (ls_ends_with(name, ends[i])) return true;
    return false;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Returns the block's parameter whose name is `name` after `prefix`; NULL: it has none. */
static const ls_param *find_param(const ls_block *block, const char *prefix, const char *name) {
    for (int i = 0; i < block->nparams; i++)
        if (strcmp(block->param[i].name + strlen(prefix), name) == 0) return &block->param[i];
    return NULL;
}

/* Describes a bias that this model lacks but Hugging Face's code for the family requires, so that the export writes
 * zeros. Returns false if the tensor is not required. */
static bool describe_missing_bias(const ls_shape *shape, const char *ours, ls_hf_tensor *out) {
    unsigned biases = tables[shape->arch]->biases;
    bool qkv = strcmp(ours, "attn.qkv.bias") == 0, wide = strcmp(ours, "mlp.in.bias") == 0;
    bool of_out = strcmp(ours, "attn.out.bias") == 0, of_mlp = wide || strcmp(ours, "mlp.out.bias") == 0;
    if (!(biases & (qkv ? QKV_BIAS : of_out ? OUT_BIAS : of_mlp ? MLP_BIASES : 0U))) return false;
    if (biases & UNLESS_ALL_ARE_ABSENT && !shape->attention_bias && !shape->mlp_bias) return false;
    out->stored.rows = qkv ? ls_shape_qkv_width(shape) : wide ? ls_shape_mlp_width(shape) : shape->C;
    out->stored.columns = 1;
    return true;
}

/* Describes the tensor of one row of the table, or the bias of a model without it. Returns false if the model has no
 * such tensor. */
static bool describe_tensor(const ls_shape *shape, const name_row *row, const ls_param *param, const char *prefix,
                            ls_hf_tensor *out) {
    ls_stored *stored = &out->stored;
    *out = (ls_hf_tensor){.param = param, .stored = {.transposed = row->transposed}, .dims = 1};
    if (param) {
        bool whole = row->part == WHOLE;
        stored->param = (int)param->number;
        stored->first_row = whole ? 0 : param->part[row->part].first_row;
        stored->rows = whole ? param->rows : param->units * param->part[row->part].unit_rows;
        stored->columns = param->columns;
        out->dims = param->kind == LS_PARAM_VECTOR ? 1 : 2;
    } else if (!describe_missing_bias(shape, row->ours, out)) {
        return false;
    }
    out->shape[0] = (int64_t)(row->transposed ? stored->columns : stored->rows);
    out->shape[1] = (int64_t)(row->transposed ? stored->rows : stored->columns);
    int length = snprintf(out->name, sizeof out->name, "%s%s", prefix, row->theirs);
    assert(length > 0 && length < LS_HF_NAME_MAX);
    (void)length;
    return true;
}

ls_status ls_hf_tensors(const ls_model *model, ls_hf_tensor **out, int *count) {
    const name_table *table = tables[model->shape.arch];
    size_t capacity = (size_t)model->nblocks * table->count;
    ls_hf_tensor *list = calloc(capacity, sizeof *list);
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of %zu tensors", capacity);
    *count = 0;
    for (int b = 0; b < model->nblocks; b++) {
        section here = b == 0 ? FIRST : b == model->nblocks - 1 ? LAST : BLOCK;
        char ours[BLOCK_PREFIX_MAX] = "", theirs[BLOCK_PREFIX_MAX];
        if (here == BLOCK) snprintf(ours, sizeof ours, "blocks.%d.", b - 1);
        if (here == BLOCK)
            snprintf(theirs, sizeof theirs, "%s%d.", table->blocks, b - 1);
        else
            snprintf(theirs, sizeof theirs, "%s", table->prefix);
        for (const name_row *row = table->rows; row < table->rows + table->count; row++) {
            bool is_head = row->section == HEAD && here == LAST;
            if (row->section != here && !is_head) continue;
            const ls_param *param = find_param(&model->blocks[b], ours, row->ours);
            *count += describe_tensor(&model->shape, row, param, is_head ? "" : theirs, &list[*count]);
        }
    }
    *out = list;
    return LS_OK;
}
