/* pieces.h: the elements of a parameter that one worker saves, or must be given, as few runs in canonical order.
 *
 * A partition reports them slice by slice; where slices are neighbours in canonical order they become one run, so that
 * one worker alone has a single run, from the first element to the last. */
#ifndef LS_CHECKPOINT_PIECES_H
#define LS_CHECKPOINT_PIECES_H

#include "parallel/partition/partition.h"

/* Zeroed: none. Ascending; none is empty, and none begins where another ends. */
typedef struct ls_pieces {
    ls_partition_piece *piece;
    int count, capacity;
} ls_pieces;

/* Each replaces what the list held and uses its memory again. */
ls_status ls_pieces_once(const ls_partition *partition, const ls_param *param, ls_pieces *pieces);
ls_status ls_pieces_needed(const ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                           ls_pieces *pieces);
void ls_pieces_fini(ls_pieces *pieces);

#endif
