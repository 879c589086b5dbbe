/* schedule.c: makes and frees schedules, and gives their actions slots. action_order.c decides the order of the
 * actions.
 */
#include "parallel/schedule/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *ls_action_kind_name(ls_action_kind kind) {
    static const char *const names[LS_ACTION_KINDS] = {
        [LS_ACTION_FORWARD] = "forward",
        [LS_ACTION_BACKWARD] = "backward",
        [LS_ACTION_BACKWARD_INPUT] = "backward-input",
        [LS_ACTION_BACKWARD_WEIGHTS] = "backward-weights",
    };
    assert(kind < LS_ACTION_KINDS);
    return names[kind];
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns LS_ERR_INPUT if a number is below 1, or there are too many actions. */
static ls_status check_sizes(int stages, int chunks, int micros) {
    if (stages < 1 || chunks < 1 || micros < 1)
        return ls_fail(LS_ERR_INPUT,
                       "a schedule of %d stages with %d chunks and %d micro-batches; each must be 1 or more", stages,
                       chunks, micros);
    if (stages > LS_SCHEDULE_UNITS_MAX / chunks || micros > LS_SCHEDULE_UNITS_MAX / (stages * chunks))
        return ls_fail(LS_ERR_INPUT,
                       "a schedule of %d stages with %d chunks and %d micro-batches is too large: their product may be "
                       "at most %d; use larger micro-batches",
                       stages, chunks, micros, LS_SCHEDULE_UNITS_MAX);
    return LS_OK;
}

/* Allocates the lists, for `actions_each` actions per micro-batch and chunk. */
static ls_status allocate(ls_schedule *s, int actions_each) {
    size_t stages = (size_t)s->stages, chunks = (size_t)s->chunks;
    size_t actions = chunks * (size_t)s->micros * (size_t)actions_each;
    s->count = ls_region_take(&s->memory, stages, sizeof *s->count);
    s->actions = ls_region_take(&s->memory, stages, sizeof *s->actions);
    s->slots = ls_region_take(&s->memory, stages * chunks, sizeof *s->slots);
    s->kept = ls_region_take(&s->memory, stages * chunks, sizeof *s->kept);
    for (size_t i = 0; s->actions && i < stages; i++)
        s->actions[i] = ls_region_take(&s->memory, actions, sizeof **s->actions);
    if (!s->memory.is_short) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a schedule of %d micro-batches", s->micros);
}

void ls_schedule_free(ls_schedule *schedule) {
    if (!schedule) return;
    ls_region_free(&schedule->memory);
    *schedule = (ls_schedule){0};
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

/* The slots of one chunk. */
typedef struct slot_set {
    bool *taken; /* [micros] */
    int *of;     /* [micros]: the slot of a micro-batch */
    int lowest;  /* none below it is free */
    int most;
} slot_set;

/* Gives a micro-batch the lowest free slot, and returns it. */
static int slot_take(slot_set *set, int micro) {
    int slot = set->lowest;
    while (set->taken[slot]) slot++;
    set->taken[slot] = true;
    set->of[micro] = slot;
    set->lowest = slot + 1;
    if (slot >= set->most) set->most = slot + 1;
    return slot;
}

/* Frees the slot of a micro-batch, and returns it. */
static int slot_give(slot_set *set, int micro) {
    int slot = set->of[micro];
    set->taken[slot] = false;
    if (slot < set->lowest) set->lowest = slot;
    return slot;
}

/* Sets the slots that an action uses: forward takes one, the last action that reads the activations frees it. */
static void assign_action(ls_action *a, slot_set *slots, slot_set *kept) {
    a->kept = -1;
    switch (a->kind) {
    case LS_ACTION_FORWARD: a->slot = slot_take(slots, a->micro); break;
    case LS_ACTION_BACKWARD: a->slot = slot_give(slots, a->micro); break;
    case LS_ACTION_BACKWARD_INPUT:
        a->slot = slots->of[a->micro];
        a->kept = slot_take(kept, a->micro);
        break;
    default: a->slot = slot_give(slots, a->micro); a->kept = slot_give(kept, a->micro);
    }
}

/* Sets the slots of all actions, chunk by chunk, and how many each chunk needs. */
static ls_status assign_slots(ls_schedule *s) {
    size_t micros = (size_t)s->micros;
    int *of = malloc(2 * micros * sizeof *of);
    bool *taken = malloc(2 * micros * sizeof *taken);
    ls_status status = LS_OK;
    if (!of || !taken) {
        status =
            ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the activation slots of %d micro-batches", s->micros);
        goto out;
    }
    for (int i = 0; i < s->stages * s->chunks; i++) {
        int stage = i / s->chunks, chunk = i % s->chunks;
        memset(taken, 0, 2 * micros * sizeof *taken);
        slot_set slots = {.taken = taken, .of = of}, kept = {.taken = taken + micros, .of = of + micros};
        for (int j = 0; j < s->count[stage]; j++) {
            ls_action *a = &s->actions[stage][j];
            if (a->chunk == chunk) assign_action(a, &slots, &kept);
        }
        s->slots[i] = slots.most;
        s->kept[i] = kept.most;
    }
out:
    free(of);
    free(taken);
    return status;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

ls_status ls_schedule_make(ls_schedule_kind kind, int stages, int chunks, int micros, ls_schedule *out) {
    *out = (ls_schedule){0};
    if ((int)kind < 0 || kind >= LS_SCHEDULE_KINDS)
        return ls_fail(LS_ERR_INPUT, "unknown pipeline schedule number %d", (int)kind);
    if (kind != LS_SCHEDULE_INTERLEAVED && kind != LS_SCHEDULE_NAIVE && chunks > 1)
        return ls_fail(LS_ERR_INPUT,
                       "schedule %s with %d chunks per stage: only interleaved and naive support several; use one of "
                       "them, or 1 chunk",
                       ls_schedule_kind_name(kind), chunks);
    LS_TRY(check_sizes(stages, chunks, micros));
    ls_schedule s = {.kind = kind, .stages = stages, .chunks = chunks, .micros = micros};
    ls_status status;
    LS_TRY_OUT(allocate(&s, kind == LS_SCHEDULE_ZERO_BUBBLE ? 3 : 2));
    LS_TRY_OUT(ls_schedule_order(&s));
    LS_TRY_OUT(assign_slots(&s));
    *out = s;
    return LS_OK;
out:
    ls_schedule_free(&s);
    return status;
}
