/* world.h: one worker's view of all workers, ls_world, which the worker's function receives (lockstep.h). One per
 * process: it holds rank, machines, shared memory, thread pool, requests in flight and this worker's failure.
 *
 * A transport (transports/) fills in the first members and calls ls_world_open() (transports/open.h). Each of the
 * structs below is written by one file only, which its comment names; other files read it. Unless a comment says
 * otherwise, functions of src/comm are called by the worker's main thread. */
#ifndef LS_COMM_WORLD_WORLD_H
#define LS_COMM_WORLD_WORLD_H

#include "base/pool.h"
#include "comm/shm/heap.h"
#include "comm/world/attempt.h"
#include "comm/world/transport.h"
#include "device/device.h"

/* A machine's name, as `uname -n` prints it. */
enum { LS_HOST_MAX = 64 };
typedef char ls_host_name[LS_HOST_MAX];

/* Which workers share a machine; written by the transports. With --node-size, parts of a machine count as machines. */
typedef struct ls_machines {
    int *of;               /* by rank: the lowest rank on the same machine */
    int *local_of;         /* by rank: its number among the workers of its machine */
    int local, local_size; /* this worker's number, and the number of workers on its machine */
    ls_host_name *host_of; /* by rank: name of its machine; NULL: all are on this one */
} ls_machines;

/* Why this worker can start no further request; written by failure.c. */
typedef struct ls_world_failure {
    bool failed;               /* a request failed, or another worker did */
    ls_status cause;           /* status of the failure if it was this worker's; LS_OK: it was another's */
    char text[LS_MESSAGE_MAX]; /* message of that failure */
    int late;                  /* 1 + the rank of the worker that missed this worker's deadline; 0: none */
} ls_world_failure;

/* Requests of all communicators; written by wait.c. */
typedef struct ls_flight {
    ls_request *first, *last; /* requests that ls_request_wait() or ls_request_test() has not yet ended, oldest first */
    uint64_t waited_ns;       /* total time in waits for requests */
    uint64_t net_ns;          /* part of it in which bytes could flow: after ls_request.ready_ns; none of a send */
} ls_flight;

/* Memory of requests, and their messages; written by request.c. */
typedef struct ls_requests {
    ls_request *spare; /* ended requests, to be reused */
    int net_pending;   /* messages between machines in flight, which wake no sleeping worker */
} ls_requests;

/* What a worker of another machine said last; written by words.c. */
typedef struct ls_heard {
    uint64_t moved_ns; /* when it last made progress, as it says; 0: it said nothing */
    bool is_opaque;    /* and whether in an opaque phase (base/alive.h) */
    int waits_for;     /* which rank it waits for, encoded as in ls_beat */
} ls_heard;

/* Control words between machines (transport.h); written by words.c. */
typedef struct ls_net_words {
    ls_heard *heard;   /* by rank; NULL: the transport carries no words */
    uint64_t told_ns;  /* when this worker last sent its state to the other machines */
    int asked;         /* signal to stop that a worker of another machine received; 0: none */
    uint64_t asked_ns; /* when this worker heard of that signal */
    bool has_asked;    /* this worker has told the others of a signal to stop */
} ls_net_words;

/* This worker's ends of the emulated slow links; written by wire.c, but `wake_ns` by wait.c and peers/memory.c too. */
typedef struct ls_wire {
    bool slow; /* --slow-link is given */
    uint64_t latency_ns;
    double ns_per_byte;               /* 0: the bandwidth is not limited */
    uint64_t in_free_ns, out_free_ns; /* when this worker's links have carried all booked transfers */
    uint64_t counted_ns;              /* transfers up to here are counted in base/meter.h */
    uint64_t wake_ns; /* when a sleep must end: the next transfer arrives, as of the last look; or ... */
} ls_wire;
#define LS_WIRE_NEVER UINT64_MAX /* ... no transfer is in flight */

/* What a device calls while the host waits for it; written by movers/device.c. */
typedef struct ls_device_watch {
    ls_device_guest guest;
    uint64_t last_ns, stood_ns; /* time of the last check; how long the host has waited since the last search for
                                 * stopped workers, without pauses */
} ls_device_watch;

/* Device memory for collectives on one queue; written by collectives/device_sum.c. */
typedef enum ls_scratch_kind {
    LS_SCRATCH_SUMS,     /* partial sums */
    LS_SCRATCH_ARRIVALS, /* parts that arrive from other machines, before they are added up */
    LS_SCRATCH_KINDS
} ls_scratch_kind;
typedef struct ls_scratch_piece {
    void *memory;
    size_t bytes;
    bool lent; /* owned by a caller of ls_tensor_lend() */
} ls_scratch_piece;

/* Links between machines; written by links/links.c. */
typedef struct ls_world_links {
    struct ls_links *first; /* those of all communicators */
    bool are_refused;       /* some worker cannot open links: none are opened any more, and the log has said why */
} ls_world_links;

struct ls_world {
    /* Set by the transport before the world is opened; constant from then on. */
    int rank, size, threads; /* threads of this worker */
    const ls_transport *transport;
    ls_machines machines;
    ls_attempt *attempt; /* borrowed; NULL: no supervisor */
    int place;           /* number of the place (cores and GPU) that this worker uses */
    ls_segment segment;  /* base is NULL for a worker that shares no memory: self, or alone on its machine under MPI */

    /* Set when the world is opened (transports/open.c). */
    double timeout_s; /* --timeout, or its default */
    uint64_t spin_ns; /* how long to spin before sleeping; 0 where workers share cores */
    ls_heap heap;     /* this worker's part of the segment, where there is one */
    ls_pool *pool;    /* this worker's threads */
    ls_comm *comm;    /* of all workers */

    bool goes_on;            /* this worker leaves, and the run continues in the next attempt; written by world.c */
    uint64_t moves;          /* grows with each step that makes progress: ls_world_moved() */
    struct ls_beating *beat; /* the heartbeat thread; written by beat.c */
    ls_world_failure failure;
    ls_flight flight;
    ls_requests requests;
    ls_net_words words;
    ls_wire wire;

    /* For collectives on device memory. */
    ls_device *device; /* of this worker; NULL: none, or a CPU device; written by movers/device.c */
    ls_device_watch watch;
    ls_scratch_piece scratch[LS_SCRATCH_KINDS][LS_QUEUES]; /* by kind and device queue */
    struct ls_peers *peers; /* of the device; NULL: it does not share its memory; written by peers/memory.c */
    ls_world_links links;
};

/* Counts a step that made progress, so that a waiting worker checks its requests once more before it sleeps. */
static inline void ls_world_moved(ls_world *world) { world->moves++; }

/* ---- world.c ----------------------------------------------------------------------------------------------------- */

/* Writes the name of this machine; "?" if the system does not tell. Any process and thread may call it. */
void ls_host_name_get(ls_host_name name);
/* Returns the name of a worker's machine, owned by the world; NULL: all workers are on this one, or the transport does
 * not know. */
const char *ls_world_host(const ls_world *world, int rank);

/* Outputs from this size on are too large for the caches. */
enum { LS_STREAM_BYTES = 16 << 20 };

/* Copies, with all of this worker's threads if the size pays for it. `from` and `to` may be equal, but must not overlap
 * otherwise. `stream`: with non-temporal stores, for outputs larger than the caches. */
void ls_world_copy(ls_world *world, void *to, const void *from, size_t bytes, bool stream);

/* Returns whether there are more threads than cores, so that workers take turns and must not spin. */
static inline bool ls_world_is_crowded(const ls_world *world) { return world->spin_ns == 0; }

/* ---- failure.c --------------------------------------------------------------------------------------------------- */

/* Reports this worker's failure, whose message is that of ls_status_message(), to the others of its machine, unless
 * another worker failed before. From then on no request can be started. LS_ERR_PEER is not reported, because then
 * another worker has failed. */
void ls_world_fail(ls_world *world, ls_status status);
/* Returns LS_ERR_PEER if a worker of this machine has failed or is lost, which then counts as a failure of this worker
 * too: it can start no further request. Otherwise LS_OK; failures on other machines are not visible here. */
ls_status ls_world_check(ls_world *world);
/* Returns LS_ERR_DEADLINE, with a message that names the wait of `waited_s` seconds, if the process of a worker of this
 * machine is stopped, but not by a debugger; else LS_OK. Records nothing. For waits that belong to no request. */
ls_status ls_world_check_stopped(const ls_world *world, double waited_s);
/* Records the rank of the worker that missed this worker's deadline, before the failure is reported. */
void ls_world_set_late(ls_world *world, int rank);
/* Returns the rank of the worker that missed this worker's deadline, as ls_world_set_late() recorded it; −1: none. */
int ls_world_late(const ls_world *world);

/* ---- words.c ----------------------------------------------------------------------------------------------------- */

/* Tells the other workers that a signal asked this worker to stop at time `ns`; those of this machine see it at once.
 * So they learn of it before the sum that ends a step. Only the first call of a worker is sent to other machines, and
 * only the first signal of a machine is kept. */
void ls_world_ask(ls_world *world, int signal, uint64_t ns);
/* Returns the first signal to stop that a worker was told of by ls_world_ask(), and in *ns when it came (monotonic),
 * or, from another machine, when this worker heard of it; 0: none, and *ns is unchanged. Receives words of other
 * machines. */
int ls_world_asked(ls_world *world, uint64_t *ns);

#endif
