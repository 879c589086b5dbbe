/* probe.h: measures this machine with the program's own operations, workers and collectives.
 *
 * For 1, 2, 4, … workers up to the cores, all workers run the same operation at the same time. Collectives are also
 * measured with more workers than cores, up to `workers` of the options. Everything is measured in forked processes, so
 * the calling process is unchanged. */
#ifndef LS_LAB_PROBE_PROBE_H
#define LS_LAB_PROBE_PROBE_H

#include <limits.h>

#include "plan/hardware/machine.h"
#include "plan/native/machine.h"

typedef struct ls_probe_options {
    int workers;                              /* at most; 0: as many as there are cores, 4 at least */
    int no_pin;                               /* as in ls_workers_options */
    const char *device;                       /* a GPU to measure too, chosen (device/choose.h); NULL: none */
    double seconds;                           /* to spend, about; 0: 25 */
    void (*say)(void *ctx, const char *what); /* told what is being measured, NULL at the end; may itself be NULL */
    void *ctx;
} ls_probe_options;

/* Measures the machine. Starts workers, so no thread may have been started. Under mpirun or srun it measures only the
 * launcher's number of workers, and *first tells whether this process has the result. */
ls_status ls_probe_run(const ls_probe_options *options, ls_native_machine *out, bool *first);
/* Measures GPU `device` in a child process, and then, unless `alone`, workers on it. "cuda:1" is that GPU alone; "cuda"
 * is GPU 0, measured for all GPUs of the machine. */
ls_status ls_probe_gpu(const char *device, bool alone, ls_native_gpu *out);
/* Checks that a GPU can be measured. LS_ERR_INPUT: there is no driver, or no such GPU. */
ls_status ls_probe_gpu_check(const char *device);
/* Reads the free memory of the GPU into gpu->free_bytes, in a child process. */
ls_status ls_probe_gpu_refresh(const char *device, ls_native_gpu *gpu);
/* Returns whether `gpu` was measured completely, and is still the model and number of GPUs that this machine has. */
bool ls_probe_gpu_is_current(const char *device, const ls_native_gpu *gpu);
/* Returns whether `machine` was measured by this version of the program on this CPU with as many cores. */
bool ls_probe_is_current(const ls_native_machine *machine);
/* Describes the machine as a cluster of one node for the planner, with a chip for each worker of the largest number
 * whose operations were measured. Its peaks are measured rates, so shares are 1, except those of attention. */
void ls_probe_cluster(const ls_native_machine *machine, ls_cluster *out);

/* ---- on disk ----------------------------------------------------------------------------------------------------- */

/* Writes to `path` the path of this machine's file, named by its host name, in the cache folder, and creates that
 * folder. LS_ERR_INPUT if the path is too long; else the folder cannot be created. */
ls_status ls_probe_file_path(char path[PATH_MAX]);
/* Writes a cluster file with the measured figures. */
ls_status ls_probe_file_write(const char *path, const ls_native_machine *machine);
/* Reads the measured figures of a cluster file; LS_ERR_INPUT if it has none. */
ls_status ls_probe_file_read(const char *path, ls_native_machine *machine);
/* Reads the machine from the cache if it is of this CPU, GPU and version; otherwise measures what is missing, all or
 * only the GPU, and writes the cache. `again`: measures in any case. *measured: something was measured. Starts workers:
 * no thread may have been started. */
ls_status ls_probe_file_get(const ls_probe_options *options, bool again, ls_native_machine *machine, bool *measured);

#endif
