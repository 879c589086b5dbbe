/* reduce_plan.h: which member holds which subtree of an ordered sum, and which sums this worker computes.
 *
 * An ordered sum adds up one contribution of each group (lockstep.h: ls_runs) in the order of one balanced binary tree,
 * whose nodes are called subtrees (numerics/tree.h). A plan is a pure function of the runs and of the members'
 * machines, so all members derive the same plan without communication. Sums on host memory, peers and links use it. A
 * communicator keeps the last plan; requests share it by counting references, on the worker's main thread. */
#ifndef LS_COMM_REDUCE_PLAN_H
#define LS_COMM_REDUCE_PLAN_H

#include "comm/world/comm.h"

/* A subtree that this worker can read: part `index` of local member `local`; or, if local is −1, subtree `index` of
 * another machine, which arrives as a message. */
typedef struct ls_reduce_source {
    int local, machine, index;
    ls_tree_node node;
} ls_reduce_source;

/* A program's sources are indices into the list it belongs to: `sources`, `members` or `local_sources`. */
typedef struct ls_reduce_plan {
    int references;
    ls_region memory;
    int groups, size;          /* of the sum; members of the communicator */
    int *bounds;               /* size + 1: member r holds groups bounds[r] … bounds[r+1] − 1 */
    int most_parts, all_parts; /* parts (maximal subtrees) of the member that holds most, and of all members together */
    int *part_first;           /* size + 1: rank r's parts are parts[part_first[r]] … */
    ls_tree_node *parts;       /* of all members */

    int n_sources; /* the parts of this machine and the subtrees of the others, which make up the whole sum */
    ls_reduce_source *sources;
    ls_tree_program whole; /* adds up `sources` to the whole sum */

    int n_members; /* parts of all members, for sums over links (without links 0); here `local` is a rank */
    ls_reduce_source *members;
    ls_tree_program flat; /* adds up `members` to the whole sum */

    int n_local; /* the parts on this machine */
    ls_reduce_source *local_sources;
    int *cover_first;          /* machines + 1: a machine's maximal subtrees are covers[cover_first[m]] … */
    ls_tree_node *covers;      /* of all machines */
    ls_tree_program *partials; /* one for each cover of this machine, from local_sources; empty on one machine */
} ls_reduce_plan;

/* Validates the runs (NULL: one group for each member) and makes a plan, which the caller owns: one reference.
 * LS_ERR_INPUT names the wrong run or number of groups. After an error *out is NULL. */
ls_status ls_reduce_plan_make(const ls_comm *comm, const ls_runs *runs, ls_reduce_plan **out);
/* Returns whether the plan was made for these runs, so that it can be used again; false for NULL. */
bool ls_reduce_plan_fits(const ls_reduce_plan *plan, int size, const ls_runs *runs);
/* Drops a reference; the last one frees the plan. NULL does nothing. */
void ls_reduce_plan_release(ls_reduce_plan *plan);

#endif
