/* timeline.h: one step of a traced run: busy and waiting time of each worker, and the time that the schedule predicts.
 *
 *     |<------------------------------- step ------------------------------->|
 *           |<------------ work ------------>|
 *           [F0][F1] wait [B0]  wait [B1]  [finish][optimizer][publish]
 *
 * `Work` lasts from the start of the first action of any worker to the end of the last one. For each worker it divides
 * into
 *
 *   busy      inside its actions, without waiting
 *   waiting   inside its actions, for workers that share layers with it (tp) or for weights (zero 3)
 *   bubble    outside its actions: it waits for input from other stages, or has finished
 *
 * The prediction is a simulation (parallel/simulate.h) of the lists of actions that were run, each action with its mean
 * duration in this step on this stage, times the size of its micro-batch, the same on all stages; sends take no time.
 * So measured minus predicted bubble is the cost of sends and of uneven durations.
 *
 * Workers are those of a mesh (parallel/layout.h): with W workers on P stages, worker r is on stage r / (W/P), and
 * workers with equal r mod (W/P) form a pipeline. The trace shows it: chunk g is on stage g mod P. */
#ifndef LS_OBSERVE_TIMELINE_H
#define LS_OBSERVE_TIMELINE_H

#include "observe/kernels.h"
#include "observe/trace_read.h"
#include "parallel/schedule/simulate.h"

/* Gradient reductions of one worker, in microseconds. */
typedef struct ls_timeline_reductions {
    int count;
    uint64_t bytes;
    double under_way;   /* at least one of them was */
    double in_backward; /* of that: inside backward actions, less waits for them in there */
    double exposed;     /* the worker waited for them */
} ls_timeline_reductions;

typedef struct ls_timeline_worker {
    int stage, pipeline;
    const ls_trace_span *spans; /* of the step; the trace's */
    size_t count;
    double begin_us, end_us;      /* of its step */
    double us[LS_MARK_KINDS];     /* in all, of spans of each kind */
    double waiting_us;            /* inside its actions */
    double busy, waiting, bubble; /* parts of work; their sum is 1 */
    double predicted_bubble;      /* NaN without a prediction */
    ls_timeline_reductions reductions;
} ls_timeline_worker;

typedef struct ls_timeline {
    int64_t step, first_step, last_step; /* the last two: of whole steps in the trace */
    uint64_t dropped_events;
    int workers, stages, pipelines, chunks; /* chunks of a stage */
    int dp, tp;                             /* 0: not known */
    double begin_us, end_us, work_begin_us, work_end_us;
    ls_timeline_worker *worker;
    /* By pipeline; NULL where there is no prediction, and the reason then. */
    ls_schedule *schedule;
    ls_simulation *prediction;
    char no_prediction[LS_MESSAGE_MAX];
    ls_kernels kernels; /* without lanes where no device told of its queues */
} ls_timeline;

/* Step `step` of the trace, or the middle one of those that are whole (0). The trace must outlive the timeline.
 * LS_ERR_INPUT where the step is not in the trace, or is no step that workers of one run can have made. After a failure
 * there is nothing to free. */
ls_status ls_timeline_make(const ls_trace *trace, const char *source, int64_t step, ls_timeline *out);
void ls_timeline_free(ls_timeline *timeline);
/* Says that dp × tp workers are on each stage; ignored where there are not so many. */
void ls_timeline_set_mesh(ls_timeline *timeline, int dp, int tp, int pp);

double ls_timeline_predicted_us(const ls_timeline *timeline); /* of work, of the slowest pipeline; NaN: none */

/* A part of ls_timeline_make(), which fails for want of memory alone: schedule, prediction and predicted_bubble, or
 * no_prediction (timeline_predict.c). */
ls_status ls_timeline_predict(ls_timeline *timeline);

#endif
