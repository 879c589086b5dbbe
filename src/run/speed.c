/* speed.c: repeats one matmul of the MLP for a fifth of a second on all workers at once; the fastest quarter shows what
 * the processor can do. A mean would include time that other programs took. A worker that stays slow gets fewer groups
 * later (run/shares.h). */
#include "run/speed.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/stats.h"
#include "device/ops.h"
#include "run/agree.h"

static const double measured_s = 0.2;
/* A matmul of this size takes some milliseconds at most, and its operands little memory. */
enum { ROWS = 256, SIDE_MAX = 1024 };
/* Times that are kept, the newest, and how many there must be, even where this process hardly ran in its fifth of a
 * second. */
enum { KEPT = 1024, AT_LEAST = 15 };

static size_t at_most(size_t n, size_t most) { return n < most ? n : most; }

/* Runs the matmul once and waits for the device; *seconds is its time. */
static ls_status time_matmul(ls_device *device, const ls_gemm *matmul, double *seconds) {
    double start = ls_clock_seconds(), begin = ls_fault_slow_begin();
    LS_TRY(device->ops->gemm(device, matmul));
    LS_TRY(ls_device_finish(device));
    ls_fault_slow_end(begin);
    *seconds = ls_clock_seconds() - start;
    return LS_OK;
}

/* Repeats the matmul for measured_s seconds; *speed is matmuls per second of the fastest quarter. */
static ls_status time_matmuls(ls_device *device, const ls_gemm *matmul, double *speed) {
    double taken[KEPT], begin;
    size_t count = 0;
    LS_TRY(time_matmul(device, matmul, &taken[0])); /* scratch, caches, clock frequency */
    for (begin = ls_clock_seconds(); count < AT_LEAST || ls_clock_seconds() - begin < measured_s; count++)
        LS_TRY(time_matmul(device, matmul, &taken[count % KEPT]));
    *speed = 1 / ls_lower_quartile(taken, at_most(count, KEPT));
    return LS_OK;
}

/* Sets *speed to matmuls per second of this worker, in fp32. Operands keep the values of fresh memory: zeros are as
 * much work as other numbers. */
static ls_status measure_device_speed(ls_device *device, const ls_shape *shape, double *speed) {
    size_t k = at_most(shape->C, SIDE_MAX), n = at_most(shape->hidden, SIDE_MAX);
    void *memory = NULL;
    LS_TRY(ls_device_alloc(device, (ROWS * k + k * n + ROWS * n) * sizeof(float), &memory));
    float *a = memory, *b = a + ROWS * k, *c = b + k * n;
    ls_gemm matmul = {.form = LS_GEMM_NN,
                      .dtype = LS_F32,
                      .m = ROWS,
                      .n = n,
                      .k = k,
                      .a = a,
                      .lda = k,
                      .b = b,
                      .ldb = n,
                      .c = c,
                      .ldc = n};
    ls_status status = time_matmuls(device, &matmul, speed);
    ls_device_free(device, memory);
    return status;
}

ls_status ls_speed_of_rows(ls_world *world, ls_device *device, const ls_shape *shape, const ls_layout *layout,
                           double speeds[LS_WORKERS_MAX]) {
    double mine = 0, all[LS_WORKERS_MAX] = {0};
    size_t bytes[LS_WORKERS_MAX];
    int workers = ls_layout_workers(layout);
    for (int r = 0; r < workers; r++) bytes[r] = sizeof mine;
    LS_TRY(ls_comm_barrier(ls_world_comm(world)));
    LS_TRY(ls_agree(world, measure_device_speed(device, shape, &mine)));
    LS_TRY(ls_comm_all_gather(ls_world_comm(world), &mine, all, bytes));
    for (int d = 0; d < layout->dp; d++) speeds[d] = 0;
    for (int r = 0; r < workers; r++) {
        int d = ls_layout_place(layout, r).dp;
        if (speeds[d] == 0 || all[r] < speeds[d]) speeds[d] = all[r];
    }
    return LS_OK;
}
