/* barrier.c: no member leaves before all have entered.
 *
 * One machine: each member publishes stage 1 and waits for the others' stage 1: one message deep.
 * Several machines (a dissemination barrier): members enter (stage 1); the first member of each machine then sends a
 * message in each of ⌈log2 M⌉ rounds, in round k to machine m + 2^k, and finally releases its machine (stage 2).
 *
 *     5 machines    round 0: m → m+1    round 1: m → m+2    round 2: m → m+4 (mod 5): each has heard from all */
#include "comm/collectives/prepare.h"

enum { ENTER, LOCAL, ROUND, ROUND_WAIT, RELEASE };

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. r->window counts the
 * rounds. */
static ls_status step_barrier(ls_request *r) {
    ls_comm *comm = r->comm;
    int machines = comm->machines;
    switch (r->phase) {
    case ENTER:
        ls_request_publish(r, 1);
        r->phase = LOCAL;
        break;
    case LOCAL:
        LS_TRY(ls_request_meet(r, NULL));
        if (machines == 1) return ls_request_complete(r);
        r->phase = comm->local == 0 ? ROUND : RELEASE;
        break;
    case ROUND: {
        size_t hop = (size_t)1 << r->window;
        if (hop >= (size_t)machines) {
            ls_request_publish(r, 2);
            return ls_request_complete(r);
        }
        int to = (int)(((size_t)comm->machine + hop) % (size_t)machines);
        int from = (int)(((size_t)comm->machine + (size_t)machines - hop) % (size_t)machines);
        int tag = ls_request_net_tag(r, 0);
        LS_TRY(ls_request_net_recv(r, LS_NET_COLLECTIVE, comm->machine_ranks[comm->machine_first[from]], tag, NULL, 0));
        LS_TRY(ls_request_net_send(r, LS_NET_COLLECTIVE, comm->machine_ranks[comm->machine_first[to]], tag, NULL, 0));
        r->phase = ROUND_WAIT;
        break;
    }
    case ROUND_WAIT:
        LS_TRY(ls_request_net_await(r));
        r->window++;
        r->phase = ROUND;
        break;
    case RELEASE: LS_TRY(ls_request_await(r, 0, 2)); return ls_request_complete(r);
    }
    return LS_OK;
}

/* Starts a barrier; ls_request_wait() returns once all members have started it. */
ls_status ls_comm_barrier_start(ls_comm *comm, ls_request **out) {
    ls_request *r;
    *out = NULL;
    LS_TRY(ls_request_make(comm, LS_TRAFFIC_BARRIER, step_barrier, &r));
    r->fingerprint = ls_fingerprint(1, 0, 0, 0);
    return ls_request_launch(r, out);
}

/* Returns once all members of the communicator have called it. */
ls_status ls_comm_barrier(ls_comm *comm) {
    ls_request *r;
    LS_TRY(ls_comm_barrier_start(comm, &r));
    return ls_request_wait(r);
}
