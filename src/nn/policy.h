/* policy.h: the mixed-precision policy: which tensors have which type (docs/reference/precision.md). Part of a
 * run's identity, the options that can change its bits. A matrix unit is the instructions that multiply 16-bit
 * matrices.
 *
 *     type `act`   operands and results of matmuls: weights as matmuls read them, activations, their gradients
 *     always fp32  residual stream and its gradient, norms, softmax, loss, weight gradients, optimizer, and logits
 *                  (with a matrix unit of tensor cores, such as hgmma, logits have type `act`) */
#ifndef LS_NN_POLICY_H
#define LS_NN_POLICY_H

#include <stdbool.h>

#include "device/unit.h"
#include "lockstep.h"

typedef struct ls_policy {
    ls_dtype act;
    ls_unit unit;    /* the matrix unit of 16-bit matmuls */
    ls_dtype reduce; /* the finished gradient of each group is rounded to this type once; groups are added in fp32 */
    /* The next two are experiments that show what coarse rounding breaks. */
    ls_dtype accumulate; /* 16-bit: the gradient of a group is rounded to this type after every sequence */
    bool no_master;      /* 16-bit weights without fp32 master weights */
} ls_policy;

/* Returns whether matmuls have 16-bit operands. */
static inline bool ls_policy_is_16(const ls_policy *policy) { return policy->act != LS_F32; }
/* Returns whether the gradient of every group must exist as a separate leaf before groups are added, because it is
 * rounded, once (`reduce`) or after every sequence (`accumulate`). */
static inline bool ls_policy_wants_leaves(const ls_policy *policy) {
    return policy->reduce != LS_F32 || policy->accumulate != LS_F32;
}

#endif
