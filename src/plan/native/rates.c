/* rates.c: interpolates measured times to any size.
 *
 * Matmuls: a linear model with terms for multiplying, packing each operand and storing the result is fitted to the
 * points of a form and type, by relative least squares. The model's relative error at a point then corrects its
 * predictions near that point, the less the farther away. Passes: a power law (CPU) or a line (GPU) through two
 * measured sizes. Collectives: linear between the measured sizes. */
#include <string.h>

#include "numerics/elementary.h"
#include "plan/native/machine.h"

enum { TERMS = 4, ROUNDS = 400 };

/* ---- matmuls ---------------------------------------------------------------------------------------------------- */

/* Writes the terms of the law of matmuls for one size. */
static void terms_of(double m, double n, double k, double slices, double out[TERMS]) {
    out[0] = 2 * m * n * k;
    out[1] = m * k;
    out[2] = n * k;
    out[3] = m * n * slices;
}

/* Returns whether the measurement is of that form and type. */
static bool is_of(const ls_native_matmul *p, int form, int type) { return (int)p->form == form && p->type == type; }

/* Fits non-negative coefficients by relative least squares, with coordinate descent. */
static void fit_law(const ls_native_rates *r, int form, int type, ls_native_law *law) {
    double x[LS_NATIVE_MATMULS_MAX][TERMS], goal[LS_NATIVE_MATMULS_MAX], c[TERMS] = {0};
    int count = 0;
    for (int i = 0; i < r->matmuls; i++) {
        const ls_native_matmul *p = &r->matmul[i];
        if (!is_of(p, form, type)) continue;
        terms_of((double)p->m, (double)p->n, (double)p->k, p->slices > 1 ? p->slices : 1, x[count]);
        for (int t = 0; t < TERMS; t++) x[count][t] /= p->seconds;
        double rest = p->seconds - r->launch_seconds;
        goal[count++] = rest > 0 ? rest / p->seconds : 0;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int t = 0; t < TERMS; t++) {
            double top = 0, bottom = 0;
            for (int i = 0; i < count; i++) {
                double rest = goal[i];
                for (int u = 0; u < TERMS; u++) rest -= u == t ? 0 : c[u] * x[i][u];
                top += rest * x[i][t];
                bottom += x[i][t] * x[i][t];
            }
            c[t] = bottom > 0 && top > 0 ? top / bottom : 0;
        }
    *law = (ls_native_law){c[0], c[1], c[2], c[3], count > 0};
}

void ls_native_rates_fit(ls_native_rates *rates) {
    for (int form = 0; form < 3; form++)
        for (int type = 0; type < LS_NATIVE_TYPES; type++) fit_law(rates, form, type, &rates->law[form][type]);
}

/* Returns the seconds of a matmul by the law alone, without correction. */
static double law_seconds(const ls_native_rates *r, const ls_native_law *law, double m, double n, double k,
                          double slices) {
    double x[TERMS];
    terms_of(m, n, k, slices, x);
    return r->launch_seconds + law->flop * x[0] + law->a * x[1] + law->b * x[2] + law->c * x[3];
}

/* Returns the squared distance of two sizes in natural logarithms. */
static double apart(double a, double b) {
    double d = ls_log_f64(a / b);
    return d * d;
}

/* Returns the factor measured / predicted near this size: a mean of the points, weighted by the inverse fourth power of
 * their distance, that tends to 1 far from all of them. */
static double correction(const ls_native_rates *r, int form, int type, double m, double n, double k, double slices) {
    double sum = 1, weights = 1;
    for (int i = 0; i < r->matmuls; i++) {
        const ls_native_matmul *p = &r->matmul[i];
        if (!is_of(p, form, type)) continue;
        double pm = (double)p->m, pn = (double)p->n, pk = (double)p->k, ps = p->slices > 1 ? p->slices : 1;
        double d = apart(m, pm) + apart(n, pn) + apart(k, pk) + apart(slices, ps) / 4 + .05, w = 1 / (d * d);
        sum += w * p->seconds / law_seconds(r, &r->law[form][type], pm, pn, pk, ps);
        weights += w;
    }
    return sum / weights;
}

double ls_native_matmul_seconds(const ls_native_rates *r, ls_gemm_form form, int type, size_t rows, size_t columns,
                                size_t depth, int cuts) {
    double m = (double)rows, n = (double)columns, k = (double)depth, slices = cuts > 1 ? cuts : 1;
    if (m < 1 || n < 1 || k < 1) return 0;
    if (type >= LS_NATIVE_TYPES || !r->law[form][type].known) type = type > 1 && r->law[form][1].known ? 1 : 0;
    return law_seconds(r, &r->law[form][type], m, n, k, slices) * correction(r, (int)form, type, m, n, k, slices);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

const size_t ls_native_heads[LS_NATIVE_HEADS] = {16, 64}, ls_native_lengths[LS_NATIVE_LENGTHS] = {64, 256, 1024};

/* Interpolates (or extrapolates) between two points with a power law. */
static double between(double x, double x0, double y0, double x1, double y1) {
    double slope = ls_log_f64(y1 / y0) / ls_log_f64(x1 / x0);
    return y0 * ls_exp_f64(slope * ls_log_f64(x / x0));
}

/* Returns whether the rates were measured at sizes of their own, as those of GPUs are; false: at those of CPUs. */
static bool has_own_sizes(const ls_native_rates *r) { return r->sizes.pass[1] > 0; }

/* Interpolates the seconds for sequences of T tokens between measured lengths. */
static double interpolate_by_length(const size_t *length, const double *seconds, double T) {
    int i = T < (double)length[1] ? 0 : 1;
    return between(T, (double)length[i], seconds[i], (double)length[i + 1], seconds[i + 1]);
}

/* Returns the type itself if its attention was measured, else the nearest one that was. */
static int measured_type(const ls_native_rates *r, int type) {
    if (r->attention[0][type][0][0] > 0) return type;
    return type > 1 && r->attention[0][1][0][0] > 0 ? 1 : 0;
}

double ls_native_attention_seconds(const ls_native_rates *r, bool backward, int type, size_t head_size, size_t T,
                                   double heads) {
    const double(*table)[LS_NATIVE_LENGTHS] = r->attention[backward][measured_type(r, type)];
    const size_t *head = has_own_sizes(r) ? r->sizes.head : ls_native_heads;
    const size_t *length = has_own_sizes(r) ? r->sizes.length : ls_native_lengths;
    double a = interpolate_by_length(length, table[0], (double)T),
           b = interpolate_by_length(length, table[1], (double)T);
    double d = (double)head_size, low = (double)head[0], high = (double)head[1];
    double each = d <= low ? a : d < high ? between(d, low, a, high, b) : b * d / high;
    return r->launch_seconds + heads * each;
}

double ls_native_dropped_seconds(const ls_native_rates *r, bool backward, int type, size_t T, double heads) {
    return heads * ls_mask_pairs(LS_MASK_CAUSAL, T) * r->dropped[backward][measured_type(r, type)];
}

/* Returns the seconds of a pass over `elems` elements on a GPU: on the line through the times t[0] and t[1], measured
 * at the sizes r->sizes.pass, but at least a launch (or t[0] if that is shorter). */
static double line_seconds(const ls_native_rates *r, const double *t, double elems) {
    double small = (double)r->sizes.pass[0], large = (double)r->sizes.pass[1];
    double seconds = t[0] + (t[1] - t[0]) * (elems - small) / (large - small);
    double least = t[0] < r->launch_seconds ? t[0] : r->launch_seconds;
    return seconds > least ? seconds : least;
}

double ls_native_pass_seconds(const ls_native_rates *r, ls_native_pass pass, bool is_16, double elems) {
    const double *t = r->pass[pass][is_16 && r->pass[pass][1][0] > 0];
    double small = LS_NATIVE_PASS_SMALL, large = LS_NATIVE_PASS_LARGE, launch = r->launch_seconds;
    if (elems <= 0) return 0;
    if (has_own_sizes(r)) return line_seconds(r, t, elems);
    if (elems <= small) return launch + (t[0] > launch ? t[0] - launch : t[0]) * elems / small;
    if (elems >= large) return t[1] * elems / large;
    return between(elems, small, t[0], large, t[1]);
}

/* ---- between workers --------------------------------------------------------------------------------------------- */

const size_t ls_native_link_bytes[LS_NATIVE_LINK_SIZES] = {256, 16 << 10, 512 << 10, 8 << 20};

/* Returns the link of this operation measured under the most similar conditions: that with the least sum of the squared
 * logarithms of the ratios of group sizes (four times) and of numbers of workers. Links that differ in whether there
 * are more workers than cores come last. NULL: the operation was not measured. */
static const ls_native_link *nearest(const ls_native_machine *machine, ls_native_op op, int workers, int group) {
    const ls_native_link *best = NULL;
    double least = 0;
    for (int i = 0; i < machine->links; i++) {
        const ls_native_link *l = &machine->link[i];
        if (l->op != op) continue;
        double d = 4 * apart(group, l->group) + apart(workers, l->workers);
        /* Oversubscribed workers (fewer cores than workers) are not comparable with workers that have a core each. */
        if ((workers > machine->cores) != (l->workers > machine->cores)) d += 100;
        if (!best || d < least) least = d;
        if (least == d) best = l;
    }
    return best;
}

double ls_native_link_seconds(const ls_native_machine *machine, ls_native_op op, int workers, int group, double bytes) {
    const ls_native_link *l = nearest(machine, op, workers, op == LS_NATIVE_SEND ? 2 : group);
    const size_t *sizes = machine->link_bytes[0] > 0 ? machine->link_bytes : ls_native_link_bytes;
    int i = 0;
    if (!l) return 0;
    while (i + 2 < LS_NATIVE_LINK_SIZES && bytes > (double)sizes[i + 1]) i++;
    double b0 = (double)sizes[i], b1 = (double)sizes[i + 1];
    double slope = (l->seconds[i + 1] - l->seconds[i]) / (b1 - b0), seconds = l->seconds[i] + slope * (bytes - b0);
    if (bytes > b1) seconds = l->seconds[i + 1] * bytes / b1;
    double least = l->seconds[0];
    return seconds > least ? seconds : least;
}

const ls_native_rates *ls_native_rates_of(const ls_native_machine *machine, int workers, double *slower) {
    const ls_native_rates *r = &machine->rates[0];
    *slower = 1;
    if (machine->is_gpus) return r; /* workers that share a GPU run one after the other */
    int side = workers < machine->cores ? workers : machine->cores, threads = machine->cores / side;
    for (int i = 1; i < machine->counts; i++)
        if (machine->rates[i].workers <= side) r = &machine->rates[i];
    *slower = (double)r->threads / threads;
    return r;
}

ls_status ls_native_on_gpus(const ls_native_machine *machine, ls_native_machine *out) {
    const ls_native_gpu *gpu = &machine->gpu;
    if (gpu->count == 0 || gpu->rates.workers == 0)
        return ls_fail(LS_ERR_INPUT, gpu->count == 0 ? "no GPU of this machine was measured: run lockstep probe, on it"
                                                     : "the figures are of an older lockstep, which did not measure "
                                                       "the kernels of GPUs: run lockstep probe again");
    *out = (ls_native_machine){.is_gpus = true, .cores = gpu->count, .counts = 1, .links = gpu->links, .gpu = *gpu};
    memcpy(out->cpu, machine->cpu, sizeof out->cpu);
    memcpy(out->version, machine->version, sizeof out->version);
    memcpy(out->isa, machine->isa, sizeof out->isa);
    memcpy(out->transport, machine->transport, sizeof out->transport);
    memcpy(out->link_bytes, gpu->link_bytes, sizeof out->link_bytes);
    memcpy(out->link, gpu->link, sizeof gpu->link);
    out->memory_bytes = gpu->count * gpu->free_bytes;
    out->rates[0] = gpu->rates;
    return LS_OK;
}

/* Rounds losses up: the planner refuses layouts that exceed the memory, so it must not promise too much. */
double ls_native_gpu_room(const ls_native_gpu *gpu, int workers) {
    static const double kernels_and_lists = 48 * 0x1p20, context = 512 * 0x1p20;
    double used = gpu->memory_bytes - gpu->free_bytes, each = used < context ? used : context;
    return gpu->free_bytes - (workers - 1) * each - workers * kernels_and_lists;
}
