/* speed.h: measures the speed of the workers for `--shares auto`: all compute briefly at the same time. */
#ifndef LS_RUN_SPEED_H
#define LS_RUN_SPEED_H

#include "parallel/layout/layout.h"
#include "device/device.h"

/* Collective: speeds[d] is that of the slowest worker of replica d, in matmuls of about the size of `shape` per second.
 * All workers get the same numbers, so they derive the same shares. */
ls_status ls_speed_of_rows(ls_world *world, ls_device *device, const ls_shape *shape, const ls_layout *layout,
                           double speeds[LS_WORKERS_MAX]);

#endif
