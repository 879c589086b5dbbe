/* sum.c: ordered sums over memory of devices.
 *
 * The table of operations adds up a whole tree of tensors of one type in one go (tree_sum). Where the sources of a plan
 * are such a tree, as they are where all workers hold as much, that is all. Otherwise the parts of the tree that are
 * one are added up into scratch and then joined, pair by pair, a piece of the tensors after the other. */
#include <stdlib.h>

#include "comm/collectives/reduce.h"
#include "comm/peers/peers.h"
#include "device/ops.h"

enum { PIECE_ELEMS = 1 << 18 };

/* A part of the tree over the plan's sources first … first + count − 1. */
typedef struct part {
    int left, right; /* −1: a source */
    int first, count;
    bool plain; /* its sources have one type and its shape is that of a tree of as many leaves */
    ls_dtype dtype;
    int needs; /* pieces of scratch */
} part;

typedef struct sum {
    ls_device *device;
    const part *parts;
    const void **sources; /* of the piece */
    char *scratch;
    size_t elems;
} sum;

static int most(int a, int b) { return a > b ? a : b; }

static bool is_read_in_place(const part *p) { return p->left < 0 && p->dtype == LS_F32; }

/* The parts of the plan's program; the last one is the whole. */
static int list_parts(const ls_request *r, part *parts, int *stack) {
    const ls_tree_program *program = &r->plan->whole;
    int n = 0, depth = 0;
    for (int i = 0; i < program->length; i++) {
        int source = program->steps[i];
        if (source >= 0) {
            parts[n] = (part){-1, -1, source, 1, true, ls_reduce_node_dtype(r, r->plan->sources[source].node), 0};
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
    return n;
}

static ls_status tree(const sum *s, const void *const *sources, ls_dtype dtype, int count, float *out) {
    return s->device->ops->tree_sum(s->device, &(ls_tree_sum_call){out, sources, dtype, count, s->elems});
}

/* Into `out`, which is none of the scratch from `at` on but for its first piece. */
static ls_status add_up(const sum *s, int number, int at, float *out) {
    const part *p = &s->parts[number];
    if (p->plain) return tree(s, s->sources + p->first, p->dtype, p->count, out);
    const int child[2] = {p->left, p->right};
    const void *both[2];
    for (int i = 0; i < 2; i++) {
        const part *c = &s->parts[child[i]];
        float *space = (float *)(void *)(s->scratch + (size_t)(at + i) * PIECE_ELEMS * sizeof(float));
        both[i] = is_read_in_place(c) ? s->sources[c->first] : space;
        if (!is_read_in_place(c)) LS_TRY(add_up(s, child[i], at + i, space));
    }
    return tree(s, both, LS_F32, 2, out);
}

static ls_status add_pieces(sum *s, const ls_request *r, int whole, const void *const *sources, float *out,
                            size_t elems) {
    size_t piece = s->parts[whole].plain ? elems : PIECE_ELEMS;
    for (size_t at = 0; at < elems; at += piece) {
        s->elems = elems - at < piece ? elems - at : piece;
        for (int i = 0; i < r->plan->n_sources; i++)
            s->sources[i] =
                (const char *)sources[i] + at * ls_dtype_bytes(ls_reduce_node_dtype(r, r->plan->sources[i].node));
        LS_TRY(add_up(s, whole, 0, out + at));
    }
    return LS_OK;
}

ls_status ls_peers_sum(const ls_request *r, const void *const *sources, void *out, size_t elems) {
    if (elems == 0) return LS_OK;
    size_t length = (size_t)r->plan->whole.length;
    ls_region lists = {0};
    part *parts = ls_region_take(&lists, length, sizeof *parts);
    int *stack = ls_region_take(&lists, length, sizeof *stack);
    const void **piece = ls_region_take(&lists, (size_t)r->plan->n_sources, sizeof *piece);
    ls_status status = LS_OK;
    if (lists.is_short) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d parts", r->plan->n_sources);
        goto out;
    }
    int whole = list_parts(r, parts, stack) - 1;
    void *scratch = NULL;
    if (!parts[whole].plain)
        LS_TRY_OUT(ls_peers_scratch(r->comm, (size_t)parts[whole].needs * PIECE_ELEMS * sizeof(float), &scratch));
    sum s = {.device = r->tensors->device, .parts = parts, .sources = piece, .scratch = scratch};
    LS_TRY_OUT(add_pieces(&s, r, whole, sources, out, elems));
out:
    ls_region_free(&lists);
    return status;
}
