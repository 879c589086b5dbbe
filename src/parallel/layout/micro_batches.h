/* micro_batches.h: the micro-batches of a replica, in the order in which it works on them.
 *
 * A micro-batch is a run of sequences of the batch. With zero < 2 a replica's groups are neighbours, and micro-batches
 * may span groups. With zero ≥ 2 groups go round among the replicas, and a micro-batch ends with its group; then all
 * replicas have the same number of micro-batches, some of which may be empty (begin == end): they keep their
 * collectives in step.
 */
#ifndef LS_PARALLEL_LAYOUT_MICRO_BATCHES_H
#define LS_PARALLEL_LAYOUT_MICRO_BATCHES_H

#include "parallel/layout/layout.h"

typedef struct ls_micro {
    size_t begin, end; /* sequences of the batch */
    int round;         /* with zero ≥ 2: how many groups each replica has had before */
    bool ends_round;   /* the last of its round */
} ls_micro;

typedef struct ls_micro_list {
    int count, rounds;
    size_t most; /* sequences of the largest */
    ls_micro *micro;
} ls_micro_list;

ls_status ls_micro_list_make(const ls_layout *layout, size_t B, int G, int replica, ls_micro_list *out);
void ls_micro_list_free(ls_micro_list *list);
/* How many micro-batches each replica has: micros[dp]; and the first replica with most sequences. */
ls_status ls_micro_counts(const ls_layout *layout, size_t B, int G, int *micros, int *busiest);

/* The group of a replica in a round; −1: none. And with zero < 2, its first group (of replica dp: G). */
int ls_layout_group(const ls_layout *layout, int replica, int round);
int ls_layout_first_group(const ls_layout *layout, int replica);

#endif
