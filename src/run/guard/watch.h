/* watch.h: decides whether a run compares the norms of gradient groups (fixed parts of the batch). Whether whole
 * workers are compared is decided separately (contribution.h). With --on-outlier auto, a run compares groups only if
 * that needs no additional memory and costs at most 1 % of a step, and only reports outliers: no step is repeated, so
 * weights and checkpoints are those of a run without it.
 *
 *     memory   none is added if each group has a gradient of its own anyway: because each replica has only one group,
 *              computes each group in several micro-batches, or sums groups in rounds (ZeRO 2 and 3), or because
 *              another option needs the gradients of single groups. On a GPU it counts as needed
 *     time     squaring a group's gradient is one pass over its elements, against 6 FLOPs for each element and token,
 *              and the exchanged norms are far smaller than the gradients */
#ifndef LS_RUN_GUARD_WATCH_H
#define LS_RUN_GUARD_WATCH_H

#include "parallel/layout/layout.h"
#include "run/settings.h"

typedef enum ls_watch {
    LS_WATCH_OFF,    /* by --on-outlier off */
    LS_WATCH_ON,     /* groups are compared */
    LS_WATCH_ALONE,  /* off: a single group has no peers */
    LS_WATCH_MEMORY, /* off: it needs memory for per-group gradients */
    LS_WATCH_TIME,   /* off: in groups or a model this small it costs more than 1 % of a step */
    LS_WATCH_DEVICE, /* off: on a GPU, where it counts as needing memory */
} ls_watch;

/* Decides whether gradient groups are compared, and if not, why; with --on-outlier warn, skip-group and stop they
 * always are. The same on all workers. */
ls_watch ls_watch_choose(const ls_settings *settings, const ls_layout *layout);

/* Returns the tokens per group from which on squaring its gradient costs less than 1 % of a step. */
size_t ls_watch_least_tokens(const ls_settings *settings);

enum { LS_WATCH_TEXT_MAX = 320 };
/* Writes "gradient-outlier detection …" for the banner of a run, with the reason if it is off. */
void ls_watch_text(ls_watch watch, const ls_settings *settings, const ls_layout *layout, char text[LS_WATCH_TEXT_MAX]);

#endif
