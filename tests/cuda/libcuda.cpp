/* libcuda.cpp: a libcuda.so.1 for tests on machines without a GPU. Memory is the host's, in files that other processes can map; each stream
 * has a thread, which runs copies and kernels in their order; kernels are the sources of src/device/cuda/kernels, compiled for the CPU, with fibers
 * as threads (on_cpu.h).
 *
 * LS_CUDA_FAULT=CALL:ERROR[:N] makes the N-th call (the first, if not said) of CALL and all later ones fail with the number ERROR; -1 never
 * returns, -2 crashes, -3 makes the N-th take four seconds. LS_CUDA_GPU=N: only on that GPU.
 * LS_CUDA_VERSION=11080 plays an old driver, LS_CUDA_MISSING=CALL one without that call, LS_CUDA_GPUS=N their number,
 * LS_CUDA_MEMORY=BYTES the memory of each, LS_CUDA_OTHERS=BYTES what other programs hold of it, LS_CUDA_CAPABILITY=75 an old GPU,
 * LS_CUDA_HANG=1 a GPU whose kernels never end.
 * LS_CUDA_WGMMA=1: it has the TMA and the warpgroup matmuls (wgmma) of compute capability 9.0 (wgmma_on_cpu.h), far slower than the rest.
 * LS_CUDA_ORPHAN=1: memory of another process that ends takes the GPU with it.
 * LS_CUDA_COUNT=FILE gets a line with the most bytes that were allocated at a time, from each process; LS_CUDA_CALLS=FILE one for each call of
 * the driver: its name, and how often it was made. */
#undef _FORTIFY_SOURCE /* it takes a jump to another stack for a mistake */
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "on_cpu.h"

/* ---- fibers ------------------------------------------------------------------------------------------------------------ */

namespace on_cpu {

fiber *fibers;
unsigned count, current;
dim3 block, grid, block_dim;
alignas(1024) unsigned char shared[SHARED_BYTES];
bool has_ampere_unit;
kernel *kernel::first;
static entry body;
static const void *arguments;
static unsigned begun, exited, arrived;
static unsigned long generation;

/* Lanes that meet. A value is read before the next but one is written: two of each are enough. */
static struct warp {
    unsigned arrived, exited;
    unsigned long turn;
    uint64_t values[2][32];
} warps[THREADS_MAX / 32];

/* A stack runs threads that have not begun, one after the other, so that threads that never wait share one; then it is free. Stacks stay
 * where they are from block to block, and a switch is a jump: to make a context, or to swap two, asks the kernel for the mask of signals. */
struct stack {
    jmp_buf idle;
    bool is_made;
};
static stack stacks[THREADS_MAX];
static unsigned free_stacks[THREADS_MAX], free_count, made_count, given;
static unsigned char *memory_of_stacks;
static jmp_buf home;

[[noreturn]] static void resume(unsigned thread) {
    current = thread;
    _longjmp(fibers[thread].at, 1);
}

/* The next behind `from` of those from `first` up to `end` that is not done; `from`, where there is none. */
static unsigned next_of(unsigned from, unsigned first, unsigned end) {
    unsigned to = from;
    do to = to + 1 < end ? to + 1 : first;
    while (to != from && fibers[to].done);
    return to;
}

static void run_threads() {
    const unsigned mine = given;
    for (;;) {
        while (begun < count) {
            current = begun++;
            body(arguments);
            fibers[current].done = true;
            exited++;
            warps[current / 32].exited++;
        }
        free_stacks[free_count++] = mine;
        if (_setjmp(stacks[mine].idle) == 0) {
            if (exited == count) _longjmp(home, 1);
            resume(next_of(current, 0, count));
        }
    }
}

[[noreturn]] static void begin_thread() {
    given = free_count ? free_stacks[--free_count] : made_count++;
    stack *s = stacks + given;
    if (s->is_made) _longjmp(s->idle, 1);
    s->is_made = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = memory_of_stacks + (size_t)given * STACK_STRIDE;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, run_threads, 0);
    setcontext(&context);
    abort();
}

/* Lets one of the threads from `first` up to `end` go on, or begin. */
static void yield(unsigned first, unsigned end) {
    unsigned to = begun < end ? current : next_of(current, first, end);
    if (begun >= end && to == current) return;
    if (_setjmp(fibers[current].at) != 0) return;
    if (begun < end) begin_thread();
    resume(to);
}

void sync() {
    unsigned long mine = generation;
    arrived++;
    while (generation == mine) {
        if (arrived + exited >= count) {
            arrived = 0;
            generation++;
        } else {
            yield(0, count);
        }
    }
}

void pass() { yield(0, count); }

void meet(unsigned number, unsigned threads) {
    static struct {
        unsigned arrived;
        unsigned long turn;
    } meetings[16];
    auto &m = meetings[number % 16];
    const unsigned long mine = m.turn;
    if (++m.arrived == threads) {
        m.arrived = 0;
        m.turn++;
    }
    while (m.turn == mine) yield(0, count);
}

uint64_t exchange(uint64_t value, unsigned from) {
    unsigned first = current / 32 * 32, lanes = count - first < 32 ? count - first : 32;
    warp *w = warps + first / 32;
    unsigned long mine = w->turn;
    w->values[mine % 2][current - first] = value;
    w->arrived++;
    while (w->turn == mine) {
        if (w->arrived + w->exited >= lanes) {
            w->arrived = 0;
            w->turn++;
        } else {
            yield(first, first + lanes);
        }
    }
    return w->values[mine % 2][from];
}

static void run_block() {
    begun = exited = arrived = 0;
    for (unsigned i = 0; i < count; i++) fibers[i].done = false;
    for (unsigned i = 0; i * 32 < count; i++) warps[i].arrived = warps[i].exited = 0;
    if (_setjmp(home) == 0) begin_thread();
}

void launch(entry run, dim3 g, dim3 b, const void *args) {
    static std::mutex one;
    std::lock_guard<std::mutex> hold(one);
    grid = g;
    block_dim = b;
    count = b.x * b.y * b.z;
    if (!fibers) {
        fibers = new fiber[THREADS_MAX];
        memory_of_stacks = (unsigned char *)mmap(nullptr, (size_t)THREADS_MAX * STACK_STRIDE, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    for (unsigned i = 0; i < count; i++) fibers[i].thread = dim3(i % b.x, i / b.x % b.y, i / (b.x * b.y));
    body = run;
    arguments = args;
    memset(shared, 0xFF, sizeof shared); /* NaNs: a kernel must not rely on old contents */
    for (block.z = 0; block.z < g.z; block.z++)
        for (block.y = 0; block.y < g.y; block.y++)
            for (block.x = 0; block.x < g.x; block.x++) run_block();
}

} // namespace on_cpu

/* ---- the driver ---------------------------------------------------------------------------------------------------------- */

typedef int CUresult;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500, NOT_READY = 600 };

static long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int current_gpu = -1; /* whose context was taken last */

/* What the fault of the environment makes of this call. */
static CUresult fault(const char *call) {
    static std::atomic<long> calls;
    const char *text = getenv("LS_CUDA_FAULT");
    size_t length = strlen(call);
    if (!text || strncmp(text, call, length) || text[length] != ':') return SUCCESS;
    char *end;
    long error = strtol(text + length + 1, &end, 10), nth = *end == ':' ? strtol(end + 1, nullptr, 10) : 1;
    const long number = ++calls;
    if (number < nth || (current_gpu >= 0 && setting("LS_CUDA_GPU", current_gpu) != current_gpu)) return SUCCESS;
    if (error == -2) abort();
    while (error == -1) pause();
    if (error == -3) {
        if (number == nth) sleep(4);
        return SUCCESS;
    }
    return (CUresult)error;
}

struct stream {
    std::mutex lock;
    std::condition_variable some;
    std::deque<std::function<void()>> queue;
    size_t pending = 0;
    bool ends = false;
    std::thread thread;
    stream() : thread([this] { work(); }) {}
    void work() {
        for (;;) {
            std::function<void()> job;
            {
                std::unique_lock<std::mutex> hold(lock);
                some.wait(hold, [this] { return ends || !queue.empty(); });
                if (queue.empty()) return;
                job = std::move(queue.front());
                queue.pop_front();
            }
            if (setting("LS_CUDA_HANG", 0) && setting("LS_CUDA_GPU", current_gpu) == current_gpu) for (;;) pause();
            job();
            std::lock_guard<std::mutex> hold(lock);
            pending--;
        }
    }
    void add(std::function<void()> job) {
        std::lock_guard<std::mutex> hold(lock);
        queue.push_back(std::move(job));
        pending++;
        some.notify_one();
    }
    bool is_done() {
        std::lock_guard<std::mutex> hold(lock);
        return pending == 0;
    }
};

struct event {
    std::atomic<uint64_t> asked{0}, done{0}, ns{0}; /* ns: when it was done last */
    std::mutex lock;
    std::condition_variable some;
    void finish(uint64_t number, uint64_t now_ns) {
        std::lock_guard<std::mutex> hold(lock);
        ns = now_ns;
        done = number;
        some.notify_all();
    }
    void await(uint64_t number) {
        std::unique_lock<std::mutex> hold(lock);
        some.wait(hold, [=] { return done >= number; });
    }
};

static uint64_t clock_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct block_of_memory {
    int fd;
    size_t bytes;
};

struct handle {
    long pid;
    int fd;
    size_t bytes;
    char rest[64 - sizeof(long) - sizeof(size_t) - sizeof(size_t)];
};

static std::mutex memory_lock;
static std::map<uint64_t, block_of_memory> memory;
static size_t memory_used, memory_most;
static std::atomic<CUresult> broken; /* an error of a stream stays, as a GPU's does */

static size_t memory_total() { return (size_t)setting("LS_CUDA_MEMORY", 1L << 30); }

/* Whether a process whose memory was opened here is gone, or about to be. */
static std::vector<long> owners;
static bool is_orphan() {
    for (long pid : owners) {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        FILE *file = fopen(path, "r");
        size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
        if (file) fclose(file);
        const char *state = n ? strrchr(text, ')') : nullptr;
        if (!state || state[2] == 'Z' || state[2] == 'X') return true;
    }
    return false;
}

/* Calls that were made, by name. */
static std::mutex calls_lock;
static std::map<std::string, long> calls_made;
static void note_call(const char *call) {
    std::lock_guard<std::mutex> hold(calls_lock);
    calls_made[call]++;
}

#define CHECK(call)                                                            \
    do {                                                                       \
        static const bool counts = getenv("LS_CUDA_CALLS");                    \
        if (counts) note_call(call);                                           \
        static const bool orphans = getenv("LS_CUDA_ORPHAN");                  \
        if (orphans && is_orphan()) broken = 700;                              \
        if (CUresult e = fault(call)) return e;                                \
        if (CUresult e = broken.load()) return e;                              \
    } while (0)
#define API extern "C" __attribute__((visibility("default"))) CUresult

API cuInit(unsigned) {
    on_cpu::has_ampere_unit = setting("LS_CUDA_CAPABILITY", 90) / 10 == 8;
    CHECK("cuInit");
    return setting("LS_CUDA_GPUS", 1) ? SUCCESS : NO_DEVICE;
}
API cuDriverGetVersion(int *version) {
    *version = (int)setting("LS_CUDA_VERSION", 13000);
    return SUCCESS;
}
API cuGetErrorName(CUresult error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 214 ? "CUDA_ERROR_ECC_UNCORRECTABLE" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_A_TEST";
    return SUCCESS;
}
API cuGetErrorString(CUresult error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : error == 214 ? "uncorrectable ECC error encountered" : error == 700 ? "an illegal memory access was encountered" : "an error that a test plays";
    return SUCCESS;
}
API cuDeviceGetCount(int *count) {
    CHECK("cuDeviceGetCount");
    *count = (int)setting("LS_CUDA_GPUS", 1);
    return SUCCESS;
}
API cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}
API cuDeviceGetName(char *name, int bytes, int) {
    snprintf(name, (size_t)bytes, "a CPU that plays a GPU");
    return SUCCESS;
}
API cuDeviceGetAttribute(int *value, int attribute, int) {
    long capability = setting("LS_CUDA_CAPABILITY", 90);
    *value = attribute == 16 ? 4 : attribute == 75 ? (int)capability / 10 : attribute == 76 ? (int)capability % 10 : attribute == 97 ? (int)on_cpu::SHARED_BYTES : 0;
    return SUCCESS;
}
API cuDeviceGetUuid(unsigned char *uuid, int gpu) {
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)gpu;
    return SUCCESS;
}
API cuDeviceTotalMem(size_t *bytes, int) {
    *bytes = memory_total();
    return SUCCESS;
}
API cuDevicePrimaryCtxRetain(void **context, int gpu) {
    current_gpu = gpu;
    CHECK("cuDevicePrimaryCtxRetain");
    *context = &memory;
    return SUCCESS;
}
API cuDevicePrimaryCtxRelease(int) {
    if (FILE *file = getenv("LS_CUDA_COUNT") ? fopen(getenv("LS_CUDA_COUNT"), "a") : nullptr) {
        fprintf(file, "%zu\n", memory_most);
        fclose(file);
    }
    if (FILE *file = getenv("LS_CUDA_CALLS") ? fopen(getenv("LS_CUDA_CALLS"), "a") : nullptr) {
        for (auto &call : calls_made) fprintf(file, "%s %ld\n", call.first.c_str(), call.second);
        fclose(file);
    }
    return SUCCESS;
}
API cuCtxSetCurrent(void *) { return SUCCESS; }
API cuMemGetInfo(size_t *free, size_t *total) {
    *total = memory_total();
    *free = *total - memory_used - (size_t)setting("LS_CUDA_OTHERS", 0);
    return SUCCESS;
}
API cuMemAlloc(uint64_t *out, size_t bytes) {
    CHECK("cuMemAlloc");
    std::lock_guard<std::mutex> hold(memory_lock);
    if (bytes > memory_total() - memory_used) return OUT_OF_MEMORY;
    int fd = memfd_create("gpu", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) return OUT_OF_MEMORY;
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    memory[(uint64_t)at] = {fd, bytes};
    memory_used += bytes;
    if (memory_used > memory_most) memory_most = memory_used;
    *out = (uint64_t)at;
    return SUCCESS;
}
API cuMemFree(uint64_t at) {
    std::lock_guard<std::mutex> hold(memory_lock);
    auto found = memory.find(at);
    if (found == memory.end()) return INVALID_VALUE;
    munmap((void *)at, found->second.bytes);
    close(found->second.fd);
    memory_used -= found->second.bytes;
    memory.erase(found);
    return SUCCESS;
}
API cuMemHostAlloc(void **out, size_t bytes, unsigned) {
    CHECK("cuMemHostAlloc");
    *out = malloc(bytes);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}
API cuMemFreeHost(void *at) {
    free(at);
    return SUCCESS;
}
API cuMemcpyHtoDAsync(uint64_t to, const void *from, size_t bytes, stream *s) {
    CHECK("cuMemcpyHtoDAsync");
    s->add([=] { memcpy((void *)to, from, bytes); });
    return SUCCESS;
}
API cuMemcpyDtoHAsync(void *to, uint64_t from, size_t bytes, stream *s) {
    CHECK("cuMemcpyDtoHAsync");
    s->add([=] { memcpy(to, (void *)from, bytes); });
    return SUCCESS;
}
API cuMemcpyDtoDAsync(uint64_t to, uint64_t from, size_t bytes, stream *s) {
    CHECK("cuMemcpyDtoDAsync");
    s->add([=] { memcpy((void *)to, (void *)from, bytes); });
    return SUCCESS;
}
API cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, stream *s) {
    CHECK("cuMemsetD8Async");
    s->add([=] { memset((void *)to, byte, bytes); });
    return SUCCESS;
}
API cuStreamCreate(stream **out, unsigned) {
    CHECK("cuStreamCreate");
    *out = new stream;
    return SUCCESS;
}
API cuStreamDestroy(stream *s) {
    {
        std::lock_guard<std::mutex> hold(s->lock);
        s->ends = true;
        s->some.notify_one();
    }
    if (setting("LS_CUDA_HANG", 0)) {
        s->thread.detach();
        return SUCCESS;
    }
    s->thread.join();
    delete s;
    return SUCCESS;
}
API cuStreamQuery(stream *s) {
    CHECK("cuStreamQuery");
    return s->is_done() ? SUCCESS : NOT_READY;
}
API cuStreamWaitEvent(stream *s, event *e, unsigned) {
    CHECK("cuStreamWaitEvent");
    uint64_t asked = e->asked;
    s->add([=] { e->await(asked); });
    return SUCCESS;
}
API cuStreamWriteValue64(stream *s, uint64_t at, uint64_t value, unsigned) {
    CHECK("cuStreamWriteValue64");
    s->add([=] { __atomic_store_n((uint64_t *)at, value, __ATOMIC_SEQ_CST); });
    return SUCCESS;
}
API cuStreamWaitValue64(stream *s, uint64_t at, uint64_t value, unsigned) {
    CHECK("cuStreamWaitValue64");
    s->add([=] { while ((int64_t)(__atomic_load_n((uint64_t *)at, __ATOMIC_SEQ_CST) - value) < 0) usleep(10); });
    return SUCCESS;
}
API cuEventCreate(event **out, unsigned) {
    CHECK("cuEventCreate");
    *out = new event;
    return SUCCESS;
}
API cuEventDestroy(event *e) {
    e->lock.lock(); /* the thread that has just signalled the event may still hold the lock */
    e->lock.unlock();
    delete e;
    return SUCCESS;
}
API cuEventRecord(event *e, stream *s) {
    CHECK("cuEventRecord");
    uint64_t number = ++e->asked;
    s->add([=] { e->finish(number, clock_ns()); });
    return SUCCESS;
}
API cuEventQuery(event *e) {
    CHECK("cuEventQuery");
    return e->done >= e->asked ? SUCCESS : NOT_READY;
}
API cuEventElapsedTime(float *ms, event *from, event *to) {
    CHECK("cuEventElapsedTime");
    if (from->done < from->asked || to->done < to->asked) return NOT_READY;
    *ms = (float)((double)(int64_t)(to->ns - from->ns) / 1e6);
    return SUCCESS;
}
API cuModuleLoadData(const void **out, const void *image) {
    CHECK("cuModuleLoadData");
    *out = image;
    return SUCCESS;
}
API cuModuleUnload(const void *) { return SUCCESS; }
API cuModuleGetFunction(on_cpu::kernel **out, const void *, const char *name) {
    for (on_cpu::kernel *k = on_cpu::kernel::first; k; k = k->next)
        if (!strcmp(k->name, name)) {
            *out = k;
            return SUCCESS;
        }
    return NOT_FOUND;
}
/* played_map of wgmma_on_cpu.h. */
API cuTensorMapEncodeTiled(uint64_t *map, int type, unsigned rank, void *at, const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *, int, int, int, int) {
    CHECK("cuTensorMapEncodeTiled");
    const uint64_t bytes = type == 7 ? 4 : 2;
    if (rank != 3 || (uint64_t)at % 16 || strides[0] % 16 || strides[1] % 16 || box[0] * bytes > 128 || box[1] > 256) return INVALID_VALUE;
    const uint64_t words[16] = {(uint64_t)at, sizes[0], sizes[1], sizes[2], bytes, strides[0], strides[1], box[0], box[1], bytes};
    memcpy(map, words, sizeof words);
    return SUCCESS;
}
API cuFuncSetAttribute(void *, int, int value) { return value > on_cpu::SHARED_BYTES ? INVALID_VALUE : SUCCESS; }
static CUresult start_kernel(on_cpu::kernel *k, dim3 g, dim3 b, unsigned shared, stream *s, const void *parameters) {
    if (!g.x || !g.y || !g.z || !b.x || b.x * b.y * b.z > on_cpu::THREADS_MAX || shared > on_cpu::SHARED_BYTES) return INVALID_VALUE;
    if (CUresult e = fault("kernel")) { /* comes up later, and stays */
        s->add([e] { broken = e; });
        return SUCCESS;
    }
    struct alignas(64) line {
        uint64_t words[8];
    };
    std::vector<line> args(k->args_bytes / sizeof(line) + 1);
    memcpy(args.data(), parameters, k->args_bytes);
    s->add([=] { on_cpu::launch(k->run, g, b, args.data()); });
    return SUCCESS;
}
API cuLaunchKernel(on_cpu::kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, stream *s,
                   void **parameters, void **) {
    CHECK("cuLaunchKernel");
    return start_kernel(k, dim3(gx, gy, gz), dim3(bx, by, bz), shared, s, parameters[0]);
}

/* Graphs: a chain of kernels, whose nodes say which one is before them. A graph that is instantiated has copies of its own. */
struct node_params { /* CUDA_KERNEL_NODE_PARAMS */
    on_cpu::kernel *k;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra, *kern, *ctx;
};
struct node {
    node_params params;
    std::vector<uint64_t> args;
    const node *before;
};
struct graph {
    std::deque<node> nodes;
};
struct graph_exec {
    std::map<const node *, node> nodes;
    std::vector<const node *> order;
};
static void set_params(node *n, const node_params *params) {
    n->params = *params;
    n->args.resize(params->k->args_bytes / 8 + 1);
    memcpy(n->args.data(), params->parameters[0], params->k->args_bytes);
}
API cuFuncGetParamInfo(on_cpu::kernel *k, size_t index, size_t *offset, size_t *bytes) {
    CHECK("cuFuncGetParamInfo");
    if (index) return INVALID_VALUE;
    *offset = 0;
    *bytes = k->args_bytes;
    return SUCCESS;
}
API cuGraphCreate(graph **out, unsigned) {
    CHECK("cuGraphCreate");
    *out = new graph;
    return SUCCESS;
}
API cuGraphDestroy(graph *g) {
    delete g;
    return SUCCESS;
}
API cuGraphAddKernelNode(node **out, graph *g, node *const *before, size_t count, const node_params *params) {
    CHECK("cuGraphAddKernelNode");
    if (count > 1) return INVALID_VALUE;
    g->nodes.push_back({{}, {}, count ? before[0] : nullptr});
    set_params(&g->nodes.back(), params);
    *out = &g->nodes.back();
    return SUCCESS;
}
API cuGraphInstantiateWithFlags(graph_exec **out, graph *g, unsigned long long) {
    CHECK("cuGraphInstantiateWithFlags");
    *out = new graph_exec;
    const node *last = nullptr;
    for (size_t n = 0; n < g->nodes.size(); n++)
        for (const node &next : g->nodes)
            if (next.before == last && !(*out)->nodes.count(&next)) {
                (*out)->nodes[&next] = next;
                (*out)->order.push_back(last = &next);
                break;
            }
    return (*out)->order.size() == g->nodes.size() ? SUCCESS : INVALID_VALUE;
}
API cuGraphExecDestroy(graph_exec *exec) {
    delete exec;
    return SUCCESS;
}
API cuGraphExecKernelNodeSetParams(graph_exec *exec, node *n, const node_params *params) {
    CHECK("cuGraphExecKernelNodeSetParams");
    if (!exec->nodes.count(n)) return INVALID_VALUE;
    set_params(&exec->nodes[n], params);
    return SUCCESS;
}
API cuGraphLaunch(graph_exec *exec, stream *s) {
    CHECK("cuGraphLaunch");
    for (const node *at : exec->order) {
        const node &n = exec->nodes[at];
        const unsigned *g = n.params.grid, *b = n.params.block;
        if (CUresult e = start_kernel(n.params.k, dim3(g[0], g[1], g[2]), dim3(b[0], b[1], b[2]), n.params.shared, s, n.args.data())) return e;
    }
    return SUCCESS;
}
API cuLaunchHostFunc(stream *s, void (*fn)(void *), void *arg) {
    s->add([=] { fn(arg); });
    return SUCCESS;
}
API cuIpcGetMemHandle(handle *out, uint64_t at) {
    CHECK("cuIpcGetMemHandle");
    std::lock_guard<std::mutex> hold(memory_lock);
    auto found = memory.find(at);
    if (found == memory.end()) return INVALID_VALUE;
    *out = {getpid(), found->second.fd, found->second.bytes, {}};
    return SUCCESS;
}
API cuIpcOpenMemHandle(uint64_t *out, handle h, unsigned) {
    CHECK("cuIpcOpenMemHandle");
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", h.pid, h.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return INVALID_VALUE;
    void *at = mmap(nullptr, h.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    std::lock_guard<std::mutex> hold(memory_lock);
    memory[(uint64_t)at] = {-1, h.bytes};
    owners.push_back(h.pid);
    *out = (uint64_t)at;
    return SUCCESS;
}
API cuIpcCloseMemHandle(uint64_t at) {
    std::lock_guard<std::mutex> hold(memory_lock);
    auto found = memory.find(at);
    if (found == memory.end()) return INVALID_VALUE;
    munmap((void *)at, found->second.bytes);
    memory.erase(found);
    return SUCCESS;
}

API cuGetProcAddress_v2(const char *name, void **out, int, uint64_t, int *) {
#define NAMED(call) {#call, (void *)call}
    static const std::map<std::string, void *> calls = {
        NAMED(cuInit), NAMED(cuDriverGetVersion), NAMED(cuGetErrorName), NAMED(cuGetErrorString), NAMED(cuDeviceGetCount), NAMED(cuDeviceGet),
        NAMED(cuDeviceGetName), NAMED(cuDeviceGetAttribute), NAMED(cuDeviceTotalMem), NAMED(cuDeviceGetUuid), NAMED(cuDevicePrimaryCtxRetain), NAMED(cuDevicePrimaryCtxRelease),
        NAMED(cuCtxSetCurrent), NAMED(cuMemGetInfo), NAMED(cuMemAlloc), NAMED(cuMemFree), NAMED(cuMemHostAlloc), NAMED(cuMemFreeHost),
        NAMED(cuMemcpyHtoDAsync), NAMED(cuMemcpyDtoHAsync), NAMED(cuMemcpyDtoDAsync), NAMED(cuMemsetD8Async), NAMED(cuStreamCreate),
        NAMED(cuStreamDestroy), NAMED(cuStreamQuery), NAMED(cuStreamWaitEvent), NAMED(cuStreamWriteValue64), NAMED(cuStreamWaitValue64),
        NAMED(cuEventCreate), NAMED(cuEventDestroy), NAMED(cuEventRecord), NAMED(cuEventQuery), NAMED(cuEventElapsedTime), NAMED(cuModuleLoadData), NAMED(cuModuleUnload),
        NAMED(cuModuleGetFunction), NAMED(cuFuncSetAttribute), NAMED(cuLaunchKernel), NAMED(cuIpcGetMemHandle), NAMED(cuIpcOpenMemHandle),
        NAMED(cuIpcCloseMemHandle), NAMED(cuFuncGetParamInfo), NAMED(cuGraphCreate), NAMED(cuGraphDestroy), NAMED(cuGraphAddKernelNode),
        NAMED(cuGraphInstantiateWithFlags), NAMED(cuGraphExecDestroy), NAMED(cuGraphExecKernelNodeSetParams), NAMED(cuGraphLaunch), NAMED(cuTensorMapEncodeTiled)};
#undef NAMED
    const char *missing = getenv("LS_CUDA_MISSING");
    auto found = calls.find(name);
    const bool is_without = !strcmp(name, "cuTensorMapEncodeTiled") && !setting("LS_CUDA_WGMMA", 0);
    *out = found == calls.end() || is_without || (missing && !strcmp(missing, name)) ? nullptr : found->second;
    return *out ? SUCCESS : NOT_FOUND;
}
