/* sizes.c: the same step on fewer devices.
 *
 * A size is searched only if the model's matmuls at the rate of its chips alone would take less than the best time
 * found so far, and no layout is simulated whose bound is above that. Sizes that are powers of two come first, because
 * they soon lead near the best. */
#include "plan/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/cost/cost_case.h"

enum { NODE_STEPS = 256 };

typedef struct sizes {
    ls_plan_size *item;
    size_t count;
} sizes;

ls_plan_task ls_plan_task_of_size(const ls_plan_task *task, const ls_plan_size *size) {
    ls_plan_task out = *task;
    out.cluster.sites = 0;
    for (int i = 0; i < task->cluster.sites; i++) {
        if (size->chips[i] == 0) continue;
        ls_site *site = &out.cluster.site[out.cluster.sites++];
        *site = task->cluster.site[i];
        site->chips = size->chips[i];
    }
    return out;
}

/* Appends a size of `chips` devices at one site, none at the other. */
static ls_status add_size(sizes *all, int site, int chips) {
    LS_TRY(ls_array_grow(&all->item, all->count, sizeof *all->item, "sizes of a cluster"));
    ls_plan_size *size = &all->item[all->count++];
    memset(size, 0, sizeof *size);
    size->chips[site] = chips;
    return LS_OK;
}

static bool is_power(int n) { return (n & (n - 1)) == 0; }

/* Lists the sizes to try, powers of two (devices, or nodes) first; with one site, without the whole of it, which is
 * known already. */
static ls_status list_sizes(const ls_cluster *cluster, sizes *out) {
    for (int powers = 1; powers >= 0; powers--)
        for (int i = 0; i < cluster->sites; i++) {
            const ls_site *site = &cluster->site[i];
            int nodes = site->chips / site->node, step = (nodes + NODE_STEPS - 1) / NODE_STEPS;
            int most = cluster->sites > 1 ? site->chips : site->chips - 1; /* of one site, all is known already */
            for (int n = site->node < site->chips ? site->node - 1 : most; n > 0; n--)
                if (is_power(n) == (powers == 1)) LS_TRY(add_size(out, i, n));
            if (site->node >= site->chips) continue;
            for (int n = nodes; n > 0; n--)
                if (n * site->node <= most && is_power(n) == (powers == 1) && (powers || n % step == 0 || n == nodes))
                    LS_TRY(add_size(out, i, n * site->node));
        }
    return LS_OK;
}

/* Returns a lower bound of the step's time: the model's matmuls with every chip at its highest rate. */
static double least_seconds(const ls_plan_task *task, ls_plan_type type) {
    const ls_shape *shape = &task->shape;
    double tokens = (double)task->seq * (double)task->global_batch, rate = 0;
    double attention = 12 * tokens * (double)task->seq * (double)ls_shape_query_width(shape) * (double)shape->L;
    for (int i = 0; i < task->cluster.sites; i++)
        rate += ls_plan_rate(&task->cluster.site[i].chip, type) * task->cluster.site[i].chips;
    return (ls_plan_model_flops(shape, (double)task->seq, (double)task->global_batch) - attention) / rate;
}

/* Returns tokens per second. */
static double rate_of(const ls_plan_task *task, const ls_plan_choice *choice) {
    return (double)task->global_batch * (double)task->seq / choice->prediction.seconds;
}

/* Finds the best layout of a size. Its seconds and rate stay 0 if it would take longer than `limit` seconds, nothing
 * fits, or no layout is possible. */
static ls_status price(const ls_plan_task *task, const ls_layout_request *request, double limit, ls_plan_type type,
                       ls_plan_size *size) {
    ls_plan_task part = ls_plan_task_of_size(task, size);
    if (least_seconds(&part, type) > limit) return LS_OK;
    ls_status status = ls_plan_fastest(&part, request, limit, &size->best);
    if (status == LS_ERR_INPUT) return LS_OK; /* no layout is possible at this size */
    if (status == LS_OK && size->best.prediction.seconds > 0) size->tokens_per_second = rate_of(task, &size->best);
    return status;
}

/* Prices every size, and sets `sizes`, `fastest` and `nearly` of *out; `all` is set by the caller. */
static ls_status price_all(const ls_plan_task *task, const ls_layout_request *request, sizes *all, ls_plan_use *out) {
    ls_plan_type type = out->all.best.layout.type;
    LS_TRY(list_sizes(&task->cluster, all));
    out->sizes = (int)all->count + 1;
    for (size_t i = 0; i < all->count; i++) {
        ls_plan_size *size = &all->item[i];
        LS_TRY(price(task, request, out->fastest.best.prediction.seconds / (1 - LS_PLAN_SIZE_NEARLY), type, size));
        bool faster = size->tokens_per_second > out->fastest.tokens_per_second;
        if (faster) out->fastest = *size;
    }
    out->nearly = out->fastest;
    double least = out->fastest.tokens_per_second * (1 - LS_PLAN_SIZE_NEARLY);
    for (size_t i = 0; i < all->count; i++) {
        const ls_plan_size *size = &all->item[i];
        if (size->tokens_per_second < least || ls_plan_size_chips(size) > ls_plan_size_chips(&out->nearly)) continue;
        bool same = ls_plan_size_chips(size) == ls_plan_size_chips(&out->nearly);
        if (!same || size->tokens_per_second > out->nearly.tokens_per_second) out->nearly = *size;
    }
    return LS_OK;
}

ls_status ls_plan_sizes(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *best,
                        ls_plan_use *out) {
    sizes all = {0};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < task->cluster.sites; i++) out->all.chips[i] = task->cluster.site[i].chips;
    out->all.best = *best;
    out->all.tokens_per_second = rate_of(task, best);
    out->fastest = out->all;
    ls_status status = price_all(task, request, &all, out);
    free(all.item);
    return status;
}
