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
    for (int b = 0; b < model->nblocks; b++) {
        for (int i = 0; i < model->blocks[b].nparams; i++) {
            ls_param *p = &model->blocks[b].param[i];
            size_t n = ls_param_elems(p);
            if (optimizer->kind == LS_OPTIMIZER_ADAMW)
                LS_TRY(device->ops->adamw(device, p->w, p->moment[0], p->moment[1], NULL, p->grad.slot[0],
                                          &adamw[p->decay], n));
            else
                LS_TRY(device->ops->sgd(device, p->w, p->moment[0], NULL, p->grad.slot[0], &sgd[p->decay], n));
        }
    }
    return LS_OK;
}
