/* slices.c: warns of the cost of many slices (parts of a sum that are added up separately) on tensor cores. */
#include <stdio.h>

#include "plan/native/native.h"

/* A step of GPT-2 124M with 64 × 1024 tokens on an H200, beside the 2 slices of the default (docs/log/performance.md):
 * two have registers of their own, more wait in memory. */
static const struct { int slices, percent; } longer[] = {{4, 8}, {8, 21}};

bool ls_native_warn_slices(const ls_policy *policy, int slices, int tp, char *text, size_t room) {
    const int each = slices / tp, most = sizeof longer / sizeof *longer;
    int i = 0;
    if (!ls_policy_is_16(policy) || !ls_unit_is_tensor_core(policy->unit) || each < longer[0].slices) return false;
    while (i + 1 < most && each >= longer[i + 1].slices) i++;
    snprintf(
        text, room,
        "--slices %d: a worker adds up %d slices in each product; a step of GPT-2 124M on an H200 took %d %% longer "
        "with %d than with 2, the default",
        slices, each, longer[i].percent, longer[i].slices);
    return true;
}
