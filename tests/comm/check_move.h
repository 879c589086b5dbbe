/* check_move.h: the collectives that only move bytes: barrier, broadcast, all-gather, all-to-all. */
#ifndef TESTS_COMM_CHECK_MOVE_H
#define TESTS_COMM_CHECK_MOVE_H

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static const size_t move_sizes[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 4096, 4099, 65537, (1u << 20) + 5};
enum { MOVE_SIZES = sizeof move_sizes / sizeof move_sizes[0] };

/* ---- broadcast --------------------------------------------------------------------------------------------------- */

static inline ls_status broadcast_once(harness *h, int root, size_t bytes) {
    uint64_t key = pattern_key(h, draw(h), root, -1);
    buffer_kind kind = draw_buffers(h);
    call_form form = draw_form(h);
    unsigned char *buffer;
    LS_TRY(area_new(h, kind, bytes, draw_below(h, 4), &buffer));
    if (h->rank == root) pattern_fill(buffer, bytes, key);
    if (form == CALL_BLOCKING) {
        LS_TRY(ls_comm_broadcast(h->comm, root, buffer, bytes));
    } else {
        ls_request *request = NULL;
        LS_TRY(ls_comm_broadcast_start(h->comm, root, buffer, bytes, &request));
        LS_TRY(finish_request(request, form));
    }
    LS_TRY(pattern_check(h, "broadcast", buffer, bytes, key, root));
    return areas_end(h, "broadcast");
}

static inline ls_status check_broadcast(harness *h) {
    for (int s = 0; s < MOVE_SIZES; s++) {
        int step = move_sizes[s] > 100000 && h->size > 2 ? h->size - 1 : 1;
        for (int root = 0; root < h->size; root += step) LS_TRY(broadcast_once(h, root, move_sizes[s]));
    }
    return LS_OK;
}

/* ---- all-gather -------------------------------------------------------------------------------------------------- */

/* Rank r hands over bytes[r] bytes. */
static inline ls_status all_gather_once(harness *h, const size_t *bytes) {
    uint64_t trial = draw(h);
    bool in_place = draw(h) % 2;
    buffer_kind kind = draw_buffers(h);
    call_form form = draw_form(h);
    size_t total = 0, mine = 0;
    for (int r = 0; r < h->size; r++) {
        if (r == h->rank) mine = total;
        total += bytes[r];
    }
    unsigned char *in, *out;
    LS_TRY(area_new(h, kind, total, draw_below(h, 4), &out));
    LS_TRY(area_new(h, kind, bytes[h->rank], 0, &in));
    if (in_place) in = out + mine;
    pattern_fill(in, bytes[h->rank], pattern_key(h, trial, h->rank, -1));
    if (form == CALL_BLOCKING) {
        LS_TRY(ls_comm_all_gather(h->comm, in, out, bytes));
    } else {
        ls_request *request = NULL;
        LS_TRY(ls_comm_all_gather_start(h->comm, in, out, bytes, &request));
        LS_TRY(finish_request(request, form));
    }
    size_t at = 0;
    for (int r = 0; r < h->size; r++) {
        LS_TRY(pattern_check(h, "all_gather", out + at, bytes[r], pattern_key(h, trial, r, -1), r));
        at += bytes[r];
    }
    LS_TRY(pattern_check(h, "all_gather input", in, bytes[h->rank], pattern_key(h, trial, h->rank, -1), h->rank));
    return areas_end(h, "all_gather");
}

static inline ls_status check_all_gather(harness *h) {
    size_t bytes[LS_WORKERS_MAX];
    for (int s = 0; s < MOVE_SIZES; s++) {
        for (int r = 0; r < h->size; r++) bytes[r] = move_sizes[s];
        LS_TRY(all_gather_once(h, bytes));
        LS_TRY(all_gather_once(h, bytes));
        for (int ragged = 0; ragged < 4; ragged++) {
            for (int r = 0; r < h->size; r++) bytes[r] = draw(h) % 3 == 0 ? 0 : draw_below(h, move_sizes[s] + 1);
            LS_TRY(all_gather_once(h, bytes));
        }
    }
    for (int only = 0; only < h->size; only++) {
        for (int r = 0; r < h->size; r++) bytes[r] = r == only ? 777 : 0;
        LS_TRY(all_gather_once(h, bytes));
    }
    return LS_OK;
}

/* ---- all-to-all -------------------------------------------------------------------------------------------------- */

static inline ls_status all_to_all_once(harness *h, size_t bytes, bool in_place) {
    uint64_t trial = draw(h);
    buffer_kind kind = draw_buffers(h);
    call_form form = draw_form(h);
    unsigned char *in, *out;
    LS_TRY(area_new(h, kind, bytes * (size_t)h->size, draw_below(h, 4), &out));
    LS_TRY(area_new(h, kind, bytes * (size_t)h->size, draw_below(h, 4), &in));
    if (in_place) in = out;
    for (int to = 0; to < h->size; to++)
        pattern_fill(in + bytes * (size_t)to, bytes, pattern_key(h, trial, h->rank, to));
    if (form == CALL_BLOCKING) {
        LS_TRY(ls_comm_all_to_all(h->comm, in, out, bytes));
    } else {
        ls_request *request = NULL;
        LS_TRY(ls_comm_all_to_all_start(h->comm, in, out, bytes, &request));
        LS_TRY(finish_request(request, form));
    }
    for (int r = 0; r < h->size; r++) {
        const char *op = in_place ? "all_to_all in place" : "all_to_all";
        LS_TRY(pattern_check(h, op, out + bytes * (size_t)r, bytes, pattern_key(h, trial, r, h->rank), r));
        if (in_place) continue;
        uint64_t key = pattern_key(h, trial, h->rank, r);
        LS_TRY(pattern_check(h, "all_to_all input", in + bytes * (size_t)r, bytes, key, h->rank));
    }
    return areas_end(h, "all_to_all");
}

static inline ls_status check_all_to_all(harness *h) {
    for (int s = 0; s < MOVE_SIZES; s++) {
        LS_TRY(all_to_all_once(h, move_sizes[s], false));
        LS_TRY(all_to_all_once(h, move_sizes[s], true));
    }
    return LS_OK;
}

/* ---- barrier ----------------------------------------------------------------------------------------------------- */

typedef struct moment {
    char machine[48];
    int64_t entered_ns, left_ns;
} moment;

static inline int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Machines have clocks of their own; workers that see the same boot id share one. */
static inline void machine_name(char *name, size_t room) {
    memset(name, 0, room);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, name, room - 1) < 0) name[0] = 0;
    close(fd);
}

/* One member arrives late; no member may leave the barrier before it has arrived. */
static inline ls_status barrier_once(harness *h, int late, bool started) {
    moment mine = {.entered_ns = 0};
    moment *all = calloc((size_t)h->size, sizeof *all);
    size_t bytes[LS_WORKERS_MAX];
    ls_status status = LS_OK;
    if (all == NULL) return ls_fail(LS_ERR_RESOURCE, "no memory for %d moments", h->size);
    for (int r = 0; r < h->size; r++) bytes[r] = sizeof mine;
    machine_name(mine.machine, sizeof mine.machine);
    if (h->rank == late) usleep(3000);
    mine.entered_ns = clock_ns();
    if (started) {
        ls_request *request = NULL;
        LS_TRY_OUT(ls_comm_barrier_start(h->comm, &request));
        LS_TRY_OUT(finish_request(request, CALL_POLLED));
    } else {
        LS_TRY_OUT(ls_comm_barrier(h->comm));
    }
    mine.left_ns = clock_ns();
    LS_TRY_OUT(ls_comm_all_gather(h->comm, &mine, all, bytes));
    for (int r = 0; r < h->size; r++) {
        if (strcmp(all[r].machine, mine.machine) != 0) continue;
        h->checks++;
        if (all[r].entered_ns > mine.left_ns) {
            status = ls_fail(LS_ERR_FAILED, "barrier: W=%d rank %d left %lld ns before rank %d entered", h->size,
                             h->rank, (long long)(all[r].entered_ns - mine.left_ns), r);
            goto out;
        }
    }
out:
    free(all);
    return status;
}

static inline ls_status check_barrier(harness *h) {
    for (int round = 0; round < 3; round++) {
        for (int late = 0; late < h->size; late++) LS_TRY(barrier_once(h, late, round == 1));
    }
    for (int i = 0; i < 500; i++) LS_TRY(ls_comm_barrier(h->comm));
    return LS_OK;
}

#endif
