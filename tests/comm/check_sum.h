/* check_sum.h: ordered sums over types, groups, runs, shards and lengths; the sum of 1300; and the bits that must be
 * the same on every number of workers and every transport. */
#ifndef TESTS_COMM_CHECK_SUM_H
#define TESTS_COMM_CHECK_SUM_H

#include "sum_case.h"

static const ls_dtype sum_dtypes[] = {LS_F32, LS_BF16, LS_I64};
enum { SUM_DTYPES = 3 };

/* ---- many shapes ------------------------------------------------------------------------------------------------- */

/* Every kind of run for one set of contributions; the rest of the call is drawn. */
static inline ls_status sums_of(harness *h, bool scatter, ref_source source, int groups, size_t elems) {
    unsigned char *wanted = malloc(elems * 8 + 1);
    ls_status status = LS_OK;
    if (wanted == NULL) return ls_fail(LS_ERR_RESOURCE, "no memory for %zu sums", elems);
    ref_source_keep(&source, groups, elems);
    ref_sum_write(&source, groups, elems, wanted);
    for (int kind = 0; kind < RUNS_COUNT; kind++) {
        sum_case c = {.scatter = scatter, .source = source, .groups = groups, .elems = elems};
        c.runs_kind = (run_kind)kind;
        if (kind == RUNS_NONE && groups != h->size) continue;
        /* Long sums cost the reference much, and on one worker all runs are the same. */
        if (elems > 100000 && kind != RUNS_NONE && kind != RUNS_UNEVEN) continue;
        if (kind > RUNS_EVEN && h->size == 1) continue;
        int rounds = elems > 2000 ? 1 : 2;
        for (int round = 0; round < rounds; round++) {
            c.shards_kind = (shard_kind)draw_below(h, SHARDS_COUNT);
            c.in_place = draw(h) % 2;
            c.form = draw_form(h);
            c.buffers = draw_buffers(h);
            draw_runs(h, &c);
            draw_shards(h, &c);
            LS_TRY_OUT(sum_case_run(h, &c, wanted, NULL));
        }
    }
out:
    free(source.kept);
    free(wanted);
    return status;
}

static inline ls_status check_sums(harness *h, bool scatter) {
    static const size_t lengths[] = {0, 1, 2, 3, 5, 7, 16, 255, 1023, 1024, 1025, 4099, 65537, (1u << 20) + 3};
    const int counts[] = {h->size, 1, 8, 12, 13, 64};
    for (int d = 0; d < SUM_DTYPES; d++) {
        for (size_t g = 0; g < sizeof counts / sizeof counts[0]; g++) {
            for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
                uint64_t trial = draw(h);
                ref_source source = ref_source_make(h->seed, trial, sum_dtypes[d], draw(h) % 4 == 0);
                /* Long sums of many groups take the reference long: one type is enough. */
                if (lengths[n] > 1u << 20 && g != 0 && (counts[g] != 13 || d != 0)) continue;
                if (lengths[n] > 60000 && counts[g] == 64 && d != 0) continue;
                if (h->some && lengths[n] > 4000 && (g != 0 || d != 0)) continue;
                LS_TRY(sums_of(h, scatter, source, counts[g], lengths[n]));
            }
        }
    }
    return LS_OK;
}

static inline ls_status check_all_reduce(harness *h) { return check_sums(h, false); }
static inline ls_status check_reduce_scatter(harness *h) { return check_sums(h, true); }

/* ---- 1300 -------------------------------------------------------------------------------------------------------- */

/* Eight contributions of one number each. Three workers hold 150 200 50, 300 100 and 250 150 100. */
static inline ls_status check_1300(harness *h) {
    static const float values[8] = {150, 200, 50, 300, 100, 250, 150, 100};
    static const int three[4] = {0, 3, 5, 8};
    int bounds[LS_WORKERS_MAX + 1];
    for (int r = 0; r <= h->size; r++) bounds[r] = h->size == 3 ? three[r] : 8 * r / h->size;
    ls_runs runs = {.groups = 8, .bounds = bounds};
    ls_tree_node nodes[LS_TREE_COVER_MAX * 2];
    float parts[LS_TREE_COVER_MAX * 2], sum = -1;
    const void *handed[LS_TREE_COVER_MAX * 2];
    int count = ref_cover(0, 8, bounds[h->rank], bounds[h->rank + 1], nodes, 0);
    for (int p = 0; p < count; p++) {
        parts[p] = 0;
        for (int g = nodes[p].first; g < nodes[p].first + nodes[p].count; g++) parts[p] += values[g];
        handed[p] = &parts[p];
    }
    LS_TRY(ls_comm_all_reduce(h->comm, &runs, LS_F32, handed, &sum, 1));
    h->checks++;
    if (ref_bits(sum) != ref_bits(1300.0f))
        return ls_fail(LS_ERR_FAILED, "1300: W=%d rank %d got %.9g, not 1300", h->size, h->rank, (double)sum);
    return LS_OK;
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static const int bits_groups[2] = {8, 12};
static const size_t bits_lengths[] = {1, 7, 1025, 4099, 20011};
enum { BITS_LENGTHS = sizeof bits_lengths / sizeof bits_lengths[0], BITS_TRIALS = BITS_LENGTHS * SUM_DTYPES * 2 };

/* Trial t of the sums over `groups` contributions: depends on the seed and nothing else. */
static inline ref_source bits_source(uint64_t seed, int groups, int t, size_t *elems) {
    *elems = bits_lengths[t % BITS_LENGTHS];
    uint64_t trial = (uint64_t)groups * 1000 + (uint64_t)t;
    ls_dtype dtype = sum_dtypes[t / BITS_LENGTHS % SUM_DTYPES];
    return ref_source_make(seed, trial, dtype, t >= BITS_TRIALS / 2);
}

/* The hash that every layout must give, by the plain tree in one process. 0: no memory. */
static inline uint64_t bits_reference(uint64_t seed, int groups) {
    uint64_t hash = REF_HASH_START;
    for (int t = 0; t < BITS_TRIALS; t++) {
        size_t elems;
        ref_source source = bits_source(seed, groups, t, &elems);
        unsigned char *sum = malloc(elems * 8);
        if (sum == NULL) return 0;
        ref_sum_write(&source, groups, elems, sum);
        hash = ref_hash(hash, source.dtype, sum, elems);
        free(sum);
    }
    return hash;
}

/* One trial under all kinds of runs; the hash takes what the even split gave. */
static inline ls_status bits_trial(harness *h, int groups, int t, uint64_t *hash) {
    size_t elems;
    ref_source source = bits_source(h->seed, groups, t, &elems);
    unsigned char *wanted = malloc(elems * 8), *result = malloc(elems * 8);
    ls_status status = LS_OK;
    if (wanted == NULL || result == NULL) {
        status = ls_fail(LS_ERR_RESOURCE, "no memory for %zu sums", elems);
        goto out;
    }
    ref_source_keep(&source, groups, elems);
    ref_sum_write(&source, groups, elems, wanted);
    for (int kind = RUNS_EVEN; kind < RUNS_COUNT; kind++) {
        sum_case c = {.source = source, .groups = groups, .elems = elems, .runs_kind = (run_kind)kind};
        c.form = draw_form(h);
        c.buffers = draw_buffers(h);
        draw_runs(h, &c);
        LS_TRY_OUT(sum_case_run(h, &c, wanted, kind == RUNS_EVEN ? result : NULL));
    }
    *hash = ref_hash(*hash, source.dtype, result, elems);
out:
    free(source.kept);
    free(wanted);
    free(result);
    return status;
}

static inline ls_status check_bits(harness *h) {
    for (int i = 0; i < 2; i++) {
        int groups = bits_groups[i];
        if (h->size > groups) continue;
        ref_source plain = ref_source_make(h->seed, 1, LS_F32, false);
        LS_TRY(expect(h, ref_order_matters(&plain, groups, 1000) > 200, "the order of the test values matters"));
        h->bits[i] = REF_HASH_START;
        for (int t = 0; t < BITS_TRIALS; t++) LS_TRY(bits_trial(h, groups, t, &h->bits[i]));
    }
    return LS_OK;
}

#endif
