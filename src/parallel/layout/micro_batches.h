/* micro_batches.h: the micro-batches of a replica, in the order in which it runs them; the partition, the traffic
 * formulas and the planner list them.
 *
 * A micro-batch is a range of sequences of the batch, which is divided into G gradient groups: the units in which
 * gradients are computed and summed. With zero < 2 the groups of a replica are contiguous, and a
 * micro-batch may span groups. With zero ≥ 2 the replicas take groups in turn, and a micro-batch ends with its group.
 * All replicas then have the same number of micro-batches, so that they make the same collectives; some are empty
 * (begin == end). Functions of the layout alone: any worker may compute those of any replica. */
#ifndef LS_PARALLEL_LAYOUT_MICRO_BATCHES_H
#define LS_PARALLEL_LAYOUT_MICRO_BATCHES_H

#include "parallel/layout/layout.h"

typedef struct ls_micro {
    size_t begin, end; /* sequences begin … end − 1 of the batch; equal: empty */
    int round;         /* with zero ≥ 2: how many groups the replica has completed before; else 0 */
    bool ends_round;   /* the last of its round, which may be an empty one; with zero < 2 the last of the replica */
} ls_micro;

typedef struct ls_micro_list {
    int count, rounds; /* micro-batches; rounds: 1 with zero < 2, else groups of the replica that has most */
    size_t most;       /* sequences of the largest */
    ls_micro *micro;
} ls_micro_list;

/* Lists the micro-batches of a replica for a batch of B sequences in G groups. Fails with LS_ERR_RESOURCE, or
 * LS_ERR_FAILED if the layout was not checked or layout->micro is 0. ls_micro_list_free() releases the list. */
ls_status ls_micro_list_make(const ls_layout *layout, size_t B, int G, int replica, ls_micro_list *out);
void ls_micro_list_free(ls_micro_list *list);
/* Sets micros[d] to the number of micro-batches of replica d, and *busiest to the first replica with most sequences. A
 * single replica is counted as with zero 0. */
ls_status ls_micro_counts(const ls_layout *layout, size_t B, int G, int *micros, int *busiest);

/* Returns the group that a replica computes in a round, with zero ≥ 2; −1: it has none. */
int ls_layout_group(const ls_layout *layout, int replica, int round);
/* Returns the first group of a replica, with zero < 2; for replica number dp the number of groups. */
int ls_layout_first_group(const ls_layout *layout, int replica);

#endif
