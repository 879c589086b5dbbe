/* matmul.c: how long matmuls and passes over memory take on a chip. */
#include "plan/cost/cost_case.h"

/* Sizes of tiles that libraries choose among: how many of them a unit (SM) holds, and the rate against the largest. */
typedef struct tile {
    double rows, cols, held, rate;
} tile;

static const tile tiles[] = {{128, 256, 1, 1.0}, {128, 128, 2, .95}, {64, 64, 6, .62}};

/* Part of the time of a matmul's memory traffic that does not overlap with its arithmetic. */
static const double BYTES_SEEN = .7;

/* Matmuls of few tiles are cut in depth too, so that all units have work; parts are added up in fp32. */
enum { CUTS_MAX = 4, CUT_DEPTH_LEAST = 512 };

/* Returns x rounded up to a whole number. */
static double round_up(double x) {
    double whole = (double)(long long)x;
    return whole < x ? whole + 1 : whole;
}

/* Returns the share of the units' time that computes results: tiles exceed the edges, and the last wave is not full. */
static double filled(const ls_chip *chip, double m, double n, double batch) {
    double best = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        const tile *t = &tiles[i];
        double rows = round_up(m / t->rows), cols = round_up(n / t->cols), count = rows * cols * batch;
        double at_once = chip->units * t->held;
        double share =
            t->rate * count / (at_once * round_up(count / at_once)) * (m / (rows * t->rows)) * (n / (cols * t->cols));
        if (share > best) best = share;
    }
    return best;
}

/* Returns the seconds of `batch` matmuls without the traffic of their operands, with the fastest split of k. The time
 * to write and read the fp32 partial sums of a split is included. */
static double arithmetic_seconds(const ls_chip *chip, ls_plan_type type, double m, double n, double k, double batch) {
    double whole = 2 * m * n * k * batch / ls_plan_rate(chip, type), best = 0;
    for (int cuts = 1; cuts <= CUTS_MAX; cuts *= 2) {
        double depth = k / cuts;
        if (cuts > 1 && depth < CUT_DEPTH_LEAST) break;
        double seconds = whole / (filled(chip, m, n, batch * cuts) * depth / (depth + chip->gemm_fill));
        if (cuts > 1) seconds += ls_plan_pass_seconds(chip, 2 * 4 * m * n * batch * cuts);
        if (cuts == 1 || seconds < best) best = seconds;
    }
    return best;
}

double ls_plan_rate(const ls_chip *chip, ls_plan_type type) {
    if (chip->peak_flops[type] > 0) return chip->peak_flops[type] * chip->share[type];
    if (type == LS_PLAN_MXFP8) return ls_plan_rate(chip, LS_PLAN_FP8);
    if (type == LS_PLAN_FP8) return ls_plan_rate(chip, LS_PLAN_BF16);
    if (type == LS_PLAN_BF16 && chip->peak_flops[LS_PLAN_FP16] > 0) return ls_plan_rate(chip, LS_PLAN_FP16);
    return chip->peak_flops[LS_PLAN_FP32] * chip->share[LS_PLAN_FP32];
}

double ls_plan_matmul_seconds(const ls_chip *chip, ls_plan_type type, double m, double n, double k, double batch) {
    double elem = type == LS_PLAN_FP32 ? 4 : 2;
    double bytes = elem * (m * k + k * n + m * n) * batch;
    return arithmetic_seconds(chip, type, m, n, k, batch) + BYTES_SEEN * ls_plan_pass_seconds(chip, bytes);
}

double ls_plan_pass_seconds(const ls_chip *chip, double bytes) {
    return bytes / (chip->memory_bandwidth * chip->bandwidth_share);
}
