/* victim.c: a program that repeats one collective, so that the fault tests have something to break.
 *
 *   victim --workers N --op NAME [--bytes B] [--timeout S] [--loops L] [--pids DIR] [--node-size K]
 *          [--fail-rank R --fail-how error|exit|segv|stop|oom|disagree|leave [--fail-loop K]]
 *          [--limit-files N] [--limit-processes N] [--limit-memory-mib N]
 *
 * NAME: barrier, broadcast, all_gather, all_to_all, send_recv, all_reduce, reduce_scatter or all (each in turn); or
 * tensors: sums and messages on devices that share memory, the fake one. Without --loops it never ends. Each worker
 * writes its process id to DIR/RANK before the first loop. Prints errors and ends as the product does: one line "error:
 * …" and the exit status that belongs to it. After L loops rank 0 prints "done L".
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/movers/tensors.h"
#include "device/choose.h"
#include "lockstep.h"

#include "../fake/fake.h"

#define OPS(X)                                                                                                         \
    X(barrier) X(broadcast) X(all_gather) X(all_to_all) X(send_recv) X(all_reduce) X(reduce_scatter) X(all) X(tensors)
#define HOWS(X) X(none) X(error) X(exit) X(segv) X(stop) X(oom) X(disagree) X(leave)

#define OP_ENUM(name) OP_##name,
enum { OPS(OP_ENUM) OP_COUNT };
#define HOW_ENUM(name) HOW_##name,
enum { HOWS(HOW_ENUM) HOW_COUNT };

#define TEXT(name) #name,
static const char *const op_names[OP_COUNT] = {OPS(TEXT)};
static const char *const how_names[HOW_COUNT] = {HOWS(TEXT)};

typedef struct arguments {
    ls_workers_options workers;
    int op, fail_how;
    size_t bytes;
    long loops, fail_rank, fail_loop, limit_files, limit_processes, limit_memory_mib;
    const char *pids;
} arguments;

/* The buffers of one worker: room for one block from everyone. */
typedef struct body {
    ls_comm *comm;
    int rank, size;
    size_t bytes;
    float *in, *out;
    size_t counts[LS_WORKERS_MAX];
    ls_device *device; /* of tensors; else NULL */
    void *tensor[2];
} body;

/* ---- work -------------------------------------------------------------------------------------------------------- */

static ls_status send_around(body *b) {
    ls_request *sending = NULL;
    LS_TRY(ls_comm_send_start(b->comm, (b->rank + 1) % b->size, 1, b->in, b->bytes, &sending));
    LS_TRY(ls_comm_recv(b->comm, (b->rank + b->size - 1) % b->size, 1, b->out, b->bytes));
    return ls_request_wait(sending);
}

/* Everyone adds 1.0, so each element of the sum is the number of workers. */
static ls_status sum_all(body *b) {
    const void *parts[1] = {b->in};
    size_t elems = b->bytes / sizeof(float);
    LS_TRY(ls_comm_all_reduce(b->comm, NULL, LS_F32, parts, b->out, elems));
    if (elems > 0 && b->out[elems - 1] != (float)b->size)
        return ls_fail(LS_ERR_FAILED, "all_reduce of %d ones is %.9g", b->size, (double)b->out[elems - 1]);
    return LS_OK;
}

static ls_status move_tensors(body *b) {
    const void *parts[1] = {b->tensor[0]};
    ls_request *sending = NULL;
    LS_TRY(ls_tensor_all_reduce(b->device, b->comm, NULL, LS_F32, parts, b->tensor[1], b->bytes / sizeof(float)));
    LS_TRY(ls_tensor_send_start(b->device, b->comm, (b->rank + 1) % b->size, 1, b->tensor[1], b->bytes, &sending));
    LS_TRY(ls_tensor_recv(b->device, b->comm, (b->rank + b->size - 1) % b->size, 1, b->tensor[0], b->bytes));
    LS_TRY(ls_request_wait(sending));
    LS_TRY(ls_device_copy_in(b->device, b->tensor[0], b->in, b->bytes));
    return ls_device_copy_out(b->device, b->out, b->tensor[1], b->bytes);
}

static ls_status open_tensors(ls_world *world, body *b) {
    LS_TRY(ls_world_open_device(world, "fake", NULL, &b->device));
    for (int i = 0; i < 2; i++) LS_TRY(ls_device_alloc(b->device, b->bytes + 4, &b->tensor[i]));
    return ls_comm_split(ls_world_comm(world), 0, b->rank, &b->comm);
}

static ls_status work_once(body *b, int op, long loop) {
    const void *parts[1] = {b->in};
    switch (op) {
    case OP_barrier: return ls_comm_barrier(b->comm);
    case OP_broadcast: return ls_comm_broadcast(b->comm, (int)(loop % b->size), b->out, b->bytes);
    case OP_all_gather: return ls_comm_all_gather(b->comm, b->in, b->out, b->counts);
    case OP_all_to_all: return ls_comm_all_to_all(b->comm, b->in, b->out, b->bytes);
    case OP_send_recv: return send_around(b);
    case OP_all_reduce: return sum_all(b);
    case OP_reduce_scatter:
        return ls_comm_reduce_scatter(b->comm, NULL, LS_F32, parts, b->out, NULL, b->bytes / sizeof(float));
    case OP_tensors: return move_tensors(b);
    default: return work_once(b, (int)(loop % OP_all), loop);
    }
}

/* ---- misfortune -------------------------------------------------------------------------------------------------- */

static ls_status misfortune(ls_world *world, int how) {
    void *memory;
    switch (how) {
    case HOW_error: return ls_fail(LS_ERR_FAILED, "the sky fell on this worker");
    case HOW_exit: _exit(7);
    case HOW_segv:
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case HOW_stop: raise(SIGSTOP); break;
    case HOW_oom: return ls_world_alloc(world, (size_t)1 << 45, &memory);
    case HOW_disagree: return ls_comm_barrier(ls_world_comm(world));
    default: break;
    }
    return LS_OK;
}

static ls_status write_pid(const char *folder, int rank) {
    char path[4096], part[4104];
    snprintf(path, sizeof path, "%s/%d", folder, rank);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "w");
    if (file == NULL) return ls_fail_errno(LS_ERR_FAILED, "cannot write %s", part);
    fprintf(file, "%ld\n", (long)getpid());
    if (fclose(file) != 0 || rename(part, path) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot write %s", path);
    return LS_OK;
}

static ls_status worker(ls_world *world, void *arg) {
    const arguments *args = arg;
    body b = {.comm = ls_world_comm(world), .rank = ls_world_rank(world), .size = ls_world_size(world)};
    b.bytes = args->bytes;
    ls_status status = LS_OK;
    void *in = NULL, *out = NULL;
    LS_TRY_OUT(ls_world_alloc(world, b.bytes * (size_t)b.size + 4, &in));
    LS_TRY_OUT(ls_world_alloc(world, b.bytes * (size_t)b.size + 4, &out));
    b.in = in;
    b.out = out;
    for (size_t i = 0; i < b.bytes / sizeof(float); i++) b.in[i] = 1.0f;
    for (int r = 0; r < b.size; r++) b.counts[r] = b.bytes;
    if (args->op == OP_tensors) LS_TRY_OUT(open_tensors(world, &b));
    if (args->pids != NULL) LS_TRY_OUT(write_pid(args->pids, b.rank));
    for (long loop = 0; args->loops == 0 || loop < args->loops; loop++) {
        bool unlucky = b.rank == args->fail_rank && loop == args->fail_loop;
        if (unlucky && args->fail_how == HOW_leave) goto out;
        if (unlucky) LS_TRY_OUT(misfortune(world, args->fail_how));
        LS_TRY_OUT(work_once(&b, args->op, loop));
    }
    if (b.rank == 0) {
        printf("done %ld\n", args->loops);
        fflush(stdout);
    }
out:
    for (int i = 0; b.device && i < 2; i++) ls_device_free(b.device, b.tensor[i]);
    ls_device_destroy(b.device);
    ls_world_free(world, in);
    ls_world_free(world, out);
    return status;
}

/* ---- command line ------------------------------------------------------------------------------------------------ */

static ls_status parse_name(const char *text, const char *const *names, int count, int *out) {
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return LS_OK;
        }
    }
    return ls_fail(LS_ERR_INPUT, "'%s' is not a name that this option knows", text);
}

static ls_status parse_number(const char *name, const char *text, arguments *args) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != 0 || value < 0)
        return ls_fail(LS_ERR_INPUT, "%s wants a number, not '%s'", name, text);
    if (strcmp(name, "--workers") == 0) {
        args->workers.workers = (int)value;
    } else if (strcmp(name, "--node-size") == 0) {
        args->workers.node_size = (int)value;
    } else if (strcmp(name, "--timeout") == 0) {
        args->workers.timeout_s = value;
    } else if (strcmp(name, "--bytes") == 0) {
        args->bytes = (size_t)value;
    } else if (strcmp(name, "--loops") == 0) {
        args->loops = (long)value;
    } else if (strcmp(name, "--fail-rank") == 0) {
        args->fail_rank = (long)value;
    } else if (strcmp(name, "--fail-loop") == 0) {
        args->fail_loop = (long)value;
    } else if (strcmp(name, "--limit-files") == 0) {
        args->limit_files = (long)value;
    } else if (strcmp(name, "--limit-processes") == 0) {
        args->limit_processes = (long)value;
    } else if (strcmp(name, "--limit-memory-mib") == 0) {
        args->limit_memory_mib = (long)value;
    } else {
        return ls_fail(LS_ERR_INPUT, "unknown option '%s'", name);
    }
    return LS_OK;
}

static ls_status parse(int argc, char **argv, arguments *args) {
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--op") == 0) {
            LS_TRY(parse_name(value, op_names, OP_COUNT, &args->op));
        } else if (strcmp(name, "--fail-how") == 0) {
            LS_TRY(parse_name(value, how_names, HOW_COUNT, &args->fail_how));
        } else if (strcmp(name, "--pids") == 0) {
            args->pids = value;
        } else {
            LS_TRY(parse_number(name, value, args));
        }
    }
    return LS_OK;
}

/* Limits are set here and not by a shell: the loader needs descriptors and memory to start the program at all. */
static ls_status limit(int what, long value, size_t unit) {
    struct rlimit wanted = {.rlim_cur = (rlim_t)value * unit, .rlim_max = (rlim_t)value * unit};
    if (value == 0) return LS_OK;
    if (setrlimit(what, &wanted) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot set a limit");
    return LS_OK;
}

static ls_status start(int argc, char **argv) {
    arguments args = {.op = OP_all, .bytes = 4096, .fail_rank = -1, .workers.threads = 1};
    LS_TRY(parse(argc, argv, &args));
    LS_TRY(limit(RLIMIT_NOFILE, args.limit_files, 1));
    LS_TRY(limit(RLIMIT_NPROC, args.limit_processes, 1));
    LS_TRY(limit(RLIMIT_AS, args.limit_memory_mib, (size_t)1 << 20));
    return ls_workers_run(&args.workers, worker, &args);
}

static void say(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv) {
    ls_message_handler_set(say, NULL);
    ls_device_fake = ls_device_open_fake;
    /* A shell starts what runs in its background with interrupts ignored; the tests send them. */
    signal(SIGINT, SIG_DFL);
    ls_status status = start(argc, argv);
    if (status != LS_OK && status != LS_ERR_PEER) fprintf(stderr, "error: %s\n", ls_status_message());
    return ls_status_exit_code(status);
}
