/* pipe.c: simulates and draws the same pipeline stages with one micro-batch at a time and with many.
 *
 *     stage 0 |▇▇          ▇▇▇▇|      both on one time scale; empty: the stage is idle
 *     stage 1 |  ▇▇    ▇▇▇▇    |
 */
#include "plan/cost/cost_case.h"
#include "report/memo/facts.h"
#include "report/axis.h"

enum {
    LEFT = 62,
    EDGE = 8,        /* right of the lanes */
    DRAWN_MAX = 8,   /* micro-batches */
    BOXES_MAX = 3000 /* of a direction */
};

/* ---- which pipeline ---------------------------------------------------------------------------------------------- */

/* Sets *l to the chosen layout with pipeline stages, one for each node, else 4, else 2, taken from dp, else from tp.
 * Returns false, with *l unusable, if none of these layouts passes the planner's check. For the case that the search
 * found no pipeline that fits. */
static bool derive_pipeline(const ls_memo_facts *f, ls_knobs *l) {
    *l = f->choice.layout;
    int ways[] = {f->nodes, 4, 2};
    for (int i = 0; i < 3; i++) {
        *l = f->choice.layout;
        l->pp = ways[i];
        l->virtual_stages = 1;
        l->schedule = LS_SCHEDULE_1F1B;
        if (l->pp < 2) continue;
        if (l->dp % l->pp == 0)
            l->dp /= l->pp;
        else if (l->tp % l->pp == 0)
            l->tp /= l->pp;
        else
            continue;
        if (l->tp < 2) l->sequence_parallel = false;
        if (ls_plan_check(f->task, l) == LS_OK) return true;
    }
    return false;
}

/* Chooses the layout whose pipeline is drawn and sets pipe.chosen; returns false if none has several stages. */
static bool choose_pipeline(ls_memo_facts *f, ls_knobs *out) {
    f->pipe.chosen = f->choice.layout.pp > 1;
    if (f->pipe.chosen) {
        *out = f->choice.layout;
        return true;
    }
    /* Prefer a layout with at least one stage for each node. */
    for (int least = f->nodes > 2 ? f->nodes : 2; least > 1; least = least > 2 ? 2 : 1)
        for (int i = 0; i < f->found->fitting; i++)
            if (f->found->fits[i].layout.pp >= least) {
                *out = f->found->fits[i].layout;
                return true;
            }
    return derive_pipeline(f, out);
}

/* Computes the share of the time that stages are busy (*busy) in a whole step, and predicts the step. */
static ls_status simulate_pipeline(const ls_plan_task *task, const ls_knobs *l, double *busy, ls_prediction *step) {
    ls_plan_case c = ls_plan_case_of(task, l);
    ls_plan_chunks chunks;
    double work = 0, seconds, bubble;
    ls_plan_chunks_of(&c, &chunks);
    LS_TRY(ls_plan_pipeline_seconds(&c, chunks.forward, chunks.backward, chunks.send, &seconds, &bubble));
    for (int g = 0; g < l->pp * l->virtual_stages; g++) work += chunks.forward[g] + chunks.backward[g];
    *busy = work * c.micros / (l->pp * seconds);
    return ls_plan_predict(task, l, step);
}

ls_status ls_memo_pipe_find(ls_memo_facts *f) {
    ls_memo_pipe *pipe = &f->pipe;
    pipe->there = choose_pipeline(f, &pipe->micro);
    if (!pipe->there) return LS_OK;
    pipe->naive = pipe->plain = pipe->micro;
    pipe->naive.schedule = LS_SCHEDULE_NAIVE;
    pipe->plain.schedule = LS_SCHEDULE_1F1B;
    pipe->naive.virtual_stages = pipe->plain.virtual_stages = 1;
    LS_TRY(simulate_pipeline(f->task, &pipe->naive, &pipe->busy[0], &pipe->step[0]));
    LS_TRY(simulate_pipeline(f->task, &pipe->micro, &pipe->busy[1], &pipe->step[1]));
    return simulate_pipeline(f->task, &pipe->plain, &pipe->busy[2], &pipe->step[2]);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* A simulated schedule; to be freed by ls_simulation_free() and ls_schedule_free(). */
typedef struct course {
    ls_schedule schedule;
    ls_simulation simulation;
} course;

/* Simulates the layout with this many micro-batches, for the drawing. */
static ls_status simulate(const ls_plan_task *task, const ls_knobs *l, int micros, course *out) {
    ls_plan_case c = ls_plan_case_of(task, l);
    ls_plan_chunks chunks;
    ls_plan_chunks_of(&c, &chunks);
    return ls_plan_simulate(&c, micros, chunks.forward, chunks.backward, chunks.send, &out->schedule, &out->simulation);
}

/* Returns the height of a stage's lane in pixels; many stages have low lanes. */
static int lane_height(int stages) { return stages <= 8 ? 22 : stages <= 16 ? 14 : stages <= 32 ? 8 : 5; }

static const char *const looks[LS_ACTION_KINDS] = {"u", "b", "b", "a"};

/* Draws the actions of a stage at y; `plot` is as wide as the lanes, and its x is seconds. */
static void draw_lane(const ls_svg_plot *plot, const course *c, int stage, double y, int height) {
    const ls_schedule *s = &c->schedule;
    if (height >= 12 || stage % 8 == 0)
        ls_svg_text(plot->out, LEFT - 8, y + height / 2.0 + 4, "e q n", "stage %d", stage);
    ls_svg_rect(plot->out, LEFT, y, plot->width, height, "z");
    for (int i = 0; i < s->count[stage]; i++) {
        const ls_action *a = &s->actions[stage][i];
        const ls_simulated_action *when = &c->simulation.actions[stage][i];
        ls_svg_action(plot, when->start, when->end, y, height, looks[a->kind], a->chunk % 2, a->micro + 1, NULL);
    }
}

/* Draws a title and the lanes of all stages from y on; returns the y where they end. */
static double draw_course(const ls_svg_plot *plot, const course *c, const char *title, double y) {
    int stages = c->schedule.stages, height = lane_height(stages), gap = height > 8 ? 3 : 1;
    y += ls_svg_paragraph(plot->out, 0, y + 14, LEFT + plot->width, "t n", title) + 6;
    for (int s = 0; s < stages; s++, y += height + gap) draw_lane(plot, c, s, y, height);
    return y;
}

/* Returns how many of the micro-batches are drawn, so that boxes stay few and visible. */
static int count_drawn_micros(const ls_knobs *l, int micros) {
    int most = l->pp > DRAWN_MAX ? l->pp + 4 : DRAWN_MAX, units = l->pp * l->virtual_stages;
    while (most > 1 && most * units > BOXES_MAX) most--;
    return micros < most ? micros : most;
}

typedef struct sheet {
    const ls_memo_pipe *pipe;
    course course[3]; /* naive, micro, plain */
    double span;      /* seconds of the longest */
} sheet;

/* Draws the schedules, one below the other, on one time scale. An ls_svg_draw; ctx is a sheet. */
static int draw_pipeline(FILE *out, int width, const void *ctx) {
    const sheet *s = ctx;
    const ls_memo_pipe *pipe = s->pipe;
    static const ls_svg_named keys[] = {{"u", "forward"}, {"b", "backward"}, {"a", "backward (weights)"}};
    bool apart = pipe->micro.schedule == LS_SCHEDULE_ZERO_BUBBLE;
    ls_svg_plot plot = {.out = out, .left = LEFT, .width = width - LEFT - EDGE, .x_last = s->span};
    char title[160];
    double y = ls_svg_keys(out, 0, width, 2, keys, apart ? 3 : 2);
    snprintf(title, sizeof title, "Model split into stages, one micro-batch at a time: stages busy %s of a step",
             LS_PERCENT(pipe->busy[0]));
    y = draw_course(&plot, &s->course[0], title, y);
    if (pipe->micro.virtual_stages > 1) {
        snprintf(title, sizeof title, "The same stages with 1f1b: busy %s", LS_PERCENT(pipe->busy[2]));
        y = draw_course(&plot, &s->course[2], title, y + 8);
        snprintf(title, sizeof title, "Interleaved, %d chunks per stage: busy %s", pipe->micro.virtual_stages,
                 LS_PERCENT(pipe->busy[1]));
    } else {
        snprintf(title, sizeof title, "The same stages with %s: busy %s", ls_schedule_kind_name(pipe->micro.schedule),
                 LS_PERCENT(pipe->busy[1]));
    }
    plot.top = draw_course(&plot, &s->course[1], title, y + 8) + 3.5;
    return (int)(plot.top + ls_axis_draw_x(&plot, width, LS_AXIS_SECONDS, "time")) + 2;
}

/* Adds the chart with a caption that says how many micro-batches are drawn. */
static void add_chart(ls_page *page, const sheet *s, int drawn) {
    const ls_memo_pipe *pipe = s->pipe;
    int micros = pipe->step[1].micros;
    double naive = s->course[0].simulation.seconds, micro = s->course[1].simulation.seconds;
    if (drawn == micros)
        ls_page_add_chart(page, "timelines", draw_pipeline, s,
                          "One replica and all %d micro-batches of a step: %s instead of %s. An empty lane is idle.",
                          micros, LS_SECONDS(micro), LS_SECONDS(naive));
    else
        ls_page_add_chart(page, "timelines", draw_pipeline, s,
                          "One replica, micro-batches 1 to %d of %d in a step. With so few, %s takes %s instead of %s; "
                          "the percentages above are for all %d. An empty lane is idle.%s",
                          drawn, micros, ls_schedule_kind_name(pipe->micro.schedule), LS_SECONDS(micro),
                          LS_SECONDS(naive), micros,
                          pipe->micro.virtual_stages > 1 ? " Every second chunk of a stage has a light edge." : "");
}

ls_status ls_memo_timeline_chart(ls_page *page, const ls_memo_facts *f) {
    const ls_knobs *const layouts[] = {&f->pipe.naive, &f->pipe.micro, &f->pipe.plain};
    sheet s = {.pipe = &f->pipe};
    int made = 0, drawn = count_drawn_micros(&f->pipe.micro, f->pipe.step[1].micros);
    ls_status status = LS_OK;
    for (; made < 3; made++) {
        LS_TRY_OUT(simulate(f->task, layouts[made], drawn, &s.course[made]));
        if (s.course[made].simulation.seconds > s.span) s.span = s.course[made].simulation.seconds;
    }
    add_chart(page, &s, drawn);
out:
    while (made-- > 0) {
        ls_simulation_free(&s.course[made].simulation);
        ls_schedule_free(&s.course[made].schedule);
    }
    return status;
}
