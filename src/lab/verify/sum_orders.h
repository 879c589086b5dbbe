/* sum_orders.h: adds the same gradients in the orders of other systems, for `lockstep verify --order`. Pure functions.
 *
 * There are G gradients, one for each group of the batch, of `elems` elements each. Worker w of W has gradients
 * ⌊wG/W⌋ … ⌊(w+1)G/W⌋ − 1.
 *
 *   ring      As NCCL's ring all-reduce: each worker adds its own gradients in order. Chunk c of the buffer, elements
 *             ⌊cn/W⌋ … ⌊(c+1)n/W⌋ − 1, then goes around the ring, beginning at worker c + 1, and each worker adds
 *             its own:
 *
 *                 W = 4, chunk 0:  ((w1 + w2) + w3) + w0        chunk 2:  ((w3 + w0) + w1) + w2
 *
 *             One worker is the running sum of a single process.
 *   ring16    The same with buffers of bf16: a worker rounds its sum before it leaves, and every hop rounds.
 *   arrival   A parameter server, or atomic additions: gradients are added as they arrive, in another order in every
 *             step and every run.
 *   lockstep  The tree of numerics/tree.h. Not computed here: real workers do it (sum_order.h). */
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
    int workers; /* among which the groups are divided */
    int run;     /* arrival: number of the repeated run */
    int base;    /* number of the way that it is compared with; its own number: with none */
} ls_order_way;

enum { LS_ORDER_WAYS_MAX = 16, LS_ORDER_GROUPS_MAX = 64 };

/* Lists the ways to try with `groups` ≥ 2 groups, each base before the ways compared with it. Returns their number. */
int ls_order_ways(int groups, ls_order_way ways[LS_ORDER_WAYS_MAX]);
/* Returns "ring", "arrival" and so on. */
const char *ls_order_kind_name(ls_order_kind kind);
/* Writes the name of a way with its workers, such as "ring, 4 workers". */
void ls_order_way_text(const ls_order_way *way, char *text, size_t bytes);

/* ---- sums: out must not be one of the gradients ------------------------------------------------------------------ */

/* Adds the gradients as a ring of `workers` ≤ groups does. */
void ls_order_ring(const float *const *grads, int groups, int workers, float *out, size_t elems);
/* Adds them as a ring with buffers of bf16 does. */
void ls_order_ring16(const float *const *grads, int groups, int workers, float *out, size_t elems);
/* Adds the gradients in the order turn[0], turn[1], … */
void ls_order_in_turn(const float *const *grads, const int *turn, int groups, float *out, size_t elems);
/* Draws the order in which the gradients arrive in a step of a run: a permutation that follows from the arguments. */
void ls_order_arrival(uint64_t seed, int run, uint64_t step, int groups, int *turn);

/* ---- differences ------------------------------------------------------------------------------------------------- */

typedef struct ls_order_difference {
    size_t elems, changed; /* changed: elements whose bits differ; all NaNs are equal */
    double relative;       /* largest |a − b| / max(|a|, |b|); infinite if one of them is not finite */
    double absolute;       /* largest |a − b| */
} ls_order_difference;

/* Compares two sums element by element. */
ls_order_difference ls_order_compare(const float *a, const float *b, size_t elems);
/* Returns the first step, from 1 on, whose losses differ in their bits; 0: none. */
int64_t ls_order_first_bits(const double *a, const double *b, int64_t steps);
/* Returns the first step whose losses differ in the four decimals that train prints; 0: none. */
int64_t ls_order_first_seen(const double *a, const double *b, int64_t steps);

#endif
