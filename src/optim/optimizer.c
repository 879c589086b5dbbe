/* optimizer.c: the same few scalars for all parameters, with decay and without. */
#include "optim/optimizer.h"

int ls_optimizer_moments(const ls_optimizer *optimizer) {
    if (optimizer->kind == LS_OPTIMIZER_ADAMW) return 2;
    return optimizer->sgd.momentum > 0 ? 1 : 0;
}

ls_optimizer_update ls_optimizer_update_at(const ls_optimizer *optimizer, const ls_adamw_powers *powers, double lr,
                                           float factor) {
    ls_optimizer_update update = {.kind = optimizer->kind};
    for (int decay = 0; decay < 2; decay++) {
        double rate = decay ? optimizer->weight_decay : 0;
        update.adamw[decay] = ls_adamw_scalars(powers, &optimizer->adamw, lr, rate, factor);
        update.sgd[decay] = ls_sgd_scalars(&optimizer->sgd, lr, rate, factor);
    }
    return update;
}

ls_status ls_optimizer_run(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_param *param, size_t first, size_t count) {
    float *w = param->own_w + first, *m = param->moment[0], *v = param->moment[1];
    const float *g = param->own_grad + first;
    uint16_t *copy = param->own_w16 ? param->own_w16 + first : NULL;
    if (param->running) {
        ls_sgd_step step = {
            .factor = (float)(-param->follow / update->ghosts), .rate = (float)LS_RUNNING_RATE, .weight_decay = 1};
        return device->ops->sgd(device, w, NULL, NULL, policy->act, g, &step, count);
    }
    if (update->kind == LS_OPTIMIZER_ADAMW)
        LS_TRY(device->ops->adamw(device, w, m + first, v + first, copy, policy->act, g, &update->adamw[param->decay],
                                  count));
    else
        LS_TRY(
            device->ops->sgd(device, w, m ? m + first : NULL, copy, policy->act, g, &update->sgd[param->decay], count));
    return copy && policy->no_master ? device->ops->round(device, w, w, policy->act, count) : LS_OK;
}

ls_status ls_optimizer_step(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                            const ls_model *model) {
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *param = ls_model_param(model, i);
        size_t own = ls_param_range_elems(param->own);
        if (own > 0) LS_TRY(ls_optimizer_run(update, device, policy, param, 0, own));
    }
    return LS_OK;
}
