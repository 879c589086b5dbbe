/* test_loss_hgmma.c: the loss of 16-bit logits, with the order of the unit hgmma: bits as docs/reference/arithmetic.md
 * has them
 * ("Softmax cross-entropy"), from a reading of its own that shares nothing with the code; near what double gives; whole
 * rows and rows of two workers; rows and slices that begin anywhere, logits that are not finite, on every ISA, number
 * of threads and GPU. */
#include "exp2_reference.h"
#include "halves.h"

enum { SLICES_MAX = 64, KINDS = 10, REPEAT = 2 * KINDS, ID_BEGIN = 40, WORKERS = 2 }; /* REPEAT: rows that differ */

typedef struct loss_case {
    ls_dtype type;
    size_t rows, V, slices;
    size_t first, stride, shift; /* columns before the slices; elements before row 0 */
    int workers;                 /* 0: whole rows; else the passes of so many */
    bool same;                   /* dz lies over z */
    size_t bounds[SLICES_MAX + 1];
} loss_case;

/* ---- the contract ------------------------------------------------------------------------------------------------ */

typedef struct loss_result {
    float m, l, sums[SLICES_MAX];
} loss_result;

static float fold_halves(const float *x, int n) {
    float sums[16];
    if (n == 1) return x[0];
    for (int i = 0; i < n / 2; i++) sums[i] = x[i] + x[i + n / 2];
    return fold_halves(sums, n / 2);
}

static float tree(const float *x, size_t n) {
    size_t p = 1;
    if (n == 1) return x[0];
    while (2 * p < n) p *= 2;
    return tree(x, p) + tree(x + p, n - p);
}

static float weight(float z, float m) {
    const float c = 0x1.715476p+0f;
    return reference_exp2(fmaf(z, c, -(m * c)));
}

static float slice_sum(const float *p, size_t n) {
    float lane[512], sixteen[16];
    for (size_t t = 0; t < 512; t++) {
        lane[t] = 0;
        for (size_t pack = t; 8 * pack < n; pack += 512) {
            float x[8];
            for (size_t k = 0; k < 8; k++) x[k] = 8 * pack + k < n ? p[8 * pack + k] : 0;
            lane[t] += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        }
    }
    for (int w = 0; w < 16; w++) sixteen[w] = fold_halves(lane + 32 * w, 32);
    return fold_halves(sixteen, 16);
}

/* z: a row from its first column on. dz gets its gradient; `target` counts from there too. */
static loss_result reference_row(const loss_case *k, const float *z, size_t target, float g, float *dz) {
    loss_result r = {.m = -INFINITY};
    size_t n = k->bounds[k->slices] - k->first;
    for (size_t j = 0; j < n; j++)
        if (isnan(z[j]) || z[j] > r.m) r.m = z[j];
    if (r.m == 0) r.m = 0;
    for (size_t j = 0; j < n; j++) dz[j] = weight(z[j], r.m);
    for (size_t s = 0; s < k->slices; s++)
        r.sums[s] = slice_sum(dz + (k->bounds[s] - k->first), k->bounds[s + 1] - k->bounds[s]);
    r.l = tree(r.sums, k->slices);
    float inverse = 1 / r.l;
    for (size_t j = 0; j < n; j++) dz[j] = j == target ? (dz[j] * inverse - 1) * g : dz[j] * (inverse * g);
    return r;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

/* What the logits of a row look like. */
static uint16_t logit(const loss_case *k, size_t row, size_t j, float x) {
    half_format f = format_of(k->type);
    size_t at = (row * 7 + 3) % k->V;
    switch (row % KINDS) {
    case 1: return round_one(16 * x, k->type);
    case 2: return j == at ? f.nan : round_one(x, k->type);
    case 3: return j == at ? f.infinity : round_one(x, k->type);
    case 4: return 0x8000 | f.infinity;
    case 5: return j % 3 ? 0x8000 | f.infinity : round_one(x, k->type);
    case 6: return j == at ? round_one((float)f.largest, k->type) : round_one(x, k->type);
    case 7: return round_one(-(float)f.largest, k->type);
    case 8: return j % 2 ? 0x8000 : j % 3 ? 0 : 0x8001;
    case 9: return round_one(0x1p23f * x, k->type);
    default: return round_one(x, k->type);
    }
}

static void near_double(const float *z, size_t n, size_t target, float g, float loss, const float *dz) {
    double m = -HUGE_VAL, l = 0;
    for (size_t j = 0; j < n; j++) m = (double)z[j] > m ? (double)z[j] : m;
    for (size_t j = 0; j < n; j++) l += exp((double)z[j] - m);
    double want = log(l) - ((double)z[target] - m);
    if (!(fabs((double)loss - want) < 1e-5 * (1 + fabs(want))))
        fail_msg("loss %.9g of %zu logits, should be near %.9g", (double)loss, n, want);
    for (size_t j = 0; j < n; j++) {
        want = (exp((double)z[j] - m) / l - (j == target)) * (double)g;
        if (!(fabs((double)dz[j] - want) < 1e-5 * (double)g))
            fail_msg("gradient %.9g of logit %zu of %zu, should be near %.9g", (double)dz[j], j, n, want);
    }
}

/* The passes of workers with some slices each; ref has what `loss_rows` would give. */
static void shared_passes(const loss_case *k, ls_loss_call c, twin m, twin l, twin z_target, twin sums) {
    twin part[WORKERS][2];
    const float *maxima[WORKERS], *targets[WORKERS];
    const void *all[SLICES_MAX];
    ls_loss_call own[WORKERS];
    size_t rows = k->rows;
    for (int w = 0; w < k->workers; w++) {
        size_t begin = k->slices * (size_t)w / (size_t)k->workers,
               end = k->slices * (size_t)(w + 1) / (size_t)k->workers;
        for (int i = 0; i < 2; i++) part[w][i] = make(rows);
        own[w] = c;
        own[w].bounds = k->bounds + begin, own[w].slices = end - begin;
        own[w].sums = sums.dev + begin * rows;
        own[w].m = part[w][0].dev, own[w].z_target = part[w][1].dev;
        maxima[w] = own[w].m, targets[w] = own[w].z_target;
        ok(ops->loss_max(device, &own[w]));
    }
    ok(ops->max(device, &(ls_max_call){m.dev, maxima, k->workers, rows}));
    ok(ops->max(device, &(ls_max_call){z_target.dev, targets, k->workers, rows}));
    for (int w = 0; w < k->workers; w++) {
        own[w].m = m.dev;
        ok(ops->loss_sums(device, &own[w]));
    }
    for (size_t i = 0; i < k->slices; i++) all[i] = sums.dev + i * rows;
    ok(ops->tree_sum(device, &(ls_tree_sum_call){l.dev, all, LS_F32, (int)k->slices, rows}));
    for (int w = 0; w < k->workers; w++) {
        own[w].l = l.dev, own[w].z_target = z_target.dev;
        ok(ops->loss_values(device, &own[w]));
        ok(ops->loss_grad(device, &own[w]));
        for (int i = 0; i < 2; i++) /* seen in the maxima */
            ok(ls_device_copy_out(device, part[w][i].ref, part[w][i].dev, rows * sizeof(float)));
    }
}

static void check_case(const loss_case *k) {
    const float g = 0x1p-3f;
    size_t rows = k->rows, n = k->bounds[k->slices] - k->first, elems = k->shift + rows * k->stride;
    half z = {make((elems + 1) / 2), NULL, k->type}, dz = z;
    if (!k->same) dz.t = make((elems + 1) / 2);
    twin ids = make_ids(rows, k->V, k->workers > 0), m = make(rows), l = make(rows), loss = make(rows);
    twin z_target = {0}, sums = {0};
    if (k->workers) z_target = make(rows), sums = make(k->slices * rows);
    int32_t *id = (int32_t *)(void *)ids.ref;
    float *wide = scratch_of(k->V), *out = scratch_of(k->V);
    for (size_t r = 0; r < rows; r++) {
        uint16_t *row = halves_of(z.t.ref) + k->shift + r * k->stride + k->first;
        id[r] = r < REPEAT ? id[r] + ID_BEGIN + (int32_t)k->first : id[r - REPEAT];
        for (size_t j = 0; j < n; j++)
            row[j] = r < REPEAT ? logit(k, r, j, 4 * ls_rng_uniform_f32(ls_rng_key_make(5, 0, r), j) - 2)
                                : (row - REPEAT * k->stride)[j];
    }
    ok(ls_device_copy_in(device, z.t.dev, z.t.ref, (elems + 1) / 2 * sizeof(float)));
    ok(ls_device_copy_in(device, ids.dev, id, rows * sizeof *id));
    for (size_t r = 0; r < rows; r++) {
        size_t at = k->shift + r * k->stride + k->first, target = (size_t)(id[r] - ID_BEGIN) - k->first;
        if (r >= REPEAT) {
            size_t as = r - REPEAT;
            m.ref[r] = m.ref[as], l.ref[r] = l.ref[as], loss.ref[r] = loss.ref[as];
            memcpy(halves_of(dz.t.ref) + at, halves_of(dz.t.ref) + at - REPEAT * k->stride, n * sizeof(uint16_t));
            continue;
        }
        for (size_t j = 0; j < n; j++) wide[j] = widen_one(halves_of(z.t.ref)[at + j], k->type);
        loss_result want = reference_row(k, wide, target, g, out);
        float at_target = target < n ? wide[target] : -INFINITY;
        m.ref[r] = want.m, l.ref[r] = want.l, loss.ref[r] = portable.loss.value(at_target, want.m, want.l);
        if (k->workers) z_target.ref[r] = at_target;
        for (size_t s = 0; k->workers && s < k->slices; s++) sums.ref[s * rows + r] = want.sums[s];
        if (r % KINDS < 2 && target < n) near_double(wide, n, target, g, loss.ref[r], out);
        expect(dz, at, out, n);
    }
    ls_loss_call c = {.rows = rows,
                      .z = halves_of(z.t.dev) + k->shift,
                      .z_dtype = k->type,
                      .z_stride = k->stride,
                      .bounds = k->bounds,
                      .slices = k->slices,
                      .targets = ids_of(ids.dev),
                      .id_begin = ID_BEGIN,
                      .m = m.dev,
                      .l = l.dev,
                      .loss = loss.dev,
                      .dz = halves_of(dz.t.dev) + k->shift,
                      .dz_dtype = k->type,
                      .dz_stride = k->stride,
                      .g = g};
    if (k->workers) {
        shared_passes(k, c, m, l, z_target, sums);
        one_nan(z_target), one_nan(sums);
    } else {
        ok(ops->loss_rows(device, &c));
    }
    one_nan(m), one_nan(l), one_nan(loss);
    check_halves("loss of 16-bit logits", rows, k->V);
}

/* Slices as models with hgmma have them. `aligned`: every row and slice may begin with a pack. */
static loss_case case_of(size_t number, size_t rows, size_t V, size_t slices, bool aligned) {
    loss_case k = {.type = half_types[number % 2], .rows = rows, .V = V, .slices = slices};
    k.first = aligned ? number % 3 * 8 : number % 3;
    k.stride = aligned ? (k.first + V + 7) / 8 * 8 : k.first + V + 1 + number % 5;
    k.shift = aligned ? 0 : number % 4;
    k.same = number / 2 % 2;
    for (size_t i = 0; i <= slices; i++) {
        size_t at = V >= 64 * slices ? 64 * (i * ((V + 63) / 64) / slices) : i * V / slices;
        k.bounds[i] = k.first + (at < V ? at : V);
    }
    return k;
}

static const size_t slice_counts[] = {1, 2, 3, 8, 37};
enum { SLICE_COUNTS = sizeof slice_counts / sizeof *slice_counts };

static void all_small(void) {
    size_t number = 0;
    for (size_t V = 1; V <= 70; V++, number++) {
        loss_case k = case_of(number, KINDS, V, slice_counts[number % SLICE_COUNTS], number % 2);
        k.workers = (int)(number / 2 % 3);
        if (k.slices < (size_t)k.workers) k.workers = 1;
        check_case(&k);
    }
}

/* All ISAs of a CPU have the same kernels, so one of them is enough. */
static bool takes_part(void) {
    return strcmp(table.isa, "cuda") == 0 || (strcmp(table.isa, portable.isa) == 0 && thread_count == 3);
}

static void all_medium(void) {
    static const size_t sizes[] = {520, 1003, 4096, 4101, 9001};
    if (!takes_part()) return;
    for (size_t i = 0, number = 0; i < 5; i++)
        for (int workers = 0; workers <= WORKERS; workers++, number++) {
            loss_case k =
                case_of(number / 2 + i, workers ? 3 : 2 * KINDS, sizes[i], slice_counts[1 + number % 4], i != 1);
            k.workers = workers;
            check_case(&k);
        }
}

/* Vocabularies of models: rows that fill shared memory, and that do not fit. */
static void all_large(void) {
    static const size_t sizes[] = {50257, 128256};
    if (!takes_part()) return;
    for (size_t i = 0; i < 2; i++)
        for (size_t slices = 1; slices <= 2; slices++) {
            loss_case k = case_of(i + slices, slices == 1 ? 2 : i == 0 ? 3 : 5, sizes[i], slices, true);
            check_case(&k);
        }
    /* More rows than a GPU has blocks at a time. */
    for (size_t type = 0; type < 2; type++) {
        loss_case many = case_of(type + 2, 300, 9001, 2, true);
        check_case(&many);
    }
    loss_case k = case_of(1, 2, sizes[0], 2, false);
    check_case(&k);
    k = case_of(2, 2, sizes[0], 2, true);
    k.workers = 2;
    check_case(&k);
}

ON_EVERY_DEVICE(small)
ON_EVERY_DEVICE(medium)
ON_EVERY_DEVICE(large)

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void all_refused(void) {
    uint16_t x = 0;
    const size_t bounds[2] = {0, 1};
    ls_loss_call c = {.rows = 1, .z = &x, .z_dtype = LS_BF16, .bounds = bounds, .slices = 1};
    c.dz = &x, c.dz_dtype = LS_F16;
    assert_int_equal(ops->loss_rows(device, &c), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "the gradient of bf16 logits in f16: it must have their type");
    assert_int_equal(ops->loss_grad(device, &c), LS_ERR_INPUT);
    c.z_dtype = LS_I64;
    assert_int_equal(ops->loss_max(device, &c), LS_ERR_INPUT);
    assert_int_equal(ops->loss_sums(device, &c), LS_ERR_INPUT);
}

ON_EVERY_DEVICE(refused)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_medium),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
