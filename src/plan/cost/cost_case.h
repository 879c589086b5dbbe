/* cost_case.h: the parts of the cost model: a task and a layout with what follows from them (ls_plan_case), and the
 * functions that price it. For src/plan, and for reports that explain single parts of a prediction; other modules use
 * plan.h. Times are seconds, sizes bytes, of one chip unless a comment says otherwise; counts are doubles because they
 * only enter formulas. Functions that return no status cannot fail. */
#ifndef LS_PLAN_COST_COST_CASE_H
#define LS_PLAN_COST_COST_CASE_H

#include "parallel/schedule/simulate.h"
#include "plan/plan.h"

typedef struct ls_plan_case {
    const ls_plan_task *task;
    const ls_knobs *layout;
    const ls_site *site; /* the one with the slowest chips; if `far` is set, the site of the first stages */
    const ls_site *far;  /* if stages are divided between two unlike sites: the site of stages from near_stages on;
                            else NULL */
    int near_stages;     /* stages of `site`; 0 without `far` */
    bool even_layers;    /* `far` is set, but equal numbers of layers on all stages are predicted to be faster */
    double tokens;       /* of a micro-batch on a chip */
    double t;            /* tensor-parallel ways */
    double C, hidden;    /* columns of the residual stream and of the MLP */
    bool gated;          /* the MLP */
    double elem;         /* bytes of weights as they are read, and of activations */
    double width, keys;  /* columns of the query heads and of the key heads, with copies where ways share one */
    double vocabulary;   /* as padded for the ways */
    double table;        /* parameters of a table of tokens on a chip */
    int micros;          /* micro-batches of a replica in a step */
    int tp_inner, dp_inner, shard_inner, context_inner; /* chips of such a group that share a node */
} ls_plan_case;

/* Seconds of one pass (forward or backward) over one layer for one micro-batch; tp: exposed collectives. */
typedef struct ls_pass_time {
    double matmuls, attention, small, tp;
} ls_pass_time;

/* A layer with one micro-batch. */
typedef struct ls_layer_time {
    ls_pass_time forward, backward;
    double recompute; /* in backward */
} ls_layer_time;

/* Embedding, and head with the loss, with one micro-batch. */
typedef struct ls_ends_time {
    double embed_forward, embed_backward, head_forward, head_backward;
} ls_ends_time;

/* Returns the seconds of the whole pass. */
static inline double ls_pass_sum(const ls_pass_time *p) { return p->matmuls + p->attention + p->small + p->tp; }

/* predict.c: Like ls_plan_predict() without simulation: a lower bound of the step's time, and the same memory. The
 * search calls it for every layout. */
ls_status ls_plan_bound(const ls_plan_task *task, const ls_knobs *layout, ls_prediction *out);

/* Makes the case, which borrows task and layout and is not to be freed. If two unlike sites share the stages, predicts
 * bounds to decide whether layers are divided evenly. */
ls_plan_case ls_plan_case_of(const ls_plan_task *task, const ls_knobs *layout);

/* sites.c: Returns whether there are two sites whose chips or links differ. */
bool ls_plan_sites_differ(const ls_cluster *cluster);
/* Returns the case with the site of a stage; a copy if all stages are at one site. */
ls_plan_case ls_plan_case_at_stage(const ls_plan_case *c, int stage);
/* Returns the case with another site whose replicas have `micros` micro-batches each, and without `far`. */
ls_plan_case ls_plan_case_at_site(const ls_plan_case *c, const ls_site *site, int micros);
/* Returns the site whose chips run the stage. */
static inline const ls_site *ls_plan_site_of_stage(const ls_plan_case *c, int stage) {
    return c->far && stage >= c->near_stages ? c->far : c->site;
}
/* Returns how many whole replicas a site (0 or 1) holds. */
int ls_plan_site_replicas(const ls_plan_case *c, int site);
/* Divides micro-batches among the replicas of two sites so that both end together: micros[site] for each replica. A
 * micro-batch takes each[site] seconds; once[site] seconds are added per step. */
void ls_plan_site_micros(const ls_plan_case *c, const double *each, const double *once, int *micros);
/* Divides the L layers among the chunks of two unlike sites so that the slowest stage is as fast as possible, and
 * writes the first block of each chunk as ls_layout_divide() does. cost[site] is the seconds of embedding, a layer, and
 * head, site 1 being `far`; a stage of site i gets more than most[i] layers only if all stages are full. */
void ls_plan_divide_unlike(const ls_plan_case *c, double cost[2][3], const int *most, int *first);

/* Returns the bytes of an element of weights, as matmuls read them, and of activations: 2, or 4 in fp32. With 8-bit
 * matmuls arrays stay in 16 bits. */
static inline double ls_plan_elem_bytes(const ls_knobs *layout) { return layout->type == LS_PLAN_FP32 ? 4 : 2; }

/* Returns among how many chips optimizer state is sharded (context ranks included). */
static inline int ls_plan_shards(const ls_plan_case *c) {
    const ls_knobs *l = c->layout;
    return l->zero == 3 && l->shard_group > 0 ? l->shard_group : l->dp * l->context;
}
/* Returns the bytes of an element of one moment of the optimizer. */
static inline double ls_plan_state_bytes(const ls_knobs *l) { return l->state_bits > 0 ? l->state_bits / 8.0 : 4; }

/* matmul.c: Returns the seconds of `batch` matmuls m × n × k in one launch, at the rate that the shape reaches, with
 * the exposed part of their memory traffic and without launch latency. */
double ls_plan_matmul_seconds(const ls_chip *chip, ls_plan_type type, double m, double n, double k, double batch);
/* Returns the seconds of streaming bytes from and to the chip's memory (read and written bytes together), without
 * the launch. */
double ls_plan_pass_seconds(const ls_chip *chip, double bytes);
/* Returns the FLOP/s that large matmuls reach. Of a type that the chip lacks, those of another one that it has: mxfp8
 * as fp8, fp8 as bf16, bf16 as fp16, fp16 as fp32. */
double ls_plan_rate(const ls_chip *chip, ls_plan_type type);

/* layer.c: Returns the times of one transformer layer for one micro-batch, with the waits for tensor-parallel
 * collectives, without those for sharded weights. */
ls_layer_time ls_plan_layer(const ls_plan_case *c);
/* Returns the times of embedding and head (with the loss) for one micro-batch. */
ls_ends_time ls_plan_ends(const ls_plan_case *c);
/* Returns the parameters of a layer that one chip holds with tensor parallelism alone, without ZeRO. */
double ls_plan_layer_params(const ls_plan_case *c);

typedef enum ls_collective { LS_ALL_REDUCE, LS_REDUCE_SCATTER, LS_ALL_GATHER } ls_collective;
/* collective.c: Returns the seconds of a collective among `size` chips, `inner` of them in each node; 0 for one chip.
 * `bytes`: of the whole vector, that is the result of a gather or the input of a reduction. */
double ls_plan_collective_seconds(const ls_plan_case *c, ls_collective kind, int size, int inner, double bytes);
/* The same in one ring over all chips, through one adapter of each node, as stacks with flat_gather have it; a group
 * that fits into a node takes what ls_plan_collective_seconds() says. */
double ls_plan_ring_seconds(const ls_plan_case *c, ls_collective kind, int size, double bytes);
/* An algorithm in words, for the memo. */
typedef struct ls_algorithm {
    char text[128];
} ls_algorithm;
/* Describes the algorithm whose time ls_plan_collective_seconds() computes for a group of `size` chips, `inner` of them
 * in each node. */
ls_algorithm ls_plan_collective_algorithm(const ls_plan_case *c, int size, int inner);
/* Describes that of ls_plan_ring_seconds() likewise. */
ls_algorithm ls_plan_ring_algorithm(const ls_plan_case *c, int size);
/* Returns the seconds in which `chips` chips each send `bytes` to the other site: all share one link. */
double ls_plan_across_seconds(const ls_plan_case *c, double bytes, double chips);
/* Returns the seconds of a send from a stage to the next one, or from the last to the first. Inside a node it takes
 * twice its bytes over the link's rate. */
double ls_plan_send_seconds(const ls_plan_case *c, int stage, double bytes);
/* Returns the bytes per second and chip that large collectives reach on the link. */
double ls_plan_link_rate(const ls_link *link);

/* Returns how many of `size` chips whose ranks are `stride` apart share a node of `node` chips: the fewest of any node
 * that holds some of them, 1 at least. */
int ls_plan_inner(int node, int stride, int size);
/* Sets tp_inner, context_inner, dp_inner and shard_inner. */
void ls_plan_place(ls_plan_case *c);
/* Returns whether a send from a stage to the next one (from the last to the first) leaves the node for some chip. */
bool ls_plan_border_leaves(const ls_plan_case *c, int stage);

/* predict.c: Returns the seconds of one collective of `bytes` of ZeRO-sharded weights (or their gradients) among the
 * chips that share them, as the stack runs it. */
double ls_plan_gather_seconds(const ls_plan_case *c, ls_collective kind, double bytes);

/* memory.c: Returns whether, with ZeRO 2 or 3, gathered weights and unreduced gradients stay between micro-batches. */
bool ls_plan_stays_whole(const ls_plan_case *c);
/* Returns for how many (micro-batch, chunk) pairs a stage keeps activations at once, by the layout's schedule. */
double ls_plan_in_flight(const ls_plan_case *c, int stage);
/* Fills memory, memory_bytes, capacity_bytes and heaviest_stage of *out. layers: layers of each chunk of all
 * stages. */
void ls_plan_memory(const ls_plan_case *c, const int *layers, ls_prediction *out);
/* Returns how many of its layers the stage can hold in its chip's memory; at least 1, even if one does not fit. layers:
 * layers of each chunk, for all stages. */
int ls_plan_layers_held(const ls_plan_case *c, int stage, const int *layers);

/* pipeline.c: Returns how long a stage is blocked by sending the result of chunk g (the caller passes g − 1 for the
 * gradient of chunk g's input), for stacks whose sends block; 0 for others, and beyond the ends. The chunks' times
 * include it. */
double ls_plan_blocked_seconds(const ls_plan_case *c, const double *send, int g);
/* Computes the seconds of all micro-batches through the pipeline, and in *bubble how long the busiest stage would be
 * idle if sends took no time. forward and backward are by chunk, [pp · virtual stages]; send[stage] is to the next
 * stage. Long courses are extrapolated. */
ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   const double *send, double *seconds, double *bubble);
/* Simulates `micros` micro-batches action by action; `send` NULL: sends take no time. Backward of the input and of
 * the weights take half of backward each. The caller frees schedule and simulation; after a failure there is
 * nothing to free. */
ls_status ls_plan_simulate(const ls_plan_case *c, int micros, const double *forward, const double *backward,
                           const double *send, ls_schedule *schedule, ls_simulation *simulation);

/* predict.c: the inputs of the pipeline simulation, which charts of the schedule need too. */
typedef struct ls_plan_chunks {
    double forward[LS_CHUNKS_MAX], backward[LS_CHUNKS_MAX]; /* seconds of a micro-batch, by chunk */
    int first[LS_CHUNKS_MAX + 1];                           /* blocks, as in ls_layout */
    int layers[LS_CHUNKS_MAX];                              /* blocks without embedding and head */
    double send[LS_CHUNKS_MAX]; /* seconds from a stage to the next, by stage; from the last one, to the first */
    int most_layers;            /* of any stage */
    double params;              /* of a chip of that stage */
} ls_plan_chunks;
/* Computes the layers and times of every chunk and the sends between stages. */
void ls_plan_chunks_of(const ls_plan_case *c, ls_plan_chunks *out);

#endif
