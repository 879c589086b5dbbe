/* room.h: free memory of the workers' devices, and whether a layout fits, before anything is allocated.
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
        unsigned char id[16]; /* the same for workers that share it */
        size_t free;
        char name[32]; /* "cuda:1" */
    } of[LS_WORKERS_MAX];
} ls_room;

/* Collects the free memory of all workers' devices. Collective; a NULL world means a single worker. */
ls_status ls_room_gather(ls_world *world, ls_device *device, ls_room *out);
/* Checks that arenas of bytes[worker] fit on the devices. If not, LS_ERR_RESOURCE on all workers, with a remedy. */
ls_status ls_room_check(const ls_room *room, const size_t *bytes);

#endif
