/* run.c: forked workers, so that no row leaves anything behind for the next. */
#include "cli/verify/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fpenv.h"
#include "cli/cli.h"
#include "run/inputs/layout.h"
#include "comm/world.h"
#include "device/cpu/kernels.h"
#include "observe/trace.h"
#include "run/agree.h"
#include "run/inputs/layout.h"

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

typedef struct task {
    const ls_options *options;
    ls_verify_order *order;
    bool forked;
} task;

static ls_status steps(const ls_verify_order *order, ls_world *world, ls_device *device) {
    ls_world *shared = order->workers > 1 ? world : NULL;
    if (order->times) return ls_scale_work(&order->job, order->times, shared, device);
    return order->sums ? ls_order_work(&order->job, order->sums, shared, device)
                       : ls_verify_work(&order->job, shared, device);
}

/* All kernels of a forked worker are of its instruction set, those that add up contributions too. */
static ls_status work(ls_world *world, void *arg) {
    const task *t = arg;
    const char *trace = t->order->traced ? t->options->trace : NULL;
    ls_isa isa = ls_verify_isa_of(t->order->isa, ls_world_rank(world));
    ls_kernels kernels;
    ls_device *device = NULL;
    ls_fpenv_set();
    ls_kernels_fill(&kernels, ls_cpu_isa_mask() & ((2u << isa) - 1));
    if (t->forked) LS_TRY(ls_cpu_set_isa(ls_isa_name(isa)));
    LS_TRY(ls_device_open_cpu_pool(world->pool, &kernels, &device));
    ls_status status = ls_trace_begin(trace);
    if (status == LS_OK) status = steps(t->order, world, device);
    if (status == LS_OK) status = ls_trace_end(world, trace);
    ls_device_destroy(device);
    return status;
}

/* ---- one worker, in a process of its own ------------------------------------------------------------------------- */

/* How it ended, in shared memory. */
typedef struct ending {
    ls_status status;
    char message[LS_MESSAGE_MAX];
} ending;

static ls_status await(pid_t pid, const ending *end) {
    int wait_status;
    pid_t gone;
    do gone = waitpid(pid, &wait_status, 0);
    while (gone < 0 && errno == EINTR);
    if (gone < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot wait for the worker");
    if (WIFSIGNALED(wait_status))
        return ls_fail(LS_ERR_WORKER, "the worker (process %d) was killed by signal %d", (int)pid,
                       WTERMSIG(wait_status));
    return end->status == LS_OK ? LS_OK : ls_fail(end->status, "%s", end->message);
}

static ls_status run_one(const ls_workers_options *workers, task *t) {
    pid_t parent = getpid();
    ending *end = mmap(NULL, sizeof *end, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (end == MAP_FAILED) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the result of a worker");
    *end = (ending){.status = LS_ERR_FAILED, .message = "the worker exited before the run was finished"};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        ls_status status = ls_workers_run(workers, work, t);
        if (status != LS_OK) snprintf(end->message, sizeof end->message, "%s", ls_status_message());
        end->status = status;
        fflush(NULL);
        _exit(0);
    }
    ls_status status = pid < 0 ? ls_fail_errno(LS_ERR_RESOURCE, "cannot start a worker") : await(pid, end);
    munmap(end, sizeof *end);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static ls_status run_launched(ls_world *world, task *t) {
    if (t->order->workers > 1) return work(world, t);
    return ls_agree(world, ls_world_rank(world) == 0 ? work(world, t) : LS_OK);
}

ls_status ls_verify_run(const ls_verify_place *place, ls_verify_order *order) {
    task t = {.options = place->options, .order = order, .forked = !place->world};
    ls_workers_options workers;
    if (place->world) return run_launched(place->world, &t);
    LS_TRY(ls_workers_options_from(place->options, &workers));
    workers.workers = order->workers;
    workers.threads = order->threads;
    return order->workers == 1 ? run_one(&workers, &t) : ls_workers_run(&workers, work, &t);
}
