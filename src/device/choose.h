/* choose.h: turns the name of a device (--device), "auto", "cpu", "cuda" or "cuda:1", into a device. A matrix unit is
 * the kind of instructions that multiply 16-bit matrices, such as hgmma, those of Hopper GPUs (device/unit.h).
 *
 *     before workers are forked    ls_device_default_unit → ls_device_choose → ls_device_prepare
 *     in each worker               ls_device_open_named
 *
 * CUDA does not survive a fork. Therefore the first three functions and ls_device_compare_gpu() query the GPUs in a
 * child process and keep its answer; they query again only to try more GPUs than before. They must be called before
 * this process starts any thread. */
#ifndef LS_DEVICE_CHOOSE_H
#define LS_DEVICE_CHOOSE_H

#include "device/device.h"
#include "device/unit_check.h"

/* The device that ls_device_choose() found. */
typedef struct ls_device_choice {
    char name[16];   /* for ls_device_open_named(): never "auto" */
    char about[240]; /* which device "auto" chose and why, a line for the user; "": there is no GPU, or no "auto" */
} ls_device_choice;

/* Chooses the device that `name` means for `workers` workers on this machine. "auto" chooses the GPUs if they work and
 * all have the matrix unit `unit` (every GPU has chain), otherwise the CPU. Any other name is kept; it is not checked
 * that a GPU that `name` asks for exists: opening it does. LS_ERR_INPUT for an unknown name. */
ls_status ls_device_choose(const char *name, int workers, ls_unit unit, ls_device_choice *out);

/* Returns the matrix unit for the named device if the user chose none: the unit of the GPU's tensor cores; chain (no
 * unit) for the CPU, and if `name` means several GPUs with different units. If the formula of that unit was not
 * measured on such GPUs, first compares the GPU with it in a child process; if they differ or the comparison fails,
 * logs a warning and returns chain. If `name` asks for a GPU and none can be queried, or there is none of that number
 * (a dry run on another machine), returns hgmma; for "auto" without a GPU that works, chain. */
ls_unit ls_device_default_unit(const char *name);

/* Prepares the kernels of GPU `number` as ls_device_prepare() does. Then compares its tensor cores with the formula of
 * their unit in a child process, within 120 s, for bf16 (out[0]) and for fp16 (out[1]). Differences are reported in
 * `out` and are no failure. `tell` is that of ls_device_prepare(). LS_ERR_INPUT if there is no such GPU, or no formula
 * for its tensor cores; the status of the query if GPUs could not be queried. */
enum { LS_UNIT_TYPES = 2 };
ls_status ls_device_compare_gpu(int number, void (*tell)(void *ctx, const char *text), void *ctx,
                                ls_unit_report out[LS_UNIT_TYPES]);

/* Compiles the kernels of the named GPU, or with "cuda" of all GPUs, by NVRTC if the program has none built in; those
 * of tensor cores too if the GPU's unit is `unit`. `tell` gets a line of progress from time to time; NULL: the log gets
 * it. Does nothing for the CPU, and for a GPU that cannot be queried: opening it reports the reason. */
ls_status ls_device_prepare(const char *name, ls_unit unit, void (*tell)(void *ctx, const char *text), void *ctx);

/* Opens the device of a chosen name, never "auto", for worker `local` of this machine, counted from 0: workers take the
 * GPUs in turn unless the name has a number. For "cpu" returns LS_OK with *out NULL, because the caller opens the CPU
 * with its own threads. The caller destroys *out. LS_ERR_INPUT for an unknown name or a GPU that this machine lacks. A
 * process that has opened a GPU must not fork workers that use one. */
ls_status ls_device_open_named(const char *name, int local, ls_device **out);

/* Describes an arena on the named device without opening it. *align is the alignment of its pieces; 0: the default.
 * *dry is a device without hardware, on which a step runs to find how much scratch its operations need; the caller
 * destroys it. *dry is NULL for every name but a GPU's: operations of the CPU allocate scratch outside the arena. */
ls_status ls_device_open_dry(const char *name, size_t *align, ls_device **dry);

/* Returns whether `name` is "cuda" or "cuda:N"; false for NULL. */
bool ls_device_is_gpu(const char *name);

/* Returns whether the named device has memory of its own, apart from the host's; false for NULL. */
bool ls_device_is_apart(const char *name);

/* Opens the device named "fake". Test programs set it (tests/fake); NULL elsewhere: there is no such device. */
extern ls_status (*ls_device_fake)(ls_device **out);

#endif
