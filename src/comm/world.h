/* world.h: one worker's place among all workers, and how it waits for the others.
 *
 * Made by a transport (transports/), used by communicators. All waiting happens in ls_world_wait(): it moves everything
 * in flight along, spins for a moment, then sleeps until a neighbour rings the bell; it ends on failure and at the
 * deadline. */
#ifndef LS_COMM_WORLD_H
#define LS_COMM_WORLD_H

#include "base/pool.h"
#include "comm/attempt.h"
#include "comm/shm/heap.h"
#include "comm/transports/transport.h"
#include "comm/wire.h"
#include "device/device.h"

/* Memory of the device for collectives on a queue. */
typedef enum ls_scratch_kind { LS_SCRATCH_SUMS, LS_SCRATCH_ARRIVALS, LS_SCRATCH_KINDS } ls_scratch_kind;
typedef struct ls_scratch_piece {
    void *memory;
    size_t bytes;
    bool lent; /* in somebody's arena */
} ls_scratch_piece;

/* What a machine calls itself: uname -n. */
enum { LS_HOST_MAX = 64 };
typedef char ls_host_name[LS_HOST_MAX];
void ls_host_name_get(ls_host_name name);

struct ls_world {
    int rank, size, threads;
    const ls_transport *transport;
    double timeout_s;
    uint64_t spin_ns; /* how long to spin before sleeping; 0 where workers share cores */

    ls_attempt *attempt; /* borrowed; NULL: nobody supervises */
    int place;           /* whose cores and GPU this worker has */
    bool goes_on;        /* the run goes on without this worker, which leaves */

    int *machine_of; /* by rank: the lowest rank on the same machine (or the same part of it, see node_size) */
    int *local_of;   /* by rank: its number among the workers of its machine */
    int local, local_size;
    ls_host_name *host_of; /* by rank: what its machine calls itself; NULL: all are on this one */
    int late;              /* 1 + the rank of the worker that this one waited for in vain; 0: none */
    ls_segment segment;    /* base is NULL where local_size is 1 */
    ls_heap heap;
    ls_wire wire;

    ls_pool *pool;
    ls_device *device; /* of this worker, whose guest the world is; NULL: none, or the host */
    ls_device_guest guest;
    uint64_t watched_ns, stood_ns; /* while the host waits for it */
    ls_scratch_piece scratch[LS_SCRATCH_KINDS][LS_QUEUES];
    struct ls_peers *peers; /* of the device; NULL: it shares no memory */
    struct ls_links *links; /* of all communicators that have some */
    bool links_told;        /* why there are none */
    ls_comm *comm;
    ls_request *flight_first, *flight_last; /* requests that have not ended, in the order of their start */
    ls_request *spare;                      /* ended requests, to be used again */
    struct ls_beating *beating;             /* its beat (beat.h) */
    uint64_t *heard_ns;                     /* by rank: when one of another machine last was at work, as it says */
    bool *heard_opaque;                     /* by rank: and whether in an opaque phase */
    int *heard_waits;                       /* by rank: for whom it waits, as ls_beat has it */
    uint64_t told_ns;                       /* when this one last told the others of itself */
    int heard_asked;                        /* signal that one of another machine has got, */
    uint64_t heard_asked_ns;                /* and when this one heard of it; 0: none */
    uint64_t moves;                         /* grows with each step that gets anywhere */
    int net_pending;                        /* messages between machines under way: these ring no bell */
    uint64_t waited_ns;                     /* in all, for requests that were not done */
    uint64_t net_ns;                        /* of it: after the last of the others had come, or not known */
    bool has_asked;                         /* it has told the others of a signal */
    bool failed;                            /* a collective failed: none can be trusted any more */
    ls_status cause;                        /* of that, where it was this worker's */
    char cause_text[LS_MESSAGE_MAX];
};

/* What ls_workers_run and the transports need to bring a world up and down. The caller has set rank, size, machine_of,
 * local_of, local, local_size, segment, transport; threads 0 means 1. cpus: where to pin the pool's threads, or NULL.
 * crowded: workers share cores, so nobody spins. */
ls_status ls_world_open(ls_world *world, const ls_workers_options *options, const int *cpus, bool crowded);
void ls_world_close(ls_world *world);

/* Moves everything in flight along once. */
ls_status ls_world_progress(ls_world *world);
/* Until the request is done, or failure, or deadline. */
ls_status ls_world_wait(ls_world *world, ls_request *request);
/* Whether somebody of this machine failed: LS_ERR_PEER then. */
ls_status ls_world_check(ls_world *world);
/* What has kept a worker of this machine from answering, for a wait of so many seconds that is no request's: its
 * process is stopped. LS_OK where none is. */
ls_status ls_world_check_stopped(const ls_world *world, double waited_s);
/* Wakes those of the communicator's local members that sleep; call after publishing something they may wait for. */
void ls_world_ring(ls_comm *comm);
/* The same for one of them. */
void ls_world_ring_member(ls_comm *comm, int local);
/* The machine of a worker of mpirun or srun; NULL: nobody knows, or all are on this one. */
const char *ls_world_host(const ls_world *world, int rank);
/* The worker that kept this one waiting until the deadline; −1: there was none. */
int ls_world_late(const ls_world *world);
/* Reports this worker's failure to the others of its machine, unless another was first. */
void ls_world_fail(ls_world *world, ls_status status);

/* Tells the others, those of this machine at once, that this worker was asked to stop by a signal, which came then.
 * They learn of it earlier than from the sum that ends a step. */
void ls_world_ask(ls_world *world, int signal, uint64_t ns);
/* The first signal of which one of them told, and when it came; 0: none. */
int ls_world_asked(ls_world *world, uint64_t *ns);

/* Outputs from this size on are too large for the caches. */
enum { LS_STREAM_BYTES = 16 << 20 };

/* Copies with all of this worker's threads when it is worth it; `stream`: past the caches, for what is too large for
 * them. */
void ls_world_copy(ls_world *world, void *to, const void *from, size_t bytes, bool stream);

/* More threads than cores: workers take turns. */
static inline bool ls_world_is_crowded(const ls_world *world) { return world->spin_ns == 0; }

#endif
