/* check.c: checks statically that lists of actions can be run.
 *
 * First checks each stage's list by itself: order of micro-batches, slots, nothing missing, nothing twice. Then
 * simulates all of them: each stage advances until it needs a result that another one has not produced yet; a stage
 * that produces a result wakes its neighbours. When all stages sleep, either every list is at its end or the lists
 * deadlock. */
#include "parallel/schedule/schedule.h"

#include <stdlib.h>

enum { FREE = -1 };

/* ---- one list ---------------------------------------------------------------------------------------------------- */

/* State of a chunk during the simulation: micro-batches done, and the micro-batch in each slot. */
typedef struct chunk_state {
    int forward, backward, weights;
    int slots, kept;
    int *in_slot, *in_kept;
} chunk_state;

/* Returns LS_ERR_FAILED with the stage, the action and the reason. */
static ls_status refuse(const ls_schedule *s, int stage, int index, const char *reason) {
    const ls_action *a = &s->actions[stage][index];
    bool known = (int)a->kind >= 0 && a->kind < LS_ACTION_KINDS;
    return ls_fail(LS_ERR_FAILED,
                   "pipeline schedule: stage %d, action %d (%s, chunk %d, micro-batch %d, slot %d, kept %d): %s", stage,
                   index, known ? ls_action_kind_name(a->kind) : "of unknown kind", a->chunk, a->micro, a->slot,
                   a->kept, reason);
}

/* Returns whether slot `at` exists and holds this micro-batch, or FREE. */
static bool holds(const int *slots, int count, int at, int content) {
    return at >= 0 && at < count && slots[at] == content;
}

/* Applies a forward action to its chunk's state. Returns NULL, or the rule that the action breaks. */
static const char *take_forward(chunk_state *c, const ls_action *a) {
    if (a->micro != c->forward) return "it is not the next forward micro-batch of its chunk";
    if (!holds(c->in_slot, c->slots, a->slot, FREE)) return "its slot is occupied or does not exist";
    if (a->kept != -1) return "a forward pass has no gradients to keep";
    c->forward++;
    c->in_slot[a->slot] = a->micro;
    return NULL;
}

/* Applies a backward action, in one phase or of the input alone. Returns NULL, or the rule that it breaks. */
static const char *take_backward(chunk_state *c, const ls_action *a) {
    if (a->micro != c->backward) return "it is not the next backward micro-batch of its chunk";
    if (a->micro >= c->forward) return "its forward pass has not run yet";
    if (!holds(c->in_slot, c->slots, a->slot, a->micro)) return "its activations are not in this slot";
    c->backward++;
    if (a->kind == LS_ACTION_BACKWARD_INPUT) {
        if (!holds(c->in_kept, c->kept, a->kept, FREE)) return "its gradient slot is occupied or does not exist";
        c->in_kept[a->kept] = a->micro;
        return NULL;
    }
    if (a->micro != c->weights) return "the weight gradients of earlier micro-batches are missing";
    if (a->kept != -1) return "it has no gradients to keep for later";
    c->weights++;
    c->in_slot[a->slot] = FREE;
    return NULL;
}

/* Applies a backward action of the weights alone. Returns NULL, or the rule that it breaks. */
static const char *take_weights(chunk_state *c, const ls_action *a) {
    if (a->micro != c->weights) return "it is not the next weight-gradient micro-batch of its chunk";
    if (a->micro >= c->backward) return "its backward pass has not run yet";
    if (!holds(c->in_slot, c->slots, a->slot, a->micro)) return "its activations are not in this slot";
    if (!holds(c->in_kept, c->kept, a->kept, a->micro)) return "its gradients are not in this gradient slot";
    c->weights++;
    c->in_slot[a->slot] = FREE;
    c->in_kept[a->kept] = FREE;
    return NULL;
}

/* Checks the numbers of an action and applies it; NULL: it is legal. */
static const char *take(const ls_schedule *s, chunk_state *chunks, const ls_action *a) {
    if ((int)a->kind < 0 || a->kind >= LS_ACTION_KINDS) return "unknown kind of action";
    if (a->chunk < 0 || a->chunk >= s->chunks) return "the stage has no such chunk";
    if (a->micro < 0 || a->micro >= s->micros) return "there is no such micro-batch";
    chunk_state *c = &chunks[a->chunk];
    if (a->kind == LS_ACTION_FORWARD) return take_forward(c, a);
    return a->kind == LS_ACTION_BACKWARD_WEIGHTS ? take_weights(c, a) : take_backward(c, a);
}

/* Applies all actions of a stage, and checks that each chunk has run all micro-batches. */
static ls_status walk_list(const ls_schedule *s, int stage, chunk_state *chunks) {
    for (int i = 0; i < s->count[stage]; i++) {
        const char *reason = take(s, chunks, &s->actions[stage][i]);
        if (reason) return refuse(s, stage, i, reason);
    }
    for (int k = 0; k < s->chunks; k++) {
        const chunk_state *c = &chunks[k];
        if (c->forward == s->micros && c->backward == s->micros && c->weights == s->micros) continue;
        return ls_fail(LS_ERR_FAILED,
                       "pipeline schedule: after all %d actions of stage %d, chunk %d has run forward for %d, backward "
                       "for %d and weight gradients for %d of the %d micro-batches",
                       s->count[stage], stage, k, c->forward, c->backward, c->weights, s->micros);
    }
    return LS_OK;
}

/* Checks the list of one stage by itself. */
static ls_status check_list(const ls_schedule *s, int stage) {
    size_t chunk_count = (size_t)s->chunks, slots = 0;
    for (int k = 0; k < s->chunks; k++)
        slots += (size_t)ls_schedule_slots(s, stage, k) + (size_t)ls_schedule_kept(s, stage, k);
    ls_status status;
    chunk_state *chunks = calloc(chunk_count, sizeof *chunks);
    int *content = malloc(slots * sizeof *content);
    if (!chunks || !content) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "out of memory to check the schedule of stage %d", stage);
        goto out;
    }
    for (size_t i = 0; i < slots; i++) content[i] = FREE;
    int *next = content;
    for (int k = 0; k < s->chunks; k++) {
        chunk_state *c = &chunks[k];
        c->slots = ls_schedule_slots(s, stage, k);
        c->kept = ls_schedule_kept(s, stage, k);
        c->in_slot = next;
        c->in_kept = next + c->slots;
        next = c->in_kept + c->kept;
    }
    status = walk_list(s, stage, chunks);
out:
    free(chunks);
    free(content);
    return status;
}

/* ---- all lists --------------------------------------------------------------------------------------------------- */

typedef struct replay {
    const ls_schedule *s;
    int *at;           /* by stage: actions done */
    int *forward_done; /* by chunk of the whole model: micro-batches */
    int *backward_done;
    int *awake, awake_count;
    bool *is_awake;
} replay;

/* Marks a stage to be advanced. */
static void wake(replay *r, int stage) {
    if (r->is_awake[stage]) return;
    r->is_awake[stage] = true;
    r->awake[r->awake_count++] = stage;
}

/* Returns whether the result of another stage that the action needs is there. */
static bool is_ready(const replay *r, int stage, const ls_action *a) {
    const ls_schedule *s = r->s;
    int g = a->chunk * s->stages + stage;
    if (a->kind == LS_ACTION_FORWARD) return g == 0 || r->forward_done[g - 1] > a->micro;
    if (a->kind == LS_ACTION_BACKWARD_WEIGHTS) return true;
    return g == s->stages * s->chunks - 1 || r->backward_done[g + 1] > a->micro;
}

/* Runs the stage's actions until one waits for another stage, and wakes the neighbours if any ran. */
static void advance(replay *r, int stage, ls_schedule_visit *visit, void *context) {
    const ls_schedule *s = r->s;
    int before = r->at[stage];
    for (; r->at[stage] < s->count[stage]; r->at[stage]++) {
        const ls_action *a = &s->actions[stage][r->at[stage]];
        if (!is_ready(r, stage, a)) break;
        if (visit) visit(context, stage, r->at[stage]);
        int g = a->chunk * s->stages + stage;
        if (a->kind == LS_ACTION_FORWARD)
            r->forward_done[g]++;
        else if (a->kind != LS_ACTION_BACKWARD_WEIGHTS)
            r->backward_done[g]++;
    }
    if (r->at[stage] == before) return;
    wake(r, (stage + 1) % s->stages);
    wake(r, (stage + s->stages - 1) % s->stages);
}

/* Advances all stages to the end of their lists; LS_ERR_FAILED: they deadlock. */
static ls_status replay_all(replay *r, ls_schedule_visit *visit, void *context) {
    const ls_schedule *s = r->s;
    for (int stage = s->stages - 1; stage >= 0; stage--) wake(r, stage);
    while (r->awake_count) {
        int stage = r->awake[--r->awake_count];
        r->is_awake[stage] = false;
        advance(r, stage, visit, context);
    }
    for (int stage = 0; stage < s->stages; stage++)
        if (r->at[stage] < s->count[stage])
            return refuse(s, stage, r->at[stage], "deadlock: the action that it depends on never runs");
    return LS_OK;
}

ls_status ls_schedule_replay(const ls_schedule *schedule, ls_schedule_visit *visit, void *context) {
    size_t stages = (size_t)schedule->stages, chunks = stages * (size_t)schedule->chunks;
    replay r = {.s = schedule};
    int *numbers = calloc(2 * stages + 2 * chunks, sizeof *numbers);
    r.is_awake = calloc(stages, sizeof *r.is_awake);
    ls_status status;
    if (!numbers || !r.is_awake) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "out of memory to check the schedule of %d stages", schedule->stages);
        goto out;
    }
    r.at = numbers;
    r.awake = r.at + stages;
    r.forward_done = r.awake + stages;
    r.backward_done = r.forward_done + chunks;
    status = replay_all(&r, visit, context);
out:
    free(numbers);
    free(r.is_awake);
    return status;
}

/* ---- everything -------------------------------------------------------------------------------------------------- */

/* Checks that sizes and lists are within limits, so that the other checks can index with them. */
static ls_status check_sizes(const ls_schedule *s) {
    if (s->stages < 1 || s->chunks < 1 || s->micros < 1 || s->stages > LS_SCHEDULE_UNITS_MAX / s->chunks ||
        s->micros > LS_SCHEDULE_UNITS_MAX / (s->stages * s->chunks) || !s->count || !s->actions || !s->slots ||
        !s->kept)
        return ls_fail(LS_ERR_FAILED, "pipeline schedule: %d stages, %d chunks, %d micro-batches, or no action lists",
                       s->stages, s->chunks, s->micros);
    for (int stage = 0; stage < s->stages; stage++) {
        if (s->count[stage] < 1 || !s->actions[stage])
            return ls_fail(LS_ERR_FAILED, "pipeline schedule: stage %d has %d actions", stage, s->count[stage]);
        for (int k = 0; k < s->chunks; k++) {
            int slots = ls_schedule_slots(s, stage, k), kept = ls_schedule_kept(s, stage, k);
            if (slots >= 1 && slots <= s->micros && kept >= 0 && kept <= s->micros) continue;
            return ls_fail(LS_ERR_FAILED,
                           "pipeline schedule: stage %d, chunk %d has %d activation slots and %d gradient slots for %d "
                           "micro-batches",
                           stage, k, slots, kept, s->micros);
        }
    }
    return LS_OK;
}

ls_status ls_schedule_check(const ls_schedule *schedule) {
    LS_TRY(check_sizes(schedule));
    for (int stage = 0; stage < schedule->stages; stage++) LS_TRY(check_list(schedule, stage));
    return ls_schedule_replay(schedule, NULL, NULL);
}
