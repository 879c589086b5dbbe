/* state.h: what a partition is made of; for this folder only. */
#ifndef LS_PARALLEL_PARTITION_STATE_H
#define LS_PARALLEL_PARTITION_STATE_H

#include "parallel/partition/bucket.h"
#include "parallel/layout/micro_batches.h"
#include "base/hash.h"
#include "comm/tensors.h"
#include "base/memory.h"
#include "parallel/partition/partition.h"
#include "parallel/partition/numerics.h"
#include "parallel/partition/audit.h"

enum { LS_PARTITION_BUFFERS = 2 };
/* Elements that are rounded at a time on their way from and to the host. */
enum { LS_PARTITION_HOST16 = 1 << 20 };
/* Messages between stages: micro-batches by chunk, then a tied table. */
enum { LS_TAG_FORWARD = 0, LS_TAG_BACKWARD = LS_CHUNKS_MAX, LS_TAG_TIED_GRAD = 32000, LS_TAG_TIED_WEIGHT = 32001 };

/* Activations of one chunk for one micro-batch, by block of the chunk. */
typedef struct ls_chunk_slot {
    float **x;            /* the input of each block; NULL for the embedding */
    void **saved, **kept; /* structs of each block's kind */
} ls_chunk_slot;

typedef struct ls_chunk {
    int number;     /* among all chunks */
    int first, end; /* blocks of the model */
    bool has_embedding, has_head;
    int slots, kept_slots;
    ls_chunk_slot *slot;
    ls_chunk_slot *kept; /* only `kept` of these is used */
} ls_chunk;

/* Which images were read last. */
typedef struct ls_fed_images {
    uint64_t batch; /* 0: one without number, or none */
    size_t begin, end;
    bool with_pixels, on_device;
    bool is_ahead; /* of its step */
} ls_fed_images;

/* Buffers on their way to another stage, used in turn. */
typedef struct ls_send_ring {
    int count, next;
    float **buffer;
    ls_request **request;
} ls_send_ring;

/* Places that buckets share in turn: of gathered weights, or of leaves of gradients. */
typedef struct ls_buffer_pool {
    int count, next;
    size_t elems;
    void *memory[LS_PARTITION_BUFFERS];
    uint16_t *wire[LS_PARTITION_BUFFERS]; /* of leaves that travel as 16 bits */
    ls_bucket *user[LS_PARTITION_BUFFERS];
} ls_buffer_pool;

/* Weight gradients of one micro-batch: steps first … first + count − 1 of the stage's list. */
typedef struct ls_micro_steps {
    int first, count;
} ls_micro_steps;

/* What the executor is at. */
typedef struct ls_partition_at {
    const ls_micro *micro; /* NULL: results are not watched */
    int number;            /* of the micro-batch */
    int block;
    bool is_back;
    int made; /* results of the block so far */
} ls_partition_at;

struct ls_partition {
    ls_model *model;
    ls_device *device;
    ls_partition_setup setup;
    void *lent;      /* piece of the arena that the device uses, or NULL */
    void *lent_sums; /* that sums of gradients over workers use, or NULL */
    size_t lent_sums_bytes;
    ls_arena arena;
    ls_nn nn;
    ls_comm *dp, *tp, *pp, *all; /* NULL where there is one member */

    size_t micro; /* sequences of a micro-batch at most */
    ls_micro_list micros;
    ls_schedule schedule;
    ls_rounds rounds;  /* with zero ≥ 2 */
    int *group_bounds; /* by DP rank, with zero < 2: its first group */
    ls_grad_slots slots;
    int table_slots;                      /* of the head's table, whose gradient may be made in more parts */
    bool part_is_leaf[LS_GRAD_SLOTS_MAX]; /* by slot, with zero < 2: what is left of this row's groups is one group */
    int nchunks;
    ls_chunk *chunks;
    int nbuckets;
    ls_bucket *buckets;  /* in the order in which backward finishes them */
    bool leaves_pass;    /* leaves of gradients may share buffers: a group is one micro-batch */
    unsigned kept_parts; /* of saved activations, LS_SAVE_*; the others are shared */
    ls_param *copy;      /* of a tied table on the last stage; NULL: none */
    void **shared;       /* by block of the model: what is not kept, of all blocks in one place */

    ls_partition_at at;
    const ls_result_sums *results; /* whose results are summed; NULL: none */
    ls_bad_place *hunt;            /* where what is found goes; NULL: not looked for */
    ls_block_numerics *numerics;   /* where backward counts; NULL: it does not */
    ls_loss_sum *group_losses;     /* where losses of a step go by group as well; NULL: not asked for */
    ls_exact_sum *group_squares;   /* and squares of leaves; NULL: not asked for */
    double contribution_share;     /* of the elements that go to a reduction: their squares are summed */
    double contribution_scale[LS_CONTRIBUTION_RUNS]; /* all elements by those that are summed */

    /* memory of the device */
    ls_scratch *scratch; /* by block of the model: of different blocks in one place, … */
    void **own_scratch;  /* … and the structs of its kind that point there */
    ls_send_ring forward, backward;
    ls_buffer_pool block_weights, table_weights, block_leaves, table_leaves;
    bool has_tied; /* the head's table is a copy on the last stage, */
    float *tied;   /* and the gradient of that use comes here */
    int32_t *ids, *targets;
    float *pixels;                       /* of image models, of a micro-batch */
    int64_t *sums;                       /* of a step: sums.c */
    ls_hash128 *hashes;                  /* hash_room of them */
    ls_hash128 *state_sums, *found_sums; /* LS_PARAM_SUMS for each parameter: state_sum.c; NULL: none */
    ls_hash128 *copy_sums;               /* of what matmuls read as it was written last: check.c; NULL: not checked */
    int64_t *counts;                     /* by block of the model: numerics.c; NULL: nothing is counted */
    float *aside;                        /* weights before an update of which numbers are counted, a piece of them */
    float *rope_cos, *rope_sin;

    /* memory of the host, which goes together */
    ls_region region;
    ls_grad_step *steps;
    ls_micro_steps *micro_steps;
    int32_t *host_ids, *host_targets;
    float *host_pixels;
    ls_fed_images fed; /* host_pixels and host_targets of image models */
    int64_t *host_sums;
    int64_t *host_parts; /* squares by group of a device whose memory is the host's; NULL: among the sums, or none */
    ls_hash128 *host_hashes;
    size_t hash_room;
    float *host; /* logits, and pieces of tensors */
    size_t host_elems;
    uint16_t *host16;         /* LS_PARTITION_HOST16; where the policy has 16 bits */
    ls_hash128 *host_state;   /* sums of state as they were read, in front of host_sums; NULL: none */
    ls_hash128 *host_found;   /* the other set */
    bool state_is_read;       /* host_state is what the last update made */
    bool sums_rest;           /* sums are also made of what others report, whatever the setup says */
    ls_hash128 *host_copies;  /* copy_sums, as they were read; NULL: not checked */
    ls_hash128 *shard_hashes; /* with zero 3, by bucket and DP rank */
    bool remembers;
    bool sums_copies;            /* the last update has summed up the copies that it wrote whole */
    int64_t seen_state[6];       /* what the last look at the state found: check.c */
    bool (*gives_up)(void *ctx); /* NULL: a pass is never given up */
    void *gives_up_ctx;
    const ls_ops *ops;                  /* of the device, while it skips; NULL: it does not */
    bool audits;                        /* a group of another row is being computed: nothing is reduced */
    int audit_slot;                     /* with zero < 2: where its gradients go */
    int bad_shard_param, bad_shard_row; /* of a gathered shard that was not what its owner had; −1: none */
};

static inline bool ls_partition_rounds(const ls_partition *partition) { return partition->setup.layout.zero >= 2; }
/* Leaves travel between the rows in this type. */
static inline ls_dtype ls_partition_wire(const ls_partition *partition) { return partition->setup.policy.reduce; }
static inline bool ls_bucket_is_matrix(const ls_bucket *bucket) {
    return bucket->kind == LS_BUCKET_MATRICES || bucket->kind == LS_BUCKET_TABLE;
}
/* Matmuls read 16-bit copies of its weights. */
static inline bool ls_partition_is_16(const ls_partition *partition, const ls_bucket *bucket) {
    return ls_policy_is_16(&partition->setup.policy) && ls_bucket_is_matrix(bucket);
}
/* layout.c: the layout function; `partition` has everything but memory. */
ls_status ls_partition_layout(ls_arena *arena, void *partition);

/* run.c: what evaluation and generation share with training */
ls_status ls_partition_set_tokens(ls_partition *partition, const int32_t *ids, const int32_t *targets);
ls_status ls_partition_feed_tokens(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                                   size_t begin, size_t end);
ls_status ls_partition_enter_block(ls_partition *partition, const ls_chunk *chunk, const ls_chunk_slot *slot, int b,
                                   int next, ls_block **block);
ls_status ls_partition_ring_next(ls_send_ring *ring, float **buffer);
ls_status ls_partition_send(ls_partition *partition, ls_send_ring *ring, const float *buffer, int chunk, bool forward);
ls_status ls_partition_receive(ls_partition *partition, float *buffer, int chunk, bool forward);
ls_status ls_partition_drain(ls_partition *partition);

/* run.c: the actions of this stage's list, without the end of the reductions. */
ls_status ls_partition_run_lists(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed);

/* hunt.c: looks at what a block has just made, of a micro-batch that is not empty; does nothing outside a
 * hunt. */
ls_status ls_partition_look(ls_partition *partition, const ls_micro *micro, int number, int block, ls_bad_phase phase,
                            const float *x, size_t elems);
/* At the gradients of the block's parameters. */
ls_status ls_partition_look_at_grads(ls_partition *partition, const ls_micro *micro, int number, int block);

/* At the result of a matmul. */
ls_status ls_partition_look_at_result(ls_partition *partition, int made, const void *y, ls_dtype dtype, size_t elems);

/* results.c: result number `made` of the block that the executor is at; the last number is that of the stream. */
ls_status ls_partition_add_result(ls_partition *partition, int made, const void *x, size_t bytes);
/* Observes the results of matmuls while they are summed or a hunt runs. */
void ls_partition_watch_results(ls_partition *partition);

/* weights.c: every worker's `own`, whole int64 numbers, by rank; the caller frees *all. */
ls_status ls_partition_tell_all(ls_partition *partition, const void *own, size_t bytes, void **all);

/* partition.c: the gradient steps of a micro-batch whose sequences are all of one group, which goes to `slot`. Their
 * number. */
int ls_partition_plan_group(const ls_partition *partition, int group, const ls_micro *micro, int slot,
                            ls_grad_step *steps);

/* sums.c: words of the sums, and how many hashes there is room for. */
size_t ls_partition_sum_words(const ls_partition *partition);
/* Words of squares by group that lie in memory of the host, for a device that has no other; 0: none. */
size_t ls_partition_host_parts(const ls_partition *partition);
size_t ls_partition_hash_room(const ls_partition *partition);
/* Before a step, and before an evaluation. */
ls_status ls_partition_clear_sums(ls_partition *partition);
/* `first` is the sequence of the batch with which nn's rows begin; of an evaluation −1. The first `context` losses of
 * each sequence are left out. */
ls_status ls_partition_add_losses(ls_partition *partition, int64_t first, size_t context);
/* Rows of logits whose largest is that of the target. */
ls_status ls_partition_count_right(ls_partition *partition);
/* Adds what an evaluation summed up; `right` may be NULL. */
ls_status ls_partition_take_evaluation(ls_partition *partition, ls_loss_sum *loss, int64_t *right);
/* Adds the squares of elements that begin with a block of 1024 to an exact sum on the device. */
ls_status ls_partition_add_squares(ls_partition *partition, const float *x, size_t elems, int64_t *words);
/* Adds the squares of a slot that goes to the reduction over replicas, as far as they are watched. */
ls_status ls_partition_add_contribution(ls_partition *partition, const ls_bucket *bucket, const float *slot);
/* The first that is not finite, or LS_ALL_FINITE; the host waits for it. */
ls_status ls_partition_find_bad(ls_partition *partition, const void *x, ls_dtype dtype, size_t elems, uint64_t *index);

/* The part of slice i that this worker reports, in elements of the local rows, and the number of its first block of
 * 1024 in the slice. */
typedef struct ls_partition_run {
    size_t begin, end, first_block;
} ls_partition_run;
ls_partition_run ls_partition_run_of(const ls_partition *partition, const ls_param *param, int i);

/* A list of hashes: all zero, then made one by one (those of nothing stay zero), then read together. */
ls_status ls_partition_begin_hashes(ls_partition *partition, size_t count);
ls_status ls_partition_make_hash(ls_partition *partition, size_t i, const void *x, size_t bytes);
ls_status ls_partition_read_hashes(ls_partition *partition, ls_hash128 *out, size_t count);

/* numerics.c: elements of `aside`, words of all counts, and where backward counts of a block. */
size_t ls_partition_aside_elems(const ls_partition *partition);
size_t ls_partition_count_words(const ls_partition *partition);
int64_t *ls_partition_act_counts(const ls_partition *partition, int block);

/* check.c: sums of what matmuls read. */
size_t ls_partition_copy_room(const ls_partition *partition);
/* state_sum.c: sums of one set, which are to host_state (as made) and to host_found (as they are now). */
size_t ls_partition_state_room(const ls_partition *partition);
ls_status ls_partition_read_state(ls_partition *partition);
ls_status ls_partition_find_state(ls_partition *partition);
/* What the last update found: a block that was not what it had been written, in host_state as it was read. */
bool ls_partition_read_damage(const ls_partition *partition, ls_damage *out);

/* check.c: gathered weights that nothing will read before they are gathered again. */
ls_status ls_partition_check_gathered(ls_partition *partition, const ls_bucket *bucket);

/* buckets.c */
ls_status ls_partition_make_buckets(ls_partition *partition);
void ls_partition_free_buckets(ls_partition *partition);

/* gather.c. Weights of the block are in their place. `next` is the block that will be asked for after it; −1:
 * none. */
ls_status ls_partition_acquire(ls_partition *partition, int block, int next);

/* reduce.c. Space for the leaves of the block's gradients, before the phase of backward that makes them. */
ls_status ls_partition_begin_grads(ls_partition *partition, int block);
/* Gradients of the block for this micro-batch are made. */
ls_status ls_partition_end_grads(ls_partition *partition, int block, const ls_micro *micro, bool last);

#endif
