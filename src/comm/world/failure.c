/* failure.c: records failures of this worker, and notices those of others. */
#include <stdio.h>

#include "base/child.h"
#include "comm/world/world.h"

void ls_world_fail(ls_world *world, ls_status status) {
    if (!world->failure.failed && status != LS_ERR_PEER) {
        world->failure.cause = status;
        (void)snprintf(world->failure.text, sizeof world->failure.text, "%s", ls_status_message());
    }
    world->failure.failed = true;
    if (world->segment.base && status != LS_ERR_PEER)
        ls_segment_fail(&world->segment, world->rank, status, ls_status_message());
}

ls_status ls_world_check(ls_world *world) {
    if (!world->segment.base) return LS_OK;
    bool failed = ls_segment_failed(&world->segment);
    if (!failed && !ls_segment_is_abandoned(&world->segment)) return LS_OK;
    world->failure.failed = true;
    return ls_fail(LS_ERR_PEER, "another worker %s", failed ? "failed" : "is lost");
}

ls_status ls_world_check_stopped(const ls_world *world, double waited_s) {
    for (int l = 0; world->segment.base && l < world->machines.local_size; l++) {
        const ls_worker_record *record = &world->segment.header->workers[l];
        int pid = atomic_load(&record->pid);
        if (pid && ls_process_state(pid) == 'T' && !ls_process_is_traced(pid))
            return ls_fail(LS_ERR_DEADLINE, "worker %d did not answer within %g s: it is stopped (by SIGSTOP)",
                           record->rank, waited_s);
    }
    return LS_OK;
}

void ls_world_set_late(ls_world *world, int rank) { world->failure.late = rank + 1; }
int ls_world_late(const ls_world *world) { return world->failure.late - 1; }
