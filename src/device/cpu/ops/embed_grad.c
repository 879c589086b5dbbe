/* embed_grad.c: the gradients of the token and position tables: sums over tokens.
 *
 * Token rows: the rows of dy are put in the order of their ids, so that the rows of one id lie together; a thread takes
 * a stretch of this order, and the ids that begin in it are its own. Where one id has most of the rows, threads still
 * find work, since columns are divided too.
 *
 *     order      3 9 | 0 | 5 | 1 2 4 8 | 6 | 7          rows, cut where the id changes
 *     stretches  [     0     |    1    |  2   ]         stretch 1 begins with id of rows 1 2 4 8
 *
 * Position rows: a thread takes some positions and goes through all sequences. */
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/ops/token_sums.h"
#include "numerics/tree.h"

/* A stable radix sort, from the lowest digit. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* Returns the digit of a row's id, counted from the table's first id. */
static size_t digit_of(const ls_embed_tokens *tokens, size_t row, int shift) {
    uint32_t place = (uint32_t)tokens->ids[row] - (uint32_t)tokens->id_begin;
    return place >> shift & (DIGITS - 1);
}

/* Sorts n row numbers by one digit of their ids, stable; one pass of the radix sort. */
static void sort_by_digit(const ls_embed_tokens *tokens, size_t *to, const size_t *from, size_t n, int shift) {
    size_t starts[DIGITS + 1] = {0};
    for (size_t i = 0; i < n; i++) starts[digit_of(tokens, from[i], shift) + 1]++;
    for (size_t d = 0; d < DIGITS; d++) starts[d + 1] += starts[d];
    for (size_t i = 0; i < n; i++) to[starts[digit_of(tokens, from[i], shift)]++] = from[i];
}

/* Writes the rows whose id is in the table, sorted by id, rows of one id ascending, and returns their number. `rows`
 * and `spare` have space for tokens->rows each. */
static size_t order_tokens(const ls_embed_tokens *tokens, size_t *rows, size_t *spare) {
    size_t n = 0;
    for (size_t r = 0; r < tokens->rows; r++)
        if (tokens->ids[r] >= tokens->id_begin && tokens->ids[r] < tokens->id_end) rows[n++] = r;
    if (n == 0) return 0;
    uint32_t last = (uint32_t)tokens->id_end - (uint32_t)tokens->id_begin - 1;
    size_t *from = rows, *to = spare;
    for (int shift = 0; shift < 32 && last >> shift > 0; shift += DIGIT_BITS) {
        sort_by_digit(tokens, to, from, n, shift);
        size_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
    return n;
}

enum { COLUMNS_MIN = 256, COLUMNS_MAX = 2048, STRETCHES_PER_THREAD = 8 };

/* The gradient of a token table, in tasks of a stretch of the order and a piece of the columns. */
typedef struct token_job {
    const ls_kernels *kernels;
    const ls_token_grad_call *call;
    const ls_embed_tokens *tokens; /* and groups: those of the call */
    const ls_token_groups *groups;
    const size_t *order;                  /* row numbers sorted by id */
    size_t count, stretch, piece, pieces; /* rows in `order`, rows of a stretch; columns of a piece, their number */
    float *scratch;
    size_t scratch_elems; /* of each thread */
} token_job;

/* The columns that a task works on; dy points to the first of them in row 0. */
typedef struct token_piece {
    const token_job *job;
    const float *dy;
    size_t columns;
} token_piece;

/* Computes the sum of rows[0 … count−1], which belong to one id and to one group. */
static void sum_rows(const token_piece *p, const size_t *rows, size_t count, float *out) {
    memcpy(out, p->dy + rows[0] * p->job->call->dy_stride, p->columns * sizeof *out);
    p->job->kernels->embed.row_sums(out, p->dy, p->job->call->dy_stride, rows + 1, count - 1, p->columns);
}

/* Computes the tree over groups first … first+groups−1 for one id, whose rows are rows[0 … count−1]. A subtree without
 * the id adds nothing, so its sibling stands alone. */
static void sum_groups(const token_piece *p, const size_t *rows, size_t count, int first, int groups, float *out,
                       float *scratch) {
    const ls_token_groups *g = p->job->groups;
    while (groups > 1) {
        int left = ls_tree_left(groups);
        size_t right_row = g->bounds[first + left] * g->T, split = 0;
        for (; split < count && rows[split] < right_row; split++) continue;
        if (split > 0 && split < count) {
            sum_groups(p, rows, split, first, left, out, scratch);
            sum_groups(p, rows + split, count - split, first + left, groups - left, scratch, scratch + p->columns);
            p->job->kernels->add.add_f32(out, out, scratch, p->columns);
            return;
        }
        if (split == 0) first += left;
        groups = split == 0 ? groups - left : left;
    }
    sum_rows(p, rows, count, out);
}

/* Adds the gradient of one id to its row of the table: continues the chain if the call accumulates, else to = sum +
 * to. */
static void add_id(const token_piece *p, const size_t *rows, size_t count, float *to, float *scratch) {
    const token_job *job = p->job;
    if (job->groups->accumulate || count == 1) {
        job->kernels->embed.row_sums(to, p->dy, job->call->dy_stride, rows, count, p->columns);
        return;
    }
    sum_groups(p, rows, count, 0, job->groups->groups, scratch, scratch + p->columns);
    job->kernels->add.add_f32(to, scratch, to, p->columns);
}

/* Task: computes the rows of all ids that begin in its stretch, in its piece of the columns. */
static void token_task(void *ctx, size_t task, int thread) {
    const token_job *job = ctx;
    const int32_t *ids = job->tokens->ids;
    const size_t *order = job->order, C = job->tokens->C, column = task % job->pieces * job->piece;
    size_t left = C - column, begin = task / job->pieces * job->stretch, end = begin + job->stretch;
    token_piece p = {job, job->call->dy + column, left < job->piece ? left : job->piece};
    if (end > job->count) end = job->count;
    /* An id that began in an earlier stretch belongs to that one. */
    while (begin > 0 && begin < end && ids[order[begin]] == ids[order[begin - 1]]) begin++;
    while (begin < end) {
        int32_t id = ids[order[begin]];
        size_t next = begin + 1;
        while (next < job->count && ids[order[next]] == id) next++;
        add_id(&p, order + begin, next - begin, job->call->dtoken + (size_t)(id - job->tokens->id_begin) * C + column,
               job->scratch + (size_t)thread * job->scratch_elems);
        begin = next;
    }
}

/* Returns n / by, rounded up. */
static size_t divide_up(size_t n, size_t by) { return n / by + (n % by != 0); }

/* Chooses the stretches and the pieces of columns, so that every thread has several tasks. */
static void divide_tokens(token_job *job, size_t threads) {
    size_t C = job->tokens->C, pieces = C / COLUMNS_MIN < threads ? C / COLUMNS_MIN : threads;
    job->piece = divide_up(C, pieces ? pieces : 1);
    if (job->piece > COLUMNS_MAX) job->piece = COLUMNS_MAX;
    job->pieces = divide_up(C, job->piece);
    job->stretch = divide_up(job->tokens->rows, threads * STRETCHES_PER_THREAD);
    job->scratch_elems = job->piece * (1 + ls_cpu_sum_levels(job->groups->groups));
}

/* Adds the gradient of the token table to dtoken; see ls_token_grad_call. One thread that accumulates needs no sorting,
 * and adds row by row. */
ls_status ls_cpu_op_embed_token_grad(ls_device *device, const ls_token_grad_call *call) {
    const ls_embed_tokens *tokens = call->tokens;
    const ls_token_groups *groups = call->groups;
    LS_TRY(ls_token_groups_check_rows(groups, tokens->rows));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t threads = (size_t)ls_pool_threads(cpu->pool);
    if (tokens->rows == 0 || tokens->C == 0) return LS_OK;
    if (threads == 1 && groups->accumulate) {
        cpu->kernels->embed.token_grad(call->dtoken, call->dy, call->dy_stride, tokens, 0, tokens->C);
        return LS_OK;
    }
    token_job job = {.kernels = cpu->kernels, .call = call, .tokens = tokens, .groups = groups};
    divide_tokens(&job, threads);
    void *scratch;
    size_t order_bytes = 2 * tokens->rows * sizeof(size_t), sums = job.scratch_elems * threads;
    LS_TRY(ls_cpu_scratch(cpu, order_bytes + sums * sizeof(float), &scratch));
    size_t *order = scratch;
    job.order = order;
    job.scratch = (float *)(void *)(order + 2 * tokens->rows);
    job.count = order_tokens(tokens, order, order + tokens->rows);
    ls_pool_run(cpu->pool, divide_up(job.count, job.stretch) * job.pieces, token_task, &job);
    return LS_OK;
}

/* Sums of so many numbers stay in the first cache while the sequences pass by. */
enum { POSITION_ELEMS = 4096 };

typedef struct position_job {
    const ls_kernels *kernels;
    const ls_position_grad_call *call;
    size_t grain; /* positions that a thread takes at a time */
    float *scratch;
    size_t scratch_elems; /* of each thread */
} position_job;

/* Positions begin … begin+rows−1, those of a task. */
typedef struct position_piece {
    const position_job *job;
    size_t begin, rows;
} position_piece;

/* Sums dy of one group for the positions of a piece: from −0, or continuing what `out` holds. A callback of
 * ls_cpu_sum_groups(). */
static void position_leaf(const void *ctx, int group, float *out) {
    const position_piece *p = ctx;
    const ls_position_grad_call *c = p->job->call;
    const ls_token_groups *g = c->groups;
    size_t C = c->C;
    if (!g->accumulate)
        for (size_t i = 0; i < p->rows * C; i++) out[i] = -0.0f;
    for (size_t sequence = g->bounds[group]; sequence < g->bounds[group + 1]; sequence++)
        p->job->kernels->embed.position_grad(out, c->dy + (sequence * g->T + p->begin) * c->dy_stride, c->dy_stride, 0,
                                             p->rows, p->rows, C, 0, C);
}

/* Task: sums some positions over all groups, straight into dposition. */
static void position_task(void *ctx, size_t task, int thread) {
    const position_job *job = ctx;
    const ls_position_grad_call *c = job->call;
    size_t begin = task * job->grain, left = c->groups->T - begin;
    position_piece p = {job, begin, left < job->grain ? left : job->grain};
    ls_cpu_leaves leaves = {job->kernels, position_leaf, &p, p.rows * c->C};
    ls_cpu_sum_groups(&leaves, 0, c->groups->groups, c->dposition + begin * c->C,
                      job->scratch + (size_t)thread * job->scratch_elems);
}

/* Computes the gradient of the position table, by groups. */
ls_status ls_cpu_op_embed_position_grad(ls_device *device, const ls_position_grad_call *call) {
    size_t C = call->C;
    LS_TRY(ls_token_groups_check(call->groups));
    ls_cpu_device *cpu = ls_cpu_enter(device);
    position_job job = {.kernels = cpu->kernels, .call = call};
    job.grain = C < POSITION_ELEMS ? POSITION_ELEMS / (C ? C : 1) : 1;
    job.scratch_elems = job.grain * C * ls_cpu_sum_levels(call->groups->groups);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, job.scratch_elems * (size_t)ls_pool_threads(cpu->pool) * sizeof(float), &scratch));
    job.scratch = scratch;
    ls_pool_run(cpu->pool, divide_up(call->groups->T, job.grain), position_task, &job);
    return LS_OK;
}
