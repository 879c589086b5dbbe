/* self.c: a world of one worker, in this process. */
#include <sched.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/launch/placement.h"
#include "comm/transports/open.h"
#include "comm/transports/transports.h"

/* Makes and opens a world of one worker, without shared memory. */
static ls_status make_world(const ls_workers_options *options, const ls_placement *placement, ls_world *world) {
    *world = (ls_world){.size = 1,
                        .machines.local_size = 1,
                        .threads = placement->threads,
                        .transport = &ls_transport_self,
                        .segment = {.fd = -1}};
    world->machines.of = calloc(1, sizeof(int));
    world->machines.local_of = calloc(1, sizeof(int));
    if (!world->machines.of || !world->machines.local_of) return ls_fail(LS_ERR_RESOURCE, "out of memory for a worker");
    return ls_world_open(world, options, ls_placement_cpus(placement, 0), placement->crowded);
}

/* Runs `fn` as the only worker, in this process, and returns its status. Restores the process's affinity at the end,
 * because the process belongs to the caller. */
static ls_status run_in_process(const ls_workers_options *options, ls_worker_fn fn, void *arg) {
    ls_placement placement;
    cpu_set_t before;
    bool restore = sched_getaffinity(0, sizeof before, &before) == 0;
    LS_TRY(ls_placement_make(1, options->threads, !options->no_pin, &placement));
    if (placement.crowded)
        ls_log_warn("%d threads on %d cores: more threads than cores", placement.threads, placement.cores);
    ls_world world;
    ls_status status = make_world(options, &placement, &world);
    if (status == LS_OK) status = fn(&world, arg);
    ls_world_close(&world);
    if (restore) sched_setaffinity(0, sizeof before, &before);
    ls_placement_free(&placement);
    return status;
}

const ls_transport ls_transport_self = {.name = "self", .run = run_in_process};
