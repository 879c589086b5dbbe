/* schedule.h: the order in which the stages of a pipeline work on micro-batches. A schedule is data, made once from the
 * layout by every worker; it depends on nothing else. Nothing here is collective.
 *
 * The blocks of a model are cut into chunks 0 … stages·chunks − 1; chunk g lies on stage g mod stages and is number
 * g / stages there. A micro-batch goes forward through all chunks, ascending, and backward through them, descending.
 * A schedule gives each stage a list of actions. Communication follows from it: a forward action receives the output of
 * the chunk before, a backward action the input gradient of the chunk after. For each chunk, micro-batches are in
 * ascending order, forward and backward, as rule 3 of the arithmetic (docs/reference/arithmetic.md) requires.
 *
 * Every list is recorded from a simulated execution, so it cannot deadlock if sends do not block.
 *
 * The activations of a chunk for one micro-batch occupy a slot from its forward action to the last action that reads
 * them: backward, or backward-weights if backward has two phases. The gradients that backward-weights reads occupy a
 * `kept` slot. So the numbers of slots are the peak memory, known before the run.
 *
 * One executor runs these lists (partition/run.c), one simulator times them (simulate.h), one renderer draws them. */
#ifndef LS_PARALLEL_SCHEDULE_SCHEDULE_H
#define LS_PARALLEL_SCHEDULE_SCHEDULE_H

#include <stdbool.h>

#include "base/memory.h"
#include "config/choices.h"

typedef enum ls_action_kind {
    LS_ACTION_FORWARD,
    LS_ACTION_BACKWARD,         /* gradients of input and weights */
    LS_ACTION_BACKWARD_INPUT,   /* of the input alone */
    LS_ACTION_BACKWARD_WEIGHTS, /* of the weights, after BACKWARD_INPUT */
    LS_ACTION_KINDS
} ls_action_kind;

typedef struct ls_action {
    ls_action_kind kind;
    int chunk; /* of this stage, 0 … chunks−1 */
    int micro; /* number of the micro-batch */
    int slot;  /* of the chunk's activations */
    int kept;  /* of the gradients that backward-weights reads; −1: none */
} ls_action;

typedef struct ls_schedule {
    ls_schedule_kind kind;
    int stages, chunks;  /* chunks of one stage */
    int micros;          /* number of micro-batches */
    int *count;          /* by stage: number of its actions */
    ls_action **actions; /* by stage: its list, in order */
    int *slots, *kept;   /* [stages][chunks]: how many slots of each kind there are */
    ls_region memory;
} ls_schedule;

enum { LS_SCHEDULE_UNITS_MAX = 1 << 22 };
/* Makes the lists of all stages. stages, chunks, micros ≥ 1, stages·chunks·micros ≤ LS_SCHEDULE_UNITS_MAX; chunks is 1
 * unless the kind is interleaved or naive (a layout has naive with one chunk; an audit uses it with the chunks of its
 * layout). Fails with LS_ERR_INPUT otherwise. A single stage with naive or 1f1b runs each micro-batch forward, then
 * backward. After a failure there is nothing to free. */
ls_status ls_schedule_make(ls_schedule_kind kind, int stages, int chunks, int micros, ls_schedule *out);
/* Frees the lists; NULL and a zeroed schedule do nothing. */
void ls_schedule_free(ls_schedule *schedule);

/* Returns the activation slots of a stage's chunk (number of the chunk on its stage). */
static inline int ls_schedule_slots(const ls_schedule *schedule, int stage, int chunk) {
    return schedule->slots[stage * schedule->chunks + chunk];
}
/* Returns a chunk's slots for gradients that backward-weights reads; 0 unless backward has two phases. */
static inline int ls_schedule_kept(const ls_schedule *schedule, int stage, int chunk) {
    return schedule->kept[stage * schedule->chunks + chunk];
}

/* Computes in *count how many send buffers a stage needs in each direction, so that stages cannot deadlock waiting for
 * buffers; at least 2, the same for all stages. LS_ERR_FAILED: the lists deadlock with any number. */
ls_status ls_schedule_buffers(const ls_schedule *schedule, int *count);

/* Checks that the lists can be run and obey rule 3: every action once, in order, no slot in use twice, no deadlock.
 * Fails with LS_ERR_FAILED, naming stage and action. Called when a partition or a simulation is made. Accepts any lists
 * in which each chunk and micro-batch has one BACKWARD, or one BACKWARD_INPUT and later one BACKWARD_WEIGHTS. */
ls_status ls_schedule_check(const ls_schedule *schedule);

/* Returns "forward", "backward", "backward-input" or "backward-weights". */
const char *ls_action_kind_name(ls_action_kind kind);

/* Callback of ls_schedule_replay(), called once for each action (number `index` of the stage's list), after the actions
 * of other stages that it waits for. */
typedef void ls_schedule_visit(void *context, int stage, int index);
/* Visits all actions in an order in which they can run. Chunks and micro-batches must be in range. Fails with
 * LS_ERR_FAILED if the lists deadlock. */
ls_status ls_schedule_replay(const ls_schedule *schedule, ls_schedule_visit *visit, void *context);

/* Fills count and actions, except for their slots, from kind and sizes (action_order.c). The arrays have room for
 * all. */
ls_status ls_schedule_order(ls_schedule *schedule);

#endif
