/* sum_orders.h: the same gradients added as other systems add them, for `lockstep verify --order`. Pure functions.
 *
 * There are G gradients, one for each group of the batch, of `elems` elements each. Worker w of W has gradients
 * ⌊wG/W⌋ … ⌊(w+1)G/W⌋ − 1.
 *
 *   ring      Each worker adds its own gradients in order. Chunk c of the buffer, elements ⌊cn/W⌋ … ⌊(c+1)n/W⌋ − 1,
 * then goes around, beginning at worker c + 1, and each adds its own, as NCCL's ring all-reduce does it:
 *
 *                 W = 4, chunk 0:  ((w1 + w2) + w3) + w0        chunk 2:  ((w3 + w0) + w1) + w2
 *
 *             One worker is the running sum of a single process.
 *   ring16    The same with buffers of bf16: a worker rounds its sum before it leaves, and every hop rounds.
 *   arrival   A parameter server, or atomic additions: gradients are added as they come, which is another order in
 *             every step and every run.
 *   lockstep  The tree of numerics/tree.h; not here: workers make it (order.h). */
#ifndef LS_LAB_VERIFY_SUM_ORDERS_H
#define LS_LAB_VERIFY_SUM_ORDERS_H

#include <stddef.h>
#include <stdint.h>

typedef enum ls_order_kind {
    LS_ORDER_RING,
    LS_ORDER_ARRIVAL,
    LS_ORDER_RING16,
    LS_ORDER_LOCKSTEP,
    LS_ORDER_KINDS
} ls_order_kind;

typedef struct ls_order_way {
    ls_order_kind kind;
    int workers;
    int run;  /* of arrival: the same thing started again */
    int base; /* number of the way that it is compared with; its own: of none */
} ls_order_way;

enum { LS_ORDER_WAYS_MAX = 16, LS_ORDER_GROUPS_MAX = 64 };

/* All that is tried with G ≥ 2 groups; a base comes before those that are compared with it. Returns their number. */
int ls_order_ways(int groups, ls_order_way ways[LS_ORDER_WAYS_MAX]);
const char *ls_order_kind_name(ls_order_kind kind);
/* The name of a way among its like, with its workers: "ring, 4 workers". */
void ls_order_way_text(const ls_order_way *way, char *text, size_t bytes);

/* ---- sums: out is none of the gradients -------------------------------------------------------------------------- */

void ls_order_ring(const float *const *grads, int groups, int workers, float *out, size_t elems);
void ls_order_ring16(const float *const *grads, int groups, int workers, float *out, size_t elems);
/* grads[turn[0]] first. */
void ls_order_in_turn(const float *const *grads, const int *turn, int groups, float *out, size_t elems);
/* The order in which gradients arrive in a step of a run. */
void ls_order_arrival(uint64_t seed, int run, uint64_t step, int groups, int *turn);

/* ---- differences ------------------------------------------------------------------------------------------------- */

typedef struct ls_order_difference {
    size_t elems, changed; /* bits differ; one NaN is as good as another */
    double relative;       /* largest |a − b| / max(|a|, |b|); infinite where one of them is no finite number */
    double absolute;       /* largest |a − b| */
} ls_order_difference;

ls_order_difference ls_order_compare(const float *a, const float *b, size_t elems);
/* The first step, from 1 on, whose losses differ: in bits, or as train prints them; 0: none does. */
int64_t ls_order_first_bits(const double *a, const double *b, int64_t steps);
int64_t ls_order_first_seen(const double *a, const double *b, int64_t steps);

#endif
