/* unit_check.c: the same two products on a device and on the CPU. */
#include "device/unit_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/rng.h"
#include "device/ops.h"

/* At most; products of whole tiles and of odd sizes. */
enum { LINES_MAX = 48, K_MAX = 64, KINDS = 8, C_KINDS = 5 };

typedef struct check_size {
    size_t m, n, k;
} check_size;
static const check_size sizes[] = {{40, 48, 64}, {33, 35, 37}};

typedef struct numbers {
    uint16_t a[LINES_MAX * K_MAX], b[LINES_MAX * K_MAX];
    uint32_t c[LINES_MAX * LINES_MAX];
} numbers;

/* What a line is made of, by its number: so every kind meets every kind. */
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

static uint32_t c_of(size_t kind, uint32_t random) {
    switch (kind % C_KINDS) {
    case 0: return random & 0x80000000u;                                            /* a zero */
    case 1: return (random & 0x807FFFFFu) | (127 - 4 + (random >> 24) % 8) << 23;   /* as large as the products */
    case 2: return random & 0x807FFFFFu;                                            /* subnormal */
    case 3: return (random & 0x807FFFFFu) | (127 + 16 + (random >> 24) % 16) << 23; /* they are cut off beside it */
    default: return random;
    }
}

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

/* Chains that go on from c; the result is in x->c. */
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

static bool is_nan(uint32_t bits) { return (bits & 0x7FFFFFFFu) > 0x7F800000u; }

static ls_status compare(ls_device *device, ls_unit unit, check_size size, const numbers *got, const numbers *right) {
    for (size_t i = 0; i < LINES_MAX * LINES_MAX; i++) {
        bool is_result = i / LINES_MAX < size.m && i % LINES_MAX < size.n;
        if (!is_result || got->c[i] == right->c[i] || (is_nan(got->c[i]) && is_nan(right->c[i]))) continue;
        return ls_fail_here(
            LS_ERR_INPUT,
            "the tensor cores of %s do not compute by the formula of %s: element %zu, %zu of a "
            "product of %zu × %zu × %zu is %08x, not %08x: use --precision fp32, or --matrix-unit chain",
            device->about ? device->about : device->name, ls_unit_name(unit), i / LINES_MAX, i % LINES_MAX, size.m,
            size.n, size.k, got->c[i], right->c[i]);
    }
    return LS_OK;
}

static ls_status check_size_of(ls_device *device, ls_device *cpu, ls_unit unit, ls_dtype dtype, check_size size,
                               numbers x[2]) {
    make_numbers(&x[0], dtype);
    x[1] = x[0];
    LS_TRY(multiply(device, unit, dtype, size, &x[0]));
    LS_TRY(multiply(cpu, unit, dtype, size, &x[1]));
    return compare(device, unit, size, &x[0], &x[1]);
}

ls_status ls_device_check_unit(ls_device *device, ls_unit unit, ls_dtype dtype) {
    ls_status status = LS_OK;
    ls_device *cpu = NULL;
    numbers *x = NULL;
    if (unit == LS_UNIT_CHAIN || device->is_host) return LS_OK;
    LS_TRY(ls_device_open_cpu(1, NULL, NULL, &cpu));
    x = malloc(2 * sizeof *x);
    if (!x) status = ls_fail(LS_ERR_RESOURCE, "out of memory for a comparison of %s", device->name);
    for (size_t i = 0; status == LS_OK && i < sizeof sizes / sizeof *sizes; i++)
        status = check_size_of(device, cpu, unit, dtype, sizes[i], x);
    free(x);
    ls_device_destroy(cpu);
    return status;
}
