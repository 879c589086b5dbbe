/* run.h: one row of `lockstep verify`, in workers of its own. */
#ifndef LS_CLI_VERIFY_RUN_H
#define LS_CLI_VERIFY_RUN_H

#include "cli/verify/case.h"
#include "lab/verify/sum_orders_run.h"
#include "lab/scale/trial.h"

/* Where rows run: in processes that are forked for each of them, or in those that a launcher has started, which then
 * make every call together. */
typedef struct ls_verify_place {
    const ls_options *options;
    ls_world *world; /* the launcher's; NULL: forked */
} ls_verify_place;

typedef struct ls_verify_order {
    ls_verify_job job;
    int workers, threads; /* threads 0: the cores shared out; a launcher's workers have the threads that they have */
    ls_verify_isa isa;
    bool traced;               /* into the file of --trace */
    const ls_order_task *sums; /* NULL: the job; else the job with its gradients added another way */
    ls_scale_record *times;    /* NULL: the job; else the job's steps are timed */
} ls_verify_order;

/* Whether this process tells the user. */
static inline bool ls_verify_is_first(const ls_verify_place *place) {
    return !place->world || ls_world_rank(place->world) == 0;
}

/* Of a launcher's workers one works alone where `workers` is 1, and the others wait. */
ls_status ls_verify_run(const ls_verify_place *place, ls_verify_order *order);

#endif
