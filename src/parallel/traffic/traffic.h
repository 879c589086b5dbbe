/* traffic.h: predicts the communication of a training step: calls and bytes of one worker, as ls_comm_traffic() counts
 * them.
 *
 * Nothing is run. The formulas are those of docs/reference/memory-and-traffic.md; a test compares them with what
 * workers count. They hold for a step that follows another step: with zero 3, weights that an evaluation has gathered
 * in between are not gathered again. A step whose gradient is not finite publishes no weights. Of the checks of a
 * run, only that of replicas is included (ls_layout_task.checks_replicas), and as it is if all are equal. */
#ifndef LS_PARALLEL_TRAFFIC_TRAFFIC_H
#define LS_PARALLEL_TRAFFIC_TRAFFIC_H

#include "comm/communicators/communicators.h"
#include "parallel/layout/layout.h"

/* The communicators of a worker: those of the mesh, LS_AXIS_*, and that of all workers. */
enum { LS_TRAFFIC_WORLD = LS_AXIS_COUNT, LS_TRAFFIC_AXES };
/* Words that each worker adds to the sum of a step to report its times (run/worker_time.h). */
enum { LS_TRAFFIC_TIME_NUMBERS = 3 };

typedef struct ls_step_traffic {
    ls_traffic of[LS_TRAFFIC_AXES][LS_TRAFFIC_KINDS]; /* by communicator, by kind of collective or message */
} ls_step_traffic;

/* Computes the traffic of the worker at `place`. The layout must fit the task, and its micro be set. Fails with
 * LS_ERR_RESOURCE alone. */
ls_status ls_traffic_of_step(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place,
                             ls_step_traffic *out);
/* Adds `more` to `sum`. */
void ls_traffic_add(ls_step_traffic *sum, const ls_step_traffic *more);

/* Returns "dp", "tp", "pp" or "world". comm/world/request.h names the kinds: ls_traffic_kind_name(). */
const char *ls_traffic_axis_name(int axis);

#endif
