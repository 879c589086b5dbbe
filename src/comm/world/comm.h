/* comm.h: the structs of communicators and requests, and how they work; internal to src/comm.
 *
 * A communicator is a set of workers that call collectives together, as in MPI; a request is one collective or message
 * in flight. A communicator is owned by the caller of ls_comm_split(), or by the world. Each member has its own struct;
 * the worker's main thread alone uses it. Members on one machine share a control block, in the memory that they share:
 *
 *     | completed[L] | channels[L][L] | slots[LS_SLOTS][L] | small[LS_SLOTS][L] |
 *
 * Collective number n of a communicator uses slot n mod LS_SLOTS. A member writes only its own entry of a slot: first
 * what the others need to find its buffers, then, with release order, `stage` = n · 2^LS_STAGE_BITS + the stage it has
 * reached. The others wait for stages. Invariants:
 *
 *  1. A member enters stage 1 of collective n only when all have completed collective n − LS_SLOTS, so no member still
 *     reads the old entry.
 *  2. Stages only grow, so "at least" is the only comparison.
 *  3. Buffers named in an entry stay valid until the collective's last stage has been reached by all.
 *
 * Every collective is a list of steps that never block: request->step() runs the step that request->phase names and
 * then sets the next phase, or returns LS_REQUEST_WAITS to be called again later. So any number of requests can be in
 * flight, and a wait for one makes progress on all (wait.h). Each collective is written once, on two levels: inside a
 * machine, members read and write each other's memory; between machines, the transport carries messages. If all members
 * are on one machine, the second level is empty. */
#ifndef LS_COMM_WORLD_COMM_H
#define LS_COMM_WORLD_COMM_H

#include "base/events.h"
#include "base/memory.h"
#include "comm/world/world.h"
#include "numerics/tree.h"

enum { LS_SLOTS = 16, LS_STAGE_BITS = 20, LS_SMALL_BYTES = 8192 };

typedef struct ls_slot {
    _Alignas(128) _Atomic uint64_t stage; /* number of the collective, shifted, + the stage this member has reached */
    uint64_t fingerprint;                 /* of the collective and its sizes: all members must agree */
    _Atomic uint64_t ready_ns[2];         /* when this member published stage 1, and its newest stage above 1 */
    uint64_t out;                         /* its output and its inputs, as offsets in the segment */
    uint64_t parts[LS_TREE_COVER_MAX];
} ls_slot;

typedef struct ls_completed {
    _Alignas(128) _Atomic uint64_t count; /* this member has completed collectives 1 … count */
} ls_completed;

typedef struct ls_mail ls_mail; /* messages between members: collectives/send_recv.c */

struct ls_comm {
    ls_world *world;
    ls_region memory; /* holds the lists below */
    int rank, size;   /* of this member; number of members */
    int *world_rank;  /* by rank */

    /* Members by machine; `local` in a name means on this worker's machine. */
    int machines;          /* number of machines that hold members */
    int machine;           /* this worker's, counted from 0 in order of their first member */
    int *machine_of;       /* by rank */
    int *machine_first;    /* machines + 1 entries into machine_ranks */
    int *machine_ranks;    /* ranks, machine by machine, ascending */
    int local, local_size; /* this member's number among the local members, and their number */

    void *control;              /* NULL where local_size is 1 */
    bool owns_control;          /* this member allocated the block and frees it */
    ls_worker_record **records; /* by local number */
    ls_completed *completed;    /* by local number */
    _Atomic uint64_t *channels; /* [from][to]: offset of the sender's channel, 0 until its first message */
    ls_slot *slots;             /* [LS_SLOTS][local_size]: ls_comm_slot() */
    char *small;                /* memory for small data, one stretch for each slot: ls_comm_small() */

    uint64_t issued;          /* collectives that this member started */
    uint64_t done_upto;       /* this member has completed all collectives up to this number */
    uint64_t peers_done_upto; /* the same for the slowest local member, as last seen */
    bool done[LS_SLOTS];      /* completed, but an earlier collective is not */

    struct ls_reduce_plan *plan; /* of the last reduction, cached because training repeats one */
    ls_mail *mail;
    void *net;              /* owned by the transport */
    const char *axis;       /* name of its mesh axis in traces; NULL: none */
    int queue;              /* device queue that moves its tensors */
    bool takes_turns;       /* another local member uses this worker's GPU: peers/peers.h */
    bool peers;             /* local members' devices can access each other's memory: peers/peers.h */
    struct ls_links *links; /* between members' devices on different machines: links/links.h; NULL: none */
    ls_traffic traffic[LS_TRAFFIC_KINDS]; /* calls and bytes so far, by kind: ls_comm_traffic() */
};

/* A counter in device memory that another worker's device writes, and the value to wait for. */
typedef struct ls_counted {
    const uint64_t *counter;
    uint64_t value;
} ls_counted;

/* What a request on device memory has besides one on host memory. The fields up to `buffer` serve the mover that copies
 * tensors through host memory (movers/host.c), the others the movers in which devices move them (peers, links): their
 * requests end at an event in the device's queue. */
typedef struct ls_staging {
    ls_device *device;
    void *to;         /* device memory that receives the staged result at the end; NULL: no result */
    const void *from; /* host memory with the result */
    size_t bytes;
    int buffers;                         /* number of `buffer` */
    void *buffer[LS_TREE_COVER_MAX + 1]; /* host memory, freed at the end */

    uint64_t ready; /* value of this worker's counter from which on others may read and write its tensors */
    uint64_t asked; /* for a message over a link: bytes that the receiver expects */
    ls_event begun; /* recorded after that signal: this worker's part may begin */
    ls_event event; /* this worker's part is done */
    int counts;     /* number of `counted`: later work of this worker waits until these readers and writers are done */
    ls_counted counted[];
} ls_staging;

struct ls_request {
    ls_comm *comm;
    ls_traffic_kind kind;                   /* LS_TRAFFIC_KINDS: internal, neither counted nor traced */
    ls_status (*step)(ls_request *request); /* runs the phase below: LS_OK, LS_REQUEST_WAITS (request.h), or an error */
    ls_request *next;                       /* in the list of requests in flight, or of spare ones */
    uint64_t number;                        /* of the collective; 0 for messages */
    bool done;
    int phase;              /* what `step` does next; each collective has its own list of phases, from 0 */
    int blocked_on;         /* rank of the member it waits for; −1: none known */
    uint64_t arrives_ns;    /* over a slow link: when the data arrives; 0: not in flight */
    uint64_t ready_ns;      /* when its bytes could begin to flow: a collective: the last local member started it, a
                             * broadcast: the sender published, a receive: the last byte left the sender; 0: not known */
    uint64_t traffic_bytes; /* what the request adds to the communicator's traffic counters */
    ls_span span;           /* from its start to its end */

    uint64_t fingerprint; /* of a collective: its kind and sizes */
    const void *in;       /* this member's input, and */
    void *out;            /* its output; either may be replaced by a copy that local members can access */
    size_t bytes;         /* of a buffer; all-gather: of the longest piece; all-to-all: of a block; sum: elements */
    int peer;             /* rank of the root or of the partner */
    int tag;
    ls_dtype dtype;
    struct ls_reduce_plan *plan; /* of a sum; NULL: no sum */
    size_t window;               /* number of the current window of a sum between machines, or of a barrier's round */

    void *user_out; /* where to copy `out` at the end, if it was staged */
    size_t user_out_bytes;
    int staged;    /* number of buffers outside the segment that were copied into it */
    void *scratch; /* host memory, freed at the end */
    size_t net_used;
    void *message;       /* send and receive: the record in shared memory */
    ls_staging *tensors; /* for device memory, freed at the end; NULL: host memory */

    /* Not cleared when a request is reused: memory that is kept, and lists that are written before they are read. */
    size_t *bounds; /* space for size + 1: displacements or shards */
    int bounds_capacity;
    size_t net_capacity;
    ls_net_request *net;                  /* messages between machines of the current phase; `net_used` are in flight */
    const void *parts[LS_TREE_COVER_MAX]; /* of a sum: this member's parts */
    void *staging[LS_TREE_COVER_MAX + 1]; /* the `staged` copies in the segment */
};

/* Returns the rank in the communicator of local member number `local`. */
static inline int ls_comm_local_rank(const ls_comm *comm, int local) {
    return comm->machine_ranks[comm->machine_first[comm->machine] + local];
}
/* Returns the number of members on a machine. */
static inline int ls_comm_machine_size(const ls_comm *comm, int machine) {
    return comm->machine_first[machine + 1] - comm->machine_first[machine];
}
/* Returns the agent of `rank` on `machine`, another machine than that of `rank`: the rank in the communicator of the
 * member of `machine` that exchanges messages with `rank` on behalf of all members there. */
static inline int ls_comm_agent(const ls_comm *comm, int machine, int rank) {
    int members = ls_comm_machine_size(comm, machine);
    return comm->machine_ranks[comm->machine_first[machine] + rank % members];
}
/* Returns a local member's entry in the slot of a collective. Only for communicators with a control block. */
static inline ls_slot *ls_comm_slot(const ls_comm *comm, const ls_request *r, int local) {
    return &comm->slots[(size_t)(r->number % LS_SLOTS) * (size_t)comm->local_size + (size_t)local];
}
/* Returns a local member's LS_SMALL_BYTES of shared memory for small data of this collective. Only for communicators
 * with a control block. */
static inline char *ls_comm_small(const ls_comm *comm, const ls_request *r, int local) {
    return comm->small + ((size_t)(r->number % LS_SLOTS) * (size_t)comm->local_size + (size_t)local) * LS_SMALL_BYTES;
}

/* Returns a buffer's offset in the shared segment, to be written into a slot; 0 for memory outside, as of an empty
 * buffer. */
static inline uint64_t ls_comm_offset(const ls_comm *comm, const void *memory) {
    const ls_segment *segment = &comm->world->segment;
    return ls_segment_holds(segment, memory) ? ls_segment_offset(segment, memory) : 0;
}

#endif
