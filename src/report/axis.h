/* axis.h: draws the axes of a plot (svg.h) with round numbers and units. Numbers stand beside the plot. */
#ifndef LS_REPORT_AXIS_H
#define LS_REPORT_AXIS_H

#include "report/svg.h"

typedef enum ls_axis_unit {
    LS_AXIS_NUMBER,  /* 0.5, 20, 5k, 2M */
    LS_AXIS_WHOLE,   /* the same without fractions: steps, workers */
    LS_AXIS_DOUBLES, /* powers of two, for a logarithmic scale */
    LS_AXIS_SECONDS, /* ms, s, min, h or days, the same for the whole scale */
    LS_AXIS_BYTES,   /* MiB, GiB */
    LS_AXIS_SHARE    /* per cent */
} ls_axis_unit;

enum { LS_AXIS_TICKS_MAX = 24, LS_AXIS_TEXT_MAX = 24 };

typedef struct ls_axis_tick {
    double value;
    char text[LS_AXIS_TEXT_MAX];
} ls_axis_tick;

/* Chooses about `most` round values from `first` to `last`; returns how many. A logarithmic scale has powers of ten
 * and, if these are few, values between them: 2 and 5, or 1.5, 2, 3, 4, 5 and 7. */
int ls_axis_ticks(double first, double last, bool is_log, ls_axis_unit unit, int most,
                  ls_axis_tick ticks[LS_AXIS_TICKS_MAX]);
/* Prints the name with the unit of a scale that ends at `last`: "time" becomes "time (min)". */
void ls_axis_name(const char *name, double last, ls_axis_unit unit, char *out, size_t room);

/* Draws the left scale: lines across the plot, about `most` numbers left of it. */
void ls_axis_draw_y(const ls_svg_plot *p, ls_axis_unit unit, int most);
/* Draws the lower scale: a line, ticks, numbers below it that do not cross `right`. Returns its height. */
double ls_axis_draw_x(const ls_svg_plot *p, double right, ls_axis_unit unit, const char *name);
/* Returns the width that the numbers of the left scale need. */
double ls_axis_room(double first, double last, bool is_log, ls_axis_unit unit, int most);

#endif
