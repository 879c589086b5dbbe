/* trainer.h: trains one model step by step, on one worker or on all workers of a layout; calls are then collective and
 * return the same results everywhere. It prints nothing and writes no files; the loop around it (loop.h) does.
 *
 * Step n takes samples n·B … n·B + B − 1 of the data, so the position in the data is one number. A fork continues
 * from the position of its parent. */
#ifndef LS_RUN_TRAINER_H
#define LS_RUN_TRAINER_H

#include "data/text/corpus.h"
#include "data/images/images.h"
#include "data/sampler.h"
#include "device/cpu/journal.h"
#include "optim/clip.h"
#include "parallel/partition/partition.h"
#include "run/guard/event.h"
#include "run/guard/guard.h"
#include "run/guard/watch.h"
#include "run/room.h"
#include "run/settings.h"
#include "run/validation.h"
#include "run/worker_time.h"

typedef struct ls_step_result {
    double loss; /* mean over the tokens of the batch, before the update */
    double norm; /* of the gradient, before clipping */
    double lr;
    bool finite;  /* loss and gradient are finite, so the update is made */
    bool skipped; /* it was not, because fp16 overflowed: the run goes on */
    int scale;    /* exponent of the loss scale */
    int stop;     /* the largest `stop` of all workers; 0: none was asked to stop */
    int dropped;  /* groups that were left out: those of guard.absent */
    int audited;  /* groups that were computed twice and compared */
    int requests; /* LS_REQUEST_* that a worker had */
    bool gave_up; /* all workers abandoned the step, and nothing changed; only `stop` is valid */
} ls_step_result;

/* Requests of one worker, for decisions by its own clock: added to `stop` before a step, known to all after it. */
enum { LS_REQUEST_SAVE = 1 << 8, LS_REQUEST_SAVE_BEST = 1 << 9, LS_REQUEST_LEAVE = 1 << 10 };

/* Returned on all workers, without a message, by an evaluation that one of them abandoned. */
#define LS_TRAINER_GAVE_UP ((ls_status)-2)

/* Callbacks that ask this worker to stop; called within steps and evaluations, so they must be fast. May be empty. */
typedef struct ls_trainer_asked {
    int (*signal)(void *ctx);    /* received by this worker or by another on its machine; 0: none */
    bool (*gives_up)(void *ctx); /* the current work must be abandoned */
    void *ctx;
} ls_trainer_asked;

/* Where a trainer runs. */
typedef struct ls_trainer_place {
    ls_device *device;
    ls_world *world;  /* NULL: one worker alone */
    ls_layout layout; /* micro 0: chosen here, the same on all workers */
} ls_trainer_place;

/* What is learned from, and what is held back: tokens, or images for a model that sees images. They outlive the
 * trainer. val_corpus is NULL where validation takes the end of the corpus, val_images where there is none. */
typedef struct ls_trainer_data {
    ls_corpus *corpus, *val_corpus;
    ls_images *images, *val_images;
    ls_augment augment; /* seed and step are the trainer's */
} ls_trainer_data;

/* The hash of a state (state_hash.h) that all workers know. */
typedef struct ls_state_seen {
    bool is_summed; /* sums of the state were made since it was loaded */
    int64_t step;   /* after which it was so; −1: none is known */
    ls_hash128 hash, sum;
    ls_hash128 *parts; /* of this worker, by parameter and tensor, when the sum was given */
} ls_state_seen;

typedef struct ls_trainer {
    ls_settings settings;
    ls_layout layout;
    ls_device *device; /* borrowed */
    ls_room room;      /* of all workers, before this run took any */
    ls_world *world;   /* borrowed; NULL: one worker alone */
    ls_mesh *mesh;
    int rank, threads;
    ls_model *model;
    ls_partition *partition;
    ls_trainer_data data;
    ls_sampler sampler, val_sampler;
    uint64_t val_first; /* token of the corpus with which validation begins */
    bool has_val;
    int64_t step;          /* done */
    int64_t base_step;     /* of a fork: where it began, */
    uint64_t base_samples; /* and the position in the data there */
    int64_t lr_start;      /* step from which the schedule of the rate counts: of a fork where it began, else 0 */
    int64_t updates;       /* of the optimizer */
    double last_loss;      /* of the last step; NaN before the first */
    ls_validation validation;
    ls_adamw_powers powers;
    bool damaged;     /* a check found weights or optimizer state that fail their checksum */
    ls_wrong blame;   /* why the last step failed, where a worker is wrong */
    bool ended_whole; /* the last step failed on all workers, and weights and optimizer state are unchanged */
    ls_state_seen state;
    ls_clip clip; /* of the last gradients */
    ls_loss_scale scale;
    ls_guard guard;
    ls_watch watch;       /* whether it looks for outliers */
    ls_check check;       /* how weights and optimizer state are checked; never auto */
    int64_t check_every;  /* in one of so many steps what this worker owns; 0: in none */
    int64_t checked_step; /* after which it was checked last, behind a pass over the batch; −1: never */
    bool is_checked;      /* it was so in the step of the last update: the gradient of that is right */
    ls_event_sink events; /* what happens to the numbers is told to; may be empty */
    ls_trainer_asked asked;
    ls_worker_time time;
    struct ls_left *kept; /* state for the next attempt (recover/left.h); NULL: no supervisor */
    ls_journal journal;   /* with it, of updates on a CPU */
    int64_t marked;       /* of a device that is not the host: the last update that it was asked for; −1: none yet */
    struct ls_copies *copies; /* of another worker's state (recover/copies.h); NULL: none */
    const char *no_copies;    /* why there are none, where they are asked for */
    int64_t *sums;            /* what all workers add up after backward */
    int32_t *window;          /* of one sequence, host */
    uint64_t *index;          /* of the images of a micro-batch, host */
} ls_trainer;

/* On failure nothing is left to release. */
ls_status ls_trainer_create(const ls_settings *settings, const ls_trainer_place *place, const ls_trainer_data *data,
                            ls_trainer **out);
void ls_trainer_destroy(ls_trainer *trainer);

/* Samples taken so far: the position in the data. */
uint64_t ls_trainer_samples(const ls_trainer *trainer);
/* The two halves of a step, for callers that use the gradients in between (step.c). The first fails if the run cannot
 * continue: a value that is not finite again when repeated, overflow at the lowest loss scale, an outlier with
 * --on-outlier stop. The weights are then unchanged. */
ls_status ls_trainer_gradients(ls_trainer *trainer, int stop, ls_step_result *result);
ls_status ls_trainer_update(ls_trainer *trainer, const ls_step_result *result);
void ls_trainer_set_asked(ls_trainer *trainer, ls_trainer_asked asked);
/* Collective: whether any worker abandoned the step since the last call. */
ls_status ls_trainer_has_given_up(ls_trainer *trainer, bool *out);
/* Makes one step. `stop` is a signal that this worker received, or 0, plus its requests. LS_OK also if the step was
 * abandoned. */
ls_status ls_trainer_step(ls_trainer *trainer, int stop, ls_step_result *result);
/* The parts of the first half of a step, for callers that compute the gradients themselves. */
/* Returns the callbacks that read the batch of the next step; reads nothing yet and does not advance. The feed borrows
 * `trainer`. */
ls_partition_feed ls_trainer_feed(ls_trainer *trainer);
/* Returns the factor with which backward starts. */
float ls_trainer_backward_start(const ls_trainer *trainer);
/* Computes the gradient norm, the factor of the update and the result, after the partition has its gradients. `loss` is
 * the loss that this worker reports. */
ls_status ls_trainer_judge(ls_trainer *trainer, int stop, const ls_loss_sum *loss, ls_step_result *result);
/* Elements of `sums`. */
size_t ls_trainer_sums(const ls_trainer *trainer);
/* Computes the mean loss over the first `batches` batches of the validation data (all of them if it has fewer) and, for
 * an image model, the accuracy; otherwise −1. */
ls_status ls_trainer_evaluate(ls_trainer *trainer, int64_t batches, double *loss, double *right);

/* Whether weights and optimizer state of all workers are finite, which must hold before they are saved after a failure.
 * Collective. */
ls_status ls_trainer_is_finite(ls_trainer *trainer, bool *out);

/* Chooses the largest micro-batch that is useful for the layout and fits into device memory; `room` NULL: of this
 * machine. */
ls_status ls_trainer_choose_micro(const ls_room *room, const ls_settings *settings, ls_layout *layout);
/* The settings as layouts take them. */
ls_layout_task ls_trainer_task(const ls_settings *settings, const ls_model *model);
/* The setup of the partition of worker `rank`, except world and mesh. */
ls_partition_setup ls_trainer_setup(const ls_settings *settings, const ls_layout *layout, int rank);

#endif
