/* fake.h: a device without hardware that shows errors of a program which a GPU would show only sometimes: the host
 * cannot access its memory, and queued work has not happened until the host waits for it.
 *
 * A thread of its own runs the CPU's operations in the order of the calls, as late as it may. So results are the CPU's;
 * a program that dereferences a tensor crashes, and one that forgets a wait gets other numbers. */
#ifndef LS_FAKE_H
#define LS_FAKE_H

#include "device/device.h"

/* On failure nothing is left to release. */
ls_status ls_device_open_fake(ls_device **out);

#endif
