/* charts.h: charts that are SVG files of their own (not parts of a page, see page.h), readable on light and dark pages.
 * Nothing is returned: the caller checks `out` for write errors. */
#ifndef LS_REPORT_CHARTS_H
#define LS_REPORT_CHARTS_H

#include <stdint.h>
#include <stdio.h>

#include "observe/timeline.h"

/* Curves over steps on a logarithmic scale. */
typedef struct ls_chart_line {
    const char *name;
    const char *colour; /* "#2a7" */
    double width;       /* of the pen */
    const double *y;    /* [points] ≥ 0; what is not finite leaves a gap */
} ls_chart_line;

typedef struct ls_chart {
    const char *title;
    const char *y_label;
    int64_t points; /* steps 1 … points */
    int lines;
    const ls_chart_line *line;
} ls_chart;

/* Draws the charts one below the other. Zeros are on a line of their own below the scale. If several steps fall on one
 * pixel, their largest value is drawn. */
void ls_chart_svg(const ls_chart *charts, int count, FILE *out);

/* Draws the predicted lanes of the first pipeline, then a measured lane for each worker. `title` is plain text. */
void ls_timeline_svg(const ls_timeline *timeline, const char *title, FILE *out);

#endif
