/* record.h: the lines of a run's metrics that steps leave (docs/numerics.md). */
#ifndef LS_RUN_PROGRESS_RECORD_H
#define LS_RUN_PROGRESS_RECORD_H

#include "observe/metrics.h"
#include "run/trainer.h"

typedef struct ls_step_cost {
    double seconds, tokens, mfu; /* mfu 0: not known */
} ls_step_cost;

/* After the step: trainer->step counts it. */
ls_status ls_record_step(ls_metrics *metrics, const ls_trainer *trainer, const ls_step_result *result,
                         const ls_step_cost *cost);
/* Whether the step just made left numbers about numbers, and their lines: one for each block, one for the noise. */
bool ls_record_has_numerics(const ls_trainer *trainer, const ls_step_result *result);
ls_status ls_record_numerics(ls_metrics *metrics, const ls_trainer *trainer);

#endif
