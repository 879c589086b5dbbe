/* action_order.c: the order of the actions of every kind of schedule.
 *
 * All kinds are made the same way: the pipeline is run in ticks, and what each stage does is its list. A forward action
 * lasts 1 tick, a backward action 2, its halves 1 each. A stage that is free takes the first of these that may run:
 *
 *   forward    of the next unit, as long as fewer than `ahead` units are between forward and backward, and fewer than
 *              `held` units hold activations
 *   backward   (of the input, where the weights come later) of the next unit
 *   weights    of the next unit
 *
 * Forward comes first because the stages behind wait for it; the limits make the stage turn to backward in time.
 * A unit is one micro-batch on one chunk. A kind of schedule is just these two limits, and the order of units:
 * micro-batches in groups of as many as there are stages (the last group may be smaller; naive: of one), and in a group
 * chunk after chunk, backward in descending order of chunks. With 2 stages of 2 chunks and 3 micro-batches, unit
 * (chunk, micro):
 *
 *   forward    (0,0) (0,1) (1,0) (1,1) | (0,2) (1,2)        backward   (1,0) (1,1) (0,0) (0,1) | (1,2) (0,2)
 *
 * What follows from it:
 *
 * 1. The lists can be run, for they have been.
 *
 * 2. Forward, backward and weight actions of a chunk each come in ascending order of micro-batches. So one number for
 *    each tells what has been done on a chunk.
 *
 * 3. No number of micro-batches locks up while ahead > (chunks − 1)·(micro-batches of a group). Proof: let k be the
 * fewest units backward on any stage, and take the last stage with k. The gradient for its next unit is there, so only
 * its own forward can be missing; it is at most that many units further in the order than k. So this stage is below its
 * limit. So are those before it: they have had at least k backward, and what is waited for is no later unit there. So
 * each can only wait for the one before it, down to the first chunk, which waits for none. And `held` only ever puts
 *    weights first. */
#include "parallel/schedule/schedule.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

typedef struct stage_course {
    int ahead, held;                  /* limits */
    int forwards, backwards, weights; /* units done */
    bool busy, woken;                 /* an action runs; the stage is in the list `awake` */
} stage_course;

enum { LONGEST = 2 };

typedef struct course {
    ls_schedule *s;
    bool split;          /* gradients of input and weights are apart */
    int units;           /* of a stage */
    stage_course *stage; /* [stages] */
    int *forward_done;   /* by chunk of the whole model: micro-batches */
    int *backward_done;
    /* Stages whose action ends at tick i modulo LONGEST + 1; and those that have something new to look at. */
    int *due[LONGEST + 1], due_count[LONGEST + 1];
    int *awake, awake_count;
} course;

/* ---- order and limits -------------------------------------------------------------------------------------------- */

/* Returns the action of this kind for unit number `unit` of a stage, in the order of units; slots are not set. */
static ls_action unit_action(const ls_schedule *s, ls_action_kind kind, int unit) {
    int most = s->kind == LS_SCHEDULE_NAIVE ? 1 : s->stages;
    int group_units = most * s->chunks;
    int first = unit / group_units * most, at = unit % group_units;
    int size = s->micros - first < most ? s->micros - first : most;
    int chunk = at / size;
    if (kind != LS_ACTION_FORWARD) chunk = s->chunks - 1 - chunk;
    return (ls_action){.kind = kind, .chunk = chunk, .micro = first + at % size, .slot = -1, .kept = -1};
}

/* Sets the two limits of each stage, which define the kind of schedule. */
static void set_limits(course *c) {
    const ls_schedule *s = c->s;
    for (int i = 0; i < s->stages; i++) {
        stage_course *stage = &c->stage[i];
        int behind = s->stages - i - 1;
        stage->ahead = behind + 1;
        stage->held = INT_MAX;
        if (s->kind == LS_SCHEDULE_GPIPE)
            stage->ahead = INT_MAX;
        else if (s->kind == LS_SCHEDULE_NAIVE)
            stage->ahead = s->chunks;
        else if (s->kind == LS_SCHEDULE_ZERO_BUBBLE)
            stage->held = s->stages;
        /* What is forward before the first backward can arrive: a group on all chunks but the last, and twice the way
         * to the last stage. */
        else if (s->chunks > 1)
            stage->ahead = 2 * behind + (s->chunks - 1) * s->stages + 1;
    }
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Returns whether stage i can run this backward action: its own forward, and the input gradient of the chunk after, are
 * done. */
static bool backward_ready(const course *c, int i, const ls_action *a) {
    const ls_schedule *s = c->s;
    int g = a->chunk * s->stages + i;
    if (c->forward_done[g] <= a->micro) return false;
    return g == s->stages * s->chunks - 1 || c->backward_done[g + 1] > a->micro;
}

/* Returns whether the output of the chunk before is done. */
static bool forward_ready(const course *c, int i, const ls_action *a) {
    int g = a->chunk * c->s->stages + i;
    return g == 0 || c->forward_done[g - 1] > a->micro;
}

/* Chooses the next action of stage i; false: none can run now. */
static bool choose(const course *c, int i, ls_action *out) {
    const stage_course *stage = &c->stage[i];
    bool below_limits =
        stage->forwards - stage->backwards < stage->ahead && stage->forwards - stage->weights < stage->held;
    /* The next micro-batch begins when all chunks of the one before are done. */
    if (c->s->kind == LS_SCHEDULE_NAIVE)
        below_limits = below_limits && stage->forwards / c->s->chunks == stage->backwards / c->s->chunks;
    if (stage->forwards < c->units && below_limits) {
        *out = unit_action(c->s, LS_ACTION_FORWARD, stage->forwards);
        if (forward_ready(c, i, out)) return true;
    }
    if (stage->backwards < c->units) {
        *out = unit_action(c->s, c->split ? LS_ACTION_BACKWARD_INPUT : LS_ACTION_BACKWARD, stage->backwards);
        if (backward_ready(c, i, out)) return true;
    }
    if (!c->split || stage->weights == stage->backwards) return false;
    *out = unit_action(c->s, LS_ACTION_BACKWARD_WEIGHTS, stage->weights);
    return true;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Marks a stage to be looked at in this tick. */
static void wake(course *c, int i) {
    if (c->stage[i].woken) return;
    c->stage[i].woken = true;
    c->awake[c->awake_count++] = i;
}

/* Starts the next action of stage i, if it is free and one can run, and appends it to the stage's list. */
static void begin(course *c, int i, int tick) {
    static const int ticks[LS_ACTION_KINDS] = {1, 2, 1, 1};
    stage_course *stage = &c->stage[i];
    stage->woken = false;
    ls_action action;
    if (stage->busy || !choose(c, i, &action)) return;
    stage->busy = true;
    c->s->actions[i][c->s->count[i]++] = action;
    int end = (tick + ticks[action.kind]) % (LONGEST + 1);
    c->due[end][c->due_count[end]++] = i;
}

/* Ends the action of stage i that was started last, and wakes the stages that may wait for it. */
static void end(course *c, int i) {
    stage_course *stage = &c->stage[i];
    int stages = c->s->stages;
    const ls_action *a = &c->s->actions[i][c->s->count[i] - 1];
    int g = a->chunk * stages + i;
    stage->busy = false;
    wake(c, i);
    if (a->kind == LS_ACTION_FORWARD) {
        stage->forwards++;
        c->forward_done[g]++;
        wake(c, (i + 1) % stages);
    } else if (a->kind == LS_ACTION_BACKWARD_WEIGHTS) {
        stage->weights++;
    } else {
        stage->backwards++;
        c->backward_done[g]++;
        wake(c, (i + stages - 1) % stages);
    }
}

/* Runs the pipeline tick by tick until no action is left. */
static void run(course *c) {
    for (int i = 0; i < c->s->stages; i++) wake(c, i);
    for (int tick = 0, idle = 0; idle <= LONGEST; tick = (tick + 1) % (LONGEST + 1)) {
        idle = c->due_count[tick] || c->awake_count ? 0 : idle + 1;
        for (int k = 0; k < c->due_count[tick]; k++) end(c, c->due[tick][k]);
        c->due_count[tick] = 0;
        for (int k = 0; k < c->awake_count; k++) begin(c, c->awake[k], tick);
        c->awake_count = 0;
    }
}

/* Returns whether all units of all stages have been run. */
static bool is_complete(const course *c) {
    for (int i = 0; i < c->s->stages; i++) {
        const stage_course *stage = &c->stage[i];
        if (stage->forwards != c->units || stage->backwards != c->units) return false;
        if (c->split && stage->weights != c->units) return false;
    }
    return true;
}

ls_status ls_schedule_order(ls_schedule *schedule) {
    size_t stages = (size_t)schedule->stages, chunks = stages * (size_t)schedule->chunks;
    course c = {.s = schedule,
                .split = schedule->kind == LS_SCHEDULE_ZERO_BUBBLE,
                .units = schedule->chunks * schedule->micros};
    c.stage = calloc(stages, sizeof *c.stage);
    int *numbers = calloc(2 * chunks + (LONGEST + 2) * stages, sizeof *numbers);
    ls_status status;
    if (!c.stage || !numbers) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a schedule of %d stages", schedule->stages);
        goto out;
    }
    c.forward_done = numbers;
    c.backward_done = c.forward_done + chunks;
    c.awake = c.backward_done + chunks;
    for (int k = 0; k <= LONGEST; k++) c.due[k] = c.awake + (size_t)(k + 1) * stages;
    set_limits(&c);
    run(&c);
    assert(is_complete(&c));
    status = LS_OK;
out:
    free(c.stage);
    free(numbers);
    return status;
}
