/* grad_plan.h: how the weight gradients of a micro-batch join the tree over gradient groups. A group is a fixed part
 * of the global batch, and one fixed binary tree (numerics/tree.h) says in which order the gradients of groups are
 * added, so that the sum has the same bits on any number of workers. The executor makes the plan of each micro-batch;
 * layers run its steps (matmul.c).
 *
 * A batch of B sequences has G groups; group g is sequences ⌊gB/G⌋ … ⌊(g+1)B/G⌋−1 (rule 3 of
 * docs/reference/arithmetic.md). Micro-batches come in ascending order and may end anywhere. Subtrees (nodes of the
 * tree) that are finished but not yet joined are on a stack; slot i of every parameter's gradient holds entry i:
 *
 *     G = 8, a micro-batch for each group, after group 6:      slot 0: 0–3     slot 1: 4–5     slot 2: 6
 *     group 7 then joins all of them, and slot 0 has the sum of all groups.
 *
 * A step is one matmul over the tokens of a part of a group, or over those of a whole subtree of groups, which the
 * matmul adds up by itself: a micro-batch that holds the batch is one step and needs one slot.
 *
 * A plan of leaves (a leaf is the gradient of one group) cuts at the end of every group, so that each can be observed
 * or rounded; a plan that rounds while it accumulates also cuts at the end of every sequence.
 *
 * To run a step with `at` and `joins`:
 *   new group(s)     value v; then v = slot[at−1] + v, …, v = slot[at−joins] + v; stored in slot[at−joins]
 *   accumulate       slot[at] continues; when `joins` > 0 then joined as above */
#ifndef LS_NN_GRAD_PLAN_H
#define LS_NN_GRAD_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "numerics/tree.h"

/* Groups of one step at most: as many slices as a matmul takes. */
enum { LS_GRAD_GROUPS_MAX = 64 };

typedef struct ls_grad_step {
    size_t first, end;                     /* sequences, counted in the micro-batch */
    int groups;                            /* whole groups, or 1 for a part of one */
    size_t bounds[LS_GRAD_GROUPS_MAX + 1]; /* 0, then the ends of the groups, in sequences counted from `first` */
    bool accumulate;                       /* continues the sum in its slot, of a group that an earlier step began */
    bool ends;                             /* the last step of its group(s) */
    int group;                             /* the first one, counted in the batch */
    int at, joins; /* slot, and how many slots below it are added to the result; 0 unless ends */
} ls_grad_step;

/* Where a plan cuts besides micro-batches: not at all, at the ends of groups, or also at the ends of sequences. */
typedef enum ls_grad_cut { LS_GRAD_WHOLE, LS_GRAD_LEAVES, LS_GRAD_SEQUENCES } ls_grad_cut;

/* The state of a plan while the micro-batches of a step go by. */
typedef struct ls_grad_plan {
    size_t B;
    int G;
    ls_grad_cut cut;
    ls_tree_stack stack;
} ls_grad_plan;

/* Starts the plan of a step. 1 ≤ G ≤ B, G ≤ LS_GROUPS_MAX. The first sequence may be that of any group: a row of
 * data-parallel workers has some of the groups, and ends with the subtrees that these make up. */
void ls_grad_plan_begin(ls_grad_plan *plan, size_t B, int G, ls_grad_cut cut);
/* Gets the step at sequence `at` (counted in the batch) of a micro-batch that is sequences begin … end−1. Returns where
 * the next step begins: `end` after the last. Sequences must come in order. */
size_t ls_grad_plan_next(ls_grad_plan *plan, size_t begin, size_t end, size_t at, ls_grad_step *step);

/* Slots that the gradient of a parameter needs: `product` one whose matmul joins the slots below by itself, `sum` one
 * whose steps are joined afterwards, in a slot of their own (vectors, tables, and every gradient with leaves). `parts`
 * is how many subtrees are left at the end: 1 for the whole batch. */
typedef struct ls_grad_slots {
    int product, sum, parts;
} ls_grad_slots;

/* Returns the slots needed for sequences begin … end−1 of the batch, which are whole groups, when every micro-batch
 * has `micro` of them, the last possibly fewer. The partition allocates so many for each parameter. */
ls_grad_slots ls_grad_slots_count(size_t B, int G, ls_grad_cut cut, size_t begin, size_t end, size_t micro);

/* The steps of a micro-batch in parts, for a gradient whose factors are there for a chunk of its sequences at a time.
 * The parts of a step leave in its slot what the step would; on their way they may use slots above it. */
typedef struct ls_grad_parts {
    const ls_grad_step *step; /* the one that is cut */
    ls_tree_stack stack;      /* its groups so far */
} ls_grad_parts;

/* Starts to cut the steps of a micro-batch. */
ls_grad_parts ls_grad_parts_begin(const ls_grad_step *steps);
/* Gets the part at sequence `at` of a chunk that is sequences begin … end−1, all counted in the micro-batch; the part
 * counts from `begin`. Returns where the next part begins. Sequences must come in order. */
size_t ls_grad_parts_next(ls_grad_parts *parts, size_t begin, size_t end, size_t at, ls_grad_step *part);
/* Returns how many slots, counted from slot 0, matmuls need for such parts of the steps of a micro-batch of
 * `sequences`, in chunks of `chunk`; with `leaves` no matmul joins slots by itself. */
int ls_grad_parts_slots(const ls_grad_step *steps, size_t sequences, size_t chunk, bool leaves);

#endif
