/* all_to_all.c: sends block r of every member to member r.
 *
 * Members of one machine copy their blocks directly from each other's buffers, each starting with its next neighbour.
 * Blocks for other machines are messages from member to member. If input and output are the same buffer, the collective
 * works on a copy of the input. */
#include "comm/collectives/prepare.h"

#include <stdlib.h>
#include <string.h>

enum { EXPOSE, LOCAL, REMOTE, LEAVE };

/* Makes this member's input readable for local members; takes a copy if the output would overwrite it. */
static ls_status expose(ls_request *r) {
    ls_comm *comm = r->comm;
    size_t all = r->bytes * (size_t)comm->size;
    void *shared = NULL;
    if (r->in == r->out && all > 0 && comm->control) {
        LS_TRY(ls_heap_alloc(&comm->world->heap, all, true, &shared));
        r->staging[r->staged++] = shared;
        ls_world_copy(comm->world, shared, r->in, all, false);
    } else if (r->in == r->out && all > 0) {
        r->scratch = malloc(all);
        if (!r->scratch) return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu MiB needed for an all-to-all", all >> 20);
        shared = memcpy(r->scratch, r->in, all);
    } else {
        LS_TRY(ls_request_share(r, r->in, all, true, &shared));
    }
    r->in = shared;
    if (comm->control) ls_comm_slot(comm, r, comm->local)->parts[0] = ls_comm_offset(comm, r->in);
    return LS_OK;
}

/* Starts the messages with the blocks from and to members on other machines. */
static ls_status exchange_blocks(ls_request *r) {
    ls_comm *comm = r->comm;
    int tag = ls_request_net_tag(r, 0);
    for (int i = 1; i < comm->size; i++) {
        int from = (comm->rank + comm->size - i) % comm->size, to = (comm->rank + i) % comm->size;
        if (comm->machine_of[from] != comm->machine)
            LS_TRY(ls_request_net_recv(r, LS_NET_COLLECTIVE, from, tag, (char *)r->out + (size_t)from * r->bytes,
                                       r->bytes));
        if (comm->machine_of[to] != comm->machine)
            LS_TRY(ls_request_net_send(r, LS_NET_COLLECTIVE, to, tag, (const char *)r->in + (size_t)to * r->bytes,
                                       r->bytes));
    }
    return LS_OK;
}

/* Returns the bytes on slow links: one block from and to each other member. */
static ls_wire_load all_to_all_load(const ls_request *r) {
    double bytes = (double)r->bytes * (double)(r->comm->size - 1);
    return (ls_wire_load){.in_bytes = bytes, .out_bytes = bytes, .most_bytes = bytes};
}

/* Copies the own block, and the blocks of local members from their inputs. */
static void copy_local(ls_request *r) {
    ls_comm *comm = r->comm;
    size_t mine = (size_t)comm->rank * r->bytes;
    if (r->bytes) memcpy((char *)r->out + mine, (const char *)r->in + mine, r->bytes);
    for (int i = 1; r->bytes && i < comm->local_size; i++) {
        int l = (comm->local + i) % comm->local_size;
        const char *from = ls_segment_at(&comm->world->segment, ls_comm_slot(comm, r, l)->parts[0]);
        ls_world_copy(comm->world, (char *)r->out + (size_t)ls_comm_local_rank(comm, l) * r->bytes, from + mine,
                      r->bytes, false);
    }
}

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. */
static ls_status step_all_to_all(ls_request *r) {
    switch (r->phase) {
    case EXPOSE:
        LS_TRY(expose(r));
        ls_request_publish(r, 1);
        if (r->comm->machines > 1) LS_TRY(exchange_blocks(r));
        r->phase = LOCAL;
        break;
    case LOCAL:
        LS_TRY(ls_request_meet(r, all_to_all_load));
        copy_local(r);
        ls_request_publish(r, 2);
        r->phase = REMOTE;
        break;
    case REMOTE:
        LS_TRY(ls_request_net_await(r));
        r->phase = LEAVE;
        break;
    case LEAVE: LS_TRY(ls_request_await_all(r, 2)); return ls_request_complete(r);
    }
    return LS_OK;
}

/* Starts an all-to-all (ls_comm_all_to_all()); ls_request_wait() ends it, and the buffers belong to it until then. */
ls_status ls_comm_all_to_all_start(ls_comm *comm, const void *in, void *out_buffer, size_t bytes, ls_request **out) {
    ls_request *r;
    *out = NULL;
    LS_TRY(ls_request_make(comm, LS_TRAFFIC_ALL_TO_ALL, step_all_to_all, &r));
    r->fingerprint = ls_fingerprint(4, bytes, 0, 0);
    r->in = in;
    r->out = out_buffer;
    r->bytes = bytes;
    r->traffic_bytes = (uint64_t)(comm->size - 1) * bytes;
    return ls_request_launch(r, out);
}

ls_status ls_comm_all_to_all(ls_comm *comm, const void *in, void *out, size_t bytes) {
    ls_request *r;
    LS_TRY(ls_comm_all_to_all_start(comm, in, out, bytes, &r));
    return ls_request_wait(r);
}
