/* reduce_plan.c: turns runs (which groups of a sum each member holds) into lists of subtrees and programs, sequences of
 * additions in the order of the tree (numerics/tree.h). */
#include "comm/world/reduce_plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Returns the first group of a rank's run; for rank `size` the number of groups. */
static int run_begin(const ls_runs *runs, int size, int rank) {
    return runs->bounds ? runs->bounds[rank] : (int)((int64_t)runs->groups * rank / size);
}

bool ls_reduce_plan_fits(const ls_reduce_plan *plan, int size, const ls_runs *runs) {
    int groups = runs ? runs->groups : size;
    if (!plan || plan->groups != groups || plan->size != size) return false;
    for (int r = 0; r <= size; r++)
        if (plan->bounds[r] != (runs ? run_begin(runs, size, r) : r)) return false;
    return true;
}

/* Returns LS_ERR_INPUT, which names the run, if the bounds do not ascend from 0 to a valid number of groups. */
static ls_status check_runs(const ls_runs *runs, int size) {
    if (runs->groups < 1 || runs->groups > LS_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "%d gradient groups: must be between 1 and %d", runs->groups, LS_GROUPS_MAX);
    if (!runs->bounds) return LS_OK;
    if (runs->bounds[0] != 0 || runs->bounds[size] != runs->groups)
        return ls_fail(LS_ERR_INPUT, "gradient groups cover %d to %d: they must cover 0 to %d", runs->bounds[0],
                       runs->bounds[size], runs->groups);
    for (int r = 0; r < size; r++)
        if (runs->bounds[r + 1] < runs->bounds[r])
            return ls_fail(LS_ERR_INPUT, "the groups of worker %d end at %d, before they begin at %d", r,
                           runs->bounds[r + 1], runs->bounds[r]);
    return LS_OK;
}

/* Allocates the plan's lists; false: out of memory. Every part holds at least one group, so no list of parts is longer
 * than `groups`. */
static bool allocate_lists(ls_reduce_plan *p, int machines) {
    size_t size = (size_t)p->size, groups = (size_t)p->groups;
    p->bounds = ls_region_take(&p->memory, size + 1, sizeof *p->bounds);
    p->part_first = ls_region_take(&p->memory, size + 1, sizeof *p->part_first);
    p->parts = ls_region_take(&p->memory, groups, sizeof *p->parts);
    p->sources = ls_region_take(&p->memory, groups, sizeof *p->sources);
    p->members = ls_region_take(&p->memory, groups, sizeof *p->members);
    p->local_sources = ls_region_take(&p->memory, groups, sizeof *p->local_sources);
    p->cover_first = ls_region_take(&p->memory, (size_t)machines + 1, sizeof *p->cover_first);
    p->covers = ls_region_take(&p->memory, groups, sizeof *p->covers);
    p->partials = ls_region_take(&p->memory, groups, sizeof *p->partials);
    return !p->memory.is_short;
}

/* Lists the maximal subtrees that each member holds, by rank. */
static void list_parts(ls_reduce_plan *p) {
    p->part_first[0] = 0;
    for (int r = 0; r < p->size; r++) {
        int n = ls_tree_cover(p->groups, p->bounds[r], p->bounds[r + 1], p->parts + p->part_first[r]);
        assert(n <= LS_TREE_COVER_MAX);
        p->part_first[r + 1] = p->part_first[r] + n;
        if (n > p->most_parts) p->most_parts = n;
    }
    p->all_parts = p->part_first[p->size];
}

/* Lists the maximal subtrees that the members of each machine hold together: what a machine sends to another. */
static ls_status list_covers(ls_reduce_plan *p, const ls_comm *comm) {
    unsigned char *held = malloc((size_t)p->groups);
    if (!held) return ls_fail(LS_ERR_RESOURCE, "out of memory for a reduction plan of %d groups", p->groups);
    p->cover_first[0] = 0;
    for (int m = 0; m < comm->machines; m++) {
        memset(held, 0, (size_t)p->groups);
        for (int i = comm->machine_first[m]; i < comm->machine_first[m + 1]; i++) {
            int r = comm->machine_ranks[i];
            memset(held + p->bounds[r], 1, (size_t)(p->bounds[r + 1] - p->bounds[r]));
        }
        p->cover_first[m + 1] = p->cover_first[m] + ls_tree_cover_held(p->groups, held, p->covers + p->cover_first[m]);
    }
    free(held);
    return LS_OK;
}

/* Orders sources by their first group, for qsort(). */
static int by_first(const void *a, const void *b) {
    return ((const ls_reduce_source *)a)->node.first - ((const ls_reduce_source *)b)->node.first;
}

/* Fills the lists of parts and covers, by first group: local_sources (of this machine), sources (also the covers of
 * other machines), and members (all parts; only with links). */
static void list_sources(ls_reduce_plan *p, const ls_comm *comm) {
    for (int l = 0; l < comm->local_size; l++) {
        int r = ls_comm_local_rank(comm, l);
        for (int i = p->part_first[r]; i < p->part_first[r + 1]; i++)
            p->local_sources[p->n_local++] = (ls_reduce_source){l, comm->machine, i - p->part_first[r], p->parts[i]};
    }
    qsort(p->local_sources, (size_t)p->n_local, sizeof *p->local_sources, by_first);
    memcpy(p->sources, p->local_sources, sizeof *p->sources * (size_t)p->n_local);
    p->n_sources = p->n_local;
    for (int m = 0; m < comm->machines; m++) {
        if (m == comm->machine) continue;
        for (int i = p->cover_first[m]; i < p->cover_first[m + 1]; i++)
            p->sources[p->n_sources++] = (ls_reduce_source){-1, m, i - p->cover_first[m], p->covers[i]};
    }
    qsort(p->sources, (size_t)p->n_sources, sizeof *p->sources, by_first);
    for (int r = 0; comm->links && r < comm->size; r++)
        for (int i = p->part_first[r]; i < p->part_first[r + 1]; i++)
            p->members[p->n_members++] = (ls_reduce_source){r, comm->machine_of[r], i - p->part_first[r], p->parts[i]};
    qsort(p->members, (size_t)p->n_members, sizeof *p->members, by_first);
}

/* Makes the sequences of additions: `whole`; `flat` if the communicator has links; `partials` if it has several
 * machines. */
static ls_status make_programs(ls_reduce_plan *p, const ls_comm *comm) {
    ls_tree_node *nodes = malloc(sizeof *nodes * (size_t)p->groups);
    if (!nodes) return ls_fail(LS_ERR_RESOURCE, "out of memory for a reduction plan of %d groups", p->groups);
    ls_status status;
    for (int i = 0; i < p->n_sources; i++) nodes[i] = p->sources[i].node;
    LS_TRY_OUT(ls_tree_program_make((ls_tree_node){0, p->groups}, nodes, p->n_sources, &p->whole));
    if (comm->links) {
        for (int i = 0; i < p->n_members; i++) nodes[i] = p->members[i].node;
        LS_TRY_OUT(ls_tree_program_make((ls_tree_node){0, p->groups}, nodes, p->n_members, &p->flat));
    }
    if (comm->machines > 1) {
        for (int i = 0; i < p->n_local; i++) nodes[i] = p->local_sources[i].node;
        int first = p->cover_first[comm->machine], covers = p->cover_first[comm->machine + 1] - first;
        for (int i = 0; i < covers; i++)
            LS_TRY_OUT(ls_tree_program_make(p->covers[first + i], nodes, p->n_local, &p->partials[i]));
    }
out:
    free(nodes);
    return status;
}

ls_status ls_reduce_plan_make(const ls_comm *comm, const ls_runs *runs, ls_reduce_plan **out) {
    *out = NULL;
    LS_TRY(check_runs(runs ? runs : &(ls_runs){.groups = comm->size}, comm->size));
    ls_reduce_plan *p = calloc(1, sizeof *p);
    if (!p) return ls_fail(LS_ERR_RESOURCE, "out of memory for a reduction plan");
    p->references = 1;
    p->size = comm->size;
    p->groups = runs ? runs->groups : comm->size;
    ls_status status;
    if (!allocate_lists(p, comm->machines)) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a reduction plan of %d groups", p->groups);
        goto out;
    }
    for (int r = 0; r <= p->size; r++) p->bounds[r] = runs ? run_begin(runs, p->size, r) : r;
    list_parts(p);
    LS_TRY_OUT(list_covers(p, comm));
    list_sources(p, comm);
    LS_TRY_OUT(make_programs(p, comm));
out:
    if (status != LS_OK) {
        ls_reduce_plan_release(p);
        return status;
    }
    *out = p;
    return LS_OK;
}

void ls_reduce_plan_release(ls_reduce_plan *plan) {
    if (!plan || --plan->references > 0) return;
    ls_tree_program_free(&plan->whole);
    ls_tree_program_free(&plan->flat);
    for (int i = 0; plan->partials && i < plan->groups; i++) ls_tree_program_free(&plan->partials[i]);
    ls_region_free(&plan->memory);
    free(plan);
}
