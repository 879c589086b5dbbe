/* cost_case.h: a task and a layout with what follows from them: the parts of the cost model share it. */
#ifndef LS_PLAN_COST_COST_CASE_H
#define LS_PLAN_COST_COST_CASE_H

#include "parallel/schedule/simulate.h"
#include "plan/plan.h"

typedef struct ls_plan_case {
    const ls_plan_task *task;
    const ls_knobs *layout;
    const ls_site *site; /* whose chips are the slowest here */
    const ls_site *far;  /* two unlike sites with divided stages: that of the stages from near_stages on; NULL: none */
    int near_stages;
    bool even_layers;   /* as many layers for unlike stages: what they send takes longer than what they compute */
    double tokens;      /* of a micro-batch on a chip */
    double t;           /* tensor-parallel ways */
    double C, hidden;   /* columns of the residual stream and of the MLP */
    bool gated;         /* the MLP */
    double elem;        /* bytes of weights as they are read, and of activations */
    double width, keys; /* columns of the query heads and of the key heads, with copies where ways share one */
    double vocabulary;  /* as padded for the ways */
    double table;       /* parameters of a table of tokens on a chip */
    int micros;         /* of a replica and step */
    int tp_inner, dp_inner, shard_inner, context_inner;
} ls_plan_case;

/* Seconds of a pass over a layer, by what they are for. */
typedef struct ls_pass_time {
    double matmuls, attention, small, tp;
} ls_pass_time;

typedef struct ls_layer_time {
    ls_pass_time forward, backward;
    double recompute; /* in backward */
} ls_layer_time;

typedef struct ls_ends_time {
    double embed_forward, embed_backward, head_forward, head_backward;
} ls_ends_time;

static inline double ls_pass_sum(const ls_pass_time *p) { return p->matmuls + p->attention + p->small + p->tp; }

/* predict.c: as ls_plan_predict() without the simulation: the step takes no less, and the memory is the same. */
ls_status ls_plan_bound(const ls_plan_task *task, const ls_knobs *layout, ls_prediction *out);

ls_plan_case ls_plan_case_of(const ls_plan_task *task, const ls_knobs *layout);

/* sites.c: two sites whose chips or links differ. */
bool ls_plan_sites_differ(const ls_cluster *cluster);
/* The case as it is at a stage; and at a site, whose replicas have so many micro-batches. */
ls_plan_case ls_plan_case_at_stage(const ls_plan_case *c, int stage);
ls_plan_case ls_plan_case_at_site(const ls_plan_case *c, const ls_site *site, int micros);
static inline const ls_site *ls_plan_site_of_stage(const ls_plan_case *c, int stage) {
    return c->far && stage >= c->near_stages ? c->far : c->site;
}
/* Replicas of a site; and micro-batches for each of them so that both sites end together: `each` seconds of one of them
 * and `once` beside them, by site. */
int ls_plan_site_replicas(const ls_plan_case *c, int site);
void ls_plan_site_micros(const ls_plan_case *c, const double *each, const double *once, int *micros);
/* As LS_DIVIDE_LAYERS, but a layer takes cost[0][1] seconds at the near stages and cost[1][1] at the far ones, and no
 * stage of a site has more than most[] layers while others may have more. */
void ls_plan_divide_unlike(const ls_plan_case *c, double cost[2][3], const int *most, int *first);

/* Of weights as they are read, and of activations. */
static inline double ls_plan_elem_bytes(const ls_knobs *layout) { return layout->type == LS_PLAN_FP32 ? 4 : 2; }

/* Replicas among which the optimizer's states are divided. */
static inline int ls_plan_shards(const ls_plan_case *c) {
    const ls_knobs *l = c->layout;
    return l->zero == 3 && l->shard_group > 0 ? l->shard_group : l->dp * l->context;
}
/* Of a moment of the optimizer. */
static inline double ls_plan_state_bytes(const ls_knobs *l) { return l->state_bits > 0 ? l->state_bits / 8.0 : 4; }

/* matmul.c */
double ls_plan_matmul_seconds(const ls_chip *chip, ls_plan_type type, double m, double n, double k, double batch);
/* Bytes to and from the chip's memory, streamed. */
double ls_plan_pass_seconds(const ls_chip *chip, double bytes);
/* Share of the peak times the peak. */
double ls_plan_rate(const ls_chip *chip, ls_plan_type type);

/* layer.c */
ls_layer_time ls_plan_layer(const ls_plan_case *c);
ls_ends_time ls_plan_ends(const ls_plan_case *c);
double ls_plan_layer_params(const ls_plan_case *c); /* of a chip */

/* collective.c: `size` chips of which `inner` are in a node. */
typedef enum ls_collective { LS_ALL_REDUCE, LS_REDUCE_SCATTER, LS_ALL_GATHER } ls_collective;
double ls_plan_collective_seconds(const ls_plan_case *c, ls_collective kind, int size, int inner, double bytes);
/* In one ring over all chips, through one adapter of each node. */
double ls_plan_ring_seconds(const ls_plan_case *c, ls_collective kind, int size, double bytes);
/* Describes the algorithm whose time ls_plan_collective_seconds() computes for a group of `size` chips, `inner` of them
 * in each node. */
typedef struct ls_algorithm {
    char text[128];
} ls_algorithm;
ls_algorithm ls_plan_collective_algorithm(const ls_plan_case *c, int size, int inner);
ls_algorithm ls_plan_ring_algorithm(const ls_plan_case *c, int size);
/* Sites have one link between them, which all chips share: `bytes` of every one of the chips that send over it. */
double ls_plan_across_seconds(const ls_plan_case *c, double bytes, double chips);
/* From a stage to the next; from the last one, to the first. */
double ls_plan_send_seconds(const ls_plan_case *c, int stage, double bytes);
double ls_plan_link_rate(const ls_link *link);

/* Chips of a group that share a node with each other, the fewest there are: `size` chips, `stride` apart. */
int ls_plan_inner(int node, int stride, int size);
/* How many chips of each group of a case share a node. */
void ls_plan_place(ls_plan_case *c);
/* Whether what a stage sends to the next leaves the node; from the last one, to the first. */
bool ls_plan_border_leaves(const ls_plan_case *c, int stage);

/* predict.c: a collective of sharded weights among the replicas. */
double ls_plan_gather_seconds(const ls_plan_case *c, ls_collective kind, double bytes);

/* memory.c: ZeRO 2 and 3, but gathered weights and unreduced gradients stay from one micro-batch to the next. */
bool ls_plan_stays_whole(const ls_plan_case *c);
/* Micro-batches times chunks that a stage holds at once. */
double ls_plan_in_flight(const ls_plan_case *c, int stage);
/* Fills in memory, memory_bytes, capacity_bytes and heaviest_stage. layers: by chunk, as in pipeline.c. */
void ls_plan_memory(const ls_plan_case *c, const int *layers, ls_prediction *out);
/* Layers that a stage may have so that its chip holds them; the number it has where that is fewer. */
int ls_plan_layers_held(const ls_plan_case *c, int stage, const int *layers);

/* pipeline.c: what a stage waits for while the result of chunk g goes to the next one, or its gradient comes back, in
 * programs that wait for that; it is in the chunks' times. */
double ls_plan_blocked_seconds(const ls_plan_case *c, const double *send, int g);
/* Seconds of the course of all micro-batches, and how long the busiest stage would idle in it if sending took no time;
 * tables are [pp·virtual stages], chunk by chunk, and of sends [pp], from a stage to the next. */
ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   const double *send, double *seconds, double *bubble);
/* The course of so many micro-batches, action by action; `send` NULL: sending takes no time. After a failure there is
 * nothing to free. */
ls_status ls_plan_simulate(const ls_plan_case *c, int micros, const double *forward, const double *backward,
                           const double *send, ls_schedule *schedule, ls_simulation *simulation);

/* predict.c: the inputs of the pipeline simulation, for charts. */
typedef struct ls_plan_chunks {
    double forward[LS_CHUNKS_MAX], backward[LS_CHUNKS_MAX]; /* seconds of a micro-batch, by chunk */
    int first[LS_CHUNKS_MAX + 1];                           /* blocks, as in ls_layout */
    int layers[LS_CHUNKS_MAX];                              /* blocks without embedding and head */
    double send[LS_CHUNKS_MAX]; /* seconds from a stage to the next, by stage; from the last one, to the first */
    int most_layers;            /* of a stage, */
    double params;              /* and parameters of a chip there */
} ls_plan_chunks;
void ls_plan_chunks_of(const ls_plan_case *c, ls_plan_chunks *out);

#endif
