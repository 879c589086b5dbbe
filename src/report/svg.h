/* svg.h: draws all charts in one style: documents, text, boxes, curves, labels and legends (axes: axis.h).
 *
 * Everything is written to `out` as it is called; NULL draws nothing (a report that ran out of memory). Places are in
 * pixels from the top left. A look is a list of classes of ls_svg_style, whose colours follow the reader's light or
 * dark setting and are light in print. They are those of Okabe and Ito, which people with any kind of colour vision
 * tell apart; lines differ in their dashes as well:
 *
 *     text    e right-aligned   c centred   q quiet   n small   t bold   w in a box   kt as the limit
 *     areas   u useful work, forward   b backward, y of inputs alone, a of weights alone, activations   s states
 *             m communication   h finishing reductions   v in flight   r repeated, optimizer   i idle   z empty lane
 *             p copies   o anything else
 *     lines   g grid   x axis   k limit   l1 solid   l2 dashed   l3 dotted   s0 … s7 series, f faint, d dashed
 *
 * A line may also have a colour of its own: "#2a7".
 *
 * A chart is drawn for the width it is given: LS_SVG_WIDE, or LS_SVG_NARROW for a phone. Text has the same size in
 * both, and none lies on a line: names stand behind the ends of curves or above the plot, numbers beside it. */
#ifndef LS_REPORT_SVG_H
#define LS_REPORT_SVG_H

#include <stdbool.h>
#include <stdio.h>

#include "lockstep.h"

extern const char ls_svg_style[];

enum { LS_SVG_WIDE = 720, LS_SVG_NARROW = 330, LS_SVG_SERIES = 8 };

/* Draws a chart of that width; returns its height. To be called with any width, and `out` NULL. */
typedef int ls_svg_draw(FILE *out, int width, const void *ctx);

static inline bool ls_svg_is_narrow(int width) { return width < 480; }

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
/* How wide a small text is at most. */
double ls_svg_text_width(const char *text);
/* Samples with their names, in rows between `left` and `right`: squares, or pieces of line for the look of one; what
 * has no room in a row is cut. Returns where the rows end. */
double ls_svg_keys(FILE *out, double left, double right, double y, const ls_svg_named *keys, int count);

/* The name of a curve behind its end. */
typedef struct ls_svg_label {
    double x, y; /* the end of the curve */
    const char *look, *name;
} ls_svg_label;
/* Names in a column at `x`, each at the height of its curve as far as they have room between top and bottom, and a line
 * to it. Those that would go beyond `right` are cut. The labels are sorted. */
void ls_svg_labels(FILE *out, ls_svg_label *labels, int count, double x, double right, double top, double bottom);
/* The lines of a text that is at most `width` wide, one below the other; returns how high they are. */
double ls_svg_paragraph(FILE *out, double x, double y, double width, const char *look, const char *text);

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* An area and the values at its borders. */
typedef struct ls_svg_plot {
    FILE *out;
    double left, top, width, height;
    double x_first, x_last, y_first, y_last; /* at the left and right, at the bottom and top */
    bool x_log, y_log;                       /* logarithmic; both ends are above 0 then */
    bool drawing;                            /* a curve: it goes on from its last point */
} ls_svg_plot;

double ls_svg_x(const ls_svg_plot *p, double x);
double ls_svg_y(const ls_svg_plot *p, double y);
/* A curve point by point; one that is not finite leaves a gap. */
void ls_svg_curve_begin(ls_svg_plot *p, const char *look, double width);
void ls_svg_curve_to(ls_svg_plot *p, double x, double y);
void ls_svg_curve_end(ls_svg_plot *p);
/* Nothing where y is not finite. */
void ls_svg_dot(const ls_svg_plot *p, double x, double y, const char *look);

/* ---- lanes of time ----------------------------------------------------------------------------------------------- */

/* Here x is seconds. What is done from one time to another, with its number where that fits; `odd` has a light edge.
 * `title` is shown when pointed at; NULL: none. */
void ls_svg_action(const ls_svg_plot *p, double from, double to, double y, double height, const char *look, bool odd,
                   int number, const char *title);

#endif
