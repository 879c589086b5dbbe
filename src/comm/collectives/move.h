/* move.h: a collective on device memory as data (ls_move), and the interface of the movers that perform it (ls_mover):
 * over host memory (movers/host.c), between GPUs of one machine (peers), and between machines (links).
 *
 * A mover is one way to move tensors between members. Each fills in the table of ls_mover in a file of its own; the
 * order in which they are asked is in movers/tensors.c. All movers give the same bits. Called by the worker's main
 * thread. */
#ifndef LS_COMM_COLLECTIVES_MOVE_H
#define LS_COMM_COLLECTIVES_MOVE_H

#include "comm/collectives/prepare.h"

/* An all-gather, all-reduce, reduce-scatter, send or receive, with the arguments that its call has in lockstep.h. It
 * borrows what it points to: lists until the start has returned, tensors until the request has ended. */
typedef struct ls_move {
    ls_traffic_kind kind;
    ls_device *device; /* owns the tensors */
    ls_comm *comm;
    const void *in;      /* all-gather, send */
    void *out;           /* all but send */
    const size_t *sizes; /* all-gather: bytes of each member's piece; reduce-scatter: bounds of the shards, not NULL */
    const ls_runs *runs; /* sums: these four */
    ls_dtype dtype;
    const void *const *parts;
    size_t elems;
    int peer, tag; /* messages: these three */
    size_t bytes;
} ls_move;

typedef struct ls_mover {
    const char *name;
    /* Returns whether this mover can perform the move. All members get the same answer, because they must choose the
     * same mover; for a message both ends do. */
    bool (*reaches)(const ls_move *move);
    /* Starts the move and returns its request, which ls_request_wait() releases. After an error *out is NULL. Called
     * only for moves that the mover reaches. */
    ls_status (*start)(const ls_move *move, ls_request **out);
} ls_mover;

static inline bool ls_move_is_message(const ls_move *move) {
    return move->kind == LS_TRAFFIC_SEND || move->kind == LS_TRAFFIC_RECEIVE;
}

/* Makes the move's request, which runs `step`, without launching it; movers call it. LS_ERR_INPUT: an argument is
 * wrong. */
ls_status ls_move_prepare(const ls_move *move, ls_status (*step)(ls_request *), ls_request **out);

#endif
