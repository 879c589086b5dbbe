/* pipeline.c: layers of each stage, and the time that a schedule takes with them.
 *
 * The simulator runs the lists of the schedule. After the first micro-batches have filled the pipeline its course
 * repeats, so a long one is simulated twice with fewer micro-batches and continued at the rate between the two. */
#include <stdlib.h>
#include <string.h>

#include "parallel/simulate.h"
#include "plan/case.h"

void ls_plan_divide(const ls_plan_case *c, double layer_seconds, const ls_ends_time *ends, int *layers) {
    int chunks = c->layout->pp * c->layout->virtual_stages, L = (int)c->task->shape.L;
    double first = ends->embed_forward + ends->embed_backward, last = ends->head_forward + ends->head_backward;
    for (int g = 0; g < chunks; g++) layers[g] = L / chunks;
    for (int left = L % chunks; left > 0; left--) {
        /* One more for the chunk that then has least to do; the ends have their own work beside the layers. */
        int best = -1;
        double least = 0;
        for (int g = chunks - 1; g >= 0; g--) {
            double load = layers[g] * layer_seconds + (g == 0 ? first : 0) + (g == chunks - 1 ? last : 0);
            if (best < 0 || load < least) {
                best = g;
                least = load;
            }
        }
        layers[best]++;
    }
}

/* [stage][chunk of the stage] from tables by chunk. */
static void by_stage(const ls_plan_case *c, const double *from, double *to) {
    int pp = c->layout->pp, v = c->layout->virtual_stages;
    for (int s = 0; s < pp; s++)
        for (int k = 0; k < v; k++) to[s * v + k] = from[k * pp + s];
}

static ls_status simulate(const ls_plan_case *c, int micros, const double *tables, double send, double *seconds) {
    int chunks = c->layout->pp * c->layout->virtual_stages;
    ls_schedule schedule;
    ls_simulation simulation;
    ls_simulate_costs costs = {.send_seconds = send};
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
static void naive(const ls_plan_case *c, const double *forward, const double *backward, double send, double *seconds,
                  double *bubble) {
    double sum = 0;
    for (int g = 0; g < c->layout->pp; g++) sum += forward[g] + backward[g];
    *seconds = c->micros * (sum + 2 * (c->layout->pp - 1) * send);
    *bubble = c->micros * (sum - busiest(c, forward, backward));
}

/* `tables`: by stage; `most`: of the busiest stage for a micro-batch, which no pace can beat. */
static ls_status course(const ls_plan_case *c, const double *tables, double send, double most, double *seconds) {
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

/* Without sends a full pipeline goes at the pace of its busiest stage, which then never waits: a short course has all
 * of the bubble. Not so where stages that have several chunks have uneven ones. */
static ls_status free_bubble(const ls_plan_case *c, const double *tables, double most, double *bubble) {
    int pp = c->layout->pp, v = c->layout->virtual_stages, few = 2 * pp + c->micros % pp;
    bool paced = c->layout->schedule != LS_SCHEDULE_GPIPE && (v == 1 || c->task->shape.L % (size_t)(pp * v) == 0);
    double seconds;
    if (c->micros < few || !paced) few = c->micros;
    LS_TRY(paced ? simulate(c, few, tables, 0, &seconds) : course(c, tables, 0, most, &seconds));
    *bubble = seconds > few * most ? seconds - few * most : 0;
    return LS_OK;
}

ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   double send_seconds, double *seconds, double *bubble) {
    int pp = c->layout->pp, chunks = pp * c->layout->virtual_stages;
    *bubble = 0;
    if (chunks == 1) {
        *seconds = c->micros * (forward[0] + backward[0]);
        return LS_OK;
    }
    if (c->layout->schedule == LS_SCHEDULE_NAIVE) {
        naive(c, forward, backward, send_seconds, seconds, bubble);
        return LS_OK;
    }
    double *tables = malloc(3 * (size_t)chunks * sizeof *tables);
    if (!tables) return ls_fail(LS_ERR_RESOURCE, "out of memory for the times of %d stages", pp);
    by_stage(c, forward, tables);
    by_stage(c, backward, tables + chunks);
    for (int g = 0; g < chunks; g++) tables[2 * chunks + g] = tables[chunks + g] / 2;
    double most = busiest(c, forward, backward);
    ls_status status = course(c, tables, send_seconds, most, seconds);
    if (status == LS_OK) status = free_bubble(c, tables, most, bubble);
    free(tables);
    return status;
}
