/* test_chart.c: where a chart puts its curves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/charts.h"

static char *draw(const ls_chart *charts, int count) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    ls_chart_svg(charts, count, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "</svg>"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    return text;
}

/* The corners of a curve: x, y, x, y … Returns how many numbers there are. */
static int corners(const char *text, const char *colour, double *out, int most) {
    char look[32];
    int n = 0;
    snprintf(look, sizeof look, "fill=\"none\" stroke=\"%s\"", colour);
    const char *at = strstr(text, look);
    assert_non_null(at);
    at = strstr(at, " d=\"") + 4;
    while (*at != '"' && n < most) {
        char *end;
        out[n] = strtod(at, &end);
        if (end == at) {
            at++;
            continue;
        }
        n++;
        at = end;
    }
    return n;
}

static void test_scale(void **state) {
    (void)state;
    const double rising[] = {1e-8, 1e-7, 1e-6, 1e-4}, zero[] = {0, 0, 0, 0},
                 broken[] = {0, (double)NAN, (double)INFINITY, 1e-4};
    const ls_chart_line lines[] = {{.name = "a < b & c", .colour = "#111", .width = 1, .y = rising},
                                   {.name = "zero", .colour = "#222", .width = 3, .y = zero},
                                   {.name = "gaps", .colour = "#333", .width = 1, .y = broken}};
    const ls_chart chart = {.title = "t", .y_label = "y", .points = 4, .lines = 3, .line = lines};
    double a[16], z[16], g[16];
    char *text = draw(&chart, 1);
    assert_int_equal(corners(text, "#111", a, 16), 8);
    assert_int_equal(corners(text, "#222", z, 16), 8);
    assert_int_equal(corners(text, "#333", g, 16), 4);
    assert_non_null(strstr(text, "a &lt; b &amp; c"));
    /* Equal steps to the right; up by decades, of which the last step has two; zeros in one line below all of it. */
    assert_true(fabs((a[2] - a[0]) - (a[6] - a[4])) < 0.2 && a[2] > a[0]);
    assert_true(fabs((a[1] - a[3]) * 2 - (a[5] - a[7])) < 0.3 && a[1] > a[3]);
    assert_true(z[1] == z[3] && z[1] == z[7] && z[1] > a[1] + 5);
    assert_true(g[0] == a[0] && g[1] == z[1] && g[2] == a[6] && g[3] == a[7]);
    free(text);
}

/* Nothing but zeros, a single step, more steps than a screen has columns; two charts. */
static void test_extremes(void **state) {
    (void)state;
    enum { MANY = 100000 };
    double *many = calloc(MANY, sizeof *many), *found = malloc(4000 * sizeof *found);
    assert_true(many && found);
    many[77777] = 1e300;
    many[5] = 1e-300;
    const ls_chart_line line = {.name = "x", .colour = "#111", .width = 1, .y = many};
    const ls_chart charts[] = {{.title = "many", .y_label = "y", .points = MANY, .lines = 1, .line = &line},
                               {.title = "one", .y_label = "y", .points = 1, .lines = 1, .line = &line}};
    char *text = draw(charts, 2);
    int n = corners(text, "#111", found, 4000);
    double top = HUGE_VAL;
    assert_in_range(n, 400, 1200);
    for (int i = 1; i < n; i += 2) top = fmin(top, found[i]);
    assert_true(top < found[3] - 100); /* the one large value is there */
    free(text);
    text = draw(&charts[1], 1);
    free(text);
    free(many);
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scale), cmocka_unit_test(test_extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
