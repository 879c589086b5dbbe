/* choose.h: which device a worker computes on: "auto", "cpu", "cuda" or "cuda:1"; in tests also "fake".
 *
 *     ls_device_choice_parse → ls_device_choice_settle → (workers are forked) → ls_world_open_device
 *
 * A process that has started the driver of a GPU cannot fork workers that use it, so whether a GPU works is asked of a child process. */
#ifndef LS_DEVICE_CHOOSE_H
#define LS_DEVICE_CHOOSE_H

#include <stddef.h>

#include "base/status.h"

typedef enum ls_device_kind { LS_DEVICE_AUTO, LS_DEVICE_CPU, LS_DEVICE_CUDA, LS_DEVICE_FAKE } ls_device_kind;

typedef struct ls_device_choice {
    ls_device_kind kind;
    int number; /* of the GPU; −1: workers of a machine take them in turn */
} ls_device_choice;

/* NULL is "auto". LS_ERR_INPUT for any other word. */
ls_status ls_device_choice_parse(const char *text, ls_device_choice *out);

/* Makes LS_DEVICE_AUTO one of the others: a GPU, where one works, else the CPU; `why` says what was found in a few words, "" where there was
 * nothing to find. A GPU that was asked for by name and does not work is an error. Does not start a driver in this process. */
enum { LS_DEVICE_WHY_BYTES = 256 };
ls_status ls_device_choice_settle(ls_device_choice *choice, char why[LS_DEVICE_WHY_BYTES]);

#endif
