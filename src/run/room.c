/* room.c: gathers the free memory of GPUs, and compares it with the sum of what the workers on each of them need. */
#include "run/room.h"

#include <stdio.h>
#include <string.h>

/* For kernels, which are loaded when first used. */
static const size_t kernels_bytes = (size_t)32 << 20;

ls_status ls_room_gather(ls_world *world, ls_device *device, ls_room *out) {
    ls_device_usage usage = {0};
    size_t bytes[LS_WORKERS_MAX];
    ls_room mine = {.workers = 1};
    *out = (ls_room){.workers = world ? ls_world_size(world) : 1};
    if (ls_device_has_usage(device)) {
        LS_TRY(ls_device_get_usage(device, &usage));
        mine.known = true;
        memcpy(mine.of[0].id, usage.id, sizeof usage.id);
        mine.of[0].free = usage.free;
        (void)snprintf(mine.of[0].name, sizeof mine.of[0].name, "%s", device->name);
    }
    if (!world) {
        *out = mine;
        return LS_OK;
    }
    for (int r = 0; r < out->workers; r++) bytes[r] = sizeof out->of[0];
    LS_TRY(ls_comm_all_gather(ls_world_comm(world), mine.of, out->of, bytes));
    out->known = true;
    for (int r = 0; r < out->workers; r++) out->known = out->known && out->of[r].name[0];
    return LS_OK;
}

/* Returns whether workers a and b use the same GPU. */
static bool share(const ls_room *room, int a, int b) {
    return memcmp(room->of[a].id, room->of[b].id, sizeof room->of[a].id) == 0;
}

ls_status ls_room_check(const ls_room *room, const size_t *bytes) {
    for (int r = 0; room->known && r < room->workers; r++) {
        size_t need = 0, room_there = room->of[r].free;
        int workers = 0;
        for (int i = 0; i < room->workers; i++) {
            if (!share(room, r, i)) continue;
            need += bytes[i] + kernels_bytes;
            workers++;
            if (room->of[i].free < room_there) room_there = room->of[i].free;
        }
        if (need <= room_there) continue;
        return ls_fail(
            LS_ERR_RESOURCE,
            "%s has %.1f MiB of memory free, and %d worker%s on it need%s %.1f MiB (%.1f MiB for worker %d): "
            "use a smaller --micro-batch, --recompute full, a higher --zero with more replicas, or more GPUs",
            room->of[r].name, (double)room_there / 0x1p20, workers, workers == 1 ? "" : "s", workers == 1 ? "s" : "",
            (double)need / 0x1p20, (double)bytes[r] / 0x1p20, r);
    }
    return LS_OK;
}
