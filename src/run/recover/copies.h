/* copies.h: --state-copies: what only one worker has is also kept with another, its buddy.
 *
 * A buddy is sent the reduced gradient of the step before the step commits, and makes the same update, so it has the
 * same bits: 4 bytes for each parameter travel, and no moment ever does but at the start. What is unique, and so
 * copied:
 *
 *     moments     with --zero 1 and above, and with dp 1: of all but what several workers of a TP group hold alike
 *     weights     where moments are, and no replica has them: with --zero 3, with dp 1, and with 16-bit weights that
 *                 are rounded from fp32 ones, which only the owner of the moments has
 *
 * All else is in every replica. The buddy is a worker of another replica, with dp 1 any other worker; of those, as far
 * as can be, one on another machine or at least with another GPU. */
#ifndef LS_RUN_RECOVER_COPIES_H
#define LS_RUN_RECOVER_COPIES_H

#include "optim/optimizer.h"
#include "run/recover/recover.h"

/* Canonical elements of a tensor, by where they are among those that are copied. */
typedef struct ls_copy_piece {
    uint64_t first, count, offset;
} ls_copy_piece;

/* A parameter of another worker. */
typedef struct ls_copy {
    ls_param param; /* own_w, own_grad, moment, cells and what an update reads of it */
    bool shares_w;  /* own_w is this worker's replica of the weights */
    size_t pieces;
    ls_copy_piece *piece;
} ls_copy;

typedef struct ls_copies {
    int keeps, kept_by; /* ranks: the worker whose state this one keeps, and the keeper of its own */
    bool is_apart;      /* every buddy is on another machine, or has another GPU */
    size_t count;
    ls_copy *copy;
    size_t bytes;     /* of this worker */
    void *memory;     /* of the device */
    ls_hash128 *sums; /* of the device; NULL: none */
    ls_hash128 *host_sums;
    ls_journal journal; /* of updates on a CPU; its slots, and the cells, belong to lists.c */
    ls_comm *comm;      /* borrowed, */
    int from, to;       /* and the same two workers by their rank in it */
    size_t sends;
    const ls_param **sent;
    ls_request **request; /* as many */
} ls_copies;

/* Whether a parameter needs a copy on another worker. */
bool ls_copies_are_of(const ls_layout *layout, const ls_param *param);
/* Bytes that a buddy keeps for the worker for whose partition the model was measured. */
size_t ls_copies_bytes(const ls_settings *settings, const ls_layout *layout, const ls_model *model);
/* The worker whose state `rank` keeps if buddies are `shift` apart; −1: there is no other worker. */
int ls_copies_keeps(const ls_layout *layout, int rank, int shift);

/* Collective; needs the partition. Makes no copies without --state-copies, without another worker or a
 * supervisor, or if a worker lacks memory: self->copies is then NULL and self->no_copies says why. */
ls_status ls_copies_open(ls_recover *self, const ls_world *world);
void ls_copies_close(ls_recover *self);
/* Collective: sends the present weights and optimizer state to the buddies. */
ls_status ls_copies_fill(ls_recover *self);
/* Sends the gradients of the step to the buddies. Call before their squares are summed. */
ls_status ls_copies_give(ls_recover *self);
/* Applies update number `updates` to the copies; call before weights are published. */
ls_status ls_copies_update(ls_recover *self, const ls_optimizer_update *by, int64_t updates);
/* The sum of the copied state as the last update wrote it. */
ls_status ls_copies_part(ls_recover *self, ls_hash128 *part);

/* One line for people that says what is copied; truncated to `room`. */
void ls_copies_text(const ls_recover *self, char *text, size_t room);

#endif
