/* speed.h: how fast the workers are, for `--shares auto`: all of them compute for a moment, at the same time. */
#ifndef LS_RUN_SPEED_H
#define LS_RUN_SPEED_H

#include "parallel/layout/layout.h"
#include "device/device.h"

/* speeds[d]: of replica d, whose slowest worker counts, in matmuls a second of about the size that `shape` has. All
 * workers of the layout call it together and get the same numbers, so what follows from them is the same as well. */
ls_status ls_speed_of_rows(ls_world *world, ls_device *device, const ls_shape *shape, const ls_layout *layout,
                           double speeds[LS_WORKERS_MAX]);

#endif
