/* mask.h: the attention mask, causal with an optional sliding window: query q sees keys first_key(q) … q. Kernels of
 * CPUs and GPUs ask it which blocks of keys to skip, and the planner how many pairs are computed.
 *
 *     key      0 1 2 3 4 5      with a window of 4:
 *     query 0  x . . . . .
 *           1  x x . . . .      queries 2 … 4 see keys 0 … 4,
 *           2  x x x . . .      and all of them see keys 1 and 2
 *           3  x x x x . .
 *           4  . x x x x .
 *           5  . . x x x x
 *
 * first_key does not decrease and is at most the query. So the keys of a block of queries are a range, and so are the
 * queries of a block of keys. Positions count from the beginning of the sequence. */
#ifndef LS_DEVICE_MASK_H
#define LS_DEVICE_MASK_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: causal attention. */
typedef struct ls_mask {
    size_t window; /* keys that a query sees at most, itself among them; 0: all up to itself */
} ls_mask;
#define LS_MASK_CAUSAL ((ls_mask){0})

/* Positions begin … end−1; none where end ≤ begin. */
typedef struct ls_positions {
    size_t begin, end;
} ls_positions;

/* Returns whether there is no window: a query sees all keys up to itself. */
static inline bool ls_mask_is_causal(ls_mask m) { return m.window == 0; }

/* Returns the first key that the query sees. */
static inline size_t ls_mask_first_key(ls_mask m, size_t query) {
    return m.window > 0 && query >= m.window ? query - m.window + 1 : 0;
}

/* Returns one more than the last of T queries that sees the key; key < T. */
static inline size_t ls_mask_end_query(ls_mask m, size_t key, size_t T) {
    return m.window > 0 && T - key > m.window ? key + m.window : T;
}

/* Returns whether the query attends to the key. */
static inline bool ls_mask_sees(ls_mask m, size_t query, size_t key) {
    return key <= query && key >= ls_mask_first_key(m, query);
}

/* Returns the range of keys that at least one of the queries sees. `queries` is not empty. */
static inline ls_positions ls_mask_keys(ls_mask m, ls_positions queries) {
    return (ls_positions){ls_mask_first_key(m, queries.begin), queries.end};
}
/* Returns the range of keys that all of the queries see; it may be empty (end ≤ begin). */
static inline ls_positions ls_mask_shared_keys(ls_mask m, ls_positions queries) {
    return (ls_positions){ls_mask_first_key(m, queries.end - 1), queries.begin + 1};
}

/* Returns the range of the T queries that see at least one of the keys. `keys` is not empty. */
static inline ls_positions ls_mask_queries(ls_mask m, ls_positions keys, size_t T) {
    return (ls_positions){keys.begin, ls_mask_end_query(m, keys.end - 1, T)};
}
/* Returns the range of the T queries that see all of the keys; it may be empty (end ≤ begin). */
static inline ls_positions ls_mask_shared_queries(ls_mask m, ls_positions keys, size_t T) {
    return (ls_positions){keys.end - 1, ls_mask_end_query(m, keys.begin, T)};
}

/* How many pairs of a block of queries and keys are seen: none (the kernel skips the block), some (it masks single
 * pairs) or all. */
typedef enum ls_mask_cover { LS_MASK_EMPTY, LS_MASK_PARTIAL, LS_MASK_FULL } ls_mask_cover;
/* Returns whether the queries see none, some or all of the keys; neither range is empty. */
static inline ls_mask_cover ls_mask_cover_of(ls_mask m, ls_positions queries, ls_positions keys) {
    ls_positions some = ls_mask_keys(m, queries), all = ls_mask_shared_keys(m, queries);
    if (keys.end <= some.begin || keys.begin >= some.end) return LS_MASK_EMPTY;
    return keys.begin >= all.begin && keys.end <= all.end ? LS_MASK_FULL : LS_MASK_PARTIAL;
}

/* Returns the number of pairs of a query and a key that it sees, in a sequence of T; for costs, exact below 2^53. */
static inline double ls_mask_pairs(ls_mask m, size_t T) {
    double all = (double)T * ((double)T + 1) / 2, unseen = m.window > 0 && T > m.window ? (double)(T - m.window) : 0;
    return all - unseen * (unseen + 1) / 2;
}

#endif
