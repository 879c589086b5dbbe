/* speed.h: measures the speed of the workers for `--shares auto`. All workers run matmuls at the same time for 0.2
 * s. */
#ifndef LS_RUN_SPEED_H
#define LS_RUN_SPEED_H

#include "parallel/layout/layout.h"
#include "device/device.h"

/* Sets speeds[d] to the speed, in matmuls per second, of the slowest worker of replica d (a row of the mesh); the
 * matmul's size follows from `shape`. Entries behind the last replica stay unset. Collective: all workers get the same
 * numbers, so they derive the same shares; if one fails, all fail. Called once, before the layout with these shares is
 * made. */
ls_status ls_speed_of_rows(ls_world *world, ls_device *device, const ls_shape *shape, const ls_layout *layout,
                           double speeds[LS_WORKERS_MAX]);

#endif
