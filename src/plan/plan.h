/* plan.h: what a layout costs: the time of a step by kind and the memory of the heaviest worker by kind, from shapes,
 * the chips and links of a cluster, and the conventions of a training framework. Nothing is run.
 *
 * An operation takes its FLOPs over the rate that its shape reaches, plus its bytes over the reachable memory
 * bandwidth, plus its launch. A collective takes a start-up cost, and latency and bytes for each tier of links. The
 * pipeline is simulated from the action lists that a run executes. docs/explain/planner-model.md has the formulas and
 * their sources. */
#ifndef LS_PLAN_PLAN_H
#define LS_PLAN_PLAN_H

#include "nn/shape.h"
#include "parallel/layout/layout.h"
#include "plan/hardware/machine.h"
#include "plan/cost/stack.h"

typedef struct ls_plan_task {
    ls_shape shape;
    size_t seq, global_batch; /* tokens of a sequence; sequences of a step */
    ls_cluster cluster;       /* the layout must use all of its chips */
    ls_stack stack;           /* the training framework whose conventions are assumed */
} ls_plan_task;

/* Returns true for fp8 and mxfp8. */
static inline bool ls_plan_is_8bit(ls_plan_type type) { return type >= LS_PLAN_FP8; }

/* Returns the bytes of a gradient element as kept, in 16-bit or 8-bit training (fp32 training keeps 4). */
static inline double ls_plan_grad_bytes(const ls_stack *s, ls_plan_type type) {
    return ls_plan_is_8bit(type) && s->grad_bytes_8bit > 0 ? s->grad_bytes_8bit : s->grad_bytes;
}
/* Returns the bytes of a gradient element as sent between replicas, likewise. */
static inline double ls_plan_reduce_bytes(const ls_stack *s, ls_plan_type type) {
    return ls_plan_is_8bit(type) && s->grad_bytes_8bit > 0 ? s->grad_bytes_8bit : s->reduce_bytes;
}

typedef enum ls_time_kind {
    LS_TIME_MATMUL,    /* matmuls of the layers */
    LS_TIME_ATTENTION, /* scores, softmax, values */
    LS_TIME_SMALL,     /* elementwise operations, launch latency, waiting for the host */
    LS_TIME_ENDS,      /* embedding, head and loss */
    LS_TIME_RECOMPUTE,
    LS_TIME_TP,     /* exposed collectives of tensor parallelism */
    LS_TIME_GATHER, /* exposed all-gathers of sharded weights */
    LS_TIME_P2P,    /* waiting for activations in transit between stages */
    LS_TIME_BUBBLE, /* idle time of the busiest stage, excluding P2P */
    LS_TIME_DP,     /* exposed reduction of gradients and gathering of weights between replicas */
    LS_TIME_OPTIMIZER,
    LS_TIME_OTHER,
    LS_TIME_KINDS
} ls_time_kind; /* the times of a prediction add up to its step */

typedef enum ls_memory_kind {
    LS_MEMORY_WEIGHTS,
    LS_MEMORY_GRADIENTS,
    LS_MEMORY_OPTIMIZER,
    LS_MEMORY_ACTIVATIONS,
    LS_MEMORY_WORK,     /* workspace of the layer, or of logits and loss, that runs */
    LS_MEMORY_BUFFERS,  /* communication buffers: gathered layers, buckets */
    LS_MEMORY_WASTE,    /* fragmentation of the allocator */
    LS_MEMORY_RESERVED, /* context of the device and its libraries */
    LS_MEMORY_KINDS
} ls_memory_kind;

typedef struct ls_prediction {
    double seconds;                      /* of a step */
    double time[LS_TIME_KINDS];          /* seconds of a step by kind */
    double memory[LS_MEMORY_KINDS];      /* bytes of the heaviest worker */
    double memory_bytes, capacity_bytes; /* their sum; the memory of that worker's chip */
    int heaviest_stage;                  /* the pipeline stage with the least free memory, not always the most bytes */
    int micros;                /* micro-batches of a replica in a step; replicas of unlike sites: of the slower site */
    double model_flops;        /* of a step: forward and backward without recomputation, attention as if not causal */
    double hidden_dp, link_dp; /* seconds of reducing gradients and sending new weights between replicas: the
                                  overlapped part, and all of it; time[LS_TIME_DP] is the rest */
} ls_prediction;

const char *ls_time_kind_name(ls_time_kind kind);   /* member of a JSON object */
const char *ls_time_kind_label(ls_time_kind kind);  /* in tables and charts */
const char *ls_time_kind_phrase(ls_time_kind kind); /* in a sentence: "tensor-parallel collectives" */
const char *ls_memory_kind_name(ls_memory_kind kind);
const char *ls_memory_kind_label(ls_memory_kind kind);

/* Returns the chips that the layout needs. */
static inline int ls_plan_chips(const ls_knobs *layout) {
    return layout->dp * layout->tp * layout->pp * layout->context;
}

/* Checks that the layout is possible: the degrees multiply to the chips, tp divides the heads, every stage has layers.
 * The message of LS_ERR_INPUT names the knob (a field of ls_knobs) and what is possible. Memory is not checked:
 * ls_prediction_fits(). */
ls_status ls_plan_check(const ls_plan_task *task, const ls_knobs *layout);
/* Predicts a layout that ls_plan_check() has accepted, by simulating its pipeline. Fails with LS_ERR_RESOURCE only; a
 * layout that does not fit in memory is predicted like others. */
ls_status ls_plan_predict(const ls_plan_task *task, const ls_knobs *layout, ls_prediction *out);

/* Writes the predicted division into stages: the first block of each chunk and, behind the last, the number of blocks
 * (embedding and head count as one each), as in ls_layout. chunk_first has room for LS_CHUNKS_MAX + 1. */
void ls_plan_blocks(const ls_plan_task *task, const ls_knobs *layout, int *chunk_first);
/* For replicas on two different sites: writes replicas[site], and micros[site], the micro-batches of one such replica
 * in a step. Returns false and writes nothing if the cluster needs no uneven division: one site, equal sites, or stages
 * divided between them. */
bool ls_plan_shares(const ls_plan_task *task, const ls_knobs *layout, int *replicas, int *micros);
/* Returns the contents of a file for train --layout, with the predicted division into stages, as a new reference; NULL:
 * out of memory. `also` as in ls_knobs_to_json(). */
json_t *ls_plan_to_json(const ls_plan_task *task, const ls_knobs *layout, unsigned also);

/* Returns whether the heaviest worker's memory fits in its chip. */
static inline bool ls_prediction_fits(const ls_prediction *p) { return p->memory_bytes <= p->capacity_bytes; }

/* Returns the FLOPs of a step by the convention of Narayanan et al. (2021): 72·B·s·L·h²(1 + s/6h + V/12Lh) for GPT, and
 * the same count of matmuls for other models. The usual 6·parameters per token leaves out attention. */
double ls_plan_model_flops(const ls_shape *shape, double seq, double batch);

#endif
