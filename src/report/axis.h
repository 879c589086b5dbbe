/* axis.h: scales with round numbers and units. Numbers stand beside the plot, grid lines end where it ends. */
#ifndef LS_REPORT_AXIS_H
#define LS_REPORT_AXIS_H

#include "report/svg.h"

typedef enum ls_axis_unit {
    LS_AXIS_NUMBER,  /* 0.5, 20, 5k, 2M */
    LS_AXIS_WHOLE,   /* the same without fractions: steps, workers */
    LS_AXIS_DOUBLES, /* a logarithmic scale of 1, 2, 4, 8 … */
    LS_AXIS_SECONDS, /* ms, s, min, h or days, the same for the whole scale */
    LS_AXIS_BYTES,   /* MiB, GiB */
    LS_AXIS_SHARE    /* per cent */
} ls_axis_unit;

enum { LS_AXIS_TICKS_MAX = 24, LS_AXIS_TEXT_MAX = 24 };

typedef struct ls_axis_tick {
    double value;
    char text[LS_AXIS_TEXT_MAX];
} ls_axis_tick;

/* Round values from `first` to `last`, about `most`; returns how many. A logarithmic scale has powers of ten and, where
 * these are few, what is between them: 2 and 5, or 1.5, 2, 3, 4, 5 and 7. */
int ls_axis_ticks(double first, double last, bool is_log, ls_axis_unit unit, int most,
                  ls_axis_tick ticks[LS_AXIS_TICKS_MAX]);
/* "time" → "time (min)", for a scale that ends at `last`. */
void ls_axis_name(const char *name, double last, ls_axis_unit unit, char *out, size_t room);

/* The left scale: lines across the plot, numbers left of it. */
void ls_axis_draw_y(const ls_svg_plot *p, ls_axis_unit unit, int most);
/* The lower scale: a line, ticks, numbers below it, none of which touch or go beyond `right`, where the picture ends.
 * Returns the height that it takes. */
double ls_axis_draw_x(const ls_svg_plot *p, double right, ls_axis_unit unit, const char *name);
/* Room for the numbers of the left scale. */
double ls_axis_room(double first, double last, bool is_log, ls_axis_unit unit, int most);

#endif
