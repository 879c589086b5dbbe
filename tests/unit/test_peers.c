/* test_peers.c: collectives of devices that read each other's memory have the bytes of the host's, for 2 to 8 workers,
 * any sizes, types, runs and shards, several under way at once, on tensors that change before and after. Some workers
 * are late: what should have waited for them then shows. The fake device; a GPU, or what plays one, with LS_TEST_CUDA.
 * As workers of mpirun, LS_TEST_NODE_SIZE of them a machine, they have links between machines (tests/comm/links.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/log.h"
#include "comm/links/links.h"
#include "comm/peers/peers.h"
#include "comm/movers/tensors.h"
#include "device/choose.h"
#include "device/ops.h"

#include "../fake/fake.h"

enum { AT_ONCE = 3, ROUNDS = 24, GROUPS = 24, ELEMS = 3000, LARGE = 1200000, SLOW_ELEMS = 1 << 16 };

static _Atomic int *survivors; /* of a lost worker, that learned of it; shared by all */

typedef struct task {
    int rounds;
    bool large;     /* one sum alone, of more than a piece of scratch */
    bool unopened;  /* the second worker cannot open memory of others */
    bool launched;  /* by mpirun, in several machines */
    bool abandoned; /* the last worker goes before its device has done what it told of */
} task;

/* One worker. Draws of `same` are equal on all members. */
typedef struct worker {
    ls_world *world;
    ls_device *device;
    ls_comm *comm;
    int rank, size;
    uint64_t same, own;
    float *slow;
} worker;

/* A tensor on the device and its twin on the host. */
typedef struct twin {
    void *device, *host;
    size_t bytes;
} twin;

/* A collective under way. */
typedef struct job {
    twin in[GROUPS], out;
    int parts;
    void *result; /* on the device: the output, or inside a part */
    ls_request *request;
} job;

static uint64_t mix(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t x = (*state ^ *state >> 30) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 31;
}

static size_t draw(worker *w, size_t below) { return (size_t)(mix(&w->same) % below); }

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Numbers of ordinary size in fp32, and in bf16. */
static void fill_host(worker *w, twin *t, ls_dtype dtype) {
    for (size_t i = 0; i < t->bytes / 2; i++) {
        uint16_t bits = (uint16_t)((mix(&w->own) & 0x83FF) | 0x3C00);
        if (dtype == LS_F32 && i % 2 == 0) bits = (uint16_t)mix(&w->own);
        memcpy((char *)t->host + 2 * i, &bits, 2);
    }
}

/* The device's twin gets its contents as late as its queue pleases. */
static ls_status fill(worker *w, twin *t, ls_dtype dtype) {
    fill_host(w, t, dtype);
    return ls_device_copy_in(w->device, t->device, t->host, t->bytes);
}

static ls_status make(worker *w, twin *t, size_t bytes, ls_dtype dtype) {
    t->bytes = bytes;
    t->host = malloc(bytes + 1);
    LS_TRY(ls_device_alloc(w->device, bytes, &t->device));
    return fill(w, t, dtype);
}

static void drop(worker *w, twin *t) {
    ls_device_free(w->device, t->device);
    free(t->host);
    *t = (twin){0};
}

static ls_status same_bytes(worker *w, const twin *t, const void *device, const char *what) {
    void *got = malloc(t->bytes + 1);
    ls_status status = ls_device_copy_out(w->device, got, device, t->bytes);
    size_t at = 0;
    while (status == LS_OK && at < t->bytes && ((char *)got)[at] == ((char *)t->host)[at]) at++;
    if (status == LS_OK && at < t->bytes)
        status = ls_fail(LS_ERR_FAILED, "%s: worker %d of %d has another byte %zu of %zu", what, w->rank, w->size, at,
                         t->bytes);
    free(got);
    return status;
}

/* Some are late, by more than a hand-over takes; what plays a GPU is late anyhow. */
static ls_status be_late(worker *w) {
    if (mix(&w->own) % 3) return LS_OK;
    for (int i = 0; i < (getenv("LS_TEST_CUDA") ? 2 : 64); i++)
        LS_TRY(w->device->ops->scale(w->device, &(ls_scale_call){w->slow, w->slow, 1, SLOW_ELEMS}));
    return LS_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

typedef struct sum_case {
    ls_runs runs;
    int bounds[LS_WORKERS_MAX + 1];
    size_t shards[LS_WORKERS_MAX + 1];
    ls_dtype dtype;
    size_t elems;
    bool scatter;
} sum_case;

static void sort_ints(int *list, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && list[k] < list[k - 1]; k--) {
            int swap = list[k];
            list[k] = list[k - 1];
            list[k - 1] = swap;
        }
}

static void draw_sum(worker *w, sum_case *c, size_t elems) {
    int W = w->size;
    c->elems = elems;
    c->dtype = draw(w, 3) ? LS_F32 : LS_BF16;
    c->scatter = draw(w, 2);
    c->runs = (ls_runs){draw(w, 2) ? W : 1 + (int)draw(w, GROUPS), c->bounds};
    for (int r = 0; r <= W; r++) c->bounds[r] = (int)((int64_t)c->runs.groups * r / W);
    if (draw(w, 2)) {
        for (int r = 1; r < W; r++) c->bounds[r] = (int)draw(w, (size_t)c->runs.groups + 1);
        sort_ints(c->bounds + 1, W - 1);
    }
    int cuts[LS_WORKERS_MAX + 1];
    for (int r = 0; r <= W; r++) cuts[r] = (int)(r == 0 ? 0 : r == W ? elems : draw(w, elems + 1));
    sort_ints(cuts, W + 1);
    for (int r = 0; r <= W; r++) c->shards[r] = (size_t)cuts[r];
}

/* Starts it on the device, and computes on the host what will have to come. An output may be a part. */
static ls_status start_sum(worker *w, job *j, size_t elems) {
    sum_case c;
    ls_tree_node nodes[LS_TREE_COVER_MAX];
    const void *device[LS_TREE_COVER_MAX], *host[LS_TREE_COVER_MAX];
    draw_sum(w, &c, elems);
    j->parts = ls_tree_cover(c.runs.groups, c.bounds[w->rank], c.bounds[w->rank + 1], nodes);
    bool in_place = draw(w, 3) == 0 && c.dtype == LS_F32 && j->parts > 0 && elems > 0;
    size_t first = c.shards[w->rank], own = c.shards[w->rank + 1] - first;
    for (int i = 0; i < j->parts; i++) {
        ls_dtype dtype = nodes[i].count > 1 ? LS_F32 : c.dtype;
        LS_TRY(make(w, &j->in[i], elems * ls_dtype_bytes(dtype), dtype));
        device[i] = j->in[i].device;
        host[i] = j->in[i].host;
    }
    LS_TRY(make(w, &j->out, (c.scatter ? own : elems) * sizeof(float), LS_F32));
    LS_TRY(be_late(w));
    void *out = j->result = in_place ? (float *)j->in[0].device + (c.scatter ? first : 0) : j->out.device;
    if (c.scatter) {
        LS_TRY(ls_tensor_reduce_scatter_start(w->device, w->comm, &c.runs, c.dtype, device, out, c.shards, elems,
                                              &j->request));
        LS_TRY(ls_comm_reduce_scatter(w->comm, &c.runs, c.dtype, host, j->out.host, c.shards, elems));
    } else {
        LS_TRY(ls_tensor_all_reduce_start(w->device, w->comm, &c.runs, c.dtype, device, out, elems, &j->request));
        LS_TRY(ls_comm_all_reduce(w->comm, &c.runs, c.dtype, host, j->out.host, elems));
    }
    return LS_OK;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static ls_status start_gather(worker *w, job *j) {
    size_t bytes[LS_WORKERS_MAX], all = 0, at = 0;
    for (int r = 0; r < w->size; r++) {
        bytes[r] = draw(w, 5) ? draw(w, ELEMS) * 4 : 0;
        if (r < w->rank) at += bytes[r];
        all += bytes[r];
    }
    bool in_place = draw(w, 2);
    LS_TRY(make(w, &j->out, all, LS_F32));
    LS_TRY(make(w, &j->in[0], bytes[w->rank], LS_F32));
    j->parts = 1;
    if (in_place) {
        memcpy((char *)j->out.host + at, j->in[0].host, bytes[w->rank]);
        LS_TRY(ls_device_copy(w->device, (char *)j->out.device + at, j->in[0].device, bytes[w->rank]));
    }
    j->result = j->out.device;
    LS_TRY(be_late(w));
    const void *in = in_place ? (char *)j->out.device + at : j->in[0].device;
    LS_TRY(ls_tensor_all_gather_start(w->device, w->comm, in, j->out.device, bytes, &j->request));
    return ls_comm_all_gather(w->comm, j->in[0].host, j->out.host, bytes);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Each sends two tensors to the next and takes them in the other order; what it sent it overwrites at once. */
static ls_status exchange(worker *w) {
    enum { HOST_TAG = 7 };
    int to = (w->rank + 1) % w->size, from = (w->rank + w->size - 1) % w->size;
    size_t bytes[2] = {draw(w, ELEMS) * 4, draw(w, 2) ? draw(w, ELEMS) * 4 : 0};
    twin sent[2], got[2];
    ls_request *request[2];
    for (int i = 0; i < 2; i++) {
        LS_TRY(make(w, &sent[i], bytes[i], LS_F32));
        LS_TRY(make(w, &got[i], bytes[i], LS_F32));
        LS_TRY(be_late(w));
        LS_TRY(ls_tensor_send_start(w->device, w->comm, to, i, sent[i].device, bytes[i], &request[i]));
    }
    for (int i = 0; i < 2; i++) {
        ls_request *host;
        LS_TRY(ls_comm_send_start(w->comm, to, HOST_TAG + i, sent[i].host, bytes[i], &host));
        LS_TRY(ls_comm_recv(w->comm, from, HOST_TAG + i, got[i].host, bytes[i]));
        LS_TRY(ls_request_wait(host));
    }
    LS_TRY(be_late(w));
    /* A message comes behind what was enqueued for its place: here, behind the message before it. */
    for (int i = 1; i >= 0; i--) {
        LS_TRY(ls_device_fill(w->device, got[i].device, 7, bytes[i]));
        LS_TRY(ls_tensor_recv(w->device, w->comm, from, i, got[i].device, bytes[i]));
    }
    for (int i = 0; i < 2; i++) {
        LS_TRY(ls_request_wait(request[i]));
        LS_TRY(fill(w, &sent[i], LS_F32));
        LS_TRY(ls_device_finish(w->device));
    }
    for (int i = 0; i < 2; i++) LS_TRY(same_bytes(w, &got[i], got[i].device, "a message"));
    for (int i = 0; i < 2; i++) {
        drop(w, &sent[i]);
        drop(w, &got[i]);
    }
    return LS_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static ls_status finish(worker *w, job *j) {
    LS_TRY(ls_request_wait(j->request));
    LS_TRY(same_bytes(w, &j->out, j->result, "a collective"));
    for (int i = 0; i < j->parts; i++) LS_TRY(fill(w, &j->in[i], LS_F32)); /* the peers must have finished reading */
    return ls_device_finish(w->device);
}

static void give_back(worker *w, job *j) {
    for (int i = 0; i < j->parts; i++) drop(w, &j->in[i]);
    drop(w, &j->out);
}

static ls_status one_round(worker *w, size_t elems) {
    job jobs[AT_ONCE] = {0};
    int count = elems ? 1 : 1 + (int)draw(w, AT_ONCE);
    for (int i = 0; i < count; i++) {
        if (elems || draw(w, 3))
            LS_TRY(start_sum(w, &jobs[i], elems ? elems : draw(w, 8) ? draw(w, ELEMS) : 0));
        else
            LS_TRY(start_gather(w, &jobs[i]));
    }
    bool backwards = draw(w, 2);
    for (int i = 0; i < count; i++) LS_TRY(finish(w, &jobs[backwards ? count - 1 - i : i]));
    for (int i = 0; i < count; i++) give_back(w, &jobs[i]);
    return elems ? LS_OK : exchange(w);
}

static ls_status cannot_open(ls_device *device, const ls_memory_handle *handle, void **out) {
    (void)device, (void)handle;
    *out = NULL;
    return ls_fail(LS_ERR_FAILED, "no memory of others can be opened here");
}

/* Announces a signal, then exits before the device gives it. */
static ls_status abandon(worker *w) {
    twin t;
    size_t bytes[LS_WORKERS_MAX], at = (size_t)w->rank * ELEMS;
    for (int r = 0; r < w->size; r++) bytes[r] = ELEMS;
    LS_TRY(make(w, &t, ELEMS * (size_t)w->size, LS_F32));
    LS_TRY(ls_device_finish(w->device));
    /* Its device stands still: what it will tell of does not happen. */
    if (w->rank == w->size - 1) LS_TRY(ls_device_await(w->device, (const uint64_t *)(const void *)w->slow, 1));
    ls_request *request;
    /* Others may be gone before this worker has looked. */
    ls_status status = ls_tensor_all_gather_start(w->device, w->comm, (char *)t.device + at, t.device, bytes, &request);
    if (w->comm->takes_turns && w->rank == w->size - 1) _Exit(9); /* it would not tell before it has happened */
    if (status == LS_OK) status = ls_request_wait(request);
    if (status == LS_OK && w->rank == w->size - 1) _Exit(9);
    if (status == LS_OK) status = ls_device_copy_out(w->device, t.host, t.device, t.bytes);
    if (status == LS_ERR_PEER) atomic_fetch_add(survivors, 1);
    drop(w, &t);
    return status;
}

static ls_status work_on(worker *w, const task *t, const ls_device_calls *broken) {
    if (t->unopened && w->rank == 1) w->device->calls = broken;
    void *slow;
    LS_TRY(ls_device_alloc(w->device, SLOW_ELEMS * sizeof(float), &slow));
    w->slow = slow;
    LS_TRY(ls_comm_split(ls_world_comm(w->world), 0, w->size - w->rank, &w->comm)); /* ranks are the other way round */
    w->rank = ls_comm_rank(w->comm);
    ls_status status = LS_OK;
    bool linked = w->comm->links != NULL;
    if (t->launched && linked != (getenv("LS_TEST_LINKS") != NULL))
        status = ls_fail(LS_ERR_FAILED, "links: %d", linked);
    if (!t->launched && w->comm->peers == t->unopened) status = ls_fail(LS_ERR_FAILED, "peers: %d", w->comm->peers);
    if (status == LS_OK && t->abandoned) status = abandon(w);
    for (int i = 0; status == LS_OK && i < t->rounds; i++) status = one_round(w, t->large ? LARGE : 0);
    if (status == LS_OK) ls_comm_destroy(w->comm);
    ls_device_free(w->device, w->slow);
    return status;
}

static ls_status work(ls_world *world, void *arg) {
    const task *t = arg;
    worker w = {.world = world, .rank = ls_world_rank(world), .size = ls_world_size(world)};
    w.same = (uint64_t)w.size * 1000 + (uint64_t)t->large;
    w.own = (uint64_t)w.rank * 7777 + 5;
    LS_TRY(ls_world_open_device(world, getenv("LS_TEST_CUDA") ? "cuda" : "fake", NULL, &w.device));
    ls_device_calls broken = *w.device->calls;
    const ls_device_calls *calls = w.device->calls;
    broken.open = cannot_open;
    ls_status status = work_on(&w, t, &broken);
    w.device->calls = calls;
    ls_device_destroy(w.device);
    return status;
}

static ls_status run(int workers, task t) {
    ls_workers_options options = {.workers = workers, .threads = 1, .no_pin = 1, .timeout_s = 60};
    return ls_workers_run(&options, work, &t);
}

/* As one of several processes, each of which runs this. */
static ls_status run_launched(int rounds) {
    ls_workers_options options = {.threads = 1, .timeout_s = 60, .node_size = atoi(getenv("LS_TEST_NODE_SIZE"))};
    LS_TRY(ls_workers_run(&options, work, &(task){.rounds = rounds, .launched = true}));
    return LS_OK;
}

static void ok(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

static void test_collectives(void **state) {
    (void)state;
    for (int workers = 2; workers <= 4; workers++) ok(run(workers, (task){.rounds = ROUNDS}));
    ok(run(8, (task){.rounds = ROUNDS / 4}));
}

static void test_large(void **state) {
    (void)state;
    ok(run(3, (task){.rounds = 2, .large = true}));
}

static void test_staging(void **state) {
    (void)state;
    ok(run(3, (task){.rounds = 3, .unopened = true}));
}

/* The others do not wait for ever for a counter that the lost worker would have written. */
static void test_lost_worker(void **state) {
    (void)state;
    void *shared = mmap(NULL, sizeof *survivors, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    survivors = shared;
    assert_int_equal(run(3, (task){.abandoned = true}), LS_ERR_WORKER);
    assert_non_null(strstr(ls_status_message(), "exited with code 9"));
    assert_int_equal(*survivors, 2);
    munmap(shared, sizeof *survivors);
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR); /* more workers than cores are meant */
    ls_device_fake = ls_device_open_fake;
    if (getenv("LS_TEST_NODE_SIZE")) return run_launched(ROUNDS / 4) == LS_OK ? 0 : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_staging),
        cmocka_unit_test(test_lost_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
