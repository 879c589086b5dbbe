/* tree.c: covers and programs of the tree over groups; see tree.h for its shape. */
#include "numerics/tree.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int ls_tree_left(int count) {
    assert(count >= 2);
    int left = 1;
    while (left * 2 < count) left *= 2;
    return left;
}

/* Appends the maximal subtrees of `node` inside lo … hi−1 to `nodes`, which holds `used`; returns the new number. */
static int cover_range(ls_tree_node node, int lo, int hi, ls_tree_node *nodes, int used) {
    int end = node.first + node.count;
    if (end <= lo || node.first >= hi) return used;
    if (node.first >= lo && end <= hi) {
        nodes[used] = node;
        return used + 1;
    }
    int left = ls_tree_left(node.count);
    used = cover_range((ls_tree_node){node.first, left}, lo, hi, nodes, used);
    return cover_range((ls_tree_node){node.first + left, node.count - left}, lo, hi, nodes, used);
}

int ls_tree_cover(int groups, int lo, int hi, ls_tree_node *nodes) {
    assert(groups <= LS_GROUPS_MAX);
    if (groups < 1 || lo >= hi) return 0;
    return cover_range((ls_tree_node){0, groups}, lo, hi, nodes, 0);
}

ls_tree_node ls_tree_child(ls_tree_node node, int group) {
    int left = ls_tree_left(node.count);
    if (group < node.first + left) return (ls_tree_node){node.first, left};
    return (ls_tree_node){node.first + left, node.count - left};
}

/* Returns the parent of a node that is not the root. */
static ls_tree_node parent_of(int groups, ls_tree_node node) {
    ls_tree_node parent = {0, groups};
    for (;;) {
        ls_tree_node child = ls_tree_child(parent, node.first);
        if (child.first == node.first && child.count == node.count) return parent;
        parent = child;
    }
}

int ls_tree_stack_push(ls_tree_stack *stack, ls_tree_node node) {
    int joins = 0;
    while (stack->depth > 0 && node.count < stack->groups) {
        ls_tree_node parent = parent_of(stack->groups, node), top = stack->entry[stack->depth - 1];
        if (parent.first == node.first || top.first != parent.first) break;
        assert(top.first + top.count == node.first);
        stack->depth--;
        node = parent;
        joins++;
    }
    assert(stack->depth < LS_TREE_COVER_MAX);
    stack->entry[stack->depth++] = node;
    return joins;
}

/* Appends the maximal subtrees of `node` whose leaves are all held; returns the new number. */
static int cover_held(ls_tree_node node, const unsigned char *held, ls_tree_node *nodes, int used) {
    if (memchr(held + node.first, 0, (size_t)node.count) == NULL) {
        nodes[used] = node;
        return used + 1;
    }
    if (node.count == 1) return used;
    int left = ls_tree_left(node.count);
    used = cover_held((ls_tree_node){node.first, left}, held, nodes, used);
    return cover_held((ls_tree_node){node.first + left, node.count - left}, held, nodes, used);
}

int ls_tree_cover_held(int groups, const unsigned char *held, ls_tree_node *nodes) {
    return groups < 1 ? 0 : cover_held((ls_tree_node){0, groups}, held, nodes, 0);
}

/* The state of ls_tree_program_make(). */
typedef struct builder {
    const ls_tree_node *sources;
    int n, next; /* sources are consumed in ascending order */
    int stack;   /* values on the stack after the steps so far */
    ls_tree_program *program;
} builder;

/* Appends the steps that compute `node`. Returns false if the sources do not cover it. */
static bool build_node(builder *b, ls_tree_node node) {
    while (b->next < b->n && b->sources[b->next].first < node.first) b->next++;
    if (b->next == b->n) return false;
    ls_tree_node source = b->sources[b->next];
    if (source.first == node.first && source.count == node.count) {
        b->program->steps[b->program->length++] = b->next++;
        if (++b->stack > b->program->depth) b->program->depth = b->stack;
        return true;
    }
    if (node.count == 1) return false;
    int left = ls_tree_left(node.count);
    if (!build_node(b, (ls_tree_node){node.first, left})) return false;
    if (!build_node(b, (ls_tree_node){node.first + left, node.count - left})) return false;
    b->program->steps[b->program->length++] = LS_TREE_ADD;
    b->stack--;
    return true;
}

ls_status ls_tree_program_make(ls_tree_node target, const ls_tree_node *sources, int n, ls_tree_program *out) {
    *out = (ls_tree_program){.length = 0};
    out->steps = malloc(sizeof *out->steps * (size_t)(n > 0 ? 2 * n : 1));
    if (!out->steps) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d parts", n);
    builder b = {.sources = sources, .n = n, .program = out};
    if (build_node(&b, target)) {
        assert(b.stack == 1 && out->depth <= LS_TREE_DEPTH_MAX);
        return LS_OK;
    }
    ls_tree_program_free(out);
    return ls_fail(LS_ERR_INPUT, "the available contributions do not cover groups %d to %d", target.first,
                   target.first + target.count - 1);
}

void ls_tree_program_free(ls_tree_program *program) {
    free(program->steps);
    *program = (ls_tree_program){.length = 0};
}
