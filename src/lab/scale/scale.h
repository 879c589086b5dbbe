/* scale.h: measures how training scales, for `lockstep scale`: trains short runs of several sizes, fits the times of
 * their steps and predicts larger sizes. */
#ifndef LS_LAB_SCALE_SCALE_H
#define LS_LAB_SCALE_SCALE_H

#include "config/options.h"
#include "lab/scale/scaling.h"
#include "lab/scale/steps.h"

enum { LS_SCALE_COUNTS_MAX = 16, LS_SCALE_BATCHES_MAX = 16, LS_SCALE_MODELS_MAX = 8 };

typedef struct ls_scale_plan {
    const ls_options *opts;
    double link_latency_s, link_bytes_per_s; /* of --slow-link; 0: none */
    int models, counts, batches;
    char *model[LS_SCALE_MODELS_MAX];                 /* owned */
    int count[LS_SCALE_COUNTS_MAX];                   /* ascending, from 1 */
    size_t batch[LS_SCALE_BATCHES_MAX];               /* sequences or images, ascending */
    int threads, cores;                               /* of each worker; of the machine */
    int64_t steps;                                    /* timed steps of each size, over all rounds */
    bool steps_given;                                 /* by the user; otherwise short steps get more of them */
    void (*say)(const char *model, const char *what); /* callback for progress */
} ls_scale_plan;

/* Lists the sizes of one model, sorted: every number of workers with every batch, and with the first batch for each
 * worker. Returns how many; LS_SCALING_POINTS_MAX + 1: too many. */
int ls_scale_plan_sizes(const ls_scale_plan *plan, ls_scaling_point *points);

/* A number of workers, and the batch and the bandwidth from which on they are faster than one worker. */
typedef struct ls_scale_crossover {
    int workers;
    size_t batch, batch_low, batch_high; /* 0: none */
    size_t lost, won;                 /* measured: the largest batch without a gain, the smallest with one; 0: none */
    double rate, rate_low, rate_high; /* over a slow link, with the largest batch, bytes a second; 0: none */
} ls_scale_crossover;

typedef struct ls_scale_found {
    char name[80];
    size_t parameters, seq;
    bool images; /* instead of sequences */
    ls_image_shape image;
    int zero;     /* ZeRO stage with several workers */
    bool made_up; /* data was generated: there was no --data */
    int points;
    ls_scaling_point point[LS_SCALING_POINTS_MAX];
    ls_scale_noise noise; /* the gradient noise scale */
    bool fitted;          /* `fit` and what follows is there */
    ls_scaling_fit fit;
    int nexts; /* sizes that were not measured: `seconds` and the parts are predictions */
    ls_scaling_point next[2 * LS_SCALE_BATCHES_MAX + 2];
    int crossovers;
    ls_scale_crossover crossover[LS_SCALE_COUNTS_MAX];
    int best_workers; /* with the largest batch; more do not make a step shorter */
} ls_scale_found;

/* Measures one model: trains each size, fits and predicts. Starts workers: no thread may have been started. */
ls_status ls_scale_measure(const ls_scale_plan *plan, const char *model, ls_scale_found *out);

/* Returns what a batch consists of: "sequence" or "image". */
static inline const char *ls_scale_sample(const ls_scale_found *found) { return found->images ? "image" : "sequence"; }
/* Returns the measured size; NULL: it was not measured. */
const ls_scaling_point *ls_scale_point_of(const ls_scale_found *found, int workers, size_t batch);
/* Returns the time of one worker with the same batch over this point's (strong scaling); 0: not measured. */
double ls_scale_speedup(const ls_scale_found *found, const ls_scaling_point *point);
/* Returns the time of one worker with as many sequences per worker over this point's (weak scaling); 0: unknown. */
double ls_scale_weak(const ls_scale_found *found, const ls_scaling_point *point);
/* Returns the time of computing over that of communication, overlapped or not; 0: one worker. */
double ls_scale_ratio(const ls_scaling_point *point);

#endif
