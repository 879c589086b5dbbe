/* policy.h: which numbers are kept in which type (docs/explain/precision.md). Part of the identity.
 *
 *     act          operands and results of matmuls: weights as matmuls read them, activations, their gradients
 *     always fp32  residual stream and its gradient, norms, softmax, loss, weight gradients, optimizer; logits, but
 * those of the unit hgmma */
#ifndef LS_NN_POLICY_H
#define LS_NN_POLICY_H

#include <stdbool.h>

#include "device/unit.h"
#include "lockstep.h"

typedef struct ls_policy {
    ls_dtype act;
    ls_unit unit;    /* which hardware unit multiplies; with bf16 */
    ls_dtype reduce; /* the finished gradient of a group is rounded to it once; sums of groups are fp32 */
    ls_dtype
        accumulate; /* 16-bit: a group's gradient is rounded after every sequence: an experiment in what goes wrong */
    bool no_master; /* 16-bit weights alone, without fp32 beside them: another one */
} ls_policy;

static inline bool ls_policy_is_16(const ls_policy *policy) { return policy->act != LS_F32; }
/* Gradients of groups are wanted one by one. */
static inline bool ls_policy_wants_leaves(const ls_policy *policy) {
    return policy->reduce != LS_F32 || policy->accumulate != LS_F32;
}

#endif
