/* dry.h: a device that computes nothing: a step runs on it to find its memory and its predicted time. */
#ifndef LS_DEVICE_DRY_H
#define LS_DEVICE_DRY_H

#include "device/device.h"

/* Allocations reserve address space that must not be accessed. Copies and fills do nothing; copies to the host give
 * zeros. Events and waits succeed at once. */
extern const ls_device_calls ls_dry_calls;

#endif
