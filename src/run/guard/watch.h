/* watch.h: whether a run compares gradient groups; workers are always compared (contribution.h). Unless the
 * user asks for it (--on-outlier auto), a run compares groups if that takes no byte of the arena and at most a
 * hundredth of a step:
 *
 *     memory   the gradient of each group is by itself anyway: a replica has one group, or makes each of several
 *              micro-batches, or adds them up in rounds (ZeRO 2 and 3), or another option looks at single groups
 *     time     squares of a group's gradient are a pass over its elements, beside 6 FLOPs for each of them and each
 *              token; and what workers tell each other of them is far less than the gradients themselves
 *
 * It then only tells: no step is repeated, and weights and checkpoints are those of a run that does not look. */
#ifndef LS_RUN_GUARD_WATCH_H
#define LS_RUN_GUARD_WATCH_H

#include "parallel/layout/layout.h"
#include "run/settings.h"

typedef enum ls_watch {
    LS_WATCH_OFF, /* by --on-outlier off */
    LS_WATCH_ON,
    LS_WATCH_ALONE,  /* not: a single group has no peers */
    LS_WATCH_MEMORY, /* not: gradients of groups would need space of their own */
    LS_WATCH_TIME,   /* not: groups or model are too small */
    LS_WATCH_DEVICE, /* not: what it needs would lie in memory of a GPU */
} ls_watch;

/* The same on all workers. */
ls_watch ls_watch_choose(const ls_settings *settings, const ls_layout *layout);

/* Tokens beside which squaring a gradient costs less than 1 % of their step. */
size_t ls_watch_least_tokens(const ls_settings *settings);

enum { LS_WATCH_TEXT_MAX = 320 };
/* "outliers are watched: …", for the header of a run: what exactly, and why not more. */
void ls_watch_text(ls_watch watch, const ls_settings *settings, const ls_layout *layout, char text[LS_WATCH_TEXT_MAX]);

#endif
