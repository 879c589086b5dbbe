/* batch_norm.c: batch norm. Sums are made image by image, each by one thread in a piece of the channels, and added
 * up in the order of the images afterwards; what is written for each number splits by images too.
 *
 *     scratch:  | chains [image][channel], one or two of them |      input_grad: sum and dot by their count | */
#include <math.h>
#include <string.h>

#include "device/cpu/cpu.h"

enum { PIECE_COLUMNS = 64 };

/* One operation over all images; `task` computes channels begin … end−1 of one image. */
typedef struct norm_job {
    const ls_kernels *kernels;
    const ls_batch_norm_call *c;
    void (*task)(const struct norm_job *job, size_t image, size_t begin, size_t end);
    size_t pieces;    /* into which the channels of an image are cut */
    float *chains[2]; /* [image][channel] */
} norm_job;

/* Returns by what sums of a channel are divided to get its mean: the call's count, or the numbers of a ghost group. */
static float count_of(const ls_batch_norm_call *c) {
    return (float)(c->count > 0 ? c->count : (double)(c->pixels * c->ghost));
}

/* Returns the number of statistics: one row of channels for each ghost group, or one if they are shared. */
static size_t stats_elems(const ls_batch_norm_call *c) { return (c->shared ? 1 : c->images / c->ghost) * c->channels; }

/* Returns the call for one image, as kernels take it: its tensors, and the row of statistics of its ghost group. */
static ls_batch_norm_call image_of(const ls_batch_norm_call *c, size_t image) {
    size_t stats = c->shared ? 0 : image / c->ghost * c->channels;
    ls_batch_norm_call part = *c;
    ls_batch_norm_call_skip_rows(&part, image);
    part.mean += stats;
    part.rstd += stats;
    if (c->sum) part.sum += stats;
    if (c->dot) part.dot += stats;
    return part;
}

/* Task: finds its image and its piece of the channels, and runs job->task on them. */
static void run_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const norm_job *job = ctx;
    size_t C = job->c->channels, piece = task % job->pieces;
    size_t width = (C + job->pieces - 1) / job->pieces, begin = piece * width;
    if (begin >= C) return;
    job->task(job, task / job->pieces, begin, begin + width < C ? begin + width : C);
}

/* Runs job->task for each image on all threads. `by_columns`: and for each piece of its channels, if there are too few
 * images for the threads. */
static void run_images(ls_cpu_device *cpu, norm_job *job, bool by_columns) {
    const ls_batch_norm_call *c = job->c;
    size_t threads = (size_t)ls_pool_threads(cpu->pool), most = (c->channels + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
    job->pieces = 1;
    while (by_columns && threads > 1 && c->images * job->pieces < 4 * threads && 2 * job->pieces <= most)
        job->pieces *= 2;
    ls_pool_run(cpu->pool, c->images * job->pieces, run_task, job);
}

/* Adds the chains of the images of each ghost group, in order, to out[group]. */
static void join_images(const norm_job *job, float *out, const float *chains) {
    const ls_batch_norm_call *c = job->c;
    size_t C = c->channels;
    for (size_t image = 0; image < c->images; image++) {
        float *to = out + image / c->ghost * C;
        if (image % c->ghost == 0)
            memcpy(to, chains + image * C, C * sizeof *to);
        else
            job->kernels->add.add_f32(to, to, chains + image * C, C);
    }
}

/* Sets channels begin … end−1 of an image's chain number `which` (0 or 1) to +0; returns the chain from channel 0
 * on. */
static float *open_chain(const norm_job *job, int which, size_t image, size_t begin, size_t end) {
    float *to = job->chains[which] + image * job->c->channels;
    memset(to + begin, 0, (end - begin) * sizeof *to);
    return to;
}

/* Sums x of one image over its pixels. */
static void sums_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    const ls_batch_norm_call *c = job->c;
    job->kernels->act.bias_grad(open_chain(job, 0, image, begin, end), c->x + image * c->pixels * c->channels,
                                c->channels, c->pixels, begin, end);
}

/* Sums (x − mean)² of one image over its pixels. */
static void squares_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    ls_batch_norm_call part = image_of(job->c, image);
    part.sums = open_chain(job, 0, image, begin, end);
    job->kernels->batch_norm.squares(&part, begin, end);
}

/* Runs the task for all images, and writes the sums of each ghost group to c->sums. */
static ls_status run_sums(ls_device *device, const ls_batch_norm_call *c,
                          void (*task)(const norm_job *job, size_t image, size_t begin, size_t end)) {
    LS_TRY(ls_batch_norm_check(c));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, c->images * c->channels * sizeof(float), &scratch));
    norm_job job = {.kernels = cpu->kernels, .c = c, .task = task, .chains = {scratch}};
    run_images(cpu, &job, true);
    join_images(&job, c->sums, scratch);
    return LS_OK;
}

/* Computes sums: of x, for each ghost group and channel. */
ls_status ls_cpu_op_batch_norm_sums(ls_device *device, const ls_batch_norm_call *c) {
    return run_sums(device, c, sums_task);
}

/* Computes sums: of (x − mean)², for each ghost group and channel. */
ls_status ls_cpu_op_batch_norm_squares(ls_device *device, const ls_batch_norm_call *c) {
    return run_sums(device, c, squares_task);
}

/* Divides n floats by `count`: to = from / count. `to` may be `from`. */
static void divide(float *to, const float *from, float count, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = from[i] / count;
}

/* Computes mean = sums / count; on the calling thread alone, as there are few. */
ls_status ls_cpu_op_batch_norm_mean(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    (void)ls_cpu_enter(device);
    divide(c->mean, c->sums, count_of(c), stats_elems(c));
    return LS_OK;
}

/* Computes var = sums / count, unless var is NULL, and rstd = 1 / √(var + eps). */
ls_status ls_cpu_op_batch_norm_rstd(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    (void)ls_cpu_enter(device);
    float count = count_of(c);
    for (size_t i = 0; i < stats_elems(c); i++) {
        float var = c->sums[i] / count;
        if (c->var) c->var[i] = var;
        c->rstd[i] = 1.0f / sqrtf(var + c->eps);
    }
    return LS_OK;
}

/* Normalizes one image. */
static void apply_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    (void)begin;
    (void)end;
    ls_batch_norm_call part = image_of(job->c, image);
    job->kernels->batch_norm.apply(&part);
}

/* Computes y from x, mean and rstd, with residual and ReLU if the call has them. */
ls_status ls_cpu_op_batch_norm_apply(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    run_images(cpu, &(norm_job){.kernels = cpu->kernels, .c = c, .task = apply_task}, false);
    return LS_OK;
}

/* Computes mean, rstd, var and y of each ghost group. LS_ERR_INPUT with statistics that are shared with other workers:
 * the caller then runs the single operations. Uses rstd as scratch for the sums, so c->sums is not written. */
ls_status ls_cpu_op_batch_norm_forward(ls_device *device, const ls_batch_norm_call *call) {
    if (call->shared || call->count > 0)
        return ls_fail(LS_ERR_INPUT, "batch norm with external statistics does not compute its own; call sums, mean, "
                                     "squares and rstd, and join between them");
    ls_batch_norm_call c = *call;
    c.sums = c.rstd;
    LS_TRY(ls_cpu_op_batch_norm_sums(device, &c));
    LS_TRY(ls_cpu_op_batch_norm_mean(device, &c));
    LS_TRY(ls_cpu_op_batch_norm_squares(device, &c));
    LS_TRY(ls_cpu_op_batch_norm_rstd(device, &c));
    return ls_cpu_op_batch_norm_apply(device, &c);
}

/* Sums dy, and dy times the normalised x, of one image over its pixels. */
static void grad_sums_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    ls_batch_norm_call part = image_of(job->c, image);
    part.sum = open_chain(job, 0, image, begin, end);
    part.dot = open_chain(job, 1, image, begin, end);
    job->kernels->batch_norm.grad_sums(&part, begin, end);
}

/* Computes sum and dot of each ghost group and channel. */
ls_status ls_cpu_op_batch_norm_grad_sums(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(ls_batch_norm_check(c));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t elems = c->images * c->channels;
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, 2 * elems * sizeof(float), &scratch));
    float *sum = scratch, *dot = sum + elems;
    norm_job job = {.kernels = cpu->kernels, .c = c, .task = grad_sums_task, .chains = {sum, dot}};
    run_images(cpu, &job, true);
    join_images(&job, c->sum, sum);
    join_images(&job, c->dot, dot);
    return LS_OK;
}

/* Computes dx of one image; the job's sum and dot are already divided by the count. */
static void input_grad_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    (void)begin;
    (void)end;
    ls_batch_norm_call part = image_of(job->c, image);
    job->kernels->batch_norm.input_grad(&part);
}

/* Computes dx and dresidual from dy, x, the statistics, sum and dot. */
ls_status ls_cpu_op_batch_norm_input_grad(ls_device *device, const ls_batch_norm_call *call) {
    LS_TRY(ls_batch_norm_check(call));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    ls_batch_norm_call c = *call;
    size_t elems = stats_elems(call);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, 2 * elems * sizeof(float), &scratch));
    c.sum = scratch;
    c.dot = c.sum + elems;
    divide(c.sum, call->sum, count_of(call), elems);
    divide(c.dot, call->dot, count_of(call), elems);
    run_images(cpu, &(norm_job){.kernels = cpu->kernels, .c = &c, .task = input_grad_task}, false);
    return LS_OK;
}
