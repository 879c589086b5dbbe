/* svg.c: draws the pieces of charts as SVG. */
#include "report/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "numerics/elementary.h"

enum {
    DIGIT = 7, /* width of a digit, and of what must be around it */
    KEY = 12,  /* side of a sample */
    KEY_ROW = 18,
    LS_SVG_LABELS_MAX = 64
};

/* ---- style ------------------------------------------------------------------------------------------------------- */

#define LIGHT                                                                                                          \
    "--ink:#1f2328;--soft:#57606a;--grid:#dde2e7;--paper:#fff;--on:#fff;--blue:#0072b2;--orange:#e69f00;"              \
    "--green:#009e73;--sky:#56b4e9;--pink:#cc79a7;--red:#d55e00;--deep:#a3241b;--yellow:#cbb800;--grey:#8c96a0;"       \
    "--pale:#cdd3d9;--empty:#eef1f4;--s0:#0072b2;--s1:#c75400;--s2:#00805e;--s3:#a8538a;--s4:#8a6400;--s5:#2b86bd;"    \
    "--s6:#4a4f55;--s7:#a3241b"
#define DARK                                                                                                           \
    "--ink:#e6edf3;--soft:#9aa4af;--grid:#2b323a;--paper:#0d1117;--on:#0d1117;--blue:#58a6e0;--orange:#f0b43c;"        \
    "--green:#2fc49a;--sky:#9ad4f5;--pink:#dd9bc2;--red:#ff8a4c;--deep:#ff8a7d;--yellow:#e6d84a;--grey:#8c96a0;"       \
    "--pale:#454e58;--empty:#1b2129;--s0:#58a6e0;--s1:#ff8a4c;--s2:#2fc49a;--s3:#dd9bc2;--s4:#f0b43c;--s5:#9ad4f5;"    \
    "--s6:#b8c0c8;--s7:#ff8a7d"

/* Numbers in light boxes are dark. */
const char ls_svg_style[] =
    "svg{" LIGHT "}@media screen and (prefers-color-scheme:dark){svg{" DARK "}}"
    "svg text{fill:var(--ink);font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",sans-serif}"
    "svg .q{fill:var(--soft)}svg .t{font-weight:600}svg .e{text-anchor:end}svg .c{text-anchor:middle}"
    "svg .n{font-size:11px}svg .w{fill:var(--on);text-anchor:middle;font-size:10px}"
    "svg .b+.w,svg .m+.w,svg .y+.w,svg .a+.w,svg .r+.w,svg .o+.w,svg .p+.w,svg .h+.w{fill:#0d1117}"
    "svg .g{stroke:var(--grid);fill:none}svg .x{stroke:var(--soft);fill:none}"
    "svg .k{stroke:var(--deep);fill:none;stroke-width:2}svg .kt,svg .v{fill:var(--deep)}"
    "svg .u,svg .s{fill:var(--blue)}svg .i{fill:var(--pale)}svg .m,svg .b{fill:var(--orange)}svg .r{fill:var(--pink)}"
    "svg .a{fill:var(--green)}svg .o{fill:var(--grey)}svg .y{fill:var(--sky)}svg .h{fill:var(--red)}"
    "svg .p{fill:var(--yellow)}svg .z{fill:var(--empty)}svg .odd{fill:var(--paper);opacity:.6}"
    "svg path{fill:none}svg .l1{stroke:var(--s0);stroke-width:2.5}"
    "svg .l2{stroke:var(--s1);stroke-width:2;stroke-dasharray:7 3}"
    "svg .l3{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}"
    "svg .s0,svg .s1,svg .s2,svg .s3,svg .s4,svg .s5,svg .s6,svg .s7{stroke-width:2;stroke-linejoin:round}"
    "svg .s0{stroke:var(--s0)}svg .s1{stroke:var(--s1)}svg .s2{stroke:var(--s2)}svg .s3{stroke:var(--s3)}"
    "svg .s4{stroke:var(--s4);stroke-dasharray:8 3}svg .s5{stroke:var(--s5);stroke-dasharray:8 3}"
    "svg .s6{stroke:var(--s6);stroke-dasharray:3 2}svg .s7{stroke:var(--s7);stroke-dasharray:3 2}"
    "svg .d{stroke-dasharray:6 4}svg .f{stroke-width:1;opacity:.4}svg "
    ".dot{fill:var(--paper);stroke:var(--s0);stroke-width:2}"
    "svg circle.s0{fill:var(--s0)}svg circle.s1{fill:var(--s1)}svg circle.s2{fill:var(--s2)}"
    "svg circle.s3{fill:var(--s3)}svg circle.s4{fill:var(--s4)}svg circle.s5{fill:var(--s5)}"
    "svg circle.s6{fill:var(--s6)}svg circle.s7{fill:var(--s7)}svg circle{stroke:none}"
    "svg .mark{stroke:var(--deep);stroke-width:1;stroke-dasharray:1 3}svg .back{fill:var(--paper)}";

/* A viewer shows the file as large as its window allows, at most in its own size. */
void ls_svg_begin(FILE *out, int width, int height) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "style=\"max-width:100%%;height:auto;background:var(--paper)\">\n<style>%s</style>\n"
            "<rect width=\"%d\" height=\"%d\" class=\"back\"/>\n",
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

double ls_svg_text_width(const char *text) {
    const double widest = 6.8; /* of a letter, on average, in a wide font of 11 px */
    int letters = 0;
    for (; *text; text++) letters += ((unsigned char)*text & 0xc0) != 0x80;
    return letters * widest;
}

/* Returns whether the look is that of a line, and not of an area: a colour, l1 … or s0 …. */
static bool is_line(const char *look) {
    return *look == '#' || *look == 'l' || (*look == 's' && look[1] >= '0' && look[1] <= '9');
}

/* Draws a name, cut with "…" so that it ends before `right`. */
static void put_name(FILE *out, double x, double y, double right, const char *name) {
    char text[128];
    size_t end = strlen(name);
    if (x + ls_svg_text_width(name) <= right) {
        ls_svg_text(out, x, y, "n", "%s", name);
        return;
    }
    if (end > sizeof text - 4) end = sizeof text - 4;
    do {
        while (end > 0 && ((unsigned char)name[--end] & 0xc0) == 0x80) continue;
        snprintf(text, sizeof text, "%.*s…", (int)end, name);
    } while (end > 0 && x + ls_svg_text_width(text) > right);
    ls_svg_text(out, x, y, "n", "%s", text);
}

double ls_svg_keys(FILE *out, double left, double right, double y, const ls_svg_named *keys, int count) {
    double x = left;
    for (int i = 0; i < count; i++) {
        double sample = is_line(keys[i].look) ? 2 * KEY : KEY, wide = sample + 6 + ls_svg_text_width(keys[i].name);
        if (x > left && x + wide > right) {
            x = left;
            y += KEY_ROW;
        }
        if (is_line(keys[i].look))
            ls_svg_line(out, x, y + 6, x + sample, y + 6, keys[i].look);
        else
            ls_svg_rect(out, x, y, sample, KEY, keys[i].look);
        put_name(out, x + sample + 6, y + 10, right, keys[i].name);
        x += wide + 16;
    }
    return count > 0 ? y + KEY_ROW : y;
}

/* Orders labels by height. A callback of qsort(). */
static int compare_labels(const void *a, const void *b) {
    double first = ((const ls_svg_label *)a)->y, second = ((const ls_svg_label *)b)->y;
    return (first > second) - (first < second);
}

void ls_svg_labels(FILE *out, ls_svg_label *labels, int count, double x, double right, double top, double bottom) {
    const double apart = 14, leader = 14;
    double last = bottom, next = top;
    double at[LS_SVG_LABELS_MAX];
    if (count > LS_SVG_LABELS_MAX) count = LS_SVG_LABELS_MAX;
    if (count == 0) return;
    qsort(labels, (size_t)count, sizeof *labels, compare_labels);
    for (int i = 0; i < count; i++, next += apart) {
        if (labels[i].y > next) next = labels[i].y;
        at[i] = next;
    }
    /* Those that were pushed below the end push the ones above them up. */
    for (int i = count - 1; i >= 0 && at[i] > last; i--, last -= apart) at[i] = last;
    for (int i = 0; i < count; i++) {
        /* One that ends before the others is led to by dots. */
        if (labels[i].x < x - 8) ls_svg_line(out, labels[i].x + 8, labels[i].y, x, labels[i].y, "l3");
        if (out && is_line(labels[i].look)) {
            bool coloured = *labels[i].look == '#';
            fprintf(out, coloured ? "<path stroke=\"%s\"" : "<path class=\"%s\"", labels[i].look);
            fprintf(out, " d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1f\"/>\n", x + 2, labels[i].y, x + 4, labels[i].y,
                    x + leader, at[i]);
        }
        put_name(out, x + leader + 4, at[i] + 4, right, labels[i].name);
    }
}

double ls_svg_paragraph(FILE *out, double x, double y, double width, const char *look, const char *text) {
    const double row = 15;
    double begin = y;
    char line[256];
    while (*text) {
        size_t fits = 0, end = 0;
        while (text[end] && end < sizeof line - 1) { /* word by word */
            size_t word = end + strspn(text + end, " ");
            word += strcspn(text + word, " ");
            if (word >= sizeof line) word = sizeof line - 1;
            memcpy(line, text, word);
            line[word] = '\0';
            end = word;
            if (fits > 0 && ls_svg_text_width(line) > width) break;
            fits = end;
        }
        line[fits] = '\0';
        ls_svg_text(out, x, y, look, "%s", line);
        y += row;
        text += fits;
        while (*text == ' ') text++;
    }
    return y - begin;
}

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* Returns the position of a value between first and last, as a share; 0 for a value that a logarithmic scale does not
 * have. */
static double share(double value, double first, double last, bool is_log) {
    if (!is_log) return (value - first) / (last - first);
    if (!(value > 0)) return 0;
    return ls_log_f64(value / first) / ls_log_f64(last / first);
}

double ls_svg_x(const ls_svg_plot *p, double x) {
    return p->left + share(x, p->x_first, p->x_last, p->x_log) * p->width;
}

double ls_svg_y(const ls_svg_plot *p, double y) {
    return p->top + p->height - share(y, p->y_first, p->y_last, p->y_log) * p->height;
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

void ls_svg_action(const ls_svg_plot *p, double from, double to, double y, double height, const char *look, bool odd,
                   int number, const char *title) {
    double left = ls_svg_x(p, from), wide = ls_svg_x(p, to) - left;
    char text[16];
    int digits = snprintf(text, sizeof text, "%d", number);
    if (!p->out) return;
    if (wide > 4) wide -= .8; /* a gap that is seen between boxes, where they are wide enough to lose it */
    fprintf(p->out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%s\">", left, y, wide, height,
            look);
    if (title) fprintf(p->out, "<title>%s</title>", title);
    fputs("</rect>", p->out);
    if (wide >= digits * DIGIT + 2 && height >= 14)
        ls_svg_text(p->out, left + wide / 2, y + height / 2 + 4, "w", "%s", text);
    else
        fputc('\n', p->out);
    if (odd) ls_svg_rect(p->out, left, y, wide, 2, "odd");
}
