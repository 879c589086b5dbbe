/* buffers.c: computes how many buffers each pipeline stage needs for what it sends, so that stages never deadlock
 * waiting for buffers.
 *
 * A stage uses its buffers in turn, one ring for each direction. A buffer is free again when the receiver has begun the
 * action that takes it in; one in which the first chunk goes backward is free at the end of that action. With few
 * buffers two stages could wait for each other; so the lists are walked with two buffers, then three, until the walk
 * comes to its end. */
#include "parallel/schedule/schedule.h"

enum { FORWARD, BACKWARD, DIRECTIONS };

typedef struct walk {
    const ls_schedule *schedule;
    int buffers;
    int *next;               /* by stage: its next action */
    int *sent[DIRECTIONS];   /* by stage: how many times it has used a buffer */
    int *number[DIRECTIONS]; /* [chunk of all][micro]: which send of its stage it was, from 1; 0: not yet */
    bool *taken[DIRECTIONS]; /* [stage][send]: whether the receiver has begun with it */
    ls_region memory;
} walk;

/* Returns the number of chunks of the whole model. */
static int all_chunks(const walk *w) { return w->schedule->stages * w->schedule->chunks; }
/* Returns one more than the sends of a stage in a direction: they are counted from 1. */
static size_t sends_of_a_stage(const walk *w) { return (size_t)w->schedule->chunks * (size_t)w->schedule->micros + 1; }

/* Allocates a walk at the beginning of all lists; false: out of memory. */
static bool begin_walk(walk *w) {
    size_t stages = (size_t)w->schedule->stages, units = (size_t)all_chunks(w) * (size_t)w->schedule->micros;
    w->next = ls_region_take(&w->memory, stages, sizeof *w->next);
    for (int d = 0; d < DIRECTIONS; d++) {
        w->sent[d] = ls_region_take(&w->memory, stages, sizeof *w->sent[d]);
        w->number[d] = ls_region_take(&w->memory, units, sizeof *w->number[d]);
        w->taken[d] = ls_region_take(&w->memory, stages * sends_of_a_stage(w), sizeof *w->taken[d]);
    }
    return !w->memory.is_short;
}

/* Returns whether chunk `from` has sent this micro-batch. */
static bool is_there(const walk *w, int direction, int from, int micro) {
    return w->number[direction][from * w->schedule->micros + micro] > 0;
}

/* Marks the message as received, so that its buffer is free again. */
static void take(walk *w, int direction, int from, int micro) {
    size_t stage = (size_t)(from % w->schedule->stages);
    int number = w->number[direction][from * w->schedule->micros + micro];
    w->taken[direction][stage * sends_of_a_stage(w) + (size_t)number] = true;
}

/* Returns whether the stage's next buffer in this direction is free. */
static bool has_buffer(const walk *w, int direction, int stage) {
    int before = w->sent[direction][stage] + 1 - w->buffers; /* the send that used the same buffer */
    return before < 1 || w->taken[direction][(size_t)stage * sends_of_a_stage(w) + (size_t)before];
}

/* Takes the stage's next action if it can begin; false: it waits, or there is none. */
static bool advance(walk *w, int stage) {
    const ls_schedule *s = w->schedule;
    if (w->next[stage] == s->count[stage]) return false;
    const ls_action *action = &s->actions[stage][w->next[stage]];
    if (action->kind == LS_ACTION_BACKWARD_WEIGHTS) {
        w->next[stage]++;
        return true;
    }
    int direction = action->kind == LS_ACTION_FORWARD ? FORWARD : BACKWARD;
    int chunk = action->chunk * s->stages + stage, from = direction == FORWARD ? chunk - 1 : chunk + 1;
    int to = direction == FORWARD ? chunk + 1 : chunk - 1;
    bool receives = from >= 0 && from < all_chunks(w), sends = to >= 0 && to < all_chunks(w);
    bool buffered = sends || direction == BACKWARD;
    if (receives && !is_there(w, direction, from, action->micro)) return false;
    if (buffered && !has_buffer(w, direction, stage)) return false;
    if (receives) take(w, direction, from, action->micro);
    if (buffered) w->number[direction][chunk * s->micros + action->micro] = ++w->sent[direction][stage];
    if (buffered && !sends) take(w, direction, chunk, action->micro);
    w->next[stage]++;
    return true;
}

/* Advances all stages as far as possible; false: they deadlock. */
static bool reaches_the_end(walk *w) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < w->schedule->stages; stage++)
            while (advance(w, stage)) moved = true;
    }
    for (int stage = 0; stage < w->schedule->stages; stage++)
        if (w->next[stage] < w->schedule->count[stage]) return false;
    return true;
}

ls_status ls_schedule_buffers(const ls_schedule *schedule, int *count) {
    int most = 2 + schedule->chunks * schedule->micros;
    for (*count = 2; *count <= most; (*count)++) {
        walk w = {.schedule = schedule, .buffers = *count};
        bool ok = begin_walk(&w), ended = ok && reaches_the_end(&w);
        ls_region_free(&w.memory);
        if (!ok) return ls_fail(LS_ERR_RESOURCE, "out of memory for a schedule of %d micro-batches", schedule->micros);
        if (ended) return LS_OK;
    }
    return ls_fail(LS_ERR_FAILED, "the schedule of %d stages and %d micro-batches deadlocks", schedule->stages,
                   schedule->micros);
}
