/* axis.h: draws the axes of a plot (ls_svg_plot in svg.h) with round numbers and units. Numbers stand beside the plot.
 * Nothing fails; with the plot's `out` NULL nothing is drawn. */
#ifndef LS_REPORT_AXIS_H
#define LS_REPORT_AXIS_H

#include "report/svg.h"

typedef enum ls_axis_unit {
    LS_AXIS_NUMBER,  /* 0.5, 20, 5k, 2M */
    LS_AXIS_WHOLE,   /* the same without fractions: steps, workers */
    LS_AXIS_DOUBLES, /* powers of two, for a logarithmic scale */
    LS_AXIS_SECONDS, /* values in seconds, shown in µs to days: one unit for the whole scale */
    LS_AXIS_BYTES,   /* values in bytes, shown in MiB or GiB */
    LS_AXIS_SHARE    /* values of 0 to 1, shown in per cent */
} ls_axis_unit;

enum { LS_AXIS_TICKS_MAX = 24, LS_AXIS_TEXT_MAX = 24 };

typedef struct ls_axis_tick {
    double value;                /* in seconds, bytes …, as the plot has it */
    char text[LS_AXIS_TEXT_MAX]; /* the number in the scale's unit, without the unit's name */
} ls_axis_tick;

/* Chooses about `most` round values from `first` to `last`; returns how many, 0 if last is not above first. A
 * logarithmic scale has powers of ten and, if these are few, values between them: 2 and 5, or 1.5, 2, 3, 4, 5 and 7;
 * with LS_AXIS_DOUBLES powers of two. If that gives fewer than two values, they are chosen as for a linear scale. */
int ls_axis_ticks(double first, double last, bool is_log, ls_axis_unit unit, int most,
                  ls_axis_tick ticks[LS_AXIS_TICKS_MAX]);
/* Writes the name of a scale with the unit that a scale up to `last` is shown in: "time" becomes "time (min)". */
void ls_axis_name(const char *name, double last, ls_axis_unit unit, char *out, size_t room);

/* Draws the left scale: grid lines across the plot, about `most` numbers left of it. */
void ls_axis_draw_y(const ls_svg_plot *p, ls_axis_unit unit, int most);
/* Draws the lower scale: a line, ticks, numbers and below them the name (with its unit; "": none). No number extends
 * beyond x = `right`. Returns the height of all this in pixels. */
double ls_axis_draw_x(const ls_svg_plot *p, double right, ls_axis_unit unit, const char *name);
/* Returns the width in pixels that the numbers of a left scale with these ends need. */
double ls_axis_room(double first, double last, bool is_log, ls_axis_unit unit, int most);

#endif
