/* dry.h: a device that computes nothing, so that a step can be run for its sizes and prices alone. */
#ifndef LS_DEVICE_DRY_H
#define LS_DEVICE_DRY_H

#include "device/device.h"

/* Its memory is address space that nobody may touch; copies and fills do nothing, copies out give zeros. */
extern const ls_device_calls ls_dry_calls;

#endif
