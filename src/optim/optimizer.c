/* optimizer.c: the same few scalars for all parameters, with decay and without. */
#include "optim/optimizer.h"

int ls_optimizer_moments(const ls_optimizer *optimizer) {
    if (optimizer->kind == LS_OPTIMIZER_ADAMW) return 2;
    return optimizer->sgd.momentum > 0 ? 1 : 0;
}

ls_status ls_optimizer_step(const ls_optimizer *optimizer, ls_device *device, ls_model *model,
                            const ls_adamw_powers *powers, double lr, float factor) {
    ls_adamw_step adamw[2];
    ls_sgd_step sgd[2];
    for (int decay = 0; decay < 2; decay++) {
        double rate = decay ? optimizer->weight_decay : 0;
        adamw[decay] = ls_adamw_scalars(powers, &optimizer->adamw, lr, rate, factor);
        sgd[decay] = ls_sgd_scalars(&optimizer->sgd, lr, rate, factor);
    }
    int count = ls_model_params(model);
    for (int i = 0; i < count; i++) {
        ls_param *p = ls_model_param(model, i);
        size_t n = ls_param_range_elems(p->own);
        if (n == 0) continue;
        if (optimizer->kind == LS_OPTIMIZER_ADAMW)
            LS_TRY(device->ops->adamw(device, p->own_w, p->moment[0], p->moment[1], NULL, p->own_grad, &adamw[p->decay],
                                      n));
        else
            LS_TRY(device->ops->sgd(device, p->own_w, p->moment[0], NULL, p->own_grad, &sgd[p->decay], n));
    }
    return LS_OK;
}
