/* graphs.c: collects launches in batches, and makes CUDA graphs of batches that recur. */
#include "device/cuda/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/device.h"

enum {
    BATCH_MIN = 4,          /* launches of a graph: fewer cost as much one by one */
    ARGS_BYTES = 128 << 10, /* of a batch */
    ARGS_ALIGN = 64,        /* of a launch's arguments within them */
    CHAINS = 128,           /* batches that are remembered */
    STALE = 4 * CHAINS,     /* batches: a chain that did not recur for so long makes room for another */
};

/* A collected launch. */
typedef struct noted {
    ls_cuda_start start;
    size_t args, args_bytes; /* where its arguments lie among those of its batch; how many */
} noted;

/* The launches of a queue that have been collected and not launched. */
typedef struct batch {
    int count;
    size_t bytes; /* of arguments */
    noted launch[LS_CUDA_BATCH];
    unsigned char args[ARGS_BYTES];
} batch;

/* A remembered batch, and its graph from its second occurrence on. */
typedef struct chain {
    int queue, count; /* count 0: a free place */
    uint64_t used;    /* g->batches when it last recurred: the least recently used place is reused */
    CUgraph graph;    /* NULL: it came once so far */
    CUgraphExec exec;
    CUgraphNode node[LS_CUDA_BATCH];
    noted launch[LS_CUDA_BATCH];
    unsigned char *args; /* those of the last batch, which the graph has, too */
} chain;

struct ls_cuda_graphs {
    const ls_cuda_driver *driver;
    const CUstream *streams;
    bool is_over;     /* a call for a graph failed: launches go one by one */
    uint64_t batches; /* so far */
    size_t bytes;     /* GPU memory that the graphs took when they were made; not less when one is destroyed */
    CUresult failed;  /* of the first launch that was not made, and its name */
    const char *failed_name;
    batch *batch[LS_QUEUES]; /* NULL: nothing was launched there */
    chain chain[CHAINS];
};

/* Launches one kernel. Keeps the first error and the kernel's name. */
static CUresult launch_one(ls_cuda_graphs *g, int queue, const ls_cuda_start *s, const void *args) {
    void *parameters[1];
    memcpy(parameters, &args, sizeof args);
    CUresult result = g->driver->cuLaunchKernel(s->function, s->grid[0], s->grid[1], s->grid[2], s->threads, 1, 1,
                                                s->shared, g->streams[queue], parameters, NULL);
    if (result != CUDA_SUCCESS && g->failed == CUDA_SUCCESS) {
        g->failed = result;
        g->failed_name = s->name;
    }
    return result;
}

/* Launches a batch kernel by kernel, up to the first error, which stays in g->failed. */
static void launch_each(ls_cuda_graphs *g, int queue, const batch *b) {
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < b->count && result == CUDA_SUCCESS; i++)
        result = launch_one(g, queue, &b->launch[i].start, b->args + b->launch[i].args);
}

/* Destroys a chain's graph, if there is one, and frees its place. */
static void forget_chain(const ls_cuda_graphs *g, chain *c) {
    if (c->exec) (void)g->driver->cuGraphExecDestroy(c->exec);
    if (c->graph) (void)g->driver->cuGraphDestroy(c->graph);
    free(c->args);
    *c = (chain){0};
}

/* Returns whether a graph call succeeded. A failure is logged at debug level and disables graphs for good; it is
 * no error of the device. */
static bool check_graph_call(ls_cuda_graphs *g, CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return true;
    ls_log_debug("no CUDA graphs from here on: %s gave error %d", call, result);
    g->is_over = true;
    return false;
}

/* Returns whether two launches have the same kernel, grid, threads, shared memory and size of arguments; the
 * arguments' values may differ. */
static bool is_same_launch(const noted *a, const noted *b) {
    const ls_cuda_start *s = &a->start, *t = &b->start;
    return s->function == t->function && s->threads == t->threads && s->shared == t->shared &&
           memcmp(s->grid, t->grid, sizeof s->grid) == 0 && a->args_bytes == b->args_bytes;
}

/* Returns whether launch i of the batch has the same argument bytes as the chain had last. */
static bool has_same_args(const chain *c, const batch *b, int i) {
    return memcmp(c->args + c->launch[i].args, b->args + b->launch[i].args, b->launch[i].args_bytes) == 0;
}

/* Counts the launches whose arguments differ; `most` + 1 if there are more than `most`, or if the chain is of another
 * queue, or has another number of launches or one that is_same_launch() tells apart. */
static int count_differences(const chain *c, int queue, const batch *b, int most) {
    int count = 0;
    if (c->queue != queue || c->count != b->count) return most + 1;
    for (int i = 0; i < b->count; i++)
        if (!is_same_launch(&c->launch[i], &b->launch[i])) return most + 1;
    for (int i = 0; i < b->count && count <= most; i++) count += !has_same_args(c, b, i);
    return count;
}

/* Returns the chain with the fewest launches whose arguments differ from the batch's: layers launch the same kernels on
 * different tensors. NULL if no chain has the same queue and launches, or more than half of the launches of each
 * differ in their arguments. */
static chain *find_chain(ls_cuda_graphs *g, int queue, const batch *b) {
    chain *best = NULL;
    int most = b->count / 2;
    for (int i = 0; i < CHAINS && most >= 0; i++) {
        int count = count_differences(&g->chain[i], queue, b, most);
        if (count > most) continue;
        best = &g->chain[i];
        most = count - 1;
    }
    return best;
}

/* Remembers a new batch in a free place, or in that of a chain unused for STALE batches; else drops it. */
static void remember_batch(ls_cuda_graphs *g, int queue, const batch *b) {
    chain *oldest = &g->chain[0];
    for (int i = 1; i < CHAINS && oldest->count; i++)
        if (!g->chain[i].count || g->chain[i].used < oldest->used) oldest = &g->chain[i];
    if (oldest->count && g->batches - oldest->used < STALE) return;
    forget_chain(g, oldest);
    oldest->args = malloc(b->bytes);
    if (!oldest->args) return;
    oldest->queue = queue;
    oldest->count = b->count;
    oldest->used = g->batches;
    memcpy(oldest->launch, b->launch, (size_t)b->count * sizeof *b->launch);
    memcpy(oldest->args, b->args, b->bytes);
}

/* Returns a launch as the driver wants it for a graph node. `parameters` is borrowed until the driver call
 * returns. */
static CUDA_KERNEL_NODE_PARAMS node_of(const noted *n, void **parameters) {
    const ls_cuda_start *s = &n->start;
    return (CUDA_KERNEL_NODE_PARAMS){.func = s->function,
                                     .gridDimX = s->grid[0],
                                     .gridDimY = s->grid[1],
                                     .gridDimZ = s->grid[2],
                                     .blockDimX = s->threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = s->shared,
                                     .kernelParams = parameters};
}

/* Creates and instantiates the graph of a chain, with the arguments of the chain, and adds its GPU memory to
 * g->bytes. Returns false on failure, which disables graphs; c->graph may be left, for forget_chain(). */
static bool make_graph(ls_cuda_graphs *g, chain *c) {
    const ls_cuda_driver *driver = g->driver;
    size_t before = 0, after = 0, total;
    if (!check_graph_call(g, driver->cuGraphCreate(&c->graph, 0), "cuGraphCreate")) return false;
    for (int i = 0; i < c->count; i++) {
        void *parameters[1] = {c->args + c->launch[i].args};
        CUDA_KERNEL_NODE_PARAMS node = node_of(&c->launch[i], parameters);
        CUresult result = driver->cuGraphAddKernelNode(&c->node[i], c->graph, i ? &c->node[i - 1] : NULL, i > 0, &node);
        if (!check_graph_call(g, result, "cuGraphAddKernelNode")) return false;
    }
    (void)driver->cuMemGetInfo(&before, &total);
    if (!check_graph_call(g, driver->cuGraphInstantiateWithFlags(&c->exec, c->graph, 0), "cuGraphInstantiate"))
        return false;
    (void)driver->cuMemGetInfo(&after, &total);
    if (before > after) g->bytes += before - after;
    return true;
}

/* Sets the arguments of the chain, and of its graph if it has one, to those of the batch. Returns false on
 * failure, which disables graphs. */
static bool set_args(ls_cuda_graphs *g, chain *c, batch *b) {
    for (int i = 0; i < b->count; i++) {
        if (has_same_args(c, b, i)) continue;
        void *parameters[1] = {b->args + b->launch[i].args};
        CUDA_KERNEL_NODE_PARAMS node = node_of(&b->launch[i], parameters);
        if (c->exec && !check_graph_call(g, g->driver->cuGraphExecKernelNodeSetParams(c->exec, c->node[i], &node),
                                         "cuGraphExecKernelNodeSetParams"))
            return false;
        memcpy(c->args + c->launch[i].args, b->args + b->launch[i].args, b->launch[i].args_bytes);
    }
    return true;
}

/* Launches a batch as a graph if find_chain() finds one like it, else remembers it. Returns false if nothing was
 * launched and the caller must launch it kernel by kernel: it is new, has fewer than BATCH_MIN launches, or graphs are
 * off or fail now. */
static bool launch_graph(ls_cuda_graphs *g, int queue, batch *b) {
    if (g->is_over || b->count < BATCH_MIN) return false;
    chain *c = find_chain(g, queue, b);
    g->batches++;
    if (!c) {
        remember_batch(g, queue, b);
        return false;
    }
    c->used = g->batches;
    return set_args(g, c, b) && (c->exec || make_graph(g, c)) &&
           check_graph_call(g, g->driver->cuGraphLaunch(c->exec, g->streams[queue]), "cuGraphLaunch");
}

CUresult ls_cuda_graphs_flush(ls_cuda_graphs *g, int queue, const char **name) {
    batch *b = g->batch[queue];
    if (b && b->count > 0 && g->failed == CUDA_SUCCESS) {
        if (!launch_graph(g, queue, b)) launch_each(g, queue, b);
        b->count = 0;
        b->bytes = 0;
    }
    *name = g->failed_name;
    return g->failed;
}

CUresult ls_cuda_graphs_add(ls_cuda_graphs *g, int queue, const ls_cuda_start *start, const void *args,
                            size_t args_bytes, const char **name) {
    size_t bytes = (args_bytes + ARGS_ALIGN - 1) / ARGS_ALIGN * ARGS_ALIGN;
    batch *b = g->batch[queue];
    if (!g->is_over && !b) b = g->batch[queue] = calloc(1, sizeof *b);
    bool is_now = g->is_over || !b || bytes > ARGS_BYTES;
    if (is_now || b->count == LS_CUDA_BATCH || b->bytes + bytes > ARGS_BYTES)
        (void)ls_cuda_graphs_flush(g, queue, name);
    if (is_now) {
        if (g->failed == CUDA_SUCCESS) (void)launch_one(g, queue, start, args);
    } else {
        b->launch[b->count++] = (noted){*start, b->bytes, args_bytes};
        memcpy(b->args + b->bytes, args, args_bytes);
        b->bytes += bytes;
    }
    *name = g->failed_name;
    return g->failed;
}

ls_cuda_graphs *ls_cuda_graphs_open(const ls_cuda_driver *driver, const CUstream *streams) {
    bool has_all = true;
#define LS_CUDA_HAS(name, parameters) has_all = has_all && driver->name;
    LS_CUDA_GRAPH_CALLS(LS_CUDA_HAS)
#undef LS_CUDA_HAS
    ls_cuda_graphs *g = has_all ? calloc(1, sizeof *g) : NULL;
    if (!g) return NULL;
    g->driver = driver;
    g->streams = streams;
    return g;
}

void ls_cuda_graphs_close(ls_cuda_graphs *g) {
    if (!g) return;
    for (int i = 0; i < CHAINS; i++) forget_chain(g, &g->chain[i]);
    for (int q = 0; q < LS_QUEUES; q++) free(g->batch[q]);
    free(g);
}

size_t ls_cuda_graphs_bytes(const ls_cuda_graphs *g) { return g ? g->bytes : 0; }
