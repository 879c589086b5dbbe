/* memory.c: bytes of the heaviest worker by kind, at the moment when it needs most.
 *
 * Activations of a layer and micro-batch, in 16 bits, are s·b·h times (Korthikanti et al. 2022, array by array)
 *     4 norms + 2 input of qkv + 2 input of the MLP + 2 masks           every chip of a tensor-parallel row, or 1/t
 * with sequence parallelism 2(1 + 2k/a) qkv + 2 heads + 4f/h MLP (gated 6f/h)                 1/t 5·a·s/h scores, where
 * attention writes them                       1/t and masks and scores are there only where the stack has them. */
#include "plan/case.h"

typedef struct stage_memory {
    double kind[LS_MEMORY_KINDS];
    double sum;
} stage_memory;

static double elem(const ls_plan_case *c) { return c->layout->type == LS_PLAN_FP32 ? 4 : 2; }

/* Bytes of what a layer keeps for backward without recomputation. */
static double layer_bytes(const ls_plan_case *c) {
    const ls_shape *shape = &c->task->shape;
    const ls_stack *stack = &c->task->stack;
    double n = c->tokens, C = (double)shape->C, f = (double)shape->hidden, half = elem(c) / 2;
    double shared = n * C * (8 * half + (stack->dropout ? 2 : 0));
    double split = n * half * (2 * c->width + 4 * c->keys + 2 * c->width + f * (ls_shape_is_llama(shape) ? 6 : 4));
    if (!stack->flash) split += 5 * half * n * (double)c->task->seq * (double)shape->H;
    return (c->layout->sequence_parallel ? shared / c->t : shared) + split / c->t;
}

static double input_bytes(const ls_plan_case *c) {
    return elem(c) * c->tokens * (double)c->task->shape.C / (c->layout->sequence_parallel ? c->t : 1);
}

/* Of them, what recomputation leaves. */
static double kept_bytes(const ls_plan_case *c) {
    double all = layer_bytes(c), scores = 0;
    switch (c->layout->recompute) {
    case LS_RECOMPUTE_FULL: return input_bytes(c);
    case LS_RECOMPUTE_SELECTIVE:
        if (c->task->stack.selective_share >= 0) return .5 * all + .5 * input_bytes(c);
        if (!c->task->stack.flash)
            scores = 5 * elem(c) / 2 * c->tokens * (double)c->task->seq * (double)c->task->shape.H / c->t;
        return all - scores;
    default: return all;
    }
}

/* Micro-batches times chunks that a stage holds at once. */
static double in_flight(const ls_plan_case *c, int stage) {
    const ls_plan_layout *l = c->layout;
    double m = c->micros, v = l->virtual_stages, most = m * v, held;
    switch (l->schedule) {
    case LS_SCHEDULE_NAIVE: held = v; break;
    case LS_SCHEDULE_GPIPE: held = most; break;
    case LS_SCHEDULE_INTERLEAVED: held = 2.0 * (l->pp - stage - 1) + (v - 1) * l->pp + 1; break;
    case LS_SCHEDULE_ZERO_BUBBLE: held = l->pp; break;
    default: held = l->pp - stage; break;
    }
    if (v > 1 && l->schedule != LS_SCHEDULE_INTERLEAVED) held *= v;
    return held < most ? held : most;
}

static double params_of(const ls_plan_case *c, int stage, const int *layers) {
    int pp = c->layout->pp, v = c->layout->virtual_stages;
    double count = 0, table = c->vocabulary * (double)c->task->shape.C / c->t;
    for (int k = 0; k < v; k++) count += layers[k * pp + stage] * ls_plan_layer_params(c);
    if (stage == 0) count += table;
    if (stage == pp - 1 && (pp > 1 || !c->task->shape.tied)) count += table;
    return count;
}

/* Weights, gradients and optimizer state for each parameter that a chip computes with. */
static void states(const ls_plan_case *c, double params, stage_memory *out) {
    const ls_plan_layout *l = c->layout;
    double D = l->dp * l->context, weight = elem(c), grad = c->task->stack.grad_bytes, state = 12;
    if (l->type == LS_PLAN_FP32) grad = 4, state = 8;
    /* The program that keeps 16-bit gradients adds them up in fp32 beside them where bf16 asks for it. */
    if (l->type == LS_PLAN_BF16 && grad < 4 && c->task->stack.reduce_whole) grad += 4;
    if (l->pure_16bit) grad = 2, state = 4;
    if (l->zero == 3 && !l->pure_16bit && l->type != LS_PLAN_FP32)
        weight = 0; /* the sharded fp32 weights are the only ones */
    out->kind[LS_MEMORY_WEIGHTS] = params * weight / (l->zero == 3 ? D : 1);
    out->kind[LS_MEMORY_GRADIENTS] = params * grad / (l->zero >= 2 ? D : 1);
    out->kind[LS_MEMORY_OPTIMIZER] = params * state / (l->zero >= 1 ? D : 1);
}

/* What lives while one layer, or the head with its loss, is at work. */
static double work_bytes(const ls_plan_case *c, int stage) {
    double layer = layer_bytes(c) * (c->layout->recompute == LS_RECOMPUTE_FULL ? 2 : 1);
    double logits = c->tokens * c->vocabulary / c->t * 8;
    return stage == c->layout->pp - 1 && logits > layer ? logits : layer;
}

static double buffer_bytes(const ls_plan_case *c, double params) {
    const ls_plan_layout *l = c->layout;
    double gathered = l->zero == 3 ? 2 * elem(c) * ls_plan_layer_params(c) : 0;
    double bucket = l->dp > 1 ? .2e9 : 0, passing = l->pp > 1 ? 4 * input_bytes(c) : 0;
    return gathered + (bucket < params * 2 ? bucket : params * 2) + passing;
}

static stage_memory of_stage(const ls_plan_case *c, int stage, const int *layers) {
    stage_memory out = {0};
    double params = params_of(c, stage, layers), pp = c->layout->pp, v = c->layout->virtual_stages, held = 0;
    states(c, params, &out);
    for (int k = 0; k < v; k++) held += layers[k * (int)pp + stage];
    out.kind[LS_MEMORY_ACTIVATIONS] = kept_bytes(c) * held / v * in_flight(c, stage);
    out.kind[LS_MEMORY_WORK] = work_bytes(c, stage);
    out.kind[LS_MEMORY_BUFFERS] = buffer_bytes(c, params);
    out.kind[LS_MEMORY_WASTE] =
        c->task->stack.fragment_share * (out.kind[LS_MEMORY_ACTIVATIONS] + out.kind[LS_MEMORY_WORK]);
    out.kind[LS_MEMORY_RESERVED] = c->site->chip.reserved_bytes;
    for (int k = 0; k < LS_MEMORY_KINDS; k++) out.sum += out.kind[k];
    return out;
}

void ls_plan_memory(const ls_plan_case *c, const int *layers, ls_prediction *out) {
    out->memory_bytes = -1;
    out->capacity_bytes = c->site->chip.memory_bytes;
    for (int stage = 0; stage < c->layout->pp; stage++) {
        stage_memory memory = of_stage(c, stage, layers);
        if (memory.sum <= out->memory_bytes) continue;
        out->memory_bytes = memory.sum;
        out->heaviest_stage = stage;
        for (int k = 0; k < LS_MEMORY_KINDS; k++) out->memory[k] = memory.kind[k];
    }
}
