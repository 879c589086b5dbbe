/* settings.h: the resolved settings of a training run: every open value has its default, and every value is checked.
 * Values that are used as given are only in `options`. Resolved once, before workers start; trainer, planner and dry
 * run read them.
 *
 * The identity is the list of all values that can change a result (folder/identity.h). Defaults of its fields come from
 * its fields alone, never from this machine (docs/reference/arithmetic.md): otherwise two machines would run two
 * experiments. The matrix unit is the exception: it is hgmma on GPUs that have it; the banner says so, and a resumed
 * run keeps its unit. Defaults of the layout, like the micro-batch, may depend on memory. */
#ifndef LS_RUN_SETTINGS_H
#define LS_RUN_SETTINGS_H

#include "config/options.h"
#include "nn/shape.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "run/folder/identity.h"

typedef struct ls_settings {
    ls_options options; /* as they were given, with --eval-every resolved; texts are borrowed */
    /* identity: what the options leave open, and what several of them say together */
    ls_shape shape;
    int slices, groups; /* fixed parts of every layer, and of the batch; sums over them have a fixed order */
    size_t ghost;       /* images whose statistics batch norm takes together; 0: the model has no batch norm */
    bool bn_sync;       /* it takes those of the whole batch; ghost are the images of a gradient group then */
    size_t B, T;        /* sequences (or images) of a batch; tokens of a sequence */
    ls_lr_schedule lr;
    ls_optimizer optimizer;
    ls_policy policy;                  /* number types, and the unit that multiplies matrices */
    ls_loss_scale_settings loss_scale; /* of fp16; otherwise constant and 1 */
    double val_fraction;               /* of the data, held out at its end if there is no --val-data */
    /* --save-every */
    int64_t save_every;  /* interval in steps; 0: none */
    double save_every_s; /* interval in seconds; 0: none */
    bool save_auto;      /* save_every_s is for the first save; later intervals follow from its cost and --mtbf */
} ls_settings;

/* Resolves all options for the shape of --model into *out, which borrows the texts of the options. Fails with
 * LS_ERR_INPUT, naming the option. Not for plan, whose options have other defaults (api/plan_question.c). */
ls_status ls_settings_resolve(const ls_options *options, const ls_shape *shape, ls_settings *out);

/* Returns whether the user asked for outlier detection, which may then cost memory and time. */
static inline bool ls_settings_wants_outliers(const ls_settings *s) { return s->options.on_outlier > LS_OUTLIER_AUTO; }

/* Returns whether norms of single gradient groups are needed: for --numerics, for --on-outlier warn, skip-group or
 * stop, or for --audit. */
static inline bool ls_settings_watch_groups(const ls_settings *s) {
    return s->options.numerics > 0 || ls_settings_wants_outliers(s) || s->options.audit > 0;
}

/* Resolves --precision and --matrix-unit (the instructions that multiply 16-bit matrices) into the type of activations
 * and the unit; the other members of *out are 0. Without --matrix-unit the unit is chain for fp32, otherwise the
 * default of --device; with auto it is the same, except that bf16 takes the fastest unit of this CPU where that default
 * is chain. LS_ERR_INPUT for a pair that does not fit, and for a unit that cannot run here. */
ls_status ls_settings_precision(const ls_options *options, ls_policy *out);

enum { LS_SETTINGS_LR_TEXT_MAX = 160 };

/* Formats a scaled rate: "0.1 × 4 (linear, batch 1024 / 256) = 0.4"; "" if it is not scaled. */
void ls_settings_lr_text(const ls_settings *settings, char text[LS_SETTINGS_LR_TEXT_MAX]);
/* Returns whether --lr-scaling linear raised the learning rate, but there is no warm-up; the caller warns. */
bool ls_settings_lr_is_sudden(const ls_settings *settings);

/* Adds the fields of the identity that follow from the settings; the caller adds data, tokenizer and start. Values are
 * the resolved ones: a rate that was scaled to 0.4 is the same experiment as --lr 0.4. */
ls_status ls_settings_identity(const ls_settings *settings, ls_identity *identity);

#endif
