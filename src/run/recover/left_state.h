/* left_state.h: the records behind left.h in the shared segment of an attempt, private to this folder. Locations are
 * offsets in the segment, so that processes that map it elsewhere can follow them; 0: none. */
#ifndef LS_RUN_RECOVER_LEFT_STATE_H
#define LS_RUN_RECOVER_LEFT_STATE_H

#include "run/recover/left.h"

/* Canonical elements first … first + count − 1 of a tensor of a parameter. */
typedef struct ls_left_piece {
    uint32_t param, which;     /* number of the parameter; 0: the weight, 1 and 2: moments */
    uint64_t first, count, at; /* `at`: location of the first element */
} ls_left_piece;

/* The elements of a parameter that one worker updates. */
typedef struct ls_left_tensor {
    uint64_t w, g, moment[2], cells; /* locations; the cells count the progress of an update */
    uint64_t elems;                  /* elements that the worker updates */
    uint64_t once_begin, once_end;   /* of them, those that it reports; equal: none */
    uint64_t first;                  /* number of the first of them, as a sum of the state counts elements */
    uint32_t number;                 /* of the parameter in the model */
    bool decay, running, rounded;    /* as in ls_param, for the update */
    double follow;
} ls_left_tensor;

/* Sums of the state by kinds of parameters that the same workers have: cut into slices or not, and cut into shards or
 * not. */
enum { LS_LEFT_SPLIT = 1, LS_LEFT_SHARDED = 2, LS_LEFT_KINDS = 4 };

/* Part of the sum of the state after a step. */
typedef struct ls_left_sum {
    _Atomic int64_t step;           /* −1: being written, or not yet */
    ls_hash128 part;                /* sum of what this worker reports */
    ls_hash128 kind[LS_LEFT_KINDS]; /* sum by kind of all that this worker updates, whichever worker reports it; 0 for
                                       copies */
} ls_left_sum;

/* Tensors in this worker's memory: its own, or copies that it keeps for another worker. */
typedef struct ls_left_part {
    uint64_t pieces, pieces_at;   /* reported by their owner */
    uint64_t shared, shared_at;   /* reported by another worker, but updated by this one too */
    uint64_t tensors, tensors_at; /* that updates change */
    uint64_t slots, slots_at;     /* of the journal: elements that an update was just changing */
    ls_left_sum sums[2];          /* of the state after a step, by the step mod 2; on a GPU never written */
} ls_left_part;

struct ls_left {
    ls_left_part own, copies;
    int64_t copies_of;                  /* rank whose copies these are; −1: there are none */
    _Atomic bool is_damaged;            /* ls_left_note_damage() */
    _Atomic bool is_here;               /* tensors are in the segment: always (CPU), or since they were rescued (GPU) */
    ls_place_in_layout place;           /* of this worker */
    int64_t summed;                     /* of tensors that were brought: the updates that the sums are of; −1: none */
    ls_hash128 kind_sum[LS_LEFT_KINDS]; /* with what others report as well */
    ls_hash128 copies_sum;              /* of the copies that were brought */
    double peak_flops_s;                /* of all workers, as measured; 0: not yet */
    ls_wrong blame;                     /* why all left, where one of them is wrong */
    ls_left_shares shares;              /* or where one of them is slow */
    _Atomic int64_t tried;              /* the step under way; −1: none yet */
    _Atomic uint64_t written;           /* times; the newest numbers are numbers[written & 1] */
    ls_left_numbers numbers[2];
};

/* Device memory that was copied to the segment. */
typedef struct ls_left_range {
    const void *memory; /* of the device */
    size_t bytes;
    uint64_t at; /* location of the copy */
} ls_left_range;

/* Where tensors are in the segment: themselves, or the ranges to which rescue.c copied them. */
typedef struct ls_left_places {
    const ls_world *world;
    size_t count;
    ls_left_range *range; /* NULL: tensors are in the segment themselves */
} ls_left_places;

/* Lists the tensors of the partition in the segment (lists.c). The world owns the memory of the lists. */
ls_status ls_left_list_own(ls_recover *self, ls_world *world, const ls_left_places *places, ls_left_part *part);
/* Lists the copies that this worker keeps of another one's state (lists.c); nothing without copies. */
ls_status ls_left_list_copies(ls_recover *self, ls_world *world, const ls_left_places *places, ls_left *kept);
/* Returns the kind (LS_LEFT_SPLIT, LS_LEFT_SHARDED) of a parameter, by which workers have the same elements. */
int ls_left_kind_of(const ls_recover *self, const ls_param *param);
/* Makes updates on a CPU keep a journal in the segment from now on (lists.c). */
void ls_left_use_journal(ls_recover *self, const ls_world *world);

/* Returns what worker `local` of an attempt left; NULL: nothing. */
static inline ls_left *ls_left_of(const ls_segment *segment, int local) { return ls_segment_kept(segment, local); }

/* Copies the numbers of the most advanced worker (the lowest rank of several) to *out; `settled` is false unless that
 * is worker 0, which alone knows. Returns false if no worker left any. (left.c) */
bool ls_left_newest(const ls_segment *segment, ls_left_numbers *out);

#endif
