/* svg.h: draws all charts in one style: documents, text, boxes, curves, labels and legends (axes: axis.h). All charts
 * of this folder are made of these calls.
 *
 * Every call writes SVG to `out` at once; NULL draws nothing (to measure, or after memory ran out). Coordinates are
 * pixels from the top left. A `look` is a list of CSS classes of ls_svg_style, whose colours follow the reader's light
 * or dark setting and are light in print. They are those of Okabe and Ito, which readers with any colour vision can
 * tell apart; lines also differ in their dashes:
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

/* Style sheet (CSS) of the classes above, for a document or a page that contains charts. */
extern const char ls_svg_style[];

enum { LS_SVG_WIDE = 720, LS_SVG_NARROW = 330, LS_SVG_SERIES = 8 };

/* Draws a chart of this width in pixels, which may be any, and returns its height; with `out` NULL it only measures. */
typedef int ls_svg_draw(FILE *out, int width, const void *ctx);

/* Returns whether a chart of this width is for a phone, so that names move above what they stand beside otherwise. */
static inline bool ls_svg_is_narrow(int width) { return width < 480; }

/* An entry of a legend. */
typedef struct ls_svg_named {
    const char *look, *name;
} ls_svg_named;

/* Begins an SVG file of this size in pixels, with its style. Charts inside a page need neither this nor the end. */
void ls_svg_begin(FILE *out, int width, int height);
/* Ends the SVG file that ls_svg_begin() began. */
void ls_svg_end(FILE *out);

/* Writes what draw(ctx, out) draws to a file, replacing it atomically. The drawing is made in memory first. */
ls_status ls_svg_write(const char *path, void (*draw)(const void *ctx, FILE *out), const void *ctx);

/* Prints text with <, >, & and double quotes escaped for XML and HTML, and blanks for other control characters than
 * newlines. */
void ls_svg_escape(FILE *out, const char *text);
/* Draws one line of text, escaped and cut to 255 bytes, with its baseline at y. */
void ls_svg_text(FILE *out, double x, double y, const char *look, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Draws a box and returns the x of its right end. A box without a positive width is not drawn. */
double ls_svg_rect(FILE *out, double x, double y, double width, double height, const char *look);
void ls_svg_line(FILE *out, double x, double y, double x_end, double y_end, const char *look);
/* Returns an upper bound of the width in pixels of a text in the small size. */
double ls_svg_text_width(const char *text);
/* Draws a legend in rows between `left` and `right` from y on, with squares, or short lines for the look of a line; a
 * name wider than a row is cut. Returns the y where the rows end. */
double ls_svg_keys(FILE *out, double left, double right, double y, const ls_svg_named *keys, int count);

/* The name of a curve behind its end. */
typedef struct ls_svg_label {
    double x, y; /* the end of the curve */
    const char *look, *name;
} ls_svg_label;
/* Draws names in a column at `x`, each as near the height of its curve as there is room between top and bottom, with a
 * line to it. Names that would cross `right` are cut; those beyond 64 are left out. Sorts `labels` by y. */
void ls_svg_labels(FILE *out, ls_svg_label *labels, int count, double x, double right, double top, double bottom);
/* Draws a text in lines of at most `width` pixels, the first with its baseline at y; returns their height. */
double ls_svg_paragraph(FILE *out, double x, double y, double width, const char *look, const char *text);

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* The area of a plot and the values at its borders. */
typedef struct ls_svg_plot {
    FILE *out;
    double left, top, width, height;
    double x_first, x_last, y_first, y_last; /* at the left and right, at the bottom and top */
    bool x_log, y_log;                       /* logarithmic; both ends are above 0 then */
    bool drawing;                            /* inside a curve, behind its first point */
} ls_svg_plot;

/* Returns the horizontal pixel of a value on the plot's x scale; on a logarithmic one 0 and less are at its beginning,
 * as in ls_svg_y(). */
double ls_svg_x(const ls_svg_plot *p, double x);
/* Returns the vertical pixel of a value on the plot's y scale; greater values are higher, so their pixel is smaller. */
double ls_svg_y(const ls_svg_plot *p, double y);
/* Begins a curve. `width`: of the pen in pixels, for a look that is a colour; classes have their own. */
void ls_svg_curve_begin(ls_svg_plot *p, const char *look, double width);
/* Continues the curve to a point given in values; a y that is not finite leaves a gap. */
void ls_svg_curve_to(ls_svg_plot *p, double x, double y);
/* Ends the curve that ls_svg_curve_begin() began. */
void ls_svg_curve_end(ls_svg_plot *p);
/* Draws a dot at a point given in values; nothing if y is not finite. */
void ls_svg_dot(const ls_svg_plot *p, double x, double y, const char *look);

/* ---- lanes of time ----------------------------------------------------------------------------------------------- */

/* Draws the box of an action of the pipeline schedule from one time (value of x, seconds) to another, y and height in
 * pixels, with its number inside if that fits. odd: with a light edge, for every second chunk. title: tooltip, not
 * escaped, or NULL. */
void ls_svg_action(const ls_svg_plot *p, double from, double to, double y, double height, const char *look, bool odd,
                   int number, const char *title);

#endif
