/* skip.h: operations that do nothing, for a worker that has given up the pass it is in.
 *
 * It may not just leave: others wait for what it sends. So it goes through the pass to its end, and sends and receives
 * what it would have, but computes nothing; whatever comes of it is thrown away by all. */
#ifndef LS_DEVICE_SKIP_H
#define LS_DEVICE_SKIP_H

#include "device/ops.h"

extern const ls_ops ls_ops_skip;

#endif
