/* check.h: whether workers that must have the same numbers have them, and whether a worker's own numbers are
 * still those it wrote.
 *
 *     replicas   after an update: each worker that holds a parameter hashes it as it computes with it; holders of the
 *                same one compare, along dp and, of what is not split, along tp
 *     state      after backward: each worker compares its weights and moments with the sums that the update made when
 *                it wrote them (state_sum.h), and the copies that matmuls read with the sums made after they were
 *                published; with zero 3 receivers also check the hash of each gathered shard
 *     update     in the update: each block of elements is compared with the sum that was made when the block was
 *                written, before it is overwritten. Other workers have made their updates by then, with a gradient
 *                that is right, so the next step reports the state after the update
 *
 * Every worker gets the same finding. */
#ifndef LS_PARALLEL_PARTITION_CHECK_H
#define LS_PARALLEL_PARTITION_CHECK_H

#include "base/hash.h"
#include "parallel/partition/partition.h"

typedef enum ls_check_tensor {
    LS_CHECK_WEIGHT,
    LS_CHECK_MOMENT0,
    LS_CHECK_MOMENT1,
    LS_CHECK_COPY, /* the weight as matmuls read it, where that is more than the worker's own elements */
    LS_CHECK_TENSORS
} ls_check_tensor;

/* Numbers that each worker tells all others after a check. */
enum { LS_CHECK_WORDS = 6 };

typedef struct ls_check_finding {
    bool found;
    int param; /* number in the model: the first that is wrong */
    ls_check_tensor tensor;
    int nworkers; /* those to name: who is alone, both where there are two, or the owner of state that changed */
    int workers[LS_WORKERS_MAX];
    bool is_late;  /* the last update found it, when others had made theirs: that block was not updated */
    int64_t block; /* of LS_CHECK_BLOCK elements that the worker updates, where it is late */
} ls_check_finding;

ls_status ls_partition_check_replicas(ls_partition *partition, ls_check_finding *out);

/* After ls_partition_publish(), of copies and shards; own elements are summed up by the update. The setup has
 * `checks_state`. */
ls_status ls_partition_remember_state(ls_partition *partition);
/* The same as below in two halves: what this worker finds by itself, which *found tells; and, where any worker has
 * found something, all of them together. */
ls_status ls_partition_look_at_state(ls_partition *partition, bool *found);
ls_status ls_partition_tell_state(ls_partition *partition, ls_check_finding *out);
/* As ls_partition_look_at_state(), of what the last update has found alone: no memory is read for it. */
ls_status ls_partition_look_at_update(ls_partition *partition, bool *found);
/* Before the next update, a save or another use: own elements that were summed up, copies that were remembered, and
 * shards that were gathered since. The setup has `sums_state`. */
ls_status ls_partition_check_state(ls_partition *partition, ls_check_finding *out);
/* Between two updates, before a bad number is put down to anything else: compares the memory of all workers with what
 * was recorded of it. That is the above; 16-bit copies of own elements with these; weights that a worker computes with
 * and others update with what their owners recorded; then replicas with each other, for what is left: 16-bit copies of
 * what others update. More than one worker is named only where replicas differ and their majority does not tell which
 * is wrong. Without `sums_state` nothing is found. */
ls_status ls_partition_judge_memory(ls_partition *partition, ls_check_finding *out);

#endif
