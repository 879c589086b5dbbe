/* order_chart.h: draws the result of `lockstep verify --order`, which shows how the order of sums changes the loss. */
#ifndef LS_REPORT_ORDER_CHART_H
#define LS_REPORT_ORDER_CHART_H

#include "lab/verify/sum_order.h"

/* Writes an SVG file with |loss − loss of the first case| over the steps for every case, whole or not at all. */
ls_status ls_order_draw(const ls_order_case *cases, int count, const char *path);

#endif
