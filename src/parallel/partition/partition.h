/* partition.h: what one worker of a layout has and does: its slices of its blocks, their parameters, gradients,
 * optimizer state and activations, and the work on its micro-batches. One worker alone has a partition with everything.
 *
 * Memory is one block, laid out by one function that runs twice (device/arena.h), so what ls_partition_measure() says
 * is what a run uses, to the byte:
 *
 *     parameters │ gradients, slot by slot │ moments │ activations, slot by slot │ scratch, block by block
 *
 * A training step is
 *
 *     ls_partition_step → each parameter has the gradient of its own elements, not yet scaled (rule 11)
 *     ls_partition_square_norm → … → the optimizer changes own_w by own_grad → ls_partition_publish
 *
 * All workers of the layout make these calls together. Steady state allocates nothing. */
#ifndef LS_PARALLEL_PARTITION_PARTITION_H
#define LS_PARALLEL_PARTITION_PARTITION_H

#include "numerics/exact_sum.h"
#include "parallel/layout/layout.h"

typedef struct ls_partition_setup {
    bool train;         /* gradients and saved activations; otherwise forward alone */
    bool leaves;        /* the gradient of every group can be watched (ls_partition_watch) */
    bool watches;       /* likewise, without a byte of the arena: of workers whose leaves are by themselves anyway */
    bool numerics;      /* numbers can be counted (numerics.h) */
    bool audits;        /* groups of other replicas can be computed again (audit.h) */
    bool checks_state;  /* own weights and optimizer state can be checked (check.h); with sums_state */
    bool checks_shards; /* with checks_state: also shards as they arrive, whose hashes workers tell each other */
    bool sums_state;    /* the state is summed up (state_sum.h) */
    bool unfused;       /* blocks do not fuse with their neighbours (ls_block_kind.fuses): for tests of equal bits */
    bool apart;         /* while measuring: memory of the device is not the host's; a partition asks its device */
    ls_policy policy;
    size_t B, T; /* of a batch */
    int G;
    int moments;  /* of the optimizer: 0, 1 or 2 for each parameter */
    size_t ghost; /* images whose statistics batch norm takes together; 0: the model has none */
    bool bn_sync; /* it takes those of the whole batch; `ghost` are those of a gradient group then */
    double dropout;
    uint64_t seed;
    ls_layout layout;         /* micro is set; without training, rows are micro·T */
    ls_place_in_layout place; /* of this worker */
    size_t align;             /* of pieces of the arena, while measuring: the device's; 0: the least */
    size_t scratch_bytes;     /* of the arena, that the device's operations get (ls_device_lend) */
    ls_world *world;          /* NULL for one worker alone, and while measuring */
    ls_mesh *mesh;            /* of the layout; NULL with it */
} ls_partition_setup;

enum { LS_CONTRIBUTION_RUNS = 8 };

typedef struct ls_partition ls_partition;

/* Bytes by kind of such a partition, without making it. `arena` gets the numbers. The model's slices become those of
 * the place. */
ls_status ls_partition_measure(ls_model *model, const ls_partition_setup *setup, ls_arena *arena);
/* Borrows model, device, world and mesh; the pointers in the model's parameters become those of this partition. On
 * failure nothing is left to release. */
ls_status ls_partition_create(ls_model *model, ls_device *device, const ls_partition_setup *setup, ls_partition **out);
void ls_partition_destroy(ls_partition *partition);
const ls_arena *ls_partition_arena(const ls_partition *partition);

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Initial values: a function of seed, parameter and canonical element. */
ls_status ls_partition_init_weights(ls_partition *partition, uint64_t seed);
/* Which tensor of a parameter: the weight, a moment, or the gradient of the last step; or, where pieces are asked for,
 * of any of them what this worker alone reports. */
typedef enum ls_partition_tensor {
    LS_TENSOR_WEIGHT,
    LS_TENSOR_MOMENT0,
    LS_TENSOR_MOMENT1,
    LS_TENSOR_GRAD,
    LS_TENSOR_REPORTED
} ls_partition_tensor;

/* A run of elements that are neighbours in canonical order and in this worker's memory. */
typedef struct ls_partition_piece {
    size_t first, count; /* canonical elements of the parameter */
} ls_partition_piece;

/* Piece number i of what this worker must be given: weights it computes with, or the moments of its own elements. Of
 * what it reports: all workers' pieces together are the parameter, each element once. False when there is no such
 * piece. */
bool ls_partition_piece_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                            ls_partition_piece *piece);

/* Piece number i of what this worker reports of a weight or a moment, and where its elements are in memory of the
 * device. False when there is no such piece. */
bool ls_partition_reported_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                               ls_partition_piece *piece, const float **memory);

/* The same of what it updates, which others may update and report as well. */
bool ls_partition_own_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                          ls_partition_piece *piece, const float **memory);

/* All of them, as few runs in canonical order: where slices are neighbours there they are one run, so that one worker
 * alone has a single run, from the first element to the last. Zeroed: none. Ascending; none is empty, and none begins
 * where another ends. */
typedef struct ls_partition_pieces {
    ls_partition_piece *piece;
    size_t count, capacity;
} ls_partition_pieces;

/* Replaces what the list held and uses its memory again. */
ls_status ls_partition_pieces_list(const ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                                   ls_partition_pieces *pieces);
void ls_partition_pieces_fini(ls_partition_pieces *pieces);
/* Elements first … first + count − 1 in canonical order, from and to the host; of those, what this worker holds. Every
 * worker is given what it needs; after a round of writes of weights all workers call ls_partition_settle(), which
 * rounds them where matmuls read 16 bits and sends these to every worker. */
ls_status ls_partition_write(ls_partition *partition, const ls_param *param, ls_partition_tensor which, size_t first,
                             size_t count, const float *host);
ls_status ls_partition_read(ls_partition *partition, const ls_param *param, ls_partition_tensor which, size_t first,
                            size_t count, float *host);
ls_status ls_partition_settle(ls_partition *partition);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Gives the tokens of sequences begin … end−1 of the batch (or of the evaluation) to the host memory ids and targets,
 * [end − begin][T] each; or, for an image model, their pixels, channels last, and their classes. A worker that sees
 * no pixels gives NULL for them. */
typedef struct ls_partition_feed {
    ls_status (*read)(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets);
    void *ctx;
    ls_status (*images)(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes);
    size_t context; /* ls_partition_evaluate: so many targets at the begin of each sequence are not scored */
    uint64_t batch; /* its number in the run, from 1, for ls_partition_prepare(); 0: it has none */
} ls_partition_feed;

/* Groups may be absent: their tokens count neither in the loss nor in the gradient (rules 14 and 15). `absent` has an
 * entry for each group and is borrowed; NULL: none. The setup has `leaves`. */
void ls_partition_leave_out(ls_partition *partition, const bool *absent);

/* Forward, backward and the reduction of gradients over all micro-batches of this worker. `step` names the dropout
 * masks; `start` is the power of two with which backward starts. Nothing is read from the device: losses stay there
 * until ls_partition_square_norm(), or ls_partition_losses(), brings them. */
ls_status ls_partition_step(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed);
/* While the device works on a step of this feed: reads the images with which this worker begins the next one, those of
 * sequences B … of the batch, and has them copied when the device has come so far. A step whose batch has that number
 * finds them, unless something else was read since. */
ls_status ls_partition_prepare(ls_partition *partition, const ls_partition_feed *feed);
/* Adds the losses of the step that this worker reports. */
ls_status ls_partition_losses(ls_partition *partition, ls_loss_sum *loss);
/* To price a layout (plan/native/price.h): the lists of all stages, and one action of this one's. A stage of several
 * workers that was made without a mesh does its own work and skips what goes to and comes from the others. */
const ls_schedule *ls_partition_schedule(const ls_partition *partition);
ls_status ls_partition_run_action(ls_partition *partition, const ls_action *action, const ls_partition_feed *feed);
/* What follows the last action: every gradient of own elements is there. */
ls_status ls_partition_finish_grads(ls_partition *partition);
/* Where a number that is not finite appeared first: in the order of samples, then of computation. */
typedef enum ls_bad_phase {
    LS_BAD_FORWARD,
    LS_BAD_LOSS,
    LS_BAD_BACKWARD,
    LS_BAD_GRADIENT,
    LS_BAD_SUM /* of gradients that are all finite: `worker` and `micro` say nothing */
} ls_bad_phase;
typedef struct ls_bad_place {
    int64_t order; /* smaller is earlier; −1: nothing was found */
    int64_t erred; /* the same, results of matmuls counted in, by which the worker is found */
    int64_t worker, micro, block, phase;
    int64_t param; /* number in the model, of a gradient */
    int64_t index; /* in what this worker holds of the tensor */
    int64_t is_nan;
    int64_t is_finite; /* a loss of 2^31 or more in size, which exact sums of losses do not hold */
} ls_bad_place;

/* A step as above, in which every result is looked at; the same place on all workers. */
ls_status ls_partition_hunt(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                            ls_bad_place *first);

/* Asked at each block of a pass, an evaluation and an extension, by this worker alone: whether it is to be given up.
 * From then on this worker computes nothing (device/skip.h) until ls_partition_end_skip(), and what it makes is
 * worthless; the other workers may not know, and must be told before they use it. NULL: never. */
void ls_partition_ask(ls_partition *partition, bool (*gives_up)(void *ctx), void *ctx);
/* Whether this worker has given up since the last call. */
bool ls_partition_end_skip(ls_partition *partition);

/* Sets the observer of the gradients of groups; the setup has `leaves`. */
void ls_partition_watch(ls_partition *partition, ls_leaf_watch watch);
/* From now on ls_partition_square_norm() and ls_partition_losses() add the losses of a step here as well, each to its
 * group's, and the former adds the squares of leaves by part: 2·G of them, or NULL. Borrowed. Losses NULL: no longer.
 */
void ls_partition_watch_groups(ls_partition *partition, ls_loss_sum *losses, ls_exact_sum *squares);
/* Adds the squares of a leaf that a watch is shown to part 0 … 2·G − 1, as far as this worker reports it. Only matrices
 * and tables are measured: vectors are not joined yet. A tied table is shown twice, once for each of its uses. */
ls_status ls_partition_leaf_squares(ls_partition *partition, const ls_param *param, const float *leaf, int part);
bool ls_partition_is_tied(const ls_partition *partition, const ls_param *param);
/* The copy of a tied table that the head of the last stage reads; NULL: there is none. */
const ls_param *ls_partition_tied_copy(const ls_partition *partition);
/* From now on each step adds up the squares of what this worker contributes to the gradients of its blocks' matrices,
 * before they are reduced over replicas; of about this share of the elements, the same ones in each replica. */
void ls_partition_watch_contribution(ls_partition *partition, double share);
/* Of the last step, after ls_partition_square_norm(): the squared norm of the contribution to a typical run of blocks:
 * the median over LS_CONTRIBUTION_RUNS of them, because the first blocks of small models are long by nature at times,
 * and all of a worker that is wrong as a whole. NaN: one is not finite; 0: there is none. */
double ls_partition_contribution(const ls_partition *partition);
/* The number of the first parameter, in model order, whose gradient is not finite; −1: none. */
ls_status ls_partition_bad_param(ls_partition *partition, int *param);
/* The same of weights and optimizer state. */
ls_status ls_partition_bad_state(ls_partition *partition, int *param);
/* The one read of a step. Adds the losses of the step (unless NULL) and the squares of the gradients that this worker
 * reports; to `measured`, unless it is NULL, those of which the leaves have the same parts: of all that is measured in
 * leaves but a tied table. */
ls_status ls_partition_square_norm(ls_partition *partition, ls_loss_sum *loss, ls_exact_sum *sum,
                                   ls_exact_sum *measured);
/* After the update of own elements: sends them to every worker that computes with them. */
ls_status ls_partition_publish(ls_partition *partition);

/* ---- evaluation and generation ----------------------------------------------------------------------------------- */

/* Adds the losses, as far as this worker reports them, of `count` sequences of T ≤ setup's T tokens. `right` counts
 * the tokens, or images, whose target has the largest logit, the first of equal ones; NULL: not asked for. It needs all
 * logits on one worker: tp is 1. */
ls_status ls_partition_evaluate(ls_partition *partition, size_t count, size_t T, const ls_partition_feed *feed,
                                ls_loss_sum *loss, int64_t *right);
/* Positions first … first + rows − 1 of one sequence, whose earlier positions have gone through before; the logits of
 * the last position to the host of every worker, V of them. first + rows ≤ setup's T. */
ls_status ls_partition_extend(ls_partition *partition, size_t first, size_t rows, const int32_t *ids, float *logits);
/* Whether keys and values stay, so that `first` may be above 0. */
bool ls_partition_keeps_keys(const ls_partition *partition);

/* ---- all workers together ---------------------------------------------------------------------------------------- */

/* Adds these numbers up over all workers. */
ls_status ls_partition_sum(ls_partition *partition, int64_t *numbers, size_t count);
/* XXH3-128 of the weights, or of another tensor: the hash of the hashes of blocks of 1024 elements, slice by slice, in
 * model order (rule 8). */
ls_status ls_partition_hash(ls_partition *partition, char text[33]);
/* The same for one tensor of one parameter. */
ls_status ls_partition_hash_tensor(ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                                   char text[33]);

ls_model *ls_partition_model(const ls_partition *partition);
const ls_partition_setup *ls_partition_setup_of(const ls_partition *partition);

#endif
