/* svg.c: pieces of drawings. */
#include "report/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "report/numbers.h"

enum {
    DIGIT = 7, /* width of a digit, and of what must be around it */
    KEY = 12   /* side of a sample */
};

/* ---- style ------------------------------------------------------------------------------------------------------- */

const char ls_svg_style[] =
    "svg text{fill:#1f2328;font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",sans-serif}"
    "svg .q{fill:#59636e}svg .t{font-weight:600}svg .e{text-anchor:end}svg .c{text-anchor:middle}svg .n{font-size:11px}"
    "svg .w{fill:#fff;text-anchor:middle;font-size:10px}"
    "svg .g{stroke:#d8dee4;fill:none}svg .x{stroke:#59636e;fill:none}svg .k{stroke:#b42318;fill:none;stroke-width:2}"
    "svg .kt,svg .v{fill:#b42318}"
    "svg .u,svg .s{fill:#2f6fb3}svg .i{fill:#c3cad1}svg .m,svg .b{fill:#d0722a}svg .r{fill:#7a5cb0}"
    "svg .a{fill:#3c8c5a}svg .o{fill:#98a2ad}svg .y{fill:#b98900}svg .h{fill:#cf5f4d}svg .p{fill:#1b8a8f}svg "
    ".z{fill:#eef1f4}"
    "svg .l1{stroke:#2f6fb3;fill:none;stroke-width:2.5}svg .l2{stroke:#d0722a;fill:none;stroke-width:2;"
    "stroke-dasharray:7 3}svg .l3{stroke:#59636e;fill:none;stroke-width:1;stroke-dasharray:2 3}"
    "@media screen and (prefers-color-scheme:dark){svg text{fill:#e6edf3}svg .q{fill:#9aa4af}svg .w{fill:#0d1117}"
    "svg .g{stroke:#30363d}svg .x{stroke:#9aa4af}svg .k{stroke:#ff8a7d}svg .kt,svg .v{fill:#ff8a7d}"
    "svg .u,svg .s{fill:#6ea8e0}svg .i{fill:#454d56}svg .m,svg .b{fill:#e8a15a}svg .r{fill:#ab92dd}"
    "svg .a{fill:#6cc08b}svg .o{fill:#7d8792}svg .y{fill:#d9b44a}svg .h{fill:#e58a7b}svg .p{fill:#5cc4c9}svg "
    ".z{fill:#20262e}"
    "svg .l1{stroke:#6ea8e0}svg .l2{stroke:#e8a15a}svg .l3{stroke:#9aa4af}}";

void ls_svg_begin(FILE *out, int width, int height) {
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
        "<style>%s svg .back{fill:#fff}@media screen and (prefers-color-scheme:dark){svg .back{fill:#0d1117}}</style>"
        "\n<rect width=\"%d\" height=\"%d\" class=\"back\"/>\n",
        width, height, width, height, ls_svg_style, width, height);
}

void ls_svg_end(FILE *out) { fputs("</svg>\n", out); }

ls_status ls_svg_write(const char *path, void (*draw)(const void *ctx, FILE *out), const void *ctx) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return ls_fail_errno(LS_ERR_RESOURCE, "cannot draw %s", path);
    draw(ctx, out);
    bool complete = !ferror(out);
    ls_status status = fclose(out) == 0 && complete ? ls_file_write_atomic(path, text, bytes)
                                                    : ls_fail(LS_ERR_RESOURCE, "out of memory for a drawing");
    free(text);
    return status;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

void ls_svg_escape(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc((unsigned char)*text < 0x20 && *text != '\n' ? ' ' : *text, out);
        }
    }
}

void ls_svg_text(FILE *out, double x, double y, const char *look, const char *format, ...) {
    char text[256];
    va_list list;
    if (!out) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, look);
    ls_svg_escape(out, text);
    fputs("</text>\n", out);
}

double ls_svg_rect(FILE *out, double x, double y, double width, double height, const char *look) {
    if (!(width > 0)) return x;
    if (out)
        fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%s\"/>\n", x, y, width, height,
                look);
    return x + width;
}

void ls_svg_line(FILE *out, double x, double y, double x_end, double y_end, const char *look) {
    if (!out) return;
    fprintf(out, *look == '#' ? "<path stroke=\"%s\" stroke-width=\"2\"" : "<path class=\"%s\"", look);
    fprintf(out, " d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x, y, x_end, y_end);
}

double ls_svg_key(FILE *out, double x, double y, const char *look, const char *name) {
    bool is_line = *look == '#' || *look == 'l';
    double wide = is_line ? 2 * KEY : KEY;
    if (is_line)
        ls_svg_line(out, x, y + 6, x + wide, y + 6, look);
    else
        ls_svg_rect(out, x, y, wide, KEY, look);
    ls_svg_text(out, x + wide + 6, y + 10, "n", "%s", name);
    return x + wide + 26 + 6.2 * (double)strlen(name);
}

/* ---- plots ------------------------------------------------------------------------------------------------------- */

double ls_svg_x(const ls_svg_plot *p, double x) {
    return p->left + (x - p->x_first) / (p->x_last - p->x_first) * p->width;
}

double ls_svg_y(const ls_svg_plot *p, double y) {
    return p->top + p->height - (y - p->y_first) / (p->y_last - p->y_first) * p->height;
}

double ls_svg_step(double least, double span, int most) {
    const double factors[] = {2, 2.5, 2};
    double step = least;
    for (int i = 0; span / step > most; i = (i + 1) % 3) step *= factors[i];
    return step;
}

void ls_svg_grid(const ls_svg_plot *p, int most) {
    double step = ls_svg_step(1, p->y_last - p->y_first, most);
    for (int i = 0; p->y_first + i * step <= p->y_last; i++) {
        double value = p->y_first + i * step, y = ls_svg_y(p, value);
        ls_svg_line(p->out, p->left, y, p->left + p->width, y, "g");
        ls_svg_text(p->out, p->left - 6, y + 4, "e q n", "%s", ls_number_whole(value).text);
    }
}

void ls_svg_curve_begin(ls_svg_plot *p, const char *look, double width) {
    p->drawing = false;
    if (!p->out) return;
    if (*look == '#')
        fprintf(p->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linejoin=\"round\" d=\"", look,
                width);
    else
        fprintf(p->out, "<path class=\"%s\" d=\"", look);
}

void ls_svg_curve_to(ls_svg_plot *p, double x, double y) {
    bool there = isfinite(y);
    if (there && p->out) fprintf(p->out, "%c%.1f %.1f", p->drawing ? 'L' : 'M', ls_svg_x(p, x), ls_svg_y(p, y));
    p->drawing = there;
}

void ls_svg_curve_end(ls_svg_plot *p) {
    if (p->out) fputs("\"/>\n", p->out);
}

void ls_svg_dot(const ls_svg_plot *p, double x, double y, const char *look) {
    if (p->out && isfinite(y))
        fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"%s\"/>\n", ls_svg_x(p, x), ls_svg_y(p, y),
                look);
}

/* ---- lanes of time ----------------------------------------------------------------------------------------------- */

void ls_svg_time_axis(const ls_svg_plot *p, double y, double grid_height) {
    double span = p->x_last - p->x_first, step = ls_svg_step(1e-9, span, 10);
    for (int i = 0; i * step <= span; i++) {
        double x = ls_svg_x(p, p->x_first + i * step);
        if (grid_height > 0) ls_svg_line(p->out, x, y - grid_height, x, y, "g");
        ls_svg_line(p->out, x, y, x, y + 4, "x");
        ls_svg_text(p->out, x, y + 17, "c q n", "%s", ls_number_tick(i * step).text);
    }
    ls_svg_line(p->out, p->left, y, p->left + p->width, y, "x");
}

void ls_svg_action(const ls_svg_plot *p, double from, double to, double y, double height, const char *look, bool odd,
                   int number, const char *title) {
    double left = ls_svg_x(p, from), wide = ls_svg_x(p, to) - left;
    char text[16];
    int digits = snprintf(text, sizeof text, "%d", number);
    if (!p->out) return;
    if (wide > 4) wide -= .8; /* a gap that is seen between boxes, where they are wide enough to lose it */
    fprintf(p->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%s\"%s>", left, y, wide, height,
            look, odd ? " opacity=\".75\"" : "");
    if (title) fprintf(p->out, "<title>%s</title>", title);
    fputs("</rect>", p->out);
    if (wide >= digits * DIGIT + 2 && height >= 14)
        ls_svg_text(p->out, left + wide / 2, y + height / 2 + 4, "w", "%s", text);
    else
        fputc('\n', p->out);
}
