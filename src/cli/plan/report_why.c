/* report_why.c: the second half of the answer: how it comes to fit, what stops it, what to change, how it scales.
 */
#include <stdio.h>

#include "cli/plan/command.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

enum { CHANGES = 3, LOSSES = 4 };

static void print_ladder(const ls_plan_answer *a) {
    printf("\nmemory needed, technique by technique (%.1f GiB available)\n", a->best->prediction.capacity_bytes / GIB);
    for (int i = 0; i < a->rungs; i++)
        printf("  %10.1f GiB  %s%s\n", a->rung[i].bytes / GIB, i > 0 ? "+ " : "", a->rung[i].what);
}

/* The largest losses first; there are few enough to look through them each time. */
static void print_losses(const ls_plan_answer *a) {
    double step = a->best->prediction.seconds;
    bool shown[LS_TIME_KINDS] = {false};
    printf("\nwhy it is not faster\n");
    printf("  %5.1f %% of the step would remain at the rate of large matmuls\n", 100 * a->losses.useful / step);
    for (int n = 0; n < LOSSES; n++) {
        int at = -1;
        for (int k = 0; k < LS_TIME_KINDS; k++)
            if (!shown[k] && (at < 0 || a->losses.lost[k] > a->losses.lost[at])) at = k;
        if (a->losses.lost[at] < .001 * step) break;
        shown[at] = true;
        const char *what = at == LS_TIME_MATMUL      ? ": shapes that do not fill the chip, uneven stages"
                           : at == LS_TIME_ATTENTION ? ": slower than matmuls"
                                                     : "";
        printf("  %5.1f %% lost to %s%s\n", 100 * a->losses.lost[at] / step, ls_time_kind_label((ls_time_kind)at),
               what);
    }
    printf("  largest loss apart from matmuls and attention: %s\n", ls_time_kind_label(a->losses.worst));
}

static void print_changes(const ls_plan_answer *a) {
    int shown = 0;
    for (int i = 0; i < a->changes && shown < CHANGES; i++) {
        if (a->change[i].gain < .0005) break;
        if (shown++ == 0) printf("\nchanges that would help most\n");
        printf("  %5.1f %% less time  %s\n", 100 * a->change[i].gain, a->change[i].what);
    }
    if (shown == 0) printf("\nno single change would help\n");
}

static const ls_plan_point *point_of(const ls_plan_point *list, int count, int chips) {
    for (int i = 0; i < count; i++)
        if (list[i].chips == chips) return &list[i];
    return NULL;
}

static void print_share(double rate, double ideal) {
    if (rate > 0)
        printf(" %7.1f %%", 100 * rate / ideal);
    else
        printf(" %9s", "-");
}

static void print_scaling(const ls_plan_answer *a) {
    char text[LS_PLAN_TEXT_MAX];
    if (a->weak_points < 2) return;
    printf("\n%-8s %14s %9s %9s %9s  %s\n", "scaling", "batch grows", "of ideal", "same", "batch", "layout chosen");
    printf("%8s %14s %9s %9s %9s\n", "chips", "tokens/s", "", "layout", "stays");
    for (int i = 0; i < a->weak_points; i++) {
        const ls_plan_point *w = &a->weak[i], *s = point_of(a->strong, a->strong_points, w->chips);
        printf("%8d %14.0f", w->chips, w->tokens_per_second);
        print_share(w->tokens_per_second, w->ideal_tokens_per_second);
        print_share(w->held_tokens_per_second, w->ideal_tokens_per_second);
        print_share(s ? s->tokens_per_second : 0, s ? s->ideal_tokens_per_second : 1);
        text[0] = '\0';
        if (w->best.prediction.seconds > 0)
            ls_knobs_text(&w->best.layout, LS_WORDS_BRIEF, NULL, NULL, text, sizeof text);
        printf("  %s\n", w->best.prediction.seconds > 0 ? text : "nothing fits");
    }
}

void ls_plan_report_why(const ls_plan_answer *a) {
    print_ladder(a);
    print_losses(a);
    print_changes(a);
    print_scaling(a);
}
