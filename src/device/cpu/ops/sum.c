/* sum.c: sums and maxima of several tensors, element by element; split by elements.
 *
 * A tree is added up by ls_tree_sum_run(), which wants a program and sources; both live in scratch, so that a sum
 * allocates nothing. It uses the adding kernels of this CPU, which have the bits of all others. */
#include "device/cpu/ops/staging.h"
#include "device/cpu/tree_sum.h"

typedef struct add_args {
    float *y;
    const float *a;
    const void *b;
    ls_dtype b_dtype;
} add_args;

static void add_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const add_args *a = args;
    ls_cpu_buffer buffer;
    for (size_t i = begin, n; i < end; i += n) {
        n = ls_cpu_piece(a->b_dtype, end - i);
        const float *b = ls_cpu_widen(kernels, buffer.at, a->b, a->b_dtype, i, n);
        kernels->act.residual(a->y + i, a->a + i, b, n);
    }
}

static ls_status add(ls_device *device, float *y, const float *a, const void *b, ls_dtype b_dtype, size_t n) {
    LS_TRY(ls_cpu_check_dtype("a sum", b_dtype));
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, add_range, &(add_args){y, a, b, b_dtype});
    return LS_OK;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

typedef struct tree_job {
    ls_tree_program program;
    ls_tree_source *sources; /* [thread][leaves] */
    const void *const *contributions;
    float *out;
    ls_dtype dtype;
    int leaves;
    size_t elems;
} tree_job;

/* Complete subtrees join as the carries of a counter; at the end the last ones join from the right. That is the tree
 * which splits at the largest power of two below its count. */
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

static void tree_task(void *ctx, size_t task, int thread) {
    const tree_job *job = ctx;
    size_t begin = task * LS_CPU_GRAIN, left = job->elems - begin, offset_bytes = begin * ls_dtype_bytes(job->dtype);
    ls_tree_source *sources = job->sources + thread * job->leaves;
    for (int i = 0; i < job->leaves; i++)
        sources[i] = (ls_tree_source){(const char *)job->contributions[i] + offset_bytes, job->dtype};
    void *outs[1] = {job->out + begin};
    ls_tree_sum_run(&job->program, sources, false, outs, 1, false, left < LS_CPU_GRAIN ? left : LS_CPU_GRAIN);
}

static ls_status tree_sum(ls_device *device, float *out, const void *const *contributions, ls_dtype dtype, int leaves,
                          size_t elems) {
    if (leaves < 1 || leaves > LS_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "a sum of %d contributions: must be between 1 and %d", leaves, LS_GROUPS_MAX);
    LS_TRY(ls_cpu_check_dtype("a sum", dtype));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t sources = (size_t)leaves * (size_t)ls_pool_threads(cpu->pool), steps = 2 * (size_t)leaves - 1;
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, sources * sizeof(ls_tree_source) + steps * sizeof(int), &scratch));
    tree_job job = {.sources = scratch,
                    .contributions = contributions,
                    .out = out,
                    .dtype = dtype,
                    .leaves = leaves,
                    .elems = elems};
    write_program(&job.program, (int *)(void *)(job.sources + sources), leaves);
    ls_pool_run(cpu->pool, elems / LS_CPU_GRAIN + (elems % LS_CPU_GRAIN != 0), tree_task, &job);
    return LS_OK;
}

/* ---- maxima ------------------------------------------------------------------------------------------------------ */

typedef struct max_args {
    float *out;
    const float *const *inputs;
    int count;
} max_args;

static void max_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const max_args *a = args;
    float values[LS_WORKERS_MAX];
    for (size_t i = begin; i < end; i++) {
        for (int j = 0; j < a->count; j++) values[j] = a->inputs[j][i];
        a->out[i] = kernels->loss.slice_max(values, (size_t)a->count);
    }
}

static ls_status max(ls_device *device, float *out, const float *const *inputs, int count, size_t elems) {
    if (count < 1 || count > LS_WORKERS_MAX)
        return ls_fail(LS_ERR_INPUT, "a maximum of %d tensors: must be between 1 and %d", count, LS_WORKERS_MAX);
    ls_cpu_run(ls_cpu_enter(device), elems, ls_cpu_row_grain((size_t)count), max_range,
               &(max_args){out, inputs, count});
    return LS_OK;
}

void ls_cpu_ops_fill_sum(ls_ops *ops) {
    ops->add = add;
    ops->tree_sum = tree_sum;
    ops->max = max;
}
