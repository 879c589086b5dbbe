/* check.h: detects corrupted memory: whether workers that must have the same numbers have them, and whether a worker's
 * own numbers are still those it wrote. The guards of a run (run/guard) call it.
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
 * Calls that return an ls_check_finding add up what the workers tell, so every worker gets the same one: the first
 * parameter that any worker reports, those noticed by receivers of shards last. */
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
    int param; /* number in the model: the first that is wrong; −1: none */
    ls_check_tensor tensor;
    int nworkers; /* number of `workers`, ranks to blame: those outside a majority, all without one, the owner of state
                     that changed, or the receiver of a shard that arrived damaged */
    int workers[LS_WORKERS_MAX]; /* ranks, ascending */
    bool is_late;  /* the last update found it and did not update that block, but other workers made their updates */
    int64_t block; /* if it is late: number of the block of LS_CHECK_BLOCK elements that the worker updates */
} ls_check_finding;

/* Compares the hashes of parameters that several workers hold; *out has found false and param −1 if all are equal.
 * Weights that ZeRO 3 gathers have no second holder and are skipped. Call after ls_partition_publish(). Collective. */
ls_status ls_partition_check_replicas(ls_partition *partition, ls_check_finding *out);

/* Records the sums of copies and the hashes of shards, for later checks. Call after ls_partition_publish(); the update
 * has already summed own elements. The setup has `checks_state`. Collective with `checks_shards`. */
ls_status ls_partition_remember_state(ls_partition *partition);
/* Checks this worker's state as ls_partition_check_state() does, sets *found, and keeps the result for
 * ls_partition_tell_state(). Not collective. Sets *found to false without `sums_state`. */
ls_status ls_partition_look_at_state(ls_partition *partition, bool *found);
/* Agrees on one finding from the results that all workers have kept. If any worker has found something, all call this.
 * Collective. */
ls_status ls_partition_tell_state(ls_partition *partition, ls_check_finding *out);
/* Sets *found to whether the last update found damage in this worker's state, without reading tensors, and keeps the
 * result for ls_partition_tell_state(). Not collective. Sets *found to false without `sums_state`. */
ls_status ls_partition_look_at_update(ls_partition *partition, bool *found);
/* Compares own elements, recorded copies and gathered shards with their sums, before the next update, a save or another
 * use. The setup has `sums_state`. Collective. */
ls_status ls_partition_check_state(ls_partition *partition, ls_check_finding *out);
/* Compares all memory with what was recorded of it, between two updates, before a bad value is attributed to anything
 * else: what ls_partition_check_state() does; 16-bit copies of own elements with these elements; weights that other
 * workers update with what their owners recorded; and replicas with each other, which covers the rest: 16-bit copies of
 * what others update. Names more than one worker only if replicas differ without a majority. Finds nothing without
 * `sums_state`. Collective. */
ls_status ls_partition_judge_memory(ls_partition *partition, ls_check_finding *out);

#endif
