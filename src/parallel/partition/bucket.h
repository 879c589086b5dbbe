/* bucket.h: buckets, parameters whose gradients are reduced together over the replicas, and the worker that owns each
 * part of them; for this folder and the traffic formulas. The partition owns its buckets.
 *
 * A bucket has parameters of one block, contiguous in memory, as far as they are in this worker's slices. Among the
 * workers of a DP group, which all have the same rows, it is either
 *
 *   whole     every member gets the whole sum and makes the same update (zero 0, and vectors, which are small)
 *   sharded   member r gets elements shard[r] … shard[r+1]−1, and updates those
 *
 * Shards end where a block of 1024 elements of a slice of a parameter ends (rule 8). The gradient of a vector has a row
 * for each token slice; the rows are joined after the sum over groups.
 *
 * Gradients of groups (fixed parts of the batch) are added up in the order of one binary tree; the sum of one group is
 * a leaf. With zero < 2 the slots are the stack of the gradient plan (nn/grad_plan.h): after the last micro-batch they
 * hold this replica's subtrees, which are reduced once. With zero ≥ 2 the replicas take groups in turn: slot 0 is the
 * leaf of one group; after each round, in which each replica computes at most one group, the leaves of all of them are
 * reduced to `own_slot`, a stack of own elements only. */
#ifndef LS_PARALLEL_PARTITION_BUCKET_H
#define LS_PARALLEL_PARTITION_BUCKET_H

#include "parallel/layout/micro_batches.h"

enum { LS_BUCKET_PARAMS_MAX = LS_BLOCK_PARAMS_MAX, LS_NATIVE_SLOTS_MAX = LS_TREE_COVER_MAX };

typedef enum ls_bucket_kind {
    LS_BUCKET_MATRICES, /* matmuls compute their gradients */
    LS_BUCKET_TABLE,    /* the table of the vocabulary: likewise, in a bucket of its own */
    LS_BUCKET_LOOKUP,   /* a tied table's use as embedding: has gradients, but no weights */
    LS_BUCKET_POSITIONS,
    LS_BUCKET_VECTORS
} ls_bucket_kind;

typedef struct ls_bucket {
    ls_bucket_kind kind;
    int block; /* number in the model */
    int nparams;
    ls_param *param[LS_BUCKET_PARAMS_MAX];
    size_t offset[LS_BUCKET_PARAMS_MAX]; /* in elements; of a vector, counted in weights */
    size_t elems;                        /* of the weights */
    size_t grad_elems;                   /* of a slot: S times as many for vectors */
    bool sharded;                        /* see above: otherwise whole */
    size_t *shard; /* dp + 1: member r owns elements shard[r] … shard[r+1] − 1, or if whole reports them; freed with the
                    * bucket */
    size_t own_begin, own_end; /* elements of the gradient whose sum this worker gets */

    /* memory of the device */
    float *w;                             /* all elements; with zero 3 while they are gathered */
    float *shard_w;                       /* own elements, where w has not all of them */
    uint16_t *w16;                        /* the weights as matmuls read them, where these are 16-bit: as w */
    uint16_t *shard_w16;                  /* zero 3: own elements of them */
    int slots, own_slots;                 /* number of `slot`, and of `own_slot` */
    uint16_t *wire[LS_GRAD_SLOTS_MAX];    /* by slot: what travels of a leaf, where that is 16-bit */
    float *slot[LS_GRAD_SLOTS_MAX];       /* gradients of all elements, by slot */
    float *own_slot[LS_NATIVE_SLOTS_MAX]; /* zero ≥ 2: sums of own elements, by slot of the stack */

    /* running */
    bool ready;            /* all of this worker's gradients of the step are complete */
    bool started;          /* and their reduction is started */
    ls_request *request;   /* the reduction in progress; NULL: none */
    int own_at, own_joins; /* its slot in the stack, and how many joins follow it */
    int contribution;      /* the run of blocks to whose squares it adds; −1: none */
    int w_buffer;          /* its buffer in the pool of gathered weights; −1: none */
    ls_request *gathering; /* the gather of its weights in progress; NULL: none */
} ls_bucket;

/* Returns the elements whose sum this worker gets. */
static inline size_t ls_bucket_own_elems(const ls_bucket *bucket) { return bucket->own_end - bucket->own_begin; }

/* One reduction of a round: the subtree `node` of the groups, member r having the leaves bounds[r] … bounds[r+1]−1 of
 * it, and what its sum does to the stack. */
typedef struct ls_round_node {
    ls_tree_node node;
    int *bounds;   /* dp + 1, counted from node.first */
    int at, joins; /* slot of the stack that gets the sum, and how many sums below it are then added to it */
} ls_round_node;

/* The reductions after each round; the same on all workers. */
typedef struct ls_rounds {
    int rounds, own_slots; /* number of rounds, and of slots that the stack needs */
    int *first;            /* rounds + 1: those of round r are nodes[first[r]] … */
    ls_round_node *nodes;
    int *bounds; /* memory of the nodes' bounds */
} ls_rounds;

/* Plans the reductions of all rounds, for G groups; ls_rounds_free() releases the plan. Only LS_ERR_RESOURCE. */
ls_status ls_rounds_make(const ls_layout *layout, int G, ls_rounds *out);
void ls_rounds_free(ls_rounds *rounds);

/* Fills offsets, elements and shards from kind and list of parameters, and sets which elements of each parameter this
 * worker updates (param->own) and, among its DP group, reports (param->once); not for LS_BUCKET_LOOKUP, whose parameter
 * has another bucket too. `slices`: those of a layer. The caller frees bucket->shard. LS_ERR_RESOURCE: out of memory.
 */
ls_status ls_bucket_divide(ls_bucket *bucket, int slices, int dp, int dp_index, bool sharded);
/* Points the parameters' weights at the bucket's memory. */
void ls_bucket_point_weights(ls_bucket *bucket);
/* Points the parameters' gradient slots at the bucket's slots; NULL for slots that it does not have. */
void ls_bucket_point_grads(ls_bucket *bucket, int slices);
/* Points own weights and own gradients, which the optimizer reads, at the bucket's memory; does nothing for
 * LS_BUCKET_LOOKUP. `rounds`: zero ≥ 2. */
void ls_bucket_point_own(ls_bucket *bucket, int slices, bool rounds);

#endif
