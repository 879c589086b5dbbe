/* request.h: what the steps of a collective or message are made of: slots and stages (comm.h), copies of private
 * buffers in the segment (the memory that workers of a machine share), messages between machines. The files in
 * collectives, peers and links call it; wait.h starts requests and waits for them.
 *
 * All functions are called by the worker's main thread. Those that return an ls_status may return LS_REQUEST_WAITS
 * where their comment says so; LS_TRY() then ends the step, which is called again later. */
#ifndef LS_COMM_WORLD_REQUEST_H
#define LS_COMM_WORLD_REQUEST_H

#include "comm/world/wire.h"

/* Makes a request that is not yet in flight; ls_request_launch() or ls_request_drop() takes it over. Gives a collective
 * the communicator's next number, which messages and LS_TRAFFIC_KINDS (the wait at a communicator's end) do not have.
 * After a failure of this worker returns the status of that failure, after one of another worker LS_ERR_PEER. */
ls_status ls_request_make(ls_comm *comm, ls_traffic_kind kind, ls_status (*step)(ls_request *), ls_request **out);
/* Returns the name of a kind in messages, such as "all-reduce"; for LS_TRAFFIC_KINDS "the end of a communicator". */
const char *ls_traffic_kind_name(ls_traffic_kind kind);
/* Returns the name of the request's kind in traces, such as "all_reduce". */
const char *ls_request_trace_name(const ls_request *request);
/* Marks the request as done, copies a staged output back to the caller's buffer, and frees its slot for a later
 * collective. The last step of each request calls it. Returns LS_OK. */
ls_status ls_request_complete(ls_request *request);
/* Frees the memory that the request borrowed, and keeps the rest for the next ls_request_make(). It must not be in
 * flight. */
void ls_request_release(ls_request *request);
/* Frees a list of requests for good, when the world is closed. */
void ls_requests_free(ls_request *list);

/* Returned by a step that cannot continue before another member does. */
#define LS_REQUEST_WAITS ((ls_status)-1)
/* Runs the next steps of a request until it is done or a step waits, which both return LS_OK, or a step fails. A
 * collective runs no step before its slot is free (invariant 1 of comm.h). */
ls_status ls_request_step(ls_request *request);
/* Tells the local members that this one has reached `stage` ≥ 1, and wakes them. What they are to read in its slot must
 * be written before. */
void ls_request_publish(ls_request *request, uint64_t stage);
/* Returns LS_OK if a local member (a local number, not a rank) has reached `stage`; else LS_REQUEST_WAITS, with the
 * member's rank in request->blocked_on. */
ls_status ls_request_await(ls_request *request, int local, uint64_t stage);
/* Returns LS_OK if all local members have reached `stage`; else LS_REQUEST_WAITS, with the rank of one that has not in
 * request->blocked_on. */
ls_status ls_request_await_all(ls_request *request, uint64_t stage);
/* Checks that a local member, which must have reached stage 1, called the same collective with the same sizes.
 * LS_ERR_INPUT names the two workers that disagree. */
ls_status ls_request_check_peer(ls_request *request, int local);
/* Checks that all local members, which must have reached stage 1, called the same collective with the same sizes.
 * LS_ERR_INPUT names two workers that disagree. */
ls_status ls_request_check_peers(ls_request *request);
/* Returns LS_OK once all local members have reached stage 1 of the same collective and, over a slow link, the bytes
 * that `load` returns (NULL: none) have been transferred; LS_REQUEST_WAITS before, LS_ERR_INPUT if collectives differ.
 */
ls_status ls_request_meet(ls_request *request, ls_wire_load (*load)(const ls_request *));

/* Makes `memory` readable for local members. *shared is `memory` itself if it lies in the segment, has no bytes, or no
 * other member is on this machine; else a copy there, with its contents if `filled`, which is freed with the request.
 */
ls_status ls_request_share(ls_request *request, const void *memory, size_t bytes, bool filled, void **shared);
/* Like ls_request_share() for request->out: if it must be copied, replaces it by the copy, whose contents
 * ls_request_complete() copies back. `filled`: it is also an input. */
ls_status ls_request_share_out(ls_request *request, size_t bytes, bool filled);

/* Starts to send a message to rank `to`, on another machine, as part of the request. `data` must stay valid until
 * ls_request_net_await(). */
ls_status ls_request_net_send(ls_request *request, ls_net_lane lane, int to, int tag, const void *data, size_t bytes);
/* Starts to receive a message from rank `from`, on another machine, as part of the request. */
ls_status ls_request_net_recv(ls_request *request, ls_net_lane lane, int from, int tag, void *data, size_t bytes);
/* Returns LS_OK once all messages that this request has started are sent and received; LS_REQUEST_WAITS before. */
ls_status ls_request_net_await(ls_request *request);
/* Returns the tag of a collective's messages in one of at most four phases. */
static inline int ls_request_net_tag(const ls_request *request, int phase) {
    return (int)(request->number % 8192) * 4 + phase;
}

/* Returns a hash of a collective's kind and sizes. Members compare hashes to find that they called different ones. */
static inline uint64_t ls_fingerprint(uint64_t kind, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t mixed = kind * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ a) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ b) * 0x94D049BB133111EBu;
    mixed = (mixed ^ c) * 0x9E3779B97F4A7C15u;
    return mixed ^ mixed >> 31;
}

/* Wakes the communicator's sleeping local members; to be called after publishing something that they may wait for. */
void ls_comm_ring(ls_comm *comm);
/* Wakes one local member (a local number) if it sleeps. */
void ls_comm_ring_member(ls_comm *comm, int local);

#endif
