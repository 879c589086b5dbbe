/* comm.h: communicators from the inside.
 *
 * Members on one machine share a control block:
 *
 *     | completed[L] | channels[L][L] | slots[LS_SLOTS][L] | small[LS_SLOTS][L] |
 *
 * Collective number n of a communicator uses slot n mod LS_SLOTS. A member writes only its own entry of a slot: first
 * what the others need to find its buffers, then, with release order, `stage` = n · 2^LS_STAGE_BITS + how far it has
 * got. The others wait for stages. Invariants:
 *
 *  1. A member enters stage 1 of collective n only when all have completed collective n − LS_SLOTS: nobody still reads
 * the old entry.
 *  2. Stages only grow, so "at least" is the only comparison.
 *  3. Buffers named in an entry stay valid until the collective's last stage has been reached by all.
 *
 * Every collective is a list of steps that never block: request->step takes the one that request->phase names and sets
 * the next, or says that it must wait. So any number can be under way at once, and a wait for one moves all. Each is
 * written once, in two levels: inside a machine members read and write each other's memory; between machines the
 * transport carries messages. Where all members are on one machine the second level is empty. */
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
    _Atomic uint64_t ready_ns[2]; /* when stage 1, and the last one, were reached */
    uint64_t out;                 /* offsets in the segment */
    uint64_t parts[LS_TREE_COVER_MAX];
} ls_slot;

typedef struct ls_completed {
    _Alignas(128) _Atomic uint64_t count; /* collectives 1 … count have ended on this member */
} ls_completed;

typedef struct ls_mail ls_mail; /* messages between members: collectives/send_recv.c */

struct ls_comm {
    ls_world *world;
    ls_region memory; /* of the lists */
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

    uint64_t issued;          /* collectives started here */
    uint64_t done_upto;       /* all up to this number have ended here */
    uint64_t peers_done_upto; /* the same for the slowest local member, as last seen */
    bool done[LS_SLOTS];      /* ended, but an earlier one has not */

    ls_reduce_plan *plan; /* of the last reduction: training repeats one */
    ls_mail *mail;
    void *net;              /* the transport's */
    const char *axis;       /* of the mesh, in a trace; NULL: none */
    int queue;              /* of devices that move its tensors */
    bool takes_turns;       /* some of them share a GPU: peers/peers.h */
    bool peers;             /* its local members' devices read each other's memory: peers/peers.h */
    struct ls_links *links; /* between its members' devices on several machines: links/links.h */
    ls_traffic traffic[LS_TRAFFIC_KINDS];
};

/* A counter that somebody else's device writes. */
typedef struct ls_counted {
    const uint64_t *counter;
    uint64_t value;
} ls_counted;

/* Tensors of a device whose memory the host cannot follow. They are on their way through memory of the host
 * (tensors.c), or devices that share memory move them (peers): then the end of the request is a place in the queue. */
typedef struct ls_staging {
    ls_device *device;
    void *to; /* memory of the device that gets the result at the end; NULL: nothing comes back */
    const void *from;
    size_t bytes;
    int buffers;
    void *buffer[LS_TREE_COVER_MAX + 1]; /* of the host, given back at the end */

    uint64_t ready; /* this worker's counter, when its tensors may be read and written by others */
    uint64_t asked; /* for a message over a link: bytes that the receiver expects */
    ls_event begun; /* after the signal of it: its own part may begin */
    ls_event event; /* this worker's part is done */
    int counts;     /* of readers and writers of this worker's tensors: what comes after the end waits for them */
    ls_counted counted[];
} ls_staging;

/* At least so many bytes of the device, until the next call for the same queue and kind (tensors.c). */
ls_status ls_comm_scratch(const ls_comm *comm, ls_scratch_kind kind, size_t bytes, void **out);

/* What the end of a request does with tensors (tensors.c). */
ls_status ls_staging_end(const ls_staging *staging);

struct ls_request {
    ls_comm *comm;
    ls_traffic_kind kind; /* LS_TRAFFIC_KINDS: neither counted nor traced */
    ls_status (*step)(ls_request *request);
    ls_request *next;
    uint64_t number; /* of the collective; 0 for messages */
    bool done;
    int phase;
    int blocked_on;      /* rank of the member it waits for, −1: none known */
    uint64_t arrives_ns; /* over a slow link: when what it waits for is there; 0: not under way */
    uint64_t ready_ns;   /* when the last of the others had come to it; 0: not known */
    uint64_t traffic_bytes;
    ls_span span; /* from its start to its end */

    uint64_t fingerprint;
    const void *in;
    void *out;
    size_t bytes; /* of a buffer, or elements of a sum */
    int peer;     /* root or partner */
    int tag;
    ls_dtype dtype;
    ls_reduce_plan *plan;
    size_t window; /* which piece of a sum between machines is under way */

    void *user_out; /* where `out` is to be copied at the end, if it was staged */
    size_t user_out_bytes;
    int staged; /* buffers that lay outside the segment, copied into it */
    void *scratch;
    size_t net_used;
    void *message;       /* send and receive: the record in shared memory */
    ls_staging *tensors; /* NULL: memory of the host; freed at the end */

    /* What a new request finds as the one before left it: memory to be used again, and lists that are written first. */
    size_t *bounds; /* space for size + 1: displacements or shards */
    int bounds_capacity;
    size_t net_capacity;
    ls_net_request *net; /* messages of the current phase */
    const void *parts[LS_TREE_COVER_MAX];
    void *staging[LS_TREE_COVER_MAX + 1];
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

size_t ls_comm_control_bytes(int local_size);
/* The communicator of the world; `control` is the segment's own block. */
ls_status ls_comm_open_world(ls_world *world, ls_comm **out);
void ls_comm_close(ls_comm *comm);
/* ls_comm_split() with the queue of devices that its tensors take, and what its members on several machines have links
 * for (links/links.h). */
ls_status ls_comm_split_linked(ls_comm *parent, int color, int key, int queue, unsigned links, ls_comm **out);

static inline int ls_comm_local_rank(const ls_comm *comm, int local) {
    return comm->machine_ranks[comm->machine_first[comm->machine] + local];
}
static inline int ls_comm_machine_size(const ls_comm *comm, int machine) {
    return comm->machine_first[machine + 1] - comm->machine_first[machine];
}
/* The member of `machine` that handles what belongs to `rank` of another machine. */
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

/* What to write into a slot for a buffer; 0 for an empty one outside the segment. */
static inline uint64_t ls_comm_offset(const ls_comm *comm, const void *memory) {
    const ls_segment *segment = &comm->world->segment;
    return ls_segment_holds(segment, memory) ? ls_segment_offset(segment, memory) : 0;
}

/* ---- requests (request.c) ---------------------------------------------------------------------------------------- */

/* A request for a collective, numbered; or for a message or LS_TRAFFIC_KINDS (the wait at a communicator's end), not
 * numbered. */
ls_status ls_request_make(ls_comm *comm, ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out);
/* "all-reduce", "dp". */
const char *ls_traffic_kind_name(ls_traffic_kind kind);
const char *ls_mesh_axis_name(ls_axis axis);
/* "all_reduce": how a trace calls it. */
const char *ls_request_trace_name(const ls_request *request);
/* Counts it, puts it among those in flight and takes its first steps. `traffic_bytes` is set by then. */
ls_status ls_request_launch(ls_request *request, ls_request **out);
/* In place of it: gives the request back, the world fails with the status. */
ls_status ls_request_drop(ls_request *request, ls_status status, ls_request **out);
/* The last step of every request; LS_OK. */
ls_status ls_request_complete(ls_request *request);

/* What a step returns that has nothing to do until others have got further. */
#define LS_REQUEST_WAITS ((ls_status)-1)
/* Takes its next steps, until it is done or one of them waits; those of a collective begin when its slot is free
 * (invariant 1). */
ls_status ls_request_step(ls_request *request);
/* Tells the local members that this one has reached `stage` ≥ 1. */
void ls_request_publish(ls_request *request, uint64_t stage);
/* LS_OK where the local member / all local members have reached `stage`; else LS_REQUEST_WAITS, and remembers for whom.
 */
ls_status ls_request_await(ls_request *request, int local, uint64_t stage);
ls_status ls_request_await_all(ls_request *request, uint64_t stage);
/* The local member (all local members), at stage 1, called the same collective with the same sizes, or an error says
 * who did not. */
ls_status ls_request_check_peer(ls_request *request, int local);
ls_status ls_request_check_peers(ls_request *request);
/* How collectives begin: waits until all local members have reached stage 1 of the same one, and what they brought
 * could have come over a slow link, which carries this load. */
ls_status ls_request_meet(ls_request *request, ls_wire_load (*load)(const ls_request *));

/* Makes `memory` readable for local members: itself where it is shared already, else a copy in the segment (with its
 * contents if `filled`). `*shared` is what to use from now on. */
ls_status ls_request_share(ls_request *request, const void *memory, size_t bytes, bool filled, void **shared);
/* The same for `out`, which is copied back at the end; `filled` where it also is an input. */
ls_status ls_request_share_out(ls_request *request, size_t bytes, bool filled);

/* Messages between machines, counted with the request; ls_request_net_await() waits until all have arrived. */
ls_status ls_request_net_send(ls_request *request, ls_net_lane lane, int to, int tag, const void *data, size_t bytes);
ls_status ls_request_net_recv(ls_request *request, ls_net_lane lane, int from, int tag, void *data, size_t bytes);
ls_status ls_request_net_await(ls_request *request);
/* The tag of a collective's messages in one of its four phases. */
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

/* Messages between members (collectives/send_recv.c): what belongs to a communicator. */
ls_status ls_mail_open(ls_comm *comm);
void ls_mail_close(ls_comm *comm);

/* The whole request, but not launched; `how` are its steps. */
ls_status ls_all_gather_prepare(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                ls_status (*how)(ls_request *), ls_request **out);
ls_status ls_message_prepare(ls_comm *comm, ls_traffic_kind kind, int peer, int tag, size_t bytes,
                             ls_status (*how)(ls_request *), ls_request **out);

/* What a message between local members says where its bytes stay with the sender's device until the receiver's has read
 * them: where they lie, the sender's counter when they may be read, and, once it is taken, the receiver's when they
 * were. */
typedef struct ls_mail_note {
    uint64_t place, ready, done;
} ls_mail_note;

/* All three return LS_REQUEST_WAITS where they cannot go on. The receiver's `read` looks at the note and writes `done`
 * into it; where it returns LS_REQUEST_WAITS the note is not taken, and it is asked again. */
ls_status ls_mail_post_note(ls_request *r, const ls_mail_note *note);
ls_status ls_mail_await_note(ls_request *r, ls_mail_note *note);
ls_status ls_mail_take_note(ls_request *r, ls_status (*read)(ls_request *r, ls_mail_note *note));

#endif
