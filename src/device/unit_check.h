/* unit_check.h: verifies that the hardware of a device computes by the formula of its matrix unit. */
#ifndef LS_DEVICE_UNIT_CHECK_H
#define LS_DEVICE_UNIT_CHECK_H

#include "device/device.h"
#include "device/unit.h"

/* Computes some thousand granules of this type, with numbers of every kind (subnormal, infinite, truncated,
 * cancelling), on the device and by the formula on the CPU, and compares the bits. A difference is LS_ERR_INPUT of this
 * machine, naming the device and the first numbers that differ. Does nothing for chain and for the CPU. Takes a few
 * milliseconds. */
ls_status ls_device_check_unit(ls_device *device, ls_unit unit, ls_dtype dtype);

#endif
