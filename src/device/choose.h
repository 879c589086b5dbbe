/* choose.h: which device computes: "auto", "cpu", "cuda", "cuda:1"; in tests also "fake". */
#ifndef LS_DEVICE_CHOOSE_H
#define LS_DEVICE_CHOOSE_H

#include "device/device.h"

/* Opens the device of this name for worker `local` of this machine, counted from 0: workers take the GPUs in turn
 * unless the name has a number. *out is NULL, with LS_OK, where the CPU is meant, which the caller opens with its own
 * threads. "auto" takes a GPU that works. LS_ERR_INPUT for a name that no device has, and for a GPU that is not there.
 * A process in which this opened a GPU may not fork workers that use one. */
ls_status ls_device_open_named(const char *name, int local, ls_device **out);

#endif
