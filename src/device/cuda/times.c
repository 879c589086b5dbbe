/* times.c: times of GPU work for traces: the ring of event pairs, and the categories and names of their spans. */
#include "device/cuda/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/events.h"

enum {
    PAIRS = 1 << 15, /* more than the driver lets the host enqueue ahead of the GPU */
};

struct ls_cuda_pair {
    CUevent begin, end; /* created on first use */
    int queue;
    bool is_over; /* the end event was recorded, too; the work may still run */
    ls_span span;
    int64_t n; /* bytes of a copy, blocks of a kernel */
};

struct ls_cuda_times {
    const ls_cuda_driver *driver;
    ls_lane *lanes[LS_QUEUES]; /* of the trace; NULL: not created yet */
    CUevent anchors[2];        /* the current one and the next */
    double anchor_ns;          /* the host's clock at the current anchor; 0: none yet */
    uint64_t first, next;      /* pairs first … next − 1 have not been read */
    ls_cuda_pair pair[PAIRS];
};

/* Names of the lanes, by queue. From LS_QUEUE_COMM on: the axes of a layout, then all workers. */
static const char *const queue_names[LS_QUEUES] = {"compute", "dp", "tp", "pp", "world", "receive"};

/* Category of an operation by the prefix of its name; any other operation is elementwise. */
static const struct {
    const char *operation, *category;
} kinds[] = {
    {"gemm", "gpu products"},      {"conv_", "gpu products"},    {"attention_", "gpu attention"},
    {"norm_", "gpu norms"},        {"batch_norm_", "gpu norms"}, {"loss_", "gpu loss"},
    {"add_losses", "gpu loss"},    {"update", "gpu optimizer"},  {"square_sums", "gpu optimizer"},
    {"convert", "gpu conversion"}, {"round", "gpu conversion"},  {"copy_rows", "gpu copies"},
};

/* Returns the category of an operation's spans; NULL, no operation, is elementwise. */
static const char *category_of(const char *operation) {
    for (size_t i = 0; operation && i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(operation, kinds[i].operation, strlen(kinds[i].operation)) == 0) return kinds[i].category;
    return "gpu elementwise";
}

/* Returns what a span says it is part of: the operation's name (NULL without one), or "NT 128x256x512" for a
 * matmul: its form and sizes m, n, k. The text lives as long as the trace. */
static const char *describe_operation(const ls_cuda_asked *asked) {
    static const char *const forms[] = {[LS_GEMM_NN] = "NN", [LS_GEMM_NT] = "NT", [LS_GEMM_TN] = "TN"};
    const ls_gemm *g = asked->product;
    char text[LS_EVENTS_WORD_BYTES];
    if (!g) return asked->operation;
    (void)snprintf(text, sizeof text, "%s %zux%zux%zu", forms[g->form], g->m, g->n, g->k);
    const char *word = ls_events_word(text);
    return word ? word : asked->operation;
}

/* Creates the event unless it exists. Returns false if the driver cannot. */
static bool make_event(const ls_cuda_times *times, CUevent *event) {
    return *event || times->driver->cuEventCreate(event, 0) == CUDA_SUCCESS;
}

/* Returns the lane of a queue in the trace, created on first use; NULL if out of memory. */
static ls_lane *lane_of(ls_cuda_times *times, int queue) {
    if (!times->lanes[queue]) times->lanes[queue] = ls_events_lane(queue_names[queue]);
    return times->lanes[queue];
}

/* Takes the next pair of the ring and records its begin event on the stream. Returns NULL if the span is lost: the
 * ring is full of unfinished work, or the driver failed. The lane counts it, unless there is no memory for the
 * lane. */
static ls_cuda_pair *begin_pair(ls_cuda_times *times, CUstream stream, int queue, ls_span span, int64_t n) {
    if (times->next - times->first == PAIRS) ls_cuda_times_read(times, 0);
    ls_cuda_pair *pair = &times->pair[times->next % PAIRS];
    ls_lane *lane = lane_of(times, queue);
    if (!lane) return NULL;
    if (times->next - times->first == PAIRS || !make_event(times, &pair->begin) || !make_event(times, &pair->end) ||
        times->driver->cuEventRecord(pair->begin, stream) != CUDA_SUCCESS) {
        ls_events_lose(lane, 1);
        return NULL;
    }
    *pair = (ls_cuda_pair){.begin = pair->begin, .end = pair->end, .queue = queue, .span = span, .n = n};
    times->next++;
    return pair;
}

ls_cuda_pair *ls_cuda_times_kernel(ls_cuda_times *times, CUstream stream, int queue, const char *kernel, size_t blocks,
                                   const ls_cuda_asked *asked) {
    ls_span span = {.category = queue == LS_QUEUE_COMPUTE ? category_of(asked->operation) : "gpu communication",
                    .name = kernel,
                    .of = describe_operation(asked)};
    return begin_pair(times, stream, queue, span, (int64_t)blocks);
}

ls_cuda_pair *ls_cuda_times_copy(ls_cuda_times *times, CUstream stream, int queue, const char *what, size_t bytes) {
    ls_span span = {.category = queue == LS_QUEUE_COMPUTE ? "gpu copies" : "gpu communication", .name = what};
    return begin_pair(times, stream, queue, span, (int64_t)bytes);
}

ls_cuda_pair *ls_cuda_times_wait(ls_cuda_times *times, CUstream stream, int queue, int other) {
    ls_span span = {.category = "gpu waiting", .name = "wait", .of = other < 0 ? "worker" : queue_names[other]};
    return begin_pair(times, stream, queue, span, 0);
}

void ls_cuda_times_end(ls_cuda_times *times, ls_cuda_pair *pair, CUstream stream) {
    if (pair) pair->is_over = times->driver->cuEventRecord(pair->end, stream) == CUDA_SUCCESS;
}

CUevent ls_cuda_times_anchor(ls_cuda_times *times) {
    return make_event(times, &times->anchors[1]) ? times->anchors[1] : NULL;
}

/* Converts the GPU's time of a recorded event to nanoseconds of the host's clock, by the current anchor. Returns
 * false if the driver cannot tell. */
static bool time_of(const ls_cuda_times *times, CUevent event, double *ns) {
    float ms = 0;
    if (times->driver->cuEventElapsedTime(&ms, times->anchors[0], event) != CUDA_SUCCESS) return false;
    *ns = times->anchor_ns + (double)ms * 1e6;
    return *ns > 0;
}

/* Adds the span of a finished pair to its lane. Counts it as lost if its end was not recorded, or if the driver does
 * not return one of its two times. */
static void read_pair(ls_cuda_times *times, const ls_cuda_pair *pair) {
    double begin_ns = 0, end_ns = 0;
    ls_span span = pair->span;
    if (!pair->is_over || !time_of(times, pair->begin, &begin_ns) || !time_of(times, pair->end, &end_ns)) {
        ls_events_lose(times->lanes[pair->queue], 1);
        return;
    }
    span.start_ns = (uint64_t)begin_ns;
    ls_events_add(times->lanes[pair->queue], span, end_ns > begin_ns ? (uint64_t)(end_ns - begin_ns) : 0, pair->n);
}

bool ls_cuda_times_read_one(ls_cuda_times *times) {
    const ls_cuda_pair *pair = &times->pair[times->first % PAIRS];
    if (times->first == times->next ||
        (pair->is_over && times->driver->cuEventQuery(pair->end) == CUDA_ERROR_NOT_READY))
        return false;
    read_pair(times, pair);
    times->first++;
    return true;
}

void ls_cuda_times_read(ls_cuda_times *times, uint64_t anchor_ns) {
    while (ls_cuda_times_read_one(times)) {
    }
    if (!anchor_ns) return;
    CUevent next = times->anchors[1];
    times->anchors[1] = times->anchors[0];
    times->anchors[0] = next;
    times->anchor_ns = (double)anchor_ns;
}

ls_cuda_times *ls_cuda_times_open(const ls_cuda_driver *driver) {
    ls_cuda_times *times = calloc(1, sizeof *times);
    if (times) times->driver = driver;
    return times;
}

void ls_cuda_times_close(ls_cuda_times *times) {
    if (!times) return;
    for (int i = 0; i < 2; i++)
        if (times->anchors[i]) (void)times->driver->cuEventDestroy(times->anchors[i]);
    for (int i = 0; i < PAIRS; i++) {
        if (times->pair[i].begin) (void)times->driver->cuEventDestroy(times->pair[i].begin);
        if (times->pair[i].end) (void)times->driver->cuEventDestroy(times->pair[i].end);
    }
    free(times);
}
