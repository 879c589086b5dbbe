/* layered.h: models with enough layers, heads and ids for any layout of a few workers, every number of them odd; and
 * layouts of them, written down shortly. */
#ifndef LAYERED_H
#define LAYERED_H

#include "ask.h"
#include "model/model.h"
#include "parallel/layout/layout.h"
#include "tiny_partition.h"

enum { LAYERED_SLICES = 4, LAYERED_T = 5 };

/* Weights of more than a block of 1024 elements, and a tied table. */
static inline ls_shape layered_gpt2(void) {
    ls_shape shape = tiny_gpt2();
    shape.V = 259;
    shape.C = 48;
    shape.L = 5;
    shape.H = shape.kv_heads = 6;
    shape.head_size = 8;
    shape.hidden = 77;
    shape.T = LAYERED_T;
    return shape;
}

/* Grouped heads, five of them for four slices, and a table of its own for the head. */
static inline ls_shape layered_llama(void) {
    ls_shape shape = tiny_llama();
    shape.V = 263;
    shape.C = 34;
    shape.L = 5;
    shape.H = 10;
    shape.kv_heads = 5;
    shape.head_size = 6;
    shape.hidden = 43;
    shape.T = LAYERED_T;
    return shape;
}

/* What is 0 or NULL is left to ls_layout_make(), but for the micro-batch, which must be said. */
typedef struct layered_request {
    int dp, tp, pp, zero;
    const char *schedule;
    int virtual_stages;
    size_t micro;
    ls_recompute recompute;
    bool sequence_parallel;
    const char *shares, *stages;
} layered_request;

static inline ls_layout layered_layout(const layered_request *w, const ls_layout_task *task) {
    ls_layout_request request = ls_layout_request_none();
    ls_layout layout;
    int kind;
    ask(&request, LS_KNOB_dp, w->dp);
    ask(&request, LS_KNOB_tp, w->tp);
    ask(&request, LS_KNOB_pp, w->pp);
    ask(&request, LS_KNOB_zero, w->zero);
    ask(&request, LS_KNOB_virtual_stages, w->virtual_stages);
    ask(&request, LS_KNOB_micro, w->micro);
    ls_knob_give(&request, LS_KNOB_recompute, (int)w->recompute);
    ask(&request, LS_KNOB_sequence_parallel, w->sequence_parallel);
    request.shares = w->shares;
    request.stages = w->stages;
    if (w->schedule) {
        assert_true(ls_choice_find(LS_CHOICES(LS_SCHEDULE_LIST), w->schedule, &kind));
        ls_knob_give(&request, LS_KNOB_schedule, kind);
    }
    if (ls_layout_make(&request, task, &layout) != LS_OK) fail_msg("%s", ls_status_message());
    return layout;
}

#endif
