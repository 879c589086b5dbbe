/* pipeline.c: the time that a schedule takes with the layers of each stage.
 *
 * The simulator runs the lists of the schedule. After the first micro-batches have filled the pipeline its course
 * repeats, so a long one is simulated twice with fewer micro-batches and continued at the rate between the two. */
#include "plan/cost/cost_case.h"

double ls_plan_blocked_seconds(const ls_plan_case *c, const double *send, int g) {
    int last = c->layout->pp * c->layout->virtual_stages - 1;
    return c->task->stack.sends_block && g >= 0 && g < last ? send[g % c->layout->pp] : 0;
}

ls_status ls_plan_simulate(const ls_plan_case *c, int micros, const double *forward, const double *backward,
                           const double *send, ls_schedule *schedule, ls_simulation *simulation) {
    int pp = c->layout->pp, v = c->layout->virtual_stages;
    double table[3][LS_CHUNKS_MAX]; /* by stage, then by its chunks */
    for (int g = 0; g < pp * v; g++) {
        int at = g % pp * v + g / pp;
        table[0][at] = forward[g];
        table[1][at] = backward[g];
        table[2][at] = backward[g] / 2;
    }
    ls_simulate_costs costs = {.border_seconds = send};
    costs.seconds[LS_ACTION_FORWARD] = table[0];
    costs.seconds[LS_ACTION_BACKWARD] = table[1];
    costs.seconds[LS_ACTION_BACKWARD_INPUT] = costs.seconds[LS_ACTION_BACKWARD_WEIGHTS] = table[2];
    LS_TRY(ls_schedule_make(c->layout->schedule, pp, v, micros, schedule));
    ls_status status = ls_simulate(schedule, &costs, simulation);
    if (status != LS_OK) ls_schedule_free(schedule);
    return status;
}

/* Simulates and returns the seconds alone. */
static ls_status simulate(const ls_plan_case *c, int micros, const double *forward, const double *backward,
                          const double *send, double *seconds) {
    ls_schedule schedule;
    ls_simulation simulation;
    LS_TRY(ls_plan_simulate(c, micros, forward, backward, send, &schedule, &simulation));
    *seconds = simulation.seconds;
    ls_simulation_free(&simulation);
    ls_schedule_free(&schedule);
    return LS_OK;
}

/* Returns the seconds per micro-batch of the stage with the most work. */
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

/* Computes the time of the naive schedule, which needs no simulation: one stage works at a time. */
static void naive(const ls_plan_case *c, const double *forward, const double *backward, const double *send,
                  double *seconds, double *bubble) {
    double sum = 0, sends = 0;
    for (int g = 0; g < c->layout->pp; g++) sum += forward[g] + backward[g];
    for (int g = 0; g < c->layout->pp - 1; g++) sends += send[g];
    *seconds = c->micros * (sum + 2 * sends);
    *bubble = c->micros * (sum - busiest(c, forward, backward));
}

/* Computes the seconds of all micro-batches; a long course is simulated with two smaller numbers and extended
 * linearly. */
static ls_status course(const ls_plan_case *c, const double *forward, const double *backward, const double *send,
                        double *seconds) {
    int pp = c->layout->pp, few = 2 * pp + c->micros % pp, more = few + 2 * pp;
    if (c->micros <= more || c->layout->schedule == LS_SCHEDULE_GPIPE)
        return simulate(c, c->micros, forward, backward, send, seconds);
    /* The remainder that a last round leaves is in both, so that the two differ in whole rounds alone. */
    double a, b, most = busiest(c, forward, backward);
    LS_TRY(simulate(c, few, forward, backward, send, &a));
    LS_TRY(simulate(c, more, forward, backward, send, &b));
    double pace = (b - a) / (more - few); /* none can beat that of the busiest stage */
    *seconds = b + (pace > most ? pace : most) * (c->micros - more);
    return LS_OK;
}

/* Computes the bubble as if sends took no time. A full pipeline runs at the pace of its busiest stage, so a short
 * simulation has the whole bubble, unless stages have several uneven chunks. */
static ls_status free_bubble(const ls_plan_case *c, const double *forward, const double *backward, const double *send,
                             double *bubble) {
    int pp = c->layout->pp, v = c->layout->virtual_stages, few = 2 * pp + c->micros % pp;
    bool paced = c->layout->schedule != LS_SCHEDULE_GPIPE && (v == 1 || c->task->shape.L % (size_t)(pp * v) == 0);
    double seconds, alone[2][LS_CHUNKS_MAX];
    for (int g = 0; g < pp * v; g++) {
        alone[0][g] = forward[g] - ls_plan_blocked_seconds(c, send, g);
        alone[1][g] = backward[g] - ls_plan_blocked_seconds(c, send, g - 1);
    }
    if (c->micros < few || !paced) few = c->micros;
    LS_TRY(paced ? simulate(c, few, alone[0], alone[1], NULL, &seconds)
                 : course(c, alone[0], alone[1], NULL, &seconds));
    double most = busiest(c, alone[0], alone[1]);
    *bubble = seconds > few * most ? seconds - few * most : 0;
    return LS_OK;
}

ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   const double *send, double *seconds, double *bubble) {
    *bubble = 0;
    if (c->layout->pp * c->layout->virtual_stages == 1) {
        *seconds = c->micros * (forward[0] + backward[0]);
        return LS_OK;
    }
    if (c->layout->schedule == LS_SCHEDULE_NAIVE) {
        naive(c, forward, backward, send, seconds, bubble);
        return LS_OK;
    }
    LS_TRY(course(c, forward, backward, send, seconds));
    return free_bubble(c, forward, backward, send, bubble);
}
