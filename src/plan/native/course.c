/* course.c: simulates a schedule whose stages share the cores of a machine.
 *
 * A stage works on the actions of its list one after the other. An action begins when its input has arrived, first
 * computes and then moves data. While the computing stages have more workers than there are cores, all of them are
 * slower in that proportion; a stage that waits leaves its cores to the others. */
#include <stdlib.h>

#include "plan/native/native.h"

typedef enum state { IDLE, WORKING, MOVING, DONE } state;

typedef struct stage_state {
    state state;
    int next;    /* index of the current or next action */
    double left; /* seconds of it at full speed, of the present state */
} stage_state;

typedef struct course {
    ls_native_course *c;
    stage_state stage[LS_WORKERS_MAX];
    double *ready; /* [2][chunks][micros]: when what forward, or backward, made is there; negative: not yet */
    double now;
} course;

/* Returns the chunks of the whole pipeline. */
static int chunks_of(const course *k) { return k->c->schedule->stages * k->c->schedule->chunks; }

/* Returns where the time is stored at which the output of a chunk (its gradient, if backward) has arrived for a
 * micro-batch. */
static double *ready_at(const course *k, bool backward, int chunk, int micro) {
    size_t micros = (size_t)k->c->schedule->micros, chunks = (size_t)chunks_of(k);
    return &k->ready[((size_t)backward * chunks + (size_t)chunk) * micros + (size_t)micro];
}

/* Returns when the input of a stage's next action is available; negative if that is not known yet. */
static double begin_of(const course *k, int s) {
    const ls_schedule *schedule = k->c->schedule;
    const ls_action *action = &schedule->actions[s][k->stage[s].next];
    int chunk = action->chunk * schedule->stages + s;
    if (action->kind == LS_ACTION_BACKWARD_WEIGHTS) return k->now;
    if (action->kind == LS_ACTION_FORWARD) return chunk == 0 ? k->now : *ready_at(k, false, chunk - 1, action->micro);
    return chunk == chunks_of(k) - 1 ? k->now : *ready_at(k, true, chunk + 1, action->micro);
}

/* Records the end of a stage's action, and makes its output available send_seconds later. */
static void end_action(course *k, int s) {
    const ls_schedule *schedule = k->c->schedule;
    stage_state *st = &k->stage[s];
    const ls_action *action = &schedule->actions[s][st->next];
    int chunk = action->chunk * schedule->stages + s;
    if (action->kind != LS_ACTION_BACKWARD_WEIGHTS)
        *ready_at(k, action->kind != LS_ACTION_FORWARD, chunk, action->micro) = k->now + k->c->send_seconds;
    k->c->action_end[s][st->next] = k->now;
    st->next++;
    st->state = st->next < schedule->count[s] ? IDLE : DONE;
    k->c->end[s] = k->now;
}

/* Makes all changes of state that take no time. Returns whether there was any. */
static bool settle_actions(course *k) {
    bool any = false;
    for (int s = 0; s < k->c->schedule->stages; s++) {
        stage_state *st = &k->stage[s];
        double begin = st->state == IDLE ? begin_of(k, s) : -1;
        if (st->state == IDLE && begin >= 0 && begin <= k->now) {
            *st = (stage_state){WORKING, st->next, k->c->work[s][st->next]};
            k->c->action_begin[s][st->next] = k->now;
            any = true;
        } else if (st->state == WORKING && st->left <= 0) {
            *st = (stage_state){MOVING, st->next, k->c->wait[s][st->next]};
            any = true;
        } else if (st->state == MOVING && st->left <= 0) {
            end_action(k, s);
            any = true;
        }
    }
    return any;
}

/* Returns the share of full speed at which stages work now: less than 1 if they have more workers than cores. */
static double share_of_cores(const course *k) {
    int working = 0;
    for (int s = 0; s < k->c->schedule->stages; s++) working += k->stage[s].state == WORKING;
    double wanted = (double)working * k->c->workers;
    return wanted > k->c->cores ? k->c->cores / wanted : 1;
}

/* Lets time pass until the next event; false if there is none, because all stages are done or deadlocked. */
static bool advance(course *k) {
    double rate = share_of_cores(k), step = -1;
    for (int s = 0; s < k->c->schedule->stages; s++) {
        const stage_state *st = &k->stage[s];
        double until = st->state == WORKING ? st->left / rate : st->state == MOVING ? st->left : -1;
        if (st->state == IDLE && begin_of(k, s) > k->now) until = begin_of(k, s) - k->now;
        if (until >= 0 && (step < 0 || until < step)) step = until;
    }
    if (step < 0) return false;
    for (int s = 0; s < k->c->schedule->stages; s++) {
        stage_state *st = &k->stage[s];
        double part = st->state == WORKING ? rate * step : step;
        if (st->state != WORKING && st->state != MOVING) continue;
        st->left = st->left - part > part * 1e-12 ? st->left - part : 0;
        k->c->busy[s] += step;
    }
    k->now += step;
    return true;
}

ls_status ls_native_course_run(ls_native_course *c) {
    size_t stages = (size_t)c->schedule->stages;
    course k = {.c = c};
    size_t values = 2 * (size_t)chunks_of(&k) * (size_t)c->schedule->micros;
    k.ready = malloc(values * sizeof *k.ready);
    ls_status status = k.ready ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a schedule simulation");
    for (size_t i = 0; status == LS_OK && i < values; i++) k.ready[i] = -1;
    for (size_t s = 0; s < stages; s++) c->end[s] = c->busy[s] = 0;
    while (status == LS_OK) {
        while (settle_actions(&k)) {
        }
        if (!advance(&k)) break;
    }
    for (size_t s = 0; status == LS_OK && s < stages; s++)
        if (k.stage[s].state != DONE) status = ls_fail(LS_ERR_FAILED, "stage %zu of the schedule deadlocks", s);
    free(k.ready);
    return status;
}
