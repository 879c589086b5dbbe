/* charts.c: bars and curves of a memo.
 *
 *     one GPU with everything
 *     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 1,262 GiB        ladder: what a technique leaves; a line where memory ends
 *         matmuls ▇▇▇▇▇▇▇▇▇▇▇ 4.1 s  61 %        bars: kinds of time; each begins where the last ended, in the chart of
 *     tensor par.            ▇▇ 0.7 s  10 %      losses
 */
#include <math.h>

#include "report/memo/facts.h"
#include "report/svg.h"

enum { WIDTH = 720, NAMES = 150, FIGURES = 122, ROW = 24, BAR = 16 };

typedef struct bar {
    const char *name, *look;
    double value;
} bar;

static void put_keys(FILE *out, double y, const ls_svg_named *keys, int count) {
    double x = 0;
    for (int i = 0; i < count; i++) x = ls_svg_key(out, x, y, keys[i].look, keys[i].name);
}

/* Rows of bars; with `falls` each begins where the one before it ended. Returns where they end. */
static double put_bars(FILE *out, const bar *bars, int count, double whole, double scale_end, bool falls, double y) {
    double scale = (WIDTH - NAMES - FIGURES) / scale_end, begin = 0;
    for (int i = 0; i < count; i++, y += ROW) {
        double wide = bars[i].value * scale;
        ls_svg_text(out, NAMES - 10, y + 12, "e", "%s", bars[i].name);
        ls_svg_rect(out, NAMES + begin * scale, y, wide > .5 ? wide : .5, BAR, bars[i].look);
        ls_svg_text(out, WIDTH - 54, y + 12, "e", "%s", LS_SECONDS(bars[i].value));
        ls_svg_text(out, WIDTH, y + 12, "e q", "%s", LS_PERCENT(bars[i].value / whole));
        if (falls) begin += bars[i].value;
    }
    return y;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void put_rung(FILE *out, const ls_plan_rung *rung, double scale, double y) {
    double end = ls_svg_rect(out, 0, y + 16, ls_memo_states(rung->memory) * scale, BAR, "s");
    end = ls_svg_rect(out, end, y + 16, ls_memo_activations(rung->memory) * scale, BAR, "a");
    ls_svg_rect(out, end, y + 16, rung->bytes * scale - end, BAR, "o");
    ls_svg_text(out, 0, y + 11, "n", "%s", rung->what);
    ls_svg_text(out, rung->bytes * scale + 8, y + 28, "t n", "%s", LS_GIB(rung->bytes));
}

void ls_memo_ladder_chart(ls_page *page, const ls_memo_facts *f) {
    static const ls_svg_named keys[] = {
        {"s", "weights, gradients, optimizer"}, {"a", "activations and workspace"}, {"o", "other"}};
    const double capacity = f->choice.prediction.capacity_bytes;
    double most = capacity, y = 24;
    for (int i = 0; i < f->rungs; i++)
        if (f->rung[i].bytes > most) most = f->rung[i].bytes;
    double scale = (WIDTH - 90) / most, limit = capacity * scale;
    FILE *out = ls_page_begin_chart(page, "memory");
    for (int i = 0; i < f->rungs; i++, y += 40) {
        put_rung(out, &f->rung[i], scale, y);
        ls_svg_line(out, limit, y + 15, limit, y + 33, "k");
    }
    ls_svg_text(out, limit, 12, limit > WIDTH / 2 ? "kt n e" : "kt n", "%s usable", LS_GIB(capacity));
    put_keys(out, y + 6, keys, 3);
    ls_page_end_chart(page, WIDTH, (int)y + 24,
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

/* What is too little to be seen is left out: the sum of a chart may be short by that. */
static int fill_bars(const double *time, double whole, bar *bars) {
    int count = 0;
    for (int k = 0; k < LS_TIME_KINDS; k++)
        if (time[k] > 5e-4 * whole) bars[count++] = (bar){ls_time_kind_label((ls_time_kind)k), time_looks[k], time[k]};
    return count;
}

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
    bar bars[LS_TIME_KINDS];
    int count = fill_bars(p->time, p->seconds, bars);
    sort_bars(bars, count);
    FILE *out = ls_page_begin_chart(page, "step");
    double y = put_bars(out, bars, count, p->seconds, bars[0].value, false, 4);
    put_keys(out, y + 6, time_keys, 5);
    ls_page_end_chart(page, WIDTH, (int)y + 24, "The %s of a step by kind, on the busiest stage.",
                      LS_SECONDS(p->seconds));
}

void ls_memo_loss_chart(ls_page *page, const ls_memo_facts *f) {
    static const ls_svg_named keys[] = {{"u", "useful"},
                                        {"o", "compute below peak rate, and other"},
                                        {"r", "recomputation"},
                                        {"m", "exposed communication"},
                                        {"i", "idle"}};
    double whole = f->choice.prediction.seconds;
    bar bars[LS_TIME_KINDS + 1] = {{"useful", "u", f->losses.useful}};
    int count = 1 + fill_bars(f->losses.lost, whole, bars + 1);
    sort_bars(bars + 1, count - 1);
    for (int i = 1; i < count; i++)
        if (bars[i].look[0] == 'u') bars[i].look = "o";
    FILE *out = ls_page_begin_chart(page, "losses");
    double y = put_bars(out, bars, count, whole, whole, true, 4);
    put_keys(out, y + 6, keys, 5);
    ls_page_end_chart(page, WIDTH, (int)y + 24,
                      "From the time that the model's FLOPs take at the rate of large matmuls to the whole step.");
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

enum { PANEL = 340, PLOT_LEFT = 58, PLOT_TOP = 34, PLOT_HEIGHT = 200 };

/* Lines of a panel, in the order in which they are drawn: the dashes on top leave what is below them to be seen. */
static const ls_svg_named lines[] = {
    {"l3", "ideal"}, {"l1", "best layout at each size"}, {"l2", "same layout, more replicas"}};

/* NAN where nothing fits. */
static double value_of(const ls_plan_point *p, int line) {
    double value = line == 0   ? p->ideal_tokens_per_second
                   : line == 1 ? p->tokens_per_second
                               : p->held_tokens_per_second;
    return value > 0 ? value : (double)NAN;
}

static void put_sizes(const ls_svg_plot *p, const ls_plan_point *points, int count) {
    double last = -100;
    for (int i = 0; i < count; i++) {
        double x = ls_svg_x(p, points[i].chips);
        if (x - last < 30) continue;
        ls_svg_text(p->out, x, PLOT_TOP + PLOT_HEIGHT + 16, "c q n", "%s", LS_WHOLE(points[i].chips));
        last = x;
    }
}

static void put_panel(FILE *out, const ls_plan_point *points, int count, int left, const char *title,
                      const char *chips) {
    ls_svg_plot p = {.out = out,
                     .left = left + PLOT_LEFT,
                     .top = PLOT_TOP,
                     .width = PANEL - PLOT_LEFT - 14,
                     .height = PLOT_HEIGHT,
                     .x_last = 1,
                     .y_last = 1};
    for (int i = 0; i < count; i++) {
        if (points[i].chips > p.x_last) p.x_last = points[i].chips;
        for (int line = 0; line < 3; line++)
            if (value_of(&points[i], line) > p.y_last) p.y_last = value_of(&points[i], line);
    }
    ls_svg_text(out, p.left, 14, "t", "%s", title);
    ls_svg_grid(&p, 6);
    put_sizes(&p, points, count);
    ls_svg_text(out, p.left, PLOT_TOP + PLOT_HEIGHT + 32, "q n", "%s; tokens per second on the y axis", chips);
    for (int line = 0; line < 3; line++) {
        ls_svg_curve_begin(&p, lines[line].look, 0);
        for (int i = 0; i < count; i++) ls_svg_curve_to(&p, points[i].chips, value_of(&points[i], line));
        ls_svg_curve_end(&p);
        for (int i = 0; line == 1 && i < count; i++) ls_svg_dot(&p, points[i].chips, value_of(&points[i], line), "u");
    }
}

void ls_memo_scaling_chart(ls_page *page, const ls_memo_facts *f) {
    static const int legend[] = {1, 2, 0};
    int y = PLOT_TOP + PLOT_HEIGHT + 46;
    FILE *out = ls_page_begin_chart(page, "scaling");
    put_panel(out, f->strong, f->strongs, 0, "Same batch", f->chips);
    put_panel(out, f->weak, f->weaks, WIDTH - PANEL, "Batch grows with the cluster", f->chips);
    for (int i = 0; i < 3; i++) ls_svg_key(out, PLOT_LEFT + 235 * i, y, lines[legend[i]].look, lines[legend[i]].name);
    ls_page_end_chart(page, WIDTH, y + 20,
                      "Throughput by cluster size. Left: the global batch is constant. Right: it grows in proportion.");
}
