/* tree.cuh: the balanced binary tree by which sums over gradient groups are added (docs/reference/arithmetic.md, "Sums over groups"), one
 * leaf after another.
 *
 * Two leaves are in different halves of a node at the highest bit in which their numbers differ, because a node of n leaves splits at
 * the largest power of two below n. So when a leaf is pushed, the present sum is the right operand of every left sum that waits below
 * that bit, and then waits at that bit itself. Leaves that are not pushed contribute nothing. Waiting sums are indexed by constants
 * only, which keeps them in registers. */
#pragma once
#include "device/cuda/common/pack.cuh"

/* A thread's tree over up to 2^LEVELS leaves, each a pack: begin(), push() for each leaf, end(), then `sum`. */
template <int W, int LEVELS = 12> struct tree {
    pack<W> sum, wait[LEVELS];
    uint32_t waiting; /* bit l: wait[l] holds a sum */
    int last;         /* the leaf that came last; −1: none */

    /* Empties the tree. */
    LS_DEVICE void begin() { sum = pack<W>(), waiting = 0, last = -1; }

    /* Adds the sums that wait at the levels in the bit mask `below` to the present one, from the left, lowest first. */
    LS_DEVICE void join(uint32_t below) {
#pragma unroll
        for (int l = 0; l < LEVELS; l++)
            if (waiting & below & 1u << l) sum = add(wait[l], sum);
        waiting &= ~below;
    }

    /* Adds leaf number `leaf`; numbers ascend, and may have gaps. */
    LS_DEVICE void push(int leaf, const pack<W> &value) {
        if (last >= 0) {
            uint32_t level = 31 - (uint32_t)__clz(last ^ leaf);
            join((1u << level) - 1);
#pragma unroll
            for (int l = 0; l < LEVELS; l++)
                if (level == (uint32_t)l) wait[l] = sum;
            waiting |= 1u << level;
        }
        sum = value;
        last = leaf;
    }

    /* Adds all sums that wait; `sum` is the result, +0 without leaves. */
    LS_DEVICE void end() { join(~0u); }
};
