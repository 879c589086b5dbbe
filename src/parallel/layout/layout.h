/* layout.h: who does what: the plain struct that a plan writes and a run reads.
 *
 * Nothing in it changes a bit of the result. Workers form a mesh dp × tp × pp; rank = tp + TP·(dp + DP·pp).
 *
 *   dp   row d has share[d] of the G gradient groups: with zero < 2 the groups behind those of the rows before it;
 *        with zero ≥ 2 groups go round: one to each row that has not got its share yet, again and again
 *   tp   column t has slices t·S/tp … (t+1)·S/tp − 1 of every layer
 *   pp   stage s has chunks s, s + pp, … ; chunk g is blocks chunk_first[g] … chunk_first[g+1] − 1 */
#ifndef LS_PARALLEL_LAYOUT_LAYOUT_H
#define LS_PARALLEL_LAYOUT_LAYOUT_H

#include <jansson.h>

#include "lockstep.h"
#include "nn/blocks.h"
#include "parallel/schedule/schedule.h"

enum { LS_CHUNKS_MAX = 1024 };

typedef enum ls_recompute {
    LS_RECOMPUTE_NONE,
    LS_RECOMPUTE_SELECTIVE, /* what the MLP is before its activation is made again in backward */
    LS_RECOMPUTE_FULL,      /* all but the input of each block is */
    LS_RECOMPUTE_KINDS
} ls_recompute;

typedef struct ls_layout {
    int dp, tp, pp;
    int share[LS_WORKERS_MAX]; /* by dp row: groups, all of them ≥ 1; their sum is G */
    int virtual_stages;        /* chunks of a stage */
    int chunk_first[LS_CHUNKS_MAX + 1];
    ls_schedule_kind schedule;
    int zero; /* 0 … 3 */
    ls_recompute recompute;
    bool sequence_parallel;
    size_t micro; /* sequences of a micro-batch at most */
} ls_layout;

/* What a user asked for; 0 or NULL where nothing was said, −1 for zero, schedule, recompute, sequence_parallel. */
typedef struct ls_layout_request {
    int workers, dp, tp, pp; /* workers without dp: what tp and pp leave of them is dp */
    const char *launcher;    /* who has started that many workers; NULL: nobody yet */
    const char *shares;      /* "3,2,2" */
    const double *speeds;    /* of the dp rows, measured, for shares "auto" (NULL then: equal) */
    const char *stages;      /* how blocks are divided: "cost", "count", or the blocks of each chunk: "5,4,4" */
    int schedule, virtual_stages, zero, recompute, sequence_parallel;
    size_t micro;
} ls_layout_request;

static inline ls_layout_request ls_layout_request_none(void) {
    return (ls_layout_request){.schedule = -1, .zero = -1, .recompute = -1, .sequence_parallel = -1};
}

/* What is trained, as far as a layout must fit it. */
typedef struct ls_layout_task {
    const ls_model *model; /* shapes and costs; its slices are S */
    size_t B, T;
    int G;
    ls_policy policy;
    bool checks_replicas; /* after every step */
    size_t ghost;         /* micro-batches hold whole ghost groups of so many images; 0: any number */
    bool bn_sync;         /* batch norm is that of the whole batch: a row's share is one micro-batch */
} ls_layout_task;

/* Sequences of the row that has most. */
size_t ls_layout_largest_share(const ls_layout *layout, size_t B, int G);
static inline int ls_layout_workers(const ls_layout *layout) { return layout->dp * layout->tp * layout->pp; }
static inline int ls_layout_chunks(const ls_layout *layout) { return layout->pp * layout->virtual_stages; }

/* One worker with everything, micro-batches of `micro` sequences. */
ls_layout ls_layout_one(const ls_layout_task *task, size_t micro);
/* From a request to a layout. `request->workers` alone means dp; dp·tp·pp must be the workers where both are given.
 * What cannot be is refused with LS_ERR_INPUT, naming the option and the nearest legal value (dp ≤ G, tp divides S, pp
 * ≤ blocks, pp·virtual stages ≤ blocks, shares that sum to G, micro ≤ B, sequence parallel with tp > 1 and T ≥ tp,
 * virtual stages only for interleaved …). Defaults: zero 1 where dp > 1, else 0; schedule 1f1b, with virtual stages
 * interleaved, and interleaved has 2 of them; stages by cost; recompute none; no sequence parallelism; micro 0 stays 0:
 * whoever runs it chooses by memory.
 *
 * Blocks are divided so that the costliest chunk costs least, then so that the sum of squares is least, then with more
 * blocks in earlier chunks; by count: as equal as possible, more in earlier chunks. Shares: row d has
 * ⌊(d+1)G/dp⌋ − ⌊dG/dp⌋ groups; with speeds, those that let the slowest row end first. */
ls_status ls_layout_make(const ls_layout_request *request, const ls_layout_task *task, ls_layout *out);
/* Whether it fits the task; the same messages. */
ls_status ls_layout_check(const ls_layout *layout, const ls_layout_task *task);

/* Places in the mesh. */
typedef struct ls_place_in_layout {
    int dp, tp, pp;
} ls_place_in_layout;
static inline ls_place_in_layout ls_layout_place(const ls_layout *layout, int rank) {
    return (ls_place_in_layout){rank / layout->tp % layout->dp, rank % layout->tp, rank / (layout->tp * layout->dp)};
}

/* "dp 2 × tp 2 × pp 1, zero 1, …": one line, for people; what is as usual is left out. */
void ls_layout_text(const ls_layout *layout, char *text, size_t room);
/* For --layout FILE (YAML or JSON with the names of the flags) and for the run directory. From JSON to the request that
 * gives it; unknown members are refused. Strings in the request point into `json`. */
json_t *ls_layout_to_json(const ls_layout *layout); /* NULL: no memory */
ls_status ls_layout_request_from_json(const char *where, const json_t *json, ls_layout_request *out);

const char *ls_recompute_name(ls_recompute recompute);

#endif
