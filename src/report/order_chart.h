/* order_chart.h: draws the result of `lockstep verify --order`, which shows how the order of sums changes the loss. */
#ifndef LS_REPORT_ORDER_CHART_H
#define LS_REPORT_ORDER_CHART_H

#include "lab/verify/sum_order.h"

/* Writes an SVG file with a chart for each case (model), and in it a curve for each order of summation: over the steps,
 * the absolute difference of its loss from that of its base, the order that it is compared with (ls_order_way.base).
 * Lockstep's own runs share one curve. Replaces `path` atomically. */
ls_status ls_order_draw(const ls_order_case *cases, int count, const char *path);

#endif
