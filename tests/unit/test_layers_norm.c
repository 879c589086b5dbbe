/* test_layers_norm.c: the norms of every ISA against the contract, to the bit: shapes, strides, guard areas, in place,
 * cuts among threads, extreme values; and against double for accuracy. */
#include "layers.h"

#include "device/cpu/kernels.h"

#define EPS 1e-5f

/* What one call needs; mean and rstd are grids of one row. */
typedef struct norm_case {
    grid x, dy, w, b, mean, rstd, y, dx, dw, db;
} norm_case;

static norm_case case_make(size_t rows, size_t C, size_t gap, kind of) {
    return (norm_case){
        .x = grid_make(rows, C, gap, 1, of),
        .dy = grid_make(rows, C, gap ? gap + 2 : 0, 2, of),
        .w = grid_make(1, C, 0, 3, of),
        .b = grid_make(1, C, 0, 4, of),
        .mean = grid_make(1, rows, 0, 5, PLAIN),
        .rstd = grid_make(1, rows, 0, 6, PLAIN),
        .y = grid_make(rows, C, gap, 7, PLAIN),
        .dx = grid_make(rows, C, gap ? gap + 2 : 0, 8, PLAIN),
        .dw = grid_make(1, C, 0, 9, PLAIN),
        .db = grid_make(1, C, 0, 10, PLAIN),
    };
}

static norm_case case_copy(const norm_case *c) {
    norm_case out;
    const grid *from = &c->x;
    grid *to = &out.x;
    for (size_t i = 0; i < sizeof *c / sizeof(grid); i++) to[i] = grid_copy(&from[i]);
    return out;
}

static void case_free(norm_case *c) {
    grid *g = &c->x;
    for (size_t i = 0; i < sizeof *c / sizeof(grid); i++) grid_free(&g[i]);
}

static void check_case(const norm_case *got, const norm_case *expected, const char *what) {
    const grid *a = &got->x, *b = &expected->x;
    static const char *const names[] = {"x", "dy", "w", "b", "mean", "rstd", "y", "dx", "dw", "db"};
    for (size_t i = 0; i < sizeof *got / sizeof(grid); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s %s", what, names[i]);
        check_grid(&a[i], &b[i], text);
    }
}

/* Forward, backward and parameter gradients by the contract. */
static void expect(norm_case *c, int rms) {
    for (size_t r = 0; r < c->x.rows; r++) {
        const float *x = row_of(&c->x, r), *dy = row_of(&c->dy, r);
        float *mean = rms ? NULL : &c->mean.at[r], *rstd = &c->rstd.at[r];
        if (rms)
            contract_rms_forward(row_of(&c->y, r), rstd, x, c->w.at, EPS, c->x.C);
        else
            contract_layer_forward(row_of(&c->y, r), mean, rstd, x, c->w.at, c->b.at, EPS, c->x.C);
        contract_norm_backward(row_of(&c->dx, r), dy, x, c->w.at, mean, *rstd, c->x.C);
        for (size_t i = 0; i < c->x.C; i++) {
            c->dw.at[i] = fmaf(dy[i], contract_hat(x[i], mean, *rstd), c->dw.at[i]);
            if (!rms) c->db.at[i] = c->db.at[i] + dy[i];
        }
    }
}

/* Rows [r, r + n), columns [begin, end). */
static ls_norm_call call_of(norm_case *c, int rms, size_t r, size_t n, size_t begin, size_t end) {
    return (ls_norm_call){.rms = rms,
                          .rows = n,
                          .C = end - begin,
                          .eps = EPS,
                          .x = row_of(&c->x, r) + begin,
                          .x_stride = c->x.stride,
                          .w = c->w.at + begin,
                          .b = rms ? NULL : c->b.at + begin,
                          .y = row_of(&c->y, r) + begin,
                          .y_stride = c->y.stride,
                          .mean = rms ? NULL : c->mean.at + r,
                          .rstd = c->rstd.at + r,
                          .dy = row_of(&c->dy, r) + begin,
                          .dy_stride = c->dy.stride,
                          .dx = row_of(&c->dx, r) + begin,
                          .dx_stride = c->dx.stride,
                          .dw = c->dw.at + begin,
                          .db = rms ? NULL : c->db.at + begin};
}

static void call_rows(const ls_norm_kernels *k, norm_case *c, int rms, size_t r, size_t n) {
    ls_norm_call call = call_of(c, rms, r, n, 0, c->x.C);
    k->forward(&call);
    k->backward(&call);
}

static void call_columns(const ls_norm_kernels *k, norm_case *c, int rms, size_t begin, size_t end) {
    ls_norm_call call = call_of(c, rms, 0, c->x.rows, begin, end);
    k->params(&call);
}

static void check_cuts(const ls_norm_kernels *k, const norm_case *start, const norm_case *expected, int rms,
                       size_t n_parts) {
    size_t cuts[MOST_PARTS + 1];
    norm_case c = case_copy(start);
    make_cuts(cuts, n_parts, c.x.rows, n_parts);
    for (size_t p = 0; p < n_parts; p++) call_rows(k, &c, rms, cuts[p], cuts[p + 1] - cuts[p]);
    make_cuts(cuts, n_parts, c.x.C, n_parts + 100);
    for (size_t p = 0; p < n_parts; p++) call_columns(k, &c, rms, cuts[p], cuts[p + 1]);
    check_case(&c, expected, rms ? "rms norm" : "layer norm");
    case_free(&c);
}

static void check_shape(const ls_norm_kernels *k, size_t rows, size_t C, size_t gap, kind of) {
    for (int rms = 0; rms < 2; rms++) {
        norm_case start = case_make(rows, C, gap, of), expected = case_copy(&start);
        expect(&expected, rms);
        /* One number of threads for each large shape, all of them for small ones. */
        for (size_t p = 0; p < N_PARTS; p++)
            if (rows * C < 5000 || p == (rows + C) % N_PARTS) check_cuts(k, &start, &expected, rms, parts[p]);
        case_free(&start);
        case_free(&expected);
    }
}

static void check_in_place(const ls_norm_kernels *k) {
    for (int rms = 0; rms < 2; rms++) {
        norm_case start = case_make(5, 100, 0, PLAIN), expected = case_copy(&start);
        expect(&expected, rms);
        norm_case c = case_copy(&start), into_dy = case_copy(&start);
        float *mean = into_dy.mean.at, *rstd = into_dy.rstd.at, *dy = into_dy.dy.at, *x = into_dy.x.at;
        grid_set(&c.y, &start.x);
        if (rms) {
            k->forward(&(ls_norm_call){.rms = true,
                                       .y = c.y.at,
                                       .y_stride = 100,
                                       .rstd = c.rstd.at,
                                       .x = c.y.at,
                                       .x_stride = 100,
                                       .w = c.w.at,
                                       .eps = EPS,
                                       .rows = 5,
                                       .C = 100});
            memcpy(rstd, c.rstd.at, 5 * sizeof *rstd);
            k->backward(&(ls_norm_call){.rms = true,
                                        .dx = dy,
                                        .dx_stride = 100,
                                        .dy = dy,
                                        .dy_stride = 100,
                                        .x = x,
                                        .x_stride = 100,
                                        .w = c.w.at,
                                        .rstd = rstd,
                                        .rows = 5,
                                        .C = 100});
        } else {
            k->forward(&(ls_norm_call){.y = c.y.at,
                                       .y_stride = 100,
                                       .mean = c.mean.at,
                                       .rstd = c.rstd.at,
                                       .x = c.y.at,
                                       .x_stride = 100,
                                       .w = c.w.at,
                                       .b = c.b.at,
                                       .eps = EPS,
                                       .rows = 5,
                                       .C = 100});
            memcpy(rstd, c.rstd.at, 5 * sizeof *rstd);
            memcpy(mean, c.mean.at, 5 * sizeof *mean);
            k->backward(&(ls_norm_call){.dx = dy,
                                        .dx_stride = 100,
                                        .dy = dy,
                                        .dy_stride = 100,
                                        .x = x,
                                        .x_stride = 100,
                                        .w = c.w.at,
                                        .mean = mean,
                                        .rstd = rstd,
                                        .rows = 5,
                                        .C = 100});
        }
        check_same(c.y.at, expected.y.at, 500, "y in place of x");
        check_same(dy, expected.dx.at, 500, "dx in place of dy");
        case_free(&start);
        case_free(&expected);
        case_free(&c);
        case_free(&into_dy);
    }
}

/* Rows whose sums are infinite, whose variance is 0, which hold a NaN, or only subnormal numbers. */
static void check_extreme_rows(const ls_norm_kernels *k) {
    enum { ROWS = 7, C = 37 };
    for (int rms = 0; rms < 2; rms++) {
        norm_case start = case_make(ROWS, C, 3, PLAIN);
        for (size_t i = 0; i < C; i++) {
            row_of(&start.x, 0)[i] = 3e38f;
            row_of(&start.x, 1)[i] = 0.0f;
            row_of(&start.x, 2)[i] = -0.0f;
            row_of(&start.x, 3)[i] = 7.25f;
            row_of(&start.x, 4)[i] *= 1e-40f;
            row_of(&start.dy, 1)[i] = 3e38f;
        }
        row_of(&start.x, 5)[36] = INFINITY;
        row_of(&start.x, 6)[35] = NAN;
        norm_case expected = case_copy(&start);
        expect(&expected, rms);
        for (size_t p = 0; p < N_PARTS; p++) check_cuts(k, &start, &expected, rms, parts[p]);
        case_free(&start);
        case_free(&expected);
    }
}

/* The mean is so large that a lane which is not there would overflow, and the variance is 0. */
static void check_large_mean(const ls_norm_kernels *k) {
    norm_case start = case_make(1, 1, 0, PLAIN);
    start.x.at[0] = 3e38f;
    norm_case expected = case_copy(&start);
    expect(&expected, 0);
    assert_true(expected.dx.at[0] == 0.0f);
    check_cuts(k, &start, &expected, 0, 1);
    case_free(&start);
    case_free(&expected);
}

static void check_all(const ls_norm_kernels *k) {
    for (size_t i = 0; i < N_SIZES; i++)
        for (size_t j = 0; j < N_SIZES; j++) {
            if (sizes[i] * sizes[j] > 200000) continue;
            check_shape(k, sizes[i], sizes[j], (i + j) % 3, PLAIN);
            if (sizes[i] <= 33) check_shape(k, sizes[i], sizes[j], 5, WILD);
        }
    check_in_place(k);
    check_extreme_rows(k);
    check_large_mean(k);
}

static void test_every_isa(void **state) {
    (void)state;
    CHECK_EVERY_ISA(norm, check_all);
}

/* Values go up to 12, where a unit in the last place is 8·2^−23. */
static void check_accuracy(const ls_norm_kernels *k) {
    enum { ROWS = 9, C = 768 };
    norm_case c = case_make(ROWS, C, 1, PLAIN);
    call_rows(k, &c, 0, 0, ROWS);
    for (size_t r = 0; r < ROWS; r++) {
        const float *x = row_of(&c.x, r);
        double mean = 0, var = 0;
        for (size_t i = 0; i < C; i++) mean += (double)x[i] / C;
        for (size_t i = 0; i < C; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean) / C;
        for (size_t i = 0; i < C; i++) {
            double y = ((double)x[i] - mean) / sqrt(var + (double)EPS) * (double)c.w.at[i] + (double)c.b.at[i];
            assert_true(fabs(y - (double)row_of(&c.y, r)[i]) < 16 * 0x1p-23);
        }
    }
    case_free(&c);
}

static void test_accuracy(void **state) {
    (void)state;
    CHECK_EVERY_ISA(norm, check_accuracy);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_isa), cmocka_unit_test(test_accuracy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
