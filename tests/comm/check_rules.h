/* check_rules.h: bad arguments are refused without harm, and many operations may be in flight at once. */
#ifndef TESTS_COMM_CHECK_RULES_H
#define TESTS_COMM_CHECK_RULES_H

#include "check_groups.h"

/* ---- bad arguments ----------------------------------------------------------------------------------------------- */

/* The call was refused as bad input, with a message, and the communicator still works. */
static inline ls_status refused(harness *h, ls_status status, const char *what) {
    h->checks++;
    if (status != LS_ERR_INPUT)
        return ls_fail(LS_ERR_FAILED, "W=%d rank %d: %s gave %s, not LS_ERR_INPUT", h->size, h->rank, what,
                       ls_status_name(status));
    LS_TRY(expect(h, strlen(ls_status_message()) > 10, "a refusal has a message"));
    return check_1300(h);
}

static inline ls_status check_bad_peers(harness *h) {
    unsigned char buffer[16] = {0};
    ls_request *request = NULL;
    ls_comm *comm = h->comm;
    LS_TRY(refused(h, ls_comm_broadcast(comm, -1, buffer, 16), "broadcast from root -1"));
    LS_TRY(refused(h, ls_comm_broadcast(comm, h->size, buffer, 16), "broadcast from root W"));
    LS_TRY(refused(h, ls_comm_broadcast_start(comm, h->size, buffer, 16, &request), "broadcast_start from root W"));
    LS_TRY(refused(h, ls_comm_send(comm, h->size, 0, buffer, 16), "send to W"));
    LS_TRY(refused(h, ls_comm_send(comm, -1, 0, buffer, 16), "send to -1"));
    LS_TRY(refused(h, ls_comm_recv(comm, h->size, 0, buffer, 16), "recv from W"));
    LS_TRY(refused(h, ls_comm_recv(comm, -1, 0, buffer, 16), "recv from -1"));
    LS_TRY(refused(h, ls_comm_send_start(comm, 0, TAG_LAST + 1, buffer, 16, &request), "send with tag 32768"));
    LS_TRY(refused(h, ls_comm_send_start(comm, 0, -1, buffer, 16, &request), "send with tag -1"));
    LS_TRY(refused(h, ls_comm_recv_start(comm, 0, TAG_LAST + 1, buffer, 16, &request), "recv with tag 32768"));
    LS_TRY(refused(h, ls_comm_recv_start(comm, 0, -1, buffer, 16, &request), "recv with tag -1"));
    return ls_request_wait(NULL);
}

static inline ls_status check_bad_runs(harness *h) {
    float part[4] = {0}, out[4];
    const void *parts[LS_TREE_COVER_MAX];
    for (int p = 0; p < LS_TREE_COVER_MAX; p++) parts[p] = part;
    int W = h->size, low[LS_WORKERS_MAX + 1], high[LS_WORKERS_MAX + 1], falling[LS_WORKERS_MAX + 1];
    for (int r = 0; r <= W; r++) {
        low[r] = r == 0 ? 1 : 8;
        high[r] = r == W ? 9 : 0;
        falling[r] = r == 0 ? 0 : r == W ? 8 : 9;
    }
    const struct {
        ls_runs runs;
        const char *what;
    } bad[] = {
        {{.groups = 8, .bounds = low}, "runs that begin at 1"},
        {{.groups = 8, .bounds = high}, "runs that end behind the groups"},
        {{.groups = 8, .bounds = falling}, "runs that fall"},
        {{.groups = -1, .bounds = NULL}, "-1 groups"},
        {{.groups = LS_GROUPS_MAX + 1, .bounds = NULL}, "more groups than LS_GROUPS_MAX"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (bad[i].runs.bounds == falling && W == 1) continue;
        LS_TRY(refused(h, ls_comm_all_reduce(h->comm, &bad[i].runs, LS_F32, parts, out, 4), bad[i].what));
        LS_TRY(refused(h, ls_comm_reduce_scatter(h->comm, &bad[i].runs, LS_F32, parts, out, NULL, 4), bad[i].what));
    }
    ls_request *request = NULL;
    LS_TRY(refused(h, ls_comm_all_reduce(h->comm, NULL, LS_U8, parts, out, 4), "a sum of u8"));
    LS_TRY(refused(h, ls_comm_all_reduce(h->comm, NULL, LS_DTYPE_COUNT, parts, out, 4), "a sum of no type"));
    LS_TRY(refused(h, ls_comm_all_reduce_start(h->comm, NULL, LS_U8, parts, out, 4, &request), "a started sum of u8"));
    size_t shards[LS_WORKERS_MAX + 1] = {0};
    shards[W] = 3;
    LS_TRY(refused(h, ls_comm_reduce_scatter(h->comm, NULL, LS_F32, parts, out, shards, 4), "shards that end early"));
    for (int r = 0; r <= W; r++) shards[r] = r == W ? 4 : 5;
    LS_TRY(refused(h, ls_comm_reduce_scatter(h->comm, NULL, LS_F32, parts, out, shards, 4), "shards that fall"));
    return LS_OK;
}

static inline ls_status check_bad_arguments(harness *h) {
    LS_TRY(check_bad_peers(h));
    LS_TRY(check_bad_runs(h));
    return some_of_everything(h);
}

/* ---- many in flight ---------------------------------------------------------------------------------------------- */

typedef enum job_kind {
    JOB_SUM,
    JOB_SCATTER,
    JOB_BROADCAST,
    JOB_GATHER,
    JOB_ALL_TO_ALL,
    JOB_BARRIER,
    JOB_COUNT
} job_kind;

typedef struct job {
    job_kind kind;
    uint64_t number;
    ref_source source; /* of the sums */
    size_t elems;
    unsigned char *in, *out;
    const void *parts[1];
    size_t counts[LS_WORKERS_MAX]; /* bytes of each member's block */
    ls_request *request;
} job;

static inline ls_status job_start(harness *h, job *j, uint64_t number) {
    uint64_t r = ref_random(h->seed, 4242, number, 0);
    size_t W = (size_t)h->size;
    j->kind = (job_kind)(r % JOB_COUNT);
    j->elems = r / 8 % 20 == 0 ? 40000 + r / 256 % 5000 : r / 256 % 900;
    j->number = number;
    j->source = ref_source_make(h->seed, number, LS_F32, false);
    buffer_kind kind = h->buffers >= 0 ? (buffer_kind)h->buffers : (buffer_kind)(r / 65536 % BUFFERS_COUNT);
    LS_TRY(area_new(h, kind, j->elems * 4 * W, 0, &j->in));
    LS_TRY(area_new(h, kind, j->elems * 4 * W, 0, &j->out));
    for (size_t k = 0; k < W; k++) j->counts[k] = j->elems * 4;
    j->parts[0] = j->in;
    uint64_t mine = pattern_key(h, number, h->rank, -1);
    switch (j->kind) {
    case JOB_SUM:
    case JOB_SCATTER:
        ref_node_write(&j->source, (ls_tree_node){.first = h->rank, .count = 1}, 0, j->elems, j->in);
        if (j->kind == JOB_SUM)
            return ls_comm_all_reduce_start(h->comm, NULL, LS_F32, j->parts, j->out, j->elems, &j->request);
        return ls_comm_reduce_scatter_start(h->comm, NULL, LS_F32, j->parts, j->out, NULL, j->elems, &j->request);
    case JOB_BROADCAST:
        if (h->rank == (int)(number % W)) pattern_fill(j->out, j->elems * 4, mine);
        return ls_comm_broadcast_start(h->comm, (int)(number % W), j->out, j->elems * 4, &j->request);
    case JOB_GATHER:
        pattern_fill(j->in, j->elems * 4, mine);
        return ls_comm_all_gather_start(h->comm, j->in, j->out, j->counts, &j->request);
    case JOB_ALL_TO_ALL:
        for (size_t k = 0; k < W; k++)
            pattern_fill(j->in + k * j->elems * 4, j->elems * 4, pattern_key(h, number, h->rank, (int)k));
        return ls_comm_all_to_all_start(h->comm, j->in, j->out, j->elems * 4, &j->request);
    case JOB_BARRIER:
    case JOB_COUNT: break;
    }
    return ls_comm_barrier_start(h->comm, &j->request);
}

static inline ls_status job_check_sum(harness *h, const job *j) {
    size_t bounds[LS_WORKERS_MAX + 1], from = 0, to = j->elems;
    if (j->kind == JOB_SCATTER) {
        ls_shard_bounds(j->elems, h->size, bounds);
        from = bounds[h->rank];
        to = bounds[h->rank + 1];
    }
    h->checks++;
    for (size_t i = from; i < to; i++) {
        float got, wanted = ref_node_f32(&j->source, 0, h->size, i);
        memcpy(&got, j->out + (i - from) * 4, 4);
        if (ref_bits(got) == ref_bits(wanted)) continue;
        return ls_fail(LS_ERR_FAILED, "in flight: job %d kind %d W=%d rank %d n=%zu: element %zu is %.9g, not %.9g",
                       (int)j->number, (int)j->kind, h->size, h->rank, j->elems, i, (double)got, (double)wanted);
    }
    return LS_OK;
}

static inline ls_status job_check(harness *h, const job *j) {
    uint64_t number = j->number;
    size_t bytes = j->elems * 4;
    if (j->kind == JOB_SUM || j->kind == JOB_SCATTER) return job_check_sum(h, j);
    if (j->kind == JOB_BROADCAST) {
        int root = (int)(number % (uint64_t)h->size);
        return pattern_check(h, "in flight: broadcast", j->out, bytes, pattern_key(h, number, root, -1), root);
    }
    for (int r = 0; r < h->size && j->kind != JOB_BARRIER; r++) {
        uint64_t key = pattern_key(h, number, r, j->kind == JOB_GATHER ? -1 : h->rank);
        LS_TRY(pattern_check(h, j->kind == JOB_GATHER ? "in flight: all_gather" : "in flight: all_to_all",
                             j->out + (size_t)r * bytes, bytes, key, r));
    }
    return LS_OK;
}

/* Two communicators at once. Members order the two differently, as they may, but each one alike. */
static inline ls_status check_in_flight(harness *h) {
    enum { JOBS = 200 };
    job *jobs = calloc(JOBS, sizeof *jobs);
    ls_comm *backwards = NULL;
    ls_status status = jobs ? LS_OK : ls_fail(LS_ERR_RESOURCE, "no memory for %d jobs", (int)JOBS);
    harness on[2] = {harness_on(h, h->comm, 1), harness_on(h, h->comm, 2)};
    if (status != LS_OK) return status;
    LS_TRY_OUT(ls_comm_split(h->comm, 0, -h->rank, &backwards));
    on[1] = harness_on(h, backwards, 2);
    for (int i = 0; i < JOBS; i++) {
        int k = h->rank % 2 ? i ^ 1 : i;
        LS_TRY_OUT(job_start(&on[k % 2], &jobs[k], (uint64_t)k));
    }
    for (int i = JOBS - 1; i >= 0; i--) {
        int k = h->rank % 2 ? i ^ 1 : i;
        LS_TRY_OUT(ls_request_wait(jobs[k].request));
    }
    for (int k = 0; k < JOBS; k++) LS_TRY_OUT(job_check(&on[k % 2], &jobs[k]));
    LS_TRY_OUT(areas_end(&on[0], "in flight"));
    LS_TRY_OUT(areas_end(&on[1], "in flight"));
out:
    for (int i = 0; i < 2; i++) {
        h->checks += on[i].checks;
        areas_free(&on[i]);
    }
    ls_comm_destroy(backwards);
    free(jobs);
    return status;
}

#endif
