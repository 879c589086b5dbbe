/* count_traffic.h: what a worker has counted on its communicators, beside what the formulas say. No assertions: a
 * worker that finds a difference fails with a message that names it. */
#ifndef COUNT_TRAFFIC_H
#define COUNT_TRAFFIC_H

#include "parallel/traffic/traffic.h"
#include "run/trainer.h"

static inline const ls_comm *comm_of(const ls_trainer *t, int axis) {
    return axis == LS_TRAFFIC_WORLD ? ls_world_comm(t->world) : ls_mesh_comm(t->mesh, (ls_axis)axis);
}

static inline ls_step_traffic look(const ls_trainer *t) {
    ls_step_traffic now;
    for (int a = 0; a < LS_TRAFFIC_AXES; a++)
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) ls_comm_traffic(comm_of(t, a), (ls_traffic_kind)k, &now.of[a][k]);
    return now;
}

/* The difference of the two looks is the traffic of one step. */
static inline ls_status compare_traffic(const ls_layout_task *task, const ls_trainer *t, const ls_step_traffic *before,
                                        const ls_step_traffic *now) {
    ls_step_traffic want;
    LS_TRY(ls_traffic_of_step(task, &t->layout, ls_layout_place(&t->layout, t->rank), &want));
    for (int a = 0; a < LS_TRAFFIC_AXES; a++)
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            uint64_t calls = now->of[a][k].calls - before->of[a][k].calls;
            uint64_t bytes = now->of[a][k].bytes - before->of[a][k].bytes;
            if (calls == want.of[a][k].calls && bytes == want.of[a][k].bytes) continue;
            return ls_fail(LS_ERR_FAILED, "%s, %s: counted %llu calls, %llu bytes; by the formula %llu, %llu",
                           ls_traffic_axis_name(a), ls_traffic_kind_name((ls_traffic_kind)k), (unsigned long long)calls,
                           (unsigned long long)bytes, (unsigned long long)want.of[a][k].calls,
                           (unsigned long long)want.of[a][k].bytes);
        }
    return LS_OK;
}

#endif
