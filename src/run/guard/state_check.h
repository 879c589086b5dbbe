/* state_check.h: how often a run compares its weights and optimizer state with their checksums after backward
 * (--check). The trainer asks when it is created, and the banner of a run shows the text.
 *
 * --check auto does so in every step if that takes at most 1 % of a step: one pass over what a worker owns and two over
 * the copies that matmuls read, against 6 FLOPs for each element and each token of its replica. Otherwise it checks
 * what the worker owns, as often as 1 % allows: memory that keeps failing is then found sooner or later. */
#ifndef LS_RUN_GUARD_STATE_CHECK_H
#define LS_RUN_GUARD_STATE_CHECK_H

#include "parallel/layout/layout.h"
#include "run/settings.h"

/* Returns what is checked: off, replicas or state, --check auto resolved by what it costs; the same on all workers. */
ls_check ls_check_choose(const ls_settings *settings, const ls_layout *layout);
/* Returns the interval, in steps, of the full check after backward: 1 with --check state, with auto as often as
 * 1 % of a step allows; 0, never, with off and replicas. */
int64_t ls_check_every(const ls_settings *settings, const ls_layout *layout);

enum { LS_CHECK_TEXT_MAX = 240 };
/* Writes a sentence on what is checked and what is not, for the header of a run. */
void ls_check_text(const ls_settings *settings, const ls_layout *layout, char text[LS_CHECK_TEXT_MAX]);

#endif
