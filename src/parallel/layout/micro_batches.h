/* micro_batches.h: the micro-batches of a replica, in the order in which it runs them.
 *
 * A micro-batch is a range of sequences of the batch. With zero < 2 the groups of a replica are contiguous, and a
 * micro-batch may span groups. With zero ≥ 2 the replicas take groups in turn, and a micro-batch ends with its group.
 * All replicas then have the same number of micro-batches, so that they make the same collectives; some are empty
 * (begin == end). Functions of the layout alone: any worker may compute those of any replica. */
#ifndef LS_PARALLEL_LAYOUT_MICRO_BATCHES_H
#define LS_PARALLEL_LAYOUT_MICRO_BATCHES_H

#include "parallel/layout/layout.h"

typedef struct ls_micro {
    size_t begin, end; /* sequences of the batch */
    int round;         /* with zero ≥ 2: how many groups the replica has completed before */
    bool ends_round;   /* the last micro-batch of its group */
} ls_micro;

typedef struct ls_micro_list {
    int count, rounds;
    size_t most; /* sequences of the largest */
    ls_micro *micro;
} ls_micro_list;

/* Lists the micro-batches of a replica; layout->micro is set. Fails with LS_ERR_RESOURCE alone; ls_micro_list_free()
 * releases the list. */
ls_status ls_micro_list_make(const ls_layout *layout, size_t B, int G, int replica, ls_micro_list *out);
void ls_micro_list_free(ls_micro_list *list);
/* Sets micros[d] to the number of micro-batches of replica d, and *busiest to the first replica with most sequences. */
ls_status ls_micro_counts(const ls_layout *layout, size_t B, int G, int *micros, int *busiest);

/* Return the group of a replica in a round, −1 if it has none, and, with zero < 2, its first group (G for replica dp).
 */
int ls_layout_group(const ls_layout *layout, int replica, int round);
int ls_layout_first_group(const ls_layout *layout, int replica);

#endif
