/* simulate.c: computes when each action of a schedule would run. An action starts when its stage has ended the one
 * before and its input is there: when the neighbour that makes it has ended, and the time of a send later if that is
 * another stage. */
#include "parallel/schedule/simulate.h"

#include <math.h>
#include <stdlib.h>

typedef struct clockwork {
    const ls_schedule *s;
    const ls_simulate_costs *costs;
    ls_simulation *out;
    double *free_at;      /* by stage */
    double *forward_end;  /* [chunks of the model][micros] */
    double *backward_end; /* of input gradients */
} clockwork;

/* ---- costs ------------------------------------------------------------------------------------------------------- */

static bool is_duration(double x) { return isfinite(x) && x >= 0; }

/* Returns LS_ERR_INPUT if a time is negative or not finite, or missing for a kind that the schedule has. */
static ls_status check_costs(const ls_schedule *s, const ls_simulate_costs *costs) {
    if (!is_duration(costs->send_seconds))
        return ls_fail(LS_ERR_INPUT, "send time is %g s; it must be 0 or more", costs->send_seconds);
    for (int i = 0; costs->border_seconds && i < s->stages; i++)
        if (!is_duration(costs->border_seconds[i]))
            return ls_fail(LS_ERR_INPUT, "send time from stage %d is %g s; it must be 0 or more", i,
                           costs->border_seconds[i]);
    for (int kind = 0; kind < LS_ACTION_KINDS; kind++)
        for (int i = 0; costs->seconds[kind] && i < s->stages * s->chunks; i++)
            if (!is_duration(costs->seconds[kind][i]))
                return ls_fail(LS_ERR_INPUT, "the time of %s on stage %d, chunk %d is %g s; it must be 0 or more",
                               ls_action_kind_name((ls_action_kind)kind), i / s->chunks, i % s->chunks,
                               costs->seconds[kind][i]);
    for (int m = 0; costs->micro_share && m < s->micros; m++)
        if (!is_duration(costs->micro_share[m]))
            return ls_fail(LS_ERR_INPUT, "the size of micro-batch %d is %g of a full one; it must be 0 or more", m,
                           costs->micro_share[m]);
    for (int stage = 0; stage < s->stages; stage++)
        for (int i = 0; i < s->count[stage]; i++)
            if (!costs->seconds[s->actions[stage][i].kind])
                return ls_fail(LS_ERR_INPUT, "the schedule has actions of kind %s, but no times for them are given",
                               ls_action_kind_name(s->actions[stage][i].kind));
    return LS_OK;
}

/* Adds `count` slots of bytes[i] each to *sum; LS_ERR_INPUT on overflow. `bytes` NULL: adds nothing. */
static ls_status add_bytes(size_t *sum, int count, const size_t *bytes, int i) {
    size_t all;
    if (!bytes) return LS_OK;
    if (__builtin_mul_overflow((size_t)count, bytes[i], &all) || __builtin_add_overflow(*sum, all, sum))
        return ls_fail(LS_ERR_INPUT, "%d slots of %zu bytes overflow a 64-bit size", count, bytes[i]);
    return LS_OK;
}

/* Computes the peak memory of each stage: all its slots. */
static ls_status sum_bytes(const ls_schedule *s, const ls_simulate_costs *costs, ls_simulation *out) {
    for (int i = 0; i < s->stages * s->chunks; i++) {
        size_t *sum = &out->peak_bytes[i / s->chunks];
        LS_TRY(add_bytes(sum, s->slots[i], costs->slot_bytes, i));
        LS_TRY(add_bytes(sum, s->kept[i], costs->kept_bytes, i));
    }
    return LS_OK;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Returns the time of a send between a stage and the next one, which for the last stage is the first. */
static double send_of(const clockwork *w, int stage) {
    if (w->s->stages < 2) return 0;
    return w->costs->border_seconds ? w->costs->border_seconds[stage] : w->costs->send_seconds;
}

/* Computes start and end of an action; called for each, after those that it waits for. */
static void time_action(void *context, int stage, int index) {
    clockwork *w = context;
    const ls_schedule *s = w->s;
    const ls_action *a = &s->actions[stage][index];
    int g = a->chunk * s->stages + stage, last = s->stages * s->chunks - 1;
    size_t micros = (size_t)s->micros, at = (size_t)g * micros + (size_t)a->micro;
    double ready = 0;
    bool forward = a->kind == LS_ACTION_FORWARD, weights = a->kind == LS_ACTION_BACKWARD_WEIGHTS;
    if (forward && g > 0) ready = w->forward_end[at - micros] + send_of(w, (g - 1) % s->stages);
    if (!forward && !weights && g < last) ready = w->backward_end[at + micros] + send_of(w, stage);

    double lasts = w->costs->seconds[a->kind][stage * s->chunks + a->chunk];
    if (w->costs->micro_share) lasts *= w->costs->micro_share[a->micro];
    double start = ready > w->free_at[stage] ? ready : w->free_at[stage], end = start + lasts;
    w->free_at[stage] = end;
    if (forward)
        w->forward_end[at] = end;
    else if (!weights)
        w->backward_end[at] = end;
    w->out->actions[stage][index] = (ls_simulated_action){start, end};
    w->out->busy[stage] += lasts;
    if (end > w->out->seconds) w->out->seconds = end;
}

/* Computes the times of all actions. */
static ls_status run(const ls_schedule *s, const ls_simulate_costs *costs, ls_simulation *out) {
    size_t stages = (size_t)s->stages, units = stages * (size_t)s->chunks * (size_t)s->micros;
    double *numbers = calloc(stages + 2 * units, sizeof *numbers);
    if (!numbers) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory to simulate %d micro-batches", s->micros);
    clockwork w = {.s = s, .costs = costs, .out = out, .free_at = numbers};
    w.forward_end = numbers + stages;
    w.backward_end = w.forward_end + units;
    ls_status status = ls_schedule_replay(s, time_action, &w);
    free(numbers);
    return status;
}

/* ---- result ------------------------------------------------------------------------------------------------------ */

/* Allocates the result; the caller frees it, also after an error. */
static ls_status allocate(const ls_schedule *s, ls_simulation *out) {
    size_t stages = (size_t)s->stages;
    *out = (ls_simulation){.stages = s->stages};
    out->busy = ls_region_take(&out->memory, stages, sizeof *out->busy);
    out->peak_bytes = ls_region_take(&out->memory, stages, sizeof *out->peak_bytes);
    out->actions = ls_region_take(&out->memory, stages, sizeof *out->actions);
    for (size_t i = 0; out->actions && i < stages; i++)
        out->actions[i] = ls_region_take(&out->memory, (size_t)s->count[i], sizeof **out->actions);
    return out->memory.is_short ? ls_fail(LS_ERR_RESOURCE, "out of memory to simulate %d stages", s->stages) : LS_OK;
}

void ls_simulation_free(ls_simulation *simulation) {
    if (!simulation) return;
    ls_region_free(&simulation->memory);
    *simulation = (ls_simulation){0};
}

ls_status ls_simulate(const ls_schedule *schedule, const ls_simulate_costs *costs, ls_simulation *out) {
    *out = (ls_simulation){0};
    LS_TRY(ls_schedule_check(schedule));
    LS_TRY(check_costs(schedule, costs));
    ls_status status;
    LS_TRY_OUT(allocate(schedule, out));
    LS_TRY_OUT(sum_bytes(schedule, costs, out));
    LS_TRY_OUT(run(schedule, costs, out));
    return LS_OK;
out:
    ls_simulation_free(out);
    return status;
}

double ls_simulation_bubble(const ls_simulation *simulation, int s) {
    return simulation->seconds > 0 ? 1 - simulation->busy[s] / simulation->seconds : 0;
}
