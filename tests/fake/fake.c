/* fake.c: memory that is mapped twice, and a thread that works through what was asked for.
 *
 *     caller                                   queue
 *     0x7f..a000  no access  ──┐
 *                              ├── the same pages of a file in memory
 *                              └──  0x7f..c000  read and write
 *
 * Commands of a queue are delayed until a caller waits for them, until LATE of them are enqueued, or until the oldest
 * is LATE_NS old. Then the thread runs them all at once. */
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "calls.h"

enum { LATE = 64, LATE_NS = 1000000, LOOK_NS = 50000, WATCH_NS = 10000000, PAGE_BYTES = 4096 };

typedef struct block {
    struct block *next;
    unsigned char *caller, *queue;
    size_t bytes;
    int file; /* −1: memory of another worker */
} block;

/* How another process finds a block. */
typedef struct place {
    long pid;
    int file;
    size_t bytes;
} place;

typedef struct kept {
    struct kept *next;
    _Alignas(16) unsigned char bytes[];
} kept;

typedef enum command_kind { RUN_OP, COPY, FILL, FOLLOW, SIGNAL, AWAIT } command_kind;

typedef struct command {
    struct command *next;
    command_kind kind;
    ls_fake_op op;
    void *to;
    const void *from;
    unsigned char byte;
    size_t bytes;
    ls_event event;
    uint64_t value;
    uint64_t asked_ns;
    kept *kept; /* copies of what the caller's call pointed to; the call itself is the first */
    void *call;
} command;

typedef struct queue {
    command *first, *last;
    uint64_t asked, finished, wanted; /* commands so far; up to `wanted` they are run at once */
} queue;

typedef struct fake_device {
    ls_device base;
    ls_ops ops;
    ls_device *cpu; /* the device that computes, on the thread only */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    block *blocks;
    queue queues[LS_QUEUES];
    bool ends, started;
    uint64_t marked;  /* of the compute queue: commands that are run whatever the guest says */
    bool left;        /* the guest has ended a wait: `status` is its own */
    ls_status status; /* of the first command that failed: none is run after it */
    char message[512];
} fake_device;

static fake_device *fake_of(ls_device *device) { return (fake_device *)(void *)device; }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Translates a pointer of the caller to the device's mapping. A block is longer than requested, so that the end of a
 * tensor is inside it and not the start of the next block. Unknown memory is returned unchanged, because passing it is
 * an error of the caller, which a crash then shows. */
static void *translate(const void *memory, const void *pointer) {
    const fake_device *fake = memory;
    uintptr_t at = (uintptr_t)pointer;
    for (const block *b = fake->blocks; b; b = b->next) {
        uintptr_t begin = (uintptr_t)b->caller;
        if (at >= begin && at < begin + b->bytes) return b->queue + (at - begin);
    }
    return pointer ? (void *)1 : NULL; /* not memory of this device: reading it crashes */
}

static ls_status no_memory(size_t bytes) {
    return ls_fail_errno(LS_ERR_RESOURCE, "out of memory: %zu bytes needed for tensors", bytes);
}

/* Maps the file, which becomes the block's, both ways. */
static ls_status add_block(fake_device *fake, int file, size_t bytes, bool is_own, void **out) {
    block *b = calloc(1, sizeof *b);
    void *caller = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, file, 0);
    void *mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (!b || caller == MAP_FAILED || mine == MAP_FAILED) {
        if (caller != MAP_FAILED) munmap(caller, bytes);
        if (mine != MAP_FAILED) munmap(mine, bytes);
        free(b);
        close(file);
        return no_memory(bytes);
    }
    if (!is_own) close(file);
    *b = (block){fake->blocks, caller, mine, bytes, is_own ? file : -1};
    pthread_mutex_lock(&fake->lock);
    fake->blocks = b;
    pthread_mutex_unlock(&fake->lock);
    *out = caller;
    return LS_OK;
}

static ls_status alloc_memory(ls_device *device, size_t bytes, void **out) {
    size_t whole = (bytes / PAGE_BYTES + 1) * PAGE_BYTES;
    int file = memfd_create("lockstep", MFD_CLOEXEC);
    *out = NULL;
    if (file < 0) return no_memory(bytes);
    if (ftruncate(file, (off_t)whole) == 0) return add_block(fake_of(device), file, whole, true, out);
    close(file);
    return no_memory(bytes);
}

static block *find_block(fake_device *fake, const void *memory) {
    block *b = fake->blocks;
    while (b && b->caller != memory) b = b->next;
    return b;
}

static ls_status share_memory(ls_device *device, void *memory, ls_memory_handle *out) {
    const block *b = find_block(fake_of(device), memory);
    if (!b) return ls_fail(LS_ERR_INPUT, "only memory that the device allocated can be shared");
    place p = {getpid(), b->file, b->bytes};
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, &p, sizeof p);
    return LS_OK;
}

static ls_status open_memory(ls_device *device, const ls_memory_handle *handle, void **out) {
    char path[64];
    place p;
    memcpy(&p, handle->bytes, sizeof p);
    (void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", p.pid, p.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    *out = NULL;
    if (file < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot open the memory of process %ld", p.pid);
    return add_block(fake_of(device), file, p.bytes, false, out);
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static void free_command(command *c) {
    for (kept *k = c->kept, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    free(c);
}

static ls_status run(fake_device *fake, const command *c) {
    switch (c->kind) {
    case RUN_OP: return ls_fake_run(c->op, fake->cpu, c->call);
    case COPY: memcpy(c->to, c->from, c->bytes); return LS_OK;
    case FILL: memset(c->to, c->byte, c->bytes); return LS_OK;
    case SIGNAL: atomic_store((_Atomic uint64_t *)c->to, c->value); return LS_OK;
    case FOLLOW:
    case AWAIT: return LS_OK;
    }
    return LS_OK;
}

/* Returns whether the next command of the queue runs even if other workers are lost: no command before it waits for
 * them. */
static bool is_marked(const fake_device *fake, const queue *q) {
    return fake->left && q == &fake->queues[LS_QUEUE_COMPUTE] && q->finished < fake->marked;
}

/* Returns whether the first command of a queue may begin, and requests the commands that it waits for. After a failure
 * commands do not wait. */
static bool can_begin(fake_device *fake, const command *c) {
    if (fake->status != LS_OK) return true;
    if (c->kind == AWAIT) return atomic_load((const _Atomic uint64_t *)c->from) >= c->value;
    if (c->kind != FOLLOW) return true;
    queue *other = &fake->queues[c->event.queue];
    if (other->finished >= c->event.number - 1) return true;
    if (other->wanted < c->event.number - 1) other->wanted = c->event.number - 1;
    return false;
}

static bool is_due(const fake_device *fake, const queue *q) {
    return q->first && (q->finished < q->wanted || q->asked - q->finished >= LATE || fake->ends ||
                        ls_clock_ns() - q->first->asked_ns >= LATE_NS);
}

/* A burst: all that is there, as far as it can begin. */
static bool work_queue(fake_device *fake, queue *q) {
    bool moved = false;
    if (!is_due(fake, q)) return false;
    q->wanted = q->asked;
    while (q->first && can_begin(fake, q->first)) {
        command *c = q->first;
        q->first = c->next;
        if (!q->first) q->last = NULL;
        ls_status status = fake->status;
        bool marked = is_marked(fake, q);
        pthread_mutex_unlock(&fake->lock);
        if (status == LS_OK || marked) status = run(fake, c);
        free_command(c);
        pthread_mutex_lock(&fake->lock);
        if (status != LS_OK && fake->status == LS_OK) {
            fake->status = status;
            (void)snprintf(fake->message, sizeof fake->message, "%s", ls_status_message());
        }
        q->finished++;
        moved = true;
    }
    if (moved) pthread_cond_broadcast(&fake->done);
    return moved;
}

static void wait_until_ns(pthread_cond_t *condition, pthread_mutex_t *lock, long ns) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(condition, lock, &until);
}

static bool is_empty(const fake_device *fake) {
    for (int i = 0; i < LS_QUEUES; i++)
        if (fake->queues[i].first) return false;
    return true;
}

static void *work(void *arg) {
    fake_device *fake = arg;
    ls_fpenv_set();
    pthread_mutex_lock(&fake->lock);
    while (!fake->ends || !is_empty(fake)) {
        bool moved = false;
        for (int i = 0; i < LS_QUEUES; i++) moved = work_queue(fake, &fake->queues[i]) || moved;
        if (moved) continue;
        if (is_empty(fake))
            pthread_cond_wait(&fake->work, &fake->lock);
        else
            wait_until_ns(&fake->work, &fake->lock, LOOK_NS);
    }
    pthread_mutex_unlock(&fake->lock);
    return NULL;
}

/* The failure of a command is told at every later call. */
static ls_status told(const fake_device *fake) {
    return fake->status == LS_OK ? LS_OK : ls_fail(fake->status, "%s", fake->message);
}

/* A guest that says no ends what is queued: its awaits would never end. */
static void ask_guest(fake_device *fake) {
    ls_status status = fake->base.guest ? fake->base.guest->watch(fake->base.guest) : LS_OK;
    if (status == LS_OK || fake->status != LS_OK) return;
    fake->left = true;
    fake->status = status;
    (void)snprintf(fake->message, sizeof fake->message, "%s", ls_status_message());
}

static ls_status wait_upto(fake_device *fake, queue *q, uint64_t number) {
    pthread_mutex_lock(&fake->lock);
    if (number > q->wanted) q->wanted = number;
    while (q->finished < number) {
        pthread_cond_signal(&fake->work);
        wait_until_ns(&fake->done, &fake->lock, WATCH_NS);
        if (q->finished < number) ask_guest(fake);
    }
    ls_status status = told(fake);
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static ls_status enqueue(fake_device *fake, command *c) {
    queue *q = &fake->queues[fake->base.queue];
    pthread_mutex_lock(&fake->lock);
    c->asked_ns = ls_clock_ns();
    if (q->last)
        q->last->next = c;
    else
        q->first = c;
    q->last = c;
    q->asked++;
    pthread_cond_signal(&fake->work);
    ls_status status = told(fake);
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static void *keep(void *keeper, const void *host, size_t bytes) {
    command *c = keeper;
    if (!host) return NULL;
    kept *k = malloc(sizeof *k + bytes);
    if (!k) return NULL;
    k->next = c->kept;
    c->kept = k;
    return memcpy(k->bytes, host, bytes);
}

static ls_status new_command(command_kind kind, command **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory for a command");
    (*out)->kind = kind;
    return LS_OK;
}

/* Everything on the queue that is in use. */
static ls_status finish_queue(fake_device *fake) {
    queue *q = &fake->queues[fake->base.queue];
    return wait_upto(fake, q, q->asked);
}

static ls_status finish_queues(ls_device *device) {
    fake_device *fake = fake_of(device);
    for (int i = 0; i < LS_QUEUES; i++) LS_TRY(wait_upto(fake, &fake->queues[i], fake->queues[i].asked));
    return LS_OK;
}

static ls_status record_event(ls_device *device, ls_event *out) {
    *out = (ls_event){device->queue, fake_of(device)->queues[device->queue].asked + 1};
    return LS_OK;
}

static ls_status check_event(fake_device *fake, ls_event event) {
    if (event.number >= 1 && (unsigned)event.queue < LS_QUEUES && event.number <= fake->queues[event.queue].asked + 1)
        return LS_OK;
    return ls_fail(LS_ERR_INPUT, "event %llu was not recorded on this device; record it first",
                   (unsigned long long)event.number);
}

static ls_status wait_for_event(ls_device *device, ls_event event) {
    fake_device *fake = fake_of(device);
    LS_TRY(check_event(fake, event));
    return wait_upto(fake, &fake->queues[event.queue], event.number - 1);
}

static ls_status follow_event(ls_device *device, ls_event event) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(check_event(fake, event));
    LS_TRY(new_command(FOLLOW, &c));
    c->event = event;
    return enqueue(fake, c);
}

static ls_status signal_counter(ls_device *device, uint64_t *counter, uint64_t value) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(SIGNAL, &c));
    c->to = translate(fake, counter);
    c->value = value;
    return enqueue(fake, c);
}

static ls_status await_counter(ls_device *device, const uint64_t *counter, uint64_t value) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(AWAIT, &c));
    c->from = translate(fake, counter);
    c->value = value;
    return enqueue(fake, c);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static ls_status copy_in(ls_device *device, void *to, const void *host, size_t bytes) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(COPY, &c));
    c->to = translate(fake, to);
    c->bytes = bytes;
    c->from = keep(c, host, bytes);
    if (bytes && !c->from) {
        free_command(c);
        return no_memory(bytes);
    }
    return enqueue(fake, c);
}

static ls_status copy_out(ls_device *device, void *host, const void *from, size_t bytes) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(COPY, &c));
    c->to = host;
    c->from = translate(fake, from);
    c->bytes = bytes;
    LS_TRY(enqueue(fake, c));
    return finish_queue(fake);
}

static ls_status mark(ls_device *device) {
    fake_device *fake = fake_of(device);
    pthread_mutex_lock(&fake->lock);
    fake->marked = fake->queues[LS_QUEUE_COMPUTE].asked;
    pthread_mutex_unlock(&fake->lock);
    return LS_OK;
}

static ls_status rescue(ls_device *device, void *host, const void *from, size_t bytes) {
    enum { TRIES = 1000 };
    fake_device *fake = fake_of(device);
    queue *q = &fake->queues[LS_QUEUE_COMPUTE];
    pthread_mutex_lock(&fake->lock);
    if (fake->marked > q->wanted) q->wanted = fake->marked;
    for (int i = 0; i < TRIES && q->finished < fake->marked; i++) {
        pthread_cond_signal(&fake->work);
        wait_until_ns(&fake->done, &fake->lock, WATCH_NS);
    }
    bool is_sound = q->finished >= fake->marked && (fake->status == LS_OK || fake->left);
    pthread_mutex_unlock(&fake->lock);
    if (!is_sound) return ls_fail(LS_ERR_FAILED, "the memory of the device cannot be read any more");
    memcpy(host, translate(fake, from), bytes);
    return LS_OK;
}

static ls_status copy_inside(ls_device *device, void *to, const void *from, size_t bytes) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(COPY, &c));
    c->to = translate(fake, to);
    c->from = translate(fake, from);
    c->bytes = bytes;
    return enqueue(fake, c);
}

static ls_status fill_bytes(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(FILL, &c));
    c->to = translate(fake, to);
    c->byte = byte;
    c->bytes = bytes;
    return enqueue(fake, c);
}

static void free_memory(ls_device *device, void *memory) {
    fake_device *fake = fake_of(device);
    (void)finish_queues(device);
    pthread_mutex_lock(&fake->lock);
    block **at = &fake->blocks;
    while (*at && (*at)->caller != memory) at = &(*at)->next;
    block *b = *at;
    if (b) *at = b->next;
    pthread_mutex_unlock(&fake->lock);
    if (!b) return;
    munmap(b->caller, b->bytes);
    munmap(b->queue, b->bytes);
    if (b->file >= 0) close(b->file);
    free(b);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static ls_status ask(ls_device *device, ls_fake_op op, const void *call, size_t bytes) {
    fake_device *fake = fake_of(device);
    command *c;
    LS_TRY(new_command(RUN_OP, &c));
    c->op = op;
    c->call = keep(c, call, bytes);
    if (!c->call) {
        free_command(c);
        return no_memory(bytes);
    }
    ls_fake_own(op, c->call, &(ls_fake_copier){translate, keep, fake, c});
    return enqueue(fake, c);
}

#define OP(name, call_type)                                                                                            \
    static ls_status name##_late(ls_device *device, const call_type *call) {                                           \
        return ask(device, LS_FAKE_##name, call, sizeof *call);                                                        \
    }
LS_OPS(OP)
#undef OP

static double peak_flops_s(ls_device *device, ls_unit unit) {
    (void)device, (void)unit;
    return 0;
}

static ls_status compute_otherwise(ls_device *device, bool otherwise) {
    LS_TRY(finish_queues(device));
    return ls_device_compute_otherwise(fake_of(device)->cpu, otherwise);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void destroy_fake(ls_device *device) {
    fake_device *fake = fake_of(device);
    if (fake->started) {
        (void)finish_queues(device); /* what cannot end is given up there */
        pthread_mutex_lock(&fake->lock);
        fake->ends = true;
        pthread_cond_signal(&fake->work);
        pthread_mutex_unlock(&fake->lock);
        pthread_join(fake->thread, NULL);
    }
    ls_device_destroy(fake->cpu);
    pthread_cond_destroy(&fake->work);
    pthread_cond_destroy(&fake->done);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

static const ls_device_calls fake_calls = {
    .alloc = alloc_memory,
    .free = free_memory,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy_inside,
    .fill = fill_bytes,
    .record = record_event,
    .follow = follow_event,
    .wait = wait_for_event,
    .finish = finish_queues,
    .destroy = destroy_fake,
    .compute_otherwise = compute_otherwise,
    .share = share_memory,
    .open = open_memory,
    .close = free_memory,
    .signal = signal_counter,
    .await = await_counter,
    .mark = mark,
    .rescue = rescue,
};

static const ls_ops fake_ops = {
#define OP(name, call_type) .name = name##_late,
    LS_OPS(OP)
#undef OP
        .gemm_ends = ls_gemm_ends_never,
    .peak_flops_s = peak_flops_s,
};

ls_status ls_device_open_fake(ls_device **out) {
    *out = NULL;
    fake_device *fake = calloc(1, sizeof *fake);
    if (!fake) return ls_fail(LS_ERR_RESOURCE, "out of memory for a device");
    pthread_mutex_init(&fake->lock, NULL);
    pthread_cond_init(&fake->work, NULL);
    pthread_cond_init(&fake->done, NULL);
    fake->base = (ls_device){.name = "fake", .calls = &fake_calls, .ops = &fake_ops};
    ls_status status = ls_device_open_cpu(1, NULL, NULL, &fake->cpu);
    if (status == LS_OK && pthread_create(&fake->thread, NULL, work, fake) != 0)
        status = ls_fail(LS_ERR_RESOURCE, "cannot start a thread");
    if (status != LS_OK) {
        destroy_fake(&fake->base);
        return status;
    }
    fake->started = true;
    *out = &fake->base;
    return LS_OK;
}
