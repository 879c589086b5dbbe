/* reduce_plan.h: who holds which subtree, and what this worker adds up.
 *
 * A pure function of the runs and of where the members are, so all members have the same picture without asking. */
#ifndef LS_COMM_REDUCE_PLAN_H
#define LS_COMM_REDUCE_PLAN_H

#include <stdbool.h>

#include "base/memory.h"
#include "numerics/tree.h"

/* A subtree that this worker can read: part `index` of local member `local`, or, where local is −1, subtree `index` of
 * another machine, which arrives as a message. */
typedef struct ls_reduce_source {
    int local, machine, index;
    ls_tree_node node;
} ls_reduce_source;

/* What to add up for one subtree; sources are numbers into `sources` of the plan's local or full list. */
typedef struct ls_reduce_plan {
    int references;
    ls_region memory;
    int groups, size;
    int *bounds; /* size + 1 */
    int most_parts, all_parts;
    int *part_first;     /* size + 1: rank r's parts are parts[part_first[r]] … */
    ls_tree_node *parts; /* of all members */

    int n_sources; /* everything that makes up the whole sum, as seen from this machine */
    ls_reduce_source *sources;
    ls_tree_program whole;

    int n_members; /* parts of all members, where links bring them: `local` is a rank */
    ls_reduce_source *members;
    ls_tree_program flat;

    int n_local; /* the parts on this machine */
    ls_reduce_source *local_sources;
    int *cover_first;          /* machines + 1: a machine's maximal subtrees are covers[cover_first[m]] … */
    ls_tree_node *covers;      /* of all machines */
    ls_tree_program *partials; /* how this machine's covers come from local_sources */
} ls_reduce_plan;

/* Validates the runs and makes the plan with one reference. */
ls_status ls_reduce_plan_make(const ls_comm *comm, const ls_runs *runs, ls_reduce_plan **out);
bool ls_reduce_plan_fits(const ls_reduce_plan *plan, int size, const ls_runs *runs);
void ls_reduce_plan_release(ls_reduce_plan *plan);

#endif
