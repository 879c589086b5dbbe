/* charts.h: charts that are SVG files of their own (those of a page: page.h), readable on light and dark pages. The
 * commands timeline and verify --order write them. Nothing is returned: the caller checks `out` for write errors. */
#ifndef LS_REPORT_CHARTS_H
#define LS_REPORT_CHARTS_H

#include <stdint.h>
#include <stdio.h>

#include "observe/timeline.h"

/* A curve over steps, on a logarithmic scale. All pointers are borrowed. */
typedef struct ls_chart_line {
    const char *name;
    const char *colour; /* "#2a7" */
    double width;       /* of the pen */
    const double *y;    /* [points] ≥ 0, of steps 1 …; what is not finite leaves a gap */
} ls_chart_line;

typedef struct ls_chart {
    const char *title;
    const char *y_label;
    int64_t points; /* steps 1 … points */
    int lines;
    const ls_chart_line *line;
} ls_chart;

/* Writes an SVG file with `count` charts, one below the other. Zeros are on a line of their own below the logarithmic
 * scale. If several steps fall on one pixel, their largest value is drawn. */
void ls_chart_svg(const ls_chart *charts, int count, FILE *out);

/* Writes an SVG file with one step: a predicted lane for each stage of the first pipeline, if there is a prediction,
 * then a measured lane for each worker, and lanes for the queues of its GPU. `title` is plain text. */
void ls_timeline_svg(const ls_timeline *timeline, const char *title, FILE *out);

#endif
