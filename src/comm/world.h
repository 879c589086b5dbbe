/* world.h: one worker's view of all workers, and how it waits for the others.
 *
 * A transport (transports/) makes the world, and communicators use it. All waiting happens in ls_world_wait(): it
 * advances every request in flight, spins for a moment, then sleeps until another worker rings its bell (a futex). The
 * wait ends with an error if a worker fails or the deadline passes. */
#ifndef LS_COMM_WORLD_H
#define LS_COMM_WORLD_H

#include "base/pool.h"
#include "comm/attempt.h"
#include "comm/shm/heap.h"
#include "comm/transports/transport.h"
#include "comm/wire.h"
#include "device/device.h"

/* Device memory for collectives on one queue. */
typedef enum ls_scratch_kind { LS_SCRATCH_SUMS, LS_SCRATCH_ARRIVALS, LS_SCRATCH_KINDS } ls_scratch_kind;
typedef struct ls_scratch_piece {
    void *memory;
    size_t bytes;
    bool lent; /* owned by a caller of ls_tensor_lend() */
} ls_scratch_piece;

/* A machine's name, as `uname -n` prints it. */
enum { LS_HOST_MAX = 64 };
typedef char ls_host_name[LS_HOST_MAX];
void ls_host_name_get(ls_host_name name);

struct ls_world {
    int rank, size, threads;
    const ls_transport *transport;
    double timeout_s;
    uint64_t spin_ns; /* how long to spin before sleeping; 0 where workers share cores */

    ls_attempt *attempt; /* borrowed; NULL: no supervisor */
    int place;           /* number of the place (cores and GPU) that this worker uses */
    bool goes_on;        /* the run goes on without this worker, which leaves */

    int *machine_of; /* by rank: the lowest rank on the same machine (or the same part of it, see node_size) */
    int *local_of;   /* by rank: its number among the workers of its machine */
    int local, local_size;
    ls_host_name *host_of; /* by rank: name of its machine; NULL: all are on this one */
    int late;              /* 1 + the rank of the worker that missed this worker's deadline; 0: none */
    ls_segment segment;    /* base is NULL where local_size is 1 */
    ls_heap heap;
    ls_wire wire;

    ls_pool *pool;
    ls_device *device; /* of this worker, with the world as its guest; NULL: none, or a CPU device */
    ls_device_guest guest;
    uint64_t watched_ns, stood_ns; /* while the host waits for the device: last look, and how long it has waited */
    ls_scratch_piece scratch[LS_SCRATCH_KINDS][LS_QUEUES];
    struct ls_peers *peers; /* of the device; NULL: the device does not share its memory */
    struct ls_links *links; /* list of the links of all communicators */
    bool links_told;        /* the log has said why there are none */
    ls_comm *comm;
    ls_request *flight_first, *flight_last; /* requests that have not ended, in the order of their start */
    ls_request *spare;                      /* completed requests, to be reused */
    struct ls_beating *beating;             /* the heartbeat thread (beat.h) */
    uint64_t *heard_ns;                     /* by rank on another machine: when it last made progress, as it says */
    bool *heard_opaque;                     /* by rank: and whether in an opaque phase */
    int *heard_waits;                       /* by rank: which rank it waits for, encoded as in ls_beat */
    uint64_t told_ns;                       /* when this worker last sent its state to the other machines */
    int heard_asked;                        /* signal to stop that a worker of another machine received; 0: none */
    uint64_t heard_asked_ns;                /* when this worker heard of that signal */
    uint64_t moves;                         /* grows with each step that makes progress */
    int net_pending;                        /* messages between machines in flight, which ring no bell */
    uint64_t waited_ns;                     /* total time in waits for requests */
    uint64_t net_ns; /* part of it after the last member had started the collective, or unknown */
    bool has_asked;  /* this worker has told the others of a signal to stop */
    bool failed;     /* a collective failed, so no later one may start */
    ls_status cause; /* status of that failure if it was this worker's */
    char cause_text[LS_MESSAGE_MAX];
};

/* Open and close a world, for transports. Before opening, the caller has set rank, size, machine_of, local_of, local,
 * local_size, segment and transport; threads 0 means 1. `cpus`: where to pin the pool's threads, or NULL. `crowded`:
 * workers share cores, so waits do not spin. */
ls_status ls_world_open(ls_world *world, const ls_workers_options *options, const int *cpus, bool crowded);
void ls_world_close(ls_world *world);

/* Advances every request in flight once. */
ls_status ls_world_progress(ls_world *world);
/* Waits until the request is done, a worker fails, or the deadline passes. */
ls_status ls_world_wait(ls_world *world, ls_request *request);
/* Returns LS_ERR_PEER if a worker of this machine has failed or is lost. */
ls_status ls_world_check(ls_world *world);
/* Returns LS_ERR_DEADLINE, with a message that names the wait of `waited_s` seconds, if the process of a worker of this
 * machine is stopped. For waits that belong to no request. */
ls_status ls_world_check_stopped(const ls_world *world, double waited_s);
/* Wakes the communicator's sleeping local members; to be called after publishing something that they may wait for. */
void ls_world_ring(ls_comm *comm);
/* The same for one member. */
void ls_world_ring_member(ls_comm *comm, int local);
/* Returns the name of a worker's machine; NULL: all workers are on this one, or the transport does not know. */
const char *ls_world_host(const ls_world *world, int rank);
/* Returns the rank of the worker that missed this worker's deadline; −1: none. */
int ls_world_late(const ls_world *world);
/* Reports this worker's failure to the others of its machine, unless another worker failed before. */
void ls_world_fail(ls_world *world, ls_status status);

/* Tells the other workers that a signal asked this worker to stop at time `ns`; those of this machine see it at once.
 * So they learn of it before the sum that ends a step. */
void ls_world_ask(ls_world *world, int signal, uint64_t ns);
/* Returns the first signal that a worker was told of in this way, and when it came; 0: none. */
int ls_world_asked(ls_world *world, uint64_t *ns);

/* Outputs from this size on are too large for the caches. */
enum { LS_STREAM_BYTES = 16 << 20 };

/* Copies, with all of this worker's threads if the size pays for it; `stream`: with non-temporal stores, for outputs
 * larger than the caches. */
void ls_world_copy(ls_world *world, void *to, const void *from, size_t bytes, bool stream);

/* Returns whether there are more threads than cores, so that workers take turns. */
static inline bool ls_world_is_crowded(const ls_world *world) { return world->spin_ns == 0; }

#endif
