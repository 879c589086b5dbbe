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

ls_status ls_plan_pipeline_seconds(const ls_plan_case *c, const double *forward, const double *backward,
                                   double send_seconds, double *seconds) {
    int pp = c->layout->pp, chunks = pp * c->layout->virtual_stages, micros = c->micros;
    if (chunks == 1) {
        *seconds = micros * (forward[0] + backward[0]);
        return LS_OK;
    }
    double *tables = malloc(3 * (size_t)chunks * sizeof *tables);
    if (!tables) return ls_fail(LS_ERR_RESOURCE, "out of memory for the times of %d stages", pp);
    by_stage(c, forward, tables);
    by_stage(c, backward, tables + chunks);
    for (int g = 0; g < chunks; g++) tables[2 * chunks + g] = tables[chunks + g] / 2;
    int few = 3 * pp, more = 4 * pp;
    ls_status status;
    if (micros <= more || c->layout->schedule == LS_SCHEDULE_GPIPE) {
        status = simulate(c, micros, tables, send_seconds, seconds);
    } else {
        double a = 0, b = 0;
        /* The remainder that a last round leaves is kept, so that the two differ in whole rounds alone. */
        few += micros % pp;
        status = simulate(c, few, tables, send_seconds, &a);
        if (status == LS_OK) status = simulate(c, few + pp, tables, send_seconds, &b);
        *seconds = a + (b - a) * ((double)(micros - few) / pp);
    }
    free(tables);
    return status;
}
