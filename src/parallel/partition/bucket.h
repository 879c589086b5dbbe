/* bucket.h: parameters whose gradients are reduced together, and the worker that owns each part of them.
 *
 * A bucket is parameters of one block that lie behind each other in memory, in this worker's slices. Among the workers
 * of a DP group, which all have the same rows, it is either
 *
 *   whole     every member gets the whole sum and makes the same update (zero 0, and vectors, which are small)
 *   sharded   member r gets elements shard[r] … shard[r+1]−1, and updates those
 *
 * Shards end at the ends of blocks of 1024 elements of a slice of a parameter (rule 8). Vectors have a row for each
 * token slice, which are joined once the sum over groups is there.
 *
 * Gradients. With zero < 2 the slots are the stack of the gradient plan (nn/grad_plan.h): after the last micro-batch
 * they hold this row's subtrees, which are reduced once. With zero ≥ 2 groups go round: slot 0 is the leaf of one
 * group; after each round the leaves of all rows are reduced to `own_slot`, a stack that holds own elements alone. */
#ifndef LS_PARALLEL_PARTITION_BUCKET_H
#define LS_PARALLEL_PARTITION_BUCKET_H

#include "parallel/layout/micro_batches.h"

enum { LS_BUCKET_PARAMS_MAX = LS_BLOCK_PARAMS_MAX, LS_NATIVE_SLOTS_MAX = LS_TREE_COVER_MAX };

typedef enum ls_bucket_kind {
    LS_BUCKET_MATRICES, /* gradients made by matmuls */
    LS_BUCKET_TABLE,    /* of the vocabulary: the same, alone */
    LS_BUCKET_LOOKUP,   /* a tied table's use as embedding: gradients alone */
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
    bool sharded;
    size_t *shard; /* dp + 1 */
    size_t own_begin, own_end;

    /* memory of the device */
    float *w;            /* all elements; with zero 3 while they are gathered */
    float *shard_w;      /* own elements, where w has not all of them */
    uint16_t *w16;       /* the weights as matmuls read them, where these are 16-bit: as w */
    uint16_t *shard_w16; /* zero 3: own elements of them */
    int slots, own_slots;
    uint16_t *wire[LS_GRAD_SLOTS_MAX]; /* by slot: what travels of a leaf, where that is 16-bit */
    float *slot[LS_GRAD_SLOTS_MAX];
    float *own_slot[LS_NATIVE_SLOTS_MAX];

    /* running */
    bool ready;            /* all of this worker's gradients of the step are in */
    bool started;          /* and so is their reduction */
    ls_request *request;   /* the reduction under way */
    int own_at, own_joins; /* of it: what to do at its end */
    int contribution;      /* run of blocks whose squares it adds to; −1: none */
    int w_buffer;          /* which buffer of the pool for gathered weights it uses; −1: none */
    ls_request *gathering; /* of the weights */
} ls_bucket;

static inline size_t ls_bucket_own_elems(const ls_bucket *bucket) { return bucket->own_end - bucket->own_begin; }

/* One reduction of a round: the subtree `node` of the groups, member r having the leaves bounds[r] … bounds[r+1]−1 of
 * it, and what its sum does to the stack. */
typedef struct ls_round_node {
    ls_tree_node node;
    int *bounds; /* dp + 1, counted from node.first */
    int at, joins;
} ls_round_node;

/* What happens after each round, the same on all workers. */
typedef struct ls_rounds {
    int rounds, own_slots;
    int *first; /* rounds + 1: those of round r are nodes[first[r]] … */
    ls_round_node *nodes;
    int *bounds;
} ls_rounds;

ls_status ls_rounds_make(const ls_layout *layout, int G, ls_rounds *out);
void ls_rounds_free(ls_rounds *rounds);

/* Fills offsets, elements and shards from the list of parameters. */
ls_status ls_bucket_divide(ls_bucket *bucket, int slices, int dp, int dp_index, bool sharded);
/* Points the parameters at the bucket's memory. */
void ls_bucket_point_weights(ls_bucket *bucket);
void ls_bucket_point_grads(ls_bucket *bucket, int slices);
void ls_bucket_point_own(ls_bucket *bucket, int slices, bool rounds);

#endif
