/* norm.c: layer norm and RMS norm. Values and their gradients split by rows; gradients of parameters are sums over
 * tokens.
 *
 * A row is needed whole. Where y or dy has 16 bits, or the gradient is added to dx, some rows at a time go through the
 * scratch of the thread. */
#include "device/cpu/ops/staging.h"
#include "device/cpu/ops/token_sums.h"

typedef struct norm_job {
    const ls_kernels *kernels;
    const ls_norm_call *call;
    bool backward;
    size_t grain, together; /* rows of a task, rows that go through scratch at a time */
    float *scratch;         /* [thread][together · C] */
} norm_job;

/* Rows begin … end−1, all in fp32. */
static void forward_rows(const ls_kernels *kernels, const ls_norm_call *c, size_t begin, size_t end) {
    const float *x = c->x + begin * c->x_stride;
    float *y = (float *)c->y + begin * c->y_stride;
    if (c->rms)
        kernels->norm.rms_forward(y, c->y_stride, c->rstd + begin, x, c->x_stride, c->w, c->eps, end - begin, c->C);
    else
        kernels->norm.layer_forward(y, c->y_stride, c->mean + begin, c->rstd + begin, x, c->x_stride, c->w, c->b,
                                    c->eps, end - begin, c->C);
}

/* The same; dx is written. */
static void backward_rows(const ls_kernels *kernels, const ls_norm_call *c, size_t begin, size_t end) {
    const float *x = c->x + begin * c->x_stride, *dy = (const float *)c->dy + begin * c->dy_stride;
    float *dx = c->dx + begin * c->dx_stride;
    if (c->rms)
        kernels->norm.rms_backward(dx, c->dx_stride, dy, c->dy_stride, x, c->x_stride, c->w, c->rstd + begin,
                                   end - begin, c->C);
    else
        kernels->norm.layer_backward(dx, c->dx_stride, dy, c->dy_stride, x, c->x_stride, c->w, c->mean + begin,
                                     c->rstd + begin, end - begin, c->C);
}

/* ---- rows through scratch ---------------------------------------------------------------------------------------- */

static void forward_part(const norm_job *job, float *buffer, size_t row, size_t rows) {
    const ls_norm_call *c = job->call;
    ls_norm_call part = *c;
    part.x += row * c->x_stride;
    part.mean = c->mean ? c->mean + row : NULL;
    part.rstd += row;
    part.y = buffer;
    part.y_stride = c->C;
    forward_rows(job->kernels, &part, 0, rows);
    for (size_t r = 0; r < rows; r++)
        ls_cpu_narrow(job->kernels, c->y, c->act, (row + r) * c->y_stride, buffer + r * c->C, c->C);
}

/* The kernel may write dx over the dy that it reads, so one buffer does for both. */
static void backward_part(const norm_job *job, float *buffer, size_t row, size_t rows) {
    const ls_norm_call *c = job->call;
    float *dx = c->dx + row * c->dx_stride;
    ls_norm_call part = *c;
    part.x += row * c->x_stride;
    part.mean = c->mean ? c->mean + row : NULL;
    part.rstd += row;
    part.dy = ls_cpu_widen(job->kernels, buffer, c->dy, c->act, row * c->dy_stride, c->C);
    for (size_t r = 1; r < rows && c->act != LS_F32; r++)
        ls_cpu_widen(job->kernels, buffer + r * c->C, c->dy, c->act, (row + r) * c->dy_stride, c->C);
    part.dy_stride = c->act == LS_F32 ? c->dy_stride : c->C;
    part.dx = c->add ? buffer : dx;
    part.dx_stride = c->add ? c->C : c->dx_stride;
    backward_rows(job->kernels, &part, 0, rows);
    for (size_t r = 0; r < rows && c->add; r++)
        job->kernels->add.add_f32(dx + r * c->dx_stride, dx + r * c->dx_stride, buffer + r * c->C, c->C);
}

static void staged_task(void *ctx, size_t task, int thread) {
    const norm_job *job = ctx;
    float *buffer = job->scratch + (size_t)thread * job->together * job->call->C;
    size_t begin = task * job->grain, left = job->call->rows - begin, end = begin + job->grain;
    if (left < job->grain) end = begin + left;
    for (size_t row = begin; row < end; row += job->together) {
        size_t rows = end - row < job->together ? end - row : job->together;
        if (job->backward)
            backward_part(job, buffer, row, rows);
        else
            forward_part(job, buffer, row, rows);
    }
}

static ls_status run_staged(ls_cpu_device *cpu, norm_job *job) {
    enum { BUFFER_ELEMS = 6144, ROWS_MULTIPLE = 4 };
    size_t C = job->call->C, rows = job->call->rows, together = C ? BUFFER_ELEMS / C : 0;
    /* Kernels take up to four rows together. */
    if (together > ROWS_MULTIPLE) together -= together % ROWS_MULTIPLE;
    if (together == 0) together = 1;
    job->together = together;
    job->grain = ls_cpu_row_grain(C);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, (size_t)ls_pool_threads(cpu->pool) * together * C * sizeof(float), &scratch));
    job->scratch = scratch;
    ls_pool_run(cpu->pool, rows / job->grain + (rows % job->grain != 0), staged_task, job);
    return LS_OK;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void plain_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const norm_job *job = args;
    (job->backward ? backward_rows : forward_rows)(kernels, job->call, begin, end);
}

static ls_status run_rows(ls_device *device, const ls_norm_call *call, bool backward) {
    LS_TRY(ls_cpu_check_dtype("a norm", call->act));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    norm_job job = {.kernels = cpu->kernels, .call = call, .backward = backward};
    if (call->act != LS_F32 || (backward && call->add)) return run_staged(cpu, &job);
    ls_cpu_run(cpu, call->rows, ls_cpu_row_grain(call->C), plain_rows, &job);
    return LS_OK;
}

static ls_status norm_forward(ls_device *device, const ls_norm_call *call) { return run_rows(device, call, false); }

static ls_status norm_backward(ls_device *device, const ls_norm_call *call) { return run_rows(device, call, true); }

static void chain(const ls_kernels *kernels, const void *args, float *const to[2], const ls_cpu_tile *t) {
    const ls_norm_call *c = args;
    const float *x = c->x + t->row * c->x_stride + t->column, *rstd = c->rstd + t->row;
    if (c->rms)
        kernels->norm.rms_params(to[0], t->dy, t->dy_stride, x, c->x_stride, rstd, t->rows, 0, t->columns);
    else
        kernels->norm.layer_params(to[0], to[1], t->dy, t->dy_stride, x, c->x_stride, c->mean + t->row, rstd, t->rows,
                                   0, t->columns);
}

static ls_status norm_params(ls_device *device, const ls_norm_call *call, const ls_token_groups *groups) {
    LS_TRY(ls_cpu_check_dtype("a norm", call->act));
    LS_TRY(ls_cpu_check_group_rows(groups, call->rows));
    return ls_cpu_run_chains(ls_cpu_enter(device), &(ls_cpu_chains){.groups = groups,
                                                                    .columns = call->C,
                                                                    .dy = call->dy,
                                                                    .act = call->act,
                                                                    .dy_stride = call->dy_stride,
                                                                    .sums = call->rms ? 1 : 2,
                                                                    .out = {call->dw, call->db},
                                                                    .chain = chain,
                                                                    .args = call});
}

void ls_cpu_ops_fill_norm(ls_ops *ops) {
    ops->norm_forward = norm_forward;
    ops->norm_backward = norm_backward;
    ops->norm_params = norm_params;
}
