/* send_recv.c: messages between two members.
 *
 * On one machine the sender writes a record (tag, size, place of the data) and pushes the record's offset onto a ring
 * of this pair. The receiver drains the ring into a private list and searches it for its tag. So messages match in the
 * order sent, and unmatched messages cannot block the ring. A small message lies inside the record, and its send
 * completes at once. A large message is copied directly from the sender's buffer to the receiver's, and its send
 * completes after that.
 *
 *     sender's heap:  channel { head, tail, ring of offsets } ──► record { state, tag, bytes, data | buffer's offset }
 *
 * The first message creates the channel and publishes its offset in the control block. A member's messages to itself
 * match in a private list. Between machines the transport matches messages. */
#include "comm/collectives/mail.h"

#include "base/memory.h"
#include "comm/collectives/prepare.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { RING = 256, INSIDE_BYTES = 1024, TAG_MAX = 32767 };
enum { RECORD_SENT = 1, RECORD_TAKEN };
enum { BEGIN, POSTED, NET }; /* BEGIN: not matched yet; also in the step functions of callers that use notes */

typedef struct record {
    _Alignas(64) _Atomic int state;
    int tag;
    uint64_t bytes;
    uint64_t data;      /* offset of the sender's buffer; 0: inside */
    uint64_t leaves_ns; /* over a slow link, or measured: when the last byte leaves the sender */
    char inside[INSIDE_BYTES];
} record;

typedef struct channel {
    _Alignas(128) _Atomic uint64_t head; /* messages that the receiver has listed */
    _Alignas(128) _Atomic uint64_t tail; /* messages that the sender has pushed */
    uint64_t ring[RING];
} channel;

typedef struct listed {
    record *message;
    struct listed *next;
} listed;

struct ls_mail {
    channel **out, **in; /* by local number; NULL until the first message */
    listed **list;       /* by local number of the sender: arrived, not matched; oldest first */
    listed *spare;
    record **sent; /* reused once read: small messages, perhaps unread, and large messages and notes that were read */
    size_t n_sent, sent_capacity;
    ls_request *to_self; /* sends to this very worker, chained by `message` */
};

ls_status ls_mail_open(ls_comm *comm) {
    size_t n = (size_t)comm->local_size;
    ls_mail *mail = comm->mail = calloc(1, sizeof *mail);
    if (!mail) return ls_fail(LS_ERR_RESOURCE, "out of memory for a communicator");
    mail->out = ls_region_take(&comm->memory, n, sizeof(channel *));
    mail->in = ls_region_take(&comm->memory, n, sizeof(channel *));
    mail->list = ls_region_take(&comm->memory, n, sizeof(listed *));
    return comm->memory.is_short ? ls_fail(LS_ERR_RESOURCE, "out of memory for a communicator") : LS_OK;
}

static void free_list(listed *list) {
    while (list) {
        listed *next = list->next;
        free(list);
        list = next;
    }
}

void ls_mail_close(ls_comm *comm) {
    ls_mail *mail = comm->mail;
    if (!mail) return;
    for (int l = 0; l < comm->local_size; l++) {
        if (mail->list) free_list(mail->list[l]);
        if (mail->out) ls_heap_free(&comm->world->heap, mail->out[l]);
    }
    for (size_t i = 0; i < mail->n_sent; i++) ls_heap_free(&comm->world->heap, mail->sent[i]);
    free_list(mail->spare);
    free(mail->sent);
    free(mail);
    comm->mail = NULL;
}

/* Returns the local number of a rank on this machine. */
static int local_number(const ls_comm *comm, int rank) {
    int l = 0;
    while (ls_comm_local_rank(comm, l) != rank) l++;
    return l;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Creates this member's ring to local member `to` on the first message, and publishes its offset. */
static ls_status open_channel(ls_comm *comm, int to) {
    if (comm->mail->out[to]) return LS_OK;
    void *block;
    LS_TRY(ls_heap_alloc(&comm->world->heap, sizeof(channel), false, &block));
    comm->mail->out[to] = block;
    atomic_store_explicit(&comm->channels[comm->local * comm->local_size + to],
                          ls_segment_offset(&comm->world->segment, block), memory_order_release);
    return LS_OK;
}

/* Reuses a record that the receiver has read, or allocates one. */
static ls_status take_record(ls_comm *comm, record **out) {
    ls_mail *mail = comm->mail;
    for (size_t i = 0; i < mail->n_sent; i++) {
        if (atomic_load_explicit(&mail->sent[i]->state, memory_order_acquire) != RECORD_TAKEN) continue;
        *out = mail->sent[i];
        mail->sent[i] = mail->sent[--mail->n_sent];
        return LS_OK;
    }
    void *block;
    LS_TRY(ls_heap_alloc(&comm->world->heap, sizeof(record), true, &block));
    *out = block;
    return LS_OK;
}

/* Keeps a record for the sender's next messages; the receiver may not have read it yet. */
static ls_status keep_record(ls_comm *comm, record *message) {
    ls_mail *mail = comm->mail;
    record **sent = ls_list_grow(mail->sent, mail->n_sent, &mail->sent_capacity, sizeof *sent);
    if (!sent) return ls_fail(LS_ERR_RESOURCE, "out of memory for a message");
    mail->sent = sent;
    mail->sent[mail->n_sent++] = message;
    return LS_OK;
}

/* Returns whether the ring has a free place, and in *tail the number of messages pushed so far. */
static bool has_room(const channel *c, uint64_t *tail) {
    *tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
    return *tail - atomic_load_explicit(&c->head, memory_order_acquire) < RING;
}

/* Takes a record and fills in all but its data. */
static ls_status make_record(ls_request *r, record **out) {
    LS_TRY(take_record(r->comm, out));
    record *message = *out;
    message->tag = r->tag;
    message->bytes = r->bytes;
    message->data = 0;
    message->leaves_ns = ls_wire_send(r->comm->world, r->bytes);
    return LS_OK;
}

/* Pushes the record onto the ring and wakes the receiver. */
static void push_record(ls_request *r, int to, uint64_t tail, record *message) {
    ls_comm *comm = r->comm;
    channel *c = comm->mail->out[to];
    r->message = message;
    c->ring[tail % RING] = ls_segment_offset(&comm->world->segment, message);
    atomic_store_explicit(&c->tail, tail + 1, memory_order_release);
    ls_world_moved(comm->world);
    ls_comm_ring_member(comm, to);
}

/* Copies a small message into a record, or makes a large one readable, and pushes it. *posted false: the ring is
 * full. */
static ls_status post_message(ls_request *r, int to, bool *posted) {
    ls_comm *comm = r->comm;
    uint64_t tail;
    LS_TRY(open_channel(comm, to));
    *posted = has_room(comm->mail->out[to], &tail);
    if (!*posted) return LS_OK;
    record *message;
    LS_TRY(make_record(r, &message));
    if (r->bytes <= INSIDE_BYTES) {
        if (r->bytes) memcpy(message->inside, r->in, r->bytes);
    } else {
        void *shared;
        LS_TRY(ls_request_share(r, r->in, r->bytes, true, &shared));
        message->data = ls_segment_offset(&comm->world->segment, shared);
    }
    atomic_store_explicit(&message->state, RECORD_SENT, memory_order_relaxed);
    if (!message->data) LS_TRY(keep_record(comm, message));
    push_record(r, to, tail, message);
    return LS_OK;
}

/* Returns whether no earlier request with this step function, communicator, partner and (if `same_tag`) tag is still at
 * BEGIN. So sends to a member start in order, and receives of one tag match in order, although a launch steps the new
 * request before older ones had their turn. */
static bool is_oldest(const ls_request *r, bool same_tag) {
    for (const ls_request *x = r->comm->world->flight.first; x != r; x = x->next)
        if (x->comm == r->comm && x->step == r->step && x->peer == r->peer && (!same_tag || x->tag == r->tag) &&
            !x->done && x->phase == BEGIN)
            return false;
    return true;
}

/* Advances a send: LS_REQUEST_WAITS until the ring has room and, for large messages, until the receiver has copied
 * them. A send to this worker itself waits in a list, and its receive completes it. */
static ls_status step_send(ls_request *r) {
    ls_comm *comm = r->comm;
    if (r->phase == BEGIN && comm->machine_of[r->peer] != comm->machine) {
        LS_TRY(ls_request_net_send(r, LS_NET_MESSAGE, r->peer, r->tag, r->in, r->bytes));
        r->phase = NET;
    } else if (r->phase == BEGIN && r->peer == comm->rank) {
        ls_request **last = &comm->mail->to_self;
        while (*last) last = (ls_request **)&(*last)->message;
        *last = r;
        r->phase = POSTED;
        return LS_REQUEST_WAITS; /* the receive completes it */
    } else if (r->phase == BEGIN) {
        r->blocked_on = r->peer;
        if (!is_oldest(r, false)) return LS_REQUEST_WAITS;
        bool posted;
        LS_TRY(post_message(r, local_number(comm, r->peer), &posted));
        if (!posted) return LS_REQUEST_WAITS;
        r->phase = POSTED;
        return r->bytes <= INSIDE_BYTES ? ls_request_complete(r) : LS_OK;
    }
    if (r->phase == NET) {
        LS_TRY(ls_request_net_await(r));
        return ls_request_complete(r);
    }
    if (r->peer == comm->rank) return LS_REQUEST_WAITS;
    record *message = r->message;
    r->blocked_on = r->peer;
    if (atomic_load_explicit(&message->state, memory_order_acquire) != RECORD_TAKEN) return LS_REQUEST_WAITS;
    LS_TRY(keep_record(comm, message));
    return ls_request_complete(r);
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* Moves all records from the ring of local member `from` into the private list; nothing if that member has not sent
 * any. */
static ls_status list_arrivals(ls_comm *comm, int from) {
    ls_mail *mail = comm->mail;
    if (!mail->in[from]) {
        uint64_t at =
            atomic_load_explicit(&comm->channels[from * comm->local_size + comm->local], memory_order_acquire);
        if (!at) return LS_OK;
        mail->in[from] = ls_segment_at(&comm->world->segment, at);
    }
    channel *c = mail->in[from];
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_acquire);
    if (head == tail) return LS_OK;
    listed **last = &mail->list[from];
    while (*last) last = &(*last)->next;
    for (; head < tail; head++) {
        listed *entry = mail->spare;
        if (entry)
            mail->spare = entry->next;
        else if (!(entry = malloc(sizeof *entry)))
            return ls_fail(LS_ERR_RESOURCE, "out of memory for a message");
        *entry = (listed){ls_segment_at(&comm->world->segment, c->ring[head % RING]), NULL};
        *last = entry;
        last = &entry->next;
    }
    atomic_store_explicit(&c->head, head, memory_order_release);
    ls_world_moved(comm->world);
    return LS_OK;
}

/* Returns LS_ERR_INPUT, which names both workers, if the message has another size than the receive expects. */
static ls_status check_size(const ls_request *r, uint64_t bytes) {
    if (bytes == r->bytes) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "worker %d received %llu bytes with tag %d from worker %d but expected %zu bytes",
                   r->comm->world_rank[r->comm->rank], (unsigned long long)bytes, r->tag, r->comm->world_rank[r->peer],
                   r->bytes);
}

/* Removes the entry from the list, and tells the sender that its message was read, so that it may reuse the record. */
static void release_message(ls_comm *comm, int from, listed **at) {
    listed *entry = *at;
    *at = entry->next;
    entry->next = comm->mail->spare;
    comm->mail->spare = entry;
    atomic_store_explicit(&entry->message->state, RECORD_TAKEN, memory_order_release);
    ls_comm_ring_member(comm, from);
}

/* Copies the oldest message of local member `from` with the request's tag; LS_REQUEST_WAITS: none has come, or over a
 * slow link it is still on its way. LS_ERR_INPUT: it has another size. */
static ls_status receive_local(ls_request *r, int from) {
    ls_comm *comm = r->comm;
    LS_TRY(list_arrivals(comm, from));
    for (listed **at = &comm->mail->list[from]; *at; at = &(*at)->next) {
        listed *entry = *at;
        record *message = entry->message;
        if (message->tag != r->tag) continue;
        LS_TRY(check_size(r, message->bytes));
        if (!ls_wire_received(r, message->leaves_ns, r->bytes)) return LS_REQUEST_WAITS;
        r->ready_ns = message->leaves_ns;
        if (message->data)
            ls_world_copy(comm->world, r->out, ls_segment_at(&comm->world->segment, message->data), r->bytes,
                          r->bytes >= LS_STREAM_BYTES);
        else if (r->bytes)
            memcpy(r->out, message->inside, r->bytes);
        release_message(comm, from, at);
        return ls_request_complete(r);
    }
    return LS_REQUEST_WAITS;
}

/* Copies the oldest message of this worker to itself with the request's tag, and completes its send; LS_REQUEST_WAITS:
 * none. */
static ls_status receive_from_self(ls_request *r) {
    for (ls_request **at = &r->comm->mail->to_self; *at; at = (ls_request **)&(*at)->message) {
        ls_request *send = *at;
        if (send->tag != r->tag) continue;
        LS_TRY(check_size(r, send->bytes));
        if (r->bytes) memmove(r->out, send->in, r->bytes);
        *at = send->message;
        send->message = NULL;
        (void)ls_request_complete(send);
        return ls_request_complete(r);
    }
    return LS_REQUEST_WAITS;
}

/* Advances a receive from another machine, from this worker itself, or from a local member; LS_REQUEST_WAITS until its
 * message is there and, within a machine, while an older receive with the same partner and tag has none. */
static ls_status step_recv(ls_request *r) {
    ls_comm *comm = r->comm;
    r->blocked_on = r->peer;
    if (comm->machine_of[r->peer] != comm->machine) {
        if (r->phase == BEGIN) LS_TRY(ls_request_net_recv(r, LS_NET_MESSAGE, r->peer, r->tag, r->out, r->bytes));
        r->phase = NET;
        LS_TRY(ls_request_net_await(r));
        return ls_request_complete(r);
    }
    if (!is_oldest(r, true)) return LS_REQUEST_WAITS;
    if (r->peer == comm->rank) return receive_from_self(r);
    return receive_local(r, local_number(comm, r->peer));
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(ls_mail_note) <= INSIDE_BYTES, "a note must fit into a record");

ls_status ls_mail_post_note(ls_request *r, const ls_mail_note *note) {
    ls_comm *comm = r->comm;
    int to = local_number(comm, r->peer);
    uint64_t tail;
    r->blocked_on = r->peer;
    if (!is_oldest(r, false)) return LS_REQUEST_WAITS;
    LS_TRY(open_channel(comm, to));
    if (!has_room(comm->mail->out[to], &tail)) return LS_REQUEST_WAITS;
    record *message;
    LS_TRY(make_record(r, &message));
    memcpy(message->inside, note, sizeof *note);
    atomic_store_explicit(&message->state, RECORD_SENT, memory_order_relaxed);
    push_record(r, to, tail, message);
    return LS_OK;
}

ls_status ls_mail_await_note(ls_request *r, ls_mail_note *note) {
    record *message = r->message;
    r->blocked_on = r->peer;
    if (atomic_load_explicit(&message->state, memory_order_acquire) != RECORD_TAKEN) return LS_REQUEST_WAITS;
    memcpy(note, message->inside, sizeof *note);
    return keep_record(r->comm, message);
}

ls_status ls_mail_take_note(ls_request *r, ls_status (*read)(ls_request *r, ls_mail_note *note)) {
    ls_comm *comm = r->comm;
    int from = local_number(comm, r->peer);
    r->blocked_on = r->peer;
    if (!is_oldest(r, true)) return LS_REQUEST_WAITS;
    LS_TRY(list_arrivals(comm, from));
    for (listed **at = &comm->mail->list[from]; *at; at = &(*at)->next) {
        record *message = (*at)->message;
        if (message->tag != r->tag) continue;
        LS_TRY(check_size(r, message->bytes));
        LS_TRY(read(r, (ls_mail_note *)(void *)message->inside));
        release_message(comm, from, at);
        return LS_OK;
    }
    return LS_REQUEST_WAITS;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

/* Returns LS_ERR_INPUT if rank or tag is out of range; `what` begins the message, as in "send to". */
static ls_status check_partner(const ls_comm *comm, const char *what, int partner, int tag) {
    if (partner < 0 || partner >= comm->size)
        return ls_fail(LS_ERR_INPUT, "%s rank %d: the communicator has ranks 0 to %d", what, partner, comm->size - 1);
    if (tag < 0 || tag > TAG_MAX)
        return ls_fail(LS_ERR_INPUT, "%s rank %d: tag %d is not between 0 and %d", what, partner, tag, TAG_MAX);
    return LS_OK;
}

ls_status ls_message_prepare(ls_comm *comm, ls_traffic_kind kind, int peer, int tag, size_t bytes,
                             ls_status (*how)(ls_request *), ls_request **out) {
    *out = NULL;
    LS_TRY(check_partner(comm, kind == LS_TRAFFIC_SEND ? "send to" : "receive from", peer, tag));
    LS_TRY(ls_request_make(comm, kind, how, out));
    ls_request *r = *out;
    r->peer = peer;
    r->tag = tag;
    r->bytes = bytes;
    r->traffic_bytes = peer == comm->rank ? 0 : bytes;
    return LS_OK;
}

/* Starts to send a message, matched by tag in the order sent; the request ends when the buffer may be reused. */
ls_status ls_comm_send_start(ls_comm *comm, int to, int tag, const void *buffer, size_t bytes, ls_request **out) {
    LS_TRY(ls_message_prepare(comm, LS_TRAFFIC_SEND, to, tag, bytes, step_send, out));
    (*out)->in = buffer;
    return ls_request_launch(*out, out);
}

/* Starts to receive a message with this tag; ls_request_wait() ends it. LS_ERR_INPUT: the message has another size. */
ls_status ls_comm_recv_start(ls_comm *comm, int from, int tag, void *buffer, size_t bytes, ls_request **out) {
    LS_TRY(ls_message_prepare(comm, LS_TRAFFIC_RECEIVE, from, tag, bytes, step_recv, out));
    (*out)->out = buffer;
    return ls_request_launch(*out, out);
}

ls_status ls_comm_send(ls_comm *comm, int to, int tag, const void *buffer, size_t bytes) {
    ls_request *r;
    LS_TRY(ls_comm_send_start(comm, to, tag, buffer, bytes, &r));
    return ls_request_wait(r);
}

/* Waits for a message with this tag, and copies it to `buffer`. LS_ERR_INPUT: it has another size. */
ls_status ls_comm_recv(ls_comm *comm, int from, int tag, void *buffer, size_t bytes) {
    ls_request *r;
    LS_TRY(ls_comm_recv_start(comm, from, tag, buffer, bytes, &r));
    return ls_request_wait(r);
}
