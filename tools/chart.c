/* chart.c: charts of the documents, by the drawer of the program. Reads JSON, writes an SVG:
 *
 *     chart OUT.svg < charts.json
 *
 *     {"charts": [{"title": "Speed-up over one worker", "x": {"name": "workers", "unit": "doubles", "log": true},
 *                  "y": {"name": "", "unit": "doubles", "log": true, "zero": false, "most": 16},
 *                  "curves": [{"name": "LeNet", "series": 0, "dots": true, "points": [[1, 1], [2, 1.9], [4, null]]}]}]}
 *
 * Charts stand one below the other. A curve without a name is not named; "series": null is a line to compare with;
 * "dashed", "faint", "dots" and "loose" are those of ls_curve. Units: number, whole, doubles, seconds, bytes, share. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/curves.h"
#include "report/svg.h"

enum { CHARTS_MAX = 8, CURVES_MAX = 32, MARGIN = 14, APART = 18 };

typedef struct sheet {
    ls_curves chart[CHARTS_MAX];
    ls_curve curve[CHARTS_MAX][CURVES_MAX];
    int count;
} sheet;

static _Noreturn void refuse(const char *why) {
    fprintf(stderr, "chart: %s\n", why);
    exit(1);
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static ls_axis_unit unit_of(const json_t *axis) {
    static const struct {
        const char *name;
        ls_axis_unit unit;
    } units[] = {{"number", LS_AXIS_NUMBER},   {"whole", LS_AXIS_WHOLE}, {"doubles", LS_AXIS_DOUBLES},
                 {"seconds", LS_AXIS_SECONDS}, {"bytes", LS_AXIS_BYTES}, {"share", LS_AXIS_SHARE}};
    const char *name = text_of(axis, "unit", "number");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, name) == 0) return units[i].unit;
    refuse("no such unit");
}

static bool is_set(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

static double number_of(const json_t *value) { return json_is_number(value) ? json_number_value(value) : (double)NAN; }

static ls_curve read_curve(const json_t *from) {
    const json_t *points = json_object_get(from, "points"), *series = json_object_get(from, "series");
    size_t count = json_array_size(points);
    ls_curve_point *place = calloc(count ? count : 1, sizeof *place);
    if (!place) refuse("out of memory");
    for (size_t i = 0; i < count; i++) {
        const json_t *at = json_array_get(points, i);
        place[i] = (ls_curve_point){number_of(json_array_get(at, 0)), number_of(json_array_get(at, 1))};
    }
    return (ls_curve){.name = text_of(from, "name", NULL),
                      .series = json_is_integer(series) ? (int)json_integer_value(series) : LS_CURVE_GUIDE,
                      .faint = is_set(from, "faint"),
                      .dots = is_set(from, "dots"),
                      .dashed = is_set(from, "dashed"),
                      .loose = is_set(from, "loose"),
                      .points = place,
                      .count = count};
}

static void read_chart(const json_t *from, ls_curves *chart, ls_curve *curve) {
    const json_t *x = json_object_get(from, "x"), *y = json_object_get(from, "y"),
                 *curves = json_object_get(from, "curves");
    if (json_array_size(curves) > CURVES_MAX) refuse("too many curves");
    *chart = (ls_curves){.title = text_of(from, "title", ""),
                         .x_name = text_of(x, "name", ""),
                         .y_name = text_of(y, "name", ""),
                         .x_unit = unit_of(x),
                         .y_unit = unit_of(y),
                         .x_log = is_set(x, "log"),
                         .y_log = is_set(y, "log"),
                         .from_zero = is_set(y, "zero"),
                         .y_most = json_number_value(json_object_get(y, "most")),
                         .curve = curve,
                         .count = (int)json_array_size(curves)};
    for (int i = 0; i < chart->count; i++) curve[i] = read_curve(json_array_get(curves, (size_t)i));
}

static void draw(const void *ctx, FILE *out) {
    const sheet *s = ctx;
    int top = MARGIN, height = MARGIN;
    for (int i = 0; i < s->count; i++) height += ls_curves_draw(NULL, LS_SVG_WIDE, &s->chart[i]) + APART;
    ls_svg_begin(out, LS_SVG_WIDE + 2 * MARGIN, height);
    for (int i = 0; i < s->count; i++) {
        fprintf(out, "<g transform=\"translate(%d %d)\">\n", MARGIN, top);
        top += ls_curves_draw(out, LS_SVG_WIDE, &s->chart[i]) + APART;
        fputs("</g>\n", out);
    }
    ls_svg_end(out);
}

int main(int argc, char **argv) {
    static sheet s;
    json_error_t error;
    if (argc != 2) refuse("usage: chart OUT.svg < charts.json");
    json_t *given = json_loadf(stdin, 0, &error);
    const json_t *charts = json_object_get(given, "charts");
    size_t count = json_array_size(charts);
    if (!given) refuse(error.text);
    if (count < 1 || count > CHARTS_MAX) refuse("1 to 8 charts are drawn");
    s.count = (int)count;
    for (int i = 0; i < s.count; i++) read_chart(json_array_get(charts, (size_t)i), &s.chart[i], s.curve[i]);
    if (ls_svg_write(argv[1], draw, &s) != LS_OK) refuse(ls_status_message());
    for (int i = 0; i < s.count; i++)
        for (int k = 0; k < s.chart[i].count; k++) free((void *)(uintptr_t)s.curve[i][k].points);
    json_decref(given);
    return 0;
}
