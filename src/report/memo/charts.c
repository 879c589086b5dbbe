/* charts.c: draws the bars and curves of a memo.
 *
 *     one GPU with everything
 *     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 1,262 GiB        ladder: memory after each technique; a line at the chip's capacity
 *         matmuls ▇▇▇▇▇▇▇▇▇▇▇ 4.1 s  61 %        bars: kinds of time; each begins where the last ended, in the chart of
 *     tensor par.            ▇▇ 0.7 s  10 %      losses
 */
#include <math.h>

#include "report/axis.h"
#include "report/memo/facts.h"

enum { NAMES = 156, FIGURES = 122, ROW = 24, BAR = 16 };

typedef struct bar {
    const char *name, *look;
    double value;
} bar;

/* What a chart of bars draws. */
typedef struct sheet {
    const ls_memo_facts *facts;
    bar bars[LS_TIME_KINDS + 1];
    int count;
    double whole, scale_end; /* value that is 100 %; value at the right end of the bars */
    bool falls;              /* each bar begins where the one before it ended */
    const ls_svg_named *keys;
    int key_count;
} sheet;

/* Draws the bars with their seconds and shares, and the legend. An ls_svg_draw; ctx is a sheet. */
static int draw_bars(FILE *out, int width, const void *ctx) {
    const sheet *s = ctx;
    bool narrow = ls_svg_is_narrow(width); /* then names stand above their bars */
    double left = narrow ? 0 : NAMES, scale = (width - left - FIGURES) / s->scale_end, begin = 0, y = 4;
    for (int i = 0; i < s->count; i++, y += ROW) {
        double wide = s->bars[i].value * scale;
        ls_svg_text(out, narrow ? 0 : left - 10, y + 12, narrow ? "n" : "e n", "%s", s->bars[i].name);
        if (narrow) y += 17;
        ls_svg_rect(out, left + begin * scale, y, wide > .5 ? wide : .5, BAR, s->bars[i].look);
        ls_svg_text(out, width - 50, y + 12, "e n", "%s", LS_SECONDS(s->bars[i].value));
        ls_svg_text(out, width, y + 12, "e q n", "%s", LS_PERCENT(s->bars[i].value / s->whole));
        if (s->falls) begin += s->bars[i].value;
    }
    return (int)ls_svg_keys(out, 0, width, y + 6, s->keys, s->key_count) + 2;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Draws a bar of memory in three parts: states, activations, other. scale: pixels per byte. */
static void put_rung(FILE *out, const ls_plan_rung *rung, double scale, double y) {
    double end = ls_svg_rect(out, 0, y, ls_memo_states(rung->memory) * scale, BAR, "s");
    end = ls_svg_rect(out, end, y, ls_memo_activations(rung->memory) * scale, BAR, "a");
    ls_svg_rect(out, end, y, rung->bytes * scale - end, BAR, "o");
}

/* Writes the number behind a bar, where the line of the chip's capacity at x = `limit` does not cross it. */
static void put_rung_bytes(FILE *out, const ls_plan_rung *rung, double scale, double limit, double y) {
    double x = rung->bytes * scale + 8, wide = ls_svg_text_width(LS_GIB(rung->bytes)) * 1.1;
    if (x < limit + 4 && x + wide > limit - 4) x = limit + 8;
    ls_svg_text(out, x, y + 12, "t n", "%s", LS_GIB(rung->bytes));
}

/* Draws a bar of memory for each technique, and the line of the capacity. An ls_svg_draw; ctx is an ls_memo_facts. */
static int draw_ladder(FILE *out, int width, const void *ctx) {
    static const ls_svg_named keys[] = {
        {"s", "weights, gradients, optimizer"}, {"a", "activations and workspace"}, {"o", "other"}};
    const ls_memo_facts *f = ctx;
    const double capacity = f->choice.prediction.capacity_bytes;
    double most = capacity, y = 24;
    for (int i = 0; i < f->rungs; i++)
        if (f->rung[i].bytes > most) most = f->rung[i].bytes;
    double scale = (width - 90) / most, limit = capacity * scale;
    for (int i = 0; i < f->rungs; i++, y += 26) {
        y += ls_svg_paragraph(out, 0, y + 11, width, "n", f->rung[i].what);
        put_rung(out, &f->rung[i], scale, y);
        put_rung_bytes(out, &f->rung[i], scale, limit, y);
        ls_svg_line(out, limit, y - 1, limit, y + BAR + 1, "k");
    }
    ls_svg_text(out, limit > width / 2.0 ? limit : 0, 12, limit > width / 2.0 ? "kt n e" : "kt n",
                "the line: %s usable", LS_GIB(capacity));
    return (int)ls_svg_keys(out, 0, width, y + 6, keys, 3) + 2;
}

void ls_memo_ladder_chart(ls_page *page, const ls_memo_facts *f) {
    ls_page_add_chart(page, "memory", draw_ladder, f,
                      "Memory of the most loaded %s as each technique is added; the red line is its capacity.",
                      f->chip);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static const char *const time_looks[LS_TIME_KINDS] = {
    [LS_TIME_MATMUL] = "u",    [LS_TIME_ATTENTION] = "u", [LS_TIME_SMALL] = "u",     [LS_TIME_ENDS] = "u",
    [LS_TIME_RECOMPUTE] = "r", [LS_TIME_TP] = "m",        [LS_TIME_GATHER] = "m",    [LS_TIME_P2P] = "m",
    [LS_TIME_BUBBLE] = "i",    [LS_TIME_DP] = "m",        [LS_TIME_OPTIMIZER] = "o", [LS_TIME_OTHER] = "o"};

static const ls_svg_named time_keys[] = {
    {"u", "computing"}, {"r", "recomputation"}, {"m", "exposed communication"}, {"i", "idle"}, {"o", "other"}};

/* Collects the bars that are large enough to see, so they may add up to less than the whole; returns how many. */
static int fill_bars(const double *time, double whole, bar *bars) {
    int count = 0;
    for (int k = 0; k < LS_TIME_KINDS; k++)
        if (time[k] > 5e-4 * whole) bars[count++] = (bar){ls_time_kind_label((ls_time_kind)k), time_looks[k], time[k]};
    return count;
}

/* Sorts bars, the largest first. */
static void sort_bars(bar *bars, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && bars[k].value > bars[k - 1].value; k--) {
            bar keep = bars[k];
            bars[k] = bars[k - 1];
            bars[k - 1] = keep;
        }
}

void ls_memo_step_chart(ls_page *page, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    sheet s = {.facts = f, .whole = p->seconds, .keys = time_keys, .key_count = 5};
    s.count = fill_bars(p->time, p->seconds, s.bars);
    sort_bars(s.bars, s.count);
    s.scale_end = s.bars[0].value;
    ls_page_add_chart(page, "step", draw_bars, &s, "The %s of a step by kind, on the busiest stage.",
                      LS_SECONDS(p->seconds));
}

void ls_memo_loss_chart(ls_page *page, const ls_memo_facts *f) {
    static const ls_svg_named keys[] = {{"u", "useful"},
                                        {"o", "compute below peak rate, and other"},
                                        {"r", "recomputation"},
                                        {"m", "exposed communication"},
                                        {"i", "idle"}};
    double whole = f->choice.prediction.seconds;
    sheet s = {.facts = f, .whole = whole, .scale_end = whole, .falls = true, .keys = keys, .key_count = 5};
    s.bars[0] = (bar){"useful", "u", f->losses.useful};
    s.count = 1 + fill_bars(f->losses.lost, whole, s.bars + 1);
    sort_bars(s.bars + 1, s.count - 1);
    for (int i = 1; i < s.count; i++)
        if (s.bars[i].look[0] == 'u') s.bars[i].look = "o";
    ls_page_add_chart(page, "losses", draw_bars, &s,
                      "From the time that the model's FLOPs take at the rate of large matmuls to the whole step.");
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

enum { PANEL_HEIGHT = 200, PANEL_TOP = 46, GAP = 28 };

/* Lines of a panel, in the order in which they are drawn: the dashes on top leave what is below them to be seen. */
static const ls_svg_named lines[] = {
    {"l3", "ideal"}, {"l1", "best layout at each size"}, {"l2", "same layout, more replicas"}};

/* Returns the tokens per second of a line at this point; NaN if nothing fits. */
static double value_of(const ls_plan_point *p, int line) {
    double value = line == 0   ? p->ideal_tokens_per_second
                   : line == 1 ? p->tokens_per_second
                               : p->held_tokens_per_second;
    return value > 0 ? value : (double)NAN;
}

/* Draws the throughput by number of chips in a panel of its own; returns the y where it ends. chips: name of the lower
 * scale. */
static double put_panel(FILE *out, const ls_plan_point *points, int count, double left, double top, double width,
                        const char *title, const char *chips) {
    ls_svg_plot p = {.out = out, .top = top + PANEL_TOP, .height = PANEL_HEIGHT, .x_last = 1, .y_last = 1};
    for (int i = 0; i < count; i++) {
        if (points[i].chips > p.x_last) p.x_last = points[i].chips;
        for (int line = 0; line < 3; line++)
            if (value_of(&points[i], line) > p.y_last) p.y_last = value_of(&points[i], line);
    }
    p.left = left + ls_axis_room(0, p.y_last, false, LS_AXIS_NUMBER, 6);
    p.width = left + width - p.left - 14;
    ls_svg_text(out, left, top + 14, "t", "%s", title);
    ls_svg_text(out, left, top + 31, "q n", "tokens per second");
    ls_axis_draw_y(&p, LS_AXIS_NUMBER, 6);
    for (int line = 0; line < 3; line++) {
        ls_svg_curve_begin(&p, lines[line].look, 0);
        for (int i = 0; i < count; i++) ls_svg_curve_to(&p, points[i].chips, value_of(&points[i], line));
        ls_svg_curve_end(&p);
        for (int i = 0; line == 1 && i < count; i++) ls_svg_dot(&p, points[i].chips, value_of(&points[i], line), "u");
    }
    return p.top + p.height + ls_axis_draw_x(&p, left + width, LS_AXIS_NUMBER, chips);
}

/* Draws both panels, beside each other or on a phone one below the other. An ls_svg_draw; ctx is an ls_memo_facts. */
static int draw_scaling(FILE *out, int width, const void *ctx) {
    static const ls_svg_named keys[] = {
        {"l1", "best layout at each size"}, {"l2", "same layout, more replicas"}, {"l3", "ideal"}};
    const ls_memo_facts *f = ctx;
    bool narrow = ls_svg_is_narrow(width);
    double panel = narrow ? width : (width - GAP) / 2.0, top = ls_svg_keys(out, 0, width, 2, keys, 3) + 8;
    double y = put_panel(out, f->strong, f->strongs, 0, top, panel, "Same batch", f->chips);
    y = put_panel(out, f->weak, f->weaks, narrow ? 0 : panel + GAP, narrow ? y + 16 : top, panel,
                  "Batch grows with the cluster", f->chips);
    return (int)y + 2;
}

void ls_memo_scaling_chart(ls_page *page, const ls_memo_facts *f) {
    ls_page_add_chart(
        page, "scaling", draw_scaling, f,
        "Throughput by cluster size: with a constant global batch, and with one that grows in proportion.");
}
