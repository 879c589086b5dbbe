/* probe.h: measures this machine with the program's own operations, workers and collectives.
 *
 * For every number of workers up to the cores, doubled from one to the next, all workers run the same operation at the
 * same time. Collectives are measured with more workers than cores too, where they are asked for. Everything is
 * measured in forked processes: this one stays as it was. */
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

/* Starts workers, so no thread may have been started; under mpirun or srun it measures those that are there, and *first
 * tells whether this process has the result. */
ls_status ls_probe_run(const ls_probe_options *options, ls_native_machine *out, bool *first);
/* GPU `device`, "cuda" or "cuda:1", in a process of its own, and then, unless it is to be `alone`, workers on it. */
ls_status ls_probe_gpu(const char *device, bool alone, ls_native_gpu *out);
/* Before anything is measured. LS_ERR_INPUT: there is no driver, or no such GPU. */
ls_status ls_probe_gpu_check(const char *device);
/* Memory that is free now. */
ls_status ls_probe_gpu_refresh(const char *device, ls_native_gpu *gpu);
/* Whether `gpu` was measured whole, and is what this machine has. */
bool ls_probe_gpu_is_current(const char *device, const ls_native_gpu *gpu);
/* Whether `machine` was measured by this version of the program on this CPU with as many cores. */
bool ls_probe_is_current(const ls_native_machine *machine);
/* The machine as a cluster of one node, a chip for each worker with all cores divided among them. */
void ls_probe_cluster(const ls_native_machine *machine, ls_cluster *out);

/* ---- on disk ----------------------------------------------------------------------------------------------------- */

/* The file of this machine in the cache folder. */
ls_status ls_probe_file_path(char path[PATH_MAX]);
/* Writes a cluster file with what was measured. */
ls_status ls_probe_file_write(const char *path, const ls_native_machine *machine);
/* Reads what was measured out of a cluster file; LS_ERR_INPUT where it holds no such figures. */
ls_status ls_probe_file_read(const char *path, ls_native_machine *machine);
/* From the cache where that is of this CPU, GPU and version, else measured now, which goes to the cache; a GPU alone
 * where nothing else is missing. `again`: measured in any case. *measured tells which it was. Starts workers: no thread
 * may have been started. */
ls_status ls_probe_file_get(const ls_probe_options *options, bool again, ls_native_machine *machine, bool *measured);

#endif
