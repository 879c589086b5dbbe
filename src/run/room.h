/* room.h: the free memory of the workers' GPUs ("room"), and whether a layout fits, before anything is allocated. The
 * trainer gathers it when it is created.
 *
 * Workers may share a GPU, so each one needs the figures of the others. */
#ifndef LS_RUN_ROOM_H
#define LS_RUN_ROOM_H

#include "device/device.h"
#include "lockstep.h"

typedef struct ls_room {
    bool known; /* every worker has a device with its own memory; otherwise host memory is used */
    int workers;
    struct {
        unsigned char id[16]; /* of the GPU; the same for workers that share it */
        size_t free;          /* bytes */
        char name[32];        /* "cuda:1" */
    } of[LS_WORKERS_MAX];
} ls_room;

/* Collects the free memory of all workers' GPUs into *out; `known` is false if a worker computes on a CPU. Collective;
 * a NULL world means a single worker. */
ls_status ls_room_gather(ls_world *world, ls_device *device, ls_room *out);
/* Checks that device allocations of bytes[r] by each worker r fit, with room for kernels. LS_ERR_RESOURCE, with a
 * remedy, if not; the same on all workers. LS_OK if the room is not known. */
ls_status ls_room_check(const ls_room *room, const size_t *bytes);

#endif
