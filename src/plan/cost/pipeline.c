/* pipeline.c: the time that a schedule takes with the layers of each stage.
 *
 * The simulator runs the lists of the schedule. After the first micro-batches have filled the pipeline its course
 * repeats, so a long one is simulated twice with fewer micro-batches and continued at the rate between the two. */
#include <stdlib.h>
#include <string.h>

#include "parallel/schedule/simulate.h"
#include "plan/cost/cost_case.h"

double ls_plan_blocked_seconds(const ls_plan_case *c, const double *send, int g) {
    int last = c->layout->pp * c->layout->virtual_stages - 1;
    return c->task->stack.sends_block && g >= 0 && g < last ? send[g % c->layout->pp] : 0;
}

/* [action][stage][chunk of the stage] from tables by chunk, as the simulator wants them. */
static void by_stage(const ls_plan_case *c, const double *forward, const double *backward, double *to) {
    int pp = c->layout->pp, v = c->layout->virtual_stages, chunks = pp * v;
    for (int g = 0; g < chunks; g++) {
        int at = g % pp * v + g / pp;
        to[at] = forward[g];
        to[chunks + at] = backward[g];
        to[2 * chunks + at] = backward[g] / 2;
    }
}

/* `send`: NULL: it takes no time. */
static ls_status simulate(const ls_plan_case *c, int micros, const double *tables, const double *send,
                          double *seconds) {
    int chunks = c->layout->pp * c->layout->virtual_stages;
    ls_schedule schedule;
    ls_simulation simulation;
    ls_simulate_costs costs = {.border_seconds = send};
    costs.seconds[LS_ACTION_FORWARD] = tables;
    costs.seconds[LS_ACTION_BACKWARD] = tables + chunks;
    costs.seconds[LS_ACTION_BACKWARD_INPUT] = tables + 2 * chunks;
    costs.seconds[LS_ACTION_BACKWARD_WEIGHTS] = tables + 2 * chunks;
    LS_TRY(ls_schedule_make(c->layout->schedule, c->layout->pp, c->layout->virtual_stages, micros, &schedule));
    ls_status status = ls_simulate(&schedule, &costs, &simulation);
    if (status == LS_OK) {
        *seconds = simulation.seconds;
        ls_simulation_free(&simulation);
    }
    ls_schedule_free(&schedule);
    return status;
}

/* Of the stage that has most to do, for a micro-batch. */
static double busiest(const ls_plan_case *c, const double *forward, const double *backward) {
    int pp = c->layout->pp, v = c->layout->virtual_stages;
    double most = 0;
    for (int s = 0; s < pp; s++) {
        double own = 0;
        for (int k = 0; k < v; k++) own += forward[k * pp + s] + backward[k * pp + s];
        if (own > most) most = own;
    }
    return most;
}

/* One micro-batch at a time needs no simulation. */
static void naive(const ls_plan_case *c, const double *forward, const double *backward, const double *send,
                  double *seconds, double *bubble) {
    double sum = 0, sends = 0;
    for (int g = 0; g < c->layout->pp; g++) sum += forward[g] + backward[g];
    for (int g = 0; g < c->layout->pp - 1; g++) sends += send[g];
    *seconds = c->micros * (sum + 2 * sends);
    *bubble = c->micros * (sum - busiest(c, forward, backward));
}

/* `tables`: by stage; `most`: of the busiest stage for a micro-batch, which no pace can beat. */
static ls_status course(const ls_plan_case *c, const double *tables, const double *send, double most, double *seconds) {
    int pp = c->layout->pp, few = 2 * pp + c->micros % pp, more = few + 2 * pp;
    if (c->micros <= more || c->layout->schedule == LS_SCHEDULE_GPIPE)
        return simulate(c, c->micros, tables, send, seconds);
    /* The remainder that a last round leaves is in both, so that the two differ in whole rounds alone. */
    double a, b;
    LS_TRY(simulate(c, few, tables, send, &a));
    LS_TRY(simulate(c, more, tables, send, &b));
    double pace = (b - a) / (more - few);
    *seconds = b + (pace > most ? pace : most) * (c->micros - more);
    return LS_OK;
}

/* As if sends took no time, for stages too that wait for them. Then a full pipeline goes at the pace of its busiest
 * stage, which never waits: a short course has all of the bubble. Not so where stages that have several chunks have
 * uneven ones. */
static ls_status free_bubble(const ls_plan_case *c, const double *forward, const double *backward, const double *send,
                             double *tables, double *bubble) {
    int pp = c->layout->pp, v = c->layout->virtual_stages, few = 2 * pp + c->micros % pp;
    bool paced = c->layout->schedule != LS_SCHEDULE_GPIPE && (v == 1 || c->task->shape.L % (size_t)(pp * v) == 0);
    double seconds, most, alone[2][LS_CHUNKS_MAX];
    for (int g = 0; g < pp * v; g++) {
        alone[0][g] = forward[g] - ls_plan_blocked_seconds(c, send, g);
        alone[1][g] = backward[g] - ls_plan_blocked_seconds(c, send, g - 1);
    }
    most = busiest(c, alone[0], alone[1]);
    by_stage(c, alone[0], alone[1], tables);
    if (c->micros < few || !paced) few = c->micros;
    LS_TRY(paced ? simulate(c, few, tables, NULL, &seconds) : course(c, tables, NULL, most, &seconds));
    *bubble = seconds > few * most ? seconds - few * most : 0;
    return LS_OK;
}

ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   const double *send, double *seconds, double *bubble) {
    int pp = c->layout->pp, chunks = pp * c->layout->virtual_stages;
    *bubble = 0;
    if (chunks == 1) {
        *seconds = c->micros * (forward[0] + backward[0]);
        return LS_OK;
    }
    if (c->layout->schedule == LS_SCHEDULE_NAIVE) {
        naive(c, forward, backward, send, seconds, bubble);
        return LS_OK;
    }
    double *tables = malloc(3 * (size_t)chunks * sizeof *tables);
    if (!tables) return ls_fail(LS_ERR_RESOURCE, "out of memory for the times of %d stages", pp);
    by_stage(c, forward, backward, tables);
    ls_status status = course(c, tables, send, busiest(c, forward, backward), seconds);
    if (status == LS_OK) status = free_bubble(c, forward, backward, send, tables, bubble);
    free(tables);
    return status;
}
