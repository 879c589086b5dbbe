/* state_check.c: the price of a check, and what it leaves out. */
#include "run/guard/state_check.h"

#include <stdio.h>
#include <string.h>

#define COST_MAX 0.01

/* Bytes that a device sums up while it does one FLOP of a step. Of a core: 8 GB/s beside 50 GFLOP/s in fp32, 200 with a
 * matrix unit of 16 bits; of a GPU: 2 TB/s beside 40 and 400 TFLOP/s. */
static double bytes_per_flop(const ls_settings *s) {
    bool gpu = s->options.device && strncmp(s->options.device, "cuda", 4) == 0, half = s->policy.act != LS_F32;
    return (gpu ? 2000.0 : 8.0) / (gpu ? (half ? 400e3 : 40e3) : (half ? 200.0 : 50.0));
}

double ls_check_cost(const ls_settings *s, const ls_layout *layout) {
    double tokens = (double)s->B * (double)s->T / layout->dp, own = layout->zero >= 1 ? 1.0 / layout->dp : 1.0;
    bool half = s->policy.act != LS_F32;
    double moved = 4.0 * (1 + ls_optimizer_moments(&s->optimizer)) * own;
    if (half) moved += 2 * 2.0 * (layout->zero == 3 ? own : 1.0);
    if (!half && layout->zero >= 1 && layout->dp > 1 && layout->zero < 3) moved += 2 * 4.0;
    return moved / bytes_per_flop(s) / (6 * tokens);
}

ls_check ls_check_choose(const ls_settings *s, const ls_layout *layout) {
    if (s->options.check != LS_CHECK_AUTO) return (ls_check)s->options.check;
    return ls_check_cost(s, layout) <= COST_MAX ? LS_CHECK_STATE : LS_CHECK_REPLICAS;
}

void ls_check_text(const ls_settings *s, const ls_layout *layout, char text[LS_CHECK_TEXT_MAX]) {
    bool shards = layout->zero == 3 && layout->dp > 1 && s->options.check == LS_CHECK_AUTO;
    switch (ls_check_choose(s, layout)) {
    case LS_CHECK_STATE:
        snprintf(text, LS_CHECK_TEXT_MAX,
                 "weights and moments are checked before every update; not activations and gradients (--audit)%s",
                 shards ? ", nor gathered shards (--check state)" : "");
        break;
    case LS_CHECK_OFF:
        snprintf(text, LS_CHECK_TEXT_MAX,
                 "weights and moments are neither checked nor hashed (--check off): lockstep bisect and recovery "
                 "cannot tell a damaged state");
        break;
    default:
        snprintf(text, LS_CHECK_TEXT_MAX, "weights and moments are hashed, not checked in memory%s",
                 s->options.check == LS_CHECK_AUTO ? ": that would take over 1 % of a step (--check state does it)"
                                                   : " (--check state does it)");
    }
}
