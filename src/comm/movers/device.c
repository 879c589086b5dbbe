/* device.c: opens a worker's device (CPU or GPU), and watches the other workers while the host waits for a GPU. The
 * device calls back through its guest, a table of functions. */
#include <stddef.h>

#include "base/clock.h"
#include "comm/links/links.h"
#include "comm/peers/peers.h"
#include "comm/movers/tensors.h"
#include "device/choose.h"

/* Returns the world that contains this guest. */
static ls_world *world_of(ls_device_guest *guest) {
    return (ls_world *)(void *)((char *)guest - offsetof(ls_world, watch.guest));
}

/* Returns an error if another worker has failed, is lost or stopped, or a link hangs; called while the host waits for
 * the device. Failed and lost workers are recorded in the segment. Stopped workers are looked for once the wait has
 * lasted --timeout, not counting pauses of this worker itself. */
static ls_status watch_other_workers(ls_device_guest *guest) {
    enum { SLICE_NS = 100000000, LINKS_NS = 10000000 };
    ls_world *world = world_of(guest);
    LS_TRY(ls_world_check(world));
    uint64_t now = ls_clock_ns(), since = now - world->watch.last_ns;
    if (world->links.first && since < LINKS_NS) return LS_OK;
    if (since > (uint64_t)10 * SLICE_NS) world->watch.stood_ns = 0;
    if (since >= SLICE_NS) since = 0;
    world->watch.last_ns = now;
    world->watch.stood_ns += since;
    if (world->transport->poke) world->transport->poke();
    LS_TRY(ls_links_watch(world, since));
    if ((double)world->watch.stood_ns * 1e-9 < world->timeout_s) return LS_OK;
    world->watch.stood_ns = 0;
    ls_status status = ls_world_check_stopped(world, world->timeout_s);
    if (status != LS_OK) ls_world_fail(world, status);
    return status;
}

/* Registers an allocation of the device with the peers; the device calls it after each. */
static ls_status note_allocation(ls_device_guest *guest, void *memory, size_t bytes) {
    ls_peers *peers = world_of(guest)->peers;
    return peers ? ls_peers_note(peers, memory, bytes) : LS_OK;
}

/* Removes an allocation that the device is about to free. */
static void forget_allocation(ls_device_guest *guest, void *memory) {
    ls_peers *peers = world_of(guest)->peers;
    if (peers) ls_peers_forget(peers, memory);
}

/* Closes links, scratch and peers of the device, which is about to be destroyed. */
static void leave_device(ls_device_guest *guest) {
    ls_world *world = world_of(guest);
    ls_links_leave(world);
    ls_scratch_free(world);
    if (world->peers) ls_peers_leave(world->peers);
    world->device->guest = NULL;
    world->device = NULL;
}

/* Allocates host memory that the other workers of the machine can access, for a CPU device's tensors. */
static ls_status alloc_shared(void *world, size_t bytes, void **memory) { return ls_world_alloc(world, bytes, memory); }
static void release_shared(void *world, void *memory) { ls_world_free(world, memory); }

ls_status ls_world_open_device(ls_world *world, const char *name, const struct ls_kernels *kernels, ls_device **out) {
    ls_memory_source shared = {.alloc = alloc_shared, .release = release_shared, .ctx = world};
    bool is_shared = world->size > 1 || world->attempt; /* under a supervisor the tensors must outlive the worker */
    LS_TRY(ls_device_open_named(name, world->place, out));
    if (!*out) return ls_device_open_cpu_pool(world->pool, kernels, is_shared ? &shared : NULL, out);
    if ((*out)->is_host || world->size < 2 || world->device) return LS_OK;
    world->watch.guest = (ls_device_guest){watch_other_workers, note_allocation, forget_allocation, leave_device};
    world->device = *out;
    world->device->guest = &world->watch.guest;
    return ls_peers_open(world, *out);
}
