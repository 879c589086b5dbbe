/* axis.c: chooses round numbers for scales and draws them. */
#include "report/axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/numbers.h"

/* The unit in which a scale is shown. */
typedef struct measure {
    double one; /* the plot's value of one unit: 60 for minutes on a plot in seconds */
    const char *name;
} measure;

/* Returns the unit in which a scale that ends at `last` is shown. */
static measure unit_for(double last, ls_axis_unit unit) {
    const double mib = 1024.0 * 1024.0;
    double size = fabs(last);
    switch (unit) {
    case LS_AXIS_SECONDS: {
        ls_time_unit time = ls_time_unit_for(size);
        return (measure){time.seconds, time.name};
    }
    case LS_AXIS_BYTES: return size < 2 * mib * 1024 ? (measure){mib, "MiB"} : (measure){1024 * mib, "GiB"};
    case LS_AXIS_SHARE: return (measure){.01, "%"};
    default: return (measure){1, ""};
    }
}

void ls_axis_name(const char *name, double last, ls_axis_unit unit, char *out, size_t room) {
    measure m = unit_for(last, unit);
    snprintf(out, room, *m.name ? "%s (%s)" : "%s", name, m.name);
}

/* ---- ticks ------------------------------------------------------------------------------------------------------- */

/* Returns the power of ten at or below a value above 0, at least 1e-300. */
static double decade_below(double value) {
    double power = 1;
    if (!(value > 1e-300)) return 1e-300;
    while (power > value) power /= 10;
    while (power * 10 <= value) power *= 10;
    return power;
}

/* Writes a number with as few digits as distinguish it from its neighbours, `step` away, and with k, M, G or T from
 * 10,000 on. */
static void put_number(double value, double step, char text[LS_AXIS_TEXT_MAX]) {
    static const struct {
        double one;
        const char *name;
    } sizes[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    double size = fabs(value);
    if (size == 0 && step < 1e-3) {
        snprintf(text, LS_AXIS_TEXT_MAX, "0");
        return;
    }
    if (size > 0 && (size < 1e-3 || size >= 1e15)) {
        snprintf(text, LS_AXIS_TEXT_MAX, "%.3g", value);
        return;
    }
    int k = 4;
    if (size >= 1e4)
        for (k = 0; size < sizes[k].one;) k++;
    double shown = value / sizes[k].one, apart = step / sizes[k].one;
    int digits = 0;
    while (digits < 6 && apart > 0 && fabs(apart - round(apart)) > 1e-6 * apart) {
        apart *= 10;
        digits++;
    }
    snprintf(text, LS_AXIS_TEXT_MAX, "%.*f%s", digits, shown, sizes[k].name);
}

/* Chooses ticks at multiples of 1, 2 or 5 times a power of ten. one: the unit; least: smallest distance, in units.
 * Returns their number. */
static int put_linear(double first, double last, double one, double least, int most, ls_axis_tick *ticks) {
    static const double factors[] = {2, 2.5, 2};
    double low = first / one, high = last / one, step = decade_below((high - low) / most);
    int count = 0;
    if (step < least) step = least;
    for (int i = 0; (high - low) / step > most; i = (i + 1) % 3) step *= factors[i];
    for (double k = ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && count < LS_AXIS_TICKS_MAX; k++) {
        ticks[count].value = k * step * one;
        put_number(k == 0 ? 0 : k * step, step, ticks[count++].text);
    }
    return count;
}

/* Chooses ticks at every `every`-th power of ten times each of the first `parts` of 1, 2, 5, 1.5, 3, 4 and 7. Returns
 * their number, unsorted. */
static int put_decades(double low, double high, double one, int every, int parts, ls_axis_tick *ticks) {
    static const double between[] = {1, 2, 5, 1.5, 3, 4, 7};
    int count = 0, number = 0;
    for (double power = decade_below(low); power <= high * (1 + 1e-9); power *= 10, number++)
        for (int i = 0; i < parts && number % every == 0; i++) {
            double value = power * between[i];
            if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9) || count == LS_AXIS_TICKS_MAX) continue;
            ticks[count].value = value * one;
            put_number(value, value, ticks[count++].text);
        }
    return count;
}

/* Orders ticks by value. A callback of qsort(). */
static int compare_ticks(const void *a, const void *b) {
    double first = ((const ls_axis_tick *)a)->value, second = ((const ls_axis_tick *)b)->value;
    return (first > second) - (first < second);
}

/* Chooses ticks of a logarithmic scale: powers of ten, with values between them if there is room. Returns their
 * number. */
static int put_log(double first, double last, double one, int most, ls_axis_tick *ticks) {
    static const int parts[] = {7, 3};
    double low = first / one, high = last / one;
    int decades = 0, every = 1;
    for (double power = decade_below(low); power <= high; power *= 10) decades++;
    while (decades / every > most) every++;
    int count = put_decades(low, high, one, every, 1, ticks);
    for (int i = 0; i < 2 && every == 1; i++) {
        ls_axis_tick finer[LS_AXIS_TICKS_MAX];
        int found = put_decades(low, high, one, 1, parts[i], finer);
        if (found > most + 2) continue;
        memcpy(ticks, finer, (size_t)found * sizeof *finer);
        count = found;
        break;
    }
    qsort(ticks, (size_t)count, sizeof *ticks, compare_ticks);
    return count;
}

/* Chooses powers of two, on a long scale only every second or third. Returns their number. */
static int put_doubles(double first, double last, int most, ls_axis_tick *ticks) {
    double begin = 1, step = 2;
    int count = 0, powers = 1;
    while (begin > first) begin /= 2;
    while (begin < first * (1 - 1e-9)) begin *= 2;
    for (double value = begin; value * 2 <= last * (1 + 1e-9); value *= 2) powers++;
    for (int every = 1; powers / every > most; every++) step *= 2;
    for (double value = begin; value <= last * (1 + 1e-9) && count < LS_AXIS_TICKS_MAX; value *= step) {
        ticks[count].value = value;
        put_number(value, value, ticks[count++].text);
    }
    return count;
}

int ls_axis_ticks(double first, double last, bool is_log, ls_axis_unit unit, int most,
                  ls_axis_tick ticks[LS_AXIS_TICKS_MAX]) {
    double one = unit_for(last, unit).one;
    if (!isfinite(first) || !isfinite(last) || !(last > first)) return 0;
    int count = 0;
    if (is_log)
        count =
            unit == LS_AXIS_DOUBLES ? put_doubles(first, last, most, ticks) : put_log(first, last, one, most, ticks);
    /* Less than a decade may have no power of ten in it. */
    return count >= 2 ? count : put_linear(first, last, one, unit == LS_AXIS_WHOLE ? 1 : 0, most, ticks);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

double ls_axis_room(double first, double last, bool is_log, ls_axis_unit unit, int most) {
    ls_axis_tick ticks[LS_AXIS_TICKS_MAX];
    int count = ls_axis_ticks(first, last, is_log, unit, most, ticks);
    double widest = 0;
    for (int i = 0; i < count; i++) {
        double wide = ls_svg_text_width(ticks[i].text);
        if (wide > widest) widest = wide;
    }
    return widest + 10;
}

void ls_axis_draw_y(const ls_svg_plot *p, ls_axis_unit unit, int most) {
    ls_axis_tick ticks[LS_AXIS_TICKS_MAX];
    int count = ls_axis_ticks(p->y_first, p->y_last, p->y_log, unit, most, ticks);
    for (int i = 0; i < count; i++) {
        double y = ls_svg_y(p, ticks[i].value);
        ls_svg_line(p->out, p->left, y, p->left + p->width, y, "g");
        ls_svg_text(p->out, p->left - 6, y + 4, "e q n", "%s", ticks[i].text);
    }
}

double ls_axis_draw_x(const ls_svg_plot *p, double right, ls_axis_unit unit, const char *name) {
    enum { APART = 12 };
    ls_axis_tick ticks[LS_AXIS_TICKS_MAX];
    char label[64];
    double y = p->top + p->height, free_from = -1e9;
    int most = (int)(p->width / 56), count = ls_axis_ticks(p->x_first, p->x_last, p->x_log, unit, most, ticks);
    ls_svg_line(p->out, p->left, y, p->left + p->width, y, "x");
    for (int i = 0; i < count; i++) {
        double x = ls_svg_x(p, ticks[i].value), wide = ls_svg_text_width(ticks[i].text), end = x + wide / 2;
        bool is_cut = end > right;
        ls_svg_line(p->out, x, y, x, y + 4, "x");
        if (is_cut) end = right;
        if (end - wide < free_from) continue;
        ls_svg_text(p->out, is_cut ? end : x, y + 16, is_cut ? "e q n" : "c q n", "%s", ticks[i].text);
        free_from = end + APART;
    }
    ls_axis_name(name, p->x_last, unit, label, sizeof label);
    if (*name) ls_svg_text(p->out, p->left + p->width / 2, y + 31, "c q n", "%s", label);
    return *name ? 38 : 22;
}
