/* lr_scaling.c: names, and two formulas. */
#include "optim/lr_scaling.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const names[LS_LR_SCALING_COUNT] = {
    [LS_LR_SCALING_NONE] = "none",
    [LS_LR_SCALING_LINEAR] = "linear",
    [LS_LR_SCALING_SQRT] = "sqrt",
};

const char *ls_lr_scaling_name(ls_lr_scaling scaling) {
    assert(scaling < LS_LR_SCALING_COUNT);
    return names[scaling];
}

ls_status ls_lr_scaling_parse(const char *text, ls_lr_scaling *out) {
    for (int i = 0; i < LS_LR_SCALING_COUNT; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *out = (ls_lr_scaling)i;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "'%.40s' is not a learning-rate scaling rule; choose none, linear or sqrt", text);
}

double ls_lr_scaling_factor(ls_lr_scaling scaling, double batch, double base) {
    assert(batch >= 1 && base >= 1);
    double k = batch / base;
    return scaling == LS_LR_SCALING_LINEAR ? k : scaling == LS_LR_SCALING_SQRT ? sqrt(k) : 1.0;
}
