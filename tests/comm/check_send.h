/* check_send.h: messages between two members: rings, a message to itself, tags out of order, many in flight. */
#ifndef TESTS_COMM_CHECK_SEND_H
#define TESTS_COMM_CHECK_SEND_H

#include "check_move.h"

enum { TAG_LAST = 32767 };

static inline int next_of(const harness *h) { return (h->rank + 1) % h->size; }
static inline int previous_of(const harness *h) { return (h->rank + h->size - 1) % h->size; }

/* Everyone sends to the next one. With one member this is a message to itself. */
static inline ls_status ring_started(harness *h, size_t bytes, bool send_first) {
    uint64_t trial = draw(h);
    buffer_kind kind = draw_buffers(h);
    call_form form = draw_form(h);
    int tag = (int)draw_below(h, TAG_LAST + 1), to = next_of(h), from = previous_of(h);
    unsigned char *out, *in;
    ls_request *sending = NULL, *receiving = NULL;
    LS_TRY(area_new(h, kind, bytes, draw_below(h, 4), &out));
    LS_TRY(area_new(h, kind, bytes, draw_below(h, 4), &in));
    pattern_fill(out, bytes, pattern_key(h, trial, h->rank, to));
    if (send_first) LS_TRY(ls_comm_send_start(h->comm, to, tag, out, bytes, &sending));
    LS_TRY(ls_comm_recv_start(h->comm, from, tag, in, bytes, &receiving));
    if (!send_first) LS_TRY(ls_comm_send_start(h->comm, to, tag, out, bytes, &sending));
    LS_TRY(finish_request(send_first ? receiving : sending, form));
    LS_TRY(finish_request(send_first ? sending : receiving, form));
    LS_TRY(pattern_check(h, "send_recv ring", in, bytes, pattern_key(h, trial, from, h->rank), from));
    LS_TRY(pattern_check(h, "send_recv input", out, bytes, pattern_key(h, trial, h->rank, to), h->rank));
    return areas_end(h, "send_recv ring");
}

/* A send may wait for its receiver, so rank 0 sends first and the others receive first. */
static inline ls_status ring_blocking(harness *h, size_t bytes) {
    uint64_t trial = draw(h);
    buffer_kind kind = draw_buffers(h);
    int to = next_of(h), from = previous_of(h);
    unsigned char *out, *in;
    if (h->size == 1) return LS_OK;
    LS_TRY(area_new(h, kind, bytes, 0, &out));
    LS_TRY(area_new(h, kind, bytes, 0, &in));
    pattern_fill(out, bytes, pattern_key(h, trial, h->rank, to));
    if (h->rank == 0) LS_TRY(ls_comm_send(h->comm, to, 0, out, bytes));
    LS_TRY(ls_comm_recv(h->comm, from, 0, in, bytes));
    if (h->rank != 0) LS_TRY(ls_comm_send(h->comm, to, 0, out, bytes));
    LS_TRY(pattern_check(h, "blocking ring", in, bytes, pattern_key(h, trial, from, h->rank), from));
    return areas_end(h, "blocking ring");
}

static inline ls_status check_send_recv(harness *h) {
    for (int s = 0; s < MOVE_SIZES; s++) {
        LS_TRY(ring_started(h, move_sizes[s], true));
        LS_TRY(ring_started(h, move_sizes[s], false));
        LS_TRY(ring_blocking(h, move_sizes[s]));
    }
    return ring_started(h, (5u << 20) + 1, true);
}

/* Messages wait at the receiver, behind a barrier, until it asks for them by tag in another order. */
static inline ls_status check_tags(harness *h) {
    static const int tags[] = {5, 0, TAG_LAST, 5, 17, 5, 1};
    static const int asked[] = {2, 0, 6, 4, 3, 5, 1}; /* messages of one tag stay in order: 0, 3, 5 */
    enum { COUNT = sizeof tags / sizeof tags[0] };
    uint64_t trial = draw(h);
    buffer_kind kind = draw_buffers(h);
    int to = next_of(h), from = previous_of(h);
    unsigned char *out[COUNT], *in[COUNT];
    ls_request *sends[COUNT] = {NULL};
    for (int k = 0; k < COUNT; k++) {
        size_t bytes = (size_t)k * 700;
        LS_TRY(area_new(h, kind, bytes, 0, &out[k]));
        LS_TRY(area_new(h, kind, bytes, 0, &in[k]));
        pattern_fill(out[k], bytes, pattern_key(h, trial + (uint64_t)k, h->rank, to));
        LS_TRY(ls_comm_send_start(h->comm, to, tags[k], out[k], bytes, &sends[k]));
    }
    LS_TRY(ls_comm_barrier(h->comm));
    for (int i = 0; i < COUNT; i++) {
        int k = asked[i];
        size_t bytes = (size_t)k * 700;
        LS_TRY(ls_comm_recv(h->comm, from, tags[k], in[k], bytes));
        LS_TRY(pattern_check(h, "tags", in[k], bytes, pattern_key(h, trial + (uint64_t)k, from, h->rank), from));
    }
    for (int k = COUNT - 1; k >= 0; k--) LS_TRY(ls_request_wait(sends[k]));
    return areas_end(h, "tags");
}

/* The size of message k between two members; the same on both sides. */
static inline size_t flood_bytes(const harness *h, uint64_t trial, int from, int to, int k) {
    uint64_t r = ref_random(pattern_key(h, trial, from, to), 1, (uint64_t)k, 0);
    return r % 16 == 0 ? 60000 + r / 16 % 60000 : r / 16 % 1500;
}

/* Everyone sends many messages to everyone, itself too, all in flight at once and ended in reverse. */
static inline ls_status check_flood(harness *h) {
    enum { EACH = 12 };
    uint64_t trial = draw(h);
    buffer_kind kind = draw_buffers(h);
    size_t total = (size_t)h->size * EACH, made = 0;
    ls_request **requests = calloc(total * 2, sizeof *requests);
    unsigned char **in = calloc(total, sizeof *in);
    ls_status status = LS_OK;
    if (requests == NULL || in == NULL) {
        status = ls_fail(LS_ERR_RESOURCE, "no memory for %zu requests", total * 2);
        goto out;
    }
    for (int k = 0; k < EACH; k++) {
        for (int peer = 0; peer < h->size; peer++) {
            unsigned char *message;
            size_t bytes = flood_bytes(h, trial, h->rank, peer, k);
            LS_TRY_OUT(area_new(h, kind, bytes, 0, &message));
            pattern_fill(message, bytes, pattern_key(h, trial + (uint64_t)k, h->rank, peer));
            LS_TRY_OUT(ls_comm_send_start(h->comm, peer, k % 3, message, bytes, &requests[made++]));
            bytes = flood_bytes(h, trial, peer, h->rank, k);
            unsigned char **mine = &in[(size_t)k * (size_t)h->size + (size_t)peer];
            LS_TRY_OUT(area_new(h, kind, bytes, 0, mine));
            LS_TRY_OUT(ls_comm_recv_start(h->comm, peer, k % 3, *mine, bytes, &requests[made++]));
        }
    }
    while (made > 0) LS_TRY_OUT(ls_request_wait(requests[--made]));
    for (int k = 0; k < EACH; k++) {
        for (int peer = 0; peer < h->size; peer++) {
            LS_TRY_OUT(pattern_check(h, "flood", in[(size_t)k * (size_t)h->size + (size_t)peer],
                                     flood_bytes(h, trial, peer, h->rank, k),
                                     pattern_key(h, trial + (uint64_t)k, peer, h->rank), peer));
        }
    }
    status = areas_end(h, "flood");
out:
    free(requests);
    free(in);
    return status;
}

#endif
