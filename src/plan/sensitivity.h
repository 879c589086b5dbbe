/* sensitivity.h: how the best layout of a search fares if assumptions are wrong: slower links, errors of the cost
 * model, less memory; and the layout that is least sensitive to slower links. */
#ifndef LS_PLAN_SENSITIVITY_H
#define LS_PLAN_SENSITIVITY_H

#include "plan/search.h"

#define LS_PLAN_LINK_SHARE .5     /* remaining share of a link's bandwidth */
#define LS_PLAN_MEMORY_SHARE .95  /* remaining share of the usable memory */
#define LS_PLAN_ROBUST_WITHIN .05 /* a robust layout takes at most this share longer than the fastest, */
#define LS_PLAN_COLLAPSE .10      /* if the fastest loses more than this with half the bandwidth */

typedef struct ls_plan_sensitivity {
    ls_link link; /* the link that is halved, as it is now: between sites (then those between nodes are halved too),
                     else between nodes, else in the single node */
    const char *where;          /* "between nodes"; a constant */
    ls_prediction slow;         /* prediction of the choice with half the bandwidth */
    ls_plan_choice link_best;   /* the best layout then */
    bool fits_less;             /* the choice fits in LS_PLAN_MEMORY_SHARE of the memory */
    ls_plan_choice memory_best; /* the best layout there; seconds 0: nothing fits */
    int near;                   /* other kept layouts within the error band of the best */
    ls_plan_choice robust;      /* with the links as they are; it fits in LS_PLAN_MEMORY_SHARE of the memory. seconds 0:
                                   the fastest loses at most LS_PLAN_COLLAPSE, or none is that much faster then */
    double robust_link_seconds; /* of `robust` with half the bandwidth */
} ls_plan_sensitivity;

/* Computes the sensitivity of found->fits[0], which must exist. `error`: the cost model's error band, as a share of the
 * time. */
ls_status ls_plan_sensitivity_find(const ls_plan_task *task, const ls_layout_request *request,
                                   const ls_plan_found *found, double error, ls_plan_sensitivity *out);

#endif
