/* settings.h: a training run, resolved: every value that was left open has got its default, every value was checked.
 *
 * Defaults of identity fields come from identity fields alone, never from this machine (docs/arithmetic.md): else two
 * machines would run two experiments. Defaults of layout, like the micro-batch, may look at memory. */
#ifndef LS_RUN_SETTINGS_H
#define LS_RUN_SETTINGS_H

#include "config/options.h"
#include "nn/shape.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "run/folder/identity.h"

typedef struct ls_settings {
    ls_options options; /* as they were given; texts are borrowed */
    /* identity */
    ls_shape shape;
    int slices, groups;
    size_t ghost; /* images whose statistics batch norm takes together; 0: the model has no batch norm */
    bool bn_sync; /* it takes those of the whole batch; ghost are the images of a gradient group then */
    size_t B, T;
    int64_t steps;
    uint64_t seed;
    ls_lr_schedule lr;
    ls_optimizer optimizer;
    double clip, dropout;
    ls_policy policy;
    ls_loss_scale_settings loss_scale; /* of fp16; otherwise constant and 1 */
    ls_outlier_action on_outlier;
    double outlier_threshold;
    double val_fraction; /* of the data, held out at its end where there is no validation data of its own */
    /* where lr.peak came from */
    ls_lr_scaling lr_scaling;
    double lr_given;       /* --lr */
    int64_t lr_base_batch; /* 0: nothing is scaled */
    /* layout and what is done beside */
    size_t micro; /* 0: as memory allows */
    int64_t eval_every, eval_batches, sample_every, numerics;
    int64_t save_every;  /* steps; 0: none of them */
    double save_every_s; /* of time; 0: none */
    int64_t early_stop;  /* evaluations; 0: never */
    bool checks_replicas, checks_state;
    double audit; /* share of the groups */
    int sample_tokens;
    int keep;
} ls_settings;

/* `shape` is that of --model. Errors name the option. */
ls_status ls_settings_resolve(const ls_options *options, const ls_shape *shape, ls_settings *out);

/* Norms of single groups are wanted. */
static inline bool ls_settings_watch_groups(const ls_settings *s) {
    return s->numerics > 0 || s->on_outlier != LS_OUTLIER_OFF || s->audit > 0;
}

/* --precision and --matrix-unit; the unit is one that this CPU has. */
ls_status ls_settings_precision(const ls_options *options, ls_policy *out);

enum { LS_SETTINGS_LR_TEXT_MAX = 160 };

/* "0.1 × 4 (linear, batch 1024 / 256) = 0.4"; "" where nothing is scaled. */
void ls_settings_lr_text(const ls_settings *settings, char text[LS_SETTINGS_LR_TEXT_MAX]);
/* Whether the rate was raised with the batch, and the first step already has it. */
bool ls_settings_lr_is_sudden(const ls_settings *settings);

/* The fields of the identity that follow from the settings; data, tokenizer and start are added by the trainer.
 * Values are those that came out: a rate that was scaled to 0.4 is the same experiment as --lr 0.4. */
ls_status ls_settings_identity(const ls_settings *settings, ls_identity *identity);

#endif
