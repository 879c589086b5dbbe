/* batch_norm.c: batch norm. Sums are made image by image, each by one thread in a piece of the channels, and added
 * up in the order of the images afterwards; what is written for each number splits by images too.
 *
 *     scratch:  | chains [image][channel], one or two of them | s and t [group][channel] | */
#include <math.h>
#include <string.h>

#include "device/cpu/cpu.h"

enum { PIECE_COLUMNS = 64 };

typedef struct norm_job {
    const ls_kernels *kernels;
    const ls_batch_norm_call *c;
    void (*task)(const struct norm_job *job, size_t image, size_t begin, size_t end);
    size_t pieces;
    float *chains[2];   /* [image][channel] */
    const float *s, *t; /* as the statistics */
} norm_job;

static ls_status check(const ls_batch_norm_call *c) {
    if (c->ghost < 1 || c->pixels < 1 || c->channels < 1 || c->images % c->ghost != 0)
        return ls_fail(LS_ERR_INPUT,
                       "batch norm over %zu images of %zu pixels and %zu channels in ghost batches of %zu; all must be "
                       "at least 1, and the images a whole number of ghost batches",
                       c->images, c->pixels, c->channels, c->ghost);
    if (c->count < 0 || c->count > 1e15)
        return ls_fail(LS_ERR_INPUT, "batch norm over %g values per channel; the maximum is 1e15", c->count);
    return LS_OK;
}

static float count_of(const ls_batch_norm_call *c) {
    return (float)(c->count > 0 ? c->count : (double)(c->pixels * c->ghost));
}

static size_t image_elems(const ls_batch_norm_call *c) { return c->pixels * c->channels; }
static size_t stats_elems(const ls_batch_norm_call *c) { return (c->shared ? 1 : c->images / c->ghost) * c->channels; }

/* Where the statistics of an image are. */
static size_t stats_at(const ls_batch_norm_call *c, size_t image) {
    return c->shared ? 0 : image / c->ghost * c->channels;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void run_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const norm_job *job = ctx;
    size_t C = job->c->channels, piece = task % job->pieces;
    size_t width = (C + job->pieces - 1) / job->pieces, begin = piece * width;
    if (begin >= C) return;
    job->task(job, task / job->pieces, begin, begin + width < C ? begin + width : C);
}

/* Pieces of channels only where there are fewer images than threads could use. */
static void run_images(ls_cpu_device *cpu, norm_job *job, bool by_columns) {
    const ls_batch_norm_call *c = job->c;
    size_t threads = (size_t)ls_pool_threads(cpu->pool), most = (c->channels + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
    job->pieces = 1;
    while (by_columns && threads > 1 && c->images * job->pieces < 4 * threads && 2 * job->pieces <= most)
        job->pieces *= 2;
    ls_pool_run(cpu->pool, c->images * job->pieces, run_task, job);
}

/* out[group] = the chains of its images, added in their order. */
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

static void sums_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    const ls_batch_norm_call *c = job->c;
    float *to = job->chains[0] + image * c->channels;
    memset(to + begin, 0, (end - begin) * sizeof *to);
    job->kernels->act.bias_grad(to, c->x + image * image_elems(c), c->channels, c->pixels, begin, end);
}

static void squares_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    const ls_batch_norm_call *c = job->c;
    float *to = job->chains[0] + image * c->channels;
    memset(to + begin, 0, (end - begin) * sizeof *to);
    job->kernels->batch_norm.squares(to, c->x + image * image_elems(c), c->mean + stats_at(c, image), c->pixels,
                                     c->channels, begin, end);
}

static ls_status run_sums(ls_cpu_device *cpu, const ls_batch_norm_call *c, float *out,
                          void (*task)(const norm_job *job, size_t image, size_t begin, size_t end)) {
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, c->images * c->channels * sizeof(float), &scratch));
    norm_job job = {.kernels = cpu->kernels, .c = c, .task = task, .chains = {scratch}};
    run_images(cpu, &job, true);
    join_images(&job, out, scratch);
    return LS_OK;
}

static ls_status batch_norm_sums(ls_device *device, const ls_batch_norm_call *c, float *sums) {
    LS_TRY(check(c));
    return run_sums(ls_cpu_enter(device), c, sums, sums_task);
}

static ls_status batch_norm_squares(ls_device *device, const ls_batch_norm_call *c, float *sums) {
    LS_TRY(check(c));
    return run_sums(ls_cpu_enter(device), c, sums, squares_task);
}

/* ---- statistics: few numbers ------------------------------------------------------------------------------------- */

static void divide(float *to, const float *from, float count, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = from[i] / count;
}

static ls_status batch_norm_mean(ls_device *device, const ls_batch_norm_call *c, const float *sums) {
    LS_TRY(check(c));
    (void)ls_cpu_enter(device);
    divide(c->mean, sums, count_of(c), stats_elems(c));
    return LS_OK;
}

static ls_status batch_norm_rstd(ls_device *device, const ls_batch_norm_call *c, const float *sums) {
    LS_TRY(check(c));
    (void)ls_cpu_enter(device);
    float count = count_of(c);
    for (size_t i = 0; i < stats_elems(c); i++) {
        float var = sums[i] / count;
        if (c->var) c->var[i] = var;
        c->rstd[i] = 1.0f / sqrtf(var + c->eps);
    }
    return LS_OK;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void apply_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    (void)begin;
    (void)end;
    const ls_batch_norm_call *c = job->c;
    size_t at = image * image_elems(c), stats = stats_at(c, image);
    job->kernels->batch_norm.apply(c->y + at, c->x + at, c->residual ? c->residual + at : NULL, c->mean + stats,
                                   c->rstd + stats, c->w, c->b, c->relu, c->pixels, c->channels);
}

static ls_status batch_norm_apply(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(check(c));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    run_images(cpu, &(norm_job){.kernels = cpu->kernels, .c = c, .task = apply_task}, false);
    return LS_OK;
}

/* rstd holds the sums on their way to the statistics. */
static ls_status batch_norm_forward(ls_device *device, const ls_batch_norm_call *c) {
    if (c->shared || c->count > 0)
        return ls_fail(LS_ERR_INPUT, "batch norm with external statistics does not compute its own; call sums, mean, "
                                     "squares and rstd, and join between them");
    LS_TRY(batch_norm_sums(device, c, c->rstd));
    LS_TRY(batch_norm_mean(device, c, c->rstd));
    LS_TRY(batch_norm_squares(device, c, c->rstd));
    LS_TRY(batch_norm_rstd(device, c, c->rstd));
    return batch_norm_apply(device, c);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void grad_sums_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    const ls_batch_norm_call *c = job->c;
    size_t C = c->channels, at = image * image_elems(c), stats = stats_at(c, image),
           bytes = (end - begin) * sizeof(float);
    float *sum = job->chains[0] + image * C, *dot = job->chains[1] + image * C;
    memset(sum + begin, 0, bytes);
    memset(dot + begin, 0, bytes);
    job->kernels->batch_norm.grad_sums(sum, dot, c->dy + at, c->relu ? c->y + at : NULL, c->x + at, c->mean + stats,
                                       c->rstd + stats, c->pixels, C, begin, end);
}

static ls_status batch_norm_grad_sums(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(check(c));
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

static void input_grad_task(const norm_job *job, size_t image, size_t begin, size_t end) {
    (void)begin;
    (void)end;
    const ls_batch_norm_call *c = job->c;
    size_t at = image * image_elems(c), stats = stats_at(c, image);
    job->kernels->batch_norm.input_grad(c->dx + at, c->dresidual ? c->dresidual + at : NULL, c->dy + at,
                                        c->relu ? c->y + at : NULL, c->x + at, c->mean + stats, c->rstd + stats, c->w,
                                        job->s + stats, job->t + stats, c->pixels, c->channels);
}

static ls_status batch_norm_input_grad(ls_device *device, const ls_batch_norm_call *c) {
    LS_TRY(check(c));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t elems = stats_elems(c);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, 2 * elems * sizeof(float), &scratch));
    float *s = scratch, *t = s + elems;
    divide(s, c->sum, count_of(c), elems);
    divide(t, c->dot, count_of(c), elems);
    run_images(cpu, &(norm_job){.kernels = cpu->kernels, .c = c, .task = input_grad_task, .s = s, .t = t}, false);
    return LS_OK;
}

void ls_cpu_ops_fill_batch_norm(ls_ops *ops) {
    ops->batch_norm_forward = batch_norm_forward;
    ops->batch_norm_sums = batch_norm_sums;
    ops->batch_norm_mean = batch_norm_mean;
    ops->batch_norm_squares = batch_norm_squares;
    ops->batch_norm_rstd = batch_norm_rstd;
    ops->batch_norm_apply = batch_norm_apply;
    ops->batch_norm_grad_sums = batch_norm_grad_sums;
    ops->batch_norm_input_grad = batch_norm_input_grad;
}
