/* sum_case.h: one ordered sum, from the contributions to the comparison of every bit.
 *
 * A case says which worker holds which groups and how the call is made; sum_case_run() makes this worker's parts, calls
 * all-reduce or reduce-scatter, and compares the result with the plain tree and the parts with what they were.
 */
#ifndef TESTS_COMM_SUM_CASE_H
#define TESTS_COMM_SUM_CASE_H

#include "harness.h"

typedef enum run_kind { RUNS_NONE, RUNS_EVEN, RUNS_UNEVEN, RUNS_EMPTY, RUNS_ONE, RUNS_COUNT } run_kind;
typedef enum shard_kind { SHARDS_NONE, SHARDS_EVEN, SHARDS_RAGGED, SHARDS_ONE, SHARDS_COUNT } shard_kind;

typedef struct sum_case {
    bool scatter;
    ref_source source;
    int groups;
    size_t elems;
    run_kind runs_kind;
    shard_kind shards_kind;
    bool in_place;
    call_form form;
    buffer_kind buffers;
    int bounds[LS_WORKERS_MAX + 1];
    size_t shards[LS_WORKERS_MAX + 1];
} sum_case;

/* What this worker hands over. `before` keeps the bytes of each part as they were. */
typedef struct sum_parts {
    ls_tree_node nodes[LS_TREE_COVER_MAX * 2];
    unsigned char *data[LS_TREE_COVER_MAX * 2], *before[LS_TREE_COVER_MAX * 2];
    const void *handed[LS_TREE_COVER_MAX * 2];
    int count;
} sum_parts;

static inline const char *dtype_text(ls_dtype dtype) {
    return dtype == LS_F32 ? "f32" : dtype == LS_BF16 ? "bf16" : "i64";
}

static inline int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static inline int compare_sizes(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Fills bounds[] for the kind; what an empty `bounds` means is written out here too. */
static inline void draw_runs(harness *h, sum_case *c) {
    int W = h->size, G = c->groups, chosen = (int)draw_below(h, (size_t)W);
    for (int r = 0; r <= W; r++) c->bounds[r] = (int)((int64_t)G * r / W);
    if (c->runs_kind == RUNS_UNEVEN) {
        for (int r = 1; r < W; r++) c->bounds[r] = (int)draw_below(h, (size_t)G + 1);
        qsort(c->bounds + 1, (size_t)W - 1, sizeof c->bounds[0], compare_ints);
    } else if (c->runs_kind == RUNS_EMPTY) {
        for (int r = 1; r < W; r++) c->bounds[r] = (int)draw_below(h, (size_t)G + 1);
        qsort(c->bounds + 1, (size_t)W - 1, sizeof c->bounds[0], compare_ints);
        if (W > 1) c->bounds[chosen == 0 ? 1 : chosen] = c->bounds[chosen == 0 ? 0 : chosen - 1];
    } else if (c->runs_kind == RUNS_ONE) {
        for (int r = 0; r <= W; r++) c->bounds[r] = r <= chosen ? 0 : G;
    }
}

static inline void draw_shards(harness *h, sum_case *c) {
    size_t W = (size_t)h->size, chosen = draw_below(h, W);
    if (c->shards_kind == SHARDS_NONE) ls_shard_bounds(c->elems, h->size, c->shards);
    if (c->shards_kind == SHARDS_NONE) return;
    for (size_t r = 0; r <= W; r++) c->shards[r] = c->elems * r / W;
    if (c->shards_kind == SHARDS_RAGGED) {
        for (size_t r = 1; r < W; r++) c->shards[r] = draw_below(h, c->elems + 1);
        qsort(c->shards + 1, W - 1, sizeof c->shards[0], compare_sizes);
    } else if (c->shards_kind == SHARDS_ONE) {
        for (size_t r = 0; r <= W; r++) c->shards[r] = r <= chosen ? 0 : c->elems;
    }
}

static inline ls_status sum_parts_make(harness *h, const sum_case *c, sum_parts *parts) {
    parts->count = ref_cover(0, c->groups, c->bounds[h->rank], c->bounds[h->rank + 1], parts->nodes, 0);
    for (int p = 0; p < parts->count; p++) {
        size_t width = ref_node_width(c->source.dtype, parts->nodes[p].count), bytes = c->elems * width;
        size_t offset = width * (size_t)((p + h->rank) % 3);
        LS_TRY(area_new(h, c->buffers, bytes, offset, &parts->data[p]));
        LS_TRY(area_new(h, BUFFERS_PRIVATE, bytes, 0, &parts->before[p]));
        ref_node_write(&c->source, parts->nodes[p], 0, c->elems, parts->data[p]);
        memcpy(parts->before[p], parts->data[p], bytes);
        parts->handed[p] = parts->data[p];
    }
    return LS_OK;
}

/* The part that may also be the output on this worker, or −1. */
static inline int part_for_output(const sum_case *c, const sum_parts *parts, int rank) {
    for (int i = 0; i < parts->count; i++) {
        int p = (i + rank) % parts->count;
        if (ref_node_width(c->source.dtype, parts->nodes[p].count) == ref_sum_width(c->source.dtype)) return p;
    }
    return -1;
}

static inline void bounds_text(const harness *h, const sum_case *c, char *text, size_t room) {
    size_t used = 0;
    for (int r = 0; r <= h->size && used + 8 < room; r++)
        used += (size_t)snprintf(text + used, room - used, r ? ",%d" : "%d", c->bounds[r]);
}

static inline void value_text(ls_dtype dtype, const unsigned char *at, char *text, size_t room) {
    if (dtype == LS_I64) {
        int64_t value;
        memcpy(&value, at, 8);
        snprintf(text, room, "%lld", (long long)value);
    } else {
        float value;
        memcpy(&value, at, 4);
        snprintf(text, room, "%.9g (%08x)", (double)value, ref_bits(value));
    }
}

static inline ls_status sum_mismatch(const harness *h, const sum_case *c, size_t element, const unsigned char *got,
                                     const unsigned char *wanted) {
    static const char *const kinds[] = {"none", "even", "uneven", "empty", "one"};
    static const char *const shard_kinds[] = {"default", "even", "ragged", "one"};
    char runs[160], got_text[48], wanted_text[48];
    bounds_text(h, c, runs, sizeof runs);
    value_text(c->source.dtype, got, got_text, sizeof got_text);
    value_text(c->source.dtype, wanted, wanted_text, sizeof wanted_text);
    return ls_fail(LS_ERR_FAILED,
                   "%s %s W=%d rank %d G=%d runs %s [%s]%s%s%s%s buffers %d form %d n=%zu: element %zu is %s, not %s",
                   c->scatter ? "reduce_scatter" : "all_reduce", dtype_text(c->source.dtype), h->size, h->rank,
                   c->groups, kinds[c->runs_kind], runs, c->scatter ? " shards " : "",
                   c->scatter ? shard_kinds[c->shards_kind] : "", c->in_place ? " in place" : "",
                   c->source.wild ? " wild" : "", (int)c->buffers, (int)c->form, c->elems, element, got_text,
                   wanted_text);
}

static inline ls_status sum_call(harness *h, const sum_case *c, const sum_parts *parts, void *out) {
    ls_runs runs = {.groups = c->groups, .bounds = c->runs_kind == RUNS_EVEN ? NULL : c->bounds};
    const ls_runs *handed = c->runs_kind == RUNS_NONE ? NULL : &runs;
    const size_t *shards = c->shards_kind == SHARDS_NONE ? NULL : c->shards;
    ls_dtype dtype = c->source.dtype;
    ls_request *request = NULL;
    if (c->form == CALL_BLOCKING) {
        if (c->scatter) return ls_comm_reduce_scatter(h->comm, handed, dtype, parts->handed, out, shards, c->elems);
        return ls_comm_all_reduce(h->comm, handed, dtype, parts->handed, out, c->elems);
    }
    if (c->scatter) {
        LS_TRY(ls_comm_reduce_scatter_start(h->comm, handed, dtype, parts->handed, out, shards, c->elems, &request));
    } else {
        LS_TRY(ls_comm_all_reduce_start(h->comm, handed, dtype, parts->handed, out, c->elems, &request));
    }
    return finish_request(request, c->form);
}

/* Parts must be what they were, but for elements from … from+count−1 of the one that is also the output. */
static inline ls_status sum_parts_unchanged(harness *h, const sum_case *c, const sum_parts *parts, int output,
                                            size_t from, size_t count) {
    for (int p = 0; p < parts->count; p++) {
        size_t width = ref_node_width(c->source.dtype, parts->nodes[p].count);
        size_t skip = p == output ? from * width : c->elems * width;
        size_t resume = p == output ? (from + count) * width : c->elems * width;
        h->checks++;
        if (memcmp(parts->data[p], parts->before[p], skip) == 0 &&
            memcmp(parts->data[p] + resume, parts->before[p] + resume, c->elems * width - resume) == 0)
            continue;
        return ls_fail(LS_ERR_FAILED, "%s %s W=%d rank %d G=%d n=%zu: part %d of %d was changed",
                       c->scatter ? "reduce_scatter" : "all_reduce", dtype_text(c->source.dtype), h->size, h->rank,
                       c->groups, c->elems, p, parts->count);
    }
    return LS_OK;
}

/* `wanted` is the whole sum. Runs and shards have been drawn. `kept`, when not NULL, gets this worker's result. */
static inline ls_status sum_case_run(harness *h, const sum_case *c, const unsigned char *wanted, void *kept) {
    size_t width = ref_sum_width(c->source.dtype);
    size_t from = c->scatter ? c->shards[h->rank] : 0, to = c->scatter ? c->shards[h->rank + 1] : c->elems;
    sum_parts parts;
    unsigned char *out;
    LS_TRY(sum_parts_make(h, c, &parts));
    int output = c->in_place ? part_for_output(c, &parts, h->rank) : -1;
    if (output >= 0) {
        out = parts.data[output] + from * width;
    } else {
        LS_TRY(area_new(h, c->buffers, (to - from) * width, width * (size_t)(h->rank % 2), &out));
    }
    LS_TRY(sum_call(h, c, &parts, out));
    size_t bad = ref_first_difference(c->source.dtype, out, wanted + from * width, to - from);
    h->checks++;
    if (bad < to - from) return sum_mismatch(h, c, from + bad, out + bad * width, wanted + (from + bad) * width);
    LS_TRY(sum_parts_unchanged(h, c, &parts, output, from, to - from));
    if (kept != NULL) memcpy(kept, out, (to - from) * width);
    return areas_end(h, c->scatter ? "reduce_scatter" : "all_reduce");
}

#endif
