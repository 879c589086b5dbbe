/* space.h: every layout that a task and the given knobs leave open, one after the other, always in the same order.
 *
 *   tp               divides heads and chips, agrees with the key/value heads, and stays in a node unless it is given
 *   pp               at most the layers, divides what tp leaves of the chips; dp is the rest
 *   micro            divides the sequences of a replica; dp divides the batch, unless nothing would be left
 *   schedule         1f1b; interleaved with chunks that divide the layers; zero-bubble where the program has it;
 *                    others when they are given
 *   zero             all; 2 and 3 beside a pipeline only where the program can, or when it is given
 *   recompute        all, without what would be the same
 *   sites            with two: stages divided between them, and replicas
 */
#ifndef LS_PLAN_SPACE_H
#define LS_PLAN_SPACE_H

#include "plan/search.h"

typedef ls_status ls_plan_visit(void *state, const ls_knobs *layout);

/* LS_ERR_INPUT where there is none, with the reason; whatever the visitor returns. */
ls_status ls_plan_space(const ls_plan_task *task, const ls_layout_request *request, ls_plan_visit *visit, void *state);
/* The type of products where none is asked for: bf16, fp16 on chips without it, fp32 on CPUs. */
ls_plan_type ls_plan_usual_type(const ls_cluster *cluster);

#endif
