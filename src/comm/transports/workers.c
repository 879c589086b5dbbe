/* workers.c: ls_workers_run() chooses the transport of a run. */
#include <stdio.h>

#include "base/log.h"
#include "comm/launch/launcher.h"
#include "comm/transports/transports.h"

/* Returns LS_ERR_INPUT if a number is out of range; 0 stands for a default everywhere. */
static ls_status check_workers_options(const ls_workers_options *o) {
    if (o->workers < 0 || o->workers > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "%d workers: must be between 1 and %d on one machine", o->workers, LS_WORKERS_MAX);
    if (o->threads < 0 || o->threads > 1024)
        return ls_fail(LS_ERR_INPUT, "%d threads: must be between 1 and 1024", o->threads);
    if (!(o->timeout_s >= 0)) return ls_fail(LS_ERR_INPUT, "timeout of %g s: must be positive", o->timeout_s);
    if (!(o->link_latency_s >= 0 && o->link_bytes_per_s >= 0))
        return ls_fail(LS_ERR_INPUT, "link with %g s latency and %g bytes/s: must not be negative", o->link_latency_s,
                       o->link_bytes_per_s);
    if (o->node_size < 0) return ls_fail(LS_ERR_INPUT, "node size of %d: must be positive", o->node_size);
    return LS_OK;
}

/* Returns LS_ERR_INPUT for an unsupported start by a launcher. All its processes return this error; only rank 0 prints
 * it. */
static ls_status fail_launched(const ls_launcher *launcher, const char *what_to_do) {
    return ls_fail(LS_ERR_INPUT, "started by %s as one of %d processes, %s", launcher->name, launcher->size,
                   what_to_do);
}

/* Runs this process as one worker of mpirun or srun; refuses torchrun, a contradicting --workers, and a build without
 * MPI. */
static ls_status run_launched(const ls_launcher *launcher, const ls_workers_options *o, ls_worker_fn fn, void *arg) {
    if (launcher->kind == LS_LAUNCHER_TORCHRUN)
        return fail_launched(
            launcher, "which lockstep does not support: use --workers N on one machine, or mpirun or srun on several");
    if (o->workers > 0 && o->workers != launcher->size) {
        char text[96];
        snprintf(text, sizeof text, "but --workers is %d: omit --workers", o->workers);
        return fail_launched(launcher, text);
    }
#ifdef LS_HAVE_MPI
    return ls_transport_mpi.run(o, fn, arg);
#else
    (void)fn;
    (void)arg;
    return fail_launched(
        launcher,
        "but this lockstep was built without MPI: install libopenmpi-dev (or point PKG_CONFIG_PATH at an MPI) "
        "and run make again, or use --workers N on one machine");
#endif
}

ls_status ls_workers_run(const ls_workers_options *options, ls_worker_fn fn, void *arg) {
    ls_workers_options o = options ? *options : (ls_workers_options){0};
    LS_TRY(check_workers_options(&o));
    ls_launcher launcher = ls_launcher_detect();
    if (launcher.kind != LS_LAUNCHER_NONE && launcher.stale)
        ls_log_warn("ignoring the environment variables of %s (%d processes): it did not start this process",
                    launcher.name, launcher.size);
    else if (launcher.kind != LS_LAUNCHER_NONE)
        return run_launched(&launcher, &o, fn, arg);
    if (o.workers == 0) o.workers = 1;
    return (o.workers == 1 && !o.forks_one ? &ls_transport_self : &ls_transport_shm)->run(&o, fn, arg);
}
