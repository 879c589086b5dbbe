/* simulate.h: simulates the lists that the executor runs, given the duration of each action. For the planner, and for
 * timelines before a run. */
#ifndef LS_PARALLEL_SCHEDULE_SIMULATE_H
#define LS_PARALLEL_SCHEDULE_SIMULATE_H

#include <stddef.h>

#include "parallel/schedule/schedule.h"

/* Seconds and bytes; tables are [stages][chunks]. */
typedef struct ls_simulate_costs {
    const double *seconds[LS_ACTION_KINDS]; /* of an action of each kind; NULL: the schedule has none */
    const double *micro_share;              /* by micro-batch: its part of a full one; NULL: all are full */
    double send_seconds;                    /* from the end of an action until another stage has its output */
    const double *border_seconds; /* the same between each stage and the next, cyclically; NULL: send_seconds */
    const size_t *slot_bytes, *kept_bytes; /* NULL: peak_bytes stay 0 */
} ls_simulate_costs;

typedef struct ls_simulated_action {
    double start, end; /* seconds from the start of the step */
} ls_simulated_action;

typedef struct ls_simulation {
    int stages;
    double seconds;                /* until the last action ends */
    double *busy;                  /* by stage: seconds in which it computes */
    size_t *peak_bytes;            /* by stage: of all its slots */
    ls_simulated_action **actions; /* by stage, parallel to the list */
    ls_region memory;
} ls_simulation;

/* Simulates a schedule. Fails with LS_ERR_FAILED for lists that ls_schedule_check() refuses, and with LS_ERR_INPUT for
 * costs that are negative, not finite, or missing for a kind that the lists have. After a failure there is nothing to
 * free. */
ls_status ls_simulate(const ls_schedule *schedule, const ls_simulate_costs *costs, ls_simulation *out);
/* Frees the results; NULL and a zeroed simulation do nothing. */
void ls_simulation_free(ls_simulation *simulation);
/* Returns the fraction of the time, 0 … 1, in which stage s is idle: the pipeline bubble; 0 if no action
 * takes time. */
double ls_simulation_bubble(const ls_simulation *simulation, int s);

#endif
