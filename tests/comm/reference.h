/* reference.h: the plain meaning of an ordered sum, and the numbers that the collectives are tested with.
 *
 * Shares nothing with src/: the tree is a recursion over a few elements at a time, and contributions are a function of
 * (seed, trial, group, element) alone, so every worker can compute the parts of all.
 *
 *   tree over 7 groups:  ((0 1) (2 3)) ((4 5) 6)     the left side has the largest power of two below the count
 */
#ifndef TESTS_COMM_REFERENCE_H
#define TESTS_COMM_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep.h"

/* Where contributions come from. `wild` adds infinities and values whose sums overflow. */
typedef struct ref_source {
    uint64_t key; /* of seed and trial */
    ls_dtype dtype;
    bool wild;
    void *kept; /* the contributions themselves, by group and element, once ref_source_keep() has made them; or NULL */
    size_t kept_elems;
} ref_source;

static inline uint64_t ref_mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint64_t ref_random(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
    return ref_mix(ref_mix(ref_mix(seed ^ a * 0xD1342543DE82EF95u) + b) ^ c * 0xAF251AF3B0F025B5u);
}

static inline ref_source ref_source_make(uint64_t seed, uint64_t trial, ls_dtype dtype, bool wild) {
    return (ref_source){.key = ref_random(seed, trial, 0, 0), .dtype = dtype, .wild = wild};
}

static inline uint64_t ref_leaf_random(const ref_source *source, int group, size_t element) {
    return ref_mix(source->key + ((uint64_t)(group + 1) << 40) + element);
}

static inline float ref_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t ref_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The fp32 bits of one contribution; for bf16 the low half is zero, so both types read the same number.
 * Some elements are −0 in every group: a sum that starts from +0 gets them wrong. */
static inline uint32_t ref_drawn_bits(const ref_source *source, int group, size_t element, uint64_t column) {
    uint32_t mask = source->dtype == LS_BF16 ? 0xFFFF0000u : 0xFFFFFFFFu;
    if (column % 29 == 0) return 0x80000000u;
    uint64_t r = ref_leaf_random(source, group, element);
    uint32_t sign = (uint32_t)(r >> 63) << 31, fraction = (uint32_t)r & 0x007FFFFFu;
    uint32_t pick = (uint32_t)(r >> 23) & 0xFFu, spread = (uint32_t)(r >> 31) & 0xFFFFu;
    if (pick < 4) return sign;
    if (pick < 12) return (sign | fraction) & mask;
    if (source->wild && pick == 12) return sign | 0x7F800000u;
    if (source->wild && pick == 13) return (sign | 0x7F000000u | fraction) & mask;
    uint32_t range = column & 64 ? 20 : 60;
    uint32_t exponent = 127 - range / 2 + spread % range;
    return (sign | exponent << 23 | fraction) & mask;
}

static inline uint64_t ref_column(const ref_source *source, size_t element) { return ref_mix(source->key ^ element); }

static inline uint32_t ref_leaf_bits(const ref_source *source, int group, size_t element) {
    if (source->kept != NULL) return ((const uint32_t *)source->kept)[(size_t)group * source->kept_elems + element];
    return ref_drawn_bits(source, group, element, ref_column(source, element));
}

static inline int64_t ref_leaf_i64(const ref_source *source, int group, size_t element) {
    if (source->kept != NULL) return ((const int64_t *)source->kept)[(size_t)group * source->kept_elems + element];
    return (int64_t)ref_leaf_random(source, group, element);
}

/* Makes all contributions once, where many sums are of the same ones; the caller frees `kept`. Without the memory, or
 * beyond 64 MiB of it, they are computed again each time they are asked for. */
static inline void ref_source_keep(ref_source *source, int groups, size_t elems) {
    size_t count = elems * (size_t)groups, width = source->dtype == LS_I64 ? 8 : 4;
    void *kept = count > 0 && count * width <= (size_t)64 << 20 ? malloc(count * width) : NULL;
    for (size_t i = 0; kept != NULL && i < elems; i++) {
        uint64_t column = ref_column(source, i);
        for (int group = 0; group < groups; group++) {
            size_t at = (size_t)group * elems + i;
            if (width == 8) {
                ((int64_t *)kept)[at] = ref_leaf_i64(source, group, i);
            } else {
                ((uint32_t *)kept)[at] = ref_drawn_bits(source, group, i, column);
            }
        }
    }
    source->kept = kept;
    source->kept_elems = elems;
}

/* The largest power of two below `count`, for count ≥ 2. */
static inline int ref_split(int count) {
    int left = 1;
    while (left * 2 < count) left *= 2;
    return left;
}

enum { REF_BLOCK = 256 };

/* `elems` elements of a node, at most REF_BLOCK. */
static inline void ref_block_f32(const ref_source *source, int first, int count, size_t element, size_t elems,
                                 float *out) {
    if (count == 1) {
        for (size_t i = 0; i < elems; i++) out[i] = ref_float(ref_leaf_bits(source, first, element + i));
        return;
    }
    float right[REF_BLOCK];
    int left = ref_split(count);
    ref_block_f32(source, first, left, element, elems, out);
    ref_block_f32(source, first + left, count - left, element, elems, right);
    for (size_t i = 0; i < elems; i++) out[i] = out[i] + right[i];
}

static inline float ref_node_f32(const ref_source *source, int first, int count, size_t element) {
    float sum;
    ref_block_f32(source, first, count, element, 1, &sum);
    return sum;
}

static inline void ref_block_i64(const ref_source *source, int first, int count, size_t element, size_t elems,
                                 int64_t *out) {
    memset(out, 0, elems * sizeof *out);
    for (int g = first; g < first + count; g++)
        for (size_t i = 0; i < elems; i++)
            out[i] = (int64_t)((uint64_t)out[i] + (uint64_t)ref_leaf_i64(source, g, element + i));
}

/* Bytes of one element of a node with `count` groups: only a single group of bf16 is 16 bits wide. */
static inline size_t ref_node_width(ls_dtype dtype, int count) {
    if (dtype == LS_I64) return 8;
    return dtype == LS_BF16 && count == 1 ? 2 : 4;
}

/* Writes elements first_element … first_element+elems−1 of a node, as a worker hands it over. */
static inline void ref_node_write(const ref_source *source, ls_tree_node node, size_t first_element, size_t elems,
                                  void *out) {
    size_t width = ref_node_width(source->dtype, node.count), n;
    for (size_t i = 0; i < elems; i += n) {
        unsigned char *to = (unsigned char *)out + i * width;
        size_t element = first_element + i;
        union {
            int64_t i64[REF_BLOCK];
            float f32[REF_BLOCK];
            uint16_t half[REF_BLOCK];
        } block;
        n = elems - i < REF_BLOCK ? elems - i : REF_BLOCK;
        if (width == 8) {
            ref_block_i64(source, node.first, node.count, element, n, block.i64);
        } else if (width == 2) {
            for (size_t k = 0; k < n; k++)
                block.half[k] = (uint16_t)(ref_leaf_bits(source, node.first, element + k) >> 16);
        } else {
            ref_block_f32(source, node.first, node.count, element, n, block.f32);
        }
        memcpy(to, &block, n * width);
    }
}

/* The whole sum: the root of the tree, in the type of the result. */
static inline void ref_sum_write(const ref_source *source, int groups, size_t elems, void *out) {
    if (source->dtype == LS_BF16 && groups == 1) {
        for (size_t i = 0; i < elems; i++) {
            uint32_t bits = ref_leaf_bits(source, 0, i);
            memcpy((unsigned char *)out + i * 4, &bits, 4);
        }
        return;
    }
    ref_node_write(source, (ls_tree_node){.first = 0, .count = groups}, 0, elems, out);
}

static inline size_t ref_sum_width(ls_dtype dtype) { return dtype == LS_I64 ? 8 : 4; }

/* The maximal subtrees below node (first, count) inside lo … hi−1, appended to nodes[used…]; returns the new number. */
static inline int ref_cover(int first, int count, int lo, int hi, ls_tree_node *nodes, int used) {
    if (count <= 0 || first >= hi || first + count <= lo) return used;
    if (first >= lo && first + count <= hi) {
        nodes[used] = (ls_tree_node){.first = first, .count = count};
        return used + 1;
    }
    int left = ref_split(count);
    used = ref_cover(first, left, lo, hi, nodes, used);
    return ref_cover(first + left, count - left, lo, hi, nodes, used);
}

/* How many of the first `elems` sums a plain running sum gets different: the tests want this to be many. */
static inline size_t ref_order_matters(const ref_source *source, int groups, size_t elems) {
    size_t different = 0;
    for (size_t i = 0; i < elems; i++) {
        float running = ref_float(ref_leaf_bits(source, 0, i));
        for (int g = 1; g < groups; g++) running += ref_float(ref_leaf_bits(source, g, i));
        different += ref_bits(running) != ref_bits(ref_node_f32(source, 0, groups, i));
    }
    return different;
}

static inline bool ref_is_nan(uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; }

/* The first element whose bits differ, or `elems`. Every NaN is the same value. */
static inline size_t ref_first_difference(ls_dtype dtype, const void *a, const void *b, size_t elems) {
    size_t width = ref_sum_width(dtype);
    if (elems == 0 || memcmp(a, b, elems * width) == 0) return elems;
    for (size_t i = 0; i < elems; i++) {
        const unsigned char *x = (const unsigned char *)a + i * width, *y = (const unsigned char *)b + i * width;
        if (memcmp(x, y, width) == 0) continue;
        if (width == 8) return i;
        uint32_t p, q;
        memcpy(&p, x, 4);
        memcpy(&q, y, 4);
        if (!ref_is_nan(p) || !ref_is_nan(q)) return i;
    }
    return elems;
}

#define REF_HASH_START 0xCBF29CE484222325u

/* FNV-1a over the values, low byte first and with one NaN, so that the same results hash the same anywhere. */
static inline uint64_t ref_hash(uint64_t hash, ls_dtype dtype, const void *values, size_t elems) {
    size_t width = ref_sum_width(dtype);
    for (size_t i = 0; i < elems; i++) {
        uint64_t word = 0;
        if (width == 8) {
            memcpy(&word, (const unsigned char *)values + i * 8, 8);
        } else {
            uint32_t bits;
            memcpy(&bits, (const unsigned char *)values + i * 4, 4);
            word = ref_is_nan(bits) ? 0x7FC00000u : bits;
        }
        for (size_t k = 0; k < width; k++) hash = (hash ^ ((word >> (8 * k)) & 0xFF)) * 0x100000001B3u;
    }
    return hash;
}

#endif
