/* settings_lr.h: the learning rate of a run: its schedule, and how it follows the batch. Parts of settings.c. */
#ifndef LS_RUN_SETTINGS_LR_H
#define LS_RUN_SETTINGS_LR_H

#include "run/settings.h"

enum { LS_SETTINGS_LR_TEXT_MAX = 160 };

/* Fills lr, lr_scaling, lr_given and lr_base_batch; the batch and the number of steps are there. */
ls_status ls_settings_resolve_lr(const ls_options *options, ls_settings *settings);
/* The rate is in the identity as it came out: one that was scaled to 0.4 is the same experiment as --lr 0.4. */
ls_status ls_settings_lr_identity(const ls_settings *settings, ls_identity *identity);

/* "0.1 × 4 (linear, batch 1024 / 256) = 0.4"; "" where nothing is scaled. */
void ls_settings_lr_text(const ls_settings *settings, char text[LS_SETTINGS_LR_TEXT_MAX]);
/* Whether the rate was raised with the batch, and the first step already has it. */
bool ls_settings_lr_is_sudden(const ls_settings *settings);

#endif
