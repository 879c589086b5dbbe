/* cost_case.h: the parts of the cost model, private to it: a task and a layout with what follows from them
 * (ls_plan_case), and the functions that price it. Times are seconds, sizes bytes, of one chip unless a comment says
 * otherwise. Other modules use plan.h. */
#ifndef LS_PLAN_COST_COST_CASE_H
#define LS_PLAN_COST_COST_CASE_H

#include "parallel/schedule/simulate.h"
#include "plan/plan.h"

typedef struct ls_plan_case {
    const ls_plan_task *task;
    const ls_knobs *layout;
    const ls_site *site; /* the one with the slowest chips */
    const ls_site *far;  /* if stages are divided between two unlike sites: the site of stages from near_stages on */
    int near_stages;
    bool even_layers;   /* equal numbers of layers on unlike stages, because sends dominate */
    double tokens;      /* of a micro-batch on a chip */
    double t;           /* tensor-parallel ways */
    double C, hidden;   /* columns of the residual stream and of the MLP */
    bool gated;         /* the MLP */
    double elem;        /* bytes of weights as they are read, and of activations */
    double width, keys; /* columns of the query heads and of the key heads, with copies where ways share one */
    double vocabulary;  /* as padded for the ways */
    double table;       /* parameters of a table of tokens on a chip */
    int micros;         /* of a replica and step */
    int tp_inner, dp_inner, shard_inner, context_inner; /* chips of such a group that share a node */
} ls_plan_case;

/* Seconds of one pass (forward or backward) over one layer for one micro-batch; tp: exposed collectives. */
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

/* predict.c: like ls_plan_predict() without simulation: a lower bound of the step's time, and the same memory. */
ls_status ls_plan_bound(const ls_plan_task *task, const ls_knobs *layout, ls_prediction *out);

/* Makes the case, which borrows task and layout. */
ls_plan_case ls_plan_case_of(const ls_plan_task *task, const ls_knobs *layout);

/* sites.c: Returns whether there are two sites whose chips or links differ. */
bool ls_plan_sites_differ(const ls_cluster *cluster);
/* Return the case with the site of a stage, and with a site whose replicas have `micros` micro-batches each. */
ls_plan_case ls_plan_case_at_stage(const ls_plan_case *c, int stage);
ls_plan_case ls_plan_case_at_site(const ls_plan_case *c, const ls_site *site, int micros);
static inline const ls_site *ls_plan_site_of_stage(const ls_plan_case *c, int stage) {
    return c->far && stage >= c->near_stages ? c->far : c->site;
}
/* Returns the replicas of a site. */
int ls_plan_site_replicas(const ls_plan_case *c, int site);
/* Divides micro-batches among the replicas of two sites so that both end together: micros[site] for each replica. A
 * micro-batch takes each[site] seconds; once[site] seconds are added per step. */
void ls_plan_site_micros(const ls_plan_case *c, const double *each, const double *once, int *micros);
/* Divides layers like LS_DIVIDE_LAYERS, writing the first block of each chunk, but a layer takes cost[0][1] seconds at
 * the near stages and cost[1][1] at the far ones, and a stage of site i has at most most[i] layers if others can take
 * more. */
void ls_plan_divide_unlike(const ls_plan_case *c, double cost[2][3], const int *most, int *first);

/* Returns the bytes of an element of weights, as matmuls read them, and of activations. */
static inline double ls_plan_elem_bytes(const ls_knobs *layout) { return layout->type == LS_PLAN_FP32 ? 4 : 2; }

/* Returns among how many chips optimizer state is sharded (context ranks included). */
static inline int ls_plan_shards(const ls_plan_case *c) {
    const ls_knobs *l = c->layout;
    return l->zero == 3 && l->shard_group > 0 ? l->shard_group : l->dp * l->context;
}
/* Returns the bytes of an element of one moment of the optimizer. */
static inline double ls_plan_state_bytes(const ls_knobs *l) { return l->state_bits > 0 ? l->state_bits / 8.0 : 4; }

/* matmul.c: Returns the seconds of `batch` matmuls m × n × k in one launch, at the rate that the shape reaches. */
double ls_plan_matmul_seconds(const ls_chip *chip, ls_plan_type type, double m, double n, double k, double batch);
/* Returns the seconds of streaming bytes from and to the chip's memory, without the launch. */
double ls_plan_pass_seconds(const ls_chip *chip, double bytes);
/* Returns the FLOP/s that large matmuls reach; of a type that the chip lacks, those of the next wider one. */
double ls_plan_rate(const ls_chip *chip, ls_plan_type type);

/* layer.c: Return the times of one transformer layer, and of embedding and head, for one micro-batch. */
ls_layer_time ls_plan_layer(const ls_plan_case *c);
ls_ends_time ls_plan_ends(const ls_plan_case *c);
/* Returns the parameters of a layer that one chip holds with tensor parallelism alone, without ZeRO. */
double ls_plan_layer_params(const ls_plan_case *c);

/* collective.c: Returns the seconds of a collective of `bytes` among `size` chips, `inner` of them in each node. */
typedef enum ls_collective { LS_ALL_REDUCE, LS_REDUCE_SCATTER, LS_ALL_GATHER } ls_collective;
double ls_plan_collective_seconds(const ls_plan_case *c, ls_collective kind, int size, int inner, double bytes);
/* The same in one ring over all chips, through one adapter of each node. */
double ls_plan_ring_seconds(const ls_plan_case *c, ls_collective kind, int size, double bytes);
/* Describes the algorithm whose time ls_plan_collective_seconds() computes for a group of `size` chips, `inner` of them
 * in each node. */
typedef struct ls_algorithm {
    char text[128];
} ls_algorithm;
ls_algorithm ls_plan_collective_algorithm(const ls_plan_case *c, int size, int inner);
ls_algorithm ls_plan_ring_algorithm(const ls_plan_case *c, int size);
/* Returns the seconds in which `chips` chips each send `bytes` to the other site: all share one link. */
double ls_plan_across_seconds(const ls_plan_case *c, double bytes, double chips);
/* Returns the seconds of a send from a stage to the next one, or from the last to the first. */
double ls_plan_send_seconds(const ls_plan_case *c, int stage, double bytes);
/* Returns the bytes per second that large transfers reach. */
double ls_plan_link_rate(const ls_link *link);

/* Returns how many of `size` chips, `stride` apart, at least share a node of `node` chips with each other. */
int ls_plan_inner(int node, int stride, int size);
/* Sets tp_inner, context_inner, dp_inner and shard_inner. */
void ls_plan_place(ls_plan_case *c);
/* Returns whether a send from a stage to the next one (from the last to the first) leaves the node for some chip. */
bool ls_plan_border_leaves(const ls_plan_case *c, int stage);

/* predict.c: Returns the seconds of a collective of `bytes` of ZeRO-sharded weights among the replicas. */
double ls_plan_gather_seconds(const ls_plan_case *c, ls_collective kind, double bytes);

/* memory.c: Returns whether, with ZeRO 2 or 3, gathered weights and unreduced gradients stay between micro-batches. */
bool ls_plan_stays_whole(const ls_plan_case *c);
/* Returns for how many (micro-batch, chunk) pairs a stage keeps activations at once. */
double ls_plan_in_flight(const ls_plan_case *c, int stage);
/* Fills memory, memory_bytes, capacity_bytes and heaviest_stage of *out. layers: layers of each chunk. */
void ls_plan_memory(const ls_plan_case *c, const int *layers, ls_prediction *out);
/* Returns how many layers the stage can hold in its chip's memory, at most the number that it has. */
int ls_plan_layers_held(const ls_plan_case *c, int stage, const int *layers);

/* pipeline.c: Returns how long a stage is blocked by sending the result of chunk g and receiving its gradient, in
 * programs that wait for sends; 0 in others. The chunks' times include it. */
double ls_plan_blocked_seconds(const ls_plan_case *c, const double *send, int g);
/* Computes the seconds of all micro-batches through the pipeline, and how long the busiest stage would be idle if sends
 * took no time. forward and backward are by chunk, [pp · virtual stages]; send[stage] is to the next stage. */
ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   const double *send, double *seconds, double *bubble);
/* Simulates `micros` micro-batches action by action; `send` NULL: sends take no time. The caller frees schedule and
 * simulation; after a failure there is nothing to free. */
ls_status ls_plan_simulate(const ls_plan_case *c, int micros, const double *forward, const double *backward,
                           const double *send, ls_schedule *schedule, ls_simulation *simulation);

/* predict.c: the inputs of the pipeline simulation, for charts. */
typedef struct ls_plan_chunks {
    double forward[LS_CHUNKS_MAX], backward[LS_CHUNKS_MAX]; /* seconds of a micro-batch, by chunk */
    int first[LS_CHUNKS_MAX + 1];                           /* blocks, as in ls_layout */
    int layers[LS_CHUNKS_MAX];                              /* blocks without embedding and head */
    double send[LS_CHUNKS_MAX]; /* seconds from a stage to the next, by stage; from the last one, to the first */
    int most_layers;            /* of any stage */
    double params;              /* of a chip of that stage */
} ls_plan_chunks;
void ls_plan_chunks_of(const ls_plan_case *c, ls_plan_chunks *out);

#endif
