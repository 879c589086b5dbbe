/* dry.h: the memory calls of a device without hardware, the base of two such devices: that of
 * ls_device_open_cuda_dry() (device/cuda/device.c), on which `train --dry-run` and other measurements of an arena run a
 * step to learn a GPU's scratch, and that of the planner's native stack (plan/native/price.c), which predicts a step's
 * time. Each adds a table of operations, which compute nothing here, and may replace some of these calls. */
#ifndef LS_DEVICE_DRY_H
#define LS_DEVICE_DRY_H

#include "device/device.h"

/* Allocations reserve address space without memory, which must not be accessed. Copies and fills do nothing; copies to
 * the host write zeros. Events and waits succeed at once, for any event. destroy does nothing: the user of the table
 * owns the device. Optional calls are NULL. LS_ERR_RESOURCE if an allocation finds no address space. */
extern const ls_device_calls ls_dry_calls;

#endif
