/* choose.h: which device computes: "auto", "cpu", "cuda", "cuda:1"; in tests also "fake". */
#ifndef LS_DEVICE_CHOOSE_H
#define LS_DEVICE_CHOOSE_H

#include "device/device.h"
#include "device/unit.h"

typedef struct ls_device_choice {
    char name[16];   /* for ls_device_open_named(): never "auto" */
    char about[240]; /* what "auto" took and why, in a line for the user; "": nothing to be said */
} ls_device_choice;

/* What `name` means on this machine, for `workers` of it that multiply 16-bit numbers by this unit. "auto" takes GPUs
 * where they work and have the unit, else the CPU; where there is no GPU it says nothing. A child process looks for
 * GPUs, once; call it before any thread is started. LS_ERR_INPUT for a name that no device has. */
ls_status ls_device_choose(const char *name, int workers, ls_unit unit, ls_device_choice *out);

/* Who multiplies 16-bit numbers on the device of this name where nobody says it: hgmma on GPUs that have it, else
 * chain. Of GPUs that are asked for and cannot be looked at (a dry run elsewhere), hgmma. Looks as "auto" does. */
ls_unit ls_device_default_unit(const char *name);

/* Makes the kernels of a chosen device ready, before its workers start: where NVRTC has to compile them it does so now,
 * and `tell` gets a line from time to time (NULL: the log does). Nothing to do for the CPU, and where the GPU cannot be
 * looked at, since opening it says why. Looks as "auto" does. */
ls_status ls_device_prepare(const char *name, ls_unit unit, void (*tell)(void *ctx, const char *text), void *ctx);

/* Opens the device of a chosen name for worker `local` of this machine, counted from 0: workers take the GPUs in turn
 * unless the name has a number. *out is NULL, with LS_OK, where the CPU is meant, which the caller opens with its own
 * threads. LS_ERR_INPUT for a name that no device has, and for a GPU that is not there. A process in which this opened
 * a GPU may not fork workers that use one. */
ls_status ls_device_open_named(const char *name, int local, ls_device **out);

/* What an arena on a device of this name is like, known without the device: the alignment of its pieces, and in *dry a
 * device on which a step tells how much scratch its operations need, or NULL where that is not in the arena. */
ls_status ls_device_open_dry(const char *name, size_t *align, ls_device **dry);

/* Whether it is a GPU's name; NULL is not. */
bool ls_device_is_gpu(const char *name);

#endif
