/* left_state.h: what left.h's lists are made of; for this folder only. Places are offsets in the segment, 0: none. */
#ifndef LS_RUN_RECOVER_LEFT_STATE_H
#define LS_RUN_RECOVER_LEFT_STATE_H

#include "device/cpu/journal.h"
#include "run/recover/left.h"

/* Canonical elements first … first + count − 1 of a tensor of a parameter. */
typedef struct ls_left_piece {
    uint32_t param, which; /* 0: the weight, 1 and 2: moments */
    uint64_t first, count, at;
} ls_left_piece;

/* Own elements of a parameter, which one worker updates. */
typedef struct ls_left_tensor {
    uint64_t w, g, moment[2], cells;
    uint64_t elems;
    uint64_t once_begin, once_end; /* of them, those that it reports */
    uint32_t number;
    bool decay, running, rounded;
    double follow;
} ls_left_tensor;

/* A worker's part of the sum of the state after a step. */
typedef struct ls_left_sum {
    _Atomic int64_t step; /* −1: being written */
    ls_hash128 part;
} ls_left_sum;

struct ls_left {
    ls_left_sum sums[2]; /* by steps mod 2 */
    bool is_host;        /* tensors are here too */
    double peak_flops_s; /* of all workers, as measured; 0: not yet */
    uint64_t pieces, pieces_at, tensors, tensors_at, slots, slots_at;
    _Atomic int64_t tried;    /* the step under way; −1: none yet */
    _Atomic uint64_t written; /* times; the newest numbers are numbers[written & 1] */
    ls_left_numbers numbers[2];
};

/* Of the worker that came furthest; of those, the first. False: nobody has any. */
bool ls_left_newest(const ls_segment *segment, ls_left_numbers *out);

#endif
