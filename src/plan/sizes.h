/* sizes.h: finds out whether fewer devices would be as fast: predicts the best layout for parts of the cluster. Small
 * models on many devices are slower than on some of them, because communication outgrows the work. */
#ifndef LS_PLAN_SIZES_H
#define LS_PLAN_SIZES_H

#include "plan/search.h"

/* A smaller part is reported if it loses at most this share of the best throughput. */
#define LS_PLAN_SIZE_NEARLY .03

typedef struct ls_plan_size {
    int chips[LS_SITES_MAX];  /* devices used at each site */
    ls_plan_choice best;      /* fastest layout; seconds 0: none fits or is possible, or a bound ruled the size out */
    double tokens_per_second; /* 0 likewise */
} ls_plan_size;

typedef struct ls_plan_use {
    ls_plan_size all;     /* every device */
    ls_plan_size fastest; /* may equal `all` */
    ls_plan_size nearly;  /* the fewest devices within LS_PLAN_SIZE_NEARLY of `fastest`; may equal it */
    int sizes;            /* considered, also those that a bound ruled out without a search */
} ls_plan_use;

/* Returns the devices of a size at both sites together. */
static inline int ls_plan_size_chips(const ls_plan_size *size) { return size->chips[0] + size->chips[1]; }
/* Returns whether the fastest size leaves devices unused. */
static inline bool ls_plan_use_is_fewer(const ls_plan_use *use) {
    return ls_plan_size_chips(&use->fastest) < ls_plan_size_chips(&use->all);
}
/* Returns whether a smaller size is nearly as fast as the fastest. */
static inline bool ls_plan_use_has_nearly(const ls_plan_use *use) {
    return ls_plan_size_chips(&use->nearly) < ls_plan_size_chips(&use->fastest);
}

/* Returns the task on the devices of `size` only, with the same global batch; a site without devices is left out. */
ls_plan_task ls_plan_task_of_size(const ls_plan_task *task, const ls_plan_size *size);
/* Searches the best layout for every size: 1 device up to a node, then whole nodes (about 256 numbers of them at equal
 * steps, and all powers of two), and all devices. With two sites, each site is tried alone. `best` is the fastest
 * layout on all devices, which the caller knows already. A size on which no layout is possible is no error. */
ls_status ls_plan_sizes(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *best,
                        ls_plan_use *out);

#endif
