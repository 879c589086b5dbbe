/* timeline.h: one step of a traced run: busy and waiting time of each worker, and the time that the schedule
 * predicts. For `lockstep timeline`, and for the times of workers in run_read.h.
 *
 *     |<------------------------------- step ------------------------------->|
 *           |<------------ work ------------>|
 *           [F0][F1] wait [B0]  wait [B1]  [finish][optimizer][publish]
 *
 * `Work`, the part of the step that the schedule determines, lasts from the start of the first action of any worker to
 * the end of the last one. For each worker it divides into
 *
 *   busy      inside its actions, without waiting
 *   waiting   inside its actions, for workers that share layers with it (tp) or for weights (zero 3)
 *   bubble    outside its actions: it waits for input from other stages, or has finished
 *
 * The prediction simulates (parallel/schedule/simulate.h) the lists of actions that were run. Each action takes the
 * mean time of its kind on its chunk and stage in this step, scaled by the relative size of its micro-batch (the same
 * on all stages); sends take no time. So measured minus predicted bubble is the cost of sends and of uneven durations.
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
    double under_way;   /* while at least one of them was in flight */
    double in_backward; /* part of under_way: overlapped with backward actions, without the waits for them in these */
    double exposed;     /* while the worker waited for them */
} ls_timeline_reductions;

typedef struct ls_timeline_worker {
    int stage, pipeline;        /* pipeline: the workers with equal rank mod (workers / stages), one on each stage */
    const ls_trace_span *spans; /* of the step; they belong to the trace */
    size_t count;
    double begin_us, end_us;      /* of its step */
    double us[LS_MARK_KINDS];     /* total of the spans of each kind */
    double waiting_us;            /* time in waits inside its actions */
    double busy, waiting, bubble; /* parts of work; their sum is 1 */
    double predicted_bubble;      /* NaN without a prediction */
    ls_timeline_reductions reductions;
} ls_timeline_worker;

typedef struct ls_timeline {
    int64_t step, first_step, last_step;    /* the last two: first and last complete step in the trace */
    uint64_t dropped_events;                /* events of the whole trace that were lost because a ring was full */
    int workers, stages, pipelines, chunks; /* chunks per stage */
    int dp, tp;                             /* 0: not known */
    double begin_us, end_us, work_begin_us, work_end_us; /* on the clock of the trace, over all workers */
    ls_timeline_worker *worker;
    /* By pipeline. NULL if a prediction is impossible; no_prediction then has the reason. */
    ls_schedule *schedule;
    ls_simulation *prediction;
    char no_prediction[LS_MESSAGE_MAX];
    ls_kernels kernels; /* without lanes if no device recorded its queues */
} ls_timeline;

/* Measures step `step` of the trace, or for 0 the middle one of its complete steps (all workers recorded them whole).
 * The timeline points into the trace, which must outlive it, and is freed with ls_timeline_free(). `source` names the
 * trace in messages. Fails with LS_ERR_INPUT if the step is not completely in the trace or is inconsistent. After a
 * failure there is nothing to free. A prediction that is impossible is no failure. */
ls_status ls_timeline_make(const ls_trace *trace, const char *source, int64_t step, ls_timeline *out);
/* Frees what the timeline points to, but not the trace. NULL does nothing. */
void ls_timeline_free(ls_timeline *timeline);
/* Sets dp and tp, which the trace does not contain; ignored if they do not match its number of workers and stages. */
void ls_timeline_set_mesh(ls_timeline *timeline, int dp, int tp, int pp);

/* Returns the predicted duration of Work in microseconds: that of the slowest pipeline; NaN without a prediction. */
double ls_timeline_predicted_us(const ls_timeline *timeline);

/* Fills schedule, prediction and predicted_bubble, or else no_prediction (timeline_predict.c). ls_timeline_make() calls
 * it. Fails only with LS_ERR_RESOURCE. */
ls_status ls_timeline_predict(ls_timeline *timeline);

#endif
