/* state_check.h: whether a run checks before every update that its weights and moments are still what it wrote. Where
 * nobody asked (--check auto) it does so if that takes at most a hundredth of a step: a pass over what a worker owns,
 * and two over copies that matmuls read, beside 6 FLOPs for each element and each token of its replica. Else it checks
 * what it owns in as many steps as a hundredth is enough for: damage is found if it happens in one of those, as that of
 * memory that fails again and again does sooner or later. */
#ifndef LS_RUN_GUARD_STATE_CHECK_H
#define LS_RUN_GUARD_STATE_CHECK_H

#include "parallel/layout/layout.h"
#include "run/settings.h"

/* Off, replicas or state; the same on all workers. */
ls_check ls_check_choose(const ls_settings *settings, const ls_layout *layout);
/* Own weights and moments are checked in one of so many steps; 0: in none. */
int64_t ls_check_every(const ls_settings *settings, const ls_layout *layout);

enum { LS_CHECK_TEXT_MAX = 240 };
/* What is checked and what is not, for the header of a run. */
void ls_check_text(const ls_settings *settings, const ls_layout *layout, char text[LS_CHECK_TEXT_MAX]);

#endif
