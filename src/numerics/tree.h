/* tree.h: the order of sums over groups.
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

/* steps[i] ≥ 0 pushes that source, LS_TREE_ADD adds the two topmost values (the lower one is the left operand). */
typedef struct ls_tree_program {
    int length;
    int depth; /* maximal number of values on the stack */
    int *steps;
} ls_tree_program;

/* Makes the program that computes `target` from `n` sources, which are disjoint nodes of the tree, ascending. Ignores
 * sources outside the target; fails if they do not cover it. The caller frees the program. */
ls_status ls_tree_program_make(ls_tree_node target, const ls_tree_node *sources, int n, ls_tree_program *out);
/* Frees the steps, and zeroes the program. */
void ls_tree_program_free(ls_tree_program *program);

/* The state of a sum whose leaves arrive in ascending order: subtrees that are complete but not yet joined. Empty when
 * all is zero but `groups`, the leaves of the whole tree. The first leaf may be any. */
typedef struct ls_tree_stack {
    int groups, depth;
    ls_tree_node entry[LS_TREE_COVER_MAX];
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
