/* file.c: writes and reads the measurements of a machine as a cluster file, and keeps them in the cache folder. */
#include "lab/probe/probe.h"

#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "data/text/cache_folder.h"
#include "device/choose.h"
#include "run/inputs/inputs.h"
#include "plan/hardware/machine_file.h"

ls_status ls_probe_file_path(char path[PATH_MAX]) {
    char cache[512], host[128] = "machine";
    LS_TRY(ls_cache_dir(cache, sizeof cache));
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "machine");
    for (char *at = host; *at; at++)
        if (*at == '/') *at = '-';
    ls_status status = ls_dir_make(cache);
    if (status != LS_OK) return ls_cache_folder_advise(status);
    if (snprintf(path, PATH_MAX, "%s/probe-%s.json", cache, host) >= PATH_MAX)
        return ls_fail(LS_ERR_INPUT, "the path of the cache folder is too long: %s", cache);
    return LS_OK;
}

ls_status ls_probe_file_write(const char *path, const ls_native_machine *machine) {
    ls_cluster cluster;
    json_t *measured = ls_native_machine_to_json(machine);
    if (!measured) return ls_fail(LS_ERR_RESOURCE, "out of memory for a cluster file");
    ls_probe_cluster(machine, &cluster);
    ls_status status = ls_machine_file_write(path, &cluster, measured);
    json_decref(measured);
    return status;
}

ls_status ls_probe_file_read(const char *path, ls_native_machine *machine) {
    ls_cluster cluster;
    json_t *measured = NULL;
    LS_TRY(ls_machine_file_read(path, &cluster, &measured));
    ls_status status =
        measured ? ls_native_machine_from_json(path, measured, machine)
                 : ls_fail(LS_ERR_INPUT, "%s: this machine has not been measured; run lockstep probe first", path);
    json_decref(measured);
    return status;
}

/* Returns whether the options name a GPU. */
static bool wants_gpu(const ls_probe_options *options) { return options->device && ls_device_is_gpu(options->device); }

/* Measures the requested GPU; the other figures of the machine stay. */
static ls_status add_gpu(const ls_probe_options *options, ls_native_machine *machine) {
    if (options->say) options->say(options->ctx, "the GPU");
    ls_status status = ls_probe_gpu(options->device, false, &machine->gpu);
    if (options->say) options->say(options->ctx, NULL);
    if (status == LS_OK) ls_native_rates_fit(&machine->gpu.rates);
    return status;
}

/* Writes the file in the cache folder; the message of a failure says how to choose another one. */
static ls_status write_cached(const char *path, const ls_native_machine *machine) {
    ls_status status = ls_probe_file_write(path, machine);
    return status == LS_OK ? LS_OK : ls_cache_folder_advise(status);
}

ls_status ls_probe_file_get(const ls_probe_options *options, bool again, ls_native_machine *machine, bool *measured) {
    char path[PATH_MAX];
    bool first;
    LS_TRY(ls_probe_file_path(path));
    *measured = false;
    if (!again && ls_file_exists(path) && ls_probe_file_read(path, machine) == LS_OK && ls_probe_is_current(machine)) {
        if (!wants_gpu(options) || ls_probe_gpu_is_current(options->device, &machine->gpu)) return LS_OK;
        *measured = true;
        LS_TRY(add_gpu(options, machine));
        return write_cached(path, machine);
    }
    *measured = true;
    LS_TRY(ls_probe_run(options, machine, &first));
    return write_cached(path, machine);
}
