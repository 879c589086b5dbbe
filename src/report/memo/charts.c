/* charts.c: bars and curves of a memo.
 *
 *     one GPU with everything
 *     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇ 1,262 GiB        ladder: what a technique leaves; a line where memory ends
 *        products ▇▇▇▇▇▇▇▇▇▇▇ 4.1 s  61 %        bars: kinds of time; each begins where the last ended, in the chart of
 *     tensor par.            ▇▇ 0.7 s  10 %      losses
 */
#include "report/memo/facts.h"

enum { WIDTH = 720, NAMES = 150, FIGURES = 122, ROW = 24, BAR = 16 };

typedef struct bar {
    const char *name, *style;
    double value;
} bar;

static void put_text(ls_memo_doc *doc, double x, double y, const char *style, const char *text) {
    if (doc->failed) return;
    ls_memo_put(doc, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
    if (doc->open) ls_memo_escape(doc->open, text);
    ls_memo_put(doc, "</text>");
}

static void put_rect(ls_memo_doc *doc, double x, double y, double width, double height, const char *style) {
    ls_memo_put(doc, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%s\"/>", x, y, width, height,
                style);
}

/* Pairs of style and name, the list ends with NULL. */
static void put_legend(ls_memo_doc *doc, double x, double y, const char *const *pairs) {
    for (; *pairs; pairs += 2) {
        int length = 0;
        for (const char *c = pairs[1]; *c; c++) length++;
        put_rect(doc, x, y, 12, 12, pairs[0]);
        put_text(doc, x + 18, y + 10, "n", pairs[1]);
        x += 38 + 6.2 * length;
    }
    ls_memo_put(doc, "\n");
}

/* Rows of bars; with `falls` each begins where the one before it ended. Returns where they end. */
static double put_bars(ls_memo_doc *doc, const bar *bars, int count, double whole, double scale_end, bool falls,
                       ls_memo_number (*number)(double), double y) {
    double scale = (WIDTH - NAMES - FIGURES) / scale_end, begin = 0;
    for (int i = 0; i < count; i++, y += ROW) {
        double x = NAMES + begin * scale, wide = bars[i].value * scale;
        char figures[80];
        put_text(doc, NAMES - 10, y + 12, "e", bars[i].name);
        put_rect(doc, x, y, wide > .5 ? wide : .5, BAR, bars[i].style);
        snprintf(figures, sizeof figures, "%s", number(bars[i].value).text);
        put_text(doc, WIDTH - 54, y + 12, "e", figures);
        put_text(doc, WIDTH, y + 12, "e q", ls_memo_percent(bars[i].value / whole).text);
        if (falls) begin += bars[i].value;
        ls_memo_put(doc, "\n");
    }
    return y;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static double states_of(const double *memory) {
    return memory[LS_MEMORY_WEIGHTS] + memory[LS_MEMORY_GRADIENTS] + memory[LS_MEMORY_OPTIMIZER];
}

static double activations_of(const double *memory) { return memory[LS_MEMORY_ACTIVATIONS] + memory[LS_MEMORY_WORK]; }

static void put_rung(ls_memo_doc *doc, const ls_plan_rung *rung, double scale, double y) {
    double states = states_of(rung->memory) * scale, held = activations_of(rung->memory) * scale,
           all = rung->bytes * scale;
    put_text(doc, 0, y + 11, "n", rung->what);
    put_rect(doc, 0, y + 16, states, BAR, "s");
    put_rect(doc, states, y + 16, held, BAR, "a");
    put_rect(doc, states + held, y + 16, all - states - held > 0 ? all - states - held : 0, BAR, "o");
    put_text(doc, all + 8, y + 28, "t n", ls_memo_gib(rung->bytes).text);
    ls_memo_put(doc, "\n");
}

void ls_memo_ladder_chart(ls_memo_doc *doc, const ls_memo_facts *f) {
    const double room = f->choice.prediction.capacity_bytes;
    double most = room, y = 24;
    for (int i = 0; i < f->rungs; i++)
        if (f->rung[i].bytes > most) most = f->rung[i].bytes;
    double scale = (WIDTH - 90) / most, end = y + 40 * f->rungs;
    const char *const names[] = {"s", "weights, gradients, optimizer", "a", "activations and workspace", "o", "other",
                                 NULL};
    char limit[64];
    ls_memo_begin(doc, LS_MEMO_CHART, "memory");
    for (int i = 0; i < f->rungs; i++, y += 40) {
        put_rung(doc, &f->rung[i], scale, y);
        ls_memo_put(doc, "<path d=\"M%.1f %.1fv18\" class=\"k\"/>\n", room * scale, y + 15);
    }
    snprintf(limit, sizeof limit, "%s usable", ls_memo_gib(room).text);
    bool left = room * scale > WIDTH / 2;
    put_text(doc, room * scale, 12, left ? "kt n e" : "kt n", limit);
    put_legend(doc, 0, end + 6, names);
    ls_memo_end_chart(doc, WIDTH, (int)end + 24,
                      "Memory of the most loaded %s as each technique is added; the red line is its capacity.",
                      f->chip);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static const char *const time_styles[LS_TIME_KINDS] = {
    [LS_TIME_MATMUL] = "u",    [LS_TIME_ATTENTION] = "u", [LS_TIME_SMALL] = "u",     [LS_TIME_ENDS] = "u",
    [LS_TIME_RECOMPUTE] = "r", [LS_TIME_TP] = "m",        [LS_TIME_GATHER] = "m",    [LS_TIME_P2P] = "m",
    [LS_TIME_BUBBLE] = "i",    [LS_TIME_DP] = "m",        [LS_TIME_OPTIMIZER] = "o", [LS_TIME_OTHER] = "o"};

static const char *const time_legend[] = {"u", "computing", "r", "recomputation", "m", "exposed communication",
                                          "i", "idle",      "o", "other",         NULL};

/* What is too little to be seen is left out: the sum of a chart may be short by that. */
static int fill_bars(const double *time, double whole, bar *bars) {
    int count = 0;
    for (int k = 0; k < LS_TIME_KINDS; k++)
        if (time[k] > 5e-4 * whole) bars[count++] = (bar){ls_time_kind_label((ls_time_kind)k), time_styles[k], time[k]};
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

void ls_memo_step_chart(ls_memo_doc *doc, const ls_memo_facts *f) {
    const ls_prediction *p = &f->choice.prediction;
    bar bars[LS_TIME_KINDS];
    int count = fill_bars(p->time, p->seconds, bars);
    sort_bars(bars, count);
    ls_memo_begin(doc, LS_MEMO_CHART, "step");
    double y = put_bars(doc, bars, count, p->seconds, bars[0].value, false, ls_memo_seconds, 4);
    put_legend(doc, 0, y + 6, time_legend);
    ls_memo_end_chart(doc, WIDTH, (int)y + 24, "The %s of a step by kind, on the busiest stage.",
                      ls_memo_seconds(p->seconds).text);
}

void ls_memo_loss_chart(ls_memo_doc *doc, const ls_memo_facts *f) {
    double whole = f->choice.prediction.seconds;
    bar bars[LS_TIME_KINDS + 1] = {{"useful", "u", f->losses.useful}};
    int count = 1 + fill_bars(f->losses.lost, whole, bars + 1);
    sort_bars(bars + 1, count - 1);
    for (int i = 1; i < count; i++)
        if (bars[i].style[0] == 'u') bars[i].style = "o";
    const char *const names[] = {"u", "useful",        "o", "compute below peak rate, and other",
                                 "r", "recomputation", "m", "exposed communication",
                                 "i", "idle",          NULL};
    ls_memo_begin(doc, LS_MEMO_CHART, "losses");
    double y = put_bars(doc, bars, count, whole, whole, true, ls_memo_seconds, 4);
    put_legend(doc, 0, y + 6, names);
    ls_memo_end_chart(doc, WIDTH, (int)y + 24,
                      "From the time that the model's FLOPs take at the rate of large matmuls to the whole step.");
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

enum { PANEL = 340, PLOT_LEFT = 58, PLOT_TOP = 34, PLOT_HEIGHT = 200 };

typedef struct panel {
    const ls_plan_point *point;
    int count, left;
    double most_chips, most_tokens;
} panel;

static double x_of(const panel *p, double chips) {
    return p->left + PLOT_LEFT + chips / p->most_chips * (PANEL - PLOT_LEFT - 14);
}

static double y_of(const panel *p, double tokens) {
    return PLOT_TOP + PLOT_HEIGHT - tokens / p->most_tokens * PLOT_HEIGHT;
}

static double value_of(const ls_plan_point *p, int line) {
    return line == 0 ? p->ideal_tokens_per_second : line == 1 ? p->held_tokens_per_second : p->tokens_per_second;
}

static void put_curve(ls_memo_doc *doc, const panel *p, int line, const char *style, const char *dots) {
    bool drawing = false;
    ls_memo_put(doc, "<path class=\"%s\" d=\"", style);
    for (int i = 0; i < p->count; i++) {
        double value = value_of(&p->point[i], line);
        if (value > 0) ls_memo_put(doc, "%c%.1f %.1f", drawing ? 'L' : 'M', x_of(p, p->point[i].chips), y_of(p, value));
        drawing = value > 0;
    }
    ls_memo_put(doc, "%s\"/>", p->count > 0 ? "" : "M0 0");
    for (int i = 0; dots && i < p->count; i++)
        if (value_of(&p->point[i], line) > 0)
            ls_memo_put(doc, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"%s\"/>", x_of(p, p->point[i].chips),
                        y_of(p, value_of(&p->point[i], line)), dots);
    ls_memo_put(doc, "\n");
}

static void put_axes(ls_memo_doc *doc, const panel *p, const char *title, const char *unit) {
    const double factors[] = {2, 2.5, 2};
    double every = 1, last = -100;
    for (int i = 0; p->most_tokens / every > 6; i = (i + 1) % 3) every *= factors[i];
    put_text(doc, p->left + PLOT_LEFT, 14, "t", title);
    for (int i = 0; i * every <= p->most_tokens; i++) {
        double y = y_of(p, i * every);
        ls_memo_put(doc, "<path d=\"M%d %.1fH%d\" class=\"g\"/>", p->left + PLOT_LEFT, y, p->left + PANEL - 14);
        put_text(doc, p->left + PLOT_LEFT - 6, y + 4, "e q n", ls_memo_whole(i * every).text);
    }
    for (int i = 0; i < p->count; i++) {
        double x = x_of(p, p->point[i].chips);
        if (x - last < 30) continue;
        put_text(doc, x, PLOT_TOP + PLOT_HEIGHT + 16, "c q n", ls_memo_whole(p->point[i].chips).text);
        last = x;
    }
    put_text(doc, p->left + PLOT_LEFT, PLOT_TOP + PLOT_HEIGHT + 32, "q n", unit);
    ls_memo_put(doc, "\n");
}

static void put_panel(ls_memo_doc *doc, const ls_plan_point *points, int count, int left, const char *title,
                      const char *unit) {
    panel p = {.point = points, .count = count, .left = left, .most_chips = 1, .most_tokens = 1};
    for (int i = 0; i < count; i++) {
        if (points[i].chips > p.most_chips) p.most_chips = points[i].chips;
        for (int line = 0; line < 3; line++)
            if (value_of(&points[i], line) > p.most_tokens) p.most_tokens = value_of(&points[i], line);
    }
    put_axes(doc, &p, title, unit);
    put_curve(doc, &p, 0, "l3", NULL);
    put_curve(doc, &p, 2, "l1", "u");
    put_curve(doc, &p, 1, "l2", NULL); /* on top: its dashes leave the other one to be seen */
}

void ls_memo_scaling_chart(ls_memo_doc *doc, const ls_memo_facts *f) {
    const char *const names[] = {"best layout at each size", "same layout, more replicas", "ideal"};
    const char *const styles[] = {"l1", "l2", "l3"};
    char unit[64];
    int x = PLOT_LEFT, y = PLOT_TOP + PLOT_HEIGHT + 52;
    snprintf(unit, sizeof unit, "%s; tokens per second on the y axis", f->chips);
    ls_memo_begin(doc, LS_MEMO_CHART, "scaling");
    put_panel(doc, f->strong, f->strongs, 0, "Same batch", unit);
    put_panel(doc, f->weak, f->weaks, WIDTH - PANEL, "Batch grows with the cluster", unit);
    for (int i = 0; i < 3; i++, x += 235) {
        ls_memo_put(doc, "<path d=\"M%d %dh26\" class=\"%s\"/>", x, y, styles[i]);
        put_text(doc, x + 34, y + 4, "n", names[i]);
    }
    ls_memo_end_chart(doc, WIDTH, y + 14,
                      "Throughput by cluster size. Left: the global batch is constant. Right: it grows in proportion.");
}
