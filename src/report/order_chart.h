/* order_chart.h: the drawing of `lockstep verify --order`. */
#ifndef LS_REPORT_ORDER_CHART_H
#define LS_REPORT_ORDER_CHART_H

#include "lab/verify/sum_order.h"

/* |loss − loss of the base| of every case, an SVG file. */
ls_status ls_order_draw(const ls_order_case *cases, int count, const char *path);

#endif
