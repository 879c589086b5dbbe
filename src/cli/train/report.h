/* report.h: what `lockstep train` prints before the first step and after the last. */
#ifndef LS_CLI_TRAIN_REPORT_H
#define LS_CLI_TRAIN_REPORT_H

#include "run/trainer.h"

/* `out` is the run directory; `hint` a sentence about the matrix unit, or empty. */
void ls_train_print_header(const ls_trainer *trainer, const char *out, bool resumed, const char *hint);
/* Gradient groups of the dp rows, and the speeds from which they come. */
void ls_train_print_shares(const ls_layout *layout, const double *speeds);
/* What each worker would hold, and what it would send. */
ls_status ls_train_print_dry(const ls_settings *settings, const ls_layout *layout, bool json);
/* One line: steps, loss, and the hashes of weights and identity. All workers call it; the first one prints. */
ls_status ls_train_print_done(const ls_trainer *trainer, const ls_identity *identity, const char *out, bool json);

#endif
