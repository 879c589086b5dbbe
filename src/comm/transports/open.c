/* open.c: opens and closes a worker's world: heap, threads, heartbeat, and the communicator of all workers. */
#include "comm/transports/open.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fpenv.h"
#include "comm/communicators/communicators.h"
#include "comm/world/beat.h"
#include "comm/world/words.h"

/* Long enough to bridge the skew between workers in lock step: on a virtual machine waking a sleeper costs up to a
 * tenth of this, and delays its peers in turn. Only workers with cores of their own spin. */
static const uint64_t spin_default_ns = 1000000;

ls_status ls_world_open(ls_world *world, const ls_workers_options *options, const int *cpus, bool crowded) {
    world->timeout_s = options->timeout_s > 0 ? options->timeout_s : 300;
    if (world->threads < 1) world->threads = 1;
    if (!world->attempt) world->place = world->machines.local;
    world->spin_ns = crowded ? 0 : spin_default_ns;
    ls_fpenv_set();
    ls_status status;
    LS_TRY_OUT(ls_wire_open(world, options));
    if (world->segment.base) {
        ls_worker_record *mine = &world->segment.header->workers[world->machines.local];
        mine->rank = world->rank;
        atomic_store(&mine->pid, (int)getpid());
        LS_TRY_OUT(ls_heap_init(&world->heap, &world->segment, world->machines.local));
    }
    LS_TRY_OUT(ls_pool_create(world->threads, cpus, &world->pool));
    LS_TRY_OUT(ls_beat_begin(world));
    LS_TRY_OUT(ls_words_open(world));
    LS_TRY_OUT(ls_comm_open_world(world, &world->comm));
out:
    return status;
}

void ls_world_close(ls_world *world) {
    ls_beat_end(world);
    ls_words_close(world);
    ls_requests_free(world->flight.first); /* requests that a failure left unfinished */
    ls_requests_free(world->requests.spare);
    ls_comm_close(world->comm);
    ls_pool_destroy(world->pool);
    ls_heap_fini(&world->heap);
    ls_segment_close(&world->segment);
    free(world->machines.of);
    free(world->machines.local_of);
    free(world->machines.host_of);
}
