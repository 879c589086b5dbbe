/* sum.c: sums and maxima of several tensors, element by element; split by elements.
 *
 * A tree is added up by ls_tree_sum_run(), which wants a program and sources; both live in scratch, so that a sum
 * allocates nothing. It uses the adding kernels of this CPU, which have the bits of all others. */
#include "device/cpu/ops/staging.h"
#include "device/cpu/tree_sum.h"

/* Computes elements begin … end−1 of y = a + b. */
static void add_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_add_call *c = args;
    ls_cpu_buffer buffer;
    for (size_t i = begin, n; i < end; i += n) {
        n = ls_cpu_piece(c->b_dtype, end - i);
        kernels->act.residual(c->y + i, c->a + i, ls_cpu_widen(kernels, buffer.at, c->b, c->b_dtype, i, n), n);
    }
}

/* Computes y = a + b, where b may have 16 bits. */
ls_status ls_cpu_op_add(ls_device *device, const ls_add_call *call) {
    LS_TRY(ls_check_float("a sum", call->b_dtype));
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, add_range, call);
}

typedef struct tree_job {
    ls_tree_program program;
    ls_tree_source *sources; /* [thread][leaves] */
    const ls_tree_sum_call *call;
} tree_job;

/* Writes the program of the whole tree. Complete subtrees join like the carries of a binary counter, and the remaining
 * ones from the right: that is the tree that splits at the largest power of two below its count. */
static void write_program(ls_tree_program *program, int *steps, int leaves) {
    int length = 0, depth = 0;
    program->depth = 0;
    for (int leaf = 0; leaf < leaves; leaf++) {
        steps[length++] = leaf;
        if (++depth > program->depth) program->depth = depth;
        for (int done = leaf + 1; done % 2 == 0; done /= 2, depth--) steps[length++] = LS_TREE_ADD;
    }
    for (; depth > 1; depth--) steps[length++] = LS_TREE_ADD;
    program->steps = steps;
    program->length = length;
}

/* Task: sums a grain of elements by the program. */
static void tree_task(void *ctx, size_t task, int thread) {
    const tree_job *job = ctx;
    const ls_tree_sum_call *c = job->call;
    size_t begin = task * LS_CPU_GRAIN, left = c->elems - begin, offset_bytes = begin * ls_dtype_bytes(c->dtype);
    ls_tree_source *sources = job->sources + thread * c->leaves;
    for (int i = 0; i < c->leaves; i++)
        sources[i] = (ls_tree_source){(const char *)c->contributions[i] + offset_bytes, c->dtype};
    void *outs[1] = {c->out + begin};
    ls_tree_sum_run(&job->program, sources, false, outs, 1, false, left < LS_CPU_GRAIN ? left : LS_CPU_GRAIN);
}

/* Computes out = the sum of the contributions in the order of the tree. */
ls_status ls_cpu_op_tree_sum(ls_device *device, const ls_tree_sum_call *call) {
    int leaves = call->leaves;
    LS_TRY(ls_check_leaves(leaves));
    LS_TRY(ls_check_float("a sum", call->dtype));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t sources = (size_t)leaves * (size_t)ls_pool_threads(cpu->pool), steps = 2 * (size_t)leaves - 1;
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, sources * sizeof(ls_tree_source) + steps * sizeof(int), &scratch));
    tree_job job = {.sources = scratch, .call = call};
    write_program(&job.program, (int *)(void *)(job.sources + sources), leaves);
    ls_pool_run(cpu->pool, call->elems / LS_CPU_GRAIN + (call->elems % LS_CPU_GRAIN != 0), tree_task, &job);
    return LS_OK;
}

/* Replaces the first row of each piece by the sum of its rows in the order of the tree. */
ls_status ls_cpu_op_tree_rows(ls_device *device, const ls_tree_rows_call *call) {
    const void *rows[LS_GROUPS_MAX];
    LS_TRY(ls_check_leaves(call->leaves));
    for (int i = 0; i < call->count; i++) {
        const ls_tree_rows_piece *piece = &call->pieces[i];
        for (int k = 0; k < call->leaves; k++) rows[k] = piece->rows + (size_t)k * piece->n;
        LS_TRY(ls_cpu_op_tree_sum(device, &(ls_tree_sum_call){piece->rows, rows, LS_F32, call->leaves, piece->n}));
    }
    return LS_OK;
}

/* Computes the maxima of elements begin … end−1. */
static void max_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_max_call *c = args;
    float values[LS_WORKERS_MAX];
    for (size_t i = begin; i < end; i++) {
        for (int j = 0; j < c->count; j++) values[j] = c->inputs[j][i];
        c->out[i] = kernels->loss.slice_max(values, (size_t)c->count);
    }
}

/* Computes out = the maximum of all inputs, element by element; a NaN wins. */
ls_status ls_cpu_op_max(ls_device *device, const ls_max_call *call) {
    if (call->count < 1 || call->count > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "a maximum over %d tensors; the number of tensors must be between 1 and %d",
                       call->count, LS_WORKERS_MAX);
    return ls_cpu_run(device, call->elems, ls_cpu_row_grain((size_t)call->count), max_range, call);
}
