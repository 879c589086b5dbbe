/* optimizer.c: computes the scalars of a step, and runs the step. */
#include "optim/optimizer.h"

#include <assert.h>
#include <math.h>

/* Fails with LS_ERR_INPUT, naming `what`, unless 0 ≤ value < 1. */
static ls_status check_below_one(const char *what, double value) {
    if (value >= 0 && value < 1) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s is %g; it must be at least 0 and below 1", what, value);
}

ls_status ls_adamw_options_check(const ls_adamw_options *o) {
    LS_TRY(check_below_one("beta1 of AdamW", o->beta1));
    LS_TRY(check_below_one("beta2 of AdamW", o->beta2));
    if (o->epsilon >= LS_ADAMW_EPSILON_MIN && isfinite(o->epsilon)) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "epsilon of AdamW is %g; it must be at least %g: a weight without gradient would become 0/0",
                   o->epsilon, LS_ADAMW_EPSILON_MIN);
}

ls_status ls_sgd_options_check(const ls_sgd_options *o) {
    LS_TRY(check_below_one("the momentum of SGD", o->momentum));
    if (o->nesterov && o->momentum == 0)
        return ls_fail(LS_ERR_INPUT, "Nesterov momentum needs a momentum above 0; it is 0");
    return LS_OK;
}

void ls_adamw_powers_move(ls_adamw_powers *p, const ls_adamw_options *o, int64_t updates) {
    assert(updates >= 0);
    if (p->updates == 0 || updates < p->updates) *p = (ls_adamw_powers){.beta1 = 1, .beta2 = 1};
    for (; p->updates < updates; p->updates++) {
        p->beta1 *= o->beta1;
        p->beta2 *= o->beta2;
    }
}

ls_update_step ls_adamw_scalars(const ls_adamw_powers *p, const ls_adamw_options *o, double lr, double weight_decay,
                                float factor) {
    assert(p->updates >= 1);
    return (ls_update_step){
        .rule = LS_OPTIMIZER_ADAMW,
        .factor = factor,
        .beta1 = (float)o->beta1,
        .beta1_rest = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .beta2_rest = (float)(1.0 - o->beta2),
        .rate = (float)(lr / (1.0 - p->beta1)),
        .root = (float)(1.0 / sqrt(1.0 - p->beta2)),
        .epsilon = (float)o->epsilon,
        .decay = (float)(1.0 - lr * weight_decay),
    };
}

ls_update_step ls_sgd_scalars(const ls_sgd_options *o, double lr, double weight_decay, float factor) {
    return (ls_update_step){
        .rule = LS_OPTIMIZER_SGD,
        .factor = factor,
        .rate = (float)lr,
        .momentum = (float)o->momentum,
        .weight_decay = (float)weight_decay,
        .nesterov = o->nesterov,
    };
}

int ls_optimizer_moments(const ls_optimizer *optimizer) {
    if (optimizer->kind == LS_OPTIMIZER_ADAMW) return 2;
    return optimizer->sgd.momentum > 0 ? 1 : 0;
}

ls_optimizer_update ls_optimizer_update_at(const ls_optimizer *optimizer, const ls_adamw_powers *powers, double lr,
                                           float factor) {
    ls_optimizer_update update = {.ghosts = 0};
    for (int decay = 0; decay < 2; decay++) {
        double weight_decay = decay ? optimizer->weight_decay : 0;
        update.step[decay] = optimizer->kind == LS_OPTIMIZER_ADAMW
                                 ? ls_adamw_scalars(powers, &optimizer->adamw, lr, weight_decay, factor)
                                 : ls_sgd_scalars(&optimizer->sgd, lr, weight_decay, factor);
    }
    return update;
}

/* Returns where the state sums of own elements first … first + count − 1 go: with update->sums NULL nowhere. */
static ls_update_sums sums_of(const ls_optimizer_update *update, const ls_param *param, size_t first, size_t count) {
    size_t begin = param->own.begin + first, end = begin + count;
    size_t once = param->once.begin > begin ? param->once.begin : begin,
           once_end = param->once.end < end ? param->once.end : end;
    ls_update_sums sums = {.tensor = ls_param_state_tensor(param), .first = param->first_row * param->columns + begin};
    if (!update->sums) return sums;
    sums.once = update->sums + (size_t)param->number * LS_PARAM_SUMS;
    if (once < once_end) {
        sums.begin = once - begin;
        sums.end = once_end - begin;
    }
    if (update->sums_rest) sums.rest = sums.once + LS_STATE_TENSORS;
    return sums;
}

/* Returns the arguments that update own elements first … first + count − 1: pointers to them, the scalars with or
 * without decay, and where their checksums go. */
static ls_update_piece piece_of(const ls_optimizer_update *update, const ls_policy *policy, const ls_param *param,
                                size_t first, size_t count) {
    ls_update_piece piece = {.w = param->own_w + first,
                             .g = param->own_grad + first,
                             .copy_dtype = policy->act,
                             .step = &update->step[param->decay],
                             .n = count,
                             .sums = sums_of(update, param, first, count),
                             .cells = param->cells,
                             .name = param->number,
                             .first = first};
    for (int i = 0; i < LS_MOMENTS_MAX; i++)
        if (param->moment[i]) piece.moment[i] = param->moment[i] + first;
    if (param->own_w16) piece.copy = param->own_w16 + first;
    if (update->copy_sums && ls_optimizer_sums_copy(param)) {
        piece.sums.copy_tensor = (uint64_t)param->number * LS_COPY_SUMS + 1;
        piece.sums.copy = update->copy_sums + piece.sums.copy_tensor;
    }
    if (update->keeps_blocks) piece.check = (ls_update_check){param->block_sums, update->damage};
    return piece;
}

/* Returns whether the fp32 weights are rounded to 16 bits after each update, because the policy has no master
 * weights. */
static bool is_rounded(const ls_policy *policy, const ls_param *param) {
    return policy->no_master && (param->own_w16 || param->rounded);
}

/* Adds the state sums (and writes the block sums, if kept) of a piece as it is in memory; sets piece->mode. */
static ls_status sum_piece(ls_device *device, ls_update_piece *piece) {
    ls_state_piece pieces[LS_UPDATE_STATE_MAX];
    piece->mode = LS_UPDATE_RECORD;
    if (piece->check.sums) return device->ops->update(device, &(ls_update_call){piece, 1});
    int count = ls_update_state_pieces(piece, 0, piece->n, pieces);
    return count > 0 ? device->ops->state_sums(device, &(ls_state_sums_call){pieces, count}) : LS_OK;
}

ls_status ls_optimizer_run(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_param *param, size_t first, size_t count) {
    ls_update_piece piece = piece_of(update, policy, param, first, count);
    ls_update_step follow = {.rule = LS_OPTIMIZER_SGD, .rate = (float)LS_RUNNING_RATE, .weight_decay = 1};
    if (param->running) {
        follow.factor = (float)(-param->follow / update->ghosts);
        piece.step = &follow;
        piece.moment[0] = piece.moment[1] = NULL;
        piece.copy = NULL;
    }
    if (param->running || !is_rounded(policy, param)) return device->ops->update(device, &(ls_update_call){&piece, 1});
    ls_update_piece unsummed = piece;
    unsummed.sums.once = unsummed.sums.rest = NULL;
    LS_TRY(device->ops->update(device, &(ls_update_call){&unsummed, 1}));
    LS_TRY(device->ops->round(device, &(ls_round_call){piece.w, piece.w, policy->act, count}));
    return sum_piece(device, &piece);
}

/* Runs ops->update in one mode over all own elements of a model, up to 256 parameters in a call. In mode
 * LS_UPDATE_STEP, running statistics and rounded weights need several operations, so each of these parameters is passed
 * to ls_optimizer_run() instead. */
static ls_status run_mode(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                          const ls_model *model, ls_update_mode mode) {
    enum { AT_ONCE = 256 };
    ls_update_piece pieces[AT_ONCE];
    int count = 0;
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *param = ls_model_param(model, i);
        size_t own = ls_param_range_elems(param->own);
        if (own == 0) continue;
        if (mode == LS_UPDATE_STEP && (param->running || is_rounded(policy, param))) {
            LS_TRY(ls_optimizer_run(update, device, policy, param, 0, own));
            continue;
        }
        pieces[count] = piece_of(update, policy, param, 0, own);
        pieces[count++].mode = mode;
        if (count < AT_ONCE) continue;
        LS_TRY(device->ops->update(device, &(ls_update_call){pieces, count}));
        count = 0;
    }
    return count > 0 ? device->ops->update(device, &(ls_update_call){pieces, count}) : LS_OK;
}

ls_status ls_optimizer_check(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                             const ls_model *model) {
    return update->damage ? run_mode(update, device, policy, model, LS_UPDATE_CHECK) : LS_OK;
}

ls_status ls_optimizer_sum(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                           const ls_model *model) {
    if (update->keeps_blocks) return run_mode(update, device, policy, model, LS_UPDATE_RECORD);
    enum { AT_ONCE = 128 };
    ls_state_piece pieces[AT_ONCE + LS_UPDATE_STATE_MAX];
    int count = 0;
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *param = ls_model_param(model, i);
        size_t own = ls_param_range_elems(param->own);
        if (own == 0) continue;
        ls_update_piece piece = piece_of(update, policy, param, 0, own);
        count += ls_update_state_pieces(&piece, 0, own, pieces + count);
        if (count < AT_ONCE) continue;
        LS_TRY(device->ops->state_sums(device, &(ls_state_sums_call){pieces, count}));
        count = 0;
    }
    return count > 0 ? device->ops->state_sums(device, &(ls_state_sums_call){pieces, count}) : LS_OK;
}

ls_status ls_optimizer_step(const ls_optimizer_update *update, ls_device *device, const ls_policy *policy,
                            const ls_model *model) {
    return run_mode(update, device, policy, model, LS_UPDATE_STEP);
}
