/* fake.h: a device for tests, which does what a GPU does to a program that is not careful: its memory cannot be touched
 * by the host, and nothing that was asked of it has happened until somebody waits.
 *
 * It computes with the CPU's operations, on a thread of its own, in the order of the calls, as late as it may. So
 * results are the CPU's; a program that reads tensors, or forgets a wait, ends or gets other numbers. */
#ifndef LS_DEVICE_FAKE_FAKE_H
#define LS_DEVICE_FAKE_FAKE_H

#include "device/device.h"

/* On failure nothing is left to release. */
ls_status ls_device_open_fake(ls_device **out);

#endif
