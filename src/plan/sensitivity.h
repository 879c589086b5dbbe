/* sensitivity.h: what becomes of a choice where the world is not as assumed: slower links, the model's own error, less
 * memory; and the layout that minds this least. */
#ifndef LS_PLAN_SENSITIVITY_H
#define LS_PLAN_SENSITIVITY_H

#include "plan/search.h"

#define LS_PLAN_LINK_SHARE .5     /* of a link's bandwidth, that is left */
#define LS_PLAN_MEMORY_SHARE .95  /* of the memory that a plan may use */
#define LS_PLAN_ROBUST_WITHIN .05 /* a robust layout may take so much longer than the fastest, */
#define LS_PLAN_COLLAPSE .10      /* which loses more than that with half the bandwidth */

typedef struct ls_plan_sensitivity {
    ls_link link;               /* that has half its bandwidth: between sites and nodes, in one node that inside */
    const char *where;          /* "between nodes" */
    ls_prediction slow;         /* of the choice, with that */
    ls_plan_choice link_best;   /* the best then */
    bool fits_less;             /* the choice, in LS_PLAN_MEMORY_SHARE of the memory */
    ls_plan_choice memory_best; /* the best then; seconds 0: nothing fits */
    int near;                   /* other kept layouts within the error band */
    ls_plan_choice robust;      /* seconds 0: the fastest does not collapse, or none does better */
    double robust_link_seconds; /* of it, with half the bandwidth */
} ls_plan_sensitivity;

/* `error`: the model's band as a share of the time. */
ls_status ls_plan_sensitivity_find(const ls_plan_task *task, const ls_layout_request *request,
                                   const ls_plan_found *found, double error, ls_plan_sensitivity *out);

#endif
