/* layer.c: how long one micro-batch takes in a layer, and in the two ends of the model.
 *
 * Bytes of passes are counted array by array, two bytes an element: norms, residual additions with their dropout,
 * activations, the copies around attention. Static functions add to the ls_layer_time that ls_plan_layer() makes. */
#include "plan/cost/cost_case.h"

double ls_plan_layer_params(const ls_plan_case *c) {
    return ls_layer_matrix_elems(c->C, c->width, c->keys, c->hidden, c->gated) / c->t + 4 * c->C +
           ls_shape_qk_norm_elems(&c->task->shape);
}

/* Operands of matmuls in 8 bits are made from 16 bits: read and written, after their largest value is known. */
static const double CAST_BYTES = 3;

/* Adds the conversions to 8 bits of a matmul's operands; nothing for other types. */
static void add_casts(const ls_plan_case *c, double n, double k, ls_layer_time *out) {
    const ls_chip *chip = &c->site->chip;
    if (!ls_plan_is_8bit(c->layout->type)) return;
    double in = c->tokens * k, weights = n * k, result = c->tokens * n;
    out->forward.small += ls_plan_pass_seconds(chip, CAST_BYTES * (in + weights));
    out->backward.small += ls_plan_pass_seconds(chip, CAST_BYTES * (in + weights + result));
}

/* Adds the times of the four matmuls with weights. */
static void matmuls(const ls_plan_case *c, ls_layer_time *out) {
    const ls_chip *chip = &c->site->chip;
    double C = c->C, f = c->hidden, slow = c->layout->type_slowdown > 0 ? c->layout->type_slowdown : 1;
    const double shapes[4][2] = {
        {(c->width + 2 * c->keys) / c->t, C}, {C, c->width / c->t}, {f * (c->gated ? 2 : 1) / c->t, C}, {C, f / c->t}};
    ls_plan_type type = c->layout->type;
    for (int i = 0; i < 4; i++) {
        double n = shapes[i][0], k = shapes[i][1];
        out->forward.matmuls += slow * ls_plan_matmul_seconds(chip, type, c->tokens, n, k, 1);
        out->backward.matmuls += slow * (ls_plan_matmul_seconds(chip, type, c->tokens, k, n, 1) +
                                         ls_plan_matmul_seconds(chip, type, k, n, c->tokens, 1));
        add_casts(c, n, k, out);
    }
}

/* Returns the share of all query-key pairs that the chip with most of them computes. Without balancing, the chip with
 * the last part of the sequence sets the pace. */
static double causal_share(const ls_plan_case *c) {
    return c->task->stack.context_balanced ? .5 : 1 - .5 / c->layout->context;
}

/* Adds the exposed part of context parallelism: keys and values of all chips that share a sequence pass through each of
 * them while it computes with those it has; backward they come again, with their gradients. */
static void pass_keys(const ls_plan_case *c, ls_layer_time *out) {
    int ways = c->layout->context;
    if (ways < 2) return;
    double own = 2 * c->elem * c->tokens * c->keys / c->t, seen = c->task->stack.contention;
    double once = ls_plan_collective_seconds(c, LS_ALL_GATHER, ways, c->context_inner, own * ways);
    double more = once - out->forward.attention, back = 2 * once - out->backward.attention;
    out->forward.attention += seen * once + (more > 0 ? more : 0);
    out->backward.attention += seen * 2 * once + (back > 0 ? back : 0);
}

/* Without flash, matmuls over heads whose rows are no whole lines of 128 bytes reach less (NVIDIA's performance guide:
 * multiples of 64 elements of 16 bits; Anthony et al. 2024, figures of attention over the size of a head). */
enum { HEAD_LINE = 64 };
static const double ODD_HEAD_SHARE = .75;

/* Sets the time of attention, forward and backward: by its FLOPs with flash attention, else as two matmuls and the
 * passes over the scores. */
static void add_attention(const ls_plan_case *c, ls_layer_time *out) {
    const ls_chip *chip = &c->site->chip;
    const ls_stack *stack = &c->task->stack;
    double s = (double)c->task->seq, d = (double)c->task->shape.head_size;
    ls_plan_type type = c->layout->type == LS_PLAN_FP32 ? LS_PLAN_FP32 : LS_PLAN_FP16;
    if (stack->flash) {
        double flops = 4 * c->tokens * s * c->width / c->t * causal_share(c);
        double heads = d < 128 ? .55 + .45 * d / 128 : 1; /* short heads fill the units less */
        double peak = chip->peak_flops[type] * heads;
        out->forward.attention = flops / (peak * chip->attention_share);
        out->backward.attention = 2.5 * flops / (peak * chip->attention_back_share);
        return;
    }
    double sequences = c->tokens / s, heads = sequences * (double)c->task->shape.H / c->t;
    double scores = c->tokens * s * (double)c->task->shape.H / c->t;
    double both =
        ls_plan_matmul_seconds(chip, type, s, s, d, heads) + ls_plan_matmul_seconds(chip, type, s, d, s, heads);
    if (c->task->shape.head_size % HEAD_LINE != 0) both /= ODD_HEAD_SHARE;
    out->forward.attention = both + ls_plan_pass_seconds(chip, scores * stack->score_bytes[0]);
    out->backward.attention = 2 * both + ls_plan_pass_seconds(chip, scores * stack->score_bytes[1]);
}

/* Adds the elementwise passes of a layer and the launches of its kernels. */
static void add_passes(const ls_plan_case *c, ls_layer_time *out) {
    const ls_chip *chip = &c->site->chip;
    const ls_stack *stack = &c->task->stack;
    double n = c->tokens, C = c->C, f = c->hidden / c->t, scale = c->elem / 2;
    double stream = n * C / (c->layout->sequence_parallel ? c->t : 1);
    double forward =
        stream * (2 * 4 + 2 * (stack->dropout ? 7 : 6)) + n * f * (c->gated ? 6 : 4) + n * c->width / c->t * 8;
    /* A norm reads its two arrays once more, for the gradients of its weights. */
    double backward = stream * (2 * 10 + 2 * 5) + n * f * (c->gated ? 10 : 6) + n * c->width / c->t * 8;
    if (c->task->shape.qk_norm) {
        /* The norms read and write q and k; backward they read them, with their gradients, and the gradients of the
         * weights read both once more. */
        forward += n * (c->width + c->keys) / c->t * 4;
        backward += n * (c->width + c->keys) / c->t * 10;
    }
    out->forward.small +=
        ls_plan_pass_seconds(chip, forward * scale * stack->pass_factor) + stack->layer_kernels * chip->launch_seconds;
    out->backward.small += ls_plan_pass_seconds(chip, backward * scale * stack->pass_factor) +
                           2 * stack->layer_kernels * chip->launch_seconds;
}

/* Returns the share of tensor-parallel collectives that overlaps with matmuls. */
static double hidden_tp_share(const ls_plan_case *c) {
    double hidden_share = c->task->stack.tp_hidden;
    if (c->layout->tp_overlap && hidden_share < .56)
        hidden_share = .56; /* pieces hide that much (torchtitan's asynchronous TP) */
    return hidden_share;
}

/* Adds the collectives of tensor parallelism: two all-reduces in each direction; with sequence parallelism, gathers and
 * scatters of the same bytes, and one more gather of the input of the weight gradients. */
static void exchanges(const ls_plan_case *c, ls_layer_time *out) {
    if (c->layout->tp < 2) return;
    int tp = c->layout->tp;
    double bytes = c->elem * c->tokens * c->C, seen = 1 - hidden_tp_share(c);
    if (c->layout->sequence_parallel) {
        /* Inputs of matmuls in 8 bits are gathered as such. */
        double gathered = ls_plan_is_8bit(c->layout->type) ? bytes / 2 : bytes;
        double pair = ls_plan_collective_seconds(c, LS_ALL_GATHER, tp, c->tp_inner, gathered) +
                      ls_plan_collective_seconds(c, LS_REDUCE_SCATTER, tp, c->tp_inner, bytes);
        out->forward.tp = 2 * pair * seen;
        out->backward.tp = 3 * pair * seen;
    } else {
        out->forward.tp = 2 * ls_plan_collective_seconds(c, LS_ALL_REDUCE, tp, c->tp_inner, bytes) * seen;
        out->backward.tp = out->forward.tp;
    }
}

/* A layer takes no less than the host needs to start its kernels, and longer than either where the chip needs about as
 * long: short kernels wait for the host, and behind long ones the host waits for the chip. */
static const double HOST_SEEN = .15;

/* Raises the pass to at least the host's launch time, smoothly where both are similar. */
static void wait_for_host(ls_pass_time *pass, double host) {
    double sum = ls_pass_sum(pass), more = sum > host ? sum : host, less = sum > host ? host : sum;
    if (more > 0) pass->small += more + HOST_SEEN * less * (less / more) * (less / more) - sum;
}

/* Returns the time of adding weight gradients to those of earlier micro-batches: the sums are read and written in the
 * precision in which they are kept, instead of 16 bits written. 0 if no chip keeps whole gradients. */
static double sum_gradients(const ls_plan_case *c, double params) {
    const ls_knobs *l = c->layout;
    if (l->zero >= 2 && !ls_plan_stays_whole(c)) return 0;
    double kept = l->type == LS_PLAN_FP32 ? 4 : ls_plan_grad_bytes(&c->task->stack, c->layout->type), written = c->elem;
    return ls_plan_pass_seconds(&c->site->chip, (2 * kept - written) * params);
}

/* Returns the recompute time if every other matmul is repeated (in the order q, k, v, heads, gate, up, down, or qkv,
 * heads, up, down), with all passes and half of the tensor-parallel time. */
static double alternate(const ls_plan_case *c, const ls_layer_time *layer) {
    double C = c->C, f = c->hidden, q = C * c->width, k = C * c->keys;
    double all = ls_layer_matrix_elems(C, c->width, c->keys, f, c->gated), repeated = q + C * f + (c->gated ? k : 0);
    return layer->forward.matmuls * repeated / all + layer->forward.small + .5 * layer->forward.tp;
}

/* Returns the recompute time of a layer by the layout's mode. `alternated` is that of repeating every other matmul
 * without waits for the host, so that less recomputation never costs more. */
static double again(const ls_plan_case *c, const ls_layer_time *layer, double alternated) {
    double whole = ls_pass_sum(&layer->forward), share = c->task->stack.selective_share;
    switch (c->layout->recompute) {
    case LS_RECOMPUTE_FULL: return whole;
    case LS_RECOMPUTE_SELECTIVE:
        if (c->task->stack.selective_alternates) return alternated;
        if (share < 0) return c->task->stack.flash ? 0 : layer->forward.attention;
        return share * whole;
    default: return 0;
    }
}

ls_layer_time ls_plan_layer(const ls_plan_case *c) {
    ls_layer_time out = {0};
    matmuls(c, &out);
    add_attention(c, &out);
    add_passes(c, &out);
    exchanges(c, &out);
    pass_keys(c, &out);
    out.backward.small += sum_gradients(c, ls_plan_layer_params(c));
    double alternated = alternate(c, &out);
    wait_for_host(&out.forward, c->task->stack.layer_host_seconds);
    wait_for_host(&out.backward, 2 * c->task->stack.layer_host_seconds);
    out.recompute = again(c, &out, alternated);
    return out;
}

ls_ends_time ls_plan_ends(const ls_plan_case *c) {
    const ls_chip *chip = &c->site->chip;
    double C = c->C, n = c->tokens, V = c->vocabulary / c->t, scale = c->elem / 2;
    ls_plan_type type = ls_plan_is_8bit(c->layout->type) ? LS_PLAN_BF16 : c->layout->type;
    ls_ends_time out;
    out.embed_forward = ls_plan_pass_seconds(chip, n * C * 8 * scale);
    out.embed_backward = ls_plan_pass_seconds(chip, n * C * 10 * scale);
    out.head_forward = ls_plan_matmul_seconds(chip, type, n, V, C, 1) +
                       ls_plan_pass_seconds(chip, n * V * .6 * c->task->stack.loss_bytes + 4 * n * C);
    out.head_backward = ls_plan_matmul_seconds(chip, type, n, C, V, 1) +
                        ls_plan_matmul_seconds(chip, type, C, V, n, 1) +
                        ls_plan_pass_seconds(chip, n * V * .4 * c->task->stack.loss_bytes);
    out.head_backward += sum_gradients(c, c->table);
    if (c->layout->tp > 1) {
        double stream = ls_plan_collective_seconds(c, LS_ALL_REDUCE, c->layout->tp, c->tp_inner, 2 * scale * n * C);
        out.embed_forward += stream;
        out.head_forward += 2 * ls_plan_collective_seconds(c, LS_ALL_REDUCE, c->layout->tp, c->tp_inner, 8 * n);
        out.head_backward += stream * (1 - hidden_tp_share(c));
    }
    return out;
}
