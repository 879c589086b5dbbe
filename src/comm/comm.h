/* comm.h: how communicators work inside.
 *
 * Members on one machine share a control block:
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
 * Every collective is a list of steps that never block: request->step runs the step that request->phase names and sets
 * the next one, or returns LS_REQUEST_WAITS. So any number of requests can be in flight, and a wait for one makes
 * progress on all. Each collective is written once, on two levels: inside a machine, members read and write each
 * other's memory; between machines, the transport carries messages. If all members are on one machine, the second level
 * is empty. */
#ifndef LS_COMM_COMM_H
#define LS_COMM_COMM_H

#include "base/events.h"
#include "base/memory.h"
#include "comm/reduce_plan.h"
#include "comm/world.h"
#include "device/device.h"

enum { LS_SLOTS = 16, LS_STAGE_BITS = 20, LS_SMALL_BYTES = 8192 };

typedef struct ls_slot {
    _Alignas(128) _Atomic uint64_t stage;
    uint64_t fingerprint;         /* of the collective and its sizes: all members must agree */
    _Atomic uint64_t ready_ns[2]; /* when this member reached stage 1, and the last stage */
    uint64_t out;                 /* offsets in the segment */
    uint64_t parts[LS_TREE_COVER_MAX];
} ls_slot;

typedef struct ls_completed {
    _Alignas(128) _Atomic uint64_t count; /* this member has completed collectives 1 … count */
} ls_completed;

typedef struct ls_mail ls_mail; /* messages between members: collectives/send_recv.c */

struct ls_comm {
    ls_world *world;
    ls_region memory; /* holds the lists below */
    int rank, size;
    int *world_rank; /* by rank */

    int machines;       /* number of machines that hold members */
    int machine;        /* this worker's, counted from 0 in order of their first member */
    int *machine_of;    /* by rank */
    int *machine_first; /* machines + 1 entries into machine_ranks */
    int *machine_ranks; /* ranks, machine by machine, ascending */
    int local, local_size;

    void *control; /* NULL where local_size is 1 */
    bool owns_control;
    ls_worker_record **records; /* by local number */
    ls_completed *completed;
    _Atomic uint64_t *channels; /* [from][to]: offset of the sender's channel, 0 until its first message */
    ls_slot *slots;
    char *small;

    uint64_t issued;          /* collectives that this member started */
    uint64_t done_upto;       /* this member has completed all collectives up to this number */
    uint64_t peers_done_upto; /* the same for the slowest local member, as last seen */
    bool done[LS_SLOTS];      /* completed, but an earlier collective is not */

    ls_reduce_plan *plan; /* of the last reduction, cached because training repeats one */
    ls_mail *mail;
    void *net;              /* owned by the transport */
    const char *axis;       /* name of its mesh axis in traces; NULL: none */
    int queue;              /* device queue that moves its tensors */
    bool takes_turns;       /* some local members share a GPU: peers/peers.h */
    bool peers;             /* local members' devices can access each other's memory: peers/peers.h */
    struct ls_links *links; /* between members' devices on different machines: links/links.h; NULL: none */
    ls_traffic traffic[LS_TRAFFIC_KINDS];
};

/* A counter in device memory that another worker's device writes, and the value to wait for. */
typedef struct ls_counted {
    const uint64_t *counter;
    uint64_t value;
} ls_counted;

/* What a request on device memory needs beside one on host memory. The tensors are staged through host memory
 * (tensors.c), or devices move them (peers, links): then the request ends at an event in the device's queue. */
typedef struct ls_staging {
    ls_device *device;
    void *to; /* device memory that receives the staged result at the end; NULL: no result */
    const void *from;
    size_t bytes;
    int buffers;
    void *buffer[LS_TREE_COVER_MAX + 1]; /* host memory, freed at the end */

    uint64_t ready; /* value of this worker's counter from which on others may read and write its tensors */
    uint64_t asked; /* for a message over a link: bytes that the receiver expects */
    ls_event begun; /* recorded after that signal: this worker's part may begin */
    ls_event event; /* this worker's part is done */
    int counts;     /* number of `counted`: later work of this worker waits until these readers and writers are done */
    ls_counted counted[];
} ls_staging;

/* Returns at least `bytes` of device memory, valid until the next call for the same queue and kind (peers/sum.c). */
ls_status ls_comm_scratch(const ls_comm *comm, ls_scratch_kind kind, size_t bytes, void **out);
/* Frees all scratch that this worker's device allocated. */
void ls_scratch_free(ls_world *world);

struct ls_request {
    ls_comm *comm;
    ls_traffic_kind kind; /* LS_TRAFFIC_KINDS: internal, neither counted nor traced */
    ls_status (*step)(ls_request *request);
    ls_request *next;
    uint64_t number; /* of the collective; 0 for messages */
    bool done;
    int phase;
    int blocked_on;      /* rank of the member it waits for; −1: none known */
    uint64_t arrives_ns; /* over a slow link: when the data arrives; 0: not in flight */
    uint64_t ready_ns;   /* when the last of the other members started it; 0: not known */
    uint64_t traffic_bytes;
    ls_span span; /* from its start to its end */

    uint64_t fingerprint;
    const void *in;
    void *out;
    size_t bytes; /* of a buffer; for a sum: elements */
    int peer;     /* root or partner */
    int tag;
    ls_dtype dtype;
    ls_reduce_plan *plan;
    size_t window; /* number of the current window of a sum between machines */

    void *user_out; /* where to copy `out` at the end, if it was staged */
    size_t user_out_bytes;
    int staged; /* number of buffers outside the segment that were copied into it */
    void *scratch;
    size_t net_used;
    void *message;       /* send and receive: the record in shared memory */
    ls_staging *tensors; /* for device memory, freed at the end; NULL: host memory */

    /* Not cleared when a request is reused: memory that is kept, and lists that are written before they are read. */
    size_t *bounds; /* space for size + 1: displacements or shards */
    int bounds_capacity;
    size_t net_capacity;
    ls_net_request *net; /* messages in flight of the current phase */
    const void *parts[LS_TREE_COVER_MAX];
    void *staging[LS_TREE_COVER_MAX + 1];
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

size_t ls_comm_control_bytes(int local_size);
/* Opens the communicator of the world, whose control block is part of the segment. */
ls_status ls_comm_open_world(ls_world *world, ls_comm **out);
void ls_comm_close(ls_comm *comm);
/* Splits like ls_comm_split(); `queue` is the device queue for its tensors, and `links` what to open links between
 * machines for (LS_LINKS_…, links/links.h). */
ls_status ls_comm_split_linked(ls_comm *parent, int color, int key, int queue, unsigned links, ls_comm **out);

static inline int ls_comm_local_rank(const ls_comm *comm, int local) {
    return comm->machine_ranks[comm->machine_first[comm->machine] + local];
}
static inline int ls_comm_machine_size(const ls_comm *comm, int machine) {
    return comm->machine_first[machine + 1] - comm->machine_first[machine];
}
/* Returns the agent of `rank` on another machine: the member of `machine` that sends and receives for it there. */
static inline int ls_comm_agent(const ls_comm *comm, int machine, int rank) {
    int members = ls_comm_machine_size(comm, machine);
    return comm->machine_ranks[comm->machine_first[machine] + rank % members];
}
static inline ls_slot *ls_comm_slot(const ls_comm *comm, const ls_request *r, int local) {
    return &comm->slots[(size_t)(r->number % LS_SLOTS) * (size_t)comm->local_size + (size_t)local];
}
static inline char *ls_comm_small(const ls_comm *comm, const ls_request *r, int local) {
    return comm->small + ((size_t)(r->number % LS_SLOTS) * (size_t)comm->local_size + (size_t)local) * LS_SMALL_BYTES;
}

/* Returns a buffer's offset in the segment, to be written into a slot; 0 for memory outside (an empty buffer). */
static inline uint64_t ls_comm_offset(const ls_comm *comm, const void *memory) {
    const ls_segment *segment = &comm->world->segment;
    return ls_segment_holds(segment, memory) ? ls_segment_offset(segment, memory) : 0;
}

/* ---- requests (request.c) ---------------------------------------------------------------------------------------- */

/* Makes a request. Collectives are numbered; messages and LS_TRAFFIC_KINDS (the wait at a communicator's end) are not.
 */
ls_status ls_request_make(ls_comm *comm, ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out);
/* Return names such as "all-reduce" and "dp". */
const char *ls_traffic_kind_name(ls_traffic_kind kind);
const char *ls_mesh_axis_name(ls_axis axis);
/* Returns its name in traces, such as "all_reduce". */
const char *ls_request_trace_name(const ls_request *request);
/* Counts the request's traffic (`traffic_bytes` must be set), puts it in flight and runs its first steps. */
ls_status ls_request_launch(ls_request *request, ls_request **out);
/* Instead of a launch: releases the request and fails the world with the status, which is returned. */
ls_status ls_request_drop(ls_request *request, ls_status status, ls_request **out);
/* Completes the request: the last step of each. Returns LS_OK. */
ls_status ls_request_complete(ls_request *request);

/* Returned by a step that cannot continue before another member does. */
#define LS_REQUEST_WAITS ((ls_status)-1)
/* Runs the next steps until the request is done or a step waits. A collective starts when its slot is free
 * (invariant 1). */
ls_status ls_request_step(ls_request *request);
/* Tells the local members that this one has reached `stage` ≥ 1. */
void ls_request_publish(ls_request *request, uint64_t stage);
/* Return LS_OK if the local member (all local members) has reached `stage`; else LS_REQUEST_WAITS, with the member in
 * blocked_on. */
ls_status ls_request_await(ls_request *request, int local, uint64_t stage);
ls_status ls_request_await_all(ls_request *request, uint64_t stage);
/* Check that the local member (all local members), at stage 1, called the same collective with the same sizes.
 * LS_ERR_INPUT names the member that did not. */
ls_status ls_request_check_peer(ls_request *request, int local);
ls_status ls_request_check_peers(ls_request *request);
/* Begins a collective: waits until all local members have reached stage 1 of the same one and, over a slow link, until
 * `load` has been transferred. */
ls_status ls_request_meet(ls_request *request, ls_wire_load (*load)(const ls_request *));

/* Makes `memory` readable for local members. *shared is `memory` itself if it lies in the segment, else a copy there
 * (with its contents if `filled`). */
ls_status ls_request_share(ls_request *request, const void *memory, size_t bytes, bool filled, void **shared);
/* The same for `out`, which is copied back at the end; `filled` if it is also an input. */
ls_status ls_request_share_out(ls_request *request, size_t bytes, bool filled);

/* Start messages between machines as part of the request; ls_request_net_await() waits until all have arrived. */
ls_status ls_request_net_send(ls_request *request, ls_net_lane lane, int to, int tag, const void *data, size_t bytes);
ls_status ls_request_net_recv(ls_request *request, ls_net_lane lane, int from, int tag, void *data, size_t bytes);
ls_status ls_request_net_await(ls_request *request);
/* Returns the tag of a collective's messages in one of at most four phases. */
static inline int ls_request_net_tag(const ls_request *request, int phase) {
    return (int)(request->number % 8192) * 4 + phase;
}

static inline uint64_t ls_fingerprint(uint64_t kind, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t mixed = kind * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ a) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ b) * 0x94D049BB133111EBu;
    mixed = (mixed ^ c) * 0x9E3779B97F4A7C15u;
    return mixed ^ mixed >> 31;
}

/* Allocate and free a communicator's state for messages (collectives/send_recv.c). */
ls_status ls_mail_open(ls_comm *comm);
void ls_mail_close(ls_comm *comm);

/* Prepare a request completely without launching it; `how` is its step function. */
ls_status ls_all_gather_prepare(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                ls_status (*how)(ls_request *), ls_request **out);
ls_status ls_message_prepare(ls_comm *comm, ls_traffic_kind kind, int peer, int tag, size_t bytes,
                             ls_status (*how)(ls_request *), ls_request **out);

/* A message between local members whose bytes stay in the sender's device memory until the receiver's device has read
 * them: the place of the bytes, the value of the sender's counter from which on they may be read, and, set by the
 * receiver, the value of its counter once it has read them. */
typedef struct ls_mail_note {
    uint64_t place, ready, done;
} ls_mail_note;

/* Post a note, wait until it is taken, and take it. All three return LS_REQUEST_WAITS if they cannot continue. The
 * receiver's callback `read` reads the note and writes `done` into it; if it returns LS_REQUEST_WAITS the note stays
 * and the callback is called again later. */
ls_status ls_mail_post_note(ls_request *r, const ls_mail_note *note);
ls_status ls_mail_await_note(ls_request *r, ls_mail_note *note);
ls_status ls_mail_take_note(ls_request *r, ls_status (*read)(ls_request *r, ls_mail_note *note));

#endif
