/* sizes.h: whether all devices should be used: every size of the cluster from one device to all is priced. */
#ifndef LS_PLAN_SIZES_H
#define LS_PLAN_SIZES_H

#include "plan/search.h"

/* Fewer devices that lose no more than this share of the throughput are worth a word. */
#define LS_PLAN_SIZE_NEARLY .03

typedef struct ls_plan_size {
    int chips[LS_SITES_MAX]; /* of each site; 0: it is not used */
    ls_plan_choice best;     /* prediction.seconds 0: there is none */
    double tokens_per_second;
} ls_plan_size;

typedef struct ls_plan_use {
    ls_plan_size all;     /* every device */
    ls_plan_size fastest; /* may be the same */
    ls_plan_size
        nearly; /* fewest devices within LS_PLAN_SIZE_NEARLY of the fastest; the fastest, where none are fewer */
    int sizes;  /* that there are; not all have to be searched to know that they are slower */
} ls_plan_use;

static inline int ls_plan_size_chips(const ls_plan_size *size) { return size->chips[0] + size->chips[1]; }
/* Whether the fastest size leaves devices out; whether fewer than the fastest do nearly as well. */
static inline bool ls_plan_use_is_fewer(const ls_plan_use *use) {
    return ls_plan_size_chips(&use->fastest) < ls_plan_size_chips(&use->all);
}
static inline bool ls_plan_use_has_nearly(const ls_plan_use *use) {
    return ls_plan_size_chips(&use->nearly) < ls_plan_size_chips(&use->fastest);
}

/* The task on these devices alone, the batch as it is. */
ls_plan_task ls_plan_task_of_size(const ls_plan_task *task, const ls_plan_size *size);
/* From one device to a node, then in whole nodes (of more than 256 nodes in so many steps), of each of two sites alone,
 * and all. `best`: the fastest layout on all. */
ls_status ls_plan_sizes(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *best,
                        ls_plan_use *out);

#endif
