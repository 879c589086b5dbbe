/* layout.h: the division of a training run among workers: the plain struct that the planner writes and a run reads.
 * Every function here is local, without state, and gives the same result on all workers.
 *
 * No member changes a bit of the result. Gradients are computed for G fixed groups of sequences of a batch, and layers
 * have S fixed slices (such as attention heads with their share of the MLP); a layout only says which worker computes
 * which. Workers form a mesh dp × tp × pp; rank = tp + TP·(dp + DP·pp).
 *
 *   dp   replica d has share[d] of the G gradient groups: with zero < 2 contiguous ones; with zero ≥ 2 replicas
 *        take one group each in turn, until each has its share
 *   tp   worker t of a TP group has slices t·S/tp … (t+1)·S/tp − 1 of every layer
 *   pp   stage s has chunks s, s + pp, … ; chunk g is blocks chunk_first[g] … chunk_first[g+1] − 1 */
#ifndef LS_PARALLEL_LAYOUT_LAYOUT_H
#define LS_PARALLEL_LAYOUT_LAYOUT_H

#include "lockstep.h"
#include "nn/blocks.h"
#include "parallel/layout/knobs.h"

/* Most chunks of a model; bytes that hold the text of any list of shares or blocks. */
enum { LS_CHUNKS_MAX = 1024, LS_LAYOUT_LIST_MAX = 12 * LS_CHUNKS_MAX };

typedef struct ls_layout {
    union { /* layout->dp is layout->knobs.dp */
        ls_knobs knobs;
        struct {
#define LS_KNOB LS_KNOB_FIELD
#include "parallel/layout/knobs.def"
        };
    };
    /* What follows from them for a model: */
    int share[LS_WORKERS_MAX];          /* by replica: gradient groups, all of them ≥ 1; their sum is G */
    int chunk_first[LS_CHUNKS_MAX + 1]; /* by chunk of the model: its first block; then the number of blocks */
} ls_layout;

/* The options of a layout as the user gave them; ls_layout_make() turns them into a layout. Texts are borrowed. */
typedef struct ls_layout_request {
    ls_knobs knobs;
    unsigned given;       /* bits 1 << LS_KNOB_…; the other knobs are neutral */
    int workers;          /* without dp, dp is workers / (tp · pp); 0: not given */
    const char *launcher; /* the program that started that many workers; NULL: none yet */
    const char *shares;   /* "3,2,2"; NULL: not given, as for stages */
    const double *speeds; /* of the replicas, measured, for shares "auto" (NULL then: equal) */
    const char *stages;   /* how blocks are divided: "cost", "count", or the blocks of each chunk: "5,4,4" */
    double memory_bytes;  /* of a chip that a plan may use; 0: all of it */
} ls_layout_request;

/* Returns a request in which nothing is given. */
static inline ls_layout_request ls_layout_request_none(void) {
    return (ls_layout_request){.knobs = ls_knobs_neutral()};
}
/* Returns whether the user gave this knob, rather than leave it to a default. */
static inline bool ls_knob_is_given(const ls_layout_request *request, ls_knob knob) {
    return request->given >> knob & 1;
}
/* Sets a knob of the request and marks it as given. */
void ls_knob_give(ls_layout_request *request, ls_knob knob, double value);
/* Sets a knob to its neutral value and marks it as not given. */
void ls_knob_leave_open(ls_layout_request *request, ls_knob knob);

/* The training task, as far as a layout must fit it. */
typedef struct ls_layout_task {
    const ls_model *model; /* shapes and costs; its slices are S */
    size_t B, T;           /* sequences (or images) of a global batch; tokens of a sequence */
    int G;                 /* gradient groups of a batch */
    ls_policy policy;      /* number types of weights, activations and gradients */
    bool checks_replicas;  /* replicas compare hashes of their weights after every step */
    size_t ghost;          /* micro-batches hold whole ghost groups of so many images; 0: any number */
    bool bn_sync;          /* batch norm is that of the whole batch: a replica's share is one micro-batch */
} ls_layout_task;

/* Returns the number of sequences of a batch of B in G groups that the replica with the most of them computes; at least
 * 1. */
size_t ls_layout_largest_share(const ls_layout *layout, size_t B, int G);
/* Returns the classes of activations that are kept from forward to backward (LS_SAVE_*); the others are recomputed. */
unsigned ls_layout_kept_parts(const ls_layout *layout);
/* Returns the number of workers. */
static inline int ls_layout_workers(const ls_layout *layout) { return layout->dp * layout->tp * layout->pp; }
/* Returns the number of chunks of the whole model. */
static inline int ls_layout_chunks(const ls_layout *layout) { return layout->pp * layout->virtual_stages; }

/* Returns the layout of one worker, with micro-batches of `micro` sequences; not checked. */
ls_layout ls_layout_one(const ls_layout_task *task, size_t micro);
/* Makes the layout of a request and checks it. dp·tp·pp must equal request->workers if both are given. Fails with
 * LS_ERR_INPUT for an illegal layout, and names the option and the nearest legal value (dp ≤ G, tp divides S, pp ≤
 * blocks, pp·virtual stages ≤ blocks, shares that sum to G, micro ≤ B, sequence parallel with tp > 1 and T ≥ tp,
 * virtual stages only for interleaved …), and for knobs that only other programs have. Defaults: zero 1 where dp > 1,
 * else 0; schedule 1f1b, with virtual stages interleaved, and interleaved has 2 of them; stages by cost; recompute
 * none; no sequence parallelism; micro 0 stays 0: the run chooses it by memory.
 *
 * Shares, unless they are listed: replica d has ⌊(d+1)G/dp⌋ − ⌊dG/dp⌋ groups; with "auto" and speeds, those of
 * ls_layout_share_by_speed(). After a failure *out is unchanged. */
ls_status ls_layout_make(const ls_layout_request *request, const ls_layout_task *task, ls_layout *out);
/* Divides n ≥ rows groups among `rows` replicas, each ≥ 1, so that the largest share[d] / speed[d] is least; ties go to
 * earlier rows. */
void ls_layout_share_by_speed(const double *speeds, int rows, int n, int *share);
/* Rules by which blocks are divided into chunks of the pipeline. A run uses one of the first two; the planner predicts
 * other programs with the third. */
typedef enum ls_divide {
    LS_DIVIDE_COST, /* the costliest chunk costs least, then the sum of squares is least, then earlier ones have more */
    LS_DIVIDE_COUNT, /* as equal numbers as possible, more in earlier chunks */
    LS_DIVIDE_LAYERS /* equal numbers of layers, which cost the same; each layer left over goes to the chunk with the
                        lowest cost then, the last of equal ones. The first and the last block are not counted as
                        layers, but their costs are */
} ls_divide;
/* Divides n blocks into `chunks` ≤ n contiguous chunks; chunk c gets blocks first[c] … first[c + 1] − 1. `cost` is that
 * of each block; for LS_DIVIDE_LAYERS it has three entries: first block, a layer, last block. Only LS_DIVIDE_COST can
 * fail, with LS_ERR_RESOURCE. */
ls_status ls_layout_divide(ls_divide rule, const double *cost, int n, int chunks, int *first);
/* Checks that a layout, such as one from a file, fits the task. Fails as ls_layout_make() does. */
ls_status ls_layout_check(const ls_layout *layout, const ls_layout_task *task);

/* A worker's indices in the mesh. */
typedef struct ls_place_in_layout {
    int dp, tp, pp;
} ls_place_in_layout;
/* Returns the place of a rank in the mesh. */
static inline ls_place_in_layout ls_layout_place(const ls_layout *layout, int rank) {
    return (ls_place_in_layout){rank / layout->tp % layout->dp, rank % layout->tp, rank / (layout->tp * layout->dp)};
}
/* Returns the rank of a place in the mesh. */
static inline int ls_layout_rank(const ls_layout *layout, ls_place_in_layout place) {
    return place.tp + layout->tp * (place.dp + layout->dp * place.pp);
}

/* Formats a layout in one line: "dp 2 × tp 2 × pp 1, zero 1, …". Leaves out most knobs at their neutral values, and
 * equal shares. */
void ls_layout_text(const ls_layout *layout, char *text, size_t room);
/* Formats the number of blocks of each chunk, "5,4,4"; ends with ",…" where it is too long for `room`. */
void ls_layout_blocks_text(const int *chunk_first, int chunks, char *text, size_t room);
/* Formats a list, "3,2,2"; ends with ",…" where it is too long for `room`. */
void ls_layout_list_text(const int *numbers, int count, char *text, size_t room);
/* Returns a new JSON object with the names of the flags, for --layout FILE and for the run directory; the caller
 * releases it. */
json_t *ls_layout_to_json(const ls_layout *layout); /* NULL: no memory */
/* Reads such an object into a request, whose strings point into `json`. LS_ERR_INPUT for unknown members and wrong
 * values; the message begins with `where`, the name of the file, and *out is unchanged. */
ls_status ls_layout_request_from_json(const char *where, const json_t *json, ls_layout_request *out);

/* Returns whether the option sets a member of a request: --dp, --shares, --micro-batch …, but not --layout. */
bool ls_layout_is_option(ls_option_id id);
/* Sets the members of `request` whose options were given at origin `weakest` or a stronger one. Texts are borrowed. */
void ls_layout_request_add(const ls_options *options, ls_option_origin weakest, ls_layout_request *request);

#endif
