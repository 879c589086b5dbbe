/* sizes.h: whether all devices should be used: predicts every size of the cluster from one device to all. */
#ifndef LS_PLAN_SIZES_H
#define LS_PLAN_SIZES_H

#include "plan/search.h"

/* Fewer devices are worth mentioning if they lose no more than this share of the throughput. */
#define LS_PLAN_SIZE_NEARLY .03

typedef struct ls_plan_size {
    int chips[LS_SITES_MAX]; /* of each site; 0: the site is not used */
    ls_plan_choice best;     /* prediction.seconds 0: nothing fits */
    double tokens_per_second;
} ls_plan_size;

typedef struct ls_plan_use {
    ls_plan_size all;     /* every device */
    ls_plan_size fastest; /* may be the same */
    ls_plan_size
        nearly; /* fewest devices within LS_PLAN_SIZE_NEARLY of the fastest; the fastest, where none are fewer */
    int sizes;  /* in total; sizes that a bound shows to be slower are not searched */
} ls_plan_use;

static inline int ls_plan_size_chips(const ls_plan_size *size) { return size->chips[0] + size->chips[1]; }
/* Whether the fastest size leaves devices unused; whether a smaller size is nearly as fast. */
static inline bool ls_plan_use_is_fewer(const ls_plan_use *use) {
    return ls_plan_size_chips(&use->fastest) < ls_plan_size_chips(&use->all);
}
static inline bool ls_plan_use_has_nearly(const ls_plan_use *use) {
    return ls_plan_size_chips(&use->nearly) < ls_plan_size_chips(&use->fastest);
}

/* Returns the task on these devices only, with the same global batch. */
ls_plan_task ls_plan_task_of_size(const ls_plan_task *task, const ls_plan_size *size);
/* Tries sizes from one device to a node, then whole nodes (at most 256 sizes), each of two sites alone, and all
 * devices. `best` is the fastest layout on all. */
ls_status ls_plan_sizes(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *best,
                        ls_plan_use *out);

#endif
