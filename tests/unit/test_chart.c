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

#include "report/axis.h"
#include "report/charts.h"
#include "report/curves.h"

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

/* ---- scales ------------------------------------------------------------------------------------------------------ */

static void assert_ticks(double first, double last, bool is_log, ls_axis_unit unit, int most, const char *wanted) {
    ls_axis_tick ticks[LS_AXIS_TICKS_MAX];
    char text[512] = "";
    int count = ls_axis_ticks(first, last, is_log, unit, most, ticks);
    for (int i = 0; i < count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, ticks[i].text);
        assert_true(ticks[i].value >= first - 1e-9 * fabs(last) && ticks[i].value <= last * (1 + 1e-9) + 1e-12);
    }
    assert_string_equal(text, wanted);
}

static void test_ticks(void **state) {
    (void)state;
    assert_ticks(0, 10, false, LS_AXIS_NUMBER, 5, "0 2 4 6 8 10");
    assert_ticks(-0.02, .23, false, LS_AXIS_NUMBER, 5, "0.00 0.05 0.10 0.15 0.20");
    assert_ticks(0, 1000000, false, LS_AXIS_NUMBER, 4, "0 500k 1.0M");
    assert_ticks(0, 7200, false, LS_AXIS_SECONDS, 4, "0.0 0.5 1.0 1.5 2.0");
    assert_ticks(0, .95, false, LS_AXIS_SHARE, 5, "0 20 40 60 80");
    assert_ticks(1, 1000, true, LS_AXIS_NUMBER, 5, "1 10 100 1000");
    assert_ticks(1.5, 8, true, LS_AXIS_NUMBER, 5, "1.5 2 3 4 5 7");
    assert_ticks(1, 80, true, LS_AXIS_NUMBER, 5, "1 2 5 10 20 50");
    assert_ticks(1, 16, true, LS_AXIS_DOUBLES, 6, "1 2 4 8 16");
    assert_ticks(.4, 5, true, LS_AXIS_DOUBLES, 6, "0.5 1 2 4");
    assert_ticks(1, 1024, true, LS_AXIS_DOUBLES, 6, "1 4 16 64 256 1024");
    assert_ticks(0, 2e-7, false, LS_AXIS_NUMBER, 3, "0 1e-07 2e-07");
    assert_ticks(3.1, 3.9, true, LS_AXIS_NUMBER, 4, "3.2 3.4 3.6 3.8");
    assert_ticks(0, 0, false, LS_AXIS_NUMBER, 5, "");
    assert_ticks(0, (double)INFINITY, false, LS_AXIS_NUMBER, 5, "");
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* The one low and the one high value of a million stay; so does a gap that fills a column. */
static void test_thin(void **state) {
    (void)state;
    enum { MANY = 1000000, COLUMNS = 500 };
    ls_curve_point *p = malloc(MANY * sizeof *p);
    double least = 1, most = 1;
    int gaps = 0;
    assert_non_null(p);
    for (int i = 0; i < MANY; i++) p[i] = (ls_curve_point){i, 1};
    p[123456].y = -7;
    p[654321].y = 9;
    for (int i = 300000; i < 310000; i++) p[i].y = (double)NAN;
    size_t left = ls_curves_thin(p, MANY, COLUMNS);
    assert_in_range(left, COLUMNS, 2 * COLUMNS);
    for (size_t i = 0; i < left; i++) {
        if (i > 0) assert_true(p[i].x > p[i - 1].x);
        gaps += isnan(p[i].y);
        if (p[i].y < least) least = p[i].y;
        if (p[i].y > most) most = p[i].y;
    }
    assert_true(least == -7 && most == 9 && gaps == 5);
    assert_int_equal(ls_curves_thin(p, 10, 5), 10);
    free(p);
}

/* Each width has the whole chart inside it, whatever the values are. */
static void test_curves(void **state) {
    (void)state;
    const ls_curve_point usual[] = {{1, 4}, {2, 3}, {3, (double)NAN}, {4, 2.5}}, one[] = {{3, 1e-30}},
                         wild[] = {{1, (double)INFINITY}, {2, -1e300}, {3, 0}};
    const ls_curve curves[] = {{.name = "training <b>", .series = 0, .points = usual, .count = 4},
                               {.name = "one", .series = 1, .points = one, .count = 1},
                               {.name = NULL, .series = 9, .faint = true, .points = wild, .count = 3},
                               {.name = "none", .series = 3}};
    const ls_curve_mark marks[] = {{2, 'a', "an <event>"}, {99, 'b', NULL}};
    for (int kind = 0; kind < 8; kind++)
        for (int width = LS_SVG_NARROW; width <= LS_SVG_WIDE; width += LS_SVG_WIDE - LS_SVG_NARROW) {
            ls_curves c = {.title = "loss",
                           .x_name = "step",
                           .y_name = "nats",
                           .curve = curves,
                           .count = kind & 1 ? 4 : 2,
                           .x_log = kind & 2,
                           .y_log = kind & 4,
                           .marks = marks,
                           .mark_count = 2};
            char *text = NULL;
            size_t bytes = 0;
            FILE *out = open_memstream(&text, &bytes);
            assert_non_null(out);
            int height = ls_curves_draw(out, width, &c);
            assert_int_equal(fclose(out), 0);
            assert_in_range(height, 200, 400);
            assert_null(strstr(text, "nan"));
            assert_null(strstr(text, "inf"));
            assert_null(strstr(text, "<b>"));
            assert_non_null(strstr(text, "an &lt;event&gt;"));
            double x;
            for (const char *at = text; (at = strstr(at, "x=\"")); at++)
                if (sscanf(at, "x=\"%lf", &x) == 1 && at[-1] == ' ') assert_true(x >= 0 && x <= width);
            assert_int_equal(ls_curves_draw(NULL, width, &c), height);
            free(text);
        }
}

/* The ends of a text at most: as large letters as any font has. */
static void assert_is_inside(const char *text, double width) {
    double x;
    char look[16], words[64];
    assert_int_equal(sscanf(text, "<text x=\"%lf\" y=\"%*f\" class=\"%15[^\"]\">%63[^<]", &x, look, words), 3);
    double wide = ls_svg_text_width(words), first = *look == 'c' ? x - wide / 2 : *look == 'e' ? x - wide : x;
    if (first + wide > width + 1e-9) fail_msg("'%s' ends at %g of %g", words, first + wide, width);
}

/* The number at the right end of a scale is whole, however long it is: "2500" was "250(". */
static void test_last_numbers_are_whole(void **state) {
    (void)state;
    static const double ends[] = {20, 300, 2500, 5000, 12500, 250000, 1e7, 2.5e-5};
    for (int width = LS_SVG_NARROW; width <= LS_SVG_WIDE; width += LS_SVG_WIDE - LS_SVG_NARROW)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            const ls_curve_point points[] = {{0, 1}, {ends[i], 2}};
            const ls_curve curve = {.name = "a", .points = points, .count = 2};
            ls_curves c = {.title = "t", .x_name = "x", .y_name = "y", .curve = &curve, .count = 1};
            char *text = NULL;
            size_t bytes = 0;
            int numbers = 0;
            FILE *out = open_memstream(&text, &bytes);
            assert_non_null(out);
            (void)ls_curves_draw(out, width, &c);
            assert_int_equal(fclose(out), 0);
            for (const char *at = text; (at = strstr(at, "<text ")); at++, numbers++) assert_is_inside(at, width);
            assert_true(numbers > 6);
            free(text);
        }
}

static char *draw_curves(const ls_curve *curve, int count, double most) {
    ls_curves c = {.title = "t", .x_name = "x", .y_name = "y", .curve = curve, .count = count, .y_most = most};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    (void)ls_curves_draw(out, LS_SVG_WIDE, &c);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Lines to compare with, predictions, dots alone; values above a limit; names that are too long for their place. */
static void test_kinds_of_curves(void **state) {
    (void)state;
    const ls_curve_point points[] = {{1, 1}, {2, 3}, {3, 1000}};
    const ls_curve curves[] = {{.name = "guide", .series = LS_CURVE_GUIDE, .points = points, .count = 2},
                               {.name = "dashed", .series = 1, .dashed = true, .points = points, .count = 2},
                               {.name = "loose", .series = 2, .loose = true, .points = points, .count = 3},
                               {.name = "a name that is much too long for what is beside a chart, b",
                                .series = 3,
                                .points = points,
                                .count = 2}};
    char *text = draw_curves(curves, 4, 10);
    assert_non_null(strstr(text, "<path class=\"l3\" d=\"M"));
    assert_non_null(strstr(text, "<path class=\"s1 d\" d=\"M"));
    const char *dot = strstr(text, "class=\"s2\"/>");
    assert_non_null(dot);
    assert_non_null(dot = strstr(dot + 1, "class=\"s2\"/>"));
    assert_null(strstr(dot + 1, "class=\"s2\"/>")); /* the third is above the limit */
    assert_null(strstr(text, "beside a chart"));
    assert_non_null(strstr(text, "…</text>"));
    free(text);
    /* Names that would look the same are not cut, but stand above the plot. */
    ls_curve alike[2] = {curves[3], curves[3]};
    alike[1].name = "a name that is much too long for what is beside a chart, c";
    text = draw_curves(alike, 2, 0);
    assert_non_null(strstr(text, "a chart, b<"));
    assert_non_null(strstr(text, "a chart, c<"));
    free(text);
}

/* The live page's tip has the values themselves, of all curves but those behind a smoothed one; other pages have none.
 */
static void test_values(void **state) {
    (void)state;
    const ls_curve_point a[] = {{1, 2.1234567}, {2, (double)NAN}, {198, 1e-7}}, b[] = {{1, 1}, {2, 2}};
    const ls_curve curve[] = {{.name = "a<b", .points = a, .count = 3},
                              {.series = 1, .faint = true, .points = b, .count = 2}};
    static const char group[] = "<g data-name=\"a&lt;b\" data-points=\"1 2.123457 198 1e-07\">";
    for (int wide = 0; wide < 2; wide++)
        for (int asked = 0; asked < 2; asked++) {
            ls_curves c = {
                .title = "t", .x_name = "step", .y_name = "", .curve = curve, .count = 2, .has_values = asked};
            char *text = NULL;
            size_t bytes = 0;
            FILE *out = open_memstream(&text, &bytes);
            assert_non_null(out);
            (void)ls_curves_draw(out, wide ? LS_SVG_WIDE : LS_SVG_NARROW, &c);
            assert_int_equal(fclose(out), 0);
            const char *first = strstr(text, "data-points");
            assert_true((strstr(text, group) != NULL) == (wide && asked));
            assert_true(!first == !(wide && asked) && (!first || !strstr(first + 1, "data-points")));
            free(text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scale),
                                       cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_ticks),
                                       cmocka_unit_test(test_thin),
                                       cmocka_unit_test(test_curves),
                                       cmocka_unit_test(test_kinds_of_curves),
                                       cmocka_unit_test(test_last_numbers_are_whole),
                                       cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
