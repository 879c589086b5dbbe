/* partition.h: what one worker of a layout holds and computes: its slices of its blocks, their parameters, gradients,
 * optimizer state and activations, and the work on its micro-batches. One worker alone has a partition with everything.
 *
 * A block is a module of the model, such as a transformer layer; a slice is a fixed part of its rows or columns, of
 * which tensor parallelism assigns whole ones; a group is a fixed part of the batch, whose gradient one replica
 * computes. "Rule n" is a rule of docs/reference/arithmetic.md.
 *
 * Its device memory is one block. The same function lays it out twice, to measure and to carve (device/arena.h), so
 * ls_partition_measure() gives what a run uses, to the byte:
 *
 *     parameters │ gradients, slot by slot │ optimizer state │ activations, slot by slot │ scratch, block by block
 *
 * A training step is
 *
 *     ls_partition_step → each parameter has the gradient of its own elements, not yet scaled (rule 11)
 *     ls_partition_square_norm → … → the optimizer updates own_w from own_grad → ls_partition_publish
 *
 * All workers of the layout make these calls together, in the same order, unless a call says that it is not collective.
 * Queries (const partition) never are. One thread per worker calls. Between the first step and destruction nothing is
 * allocated. The trainer owns a partition (run/trainer.h); planner and tests make their own. */
#ifndef LS_PARALLEL_PARTITION_PARTITION_H
#define LS_PARALLEL_PARTITION_PARTITION_H

#include "numerics/exact_sum.h"
#include "parallel/layout/layout.h"

typedef struct ls_partition_setup {
    bool train;         /* has gradients and saved activations; otherwise forward alone */
    bool leaves;        /* the gradient of every group is computed by itself, so it can be watched or left out */
    bool watches;       /* the same, but sums by group lie in host memory, not in the arena; for CPU devices */
    bool numerics;      /* statistics of gradients and updates can be counted (numerics.h) */
    bool audits;        /* groups of other replicas can be computed again (audit.h) */
    bool checks_state;  /* own weights and optimizer state can be checked (check.h); with sums_state */
    bool checks_shards; /* with checks_state: also shards as they arrive, whose hashes workers tell each other */
    bool sums_state;    /* the state is summed up (state_sum.h) */
    bool unfused;       /* blocks do not fuse with their neighbours (ls_block_kind.fuses): for tests of equal bits */
    bool apart;         /* while measuring: memory of the device is not the host's; a partition asks its device */
    ls_policy policy;   /* number types of weights, activations and gradients */
    size_t B, T;        /* sequences (or images) of a batch; tokens of a sequence at most */
    int G;              /* gradient groups of a batch */
    int moments;        /* of the optimizer: 0, 1 or 2 for each parameter */
    size_t ghost;       /* images whose statistics batch norm takes together; 0: the model has none */
    bool bn_sync;       /* it takes those of the whole batch; `ghost` are those of a gradient group then */
    double dropout;     /* probability; 0: none */
    uint64_t seed;      /* of dropout */
    ls_layout layout;   /* micro is set; without training, rows are micro·T */
    ls_place_in_layout place; /* of this worker */
    size_t align;             /* of pieces of the arena, while measuring: the device's; 0: the least */
    size_t scratch_bytes;     /* of the arena, that the device's operations get (ls_device_lend) */
    ls_world *world;          /* NULL for one worker alone, and while measuring */
    ls_mesh *mesh;            /* of the layout; NULL with it */
} ls_partition_setup;

/* Runs of blocks whose gradients' norms ls_partition_contribution() compares. */
enum { LS_CONTRIBUTION_RUNS = 8 };

typedef struct ls_partition ls_partition;

/* Measures the device memory of such a partition without creating it: *arena gets the bytes by kind, and the peak. Sets
 * the model's slices to those of the place, and resets its parameters, so a model with a partition cannot be measured.
 * `arena` owns no memory afterwards. Not collective. */
ls_status ls_partition_measure(ls_model *model, const ls_partition_setup *setup, ls_arena *arena);
/* Creates a partition without weights. Borrows model, device, world and mesh until ls_partition_destroy(), and
 * points the model's parameters at its memory, so a model has one partition at a time. On failure nothing is left to
 * release. */
ls_status ls_partition_create(ls_model *model, ls_device *device, const ls_partition_setup *setup, ls_partition **out);
/* Frees the partition and its device memory, and takes lent memory back; NULL does nothing. */
void ls_partition_destroy(ls_partition *partition);
/* Returns the partition's device memory, with its bytes by kind. */
const ls_arena *ls_partition_arena(const ls_partition *partition);

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Sets all weights to their initial values, a function of seed, parameter and canonical element (its index in the whole
 * tensor, whatever the layout). */
ls_status ls_partition_init_weights(ls_partition *partition, uint64_t seed);
/* A tensor of a parameter: the weight, a moment, or the gradient of the last step. LS_TENSOR_REPORTED is for
 * ls_partition_piece_get() alone: the elements of any of them that this worker reports. */
typedef enum ls_partition_tensor {
    LS_TENSOR_WEIGHT,
    LS_TENSOR_MOMENT0,
    LS_TENSOR_MOMENT1,
    LS_TENSOR_GRAD,
    LS_TENSOR_REPORTED
} ls_partition_tensor;

/* Elements that are contiguous in canonical order and in this worker's memory. */
typedef struct ls_partition_piece {
    size_t first, count; /* canonical elements of the parameter */
} ls_partition_piece;

/* Gets piece number i of the elements that this worker has of a tensor. Moments and gradients: its own elements, those
 * that it updates. Weights: all that it computes with; but only its own ones with ZeRO 3, and of matrices in 16 bits
 * whose fp32 weights are sharded, of which ls_partition_settle() makes the others. With LS_TENSOR_REPORTED, the pieces
 * of all workers together are the parameter, each element once. Returns false after the last piece; a piece may be
 * empty. */
bool ls_partition_piece_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                            ls_partition_piece *piece);

/* Gets piece number i of a weight or a moment that this worker reports, with its address on the device. Each element is
 * reported by one worker. Returns false after the last piece, and at once for weights that it has in 16 bits alone. */
bool ls_partition_reported_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                               ls_partition_piece *piece, const float **memory);

/* Gets piece number i of a weight or a moment that this worker updates, with its address on the device; other workers
 * may update and report the same elements. Returns false after the last piece. */
bool ls_partition_own_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                          ls_partition_piece *piece, const float **memory);

/* All pieces of a tensor, merged where they are contiguous in canonical order, so that one worker alone has a single
 * piece. Ascending and not empty. Begin with a zeroed list. */
typedef struct ls_partition_pieces {
    ls_partition_piece *piece;
    size_t count, capacity;
} ls_partition_pieces;

/* Fills the list with the pieces of ls_partition_piece_get(), merged; reuses its memory. */
ls_status ls_partition_pieces_list(const ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                                   ls_partition_pieces *pieces);
/* Frees the list's memory, and empties it. */
void ls_partition_pieces_fini(ls_partition_pieces *pieces);
/* Copies elements first … first + count − 1 in canonical order from the host, as far as this worker holds them. Not
 * collective. After the last write of weights all workers call ls_partition_settle(). */
ls_status ls_partition_write(ls_partition *partition, const ls_param *param, ls_partition_tensor which, size_t first,
                             size_t count, const float *host);
/* Copies elements first … first + count − 1 of a tensor to the host, as far as this worker holds them; leaves the
 * others in `host` unchanged. 16-bit weights are widened to fp32. Not collective. */
ls_status ls_partition_read(ls_partition *partition, const ls_param *param, ls_partition_tensor which, size_t first,
                            size_t count, float *host);
/* Rounds written weights where matmuls read 16 bits, and sends the rounded ones to every worker that computes with
 * them. Does nothing if all weights are fp32. */
ls_status ls_partition_settle(ls_partition *partition);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Callbacks that read sequences begin … end − 1 of the batch, or of the evaluation, into host memory: `read` ids and
 * targets, [end − begin][T] each; `images`, for an image model, pixels, channels last, and classes. `pixels` is NULL on
 * a worker that needs only the classes. */
typedef struct ls_partition_feed {
    ls_status (*read)(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets);
    void *ctx; /* of both callbacks */
    ls_status (*images)(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes);
    size_t context; /* in an evaluation: targets at the start of each sequence that are not scored */
    uint64_t batch; /* its number in the run, from 1, for ls_partition_prepare(); 0: it has none */
} ls_partition_feed;

/* Leaves groups out of later steps: their tokens count neither in the loss nor in the gradient (rules 14 and 15).
 * `absent` has an entry for each group and is borrowed; NULL: none is left out. The setup has `leaves`. Not collective,
 * but all workers leave out the same groups. */
void ls_partition_leave_out(ls_partition *partition, const bool *absent);

/* Runs forward, backward and the reduction of gradients over all micro-batches of this worker. `step` selects the
 * dropout masks; `start` is the power of two with which backward starts. The host does not wait for the device: losses
 * stay there until ls_partition_square_norm(), or ls_partition_losses(), reads them. */
ls_status ls_partition_step(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed);
/* Prefetches, while the device works on a step of this feed, the images with which this worker begins the next step:
 * the feed is asked for sequences B … of the batch. A step with the next batch number uses them, unless other images
 * were read since. Does nothing for tokens, for a feed without batch numbers, and on a worker that skips its work. Not
 * collective. */
ls_status ls_partition_prepare(ls_partition *partition, const ls_partition_feed *feed);
/* Adds the losses of the step that this worker reports to *loss; only workers of the last stage report any. The host
 * waits for the device. Not collective. */
ls_status ls_partition_losses(ls_partition *partition, ls_loss_sum *loss);
/* Returns the action lists of all stages; borrowed. For pricing a layout (plan/native/price.h). */
const ls_schedule *ls_partition_schedule(const ls_partition *partition);
/* Runs one action of this stage, outside a step. For pricing: a partition without a mesh computes its own part and
 * skips all communication. */
ls_status ls_partition_run_action(ls_partition *partition, const ls_action *action, const ls_partition_feed *feed);
/* The end of ls_partition_step(), for callers of ls_partition_run_action(): ends the reductions after the last action,
 * joins the token slices of vectors, and adds up both uses of a tied table: every gradient of own elements is then
 * complete. */
ls_status ls_partition_finish_grads(ls_partition *partition);
/* Where a value that is not finite was computed: in the output of a block, the loss, the gradient of a block's input,
 * the gradient of a parameter. */
typedef enum ls_bad_phase {
    LS_BAD_FORWARD,
    LS_BAD_LOSS,
    LS_BAD_BACKWARD,
    LS_BAD_GRADIENT,
    LS_BAD_SUM /* of gradients that are all finite: `worker` and `micro` say nothing */
} ls_bad_phase;
/* The first value that is not finite, in the order of samples, then of computation. All int64, because workers add them
 * up to share them. */
typedef struct ls_bad_place {
    int64_t order;                       /* smaller is earlier; −1: nothing was found */
    int64_t erred;                       /* the same, results of matmuls counted in, by which the worker is found */
    int64_t worker, micro, block, phase; /* rank that erred; micro-batch, −1: of a sum; block; ls_bad_phase */
    int64_t param;                       /* number in the model, of a gradient; −1: no gradient */
    int64_t index;                       /* in what the worker that found it holds of the tensor */
    int64_t is_nan;                      /* otherwise it is infinite, unless is_finite is set */
    int64_t is_finite;                   /* a loss of 2^31 or more in size, which exact sums of losses do not hold */
} ls_bad_place;

/* Repeats a step, with the arguments of ls_partition_step(), and checks every output for values that are not finite.
 * All workers get the same *first. Slow: called after a step whose loss or norm is not finite. */
ls_status ls_partition_hunt(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed,
                            ls_bad_place *first);

/* Sets a callback that is called at each block of a pass, an evaluation and an extension; NULL: none. If it returns
 * true, this worker gives up: it computes nothing (device/skip.h) until ls_partition_end_skip(), but still
 * communicates, so that no other worker waits. Its results are then garbage, and the other workers must learn that
 * before they use them. Not collective. */
void ls_partition_ask(ls_partition *partition, bool (*gives_up)(void *ctx), void *ctx);
/* Ends the skipping of work, and returns whether this worker had given up (ls_partition_ask). Not collective. */
bool ls_partition_end_skip(ls_partition *partition);

/* Sets the observer that gets the gradient of each group and parameter in later steps, on the device. The setup has
 * `leaves` or `watches`. Not collective. */
void ls_partition_watch(ls_partition *partition, ls_leaf_watch watch);
/* Lets ls_partition_square_norm() and ls_partition_losses() also add the losses of a step to losses[group], and the
 * former the squares of leaves to squares[part], 2·G of them, unless NULL. Both are borrowed. `losses` NULL ends it. */
void ls_partition_watch_groups(ls_partition *partition, ls_loss_sum *losses, ls_exact_sum *squares);
/* Adds the squares of a leaf, which the observer got, to part 0 … 2·G − 1, as far as this worker reports it. Vectors
 * are left out, because their slices are not joined yet. The observer gets a tied table twice, once for each use. */
ls_status ls_partition_leaf_squares(ls_partition *partition, const ls_param *param, const float *leaf, int part);
/* Returns whether the parameter is the vocabulary table, and embedding and head share it. */
bool ls_partition_is_tied(const ls_partition *partition, const ls_param *param);
/* Returns the copy of a tied table that the head of the last stage reads; NULL: this worker has none. */
const ls_param *ls_partition_tied_copy(const ls_partition *partition);
/* Lets each later step sum the squares of what this worker contributes to the gradients of its matrices, before these
 * are reduced over replicas: of about this share of the elements, the same ones in each replica. Not collective. */
void ls_partition_watch_contribution(ls_partition *partition, double share);
/* Returns, after ls_partition_square_norm(), the squared norm of the contribution to a typical run of blocks, scaled
 * from the share that is summed to all elements: the median over those of LS_CONTRIBUTION_RUNS runs that are not 0, of
 * an even number the geometric mean of the middle two. The median ignores the first blocks of small models, whose norms
 * are large at times, but not a worker all of whose blocks are wrong. NaN: one is not finite; 0: there is none. */
double ls_partition_contribution(const ls_partition *partition);
/* Sets *param to the first parameter, in model order, whose gradient is not finite on some worker; −1: none. */
ls_status ls_partition_bad_param(ls_partition *partition, int *param);
/* Sets *param to the first parameter whose weights or optimizer state are not finite on some worker; −1: none. */
ls_status ls_partition_bad_state(ls_partition *partition, int *param);
/* Adds the losses of the step to *loss, unless NULL, and the squares of the gradients that this worker reports to *sum.
 * If `measured` is not NULL, it gets the part of these squares that ls_partition_leaf_squares() also measures by group:
 * all but vectors and a tied table. *sum gets NaN if a gradient that another worker of the TP
 * group reports is not finite here. The only call of a step in which the host waits for the device. Not collective. */
ls_status ls_partition_square_norm(ls_partition *partition, ls_loss_sum *loss, ls_exact_sum *sum,
                                   ls_exact_sum *measured);
/* Sends the updated own elements to every worker that computes with them: an all-gather of sharded weights (ZeRO 1 and
 * 2; with ZeRO 3 of positions alone), and the weights of a tied table. With ZeRO 3 drops gathered matrices and tables,
 * which are gathered again when used. */
ls_status ls_partition_publish(ls_partition *partition);

/* ---- evaluation and generation ----------------------------------------------------------------------------------- */

/* Runs forward on `count` sequences of T ≤ setup.T tokens and adds the losses that this worker reports to *loss. Unless
 * `right` is NULL, adds to it the number of tokens, or images, whose target has the largest logit, the first of equal
 * ones; this requires tp 1. */
ls_status ls_partition_evaluate(ls_partition *partition, size_t count, size_t T, const ls_partition_feed *feed,
                                ls_loss_sum *loss, int64_t *right);
/* Runs forward on positions first … first + rows − 1 of one sequence, whose earlier positions earlier calls have run,
 * and writes the V logits of the last position to `logits` on every worker. first + rows ≤ setup.T. */
ls_status ls_partition_extend(ls_partition *partition, size_t first, size_t rows, const int32_t *ids, float *logits);
/* Returns whether keys and values are cached, so that `first` of ls_partition_extend() may be above 0. */
bool ls_partition_keeps_keys(const ls_partition *partition);

/* ---- all workers together ---------------------------------------------------------------------------------------- */

/* Replaces each number by its sum over all workers, modulo 2^64. */
ls_status ls_partition_sum(ls_partition *partition, int64_t *numbers, size_t count);
/* Computes the XXH3-128 of the weights, as 32 hexadecimal digits: the hash of the hashes of blocks of 1024 elements,
 * slice by slice, in model order (rule 8). The same under every layout. */
ls_status ls_partition_hash(ls_partition *partition, char text[33]);
/* Computes the same hash for one tensor of one parameter. */
ls_status ls_partition_hash_tensor(ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                                   char text[33]);

ls_model *ls_partition_model(const ls_partition *partition);
const ls_partition_setup *ls_partition_setup_of(const ls_partition *partition);

#endif
