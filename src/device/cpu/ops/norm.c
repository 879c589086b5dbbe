/* norm.c: layer norm and RMS norm. Threads split forward and backward by rows; gradients of parameters are sums over
 * tokens.
 *
 * A kernel needs whole rows. If y or dy has 16 bits, or the gradient is added to dx, some rows at a time go through the
 * scratch of the thread. */
#include "device/cpu/ops/staging.h"
#include "device/cpu/ops/token_sums.h"

/* Forward or backward over all rows; `part` computes some rows. */
typedef struct norm_job {
    const ls_kernels *kernels;
    const ls_norm_call *call;
    void (*part)(const struct norm_job *job, float *buffer, size_t row, size_t rows);
    size_t grain, together; /* rows of a task, rows of a part */
    float *scratch;         /* [thread][together · C]; NULL: not needed */
} norm_job;

/* Returns the call for rows row … row+rows−1. */
static ls_norm_call rows_of(const ls_norm_call *c, size_t row, size_t rows) {
    ls_norm_call part = *c;
    part.rows = rows;
    ls_norm_call_skip_rows(&part, row);
    return part;
}

/* Runs forward of some rows; `buffer` takes y before it is rounded to 16 bits. */
static void forward_part(const norm_job *job, float *buffer, size_t row, size_t rows) {
    const ls_norm_call *c = job->call;
    ls_norm_call part = rows_of(c, row, rows);
    if (c->act != LS_F32) {
        part.y = buffer;
        part.y_stride = c->C;
    }
    job->kernels->norm.forward(&part);
    for (size_t r = 0; r < rows && c->act != LS_F32; r++)
        ls_cpu_narrow(job->kernels, c->y, c->act, (row + r) * c->y_stride, buffer + r * c->C, c->C);
}

/* Runs backward of some rows. One buffer serves dy and dx, because the kernel may write dx over dy. */
static void backward_part(const norm_job *job, float *buffer, size_t row, size_t rows) {
    const ls_norm_call *c = job->call;
    ls_norm_call part = rows_of(c, row, rows);
    float *dx = part.dx;
    for (size_t r = 0; r < rows && c->act != LS_F32; r++)
        ls_cpu_widen(job->kernels, buffer + r * c->C, c->dy, c->act, (row + r) * c->dy_stride, c->C);
    if (c->act != LS_F32) {
        part.dy = buffer;
        part.dy_stride = c->C;
    }
    if (c->add) {
        part.dx = buffer;
        part.dx_stride = c->C;
    }
    job->kernels->norm.backward(&part);
    for (size_t r = 0; r < rows && c->add; r++)
        job->kernels->add.add_f32(dx + r * c->dx_stride, dx + r * c->dx_stride, buffer + r * c->C, c->C);
}

/* Task: runs job->part on its rows, job->together of them at a time. */
static void rows_task(void *ctx, size_t task, int thread) {
    const norm_job *job = ctx;
    float *buffer = job->scratch ? job->scratch + (size_t)thread * job->together * job->call->C : NULL;
    size_t begin = task * job->grain, left = job->call->rows - begin, end = begin + job->grain;
    if (left < job->grain) end = begin + left;
    for (size_t row = begin; row < end; row += job->together)
        job->part(job, buffer, row, end - row < job->together ? end - row : job->together);
}

/* Sets how many rows go through the buffer of a thread together, and allocates the buffers. */
static ls_status open_scratch(ls_cpu_device *cpu, norm_job *job) {
    enum { BUFFER_ELEMS = 6144, ROWS_MULTIPLE = 4 };
    size_t C = job->call->C, together = C ? BUFFER_ELEMS / C : 0;
    /* Kernels take up to four rows together. */
    if (together > ROWS_MULTIPLE) together -= together % ROWS_MULTIPLE;
    job->together = together ? together : 1;
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, (size_t)ls_pool_threads(cpu->pool) * job->together * C * sizeof(float), &scratch));
    job->scratch = scratch;
    return LS_OK;
}

/* Runs forward or backward over all rows on all threads. */
static ls_status run_rows(ls_device *device, const ls_norm_call *call, bool backward) {
    LS_TRY(ls_check_float("a norm", call->act));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t grain = ls_cpu_row_grain(call->C);
    norm_job job = {cpu->kernels, call, backward ? backward_part : forward_part, grain, grain, NULL};
    if (call->act != LS_F32 || (backward && call->add)) LS_TRY(open_scratch(cpu, &job));
    ls_pool_run(cpu->pool, call->rows / grain + (call->rows % grain != 0), rows_task, &job);
    return LS_OK;
}

/* Computes call->sum = x + dropout(branch), and makes it the x of the call. */
static ls_status add_branch(ls_device *device, ls_norm_call *call) {
    size_t C = call->C;
    const float *x = call->x;
    ls_dropout_call dropped = {call->rows, C,      call->drop, call->branch, call->act, C, x, call->x_stride,
                               call->sum,  LS_F32, C};
    call->x = call->sum;
    call->x_stride = C;
    if (call->drop.scale != 0) return device->ops->dropout_add(device, &dropped);
    return device->ops->add(device, &(ls_add_call){call->sum, x, call->branch, call->act, call->rows * C});
}

/* Writes dx_copy: dx rounded to 16 bits, after the dropout of the branch. */
static ls_status copy_dx(ls_device *device, const ls_norm_call *c) {
    ls_dropout_call dropped = {c->rows, c->C, c->drop, c->dx, LS_F32, c->dx_stride, NULL, 0, c->dx_copy, c->act, c->C};
    if (c->drop.scale != 0) return device->ops->dropout_add(device, &dropped);
    return device->ops->convert(device, &(ls_convert_call){c->dx_copy, c->act, c->dx, LS_F32, c->rows * c->C});
}

/* Computes y, rstd and mean (layer norm), and sum if there is a branch. */
ls_status ls_cpu_op_norm_forward(ls_device *device, const ls_norm_call *call) {
    ls_norm_call own = *call;
    if (call->branch) LS_TRY(add_branch(device, &own));
    return run_rows(device, &own, false);
}

/* Continues dw and db over the rows of a tile: a callback of ls_cpu_run_chains(). */
static void chain(const ls_kernels *kernels, const void *args, float *const to[2], const ls_cpu_tile *t) {
    ls_norm_call part = rows_of(args, t->row, t->rows);
    part.C = t->columns;
    part.x += t->column;
    part.dy = t->dy;
    part.dy_stride = t->dy_stride;
    part.dw = to[0];
    part.db = to[1];
    kernels->norm.params(&part);
}

LS_ASSERT_ARGS(ls_norm_call, 28);
/* Computes dw and db: sums over tokens, by slices and groups. */
ls_status ls_cpu_op_norm_params(ls_device *device, const ls_norm_call *call) {
    LS_TRY(ls_check_float("a norm", call->act));
    LS_TRY(ls_token_groups_check_rows(call->groups, call->rows));
    return ls_cpu_run_chains(ls_cpu_enter(device), &(ls_cpu_chains){.groups = call->groups,
                                                                    .columns = call->C,
                                                                    .dy = call->dy,
                                                                    .act = call->act,
                                                                    .dy_stride = call->dy_stride,
                                                                    .sums = call->rms ? 1 : 2,
                                                                    .out = {call->dw, call->db},
                                                                    .chain = chain,
                                                                    .args = call});
}

/* Computes dx, and what the flags of the call ask for besides: y again, dx_copy, dw and db, dx_sums. */
ls_status ls_cpu_op_norm_backward(ls_device *device, const ls_norm_call *call) {
    ls_norm_call own = *call;
    if (call->branch) LS_TRY(add_branch(device, &own));
    if (call->remake) LS_TRY(run_rows(device, &own, false));
    LS_TRY(run_rows(device, &own, true));
    if (call->dx_copy) LS_TRY(copy_dx(device, call));
    if (!call->params) return LS_OK;
    LS_TRY(ls_cpu_op_norm_params(device, &own));
    if (!call->dx_sums) return LS_OK;
    return device->ops->bias_grad(
        device, &(ls_bias_grad_call){call->dx_sums, call->dx_copy, call->act, call->C, call->C, call->groups});
}
