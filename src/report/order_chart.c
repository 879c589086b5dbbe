/* order_chart.c: draws how far losses are apart, a curve for each way (order) of adding. All numbers of workers of
 * lockstep itself share one curve, which is 0 everywhere. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "report/charts.h"
#include "report/order_chart.h"
#include "report/svg.h"

enum { NAME_MAX_BYTES = 64, TITLE_MAX = 128 };

/* One chart and what it borrows. */
typedef struct sheet {
    ls_chart chart;
    ls_chart_line line[LS_ORDER_WAYS_MAX];
    char name[LS_ORDER_WAYS_MAX][NAME_MAX_BYTES];
    char title[TITLE_MAX];
    double *values; /* [lines][steps] */
} sheet;

/* Returns a colour by kind, lighter for more workers. */
static const char *colour_of(const ls_order_way *way) {
    static const char *const ring[] = {"#0072b2", "#2b8fcb", "#56b4e9"}, *const ring16[] = {"#a8538a", "#bf6c9d",
                                                                                            "#cc79a7"};
    int shade = way->workers <= 2 ? 0 : way->workers <= 4 ? 1 : 2;
    switch (way->kind) {
    case LS_ORDER_RING: return ring[shade];
    case LS_ORDER_RING16: return ring16[shade];
    case LS_ORDER_ARRIVAL: return way->run == 1 ? "#d55e00" : "#c98a00";
    default: return "#009e73";
    }
}

/* Adds a line for this way to the chart and returns it; its values are the next row of s->values. */
static ls_chart_line *add_line(sheet *s, const ls_order_way *way) {
    int i = s->chart.lines++;
    s->line[i] = (ls_chart_line){.name = s->name[i],
                                 .colour = colour_of(way),
                                 .width = way->kind == LS_ORDER_LOCKSTEP ? 3 : 1.3,
                                 .y = s->values + (size_t)i * (size_t)s->chart.points};
    return &s->line[i];
}

/* Raises y[step] to the distance of the result's loss from that of its base, where it is larger; a NaN distance always
 * counts. */
static void add_distance(const ls_order_case *c, const ls_order_result *r, double *y) {
    const double *base = c->result[r->way.base].loss;
    for (int64_t k = 0; k < c->steps; k++) {
        double apart = fabs(r->loss[k] - base[k]);
        if (!(apart <= y[k])) y[k] = apart;
    }
}

/* Writes the name of a way's line. */
static void name_line(const ls_order_case *c, const ls_order_way *way, char name[NAME_MAX_BYTES]) {
    char one[24], base[24];
    ls_order_way_text(way, one, sizeof one);
    ls_order_way_text(&c->result[way->base].way, base, sizeof base);
    if (way->kind == LS_ORDER_LOCKSTEP)
        snprintf(name, NAME_MAX_BYTES, "lockstep, 2 to %d workers, against 1", c->result[c->ways - 1].way.workers);
    else if (way->kind == LS_ORDER_ARRIVAL)
        snprintf(name, NAME_MAX_BYTES, "%s, against %s", one, base);
    else
        snprintf(name, NAME_MAX_BYTES, "%s, against 1", one);
}

/* Makes the chart of a case. The caller frees s->values, also on failure. */
static ls_status fill_order_sheet(const ls_order_case *c, sheet *s) {
    double *own = NULL;
    s->chart =
        (ls_chart){.title = s->title, .y_label = "difference of the losses", .points = c->steps, .line = s->line};
    snprintf(s->title, sizeof s->title, "%.60s: the same gradients, summed in different orders", c->model);
    s->values = calloc((size_t)c->ways * (size_t)c->steps, sizeof *s->values);
    if (!s->values) return ls_fail(LS_ERR_RESOURCE, "out of memory for a drawing");
    for (int i = 0; i < c->ways; i++) {
        const ls_order_way *way = &c->result[i].way;
        double *y = s->values + (size_t)s->chart.lines * (size_t)c->steps;
        if (way->base == i) continue;
        if (way->kind == LS_ORDER_LOCKSTEP && own) {
            add_distance(c, &c->result[i], own);
            continue;
        }
        if (way->kind == LS_ORDER_LOCKSTEP) own = y;
        name_line(c, way, s->name[s->chart.lines]);
        add_line(s, way);
        add_distance(c, &c->result[i], y);
    }
    return LS_OK;
}

typedef struct sheets {
    sheet *sheet;
    int count;
} sheets;

/* Draws all charts. A callback of ls_svg_write(). */
static void draw_order_charts(const void *ctx, FILE *out) {
    const sheets *s = ctx;
    ls_chart charts[LS_ORDER_CASES_MAX];
    for (int i = 0; i < s->count; i++) charts[i] = s->sheet[i].chart;
    ls_chart_svg(charts, s->count, out);
}

ls_status ls_order_draw(const ls_order_case *cases, int count, const char *path) {
    ls_status status;
    assert(count >= 1 && count <= LS_ORDER_CASES_MAX);
    sheets s = {calloc((size_t)count, sizeof *s.sheet), count};
    if (!s.sheet) return ls_fail(LS_ERR_RESOURCE, "out of memory for a drawing");
    for (int i = 0; i < count; i++) LS_TRY_OUT(fill_order_sheet(&cases[i], &s.sheet[i]));
    status = ls_svg_write(path, draw_order_charts, &s);
out:
    for (int i = 0; i < count; i++) free(s.sheet[i].values);
    free(s.sheet);
    return status;
}
