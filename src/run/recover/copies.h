/* copies.h: --state-copies: what only one worker has is also kept on another worker, its buddy, so that no state is
 * lost with a worker. Trainer and step call it; recovery (take.c) reads the copies.
 *
 * A buddy is sent the reduced gradient of the step before the step commits, and makes the same update, so it has the
 * same bits: 4 bytes for each parameter travel, and no moment ever does but at the start. What is unique, and so
 * copied:
 *
 *     moments     with --zero 1 and above, and with dp 1: of all but what several workers of a TP group hold alike and,
 *                 with dp above 1, vectors, which are not sharded
 *     weights     where moments are, and no replica has them: with --zero 3, with dp 1, and with 16-bit weights that
 *                 are rounded from fp32 ones, which only the owner of the moments has
 *
 * All else is in every replica. The buddy is a worker of another replica, with dp 1 any other worker; of those, as far
 * as can be, one on another machine or at least with another GPU. */
#ifndef LS_RUN_RECOVER_COPIES_H
#define LS_RUN_RECOVER_COPIES_H

#include "optim/optimizer.h"
#include "run/recover/recover.h"

/* Elements first … first + count − 1, in canonical order, of a parameter; they are at element `offset` of the copy's
 * tensors. */
typedef struct ls_copy_piece {
    uint64_t first, count, offset;
} ls_copy_piece;

/* A parameter of another worker, whose elements this one keeps and updates. */
typedef struct ls_copy {
    ls_param param; /* own_w, own_grad, moment, cells and what an update reads of it */
    bool shares_w;  /* own_w points into this worker's own replica of the weights, so it needs no copy */
    size_t pieces;
    ls_copy_piece *piece;
} ls_copy;

/* All copies that a worker keeps, and what it sends to the keeper of its own state. */
typedef struct ls_copies {
    int keeps, kept_by; /* ranks: the worker whose state this one keeps, and the keeper of its own */
    bool is_apart;      /* every buddy is on another machine, or has another GPU */
    size_t count;       /* parameters in `copy` */
    ls_copy *copy;
    size_t bytes;          /* of device memory, on this worker */
    void *memory;          /* device memory of all copies; owned */
    ls_hash128 *sums;      /* of the copied state, on the device; NULL: none, with --check off */
    ls_hash128 *host_sums; /* buffer to read them; NULL with `sums` */
    ls_journal journal;    /* of updates on a CPU; its slots, and the cells, belong to lists.c */
    ls_comm *comm;         /* borrowed, */
    int from, to;          /* and `keeps` and `kept_by` by their rank in it */
    size_t sends;          /* number of own parameters that are sent; 0: all that this worker has is elsewhere, too */
    const ls_param **sent; /* those parameters; borrowed */
    ls_request **request;  /* of the sends under way: up to four for each parameter */
} ls_copies;

/* Returns whether this worker's elements of a parameter exist on no other worker, so that they need a copy. Local. */
bool ls_copies_are_of(const ls_layout *layout, const ls_param *param);
/* Returns the bytes of device memory that a buddy needs for the worker for whose partition the model was measured,
 * without the sums of the state. Local; for dry runs and planner. */
size_t ls_copies_bytes(const ls_settings *settings, const ls_layout *layout, const ls_model *model);
/* Returns the rank whose state worker `rank` keeps if buddies are `shift` places apart in the ring of replicas (with dp
 * 1: of workers); −1: there is no other worker. */
int ls_copies_keeps(const ls_layout *layout, int rank, int shift);

/* Chooses the buddies and allocates the copies; they are empty until ls_copies_fill(). Needs the partition. Makes none,
 * and returns LS_OK, without --state-copies, without another worker or a supervisor, or if any worker lacks memory:
 * self->copies is then NULL and, with --state-copies, self->no_copies says why. Collective. */
ls_status ls_copies_open(ls_recover *self, const ls_world *world);
/* Frees the copies. Lists in shared memory are freed with the world. Not collective; does nothing without copies. */
void ls_copies_close(ls_recover *self);
/* Sends the present weights and optimizer state to the buddies, and receives those to keep: once, when the trainer has
 * its first state. Does nothing without copies. Collective. */
ls_status ls_copies_fill(ls_recover *self);
/* Sends the reduced gradients of the step to the buddies, and receives those of the worker whose state this one keeps.
 * Call it before the squares of gradients are summed, so that no step commits whose gradients a buddy lacks.
 * Collective. */
ls_status ls_copies_give(ls_recover *self);
/* Applies update number `updates` to the copies, as their owner does to its own elements. Call it before weights are
 * published. Not collective. */
ls_status ls_copies_update(ls_recover *self, const ls_optimizer_update *by, int64_t updates);
/* Sets *part to the sum of the copied state as the last update wrote it. Needs copies, and a run with state sums. Not
 * collective. */
ls_status ls_copies_part(ls_recover *self, ls_hash128 *part);

/* Writes one line that says what is copied, or why not, for the banner of a run; cut to `room` bytes. */
void ls_copies_text(const ls_recover *self, char *text, size_t room);

#endif
