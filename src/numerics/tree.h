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
 * A program is such a tree in postfix form over *sources*: nodes of the tree whose value is already there. */
#ifndef LS_NUMERICS_TREE_H
#define LS_NUMERICS_TREE_H

#include "base/status.h"

/* Leaves of the left child of a node of `count` ≥ 2 leaves: the largest power of two below count. */
int ls_tree_left(int count);

enum { LS_TREE_ADD = -1, LS_TREE_DEPTH_MAX = 14 };

/* steps[i] ≥ 0 pushes that source, LS_TREE_ADD adds the two topmost values (the lower one is the left operand). */
typedef struct ls_tree_program {
    int length;
    int depth; /* the most values on the stack at once */
    int *steps;
} ls_tree_program;

/* The program that computes `target` out of `n` sources, which are disjoint nodes of the tree over `groups`, ascending.
 * Sources outside the target are left alone; a target that they do not cover is an error. */
ls_status ls_tree_program_make(ls_tree_node target, const ls_tree_node *sources, int n, ls_tree_program *out);
void ls_tree_program_free(ls_tree_program *program);

/* Subtrees that are finished but not yet joined, in order: what is left of a tree while its leaves come one after the
 * other. Zeroed, but for the number of groups, it is empty; the first leaf may be any. */
typedef struct ls_tree_stack {
    int groups, depth;
    ls_tree_node entry[LS_TREE_COVER_MAX];
} ls_tree_stack;

/* Puts the node behind the last one on the stack, joined with those to its left that it completes; returns how many. */
int ls_tree_stack_push(ls_tree_stack *stack, ls_tree_node node);
/* The child of `node`, which has two, that holds `group`. */
ls_tree_node ls_tree_child(ls_tree_node node, int group);

/* The maximal subtrees whose leaves are all marked in held[0 … groups−1]; returns their number; nodes has space for
 * `groups`. */
int ls_tree_cover_held(int groups, const unsigned char *held, ls_tree_node *nodes);

#endif
