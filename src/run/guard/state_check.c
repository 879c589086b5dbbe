/* state_check.c: estimates what a check of the state costs, chooses it, and describes what it leaves out. */
#include "run/guard/state_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COST_MAX 0.01

/* Returns the bytes that a device sums in the time of one FLOP of a step. A core: 8 GB/s beside 50 GFLOP/s in fp32, 200
 * with a 16-bit matrix unit; a GPU: 2 TB/s beside 40 and 400 TFLOP/s. */
static double bytes_per_flop(const ls_settings *s) {
    bool gpu = s->options.device && strncmp(s->options.device, "cuda", 4) == 0, half = s->policy.act != LS_F32;
    return (gpu ? 2000.0 : 8.0) / (gpu ? (half ? 400e3 : 40e3) : (half ? 200.0 : 50.0));
}

/* Returns the share of its replica's elements that a worker updates. */
static double share_owned(const ls_layout *layout) { return layout->zero >= 1 ? 1.0 / layout->dp : 1.0; }

/* Returns the bytes per element of its replica that a check of a worker's own weights and optimizer state reads. */
static double own_bytes(const ls_settings *s, const ls_layout *layout) {
    return 4.0 * (1 + ls_optimizer_moments(&s->optimizer)) * share_owned(layout);
}
/* Returns the bytes per element that a check of the copies reads with which a worker computes: 16-bit weights, or those
 * gathered from other owners. */
static double copy_bytes(const ls_settings *s, const ls_layout *layout) {
    if (s->policy.act != LS_F32) return 2 * 2.0 * (layout->zero == 3 ? share_owned(layout) : 1.0);
    return layout->zero >= 1 && layout->dp > 1 && layout->zero < 3 ? 2 * 4.0 : 0;
}

/* Returns the share of a step's time that reading `bytes` bytes for each element takes. */
static double share_of_step(const ls_settings *s, const ls_layout *layout, double bytes) {
    double tokens = (double)s->B * (double)s->T / layout->dp;
    return bytes / bytes_per_flop(s) / (6 * tokens);
}

ls_check ls_check_choose(const ls_settings *s, const ls_layout *layout) {
    if (s->options.check != LS_CHECK_AUTO) return (ls_check)s->options.check;
    return share_of_step(s, layout, own_bytes(s, layout) + copy_bytes(s, layout)) <= COST_MAX ? LS_CHECK_STATE
                                                                                              : LS_CHECK_REPLICAS;
}

int64_t ls_check_every(const ls_settings *s, const ls_layout *layout) {
    if (ls_check_choose(s, layout) == LS_CHECK_STATE) return 1;
    if (s->options.check != LS_CHECK_AUTO) return 0;
    return (int64_t)ceil(share_of_step(s, layout, own_bytes(s, layout)) / COST_MAX);
}

void ls_check_text(const ls_settings *s, const ls_layout *layout, char text[LS_CHECK_TEXT_MAX]) {
    const int64_t every = ls_check_every(s, layout);
    bool shards = layout->zero == 3 && layout->dp > 1 && s->options.check == LS_CHECK_AUTO;
    switch (ls_check_choose(s, layout)) {
    case LS_CHECK_STATE:
        snprintf(text, LS_CHECK_TEXT_MAX,
                 "weights and optimizer state are compared with their checksums after backward and in every update; "
                 "activations and gradients are not checked (enable it with --audit)%s",
                 shards ? "; nor are gathered shards (enable it with --check state)" : "");
        break;
    case LS_CHECK_OFF:
        snprintf(text, LS_CHECK_TEXT_MAX,
                 "weights and optimizer state are neither checked nor hashed (--check off), so lockstep bisect and "
                 "recovery cannot detect a damaged state");
        break;
    default:
        if (every == 0)
            snprintf(text, LS_CHECK_TEXT_MAX,
                     "weights and optimizer state are compared with their checksums in every update, but not after "
                     "backward (enable it with --check state)");
        else if (every == 1)
            snprintf(
                text, LS_CHECK_TEXT_MAX,
                "weights and optimizer state are compared with their checksums after backward and in every update, but "
                "not 16-bit copies (it would cost more than 1 %% of a step; force it with --check state)");
        else
            snprintf(
                text, LS_CHECK_TEXT_MAX,
                "weights and optimizer state are compared with their checksums in every update, and after backward "
                "once in %lld steps (in every step it would cost more than 1 %%; force it with --check state)",
                (long long)every);
    }
}
