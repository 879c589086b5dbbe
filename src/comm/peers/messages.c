/* messages.c: sends a tensor from one worker's device to another's. The sender publishes the tensor's place; the
 * receiver's device copies it and signals; the receiver's host publishes the value of that signal. */
#include "comm/peers/peers.h"

enum { BEGIN, POSTED, READING = POSTED };

/* Returns the local number of a rank on this machine. */
static int local_number(const ls_comm *comm, int rank) {
    int l = 0;
    while (ls_comm_local_rank(comm, l) != rank) l++;
    return l;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

ls_status ls_peers_step_send(ls_request *r) {
    const ls_comm *comm = r->comm;
    ls_staging *t = r->tensors;
    ls_mail_note note = {.ready = t->ready};
    if (r->phase == BEGIN) {
        LS_TRY(ls_peers_reached(r, t->begun));
        LS_TRY(ls_peers_place(comm->world->peers, r->in, r->bytes, &note.place));
        LS_TRY(ls_mail_post_note(r, &note));
        r->phase = POSTED;
    }
    LS_TRY(ls_mail_await_note(r, &note));
    const uint64_t *done = ls_peers_counter(comm, local_number(comm, r->peer), LS_PEERS_DONE);
    t->counted[t->counts++] = (ls_counted){done, note.done};
    return ls_request_complete(r);
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* Enqueues the copy of the sender's tensor, after the sender's `ready`, and the signal `done`, whose value the note
 * takes back. */
static ls_status enqueue_copy(ls_request *r, ls_mail_note *note) {
    const ls_comm *comm = r->comm;
    ls_staging *t = r->tensors;
    int from = local_number(comm, r->peer);
    void *tensor;
    LS_TRY(ls_device_follow(t->device, t->begun)); /* the buffer may still be in use */
    LS_TRY(ls_device_await(t->device, ls_peers_counter(comm, from, LS_PEERS_READY), note->ready));
    LS_TRY(ls_peers_at(comm, from, note->place, &tensor));
    if (tensor) LS_TRY(ls_device_copy(t->device, r->out, tensor, r->bytes));
    LS_TRY(ls_peers_signal(comm, LS_PEERS_DONE, &note->done));
    return ls_device_record(t->device, &t->event);
}

/* Enqueues the copy at the first call; later calls wait until it may be published (ls_peers_reached). Callback of
 * ls_mail_take_note(). */
static ls_status read_tensor(ls_request *r, ls_mail_note *note) {
    if (r->phase == BEGIN) {
        int before = ls_device_use(r->tensors->device, r->comm->queue);
        ls_status status = enqueue_copy(r, note);
        (void)ls_device_use(r->tensors->device, before);
        LS_TRY(status);
        r->phase = READING;
    }
    return ls_peers_reached(r, r->tensors->event);
}

ls_status ls_peers_step_receive(ls_request *r) {
    LS_TRY(ls_mail_take_note(r, read_tensor));
    return ls_request_complete(r);
}
