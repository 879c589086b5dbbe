/* svg.h: the one drawer of all charts: a document, text, boxes, curves, axes and legends, with one style.
 *
 * Everything is written to `out` as it is called; NULL draws nothing (a report that ran out of memory). Places are in
 * pixels from the top left. A look is a list of classes of ls_svg_style, whose colours follow the reader's light or
 * dark setting and are light in print:
 *
 *     text    e right-aligned   c centred   q quiet   n small   t bold   w in a box   kt as the limit
 *     areas   u useful work, forward   b backward, y of inputs alone, a of weights alone, activations   s states
 *             m communication   h finishing reductions   v in flight   r repeated, optimizer   i idle   z empty lane
 *             p copies   o anything else
 *     lines   g grid   x axis   k limit   l1 solid   l2 dashed   l3 dotted
 *
 * A line may also have a colour of its own: "#2a7". */
#ifndef LS_REPORT_SVG_H
#define LS_REPORT_SVG_H

#include <stdbool.h>
#include <stdio.h>

#include "lockstep.h"

extern const char ls_svg_style[];

/* What a legend names. */
typedef struct ls_svg_named {
    const char *look, *name;
} ls_svg_named;

/* A file of its own. A chart inside a page needs neither. */
void ls_svg_begin(FILE *out, int width, int height);
void ls_svg_end(FILE *out);

/* What draw(ctx, out) draws as a file, whole or not at all. */
ls_status ls_svg_write(const char *path, void (*draw)(const void *ctx, FILE *out), const void *ctx);

/* Text for XML and HTML. */
void ls_svg_escape(FILE *out, const char *text);
void ls_svg_text(FILE *out, double x, double y, const char *look, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Returns its right end. Nothing is drawn without a width. */
double ls_svg_rect(FILE *out, double x, double y, double width, double height, const char *look);
void ls_svg_line(FILE *out, double x, double y, double x_end, double y_end, const char *look);
/* A sample with its name: a square, or a piece of line for the look of one. Returns where the next one begins. */
double ls_svg_key(FILE *out, double x, double y, const char *look, const char *name);

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* An area and the values at its borders. */
typedef struct ls_svg_plot {
    FILE *out;
    double left, top, width, height;
    double x_first, x_last, y_first, y_last; /* at the left and right, at the bottom and top */
    bool drawing;                            /* a curve: it goes on from its last point */
} ls_svg_plot;

double ls_svg_x(const ls_svg_plot *p, double x);
double ls_svg_y(const ls_svg_plot *p, double y);
/* The distance of ticks: 1, 2 or 5 times a power of ten and of `least`, so that at most `most` cover the span. */
double ls_svg_step(double least, double span, int most);
/* Grid lines with whole numbers. */
void ls_svg_grid(const ls_svg_plot *p, int most);
/* A curve point by point; one that is not finite leaves a gap. */
void ls_svg_curve_begin(ls_svg_plot *p, const char *look, double width);
void ls_svg_curve_to(ls_svg_plot *p, double x, double y);
void ls_svg_curve_end(ls_svg_plot *p);
/* Nothing where y is not finite. */
void ls_svg_dot(const ls_svg_plot *p, double x, double y, const char *look);

/* ---- lanes of time ----------------------------------------------------------------------------------------------- */

/* Here x is seconds. A line with ticks and their times, and a grid above it where that has a height. */
void ls_svg_time_axis(const ls_svg_plot *p, double y, double grid_height);
/* What is done from one time to another, with its number where that fits; `odd` is lighter. `title` is shown when
 * pointed at; NULL: none. */
void ls_svg_action(const ls_svg_plot *p, double from, double to, double y, double height, const char *look, bool odd,
                   int number, const char *title);

#endif
