/* device_sum.c: ordered sums over device memory.
 *
 * The operation tree_sum adds up a whole tree of tensors of one type in one kernel. If the sources of a plan form such
 * a tree, which they do if all workers hold equally many groups, one call is enough. Otherwise the parts of the tree
 * that have this form are added up into scratch and then joined pair by pair, one piece of the tensors after the other.
 */
#include "comm/collectives/device_sum.h"

#include <stdlib.h>

#include "device/ops.h"

enum { PIECE_ELEMS = 1 << 18 };

/* A subtree over the plan's sources first … first + count − 1. */
typedef struct part {
    int left, right; /* −1: a source */
    int first, count;
    bool plain; /* tree_sum can add it up: its sources have one type, and its shape is the tree of `count` leaves */
    ls_dtype dtype;
    int needs; /* pieces of scratch that it needs */
} part;

typedef struct sum {
    ls_device *device;
    const ls_reduce_source *of;
    int count; /* of sources */
    ls_dtype dtype;
    part *parts; /* the last one is the whole */
    int whole;
    const void **sources; /* at the current piece of the tensors */
    char *scratch;
    size_t elems; /* of the current piece */
} sum;

static int most(int a, int b) { return a > b ? a : b; }

/* Returns whether the part is a single fp32 source, which needs no copy in scratch. */
static bool is_read_in_place(const part *p) { return p->left < 0 && p->dtype == LS_F32; }

/* Returns the type of a source's elements. */
static ls_dtype dtype_of(const sum *s, int source) { return ls_reduce_dtype(s->dtype, s->of[source].node); }

/* Lists the subtrees of the program, and for each whether one kernel can add it up and how much scratch it needs. */
static void list_subtrees(sum *s, const ls_tree_program *program, int *stack) {
    part *parts = s->parts;
    int n = 0, depth = 0;
    for (int i = 0; i < program->length; i++) {
        int source = program->steps[i];
        if (source >= 0) {
            parts[n] = (part){-1, -1, source, 1, true, dtype_of(s, source), 0};
        } else {
            int left = stack[depth - 2], right = stack[depth - 1];
            const part *a = &parts[left], *b = &parts[right];
            part joined = {left, right, a->first, a->count + b->count, false, a->dtype, 0};
            joined.plain = a->plain && b->plain && a->dtype == b->dtype && a->count == ls_tree_left(joined.count);
            if (!joined.plain)
                joined.needs =
                    most(is_read_in_place(a) ? 0 : most(a->needs, 1), is_read_in_place(b) ? 0 : 1 + most(b->needs, 1));
            parts[n] = joined;
            depth -= 2;
        }
        stack[depth++] = n++;
    }
    s->whole = n - 1;
}

/* Returns the scratch of the whole sum, for one piece of the tensors; 0: one kernel adds it up. */
static size_t needed_bytes(const sum *s) {
    return s->parts[s->whole].plain ? 0 : (size_t)s->parts[s->whole].needs * PIECE_ELEMS * sizeof(float);
}

/* Enqueues the kernel that adds up `count` tensors of one type in the order of the tree, over s->elems elements. */
static ls_status call_tree_sum(const sum *s, const void *const *sources, ls_dtype dtype, int count, float *out) {
    return s->device->ops->tree_sum(s->device, &(ls_tree_sum_call){out, sources, dtype, count, s->elems});
}

/* Enqueues the sum of subtree `number` into `out`. May use the scratch from piece `at` on; `out` may be the first of
 * these pieces. */
static ls_status sum_subtree(const sum *s, int number, int at, float *out) {
    const part *p = &s->parts[number];
    if (p->plain) return call_tree_sum(s, s->sources + p->first, p->dtype, p->count, out);
    const int child[2] = {p->left, p->right};
    const void *both[2];
    for (int i = 0; i < 2; i++) {
        const part *c = &s->parts[child[i]];
        float *space = (float *)(void *)(s->scratch + (size_t)(at + i) * PIECE_ELEMS * sizeof(float));
        both[i] = is_read_in_place(c) ? s->sources[c->first] : space;
        if (!is_read_in_place(c)) LS_TRY(sum_subtree(s, child[i], at + i, space));
    }
    return call_tree_sum(s, both, LS_F32, 2, out);
}

/* Enqueues the whole sum, piece by piece, or at once if one kernel suffices. */
static ls_status sum_pieces(sum *s, const void *const *sources, float *out, size_t elems) {
    size_t piece = s->parts[s->whole].plain ? elems : PIECE_ELEMS;
    for (size_t at = 0; at < elems; at += piece) {
        s->elems = elems - at < piece ? elems - at : piece;
        for (int i = 0; i < s->count; i++)
            s->sources[i] = (const char *)sources[i] + at * ls_dtype_bytes(dtype_of(s, i));
        LS_TRY(sum_subtree(s, s->whole, 0, out + at));
    }
    return LS_OK;
}

/* Allocates the lists of a sum from `lists`, which the caller frees, and fills them. */
static ls_status plan_sum(sum *s, ls_region *lists, const ls_tree_program *program) {
    s->parts = ls_region_take(lists, (size_t)program->length, sizeof *s->parts);
    int *stack = ls_region_take(lists, (size_t)program->length, sizeof *stack);
    s->sources = ls_region_take(lists, (size_t)s->count, sizeof *s->sources);
    if (lists->is_short) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d parts", s->count);
    list_subtrees(s, program, stack);
    return LS_OK;
}

ls_status ls_device_sum(const ls_request *r, const ls_tree_program *program, const ls_reduce_source *of, int count,
                        const void *const *sources, void *out, size_t elems) {
    if (elems == 0) return LS_OK;
    sum s = {.device = r->tensors->device, .of = of, .count = count, .dtype = r->dtype};
    ls_region lists = {0};
    void *scratch = NULL;
    ls_status status;
    LS_TRY_OUT(plan_sum(&s, &lists, program));
    if (needed_bytes(&s)) LS_TRY_OUT(ls_comm_scratch(r->comm, LS_SCRATCH_SUMS, needed_bytes(&s), &scratch));
    s.scratch = scratch;
    LS_TRY_OUT(sum_pieces(&s, sources, out, elems));
out:
    ls_region_free(&lists);
    return status;
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

void ls_scratch_free(ls_world *world) {
    for (int kind = 0; kind < LS_SCRATCH_KINDS; kind++)
        for (int q = 0; q < LS_QUEUES; q++) {
            ls_scratch_piece *s = &world->scratch[kind][q];
            if (!s->lent) ls_device_free(world->device, s->memory);
            *s = (ls_scratch_piece){0};
        }
}

ls_status ls_comm_scratch(const ls_comm *comm, ls_scratch_kind kind, size_t bytes, void **out) {
    ls_device *device = comm->world->device;
    ls_scratch_piece *s = &comm->world->scratch[kind][comm->queue];
    if (s->bytes < bytes) {
        if (!s->lent) {
            ls_device_free(device, s->memory);
            device->shared_bytes -= s->bytes;
        }
        *s = (ls_scratch_piece){0};
        LS_TRY(ls_device_alloc(device, bytes, &s->memory));
        s->bytes = bytes;
        device->shared_bytes += bytes;
    }
    *out = s->memory;
    return LS_OK;
}

void ls_tensor_lend(ls_device *device, ls_comm *comm, void *memory, size_t bytes) {
    if (device != comm->world->device) return;
    ls_scratch_piece *s = &comm->world->scratch[LS_SCRATCH_SUMS][comm->queue];
    if (!s->memory) *s = (ls_scratch_piece){memory, bytes, true};
}

void ls_tensor_take_back(ls_device *device, ls_comm *comm, const void *memory) {
    if (device != comm->world->device) return;
    ls_scratch_piece *s = &comm->world->scratch[LS_SCRATCH_SUMS][comm->queue];
    if (s->memory == memory) *s = (ls_scratch_piece){0};
}

/* ---- how much scratch -------------------------------------------------------------------------------------------- */

ls_status ls_tensor_sum_bytes(int size, const ls_runs *runs, ls_dtype dtype, size_t *bytes) {
    int groups = runs ? runs->groups : size;
    sum s = {.dtype = dtype};
    ls_region lists = {0};
    ls_tree_program program = {0};
    ls_status status = LS_OK;
    ls_reduce_source *of = ls_region_take(&lists, (size_t)groups, sizeof *of);
    ls_tree_node *nodes = ls_region_take(&lists, (size_t)groups, sizeof *nodes);
    *bytes = 0;
    if (lists.is_short) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d groups", groups);
        goto out;
    }
    for (int r = 0; r < size; r++) {
        int first = runs && runs->bounds ? runs->bounds[r] : (int)((int64_t)groups * r / size);
        int end = runs && runs->bounds ? runs->bounds[r + 1] : (int)((int64_t)groups * (r + 1) / size);
        s.count += ls_tree_cover(groups, first, end, nodes + s.count);
    }
    for (int i = 0; i < s.count; i++) of[i].node = nodes[i];
    s.of = of;
    LS_TRY_OUT(ls_tree_program_make((ls_tree_node){0, groups}, nodes, s.count, &program));
    LS_TRY_OUT(plan_sum(&s, &lists, &program));
    *bytes = needed_bytes(&s);
out:
    ls_tree_program_free(&program);
    ls_region_free(&lists);
    return status;
}
