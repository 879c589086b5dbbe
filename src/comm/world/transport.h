/* transport.h: how workers are started and how bytes get from one machine to another.
 *
 * A transport is a table of functions. `run` makes the world (self: this process alone; shm: forked processes on this
 * machine; mpi: the processes that mpirun or srun started) and calls the worker's function in it. Workers of one
 * machine share memory; if the system forbids shared memory, each worker counts as a machine of its own. The other
 * functions carry bytes between machines, and are NULL if there is only one. The worker's main thread calls them. */
#ifndef LS_COMM_TRANSPORTS_TRANSPORT_H
#define LS_COMM_TRANSPORTS_TRANSPORT_H

#include <stdbool.h>

#include "base/status.h"

enum { LS_NET_PIECES = 16 };

/* A message in flight; large ones are sent in pieces. */
typedef struct ls_net_request {
    int pieces; /* number of pieces that are still in flight; 0: the message is sent or received */
    int peer;   /* rank in the communicator, which an error names if it does not answer */
    union {
        void *pointer;
        int number;
    } handle[LS_NET_PIECES]; /* the transport's own, one for each piece */
} ls_net_request;

/* Messages of different lanes are never matched with each other. */
typedef enum ls_net_lane {
    LS_NET_COLLECTIVE,
    LS_NET_MESSAGE,
    LS_NET_ASKED, /* for messages over links: the receiver is ready (links/messages.c) */
    LS_NET_SENT,  /* for messages over links: the sender has sent */
    LS_NET_LANES
} ls_net_lane;

/* Control words that workers of different machines send each other besides messages (beat.h). */
typedef enum ls_net_word_kind {
    LS_NET_WORKS,  /* the sender, or the worker it waits for, made progress; `value`: how many ms ago */
    LS_NET_OPAQUE, /* the sender makes progress in a phase without visible signs of it (ls_phase_is_opaque) */
    LS_NET_WAITS,  /* the sender waits; its chain of waits (beat.h) ends at rank `value` */
    LS_NET_ASKS,   /* the sender was asked to stop by signal `value` */
    LS_NET_WORDS
} ls_net_word_kind;

typedef struct ls_net_word {
    int kind, from, value; /* ls_net_word_kind; rank of the sender in the world; see the kinds */
} ls_net_word;

typedef struct ls_transport {
    const char *name; /* "self", "shm" or "mpi" */
    /* Starts or joins the workers, calls `fn` in each and returns the run's status: ls_workers_run(). */
    ls_status (*run)(const ls_workers_options *options, ls_worker_fn fn, void *arg);

    /* Opens the transport's part of a new communicator, collectively over `parent` (NULL: the world): the members that
     * pass the same `color`, ordered by `key`, as in MPI_Comm_split(). Members that join none pass comm NULL. */
    ls_status (*comm_open)(ls_comm *parent, ls_comm *comm, int color, int key);
    void (*comm_close)(ls_comm *comm);
    /* Start a message of `bytes` bytes, equal on both sides; it has ended when `test` says so, and its buffer must stay
     * valid until then. `to` and `from` are ranks in `comm`. Messages of one lane, pair and tag (0 … 32767) arrive in
     * order. */
    ls_status (*send)(ls_comm *comm, ls_net_lane lane, int to, int tag, const void *data, size_t bytes,
                      ls_net_request *out);
    ls_status (*recv)(ls_comm *comm, ls_net_lane lane, int from, int tag, void *data, size_t bytes,
                      ls_net_request *out);
    /* Returns in *done whether the message is sent or received; never waits. */
    ls_status (*test)(ls_net_request *request, bool *done);
    /* Lets the transport advance messages in flight while this worker waits for its device and tests none of them. */
    void (*poke)(void);
    /* Sends a word to all workers of other machines, by this worker's main thread; the word is dropped if the last one
     * of its kind is still in flight. */
    void (*tell)(ls_world *world, ls_net_word word);
    /* Receives the next word without waiting; false: none has arrived. */
    bool (*hear)(ls_net_word *word);
} ls_transport;

#endif
