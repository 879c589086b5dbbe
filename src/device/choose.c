/* choose.c: devices by name. */
#include "device/choose.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/fake/fake.h"

static ls_status open_in_turn(int local, ls_device **out) {
    int count;
    LS_TRY(ls_cuda_count(&count));
    return ls_device_open_cuda(local % count, out);
}

ls_status ls_device_open_named(const char *name, int local, ls_device **out) {
    static const char cuda[] = "cuda";
    *out = NULL;
    if (strcmp(name, "cpu") == 0) return LS_OK;
    if (strcmp(name, "fake") == 0) return ls_device_open_fake(out);
    if (strcmp(name, cuda) == 0) return open_in_turn(local, out);
    if (strcmp(name, "auto") == 0) {
        if (ls_cuda_is_installed() && open_in_turn(local, out) != LS_OK) *out = NULL;
        return LS_OK;
    }
    if (strncmp(name, "cuda:", sizeof cuda) == 0 && name[sizeof cuda] >= '0' && name[sizeof cuda] <= '9') {
        char *end;
        long number = strtol(name + sizeof cuda, &end, 10);
        if (*end == '\0' && number < 1024) return ls_device_open_cuda((int)number, out);
    }
    return ls_fail(LS_ERR_INPUT,
                   "no device is called %.40s; choose auto, cpu, cuda or cuda:N, N the number of a GPU from 0", name);
}
