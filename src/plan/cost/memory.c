/* memory.c: bytes of the heaviest worker by kind, at the moment when it needs most.
 *
 * Activations of a layer and micro-batch, in 16 bits, are s·b·h times (Korthikanti et al. 2022, array by array)
 *
 *     4 inputs of norms + 2 input of qkv + 2 input of the MLP + 2 masks      whole; with sequence parallelism 1/t
 *     2(1 + 2k/a) qkv + 2 heads + 4f/h MLP (gated 6f/h)                      1/t
 *     5·a·s/h scores, where attention writes them                            1/t
 *
 * Masks and scores are there only where the stack has them. The peak is either in the backward pass of a layer, with
 * the gradients of its arrays beside what it kept or computes again, or in the loss, with copies of the logits; both
 * while everything that was kept for backward is there. */
#include "plan/cost/cost_case.h"

typedef struct stage_memory {
    double kind[LS_MEMORY_KINDS];
    double sum;
} stage_memory;

static double max(double a, double b) { return a > b ? a : b; }

static double min(double a, double b) { return a < b ? a : b; }

/* Returns the bytes of an array as wide as the residual stream for the chip's tokens of a micro-batch. */
static double whole_bytes(const ls_plan_case *c) { return c->elem * c->tokens * c->C; }

/* The same as sequence parallelism keeps it: divided over the tensor-parallel chips. */
static double stream_bytes(const ls_plan_case *c) { return whole_bytes(c) / (c->layout->sequence_parallel ? c->t : 1); }

/* Returns the bytes of attention scores of a layer, with `each` bytes per score. */
static double score_bytes(const ls_plan_case *c, double each) {
    return each * c->tokens * (double)c->task->seq * (double)c->task->shape.H / c->t;
}

/* Returns the bytes of an array as wide as the chip's part of the MLP. */
static double hidden_bytes(const ls_plan_case *c) { return c->elem * c->tokens * c->hidden / c->t; }

/* ---- a layer ----------------------------------------------------------------------------------------------------- */

/* Returns the bytes that a layer saves for backward without recomputation. With 8-bit inputs of matmuls, those of qkv,
 * up and down take half; the input of the output projection is saved in addition to what attention saves. */
static double layer_bytes(const ls_plan_case *c) {
    const ls_stack *stack = &c->task->stack;
    bool small = stack->inputs_8bit && ls_plan_is_8bit(c->layout->type);
    double inputs = (small ? 1 : 2) * (stack->keeps_gathered ? whole_bytes(c) : stream_bytes(c));
    double masks = stack->dropout ? 2 * stream_bytes(c) / c->elem : 0;
    double heads = c->elem * c->tokens * (2 * c->width + 2 * c->keys) / c->t;
    /* Norms of q and k keep what they read. */
    if (c->task->shape.qk_norm) heads += c->elem * c->tokens * (c->width + c->keys) / c->t;
    double scores = stack->flash ? 0 : score_bytes(c, 2.5 * c->elem);
    double copies = small ? .5 * (c->elem * c->tokens * c->width / c->t - hidden_bytes(c)) : 0;
    return 2 * stream_bytes(c) + inputs + masks + heads + scores + hidden_bytes(c) * (c->gated ? 3 : 2) + copies;
}

/* Returns the bytes that a layer saves if every other matmul is recomputed: the other results, and that of
 * attention. */
static double alternate_bytes(const ls_plan_case *c) {
    double heads = c->gated ? 2 * c->width + c->keys : 2 * c->width + 2 * c->keys;
    return (c->gated ? 2 : 1) * stream_bytes(c) + c->elem * c->tokens * heads / c->t + hidden_bytes(c);
}

/* Returns the bytes that a layer saves with the recompute mode of the layout. */
static double kept_bytes(const ls_plan_case *c) {
    double all = layer_bytes(c);
    switch (c->layout->recompute) {
    case LS_RECOMPUTE_FULL: return stream_bytes(c);
    case LS_RECOMPUTE_SELECTIVE:
        if (c->task->stack.selective_alternates) return min(all, alternate_bytes(c));
        if (c->task->stack.selective_share >= 0) return .5 * (all + stream_bytes(c));
        return c->task->stack.flash ? all : all - score_bytes(c, 2.5 * c->elem);
    default: return all;
    }
}

/* Returns the temporary memory of a layer's backward pass: recomputed activations, the gradients of its widest arrays
 * (MLP or scores), of the stream on both sides, and of the largest weight before it is added. */
static double layer_work_bytes(const ls_plan_case *c) {
    double again = layer_bytes(c) - kept_bytes(c);
    double mlp = hidden_bytes(c) * (c->gated ? 3 : 2) + whole_bytes(c);
    double attention = c->task->stack.flash ? c->elem * c->tokens * 2 * (c->width + c->keys) / c->t
                                            : score_bytes(c, 2 * c->elem) + whole_bytes(c);
    double weights = c->elem * c->C * c->hidden / c->t;
    return again + max(mlp, attention) + 2 * stream_bytes(c) + weights;
}

/* ---- the ends ---------------------------------------------------------------------------------------------------- */

/* Returns the bytes of the logits with the copies that the loss makes of them, and of the head's input with its
 * gradient. */
static double loss_bytes(const ls_plan_case *c) {
    const ls_stack *stack = &c->task->stack;
    double each = c->layout->tp > 1 ? stack->logit_bytes_split : stack->logit_bytes;
    return each * c->tokens * c->vocabulary / c->t + 2 * whole_bytes(c);
}

double ls_plan_in_flight(const ls_plan_case *c, int stage) {
    const ls_knobs *l = c->layout;
    double m = c->micros, v = l->virtual_stages, most = m * v, held;
    switch (l->schedule) {
    case LS_SCHEDULE_NAIVE: held = v; break;
    case LS_SCHEDULE_GPIPE: held = most; break;
    case LS_SCHEDULE_INTERLEAVED: held = 2.0 * (l->pp - stage - 1) + (v - 1) * l->pp + 1; break;
    case LS_SCHEDULE_ZERO_BUBBLE: held = l->pp; break;
    default: held = l->pp - stage; break;
    }
    if (v > 1 && l->schedule != LS_SCHEDULE_INTERLEAVED) held *= v;
    return min(held, most);
}

/* Returns the bytes of activations that a stage with `layers` layers keeps for all its micro-batches in flight. */
static double activation_bytes(const ls_plan_case *c, int stage, double layers) {
    const ls_stack *stack = &c->task->stack;
    double v = c->layout->virtual_stages, held = ls_plan_in_flight(c, stage), each = kept_bytes(c) * layers / v;
    bool sends = c->layout->pp > 1 && (stage < c->layout->pp - 1 || v > 1);
    if (sends && stack->keeps_outputs) each += stream_bytes(c);
    double bytes = each * held;
    if (stage == 0 && stack->dropout) bytes += stream_bytes(c) / c->elem * held / v;
    /* The last stage returns the logits of all micro-batches, and puts them together. */
    if (stage == c->layout->pp - 1 && c->layout->pp > 1 && stack->keeps_logits)
        bytes += 2 * c->elem * c->micros * c->tokens * c->vocabulary / c->t;
    return bytes;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Returns the parameters that a chip of the stage computes with: its layers, and the tables of the first and the
 * last stage. */
static double params_of(const ls_plan_case *c, int stage, double layers) {
    int pp = c->layout->pp;
    double count = layers * ls_plan_layer_params(c);
    if (stage == 0) count += c->table;
    if (stage == pp - 1 && (pp > 1 || !c->task->shape.tied)) count += c->table;
    return count;
}

bool ls_plan_stays_whole(const ls_plan_case *c) {
    return c->task->stack.whole_in_pipeline && c->layout->pp > 1 && c->layout->zero >= 2;
}

/* Sets weights, gradients and optimizer state for the `params` parameters that a chip computes with, as ZeRO, offload
 * and the framework keep them. */
static void states(const ls_plan_case *c, double params, stage_memory *out) {
    const ls_knobs *l = c->layout;
    const ls_stack *stack = &c->task->stack;
    double D = ls_plan_shards(c), weight = c->elem, grad = ls_plan_grad_bytes(stack, l->type);
    double moments = 2 * ls_plan_state_bytes(l), state = 4 + moments;
    bool whole = ls_plan_stays_whole(c);
    if (l->type == LS_PLAN_FP32) grad = 4, state = moments;
    /* The program that keeps 16-bit gradients adds them up in fp32 beside them where bf16 asks for it. */
    if (l->type == LS_PLAN_BF16 && grad < 4 && stack->reduce_whole) grad += 4;
    if (l->pure_16bit) grad = 2, state = 4;
    if (l->zero == 3 && !whole && !l->pure_16bit && l->type != LS_PLAN_FP32 && !stack->weights_beside_shards)
        weight = 0; /* the sharded fp32 weights are the only ones */
    if (l->offload) state = 0;
    out->kind[LS_MEMORY_WEIGHTS] = params * weight / (l->zero == 3 && !whole ? D : 1);
    out->kind[LS_MEMORY_GRADIENTS] = params * grad / (l->zero >= 2 && !whole ? D : 1);
    out->kind[LS_MEMORY_OPTIMIZER] = params * state / (l->zero >= 1 ? D : 1);
}

/* Returns the memory of gathered weights with ZeRO 3: two layers (in use and prefetched), the gradients of one layer,
 * the two tables, which stay gathered from the first to the last layer, and the gradient of the head. */
static double gathered_bytes(const ls_plan_case *c, int stage) {
    const ls_knobs *l = c->layout;
    if (l->zero < 3 || ls_plan_stays_whole(c)) return 0;
    double grad = l->pure_16bit ? 2 : ls_plan_reduce_bytes(&c->task->stack, c->layout->type), pp = l->pp;
    double tables = (stage == 0) + (stage == pp - 1 && !(c->task->shape.tied && pp < 2));
    return (2 * c->elem + grad) * ls_plan_layer_params(c) + c->elem * c->table * (tables + (stage == pp - 1));
}

/* Returns the communication buffers of a stage: gathered layers, a gradient bucket, flat copies of shards, sends
 * between stages. */
static double buffer_bytes(const ls_plan_case *c, int stage, double params) {
    const ls_knobs *l = c->layout;
    const ls_stack *stack = &c->task->stack;
    double D = l->dp * l->context, grad = l->type == LS_PLAN_BF16 && stack->reduce_whole
                                              ? 4
                                              : ls_plan_reduce_bytes(&c->task->stack, c->layout->type);
    double bucket = D > 1 ? min(stack->bucket_elems, params) * grad : 0;
    double flat = l->zero >= 1 && !l->offload && l->type != LS_PLAN_BF16 ? stack->shard_copy_bytes * params / D : 0;
    double passing = l->pp > 1 ? 4 * stream_bytes(c) : 0;
    return gathered_bytes(c, stage) + bucket + flat + passing;
}

/* Returns the memory that the framework reserves, which grows with the number of communicators: dp, tp, and two for
 * pp. */
static double reserved_bytes(const ls_plan_case *c, int stage) {
    const ls_knobs *l = c->layout;
    const ls_chip *chip = &ls_plan_site_of_stage(c, stage)->chip;
    int groups = (l->dp * l->context > 1) + (l->tp > 1) + 2 * (l->pp > 1);
    return chip->reserved_bytes + groups * chip->group_bytes;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Returns the memory of a chip of the stage if it had `layers` layers. */
static stage_memory memory_of_layers(const ls_plan_case *c, int stage, int layers) {
    stage_memory out = {0};
    int pp = c->layout->pp;
    double params = params_of(c, stage, layers);
    states(c, params, &out);
    out.kind[LS_MEMORY_ACTIVATIONS] = activation_bytes(c, stage, layers);
    out.kind[LS_MEMORY_WORK] = layer_work_bytes(c);
    if (stage == pp - 1) out.kind[LS_MEMORY_WORK] = max(out.kind[LS_MEMORY_WORK], loss_bytes(c));
    out.kind[LS_MEMORY_BUFFERS] = buffer_bytes(c, stage, params);
    out.kind[LS_MEMORY_WASTE] =
        c->task->stack.fragment_share * (out.kind[LS_MEMORY_ACTIVATIONS] + out.kind[LS_MEMORY_WORK]);
    out.kind[LS_MEMORY_RESERVED] = reserved_bytes(c, stage);
    for (int k = 0; k < LS_MEMORY_KINDS; k++) out.sum += out.kind[k];
    return out;
}

/* Returns the layers of all chunks of a stage. */
static int layers_of(const ls_plan_case *c, int stage, const int *chunk_layers) {
    int pp = c->layout->pp, layers = 0;
    for (int k = 0; k < c->layout->virtual_stages; k++) layers += chunk_layers[k * pp + stage];
    return layers;
}

/* Returns the memory of the chips that run the stage. */
static double capacity_of(const ls_plan_case *c, int stage) {
    return ls_plan_site_of_stage(c, stage)->chip.memory_bytes;
}

/* Sets the memory of the heaviest stage: the one with the least free memory, because chips may differ. */
void ls_plan_memory(const ls_plan_case *c, const int *layers, ls_prediction *out) {
    out->memory_bytes = -1;
    for (int stage = 0; stage < c->layout->pp; stage++) {
        stage_memory memory = memory_of_layers(c, stage, layers_of(c, stage, layers));
        double capacity = capacity_of(c, stage);
        if (stage > 0 && memory.sum - capacity <= out->memory_bytes - out->capacity_bytes) continue;
        out->memory_bytes = memory.sum;
        out->capacity_bytes = capacity;
        out->heaviest_stage = stage;
        for (int k = 0; k < LS_MEMORY_KINDS; k++) out->memory[k] = memory.kind[k];
    }
}

int ls_plan_layers_held(const ls_plan_case *c, int stage, const int *layers) {
    int has = layers_of(c, stage, layers);
    double now = memory_of_layers(c, stage, has).sum, each = now - memory_of_layers(c, stage, has - 1).sum;
    double room = capacity_of(c, stage) - now;
    while (room < 0 && has > 1) room += each, has--;
    return has;
}
