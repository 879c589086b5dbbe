/* libnccl.c: a libnccl.so.2 for tests, between processes of one machine whose GPUs the libcuda of the tests plays
 * (tests/cuda). Only what src/device/cuda/nccl.c uses: sends and receives, in groups, without blocking. As with NCCL
 * itself the first bytes between two members need both hosts, a group is in its stream only when the communicator is no
 * longer in progress, and it ends when all its pieces have gone over.
 *
 * A communicator is a file in shared memory, its name in the id; each pair has a box in it for a piece of a message at
 * a time.
 *
 * LS_NCCL_VERSION=21200 plays another version. LS_NCCL_FAULT=WHAT:RESULT[:N] makes the N-th WHAT (the first, if not
 * said) and all later ones fail with this result: ncclGetUniqueId, ncclCommInitRankConfig, ncclGroupEnd, "init" (while
 * it is in progress), "async" (what becomes of communicators at a group). WHAT "stop": at the N-th group the process
 * stops. LS_NCCL_RANK=R: only in worker R of mpirun. Compiled with -DWITHOUT_RECV there is no ncclRecv. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    SYSTEM_ERROR = 2,
    INVALID_ARGUMENT = 4,
    IN_PROGRESS = 7,
    MEMBERS = 8,
    BOX_BYTES = 64 << 10,
    OPS = 4096,
    POLLS = 3
};

typedef struct {
    char bytes[128];
} ncclUniqueId;

typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking;
} config;

typedef struct {
    _Atomic bool sender, receiver;   /* have come to their first group with the other */
    _Atomic uint64_t written, taken; /* pieces */
    size_t bytes;
    char data[BOX_BYTES];
} box;

typedef struct {
    _Atomic int attached;
    box box[MEMBERS][MEMBERS]; /* from, to */
} file;

typedef struct {
    char *memory;
    size_t bytes, done;
    int peer;
    bool sends, waits; /* its last piece was not taken yet */
} op;

typedef struct comm comm;
typedef struct {
    comm *comm;
    void *stream;
    int count;
    op ops[];
} job;

struct comm {
    file *shared;
    char name[64];
    int rank, ranks, polls;
    bool met;   /* all are there */
    job *asked; /* a group that is not in its stream yet */
    _Atomic bool aborted;
};

static int (*host_func)(void *stream, void (*fn)(void *), void *arg);
static job *group;
static int failed;

static int fault(const char *what) {
    static int calls;
    const char *text = getenv("LS_NCCL_FAULT"), *rank = getenv("LS_NCCL_RANK"), *own = getenv("OMPI_COMM_WORLD_RANK");
    size_t length = strlen(what);
    if (!text || strncmp(text, what, length) != 0 || text[length] != ':' || (rank && own && strcmp(rank, own) != 0))
        return SUCCESS;
    char *end;
    int result = (int)strtol(text + length + 1, &end, 10), nth = *end == ':' ? atoi(end + 1) : 1;
    return ++calls < nth ? SUCCESS : result;
}

API int ncclGetVersion(int *version) {
    *version = getenv("LS_NCCL_VERSION") ? atoi(getenv("LS_NCCL_VERSION")) : 22809;
    return SUCCESS;
}

API const char *ncclGetErrorString(int result) {
    return result == 5   ? "invalid usage"
           : result == 6 ? "remote process exited or there was a network error"
                         : "an error that a test plays";
}
API const char *ncclGetLastError(comm *c) {
    (void)c;
    return "";
}

API int ncclGetUniqueId(ncclUniqueId *id) {
    static int made;
    int result = fault("ncclGetUniqueId");
    if (result) return result;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/lockstep-nccl-%d-%d", (int)getpid(), made++);
    return SUCCESS;
}

API int ncclCommInitRankConfig(comm **out, int ranks, ncclUniqueId id, int rank, const config *how) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = cuda ? dlsym(cuda, "cuLaunchHostFunc") : NULL;
    int result = fault("ncclCommInitRankConfig");
    if (result) return result;
    if (!symbol || how->magic != 0xcafebeef || how->blocking || how->size != sizeof *how || ranks > MEMBERS)
        return INVALID_ARGUMENT;
    memcpy(&host_func, &symbol, sizeof symbol);
    comm *c = calloc(1, sizeof *c);
    int fd = shm_open(id.bytes, O_RDWR | O_CREAT, 0600);
    if (!c || fd < 0 || ftruncate(fd, sizeof(file)) != 0) return SYSTEM_ERROR;
    void *shared = mmap(NULL, sizeof(file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared == MAP_FAILED) return SYSTEM_ERROR;
    c->shared = shared;
    c->rank = rank;
    c->ranks = ranks;
    snprintf(c->name, sizeof c->name, "%.60s", id.bytes);
    atomic_fetch_add(&c->shared->attached, 1);
    *out = c;
    return IN_PROGRESS;
}

/* ---- groups
 * -------------------------------------------------------------------------------------------------------------- */

static box *box_of(const comm *c, const op *o) {
    return o->sends ? &c->shared->box[c->rank][o->peer] : &c->shared->box[o->peer][c->rank];
}

static bool move(const comm *c, op *o) {
    box *b = box_of(c, o);
    uint64_t written = atomic_load(&b->written), taken = atomic_load(&b->taken);
    if (o->sends) {
        if (written != taken) return false;
        if (o->waits && o->done == o->bytes) return true;
        b->bytes = o->bytes - o->done < BOX_BYTES ? o->bytes - o->done : BOX_BYTES;
        memcpy(b->data, o->memory + o->done, b->bytes);
        o->done += b->bytes;
        o->waits = true;
        atomic_store(&b->written, written + 1);
        return false;
    }
    if (written == taken) return false;
    if (b->bytes > o->bytes - o->done) abort(); /* the two have other sizes */
    memcpy(o->memory + o->done, b->data, b->bytes);
    o->done += b->bytes;
    atomic_store(&b->taken, taken + 1);
    return o->done == o->bytes;
}

/* All pieces at a time; those of one pair and direction in their order. */
static void run(void *arg) {
    job *j = arg;
    int left = j->count;
    while (left && !j->comm->aborted) {
        bool busy[2][MEMBERS] = {{0}};
        for (int i = 0; i < j->count; i++) {
            op *o = &j->ops[i];
            if (!o->memory || busy[o->sends][o->peer]) continue;
            busy[o->sends][o->peer] = true;
            if (!move(j->comm, o)) continue;
            o->memory = NULL;
            left--;
        }
        sched_yield();
    }
    free(j);
}

API int ncclGroupStart(void) {
    group = calloc(1, sizeof *group + OPS * sizeof(op));
    return group ? SUCCESS : SYSTEM_ERROR;
}

static int add(void *memory, size_t bytes, int peer, bool sends, comm *c, void *stream) {
    if (!group || group->count == OPS || peer < 0 || peer >= c->ranks || (group->comm && group->comm != c))
        return INVALID_ARGUMENT;
    group->comm = c;
    group->stream = stream;
    group->ops[group->count++] = (op){memory, bytes, 0, peer, sends, false};
    return SUCCESS;
}

API int ncclSend(const void *memory, size_t bytes, int type, int peer, comm *c, void *stream) {
    (void)type;
    return add((void *)(uintptr_t)memory, bytes, peer, true, c, stream);
}
#ifndef WITHOUT_RECV
API int ncclRecv(void *memory, size_t bytes, int type, int peer, comm *c, void *stream) {
    (void)type;
    return add(memory, bytes, peer, false, c, stream);
}
#endif

API int ncclGroupEnd(void) {
    job *j = group;
    int result = fault("ncclGroupEnd");
    group = NULL;
    if (result || !j->comm) {
        free(j);
        return result;
    }
    if (j->comm->asked) return INVALID_ARGUMENT; /* the one before was not waited for */
    if (fault("stop")) raise(SIGSTOP);
    failed = fault("async");
    for (int i = 0; i < j->count; i++)
        atomic_store(j->ops[i].sends ? &box_of(j->comm, &j->ops[i])->sender : &box_of(j->comm, &j->ops[i])->receiver,
                     true);
    j->comm->asked = j;
    j->comm->polls = 0;
    return IN_PROGRESS;
}

static bool all_met(const comm *c, const job *j) {
    for (int i = 0; i < j->count; i++) {
        const box *b = box_of(c, &j->ops[i]);
        if (!b->sender || !b->receiver) return false;
    }
    return true;
}

API int ncclCommGetAsyncError(comm *c, int *state) {
    *state = failed;
    if (*state) return SUCCESS;
    if (!c->met) {
        *state = fault("init");
        if (*state) return SUCCESS;
        *state = IN_PROGRESS;
        c->met = atomic_load(&c->shared->attached) == c->ranks;
        return SUCCESS;
    }
    shm_unlink(c->name);
    if (!c->asked) return SUCCESS;
    *state = IN_PROGRESS;
    if (++c->polls < POLLS || !all_met(c, c->asked)) return SUCCESS;
    job *j = c->asked;
    c->asked = NULL;
    *state = SUCCESS;
    return host_func(j->stream, run, j);
}

/* Its memory stays: groups in streams may still look at it. */
API int ncclCommAbort(comm *c) {
    atomic_store(&c->aborted, true);
    shm_unlink(c->name);
    free(c->asked);
    c->asked = NULL;
    return SUCCESS;
}
