/* simulate.h: how long a schedule takes, from the durations of its actions; made from the lists that are run. */
#ifndef LS_PARALLEL_SCHEDULE_SIMULATE_H
#define LS_PARALLEL_SCHEDULE_SIMULATE_H

#include <stddef.h>

#include "parallel/schedule/schedule.h"

/* Seconds and bytes; tables are [stages][chunks]. */
typedef struct ls_simulate_costs {
    const double *seconds[LS_ACTION_KINDS]; /* of an action of each kind; NULL: the schedule has none */
    const double *micro_share;              /* by micro-batch: its part of a full one; NULL: all are full */
    double send_seconds;                    /* until what one stage made is with another */
    const double *border_seconds;           /* the same for each stage and the one behind it; NULL: alike for all */
    const size_t *slot_bytes, *kept_bytes;  /* NULL: not asked for */
} ls_simulate_costs;

typedef struct ls_simulated_action {
    double start, end;
} ls_simulated_action;

typedef struct ls_simulation {
    int stages;
    double seconds;                /* until the last action ends */
    double *busy;                  /* by stage */
    size_t *peak_bytes;            /* by stage: of all its slots, 0 where their bytes were not given */
    ls_simulated_action **actions; /* by stage, as the list */
    ls_region memory;
} ls_simulation;

/* LS_ERR_FAILED for lists that cannot be run, LS_ERR_INPUT for costs that are no numbers of 0 or more. After a failure
 * there is nothing to free. */
ls_status ls_simulate(const ls_schedule *schedule, const ls_simulate_costs *costs, ls_simulation *out);
void ls_simulation_free(ls_simulation *simulation);
/* Share of the time of stage s in which it has nothing to do. */
double ls_simulation_bubble(const ls_simulation *simulation, int s);

#endif
