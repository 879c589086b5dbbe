/* memory.c: finds the memory and the counters of other workers' devices (GPUs of one machine), for peers.h.
 *
 * Each worker numbers the allocations of its device. A place is the number of an allocation and an offset, in one word.
 * The segment has a table with the handles of those allocations that were published. A worker that sees a number for
 * the first time opens its handle and keeps the address. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/peers/peers.h"

enum { TABLE = 1024, OFFSET_BITS = 44, COUNTER_WORDS = 16, COUNTERS = (LS_QUEUE_RECEIVE - LS_QUEUE_COMM) * 2 };
enum { COUNTER_BYTES = COUNTERS * COUNTER_WORDS * 8 };

static const uint64_t number_mask = ((uint64_t)1 << (64 - OFFSET_BITS)) - 1,
                      offset_mask = ((uint64_t)1 << OFFSET_BITS) - 1;

/* An entry is reused after TABLE allocations, which is far more than requests in flight can refer to. */
typedef struct table {
    uint64_t counters; /* place of the counters */
    bool has_gpu;
    unsigned char gpu[16]; /* ls_device_usage.id */
    struct {
        _Atomic uint64_t number; /* of the allocation; 0: none, or freed */
        ls_memory_handle handle;
    } entry[TABLE];
} table;

/* An allocation of this worker's device. */
typedef struct allocation {
    struct allocation *next;
    const char *memory;
    size_t bytes;
    uint64_t number;
} allocation;

/* An opened allocation of another worker. */
typedef struct opened {
    struct opened *next;
    uint64_t number;
    char *memory;
} opened;

/* What this worker has opened of another worker of its machine. */
typedef struct peer {
    opened *opened;
    const uint64_t *counters;
} peer;

struct ls_peers {
    ls_world *world;
    ls_device *device;
    allocation *allocations;
    uint64_t numbered;          /* the last number given to an allocation */
    table *table;               /* in the segment */
    uint64_t *counters;         /* this worker's, on its device */
    uint64_t counted[COUNTERS]; /* values that they will reach once all enqueued signals have happened */
    peer peer[];                /* by local number in the world */
};

/* ---- allocations ------------------------------------------------------------------------------------------------- */

ls_status ls_peers_note(ls_peers *peers, void *memory, size_t bytes) {
    allocation *a = malloc(sizeof *a);
    if (!a) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of tensors' memory");
    if (++peers->numbered > number_mask) peers->numbered = 1;
    *a = (allocation){peers->allocations, memory, bytes, peers->numbered};
    peers->allocations = a;
    return LS_OK;
}

void ls_peers_forget(ls_peers *peers, const void *memory) {
    for (allocation **at = &peers->allocations; *at; at = &(*at)->next) {
        allocation *a = *at;
        if (a->memory != memory) continue;
        *at = a->next;
        if (peers->table && peers->table->entry[a->number % TABLE].number == a->number)
            peers->table->entry[a->number % TABLE].number = 0;
        free(a);
        return;
    }
}

void ls_peers_leave(ls_peers *peers) {
    ls_world *world = peers->world;
    for (int l = 0; l < world->machines.local_size; l++)
        for (opened *o = peers->peer[l].opened, *next; o; o = next) {
            next = o->next;
            ls_device_close(peers->device, o->memory);
            free(o);
        }
    ls_device_free(peers->device, peers->counters);
    if (peers->table) ls_heap_free(&world->heap, peers->table);
    world->segment.header->workers[world->machines.local].peers = 0;
    world->peers = NULL;
    for (allocation *a = peers->allocations, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    free(peers);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Logs, once for all workers of this machine, that tensors go through host memory. */
static void warn_staging(ls_world *world, const char *why) {
    if (atomic_exchange(&world->segment.header->told_staging, 1) == 0)
        ls_log_warn("GPU tensors go from worker to worker through host memory, which is slower: %s", why);
}

/* Writes the id of this worker's GPU into its table, by which workers that share a GPU find each other. has_gpu stays
 * false for a device that has no id, or that cannot be asked whether an event has passed. */
static ls_status name_gpu(ls_device *device, table *own) {
    ls_device_usage usage;
    own->has_gpu = ls_device_has_usage(device) && device->calls->passed;
    if (!own->has_gpu) return LS_OK;
    LS_TRY(ls_device_get_usage(device, &usage));
    memcpy(own->gpu, usage.id, sizeof own->gpu);
    return LS_OK;
}

/* Allocates this worker's table and counters, and publishes them in its record. After an error the caller frees
 * them. */
static ls_status publish_counters(ls_peers *peers) {
    ls_world *world = peers->world;
    void *memory;
    LS_TRY(ls_heap_alloc(&world->heap, sizeof *peers->table, false, &memory));
    peers->table = memory;
    LS_TRY(name_gpu(peers->device, peers->table));
    LS_TRY(ls_device_alloc(peers->device, COUNTER_BYTES, &memory));
    peers->counters = memory;
    peers->device->shared_bytes += COUNTER_BYTES;
    LS_TRY(ls_device_finish(peers->device)); /* the counters are zero before another worker can read them */
    LS_TRY(ls_peers_place(peers, memory, 1, &peers->table->counters));
    world->segment.header->workers[world->machines.local].peers = ls_segment_offset(&world->segment, peers->table);
    return LS_OK;
}

ls_status ls_peers_open(ls_world *world, ls_device *device) {
    if (!world->segment.base || world->machines.local_size < 2 || world->wire.slow || world->peers) return LS_OK;
    if (!ls_device_shares(device)) {
        warn_staging(world, "the device cannot share its memory with other processes");
        return LS_OK;
    }
    ls_peers *peers = calloc(1, sizeof *peers + sizeof(peer) * (size_t)world->machines.local_size);
    if (!peers) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", world->machines.local_size);
    peers->world = world;
    peers->device = device;
    world->peers = peers;
    if (publish_counters(peers) != LS_OK) {
        warn_staging(world, ls_status_message());
        ls_peers_leave(peers);
    }
    return LS_OK;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

ls_status ls_peers_place(ls_peers *peers, const void *memory, size_t bytes, uint64_t *place) {
    *place = 0;
    if (bytes == 0) return LS_OK;
    const allocation *a = peers->allocations;
    while (a && !((const char *)memory >= a->memory && (const char *)memory < a->memory + a->bytes)) a = a->next;
    if (!a) return ls_fail(LS_ERR_INPUT, "a collective got the address %p, which its device did not allocate", memory);
    uint64_t at = a->number % TABLE;
    if (peers->table->entry[at].number != a->number) {
        LS_TRY(ls_device_share(peers->device, (void *)(uintptr_t)a->memory, &peers->table->entry[at].handle));
        peers->table->entry[at].number = a->number;
    }
    *place = a->number << OFFSET_BITS | (uint64_t)((const char *)memory - a->memory);
    return LS_OK;
}

/* Returns the table of a local worker (its number in the world); NULL: it shares nothing. */
static const table *table_of(const ls_peers *peers, int worker) {
    const ls_segment *segment = &peers->world->segment;
    uint64_t at = segment->header->workers[worker].peers;
    return at ? ls_segment_at(segment, at) : NULL;
}

/* Closes allocations that their owner has freed. This is done before another one is opened, because a driver may give
 * new memory the handle of freed memory, and would then return the stale address that is still open. */
static void close_freed(ls_peers *peers, int worker, const table *theirs) {
    for (opened **at = &peers->peer[worker].opened; *at;) {
        opened *o = *at;
        if (theirs->entry[o->number % TABLE].number == o->number) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        ls_device_close(peers->device, o->memory);
        free(o);
    }
}

/* Opens an allocation of another worker and keeps it open. LS_ERR_FAILED: its owner has freed it. */
static ls_status open_allocation(ls_peers *peers, int worker, uint64_t number, opened **out) {
    const table *theirs = table_of(peers, worker);
    if (!theirs || theirs->entry[number % TABLE].number != number)
        return ls_fail(LS_ERR_FAILED, "worker %d freed device memory that a collective still used",
                       peers->world->segment.header->workers[worker].rank);
    close_freed(peers, worker, theirs);
    void *memory;
    LS_TRY(ls_device_open(peers->device, &theirs->entry[number % TABLE].handle, &memory));
    *out = malloc(sizeof **out);
    if (!*out) {
        ls_device_close(peers->device, memory);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of tensors' memory");
    }
    **out = (opened){peers->peer[worker].opened, number, memory};
    peers->peer[worker].opened = *out;
    return LS_OK;
}

/* Returns in *out the address here of a worker's place, opening its allocation if needed; NULL for place 0. */
static ls_status resolve_place(ls_peers *peers, int worker, uint64_t place, void **out) {
    uint64_t number = place >> OFFSET_BITS;
    *out = NULL;
    if (!place) return LS_OK;
    opened *o = peers->peer[worker].opened;
    while (o && o->number != number) o = o->next;
    if (!o) LS_TRY(open_allocation(peers, worker, number, &o));
    *out = o->memory + (place & offset_mask);
    return LS_OK;
}

/* Returns the number, among the workers of this machine, of a local member. */
static int worker_of(const ls_comm *comm, int local) {
    return comm->world->machines.local_of[comm->world_rank[ls_comm_local_rank(comm, local)]];
}

ls_status ls_peers_at(const ls_comm *comm, int local, uint64_t place, void **out) {
    return resolve_place(comm->world->peers, worker_of(comm, local), place, out);
}

bool ls_peers_meet(ls_comm *comm) {
    ls_world *world = comm->world;
    ls_peers *peers = world->peers;
    for (int l = 0; l < comm->local_size; l++) {
        int worker = worker_of(comm, l);
        void *counters;
        if (l == comm->local || peers->peer[worker].counters) continue;
        if (resolve_place(peers, worker, table_of(peers, worker)->counters, &counters) != LS_OK) {
            warn_staging(world, ls_status_message());
            return false;
        }
        peers->peer[worker].counters = counters;
    }
    for (int l = 0; l < comm->local_size && peers->table->has_gpu; l++) {
        const table *theirs = table_of(peers, worker_of(comm, l));
        if (l != comm->local && theirs->has_gpu && memcmp(theirs->gpu, peers->table->gpu, sizeof theirs->gpu) == 0)
            comm->takes_turns = true;
    }
    return true;
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

/* Returns the number of the communicator's counter: each device queue has two, so communicators on one queue share
 * them. */
static int counter_number(const ls_comm *comm, ls_peers_count kind) {
    return (comm->queue - LS_QUEUE_COMM) * 2 + (int)kind;
}

ls_status ls_peers_signal(const ls_comm *comm, ls_peers_count kind, uint64_t *value) {
    ls_peers *peers = comm->world->peers;
    int at = counter_number(comm, kind);
    *value = ++peers->counted[at];
    return ls_device_signal(peers->device, peers->counters + at * COUNTER_WORDS, *value);
}

const uint64_t *ls_peers_counter(const ls_comm *comm, int local, ls_peers_count kind) {
    return comm->world->peers->peer[worker_of(comm, local)].counters + counter_number(comm, kind) * COUNTER_WORDS;
}

ls_status ls_peers_reached(const ls_request *r, ls_event event) {
    enum { LOOK_AGAIN_NS = 50000 };
    ls_world *world = r->comm->world;
    bool passed;
    if (!r->comm->takes_turns) return LS_OK;
    LS_TRY(ls_device_passed(r->tensors->device, event, &passed));
    if (passed) return LS_OK;
    uint64_t again = ls_clock_ns() + LOOK_AGAIN_NS;
    if (again < world->wire.wake_ns) world->wire.wake_ns = again;
    return LS_REQUEST_WAITS;
}
