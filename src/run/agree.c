/* agree.c: lets the workers of a run agree on failures and choices (agree.h). */
#include "run/agree.h"

#include <stdbool.h>
#include <stdio.h>

/* Replaces *number by its sum over all members. */
static ls_status sum(ls_comm *comm, int64_t *number) {
    const void *part = number;
    return ls_comm_all_reduce(comm, NULL, LS_I64, &part, number, 1);
}

/* A status with its message, as it is broadcast. */
typedef struct failure {
    ls_status status;
    char message[LS_MESSAGE_MAX];
} failure;

/* Returns the status with the last failure's message of this thread, which later calls would replace. */
static failure failure_now(ls_status status) {
    failure f = {.status = status};
    snprintf(f.message, sizeof f.message, "%s", ls_status_message());
    return f;
}

/* Sets *rank to the lowest rank with a failure and *out to that failure: each rank in turn broadcasts its status until
 * one has failed. With none *rank is the number of members. This takes a broadcast per rank, but happens only once in a
 * run. Collective. */
static ls_status first_failure(ls_comm *comm, const failure *mine, int *rank, failure *out) {
    for (*rank = 0; *rank < ls_comm_size(comm); (*rank)++) {
        *out = *mine;
        LS_TRY(ls_comm_broadcast(comm, *rank, out, sizeof *out));
        if (out->status != LS_OK) break;
    }
    return LS_OK;
}

ls_status ls_agree(ls_world *world, ls_status mine) {
    if (!world) return mine;
    failure own = failure_now(mine), first;
    ls_comm *comm = ls_world_comm(world);
    int64_t failures = mine != LS_OK;
    int rank = 0;
    ls_status status = sum(comm, &failures);
    if (status == LS_OK && failures == 0) return LS_OK;
    if (status == LS_OK) status = first_failure(comm, &own, &rank, &first);
    /* A worker was lost in the meantime: a worker with a failure of its own reports that one. */
    if (status != LS_OK) return mine == LS_OK ? status : ls_fail(mine, "%s", own.message);
    if (rank == ls_comm_rank(comm)) return ls_fail(mine, "%s", own.message);
    return ls_fail(LS_ERR_PEER, "worker %d failed: %.400s", rank, first.message);
}

ls_status ls_agree_tell(ls_world *world, void *data, size_t bytes) {
    return world ? ls_comm_broadcast(ls_world_comm(world), 0, data, bytes) : LS_OK;
}

ls_status ls_agree_fail(ls_world *world, ls_status status) {
    failure own = failure_now(status);
    if (world) (void)ls_comm_barrier(ls_world_comm(world)); /* if it fails, no worker is left to wait for */
    return ls_fail(status, "%s", own.message);
}

ls_status ls_agree_device(ls_world *world, ls_device_choice *chosen) {
    int gpus[LS_WORKERS_MAX], mine = ls_device_is_gpu(chosen->name), without = -1;
    size_t each[LS_WORKERS_MAX];
    if (!world || ls_world_size(world) == 1) return LS_OK;
    for (int r = 0; r < ls_world_size(world); r++) each[r] = sizeof *gpus;
    LS_TRY(ls_comm_all_gather(ls_world_comm(world), &mine, gpus, each));
    for (int r = ls_world_size(world) - 1; r >= 0; r--)
        if (!gpus[r]) without = r;
    if (without < 0 || !mine) return LS_OK;
    *chosen = (ls_device_choice){.name = "cpu"};
    (void)snprintf(chosen->about, sizeof chosen->about, "CPU, not a GPU: worker %d has none", without);
    return LS_OK;
}
