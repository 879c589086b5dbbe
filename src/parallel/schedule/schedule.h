/* schedule.h: in which order the stages of a pipeline work on micro-batches. Schedules are data.
 *
 * The blocks of a model are cut into chunks 0 … stages·chunks − 1; chunk g lies on stage g mod stages and is number
 * g / stages there. A micro-batch goes forward through all chunks, ascending, and backward through them, descending.
 * A schedule gives each stage the list of what it computes, one action after the other. Sending and receiving follow
 * from it: a forward action begins with what the chunk before it made, a backward action with what the one behind it
 * made. Micro-batches are in ascending order for each chunk, forward and backward, as rule 3 asks.
 *
 * Every list is the course of a possible execution, so no run of it can lock up, as long as sends do not wait.
 *
 * Activations of a chunk for one micro-batch lie in a slot from its forward action to the last one that needs them: the
 * backward action, or the one for the weights where they are apart. Gradients that the latter needs lie in `kept`
 * slots. So the numbers of slots are the peak of the memory, known before the run.
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
    LS_ACTION_BACKWARD_WEIGHTS, /* of the weights, after the former */
    LS_ACTION_KINDS
} ls_action_kind;

typedef struct ls_action {
    ls_action_kind kind;
    int chunk; /* of this stage, 0 … chunks−1 */
    int micro;
    int slot; /* of the chunk's activations */
    int kept; /* of the chunk's gradients; −1 where there are none */
} ls_action;

typedef struct ls_schedule {
    ls_schedule_kind kind;
    int stages, chunks; /* chunks of one stage */
    int micros;
    int *count;          /* by stage: actions */
    ls_action **actions; /* by stage */
    int *slots, *kept;   /* [stages][chunks]: how many there are */
    ls_region memory;
} ls_schedule;

/* stages, chunks, micros ≥ 1, stages·chunks·micros ≤ LS_SCHEDULE_UNITS_MAX; chunks is 1 unless interleaved or naive
 * (layouts have naive with one chunk; audits use it with the chunks of their layout). LS_ERR_INPUT otherwise. One stage
 * works too: with naive and 1f1b it goes forward and backward with each micro-batch in turn. After a failure there is
 * nothing to free. */
enum { LS_SCHEDULE_UNITS_MAX = 1 << 22 };
ls_status ls_schedule_make(ls_schedule_kind kind, int stages, int chunks, int micros, ls_schedule *out);
void ls_schedule_free(ls_schedule *schedule);

static inline int ls_schedule_slots(const ls_schedule *schedule, int stage, int chunk) {
    return schedule->slots[stage * schedule->chunks + chunk];
}
static inline int ls_schedule_kept(const ls_schedule *schedule, int stage, int chunk) {
    return schedule->kept[stage * schedule->chunks + chunk];
}

/* Buffers that a stage needs in each direction for what it sends (buffers.c). */
ls_status ls_schedule_buffers(const ls_schedule *schedule, int *count);

/* Whether the lists can be run and keep rule 3: every action once, in order, no slot used twice at a time, no lock-up.
 * LS_ERR_FAILED naming stage and action. What the executor checks before it begins. Any lists may be given, of any kind
 * of actions: each chunk and micro-batch has one BACKWARD, or one BACKWARD_INPUT and later one BACKWARD_WEIGHTS. */
ls_status ls_schedule_check(const ls_schedule *schedule);

/* "forward", "backward", "backward-input", "backward-weights" */
const char *ls_action_kind_name(ls_action_kind kind);

/* Called with each action once, after those of other stages that it waits for. */
typedef void ls_schedule_visit(void *context, int stage, int index);
/* Walks lists whose chunks and micro-batches are in range. LS_ERR_FAILED when they lock up. */
ls_status ls_schedule_replay(const ls_schedule *schedule, ls_schedule_visit *visit, void *context);

/* order.c: fills count and actions, which have space for all of them, but for the slots; from kind and sizes. */
ls_status ls_schedule_order(ls_schedule *schedule);

#endif
