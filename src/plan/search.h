/* search.h: all layouts of a task, the fastest that fit first, and the nearest that do not. */
#ifndef LS_PLAN_SEARCH_H
#define LS_PLAN_SEARCH_H

#include "plan/plan.h"

typedef struct ls_plan_choice {
    ls_knobs layout;
    ls_prediction prediction;
} ls_plan_choice;

enum { LS_PLAN_KEPT = 16 };
/* Layouts that are so much apart in time count as equal where one is simpler. */
#define LS_PLAN_NEARLY .01

typedef struct ls_plan_found {
    int fitting, missing; /* how many are kept below */
    ls_plan_choice
        fits[LS_PLAN_KEPT];             /* fastest first; they differ in dp, tp, pp, zero or recomputation; with fewer
                                           virtual stages where that is within LS_PLAN_NEARLY of the fastest of the kind */
    ls_plan_choice lacks[LS_PLAN_KEPT]; /* faster than the best that fits first; of those that lack least first */
    long long tried, fit;               /* layouts in all, and those that fit */
} ls_plan_found;

/* LS_ERR_INPUT where no layout is possible at all; that none fits is no error: `fitting` is 0. The same input gives the
 * same answer. 175 billion parameters on 1,024 chips take less than 2 s. */
ls_status ls_plan_search(const ls_plan_task *task, const ls_layout_request *request, ls_plan_found *out);

/* The first that the search would find, alone and sooner; seconds 0: nothing fits that takes at most `limit` (0: any
 * time). Errors as above. */
ls_status ls_plan_fastest(const ls_plan_task *task, const ls_layout_request *request, double limit,
                          ls_plan_choice *out);
/* The task with as much memory for each chip as the request allows; chips of two sites keep the same share of theirs.
 */
ls_plan_task ls_plan_usable(const ls_plan_task *task, const ls_layout_request *request);

/* space.c: every layout that a task and the given knobs leave open, one after the other, always in the same order.
 *
 *   tp               divides heads and chips, agrees with the key/value heads, and stays in a node unless it is given
 *   pp               at most the layers, divides what tp leaves of the chips; dp is the rest
 *   micro            divides the sequences of a replica; dp divides the batch, unless nothing would be left
 *   schedule         1f1b; interleaved with chunks that divide the layers; zero-bubble where the program has it;
 *                    others when they are given
 *   zero             all; 2 and 3 beside a pipeline only where the program can, or when it is given
 *   recompute        all, without what would be the same
 *   sites            with two: stages divided between them, and replicas */
typedef ls_status ls_plan_visit(void *state, const ls_knobs *layout);

/* LS_ERR_INPUT where there is none, with the reason; whatever the visitor returns. */
ls_status ls_plan_space(const ls_plan_task *task, const ls_layout_request *request, ls_plan_visit *visit, void *state);
/* The type of matmuls where none is asked for: bf16, fp16 on chips without it, fp32 on CPUs. */
ls_plan_type ls_plan_usual_type(const ls_cluster *cluster);

#endif
