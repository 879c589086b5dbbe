/* check_traffic.h: the counts of calls and bytes, against numbers worked out by hand for three workers and against the
 * formulas of lockstep.h for any number. */
#ifndef TESTS_COMM_CHECK_TRAFFIC_H
#define TESTS_COMM_CHECK_TRAFFIC_H

#include "harness.h"

enum { TRAFFIC_ELEMS = 1000 };

typedef struct traffic_look {
    ls_traffic of[LS_TRAFFIC_KINDS];
} traffic_look;

static inline traffic_look traffic_now(const ls_comm *comm) {
    traffic_look look;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) ls_comm_traffic(comm, (ls_traffic_kind)k, &look.of[k]);
    return look;
}

/* Since `before`: one kind has grown by this much, and no other. */
static inline ls_status traffic_grew(harness *h, const char *what, const ls_comm *comm, const traffic_look *before,
                                     ls_traffic_kind kind, uint64_t calls, uint64_t bytes) {
    traffic_look now = traffic_now(comm);
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        uint64_t more_calls = now.of[k].calls - before->of[k].calls, more_bytes = now.of[k].bytes - before->of[k].bytes;
        uint64_t want_calls = k == (int)kind ? calls : 0, want_bytes = k == (int)kind ? bytes : 0;
        h->checks++;
        if (more_calls != want_calls || more_bytes != want_bytes)
            return ls_fail(LS_ERR_FAILED, "traffic of %s: W=%d rank %d kind %d: %llu calls, %llu bytes; not %llu, %llu",
                           what, h->size, h->rank, k, (unsigned long long)more_calls, (unsigned long long)more_bytes,
                           (unsigned long long)want_calls, (unsigned long long)want_bytes);
    }
    return LS_OK;
}

static inline ls_status check_traffic_moves(harness *h, ls_comm *comm, float *a, float *b) {
    int W = ls_comm_size(comm), rank = ls_comm_rank(comm);
    uint64_t others = (uint64_t)W - 1;
    size_t counts[LS_WORKERS_MAX];
    traffic_look before = traffic_now(comm);
    for (int r = 0; r < W; r++) counts[r] = (size_t)(3 + r);
    LS_TRY(ls_comm_all_gather(comm, a, b, counts));
    LS_TRY(traffic_grew(h, "all-gather", comm, &before, LS_TRAFFIC_ALL_GATHER, 1, others * (uint64_t)(3 + rank)));
    before = traffic_now(comm);
    LS_TRY(ls_comm_all_to_all(comm, a, b, 7));
    LS_TRY(ls_comm_all_to_all(comm, a, b, 0));
    LS_TRY(traffic_grew(h, "all-to-all", comm, &before, LS_TRAFFIC_ALL_TO_ALL, 2, others * 7));
    before = traffic_now(comm);
    LS_TRY(ls_comm_broadcast(comm, W - 1, a, 100));
    LS_TRY(traffic_grew(h, "broadcast", comm, &before, LS_TRAFFIC_BROADCAST, 1, rank == W - 1 ? others * 100 : 0));
    before = traffic_now(comm);
    LS_TRY(ls_comm_barrier(comm));
    LS_TRY(traffic_grew(h, "barrier", comm, &before, LS_TRAFFIC_BARRIER, 1, 0));
    return LS_OK;
}

/* Around the ring; with one worker to itself, which is no traffic. */
static inline ls_status check_traffic_messages(harness *h, ls_comm *comm, float *a, float *b) {
    int W = ls_comm_size(comm), rank = ls_comm_rank(comm);
    ls_request *sending = NULL;
    traffic_look before = traffic_now(comm);
    LS_TRY(ls_comm_send_start(comm, (rank + 1) % W, 5, a, 2000, &sending));
    LS_TRY(traffic_grew(h, "send", comm, &before, LS_TRAFFIC_SEND, 1, W > 1 ? 2000 : 0));
    before = traffic_now(comm);
    LS_TRY(ls_comm_recv(comm, (rank + W - 1) % W, 5, b, 2000));
    LS_TRY(ls_request_wait(sending));
    return traffic_grew(h, "receive", comm, &before, LS_TRAFFIC_RECEIVE, 1, W > 1 ? 2000 : 0);
}

static inline ls_status check_traffic_sums(harness *h, ls_comm *comm, float *a, float *b) {
    uint64_t W = (uint64_t)ls_comm_size(comm), rank = (uint64_t)ls_comm_rank(comm), n = TRAFFIC_ELEMS;
    uint64_t own = n * (rank + 1) / W - n * rank / W;
    const void *parts[LS_TREE_COVER_MAX];
    for (int p = 0; p < LS_TREE_COVER_MAX; p++) parts[p] = a;
    traffic_look before = traffic_now(comm);
    LS_TRY(ls_comm_all_reduce(comm, NULL, LS_F32, parts, b, n));
    LS_TRY(traffic_grew(h, "all-reduce", comm, &before, LS_TRAFFIC_ALL_REDUCE, 1, (n - own) * 4 + (W - 1) * own * 4));
    before = traffic_now(comm);
    LS_TRY(ls_comm_reduce_scatter(comm, NULL, LS_I64, parts, b, NULL, n / 2));
    /* Fewer than 1024 elements are all the first member's. */
    return traffic_grew(h, "reduce-scatter", comm, &before, LS_TRAFFIC_REDUCE_SCATTER, 1, rank == 0 ? 0 : n / 2 * 8);
}

/* Eight groups of bf16 on three workers: 0-1 | 2-3, 4 | 5, 6-7, so 4, 4 + 2 and 2 + 4 bytes an element. */
static inline ls_status check_traffic_three(harness *h, float *a, float *b) {
    static const uint64_t scattered[3] = {3600, 4200, 2400}, reduced[3] = {5332, 6666, 6668};
    static const size_t shards[4] = {0, 100, 400, 1000};
    const ls_runs runs = {.groups = 8};
    const void *parts[LS_TREE_COVER_MAX];
    for (int p = 0; p < LS_TREE_COVER_MAX; p++) parts[p] = a;
    traffic_look before = traffic_now(h->comm);
    LS_TRY(ls_comm_reduce_scatter(h->comm, &runs, LS_BF16, parts, b, shards, TRAFFIC_ELEMS));
    LS_TRY(traffic_grew(h, "8 groups", h->comm, &before, LS_TRAFFIC_REDUCE_SCATTER, 1, scattered[h->rank]));
    before = traffic_now(h->comm);
    LS_TRY(ls_comm_all_reduce(h->comm, &runs, LS_BF16, parts, b, TRAFFIC_ELEMS));
    return traffic_grew(h, "8 groups", h->comm, &before, LS_TRAFFIC_ALL_REDUCE, 1, reduced[h->rank]);
}

static inline ls_status check_traffic(harness *h) {
    unsigned char *in, *out;
    ls_comm *alone = NULL;
    ls_status status;
    buffer_kind kind = draw_buffers(h);
    LS_TRY(area_new(h, kind, TRAFFIC_ELEMS * sizeof(float), 0, &in));
    LS_TRY(area_new(h, kind, (TRAFFIC_ELEMS + LS_WORKERS_MAX * LS_WORKERS_MAX) * sizeof(float), 0, &out));
    memset(in, 0, TRAFFIC_ELEMS * sizeof(float));
    float *a = (float *)(void *)in, *b = (float *)(void *)out;
    LS_TRY(check_traffic_moves(h, h->comm, a, b));
    LS_TRY(check_traffic_messages(h, h->comm, a, b));
    LS_TRY(check_traffic_sums(h, h->comm, a, b));
    if (h->size == 3) LS_TRY(check_traffic_three(h, a, b));
    traffic_look before = traffic_now(h->comm);
    LS_TRY(ls_comm_split(h->comm, h->rank, 0, &alone));
    /* A refused call is not counted. */
    LS_TRY_OUT(expect(h, ls_comm_broadcast(alone, 1, a, 1) == LS_ERR_INPUT, "a communicator of one has no member 1"));
    LS_TRY_OUT(expect(h, traffic_now(alone).of[LS_TRAFFIC_BROADCAST].calls == 0, "a refused call is not counted"));
    LS_TRY_OUT(check_traffic_moves(h, alone, a, b));
    LS_TRY_OUT(check_traffic_messages(h, alone, a, b));
    LS_TRY_OUT(check_traffic_sums(h, alone, a, b));
    traffic_look now = traffic_now(h->comm);
    LS_TRY_OUT(expect(h, now.of[LS_TRAFFIC_ALL_GATHER].calls - before.of[LS_TRAFFIC_ALL_GATHER].calls == 2,
                      "a split is two all-gathers of the parent"));
    ls_traffic none = {1, 1};
    ls_comm_traffic(h->comm, LS_TRAFFIC_KINDS, &none);
    LS_TRY_OUT(expect(h, none.calls == 0 && none.bytes == 0, "there is no traffic of no kind"));
out:
    ls_comm_destroy(alone);
    return status == LS_OK ? areas_end(h, "traffic") : status;
}

#endif
