/* state.h: the members of a partition (what one worker holds and computes, partition.h), and the calls between the
 * files of this folder; for this folder only. Unless a comment says otherwise, functions are called by the worker's one
 * main thread, and errors are those of the device, of communication, or LS_ERR_RESOURCE.
 *
 * Each struct below belongs to the file that its section names: only functions of that file change it. Other files read
 * it. Two passes over the memory set its pointers: ls_partition_alloc_* takes those of the host from the region,
 * ls_partition_lay_* those of the device from the arena, in the order of ls_partition_layout(). Both are freed as a
 * whole. */
#ifndef LS_PARALLEL_PARTITION_STATE_H
#define LS_PARALLEL_PARTITION_STATE_H

#include "base/hash.h"
#include "base/memory.h"
#include "comm/movers/tensors.h"
#include "optim/optimizer.h"
#include "parallel/layout/micro_batches.h"
#include "parallel/partition/bucket.h"
#include "parallel/partition/numerics.h"
#include "parallel/partition/partition.h"
#include "parallel/partition/results.h"

/* ---- partition.c ------------------------------------------------------------------------------------------------- */

/* Communicators of the axes with more than one member, and of all workers; NULL: there is one member. */
typedef struct ls_partition_comms {
    ls_comm *dp, *tp, *pp, *all;
} ls_partition_comms;

typedef struct ls_partition_memory {
    ls_arena arena;   /* of the device */
    ls_region region; /* of the host */
    void *lent;       /* piece of the arena that the device's operations use; NULL: none */
    void *lent_sums;  /* piece that reductions over replicas use; NULL: none */
    size_t lent_sums_bytes;
} ls_partition_memory;

/* Takes zeroed host memory from the region; NULL if it is short, which the region records. */
void *ls_partition_take(ls_partition *partition, size_t count, size_t bytes);
/* Returns LS_ERR_RESOURCE for host memory of a partition. */
ls_status ls_partition_no_memory(void);

/* ---- plan.c: gradient steps -------------------------------------------------------------------------------------- */

/* Weight gradients of one micro-batch: steps first … first + count − 1 of the stage's list. */
typedef struct ls_micro_steps {
    int first, count;
} ls_micro_steps;

/* The work of a pass. An audit runs another plan than a step (audit.c). */
typedef struct ls_pass_plan {
    ls_micro_list micros;        /* of this replica */
    ls_schedule schedule;        /* of all stages */
    ls_grad_step *steps;         /* of all micro-batches: nn/grad_plan.h */
    ls_micro_steps *micro_steps; /* by micro-batch */
    bool audits;                 /* recomputes a group of another replica: nothing is reduced, no loss is added */
} ls_pass_plan;

/* Where gradients of groups are collected. */
typedef struct ls_grad_places {
    ls_rounds rounds;    /* with zero ≥ 2 */
    int *group_bounds;   /* by DP rank, with zero < 2: its first group */
    ls_grad_slots slots; /* how many slots a gradient needs, and how many subtrees are left at the end */
    int table_slots;     /* of the head's table, whose gradient may be computed in more parts */
    int audit_slot;      /* of an audited group, with zero < 2 */
    bool part_is_leaf[LS_GRAD_SLOTS_MAX]; /* by slot, with zero < 2: the subtree in it is a single group */
    bool leaves_pass;                     /* each group is one micro-batch, so leaves may share buffers */
} ls_grad_places;

/* Plans the gradient steps of all micro-batches of this worker, and how many slots gradients need; with zero ≥ 2 also
 * the rounds of reductions. */
ls_status ls_partition_plan_steps(ls_partition *partition);
/* Plans the gradient steps of a micro-batch whose sequences all belong to `group`, which goes to `slot`. Returns their
 * number. */
int ls_partition_plan_group(const ls_partition *partition, int group, const ls_micro *micro, int slot,
                            ls_grad_step *steps);

/* ---- bucket.c ---------------------------------------------------------------------------------------------------- */

/* Makes the buckets of this worker's blocks, in the order in which backward completes them, and sets which elements of
 * each parameter it updates and reports. */
ls_status ls_partition_make_buckets(ls_partition *partition);
/* Frees the list of buckets and their shards. */
void ls_partition_free_buckets(ls_partition *partition);

/* ---- gather.c, reduce.c: buffers that buckets share in turn ------------------------------------------------------ */

enum { LS_PARTITION_BUFFERS = 2 };

typedef struct ls_buffer_pool {
    int count, next;                       /* number of buffers, and the one to be used next */
    size_t elems;                          /* of each */
    void *memory[LS_PARTITION_BUFFERS];    /* on the device */
    uint16_t *wire[LS_PARTITION_BUFFERS];  /* of leaves that travel as 16 bits */
    ls_bucket *user[LS_PARTITION_BUFFERS]; /* the bucket whose data the buffer holds; NULL: none */
} ls_buffer_pool;

/* Of gathered weights (gather.c), or of leaves of gradients (reduce.c). */
typedef struct ls_buffer_pools {
    ls_buffer_pool block, table; /* for matrices of blocks; for tables of the vocabulary */
} ls_buffer_pools;

/* Makes the weights of a block available, gathering them if they are in no buffer, and starts to gather those of
 * `next`, the block that runs after it; −1: none. Does nothing without ZeRO 3. */
ls_status ls_partition_acquire(ls_partition *partition, int block, int next);
/* With zero ≥ 2 waits for the reductions that still read the memory of the block's gradients, and where leaves share
 * buffers (ls_grad_places.leaves_pass) assigns the next one to them. Does nothing with zero < 2, where each bucket has
 * memory of its own. Call before the phase of backward that computes them. */
ls_status ls_partition_begin_grads(ls_partition *partition, int block);
/* Starts to reduce the gradients of the block, as far as they are complete: with zero < 2 after the `last` micro-batch,
 * with zero ≥ 2 after each group. Does nothing without replicas, or in an audit. */
ls_status ls_partition_end_grads(ls_partition *partition, int block, const ls_micro *micro, bool last);

/* ---- stage.c: the chunks of this worker's stage ------------------------------------------------------------------ */

/* Messages between stages: micro-batches by chunk, then a tied table. */
enum { LS_TAG_FORWARD = 0, LS_TAG_BACKWARD = LS_CHUNKS_MAX, LS_TAG_TIED_GRAD = 32000, LS_TAG_TIED_WEIGHT = 32001 };

/* Activations of one chunk for one micro-batch, by block of the chunk. */
typedef struct ls_chunk_slot {
    float **x;            /* the input of each block; NULL for the embedding */
    void **saved, **kept; /* structs of each block's kind */
} ls_chunk_slot;

typedef struct ls_chunk {
    int number;                   /* among all chunks */
    int first, end;               /* blocks of the model */
    bool has_embedding, has_head; /* the chunk has the first, or the last, block of the model */
    int slots, kept_slots;        /* micro-batches whose activations, and gradients, exist at a time */
    ls_chunk_slot *slot;          /* [slots] */
    ls_chunk_slot *kept;          /* [kept_slots]: gradients for backward-weights; only `kept` of these is used */
} ls_chunk;

/* Buffers of messages to another stage, used in turn. */
typedef struct ls_send_ring {
    int count, next;
    float **buffer;
    ls_request **request; /* by buffer: its last send; NULL: complete */
} ls_send_ring;

typedef struct ls_stage {
    int nchunks; /* number of `chunks`: virtual stages */
    ls_chunk *chunks;
    unsigned kept_parts; /* of saved activations, LS_SAVE_*; the others are recomputed */
    void **shared;       /* by block of the model: the recomputed parts, which all blocks have in the same memory */
    ls_scratch *scratch; /* by block of the model: of different blocks in the same memory, … */
    void **own_scratch;  /* … and the structs of its kind that point there */
    ls_send_ring forward, backward; /* of outputs, and of input gradients */
} ls_stage;

/* Makes schedule, chunks, slots and rings of this stage, without device memory. */
ls_status ls_partition_make_stage(ls_partition *partition);
/* Assigns memory to the activations of all slots, and to the buffer of those that are recomputed. */
void ls_partition_lay_activations(ls_partition *partition, ls_arena *arena);
/* Assigns memory to the send buffers; the backward ring is also where the first chunk's gradients go. */
void ls_partition_lay_rings(ls_partition *partition, ls_arena *arena);
/* Assigns memory to the scratch of blocks; that of different blocks overlaps. */
void ls_partition_lay_scratch(ls_partition *partition, ls_arena *arena);
/* Returns in *buffer the next buffer of the ring, after its previous send is complete. */
ls_status ls_partition_ring_next(ls_send_ring *ring, float **buffer);
/* Starts to send a buffer of the ring, the output of `chunk`, to the stage with the next chunk; if `forward` is false
 * its input gradient to the stage with the chunk before. Does nothing without a pipeline. */
ls_status ls_partition_send(ls_partition *partition, ls_send_ring *ring, const float *buffer, int chunk, bool forward);
/* Receives the input of `chunk` into `buffer`; if `forward` is false the gradient of its output. Does nothing without a
 * pipeline. */
ls_status ls_partition_receive(ls_partition *partition, float *buffer, int chunk, bool forward);
/* Waits for all sends of both rings. */
ls_status ls_partition_drain(ls_partition *partition);

/* ---- tied.c: a table that first and last stage share ------------------------------------------------------------- */

typedef struct ls_tied_table {
    ls_param *copy; /* on the last stage; NULL: none */
    bool receives;  /* this is the first stage, and the gradient of the other use is received in `grad` */
    float *grad;    /* NULL on other stages */
} ls_tied_table;

/* Ties the head to the embedding's table, or to a copy of it if the head is on another stage. */
void ls_partition_tie_head(ls_partition *partition);
/* Assigns memory to the buffer in which the first stage receives a gradient. */
void ls_partition_lay_tied(ls_partition *partition, ls_arena *arena);
/* Sends the gradient of the head's use from the last stage to the first, which adds it to its own. Other stages do
 * nothing. */
ls_status ls_partition_send_tied_grad(ls_partition *partition);
/* Sends the updated table from the first stage to the last. Other stages do nothing. */
ls_status ls_partition_send_tied_weight(ls_partition *partition);

/* ---- input.c: tokens and images ---------------------------------------------------------------------------------- */

/* The images that were read last. */
typedef struct ls_fed_images {
    uint64_t batch; /* 0: one without number, or none */
    size_t begin, end;
    bool with_pixels, on_device; /* pixels were read, not only classes; they have been copied to the device */
    bool is_ahead;               /* read for the next step */
} ls_fed_images;

typedef struct ls_partition_input {
    int32_t *ids, *targets;           /* of a micro-batch, on the device */
    float *pixels;                    /* NULL: the model sees tokens */
    float *rope_cos, *rope_sin;       /* tables of the rotary embedding; NULL: the model has none */
    int32_t *host_ids, *host_targets; /* as the feed wrote them, before the copy to the device */
    float *host_pixels;
    ls_fed_images fed; /* what host_pixels and host_targets hold */
} ls_partition_input;

/* Allocates the host's buffers of a micro-batch. */
void ls_partition_alloc_input(ls_partition *partition);
/* Assigns memory to the device's buffers of a micro-batch, and to the rotary tables. */
void ls_partition_lay_input(ls_partition *partition, ls_arena *arena);
/* Computes the rotary tables, if the model has any. */
ls_status ls_partition_fill_rope(ls_partition *partition);
/* Copies the tokens of the current micro-batch to the device, for the blocks. `targets` may be NULL. */
ls_status ls_partition_set_tokens(ls_partition *partition, const int32_t *ids, const int32_t *targets);
/* Reads sequences or images begin … end − 1 of the batch if the chunk is the first or the last. Other chunks, and a
 * device that skips operations, read nothing. */
ls_status ls_partition_feed_tokens(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                                   size_t begin, size_t end);
/* Begins a pass: images that an earlier pass of the step copied to the device are copied again; prefetched ones are
 * used. */
void ls_partition_forget_prefetch(ls_partition *partition);

/* ---- run.c: the executor ----------------------------------------------------------------------------------------- */

/* Whether this worker gives a pass up (ls_partition_ask). */
typedef struct ls_partition_skip {
    bool (*gives_up)(void *ctx); /* NULL: never */
    void *ctx;
    const ls_ops *ops; /* the device's own, while it skips its work; NULL: it does not */
} ls_partition_skip;

/* Prepares block b to run with the activations of this slot: asks whether to give up, advances communication, and makes
 * its weights available. `next` is the block that runs after it; −1: none. */
ls_status ls_partition_enter_block(ls_partition *partition, const ls_chunk *chunk, const ls_chunk_slot *slot, int b,
                                   int next, ls_block **block);
/* Runs the actions of this stage's list, with arguments as in ls_partition_step(); the last reductions may not have
 * ended. */
ls_status ls_partition_run_lists(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed);

/* ---- results.c: results that are observed ------------------------------------------------------------------------ */

/* The block that the executor runs. */
typedef struct ls_partition_at {
    const ls_micro *micro; /* NULL: results are not observed */
    int number;            /* of the micro-batch */
    int block;
    bool is_back; /* in backward */
    int made;     /* number of results of the block so far */
} ls_partition_at;

typedef struct ls_partition_results {
    ls_partition_at at;
    const ls_result_sums *sums; /* borrowed; NULL: results are not summed */
} ls_partition_results;

/* Attributes the next results to a block. `micro` NULL: they are not observed. */
void ls_partition_begin_results(ls_partition *partition, const ls_micro *micro, int number, int block, bool is_back);
/* Adds result number `made` of the block to the sums; the last number is that of the stream. */
ls_status ls_partition_add_result(ls_partition *partition, int made, const void *x, size_t bytes);
/* Sets or removes the observer of the results of matmuls: it is needed while they are summed or a hunt runs. */
void ls_partition_watch_results(ls_partition *partition);

/* ---- hunt.c: the first value that is not finite ------------------------------------------------------------------ */

/* Checks an output of a block, for a micro-batch that is not empty, for values that are not finite, losses also for
 * 2^31 or more in size; partition->hunt keeps the earliest find. Does nothing outside a hunt (ls_partition_hunt). */
ls_status ls_partition_look(ls_partition *partition, const ls_micro *micro, int number, int block, ls_bad_phase phase,
                            const float *x, size_t elems);
/* Checks the gradients of the block's parameters that this micro-batch changed. Does nothing outside a hunt. */
ls_status ls_partition_look_at_grads(ls_partition *partition, const ls_micro *micro, int number, int block);
/* Checks result number `made` of the block's matmuls, before it is joined over the TP group. Does nothing outside a
 * hunt. */
ls_status ls_partition_look_at_result(ls_partition *partition, int made, const void *y, ls_dtype dtype, size_t elems);

/* ---- weights.c --------------------------------------------------------------------------------------------------- */

/* Elements that are rounded at a time on their way from and to the host. */
enum { LS_PARTITION_HOST16 = 1 << 20 };

/* Host memory for pieces of tensors, and for logits. */
typedef struct ls_host_staging {
    float *f32;
    size_t elems;
    uint16_t *rounded; /* LS_PARTITION_HOST16 elements; NULL: the policy has no 16-bit type */
} ls_host_staging;

/* Allocates the staging memory. */
void ls_partition_alloc_staging(ls_partition *partition);
/* Sends `own`, whole int64 numbers, to all workers. *all is a new list of them by rank, which the caller frees; not
 * after an error. Collective over all workers. */
ls_status ls_partition_tell_all(ls_partition *partition, const void *own, size_t bytes, void **all);

/* ---- sums.c ------------------------------------------------------------------------------------------------------ */

typedef struct ls_partition_sums {
    int64_t *words, *host_words; /* of a step, on the device, and as read last */
    int64_t *host_parts;         /* squares by group of a device whose memory is the host's; NULL: among the words */
    ls_hash128 *hashes, *host_hashes;                /* a list of hashes, of one check at a time, and its copy */
    size_t hash_room;                                /* elements of these two */
    ls_loss_sum *group_losses;                       /* borrowed: also gets losses by group; NULL: none */
    ls_exact_sum *group_squares;                     /* borrowed: also gets squares of leaves; NULL: none */
    double contribution_share;                       /* of the elements to reduce: their squares are summed */
    double contribution_scale[LS_CONTRIBUTION_RUNS]; /* all elements / those that are summed; 0: no such run */
} ls_partition_sums;

/* Returns how many hashes the list of hashes has room for. */
size_t ls_partition_hash_room(const ls_partition *partition);
/* Allocates the host's copies of sums and hashes. */
void ls_partition_alloc_sums(ls_partition *partition);
/* Takes device memory from the arena for the sums of a step, for the hashes, and for one set of the state's checksums
 * (those as made), which lie right before the sums of a step, so that one copy to the host brings both. */
void ls_partition_lay_sums(ls_partition *partition, ls_arena *arena);
/* Sets the sums to 0. Call before a step, and before an evaluation. */
ls_status ls_partition_clear_sums(ls_partition *partition);
/* Adds the losses of the current micro-batch, which begins with sequence `first` of the batch, −1 in an evaluation, to
 * the sums on the device. Leaves out the first `context` losses of each sequence, and groups that are absent. Does
 * nothing in an audit, and on all workers of a TP group but the first. */
ls_status ls_partition_add_losses(ls_partition *partition, int64_t first, size_t context);
/* Adds the number of rows of logits whose largest is that of the target to a sum on the device. */
ls_status ls_partition_count_right(ls_partition *partition);
/* Reads what an evaluation has summed, and adds it to *loss and *right, which may be NULL. The host waits for the
 * device. */
ls_status ls_partition_take_evaluation(ls_partition *partition, ls_loss_sum *loss, int64_t *right);
/* Adds the squares of elements that begin with a block of 1024 to an exact sum on the device, at `words`. */
ls_status ls_partition_add_squares(ls_partition *partition, const float *x, size_t elems, int64_t *words);
/* Adds the squares of a gradient slot that is about to be reduced over replicas, as far as they are watched
 * (ls_partition_watch_contribution). */
ls_status ls_partition_add_contribution(ls_partition *partition, const ls_bucket *bucket, const float *slot);
/* Returns in *index the first value that is not finite, or LS_ALL_FINITE. The host waits for the device. */
ls_status ls_partition_find_bad(ls_partition *partition, const void *x, ls_dtype dtype, size_t elems, uint64_t *index);

/* The part of slice i that this worker reports, in elements of the local rows, and the number of its first block of
 * 1024 in the slice. */
typedef struct ls_partition_run {
    size_t begin, end, first_block;
} ls_partition_run;
/* Returns the part of slice i that this worker reports; begin = end: none. */
ls_partition_run ls_partition_run_of(const ls_partition *partition, const ls_param *param, int i);

/* Sets the first `count` hashes of the list on the device to zero. */
ls_status ls_partition_begin_hashes(ls_partition *partition, size_t count);
/* Computes hash number i of the list; leaves it zero if there is no memory or are no bytes. */
ls_status ls_partition_make_hash(ls_partition *partition, size_t i, const void *x, size_t bytes);
/* Copies the first `count` hashes to the host, which waits for the device. */
ls_status ls_partition_read_hashes(ls_partition *partition, ls_hash128 *out, size_t count);

/* ---- state_sum.c: sums of weights and optimizer state ------------------------------------------------------------ */

typedef struct ls_partition_state {
    ls_hash128 *made, *found;           /* LS_PARAM_SUMS for each parameter: as written, and as found; NULL: none */
    ls_hash128 *host_made, *host_found; /* as read last */
    bool is_read;                       /* host_made is what the last update wrote */
    bool sums_rest;                     /* also sums what other workers report, whatever the setup says */
} ls_partition_state;

/* Returns the number of hashes in a set, 0 without `sums_state`. sums.c allocates one set in front of its words. */
size_t ls_partition_state_room(const ls_partition *partition);
/* Takes memory from the arena for the second set of the state's checksums (those as found in memory now) and for the
 * checksums of each block of elements. ls_partition_lay_sums() takes that of the first set. Does nothing without
 * setup.sums_state. */
void ls_partition_lay_state(ls_partition *partition, ls_arena *arena);
/* Copies the sums that the last update made to host_made, unless they have been read since. */
ls_status ls_partition_read_state(ls_partition *partition);
/* Sums weights and optimizer state as they are in memory now, into host_found. */
ls_status ls_partition_find_state(ls_partition *partition);
/* Returns whether the last update found a block of elements that differed from what had been written, and describes it
 * in *out. Call after ls_partition_read_state(). */
bool ls_partition_read_damage(const ls_partition *partition, ls_damage *out);

/* ---- check.c ----------------------------------------------------------------------------------------------------- */

typedef struct ls_partition_check {
    ls_hash128 *copy_sums, *host_copies; /* of what matmuls read as it was written last; NULL: not checked */
    ls_hash128 *shard_hashes;            /* with zero 3, by bucket and DP rank; NULL: not checked */
    bool remembers;                      /* these are of the present weights */
    bool sums_copies;                    /* the last update has summed the copies that it wrote completely */
    int64_t seen_state[6];               /* verdict of the last ls_partition_look_at_state() or …_update() */
    int bad_shard_param, bad_shard_row;  /* of a gathered shard that differed from its owner's; −1: none */
} ls_partition_check;

/* Allocates the host's copies of sums and hashes for the checks that the setup asks for. */
void ls_partition_alloc_check(ls_partition *partition);
/* Assigns memory to the sums of copies. */
void ls_partition_lay_check(ls_partition *partition, ls_arena *arena);
/* Clears the sums of copies, and lets the update sum the 16-bit copies that it writes completely
 * (ls_optimizer_sums_copy()), which saves a pass over memory. Does nothing without `checks_state`. */
ls_status ls_partition_begin_copy_sums(ls_partition *partition, ls_optimizer_update *update);
/* Undoes ls_partition_begin_copy_sums(), for an update that cannot sum copies. */
void ls_partition_omit_copy_sums(ls_partition *partition, ls_optimizer_update *update);
/* Compares gathered weights with the hashes of their owners, before their buffer is used for others. A difference is
 * not an error here: the next check of the state reports it. Does nothing without such hashes. */
ls_status ls_partition_check_gathered(ls_partition *partition, const ls_bucket *bucket);

/* ---- numerics.c -------------------------------------------------------------------------------------------------- */

typedef struct ls_partition_numerics {
    ls_block_numerics *blocks; /* borrowed: where backward counts; NULL: it does not */
    int64_t *counts;           /* by block of the model; NULL: nothing can be counted */
    float *aside;              /* a piece of the weights before the update */
} ls_partition_numerics;

/* Assigns memory to the counts, if the setup has `numerics`. */
void ls_partition_lay_numerics(ls_partition *partition, ls_arena *arena);
/* Returns where backward counts the gradients of activations of a block. */
int64_t *ls_partition_act_counts(const ls_partition *partition, int block);

/* ---- all of it --------------------------------------------------------------------------------------------------- */

struct ls_partition {
    ls_model *model;
    ls_device *device;
    ls_partition_setup setup;
    ls_nn nn;
    size_t micro; /* sequences of a micro-batch at most */
    ls_partition_comms comms;
    ls_partition_memory memory;
    ls_pass_plan pass;
    ls_grad_places grads;
    int nbuckets;
    ls_bucket *buckets;              /* in the order in which backward finishes them */
    ls_buffer_pools weights, leaves; /* of gathered weights, and of gradients of single groups */
    ls_stage stage;
    ls_tied_table tied;
    ls_partition_input input;
    ls_partition_skip skip;
    ls_partition_results results;
    ls_bad_place *hunt; /* borrowed: what hunt.c has found; NULL: no hunt */
    ls_host_staging staging;
    ls_partition_sums sums;
    ls_partition_state state;
    ls_partition_check check;
    ls_partition_numerics numerics;
};

/* Returns whether replicas take groups one at a time, in rounds, and reduce after each: ZeRO 2 and 3. */
static inline bool ls_partition_rounds(const ls_partition *partition) { return partition->setup.layout.zero >= 2; }
/* Returns the type in which replicas exchange gradients of single groups (policy.reduce). */
static inline ls_dtype ls_partition_wire(const ls_partition *partition) { return partition->setup.policy.reduce; }
/* Returns whether matmuls read the bucket's weights. */
static inline bool ls_bucket_is_matrix(const ls_bucket *bucket) {
    return bucket->kind == LS_BUCKET_MATRICES || bucket->kind == LS_BUCKET_TABLE;
}
/* Returns whether matmuls read 16-bit copies of the bucket's weights. */
static inline bool ls_partition_is_16(const ls_partition *partition, const ls_bucket *bucket) {
    return ls_policy_is_16(&partition->setup.policy) && ls_bucket_is_matrix(bucket);
}

/* Assigns all device memory of a partition; `partition` has everything else. Runs twice: to measure and to carve
 * (layout.c). */
ls_status ls_partition_layout(ls_arena *arena, void *partition);
/* Takes rows × columns fp32 elements from the arena, counted as `kind`; NULL while measuring. */
float *ls_partition_take_f32(ls_arena *arena, const char *kind, size_t rows, size_t columns);

#endif
