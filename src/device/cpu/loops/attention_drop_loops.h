/* attention_drop_loops.h: dropout of attention's weights.
 *
 * Included by attention_loops.h. A pair of query and key has a factor, the scale or +0, with which its weight is
 * multiplied after l has been summed up. Random numbers are computed for consecutive keys of one query; where keys run
 * down the rows, the factors of a panel of queries are transposed. */
#include "device/cpu/loops/philox_loops.h"

enum { DROP_KEYS = 128 }; /* that are made at a time for a panel */

/* Returns whether the call has dropout. */
LSK_INLINE int is_dropping(const ls_attention *a) { return a->drop.scale > 0; }

/* Computes the factors of a query with the keys key … key+n−1, n ≤ LS_ATTENTION_KEYS; `to` has space for whole v16. */
static void make_factors(const ls_attention *a, float *to, size_t head, size_t query, size_t key, size_t n) {
    uint32_t space[STRETCH_WORDS(LS_ATTENTION_KEYS)];
    uint64_t index = ((a->drop.head0 + head) * a->T + query) * a->T + key;
    const uint32_t *words = make_stretch(space, a->drop.key, index, n);
    const v16i limit = limit_of(a->drop.threshold);
    const v16 none = v16_set1(0.0f), scale = v16_set1(a->drop.scale);
    for (size_t i = 0; i < n; i += LANES) v16_store(to + i, v16_select(dropped_lanes(words + i, limit), none, scale));
}

/* Multiplies x by the factors, in place. */
LSK_INLINE void times(float *x, const float *factors, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v16_store(x + i, v16_mul(v16_load(x + i), v16_load(factors + i)));
    if (i < n) store_part(x + i, v16_mul(load_part(x + i, n - i), load_part(factors + i, n - i)), n - i);
}

/* Multiplies weights[first … end−1] of one query, indexed by key, by its dropout factors. */
static void drop_row(const ls_attention *a, float *weights, size_t head, size_t query, size_t first, size_t end) {
    float factors[LS_ATTENTION_KEYS];
    for (size_t key = first; key < end; key += LS_ATTENTION_KEYS) {
        size_t n = min_size(LS_ATTENTION_KEYS, end - key);
        make_factors(a, factors, head, query, key, n);
        times(weights + key, factors, n);
    }
}

/* Applies dropout to weights[key][nr] of `count` queries from `query` on, for keys from `first` to the last of these
 * queries. */
static void drop_panel(const ls_attention *a, const engine *e, float *weights, size_t head, size_t query, size_t count,
                       size_t first) {
    float factors[LS_ATTENTION_TILE * DROP_KEYS], turned[LS_ATTENTION_TILE * DROP_KEYS];
    for (size_t key = first; key < query + count; key += DROP_KEYS) {
        size_t n = min_size(DROP_KEYS, query + count - key);
        for (size_t j = 0; j < count; j++) make_factors(a, factors + j * DROP_KEYS, head, query + j, key, n);
        transpose(e, turned, e->nr, factors, DROP_KEYS, count, n);
        times(weights + key * e->nr, turned, n * e->nr);
    }
}
