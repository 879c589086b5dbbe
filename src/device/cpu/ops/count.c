/* count.c: counting, finding and hashing numbers: what telemetry and guards ask for. Split by elements.
 *
 * Numbers are compared as the integers that their patterns are without the sign bit, in loops that the compiler turns
 * into vectors. Counts are exact integers, so it does not matter which thread adds first. */
#include <stdatomic.h>

#include "device/cpu/ops/staging.h"
#include "numerics/float16.h"

enum { INFINITY_BITS = 0x7F800000 };

/* Patterns of products without the sign: up to `flushed` they round to 0, from `high` on they count as LS_COUNT_HIGH.
 */
typedef struct count_limits {
    int32_t flushed, high;
} count_limits;

/* Returns the limits of LS_COUNT_FLUSHED and LS_COUNT_HIGH. The tie between 0 and the smallest number rounds to 0. */
static count_limits limits_of(ls_dtype type) {
    float flushed = type == LS_BF16 ? 0x1p-134f : type == LS_F16 ? 0x1p-25f : 0.0f;
    float high = type == LS_BF16 ? 0x1.FEp123f : type == LS_F16 ? 0x1.FFCp11f : 0x1.FFFFFEp123f;
    return (count_limits){(int32_t)ls_f32_bits(flushed), (int32_t)ls_f32_bits(high)};
}

typedef struct count_args {
    const ls_count_call *call;
    count_limits limits;
} count_args;

/* Adds to a total that several threads share. */
static void add(int64_t *sum, int64_t more) {
    atomic_fetch_add_explicit((_Atomic int64_t *)sum, more, memory_order_relaxed);
}

/* Returns the bit pattern without the sign, which orders numbers by size; infinity and NaN are INFINITY_BITS or
 * more. */
static int32_t magnitude(float x) { return (int32_t)(ls_f32_bits(x) & 0x7FFFFFFFu); }

/* Counts elements begin … end−1, and adds the counts to call->out. */
static void count_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const count_args *a = args;
    const float *x = a->call->x, scale = a->call->scale;
    const int32_t low = a->limits.flushed, high = a->limits.high;
    uint32_t flushed = 0, at_end = 0, nonzero = 0, bad = 0;
    for (size_t i = begin; i < end; i++) {
        int32_t size = magnitude(x[i]), product = magnitude(x[i] * scale);
        nonzero += size != 0;
        bad += size >= INFINITY_BITS;
        flushed += (size != 0) & (product <= low);
        at_end += (product >= high) & (product <= INFINITY_BITS);
    }
    const uint32_t counts[LS_COUNTS] = {
        [LS_COUNT_FLUSHED] = flushed, [LS_COUNT_HIGH] = at_end, [LS_COUNT_NONZERO] = nonzero, [LS_COUNT_BAD] = bad};
    for (int i = 0; i < LS_COUNTS; i++)
        if (counts[i]) add(&a->call->out[i], counts[i]);
}

/* Adds the counts of ls_count for all elements to out[LS_COUNTS]. */
ls_status ls_cpu_op_count(ls_device *device, const ls_count_call *call) {
    LS_TRY(ls_check_float("counts", call->type));
    count_args args = {call, limits_of(call->type)};
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, count_range, &args);
}

/* Computes elements begin … end−1 of the difference, and adds the lost updates to *lost. */
static void difference_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const ls_difference_call *c = args;
    float *before = c->before;
    const float *after = c->after, *by = c->by;
    uint32_t lost = 0;
    for (size_t i = begin; i < end; i++) {
        uint32_t moved = magnitude(by[i]) != 0, same = ls_f32_bits(before[i]) == ls_f32_bits(after[i]);
        lost += moved & same;
        before[i] = after[i] - before[i];
    }
    if (lost) add(c->lost, lost);
}

/* Replaces `before` by after − before, and counts updates that changed nothing. */
ls_status ls_cpu_op_difference(ls_device *device, const ls_difference_call *call) {
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, difference_range, call);
}

/* Returns whether element i is infinite or NaN. */
static bool is_bad(const ls_find_bad_call *a, size_t i) {
    if (a->dtype == LS_F32) return magnitude(((const float *)a->x)[i]) >= INFINITY_BITS;
    return (((const uint16_t *)a->x)[i] & 0x7FFF) >= (a->dtype == LS_BF16 ? 0x7F80 : 0x7C00);
}

/* Returns whether a stretch has a number that is not finite, by its largest pattern. */
static bool any_bad(const ls_find_bad_call *a, size_t begin, size_t end) {
    if (a->dtype == LS_F32) {
        const float *x = a->x;
        int32_t most = 0;
        for (size_t i = begin; i < end; i++) most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
        return most >= INFINITY_BITS;
    }
    const uint16_t *x = a->x;
    int16_t most = 0;
    for (size_t i = begin; i < end; i++) {
        int16_t size = (int16_t)(x[i] & 0x7FFF);
        most = size > most ? size : most;
    }
    return most >= (a->dtype == LS_BF16 ? 0x7F80 : 0x7C00);
}

/* Lowers *index to the first bad element of begin … end−1; skips what lies behind one that is already found. */
static void find_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const ls_find_bad_call *c = args;
    _Atomic uint64_t *index = (_Atomic uint64_t *)c->index;
    uint64_t first = atomic_load_explicit(index, memory_order_relaxed);
    if (begin >= first || !any_bad(c, begin, end)) return;
    uint64_t here = begin;
    while (!is_bad(c, here)) here++;
    while (here < first && !atomic_compare_exchange_weak(index, &first, here)) continue;
}

/* Sets *index to the number of the first element that is not finite; LS_ALL_FINITE if there is none. */
ls_status ls_cpu_op_find_bad(ls_device *device, const ls_find_bad_call *call) {
    LS_TRY(ls_check_float("a search", call->dtype));
    *call->index = LS_ALL_FINITE;
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, find_range, call);
}

enum { PIECE_BYTES = 1 << 18 };

typedef struct hash_args {
    const ls_hash_call *call;
    ls_hash128 *pieces;
} hash_args;

/* Hashes pieces begin … end−1 of 256 KiB. */
static void hash_pieces(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const hash_args *a = args;
    for (size_t i = begin; i < end; i++) {
        size_t at = i * PIECE_BYTES, left = a->call->bytes - at;
        a->pieces[i] = ls_hash_bytes((const char *)a->call->x + at, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
}

/* Computes the hash of the hashes of all pieces of 256 KiB, so that threads can share the work. */
ls_status ls_cpu_op_hash(ls_device *device, const ls_hash_call *call) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t pieces = (call->bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    void *space = NULL;
    LS_TRY(ls_cpu_scratch(cpu, (pieces + 1) * sizeof(ls_hash128), &space));
    LS_TRY(ls_cpu_run(device, pieces, 1, hash_pieces, &(hash_args){call, space}));
    *call->out = ls_hash_combine(space, pieces);
    return LS_OK;
}

/* Hashes blocks begin … end−1 of LS_SQUARE_BLOCK elements, widened to fp32. */
static void hash_block_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_hash_blocks_call *c = args;
    float wide[LS_SQUARE_BLOCK];
    for (size_t i = begin; i < end; i++) {
        size_t at = i * LS_SQUARE_BLOCK, n = c->n - at < LS_SQUARE_BLOCK ? c->n - at : LS_SQUARE_BLOCK;
        c->out[i] = ls_hash_f32(ls_cpu_widen(kernels, wide, c->x, c->dtype, at, n), n);
    }
}

/* Computes one hash for each block of LS_SQUARE_BLOCK elements, as ls_hash_f32(). */
ls_status ls_cpu_op_hash_blocks(ls_device *device, const ls_hash_blocks_call *call) {
    LS_TRY(ls_check_float("a hash", call->dtype));
    size_t blocks = (call->n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
    return ls_cpu_run(device, blocks, LS_CPU_GRAIN / LS_SQUARE_BLOCK, hash_block_range, call);
}
