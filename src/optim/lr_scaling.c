/* lr_scaling.c: two formulas. */
#include "optim/lr_scaling.h"

#include <assert.h>
#include <math.h>

double ls_lr_scaling_factor(ls_lr_scaling scaling, double batch, double base) {
    assert(batch >= 1 && base >= 1);
    double k = batch / base;
    return scaling == LS_LR_SCALING_LINEAR ? k : scaling == LS_LR_SCALING_SQRT ? sqrt(k) : 1.0;
}
