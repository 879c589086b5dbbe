/* communicators.c: makes, splits and destroys communicators. Members on one machine share a control block of slots,
 * message rings and small buffers (world/comm.h), which the first of them allocates. */
#include "comm/communicators/communicators.h"

#include "comm/collectives/mail.h"
#include "comm/links/links.h"
#include "comm/peers/peers.h"
#include "comm/world/reduce_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int ls_comm_rank(const ls_comm *comm) { return comm->rank; }
int ls_comm_size(const ls_comm *comm) { return comm->size; }

void ls_comm_traffic(const ls_comm *comm, ls_traffic_kind kind, ls_traffic *out) {
    *out = (unsigned)kind < LS_TRAFFIC_KINDS ? comm->traffic[kind] : (ls_traffic){0};
}

/* ---- the control block ------------------------------------------------------------------------------------------- */

/* Returns the offset of the channels (message rings) in the control block of n local members. */
static size_t channels_at(int n) { return sizeof(ls_completed) * (size_t)n; }
/* Returns the offset of the slots in the control block of n local members. */
static size_t slots_at(int n) {
    return (channels_at(n) + sizeof(uint64_t) * (size_t)n * (size_t)n + 4095) / 4096 * 4096;
}
/* Returns the offset of the memory for small data in the control block of n local members. */
static size_t small_at(int n) { return (slots_at(n) + sizeof(ls_slot) * LS_SLOTS * (size_t)n + 4095) / 4096 * 4096; }

size_t ls_comm_control_bytes(int local_size) {
    return small_at(local_size) + (size_t)LS_SMALL_BYTES * LS_SLOTS * (size_t)local_size;
}

/* Points the communicator at its parts of a control block. */
static void attach_control(ls_comm *comm, void *control) {
    char *at = control;
    int n = comm->local_size;
    comm->control = control;
    comm->completed = control;
    comm->channels = (_Atomic uint64_t *)(void *)(at + channels_at(n));
    comm->slots = (ls_slot *)(void *)(at + slots_at(n));
    comm->small = at + small_at(n);
}

/* ---- members and machines ---------------------------------------------------------------------------------------- */

/* Numbers the machines in order of their first member and lists their members. `head` is space for comm->size
 * numbers. */
static void find_machines(ls_comm *comm, int *head) {
    const ls_world *world = comm->world;
    for (int r = 0; r < comm->size; r++) {
        int machine = 0, key = world->machines.of[comm->world_rank[r]];
        while (machine < comm->machines && head[machine] != key) machine++;
        if (machine == comm->machines) head[comm->machines++] = key;
        comm->machine_of[r] = machine;
    }
    int used = 0;
    for (int m = 0; m < comm->machines; m++) {
        comm->machine_first[m] = used;
        for (int r = 0; r < comm->size; r++)
            if (comm->machine_of[r] == m) comm->machine_ranks[used++] = r;
    }
    comm->machine_first[comm->machines] = used;
    comm->machine = comm->machine_of[comm->rank];
    comm->local_size = ls_comm_machine_size(comm, comm->machine);
    while (ls_comm_local_rank(comm, comm->local) != comm->rank) comm->local++;
}

/* Makes the struct of a communicator of these world ranks, in order, without control block, mail or transport. */
static ls_status make_comm(ls_world *world, const int *members, int size, ls_comm **out) {
    *out = NULL;
    ls_comm *comm = calloc(1, sizeof *comm);
    if (!comm) return ls_fail(LS_ERR_RESOURCE, "out of memory for a communicator");
    size_t n = (size_t)size;
    comm->world = world;
    comm->size = size;
    comm->queue = LS_QUEUE_COMM + LS_AXIS_COUNT;
    comm->world_rank = ls_region_take(&comm->memory, n, sizeof(int));
    comm->machine_of = ls_region_take(&comm->memory, n, sizeof(int));
    comm->machine_first = ls_region_take(&comm->memory, n + 1, sizeof(int));
    comm->machine_ranks = ls_region_take(&comm->memory, n, sizeof(int));
    comm->records = ls_region_take(&comm->memory, n, sizeof(ls_worker_record *));
    int *head = ls_region_take(&comm->memory, n, sizeof(int));
    if (comm->memory.is_short) {
        ls_comm_close(comm);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a communicator of %d workers", size);
    }
    memcpy(comm->world_rank, members, sizeof(int) * n);
    while (comm->world_rank[comm->rank] != world->rank) comm->rank++;
    find_machines(comm, head);
    for (int l = 0; world->segment.base && l < comm->local_size; l++) {
        int rank = comm->world_rank[ls_comm_local_rank(comm, l)];
        comm->records[l] = &world->segment.header->workers[world->machines.local_of[rank]];
    }
    *out = comm;
    return LS_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status ls_comm_open_world(ls_world *world, ls_comm **out) {
    ls_status status;
    ls_comm *comm = NULL;
    int *members = malloc(sizeof(int) * (size_t)world->size);
    if (!members) return ls_fail(LS_ERR_RESOURCE, "out of memory for the world");
    for (int r = 0; r < world->size; r++) members[r] = r;
    LS_TRY_OUT(make_comm(world, members, world->size, &comm));
    if (comm->local_size > 1) attach_control(comm, ls_segment_at(&world->segment, world->segment.control_at));
    LS_TRY_OUT(ls_mail_open(comm));
    if (world->transport->comm_open) LS_TRY_OUT(world->transport->comm_open(NULL, comm, 0, 0));
    *out = comm;
out:
    free(members);
    if (status != LS_OK) ls_comm_close(comm);
    return status;
}

/* What each member tells the others while the parent is split; gathered twice or three times. */
typedef struct seat {
    int color, key;
    bool links;       /* its device has links */
    bool shares;      /* its device shares its memory; in the second round: it could open those of all local members */
    uint64_t control; /* offset of the control block, from the first member on each machine */
} seat;

/* Lists the members with this worker's color, as ranks in the parent, ordered by key and then by that rank. Returns
 * their number. */
static int choose_members(const ls_comm *parent, const seat *seats, int *members) {
    int n = 0, color = seats[parent->rank].color;
    for (int r = 0; r < parent->size; r++) {
        if (seats[r].color != color) continue;
        int at = n++;
        while (at > 0 && seats[members[at - 1]].key > seats[r].key) {
            members[at] = members[at - 1];
            at--;
        }
        members[at] = r;
    }
    return n;
}

/* Gathers all members' seats. `sizes` is space for parent->size numbers. */
static ls_status gather_seats(ls_comm *parent, seat mine, seat *seats, size_t *sizes) {
    for (int r = 0; r < parent->size; r++) sizes[r] = sizeof(seat);
    return ls_comm_all_gather(parent, &mine, seats, sizes);
}

/* Returns whether links between machines are to be opened: the parent spans several, and all devices have links. */
static bool all_link(const ls_comm *parent, const seat *seats) {
    for (int r = 0; r < parent->size; r++)
        if (!seats[r].links) return false;
    return parent->machines > 1;
}

/* Returns whether all members' seats say `shares`. */
static bool all_share(const ls_comm *parent, const seat *seats) {
    for (int r = 0; r < parent->size; r++)
        if (!seats[r].shares) return false;
    return true;
}

ls_status ls_comm_split(ls_comm *parent, int color, int key, ls_comm **out) {
    return ls_comm_split_linked(parent, color, key, LS_QUEUE_COMM + LS_AXIS_COUNT,
                                LS_LINKS_COLLECTIVES | LS_LINKS_MESSAGES, out);
}

ls_status ls_comm_split_linked(ls_comm *parent, int color, int key, int queue, unsigned links, ls_comm **out) {
    *out = NULL;
    ls_world *world = parent->world;
    ls_comm *comm = NULL;
    ls_status status;
    size_t n = (size_t)parent->size;
    ls_region lists = {0};
    seat *seats = ls_region_take(&lists, n, sizeof *seats);
    size_t *sizes = ls_region_take(&lists, n, sizeof *sizes);
    int *members = ls_region_take(&lists, n, sizeof *members);
    if (lists.is_short) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a communicator");
        goto out;
    }
    seat mine = {.color = color, .key = key, .shares = world->peers != NULL};
    mine.links = world->device && ls_device_links(world->device);
    LS_TRY_OUT(gather_seats(parent, mine, seats, sizes));
    if (color >= 0) {
        int size = choose_members(parent, seats, members);
        for (int i = 0; i < size; i++) members[i] = parent->world_rank[members[i]];
        LS_TRY_OUT(make_comm(world, members, size, &comm));
        comm->queue = queue;
        if (comm->local_size > 1 && comm->local == 0) {
            void *block;
            LS_TRY_OUT(ls_heap_alloc(&world->heap, ls_comm_control_bytes(comm->local_size), false, &block));
            attach_control(comm, block);
            comm->owns_control = true;
            mine.control = ls_segment_offset(&world->segment, block);
        }
    }
    LS_TRY_OUT(gather_seats(parent, mine, seats, sizes));
    if (comm && comm->local_size > 1 && comm->local > 0) {
        int head = comm->world_rank[ls_comm_local_rank(comm, 0)], r = 0;
        while (parent->world_rank[r] != head) r++;
        attach_control(comm, ls_segment_at(&world->segment, seats[r].control));
    }
    if (comm) LS_TRY_OUT(ls_mail_open(comm));
    if (world->transport->comm_open) LS_TRY_OUT(world->transport->comm_open(parent, comm, color, key));
    bool has_links = all_link(parent, seats);
    if (all_share(parent, seats)) {
        mine.shares = !comm || ls_peers_meet(comm);
        LS_TRY_OUT(gather_seats(parent, mine, seats, sizes));
        if (comm) comm->peers = all_share(parent, seats);
    }
    if (has_links) LS_TRY_OUT(ls_links_meet(parent, comm, links));
    *out = comm;
out:
    if (status != LS_OK) ls_comm_close(comm);
    ls_region_free(&lists);
    return status;
}

void ls_comm_close(ls_comm *comm) {
    if (!comm) return;
    ls_links_close(comm);
    if (comm->net) comm->world->transport->comm_close(comm);
    ls_mail_close(comm);
    if (comm->owns_control) ls_heap_free(&comm->world->heap, comm->control);
    ls_reduce_plan_release(comm->plan);
    ls_region_free(&comm->memory);
    free(comm);
}

/* Waits until all local members have completed all collectives: the step of the last, internal request of a
 * communicator, by the member that frees the control block. */
static ls_status wait_for_leavers(ls_request *r) {
    ls_comm *comm = r->comm;
    for (int l = 0; l < comm->local_size; l++) {
        r->blocked_on = ls_comm_local_rank(comm, l);
        if (atomic_load_explicit(&comm->completed[l].count, memory_order_acquire) < comm->issued)
            return LS_REQUEST_WAITS;
    }
    return ls_request_complete(r);
}

void ls_comm_destroy(ls_comm *comm) {
    if (!comm) return;
    /* The control block holds the stages of the barrier itself, so its owner leaves last. An error is not returned
     * here: the world has failed, and its next call reports it. */
    ls_request *r = NULL;
    /* With all queues finished before the barrier, no member has a transfer in flight when a link is closed. */
    if (comm->links && !comm->world->failure.failed) (void)ls_device_finish(comm->links->device);
    if (!comm->world->failure.failed && ls_comm_barrier(comm) == LS_OK && comm->owns_control &&
        ls_request_make(comm, LS_TRAFFIC_KINDS, wait_for_leavers, &r) == LS_OK && ls_request_launch(r, &r) == LS_OK)
        (void)ls_request_wait(r);
    ls_comm_close(comm);
}
