/* order_chart.h: draws the result of `lockstep verify --order`, which shows how the order of sums changes the loss. */
#ifndef LS_REPORT_ORDER_CHART_H
#define LS_REPORT_ORDER_CHART_H

#include "lab/verify/sum_order.h"

/* Writes an SVG file: for every case |loss − loss of its base| over the steps. */
ls_status ls_order_draw(const ls_order_case *cases, int count, const char *path);

#endif
