/* unit_check.c: the same two products, and attention over a short sequence, on a device and on the CPU. */
#include "device/unit_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/rng.h"
#include "device/ops.h"

/* LINES_MAX, K_MAX: m, n and k of a matmul at most. KINDS: kinds of lines of A and B; C_KINDS: of elements of C. */
enum { LINES_MAX = 48, K_MAX = 64, KINDS = 8, C_KINDS = 5 };

typedef struct check_size {
    size_t m, n, k;
} check_size;
static const check_size sizes[] = {{40, 48, 64}, {33, 35, 37}};

typedef struct numbers {
    uint16_t a[LINES_MAX * K_MAX], b[LINES_MAX * K_MAX];
    uint32_t c[LINES_MAX * LINES_MAX];
} numbers;

/* Returns the pattern of value k of a line of A or B, of this 16-bit type. The number of the line (modulo KINDS)
 * decides which kind of numbers it is made of, so every kind of line of A meets every kind of B. */
static uint16_t number_of(ls_dtype dtype, size_t line, size_t k, uint32_t random) {
    const uint32_t fraction_bits = dtype == LS_BF16 ? 7 : 10, highest = dtype == LS_BF16 ? 254 : 30, half = highest / 2;
    const uint32_t fraction = random & ((1u << fraction_bits) - 1), sign = random >> 15 & 1, r = random >> 16;
    uint32_t e = half - 4 + r % 8;
    switch (line % KINDS) {
    case 0: break;                                       /* of one size */
    case 1: e = half - half / 4 + r % (half / 2); break; /* far apart */
    case 2: e = r % 2; break;                            /* subnormal, or the smallest */
    case 3: return (uint16_t)((k % 2) << 15 | half << fraction_bits | (uint32_t)(k / 2)); /* pairs that cancel */
    case 4: e = highest - r % 4; break;                                                   /* large: sums overflow */
    case 5: return (uint16_t)(random & 0xFFFF);                                           /* anything */
    case 6: return (uint16_t)(sign << 15 | (half - half / 8 + r % (half / 4)) << fraction_bits); /* powers of two */
    default: return (uint16_t)(r % 4 ? sign << 15 : sign << 15 | e << fraction_bits | fraction); /* mostly zeros */
    }
    return (uint16_t)(sign << 15 | e << fraction_bits | fraction);
}

/* Returns the fp32 pattern of an element of C of kind `kind` modulo C_KINDS, the last of which is any pattern. */
static uint32_t c_of(size_t kind, uint32_t random) {
    switch (kind % C_KINDS) {
    case 0: return random & 0x80000000u;                                            /* a zero */
    case 1: return (random & 0x807FFFFFu) | (127 - 4 + (random >> 24) % 8) << 23;   /* as large as the products */
    case 2: return random & 0x807FFFFFu;                                            /* subnormal */
    case 3: return (random & 0x807FFFFFu) | (127 + 16 + (random >> 24) % 16) << 23; /* they are cut off beside it */
    default: return random;
    }
}

/* Fills a, b and c of *x, the same in every call for a type. */
static void make_numbers(numbers *x, ls_dtype dtype) {
    enum { PURPOSE = 0x48474D41 };
    const ls_rng_key a = ls_rng_key_make(0, PURPOSE, 0), b = ls_rng_key_make(0, PURPOSE, 1),
                     c = ls_rng_key_make(0, PURPOSE, 2);
    for (size_t i = 0; i < LINES_MAX * K_MAX; i++) {
        size_t line = i / K_MAX, k = i % K_MAX;
        x->a[i] = number_of(dtype, line, k, ls_rng_u32(a, i));
        x->b[i] = number_of(dtype, line, k / 2 * 2, ls_rng_u32(b, i)); /* both of a pair of the same sign */
    }
    for (size_t i = 0; i < LINES_MAX * LINES_MAX; i++)
        x->c[i] = c_of(i / LINES_MAX + i % LINES_MAX / KINDS, ls_rng_u32(c, i));
}

/* Computes x->c = x->c + a·bᵀ on a device by the unit. x is memory of the host, copied there and back. On a device that
 * is not the host's, a planted fault (LS_FAULT_PRODUCT) may spoil the result. */
static ls_status multiply(ls_device *device, ls_unit unit, ls_dtype dtype, check_size size, numbers *x) {
    void *memory = NULL;
    LS_TRY(ls_device_alloc(device, sizeof *x, &memory));
    numbers *there = memory;
    ls_gemm call = {.form = LS_GEMM_NT, .dtype = dtype, .unit = unit, .accumulate = true};
    call.m = size.m, call.n = size.n, call.k = size.k;
    call.a = there->a, call.b = there->b, call.c = there->c;
    call.lda = call.ldb = K_MAX, call.ldc = LINES_MAX;
    ls_status status = ls_device_copy_in(device, there, x, sizeof *x);
    if (status == LS_OK) status = device->ops->gemm(device, &call);
    if (status == LS_OK && !device->is_host)
        ls_fault_at(device, LS_FAULT_PRODUCT, ls_unit_name(unit), -1, there->c, size.m * LINES_MAX, sizeof *there->c);
    if (status == LS_OK) status = ls_device_copy_out(device, x->c, there->c, sizeof x->c);
    ls_device_free(device, memory);
    return status;
}

/* Returns whether an fp32 pattern is a NaN. */
static bool is_nan(uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; }

/* Counts a compared number, and notes the first one that differs: element i, j of `what`. */
static void count_number(ls_unit_report *out, bool differs, const char *what, size_t i, size_t j, uint32_t got,
                         uint32_t right) {
    out->compared++;
    if (!differs) return;
    if (!out->different)
        (void)snprintf(out->first, sizeof out->first, "element %zu, %zu of %s is %08x, not %08x", i, j, what, got,
                       right);
    out->different++;
}

/* Compares the elements of one matmul. All NaN are equal. */
static void compare_elements(check_size size, const numbers *got, const numbers *right, ls_unit_report *out) {
    char what[64];
    (void)snprintf(what, sizeof what, "a product of %zu × %zu × %zu", size.m, size.n, size.k);
    for (size_t i = 0; i < size.m; i++)
        for (size_t j = 0; j < size.n; j++) {
            uint32_t x = got->c[i * LINES_MAX + j], y = right->c[i * LINES_MAX + j];
            count_number(out, x != y && !(is_nan(x) && is_nan(y)), what, i, j, x, y);
        }
}

/* Compares the matmuls of all sizes; without is_report only up to the first that differs. x is scratch. */
static ls_status compare_products(ls_device *device, ls_device *cpu, ls_unit unit, ls_dtype dtype, numbers x[2],
                                  bool is_report, ls_unit_report *out) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && (is_report || !out->different); i++) {
        make_numbers(&x[0], dtype);
        x[1] = x[0];
        LS_TRY(multiply(device, unit, dtype, sizes[i], &x[0]));
        LS_TRY(multiply(cpu, unit, dtype, sizes[i], &x[1]));
        compare_elements(sizes[i], &x[0], &x[1], out);
    }
    return LS_OK;
}

/* ---- exponentials ------------------------------------------------------------------------------------------------ */

enum { TOKENS = 96, HEAD = 8 };

/* Attention of one head over a short sequence: operands, results, and maximum and sum of exponentials of each query. */
typedef struct sequence {
    uint16_t q[TOKENS * HEAD], k[TOKENS * HEAD], v[TOKENS * HEAD], o[TOKENS * HEAD];
    uint32_t m[TOKENS], l[TOKENS];
} sequence;

/* Runs attention on a device: copies the operands in, and all of x back. */
static ls_status run_attention(ls_device *device, ls_unit unit, ls_dtype dtype, sequence *x) {
    void *memory = NULL;
    LS_TRY(ls_device_alloc(device, sizeof *x, &memory));
    sequence *there = memory;
    ls_attention part = {.T = TOKENS, .heads = 1, .kv_heads = 1, .head_size = HEAD, .act = dtype, .unit = unit};
    part.scale = 0.0625f;
    part.q = (ls_attention_in){there->q, HEAD, HEAD}, part.k = (ls_attention_in){there->k, HEAD, HEAD};
    part.v = (ls_attention_in){there->v, HEAD, HEAD}, part.o = (ls_attention_out){there->o, HEAD, HEAD};
    part.m = (float *)there->m, part.l = (float *)there->l, part.stat_stride = TOKENS;
    ls_attention_call call = {.parts = &part, .nparts = 1, .B = 1};
    call.query_rows = call.key_rows = call.stat_elems = TOKENS;
    ls_status status = ls_device_copy_in(device, there, x, sizeof *x);
    if (status == LS_OK) status = device->ops->attention_forward(device, &call);
    if (status == LS_OK) status = ls_device_copy_out(device, x, there, sizeof *x);
    ls_device_free(device, memory);
    return status;
}

/* Compares attention: the sums of exponentials and the output, bit by bit, also of NaN. Its exponentials are
 * instructions of the GPU (ex2), which published formulas do not describe. */
static ls_status compare_exponentials(ls_device *device, ls_device *cpu, ls_unit unit, ls_dtype dtype,
                                      ls_unit_report *out) {
    enum { PURPOSE = 0x45585032 };
    sequence x[2] = {0};
    for (size_t i = 0; i < TOKENS * HEAD; i++) {
        x[0].q[i] = number_of(dtype, 0, i, ls_rng_u32(ls_rng_key_make(0, PURPOSE, 0), i));
        x[0].k[i] = number_of(dtype, 0, i, ls_rng_u32(ls_rng_key_make(0, PURPOSE, 1), i));
        x[0].v[i] = number_of(dtype, 0, i, ls_rng_u32(ls_rng_key_make(0, PURPOSE, 2), i));
    }
    x[1] = x[0];
    LS_TRY(run_attention(device, unit, dtype, &x[0]));
    LS_TRY(run_attention(cpu, unit, dtype, &x[1]));
    for (size_t i = 0; i < TOKENS; i++) {
        count_number(out, x[0].l[i] != x[1].l[i], "the sums of exponentials of a sequence", i, 0, x[0].l[i], x[1].l[i]);
        for (size_t j = 0; j < HEAD; j++) {
            uint32_t got = x[0].o[i * HEAD + j], right = x[1].o[i * HEAD + j];
            count_number(out, got != right, "attention over a sequence", i, j, got, right);
        }
    }
    return LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* Compares the device with a CPU that computes by the formula, in *out. A report (is_report) counts all differences, in
 * matmuls and attention; otherwise the comparison stops after the first matmul that differs, and attention is compared
 * only if none does and the unit is not hgmma. */
static ls_status compare_unit(ls_device *device, ls_unit unit, ls_dtype dtype, bool is_report, ls_unit_report *out) {
    ls_device *cpu = NULL;
    *out = (ls_unit_report){0};
    LS_TRY(ls_device_open_cpu(1, NULL, NULL, &cpu));
    numbers *x = malloc(2 * sizeof *x);
    ls_status status = x ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a comparison of %s", device->name);
    if (status == LS_OK) status = compare_products(device, cpu, unit, dtype, x, is_report, out);
    if (status == LS_OK && (is_report || (unit != LS_UNIT_HGMMA && !out->different)))
        status = compare_exponentials(device, cpu, unit, dtype, out);
    free(x);
    ls_device_destroy(cpu);
    return status;
}

ls_status ls_device_compare_unit(ls_device *device, ls_unit unit, ls_dtype dtype, ls_unit_report *out) {
    return compare_unit(device, unit, dtype, true, out);
}

ls_status ls_device_check_unit(ls_device *device, ls_unit unit, ls_dtype dtype) {
    ls_unit_report found;
    if (unit == LS_UNIT_CHAIN || device->is_host) return LS_OK;
    LS_TRY(compare_unit(device, unit, dtype, false, &found));
    if (!found.different) return LS_OK;
    return ls_fail_here(LS_ERR_INPUT,
                        "the tensor cores of %s do not compute by the formula of %s: %s: use --precision fp32, or "
                        "--matrix-unit chain",
                        device->about ? device->about : device->name, ls_unit_name(unit), found.first);
}
