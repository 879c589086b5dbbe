/* cmd_scale.c: `lockstep scale`: measures what more workers bring, and says where they stop helping, and why. */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/scale/scale.h"

static ls_status work(const ls_scale_plan *plan, ls_scale_found *found) {
    const ls_options *o = plan->opts;
    for (int i = 0; i < plan->models; i++) {
        LS_TRY(ls_scale_run(plan, plan->model[i], &found[i]));
        ls_scale_find(plan, &found[i]);
        if (o->json) continue;
        if (i > 0) printf("\n");
        ls_scale_print(plan, &found[i]);
    }
    if (o->json) LS_TRY(ls_scale_print_json(plan, found, plan->models));
    return o->out ? ls_scale_write_page(plan, found, plan->models, o->out) : LS_OK;
}

ls_status ls_cmd_scale(const ls_options *opts) {
    ls_scale_plan plan;
    LS_TRY(ls_scale_plan_make(opts, &plan));
    ls_scale_found *found = calloc((size_t)plan.models, sizeof *found);
    ls_status status = found ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the measurements");
    if (status == LS_OK) status = work(&plan, found);
    free(found);
    ls_scale_plan_free(&plan);
    return status;
}
