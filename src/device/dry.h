/* dry.h: the memory calls of a device without hardware. `train --dry-run` and the planner's native stack
 * (plan/native/price.c) run a step on such a device to learn its memory and its predicted time; each adds a table of
 * operations, which compute nothing here, and replaces some of these calls. */
#ifndef LS_DEVICE_DRY_H
#define LS_DEVICE_DRY_H

#include "device/device.h"

/* Allocations reserve address space without memory, which must not be accessed. Copies and fills do nothing; copies to
 * the host write zeros. Events and waits succeed at once. destroy does nothing: the user of the table owns the device.
 */
extern const ls_device_calls ls_dry_calls;

#endif
