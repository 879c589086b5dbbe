/* messages.c: sends a tensor from one machine's device to another's over a link, a connection between the devices
 * (links.h has the steps). */
#include "comm/links/links.h"

enum { BEGIN, ASKED, TOLD };

/* Enqueues a transfer to or from the partner in `queue`, and an event after it; an empty message enqueues only the
 * event. */
static ls_status enqueue_piece(const ls_request *r, int queue, const ls_link_piece *piece) {
    ls_staging *t = r->tensors;
    LS_TRY(ls_links_check(r->comm));
    ls_link *link = (piece->sends ? ls_links_to : ls_links_from)(t->device, r->comm, r->peer);
    int before = ls_device_use(t->device, queue);
    ls_status status = piece->bytes ? ls_links_put(r, link, piece, 1) : LS_OK;
    if (status == LS_OK) status = ls_device_record(t->device, &t->event);
    (void)ls_device_use(t->device, before);
    return status;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Enqueues the send; LS_ERR_INPUT if the receiver has asked for another size. */
static ls_status enqueue_send(ls_request *r) {
    const ls_comm *comm = r->comm;
    if (r->tensors->asked != r->bytes)
        return ls_fail(LS_ERR_INPUT, "worker %d sends %zu bytes with tag %d to worker %d, which expects %llu bytes",
                       comm->world_rank[comm->rank], r->bytes, r->tag, comm->world_rank[r->peer],
                       (unsigned long long)r->tensors->asked);
    const ls_link_piece piece = {(void *)(uintptr_t)r->in, r->bytes, 1, true};
    return enqueue_piece(r, comm->queue, &piece);
}

ls_status ls_links_step_send(ls_request *r) {
    ls_staging *t = r->tensors;
    switch (r->phase) {
    case BEGIN:
        LS_TRY(ls_request_net_recv(r, LS_NET_ASKED, r->peer, r->tag, &t->asked, sizeof t->asked));
        r->phase = ASKED;
        break;
    case ASKED:
        LS_TRY(ls_request_net_await(r));
        LS_TRY(enqueue_send(r));
        LS_TRY(ls_request_net_send(r, LS_NET_SENT, r->peer, r->tag, NULL, 0));
        r->phase = TOLD;
        break;
    case TOLD: LS_TRY(ls_request_net_await(r)); return ls_request_complete(r);
    }
    return LS_OK;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* Returns whether no older receive of this worker is unfinished. */
static bool is_only(const ls_request *r) {
    for (const ls_request *x = r->comm->world->flight.first; x != r; x = x->next)
        if (x->step == ls_links_step_receive && !x->done) return false;
    return true;
}

ls_status ls_links_step_receive(ls_request *r) {
    ls_staging *t = r->tensors;
    const ls_link_piece piece = {r->out, r->bytes, 0, false};
    switch (r->phase) {
    case BEGIN:
        if (!is_only(r)) return LS_REQUEST_WAITS;
        LS_TRY(enqueue_piece(r, LS_QUEUE_RECEIVE, &piece));
        t->asked = r->bytes;
        LS_TRY(ls_request_net_recv(r, LS_NET_SENT, r->peer, r->tag, NULL, 0));
        LS_TRY(ls_request_net_send(r, LS_NET_ASKED, r->peer, r->tag, &t->asked, sizeof t->asked));
        r->phase = ASKED;
        break;
    case ASKED: LS_TRY(ls_request_net_await(r)); return ls_request_complete(r);
    }
    return LS_OK;
}
