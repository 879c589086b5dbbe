/* room.h: memory of the workers' devices: what they have, and whether a layout fits, before anything is allocated.
 *
 * Workers may share a GPU, so each needs to know what the others see and want. */
#ifndef LS_RUN_ROOM_H
#define LS_RUN_ROOM_H

#include "device/device.h"
#include "lockstep.h"

typedef struct ls_room {
    bool known; /* every worker has a device with memory of its own kind; else the host's memory is what counts */
    int workers;
    struct {
        unsigned char id[16]; /* the same for workers that share it */
        size_t free;
        char name[32]; /* "cuda:1" */
    } of[LS_WORKERS_MAX];
} ls_room;

/* All workers together; a world that is NULL is one worker alone. */
ls_status ls_room_gather(ls_world *world, ls_device *device, ls_room *out);
/* LS_ERR_RESOURCE, the same for all, where the arenas of `bytes`, by worker, do not fit: it says what to change. */
ls_status ls_room_check(const ls_room *room, const size_t *bytes);

#endif
