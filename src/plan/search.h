/* search.h: searches all layouts of a task: the fastest that fit, and those that lack the least memory. */
#ifndef LS_PLAN_SEARCH_H
#define LS_PLAN_SEARCH_H

#include "plan/plan.h"

typedef struct ls_plan_choice {
    ls_knobs layout;
    ls_prediction prediction;
} ls_plan_choice;

enum { LS_PLAN_KEPT = 16 };
/* Layouts whose times differ by no more than this share count as equal; the simpler one is preferred. */
#define LS_PLAN_NEARLY .01

typedef struct ls_plan_found {
    int fitting, missing;               /* entries of `fits` and of `lacks` */
    ls_plan_choice fits[LS_PLAN_KEPT];  /* fastest first, one of each kind: kinds differ in dp, tp, pp, context, zero,
                                           recomputation, the cut between sites or sharding in groups; with fewer
                                           virtual stages where that is within LS_PLAN_NEARLY of the kind's fastest */
    ls_plan_choice lacks[LS_PLAN_KEPT]; /* layouts that do not fit, one of each kind: those whose lower bound is below
                                           the best time that fits come first; among both, the least missing memory */
    long long tried, fit;               /* layouts in all, and those that fit */
} ls_plan_found;

/* Searches all layouts, with those knobs fixed that the request gives. Fails with LS_ERR_INPUT if no layout is
 * possible; if none fits in memory, `fitting` is 0. The result is deterministic. A search for 175 billion parameters on
 * 1,024 chips takes less than 2 s. */
ls_status ls_plan_search(const ls_plan_task *task, const ls_layout_request *request, ls_plan_found *out);

/* Finds only the fastest layout of ls_plan_search(), which takes less time. *out is all 0 (seconds 0) if no layout that
 * takes at most `limit` seconds (0: no limit) fits. Errors as above. */
ls_status ls_plan_fastest(const ls_plan_task *task, const ls_layout_request *request, double limit,
                          ls_plan_choice *out);
/* Returns the task with the memory of each chip limited to request->memory_bytes (0: no limit); with two sites that is
 * the memory of the smaller chip, and the larger one is limited to the same share. */
ls_plan_task ls_plan_usable(const ls_plan_task *task, const ls_layout_request *request);

/* space.c: enumerates the layouts that a task and the given knobs allow, always in the same order.
 *
 *   tp               divides heads and chips, agrees with the key/value heads, and stays in a node unless it is given
 *   pp               at most the layers, divides what tp leaves of the chips; dp is the rest
 *   context          powers of two with 4096 tokens a chip or more, where the program balances them; else 1
 *   sequence par.    with every tp above 1, unless it is given as off
 *   micro            divides the sequences of a replica, at most 24 values up to 4096; dp divides the batch, unless
 *                    nothing would be left
 *   schedule         1f1b; interleaved with chunks that divide the layers (embedding and head may count as two more)
 *                    and with micro-batches that pp divides; zero-bubble where the program has it; others when given
 *   zero             all; 2 and 3 beside a pipeline only where the program can, or when it is given
 *   recompute        all, without what would be the same
 *   sites            with two: stages divided between them, and replicas */
typedef ls_status ls_plan_visit(void *state, const ls_knobs *layout);

/* Calls `visit` for each layout that ls_plan_check() accepts, whether or not it fits in memory. Replicas get unequal
 * shares of the batch only if no equal division exists. Fails with LS_ERR_INPUT and the reason if there is none, or as
 * the visitor fails. */
ls_status ls_plan_space(const ls_plan_task *task, const ls_layout_request *request, ls_plan_visit *visit, void *state);
/* Returns the default type of matmuls: bf16; fp16 if a chip lacks bf16; fp32 if it lacks both, and on CPUs. */
ls_plan_type ls_plan_usual_type(const ls_cluster *cluster);

#endif
