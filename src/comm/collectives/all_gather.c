/* all_gather.c: gathers every member's piece on all members, in order of rank.
 *
 * Members copy the pieces of their machine directly from each other's buffers. A piece of another machine is received
 * once, by the owner's agent, into the agent's output; the other local members copy it from there. Pieces may have any
 * size. Bytes: each machine receives the others' pieces once, and each member copies (L−1)/L of them.
 *
 *     ranks 0 1 2 on machine A, 3 4 on B: rank 3 sends to 0, rank 4 to 1; rank 0 and 2 send to 3, rank 1 to 4 */
#include "comm/collectives/prepare.h"

#include <string.h>

enum { SMALL_PIECE_BYTES = 2 << 10 };

enum { EXPOSE, LOCAL, RECEIVE, REMOTE, LEAVE };

/* Returns the bytes of a rank's piece; r->bounds has the displacements of all pieces in the output. */
static size_t piece_bytes(const ls_request *r, int rank) { return r->bounds[rank + 1] - r->bounds[rank]; }

/* Returns whether pieces are small enough to go through the slots themselves, so that no member must wait until the
 * others have read its buffer. */
static bool is_small(const ls_request *r) {
    const ls_comm *comm = r->comm;
    return comm->machines == 1 && comm->control && r->bytes <= SMALL_PIECE_BYTES;
}

/* Copies the own piece to its place in `out`, makes it readable for local members, and points r->in at the readable
 * copy. */
static ls_status expose(ls_request *r) {
    ls_comm *comm = r->comm;
    char *own = (char *)r->out + r->bounds[comm->rank];
    size_t bytes = piece_bytes(r, comm->rank);
    if (r->in != own && bytes) memmove(own, r->in, bytes);
    if (is_small(r)) {
        r->in = ls_comm_small(comm, r, comm->local);
        if (bytes) memcpy(ls_comm_small(comm, r, comm->local), own, bytes);
    } else if (comm->machines > 1) {
        /* Local members read what arrives from other machines in the output of the agent that received it. */
        LS_TRY(ls_request_share_out(r, r->bounds[comm->size], true));
        r->in = (char *)r->out + r->bounds[comm->rank];
    } else {
        void *shared;
        LS_TRY(ls_request_share(r, own, bytes, true, &shared));
        r->in = shared;
    }
    if (comm->control) {
        ls_slot *mine = ls_comm_slot(comm, r, comm->local);
        mine->parts[0] = ls_comm_offset(comm, r->in);
        mine->out = ls_comm_offset(comm, r->out);
    }
    return LS_OK;
}

/* Starts all messages between machines: receives, as the agent of ranks elsewhere, their pieces, and sends the own
 * piece to one agent on each other machine. */
static ls_status exchange_pieces(ls_request *r) {
    ls_comm *comm = r->comm;
    int tag = ls_request_net_tag(r, 0);
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->machine_of[rank] == comm->machine || ls_comm_agent(comm, comm->machine, rank) != comm->rank) continue;
        LS_TRY(ls_request_net_recv(r, LS_NET_COLLECTIVE, rank, tag, (char *)r->out + r->bounds[rank],
                                   piece_bytes(r, rank)));
    }
    for (int m = 0; m < comm->machines; m++) {
        if (m == comm->machine) continue;
        LS_TRY(ls_request_net_send(r, LS_NET_COLLECTIVE, ls_comm_agent(comm, m, comm->rank), tag, r->in,
                                   piece_bytes(r, comm->rank)));
    }
    return LS_OK;
}

/* Returns the bytes on slow links: each member receives the pieces of all others and sends its own to each of them. */
static ls_wire_load gather_load(const ls_request *r) {
    const ls_comm *comm = r->comm;
    double all = (double)r->bounds[comm->size], others = (double)(comm->size - 1), most = 0;
    for (int i = 0; i < comm->size; i++) {
        double piece = (double)piece_bytes(r, i);
        if (all - piece > most) most = all - piece;
        if (others * piece > most) most = others * piece;
    }
    double own = (double)piece_bytes(r, comm->rank);
    return (ls_wire_load){.in_bytes = all - own, .out_bytes = others * own, .most_bytes = most};
}

/* Copies the pieces of the other local members from their buffers into this member's output. */
static void copy_local(ls_request *r) {
    ls_comm *comm = r->comm;
    /* Each member starts with its next neighbour, so that not all read the same buffer at once. */
    for (int i = 1; i < comm->local_size; i++) {
        int l = (comm->local + i) % comm->local_size, rank = ls_comm_local_rank(comm, l);
        ls_world_copy(comm->world, (char *)r->out + r->bounds[rank],
                      ls_segment_at(&comm->world->segment, ls_comm_slot(comm, r, l)->parts[0]), piece_bytes(r, rank),
                      r->bounds[comm->size] >= LS_STREAM_BYTES);
    }
}

/* Copies pieces of other machines from the outputs of the local members that received them. */
static void copy_remote(ls_request *r) {
    ls_comm *comm = r->comm;
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->machine_of[rank] == comm->machine) continue;
        int l = rank % comm->local_size; /* the agent's local number */
        if (l == comm->local) continue;
        size_t at = r->bounds[rank];
        ls_world_copy(comm->world, (char *)r->out + at,
                      ls_segment_at(&comm->world->segment, ls_comm_slot(comm, r, l)->out + at), piece_bytes(r, rank),
                      r->bounds[comm->size] >= LS_STREAM_BYTES);
    }
}

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. So do all step
 * functions. */
static ls_status step_all_gather(ls_request *r) {
    switch (r->phase) {
    case EXPOSE:
        LS_TRY(expose(r));
        ls_request_publish(r, 1);
        if (r->comm->machines > 1) LS_TRY(exchange_pieces(r));
        r->phase = LOCAL;
        break;
    case LOCAL:
        LS_TRY(ls_request_meet(r, gather_load));
        copy_local(r);
        if (is_small(r)) return ls_request_complete(r);
        r->phase = RECEIVE;
        break;
    case RECEIVE:
        LS_TRY(ls_request_net_await(r));
        ls_request_publish(r, 2);
        r->phase = REMOTE;
        break;
    case REMOTE:
        LS_TRY(ls_request_await_all(r, 2));
        if (r->comm->machines == 1) return ls_request_complete(r);
        copy_remote(r);
        ls_request_publish(r, 3);
        r->phase = LEAVE;
        break;
    case LEAVE: LS_TRY(ls_request_await_all(r, 3)); return ls_request_complete(r);
    }
    return LS_OK;
}

ls_status ls_all_gather_prepare(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                ls_status (*how)(ls_request *), ls_request **out) {
    ls_request *r;
    *out = NULL;
    LS_TRY(ls_request_make(comm, LS_TRAFFIC_ALL_GATHER, how, &r));
    uint64_t mixed = 0;
    r->bounds[0] = 0;
    r->bytes = 0; /* the longest piece */
    for (int i = 0; i < comm->size; i++) {
        if (bytes[i] > r->bytes) r->bytes = bytes[i];
        r->bounds[i + 1] = r->bounds[i] + bytes[i];
        mixed = ls_fingerprint(mixed, bytes[i], 0, 0);
    }
    r->fingerprint = ls_fingerprint(3, r->bounds[comm->size], mixed, 0);
    r->in = in;
    r->out = out_buffer;
    r->traffic_bytes = (uint64_t)(comm->size - 1) * bytes[comm->rank];
    *out = r;
    return LS_OK;
}

/* Starts an all-gather (ls_comm_all_gather()); ls_request_wait() ends it, and the buffers belong to it until then. */
ls_status ls_comm_all_gather_start(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                   ls_request **out) {
    LS_TRY(ls_all_gather_prepare(comm, in, out_buffer, bytes, step_all_gather, out));
    return ls_request_launch(*out, out);
}

ls_status ls_comm_all_gather(ls_comm *comm, const void *in, void *out, const size_t *bytes) {
    ls_request *r;
    LS_TRY(ls_comm_all_gather_start(comm, in, out, bytes, &r));
    return ls_request_wait(r);
}
