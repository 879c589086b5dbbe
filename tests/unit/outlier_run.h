/* outlier_run.h: simulated norms of gradient groups.
 *
 * A norm is e^(level + deviation). The level, common to all groups, rises and falls quickly at the start, drifts,
 * wanders, and jumps to 2–3 times itself in one step of a hundred. The deviation of a group is normal, and in one group
 * of ten has an exponential part as well, because norms of groups of real text are skewed like that. */
#ifndef LS_TESTS_OUTLIER_RUN_H
#define LS_TESTS_OUTLIER_RUN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "run/guard/outlier.h"

enum { GROUPS_MAX = 64 };

typedef struct run {
    uint64_t seed, drawn;
    size_t groups;
    double sigma, skew; /* of the deviations */
    int64_t step;
    double wander;
    double squares[GROUPS_MAX];
    int64_t tokens[GROUPS_MAX];
} run;

static double uniform(run *r) {
    return ((double)(ls_rng_u64(ls_rng_key_make(r->seed, 7, 0), r->drawn++) >> 11) + 0.5) * 0x1p-53;
}

static double normal(run *r) {
    double radius = sqrt(-2 * log(uniform(r)));
    return radius * cos(2 * acos(-1.0) * uniform(r));
}

static double next_level(run *r) {
    double s = (double)r->step++;
    double level = s < 10 ? log(3) * s / 10 : log(3) * exp((10 - s) / 15);
    level -= log(8) * (1 - exp(-s / 100)) + 0.3 * log(1 + s / 1000);
    r->wander = 0.99 * r->wander + 0.05 * normal(r);
    if (uniform(r) < 0.01) level += log(2 + uniform(r));
    return level + r->wander;
}

static ls_outlier_step next_step(run *r) {
    double level = next_level(r);
    for (size_t g = 0; g < r->groups; g++) {
        double deviation = r->sigma * normal(r);
        if (r->skew > 0 && uniform(r) < 0.1) deviation -= r->skew * log(uniform(r));
        r->tokens[g] = 512;
        r->squares[g] = exp(2 * (level + deviation));
    }
    return (ls_outlier_step){.squares = r->squares, .tokens = r->tokens, .scale = 1};
}

#endif
