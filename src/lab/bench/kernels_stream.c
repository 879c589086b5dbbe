/* kernels_stream.c: measures the cases of kernels_cases.c, each beside a plain loop over as many streams that is
 * divided among the threads in the same way. */
#include "lab/bench/kernels_stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "numerics/float16.h"

enum { TASKS_A_THREAD = 4, GRAIN = LS_SQUARE_BLOCK, COLUMN_GRAIN = 16 };

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Computes the size of a case. --quick takes a sixteenth of the rows, or of a flat vector (one row) a 64th. */
static void case_size(const ls_kbench_case *c, bool quick, size_t *rows, size_t *columns) {
    *rows = quick && c->rows > 1 ? c->rows / 16 : c->rows;
    *columns = quick && c->rows == 1 ? c->columns / 64 : c->columns;
}

/* Returns whether a case is measured; --quick leaves out the second size of a kernel. */
static bool has_case(const ls_kbench_case *c, bool quick) {
    bool second = c > ls_kbench_cases && strcmp(c->name, c[-1].name) == 0 && c->family == c[-1].family;
    return !(quick && second);
}

ls_status ls_kbench_stream_list(ls_kbench_rows *rows, ls_kbench_family family, int threads, bool quick) {
    for (int i = 0; i < ls_kbench_case_count; i++) {
        const ls_kbench_case *c = &ls_kbench_cases[i];
        size_t lines, columns;
        char size[32];
        if (c->family != family || !has_case(c, quick)) continue;
        ls_kbench_row *row;
        LS_TRY(ls_kbench_row_add(rows, family, threads, &row));
        case_size(c, quick, &lines, &columns);
        if (lines > 1)
            snprintf(size, sizeof size, "%zux%zu", lines, columns);
        else
            snprintf(size, sizeof size, "%zu", columns);
        snprintf(row->name, sizeof row->name, "%s/%s/%s", ls_kbench_family_name(family), c->name, size);
        row->item = i;
        row->elems = (double)lines * (double)columns;
        row->work = row->elems * (c->bytes > 0 ? c->bytes : (c->reads + c->writes) * (double)sizeof(float));
        row->yardstick = "loop";
    }
    return LS_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { TEMPLATES = 2, TEMPLATE_ELEMS = 1 << 16, VOCABULARY = 50257 };

struct ls_kbench_memory {
    ls_kbench_data data;
    float *block;            /* the streams of the case that is measured lie here, one behind the other */
    float *fresh[TEMPLATES]; /* what streams hold before a case, over and over: numbers of both signs, positive ones */
};

void ls_kbench_memory_close(ls_kbench_memory *memory) {
    if (memory == NULL) return;
    ls_kbench_data *d = &memory->data;
    for (int i = 0; i < TEMPLATES; i++) free(memory->fresh[i]);
    for (int i = 0; i < 2; i++) free(d->per_row[i]);
    for (int i = 0; i < 4; i++) free(d->per_column[i]);
    for (int i = 0; i < 2; i++) free(d->tables[i]);
    free(memory->block);
    free(d->half);
    free(d->ids);
    free(d->sums);
    free(memory);
}

/* Returns the rows of the token table. */
static size_t vocabulary_of(bool quick) { return quick ? VOCABULARY / 16 : VOCABULARY; }

/* Returns the streams of a case; a stream that is written in place counts once. */
static int stream_count(const ls_kbench_case *c) { return c->reads + c->writes - c->in_place; }

/* Returns the elements of each stream that the loop uses, to move as many bytes as the kernel. */
static size_t loop_elems(const ls_kbench_case *c, bool quick) {
    size_t rows, columns;
    case_size(c, quick, &rows, &columns);
    if (c->bytes <= 0) return rows * columns;
    return (size_t)((double)(rows * columns) * c->bytes / sizeof(float)) / (size_t)(c->reads + c->writes);
}

/* Returns the elements of stream s; the table of tokens is longer than the part that is read. */
static size_t stream_elems(const ls_kbench_case *c, int s, bool quick) {
    if (c->family == LS_KBENCH_EMBED && s == 0) return vocabulary_of(quick) * c->columns;
    return (loop_elems(c, quick) + GRAIN - 1) / GRAIN * GRAIN;
}

/* Returns the elements of all streams of a case. */
static size_t case_elems(const ls_kbench_case *c, bool quick) {
    size_t elems = 0;
    for (int s = 0; s < stream_count(c); s++) elems += stream_elems(c, s, quick);
    return elems;
}

/* Allocates floats and fills them with numbers in [−1, 1). */
static ls_status floats_open(size_t elems, float **out) {
    void *memory = NULL;
    LS_TRY(ls_kbench_alloc(elems * sizeof(float), &memory));
    *out = memory;
    for (size_t i = 0; i < elems; i++) (*out)[i] = ls_operand_value(i);
    return LS_OK;
}

/* Allocates the block for the largest case, and the templates of its streams. */
static ls_status streams_open(ls_kbench_memory *memory, bool quick) {
    ls_kbench_data *d = &memory->data;
    size_t longest = 0, longest_half = 0;
    void *half = NULL;
    for (const ls_kbench_case *c = ls_kbench_cases; c < ls_kbench_cases + ls_kbench_case_count; c++) {
        size_t rows, columns, elems = case_elems(c, quick);
        if (!has_case(c, quick)) continue;
        case_size(c, quick, &rows, &columns);
        if (elems > longest) longest = elems;
        if (c->bytes > 0 && rows * columns > longest_half) longest_half = rows * columns;
    }
    LS_TRY(floats_open(longest, &memory->block));
    for (int i = 0; i < TEMPLATES; i++) LS_TRY(floats_open(TEMPLATE_ELEMS, &memory->fresh[i]));
    for (size_t i = 0; i < TEMPLATE_ELEMS; i++)
        if (memory->fresh[1][i] <= 0) memory->fresh[1][i] = 0x1p-10f - memory->fresh[1][i];
    LS_TRY(ls_kbench_alloc(longest_half * sizeof *d->half, &half));
    d->half = half;
    for (size_t i = 0; i < longest_half; i++) d->half[i] = ls_bf16_from_f32(ls_operand_value(i));
    return LS_OK;
}

/* Allocates the small arrays that a case uses beside its streams, and fills the floats: statistics, weights and tables.
 * Ids and sums are only allocated. */
static ls_status side_open(ls_kbench_data *d) {
    void *memory = NULL;
    for (int i = 0; i < 2; i++) LS_TRY(floats_open(LS_KBENCH_SIDE_ELEMS, &d->per_row[i]));
    for (int i = 0; i < 4; i++) LS_TRY(floats_open(LS_KBENCH_SIDE_ELEMS, &d->per_column[i]));
    for (int i = 0; i < 2; i++) LS_TRY(floats_open(LS_KBENCH_SIDE_ELEMS, &d->tables[i]));
    for (int i = 0; i < LS_KBENCH_SIDE_ELEMS; i++) { /* rotations, which may be repeated without end */
        d->tables[0][i] = i % 3 == 0 ? 0.0f : 0.6f;
        d->tables[1][i] = i % 3 == 0 ? 1.0f : 0.8f;
    }
    LS_TRY(ls_kbench_alloc(LS_KBENCH_SIDE_ELEMS * sizeof *d->sums, &memory));
    d->sums = memory;
    LS_TRY(ls_kbench_alloc(LS_KBENCH_SIDE_ELEMS * sizeof *d->ids, &memory));
    d->ids = memory;
    return LS_OK;
}

ls_status ls_kbench_memory_open(bool quick, ls_kbench_memory **out) {
    ls_status status = LS_OK;
    ls_kbench_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu bytes", sizeof *memory);
    LS_TRY_OUT(streams_open(memory, quick));
    LS_TRY_OUT(side_open(&memory->data));
    *out = memory;
    return LS_OK;
out:
    ls_kbench_memory_close(memory);
    return status;
}

/* Lays the streams of the case into the block and fills them, because other cases have changed it. */
static const ls_kbench_data *prepare_streams(const ls_kbench_env *env, const ls_kbench_case *c) {
    ls_kbench_data *d = &env->memory->data;
    float *at = env->memory->block;
    d->kernels = env->kernels;
    d->vocabulary = vocabulary_of(env->quick);
    case_size(c, env->quick, &d->rows, &d->columns);
    assert(d->rows <= LS_KBENCH_SIDE_ELEMS && stream_count(c) <= LS_KBENCH_STREAMS);
    for (int s = 0; s < stream_count(c); s++) {
        size_t elems = stream_elems(c, s, env->quick);
        d->stream[s] = at;
        for (size_t i = 0; i < elems; i += TEMPLATE_ELEMS)
            memcpy(at + i, env->memory->fresh[c->traits >> s & 1], min_size(TEMPLATE_ELEMS, elems - i) * sizeof(float));
        at += elems;
    }
    for (uint32_t i = 0; i < d->rows; i++) d->ids[i] = (int32_t)((i * 2654435761u >> 4) % (uint32_t)d->vocabulary);
    for (size_t i = 0; i <= LS_KBENCH_VOCABULARY_SLICES; i++)
        d->bounds[i] = d->columns * i / LS_KBENCH_VOCABULARY_SLICES;
    return d;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* `units` rows, columns or elements, in tasks of `step`. */
typedef struct job {
    const ls_kbench_case *c;
    const ls_kbench_data *data;
    ls_kbench_loop loop;
    ls_pool *pool;
    void (*task)(void *ctx, size_t task, int thread);
    size_t units, step;
} job;

/* Divides the units into tasks of a multiple of `grain`. */
static void job_divide(job *j, size_t units, size_t grain) {
    size_t tasks = ls_pool_threads(j->pool) > 1 ? (size_t)ls_pool_threads(j->pool) * TASKS_A_THREAD : 1;
    size_t step = (units + tasks - 1) / tasks;
    j->units = units;
    j->step = (step + grain - 1) / grain * grain;
}

/* Task of the pool: the kernel on one range of units. */
static void kernel_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const job *j = ctx;
    size_t begin = task * j->step;
    j->c->run(j->data, begin, min_size(begin + j->step, j->units));
}

/* Task of the pool: the plain loop on one range of elements. */
static void loop_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const job *j = ctx;
    size_t begin = task * j->step;
    ls_kbench_loop_run(&j->loop, begin, min_size(begin + j->step, j->units));
}

/* Task of the pool: runs the loop on rows of the table in the order of the ids, as the kernel reads them. */
static void gather_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const job *j = ctx;
    size_t columns = j->data->columns, begin = task * j->step, end = min_size(begin + j->step, j->units);
    for (size_t row = begin; row < end; row++) {
        ls_kbench_loop loop = j->loop;
        size_t table_row = (size_t)j->data->ids[row] * columns;
        loop.in[0] += table_row;
        for (int r = 1; r < loop.reads; r++) loop.in[r] += row * columns;
        for (int w = 0; w < loop.writes; w++) loop.out[w] += w < j->c->in_place ? table_row : row * columns;
        ls_kbench_loop_run(&loop, 0, columns);
    }
}

/* Runs all tasks once; an ls_timer_call. */
static ls_status run_tasks(void *ctx) {
    job *j = ctx;
    ls_pool_run(j->pool, (j->units + j->step - 1) / j->step, j->task, j);
    return LS_OK;
}

/* Measures the kernel, divided as its case says. */
static ls_status time_kernel(const ls_kbench_env *env, job *j, double *seconds) {
    const ls_kbench_data *d = j->data;
    switch (j->c->split) {
    case LS_KBENCH_BY_ROWS: job_divide(j, d->rows, 1); break;
    case LS_KBENCH_BY_COLUMNS: job_divide(j, d->columns, COLUMN_GRAIN); break;
    case LS_KBENCH_BY_ELEMS: job_divide(j, d->rows * d->columns, GRAIN); break;
    }
    j->task = kernel_task;
    return ls_kbench_time(env, run_tasks, j, seconds);
}

/* Measures the plain loop. Its values may grow, which costs nothing. */
static ls_status time_loop(const ls_kbench_env *env, job *j, double *seconds) {
    const ls_kbench_case *c = j->c;
    const ls_kbench_data *d = j->data;
    j->loop = (ls_kbench_loop){.reads = c->reads, .writes = c->writes};
    for (int r = 0; r < c->reads; r++) j->loop.in[r] = d->stream[r];
    for (int w = 0; w < c->writes; w++) j->loop.out[w] = d->stream[w < c->in_place ? w : c->reads + w - c->in_place];
    if (c->traits & LS_KBENCH_BY_IDS) {
        job_divide(j, d->rows, 1);
        j->task = gather_task;
    } else {
        job_divide(j, loop_elems(c, env->quick), GRAIN);
        j->task = loop_task;
    }
    return ls_kbench_time(env, run_tasks, j, seconds);
}

ls_status ls_kbench_stream_measure(const ls_kbench_env *env, ls_kbench_row *row) {
    const ls_kbench_case *c = &ls_kbench_cases[row->item];
    job j = {.c = c, .data = prepare_streams(env, c), .pool = env->pool};
    double loop_seconds;
    LS_TRY(time_kernel(env, &j, &row->seconds[env->round]));
    LS_TRY(time_loop(env, &j, &loop_seconds));
    row->yard_rate[env->round] = row->work / loop_seconds;
    return LS_OK;
}
