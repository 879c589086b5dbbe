/* unit_check.h: whether the hardware of a device computes by the formula of its matrix unit. */
#ifndef LS_DEVICE_UNIT_CHECK_H
#define LS_DEVICE_UNIT_CHECK_H

#include "device/device.h"
#include "device/unit.h"

/* Some thousand granules of numbers of this type, of every kind (subnormal, infinite, cut off, cancelled), by the
 * device and by the formula on the CPU. A difference is LS_ERR_INPUT of this machine, naming the device and the first
 * numbers that differ. There is nothing to compare with chains, nor on the CPU itself. Takes some milliseconds. */
ls_status ls_device_check_unit(ls_device *device, ls_unit unit, ls_dtype dtype);

#endif
