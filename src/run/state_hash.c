/* state_hash.c: makes the hash of a state from the sums of its tensors and a few numbers of the trainer. */
#include "run/state_hash.h"

#include "numerics/state_sum.h"
#include "parallel/partition/state_sum.h"

bool ls_trainer_has_state_hash(const ls_trainer *t) { return ls_partition_sums_state(t->partition); }

ls_hash128 ls_trainer_state_hash_of(const ls_trainer *t, ls_hash128 sum) {
    const int64_t numbers[] = {
        t->step, (int64_t)ls_trainer_samples(t), t->updates, t->scale.exponent, t->scale.patience, t->scale.good_steps};
    const ls_hash128 parts[] = {sum, ls_hash_bytes(numbers, sizeof numbers)};
    return ls_hash_combine(parts, 2);
}

ls_status ls_trainer_state_written(ls_trainer *t) {
    if (!ls_trainer_has_state_hash(t)) return LS_OK;
    LS_TRY(ls_partition_sum_state(t->partition));
    t->state.is_summed = true;
    t->state.step = -1;
    return LS_OK;
}

/* Adds the parts of all workers. Collective. */
static ls_status sum_state_parts(ls_trainer *t, ls_hash128 part, ls_hash128 *sum) {
    int64_t words[2] = {(int64_t)part.lo, (int64_t)part.hi};
    LS_TRY(ls_partition_sum(t->partition, words, 2));
    *sum = (ls_hash128){.lo = (uint64_t)words[0], .hi = (uint64_t)words[1]};
    return LS_OK;
}

ls_status ls_trainer_know_state(ls_trainer *t) {
    ls_hash128 part;
    if (!t->state.is_summed) LS_TRY(ls_trainer_state_written(t));
    LS_TRY(ls_partition_state_part(t->partition, &part, t->state.parts));
    LS_TRY(sum_state_parts(t, part, &t->state.sum));
    t->state.hash = ls_trainer_state_hash_of(t, t->state.sum);
    t->state.step = t->step;
    return LS_OK;
}

ls_status ls_trainer_state_hash(ls_trainer *t, ls_hash128 *out) {
    LS_TRY(ls_trainer_know_state(t));
    *out = t->state.hash;
    return LS_OK;
}

ls_status ls_trainer_state_hash_now(ls_trainer *t, ls_hash128 *out) {
    ls_hash128 part, sum;
    LS_TRY(ls_partition_state_now(t->partition, &part, NULL));
    LS_TRY(sum_state_parts(t, part, &sum));
    *out = ls_trainer_state_hash_of(t, sum);
    return LS_OK;
}
