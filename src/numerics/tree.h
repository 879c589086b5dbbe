/* tree.h: the order of sums over groups and over slices. A group is a fixed part of the global batch, and the gradient
 * of the batch is the sum over its groups; a slice is a fixed part of a layer or of a sequence. Ordered collectives
 * (comm/collectives), gradient accumulation (nn/grad_plan.c) and kernels that sum over groups or slices follow this
 * order on any number of workers, so that the result has the same bits. A leaf is what one group or slice contributes.
 * lockstep.h has ls_tree_node and ls_tree_cover().
 *
 * Every sum over G contributions is one balanced binary tree. A node of n leaves splits at the largest power of two
 * below n, so its shape depends on n alone, and a subtree adds up to the same bits wherever it is computed:
 *
 *     G = 5            +                 G = 6            +
 *                    /   \                              /   \
 *                   +     4                            +     +
 *                 /   \                              /   \   4 5
 *                +     +                            +     +
 *               0 1   2 3                          0 1   2 3
 *
 * A program is such a tree in postfix form over *sources*: nodes of the tree whose value is already computed. */
#ifndef LS_NUMERICS_TREE_H
#define LS_NUMERICS_TREE_H

#include "base/status.h"

/* Returns the leaves of the left child of a node of `count` ≥ 2 leaves: the largest power of two below count. */
int ls_tree_left(int count);

enum { LS_TREE_ADD = -1, LS_TREE_DEPTH_MAX = 14 };

/* Steps for a stack machine: steps[i] ≥ 0 pushes the source of this number, LS_TREE_ADD replaces the two topmost values
 * by their sum (the lower one is the left operand). ls_tree_sum_run() executes it. */
typedef struct ls_tree_program {
    int length; /* number of steps */
    int depth;  /* maximal number of values on the stack */
    int *steps; /* owned */
} ls_tree_program;

/* Makes the program that computes `target` from `n` sources, which are disjoint nodes of the tree, ascending. Ignores
 * sources outside the target; LS_ERR_INPUT if they do not cover it, LS_ERR_RESOURCE if memory is short. The caller
 * frees the program, which is empty after a failure. */
ls_status ls_tree_program_make(ls_tree_node target, const ls_tree_node *sources, int n, ls_tree_program *out);
/* Frees the steps, and zeroes the program. */
void ls_tree_program_free(ls_tree_program *program);

/* Plans a sum whose leaves arrive in ascending order: the subtrees that are complete but not yet joined. It holds no
 * values; the caller keeps those in a stack of its own. Initially zeroed but for `groups`, the leaves of the whole
 * tree. The first leaf may be any. */
typedef struct ls_tree_stack {
    int groups, depth;                     /* depth: entries in use */
    ls_tree_node entry[LS_TREE_COVER_MAX]; /* ascending; the last is the top */
} ls_tree_stack;

/* Pushes the node that follows the last one, and joins it with the nodes to its left that it completes. Returns the
 * number of joins; for each the caller adds the two topmost values, the lower one on the left. */
int ls_tree_stack_push(ls_tree_stack *stack, ls_tree_node node);
/* Returns the child of `node` that contains `group`; `node` must have two. */
ls_tree_node ls_tree_child(ls_tree_node node, int group);

/* Lists the maximal subtrees whose leaves are all marked in held[0 … groups−1], and returns their number; `nodes` has
 * space for `groups`. */
int ls_tree_cover_held(int groups, const unsigned char *held, ls_tree_node *nodes);

#endif
