/* matrix.c: makes the rows of layouts for a task. ls_layout_make(), which also checks a user's flags, decides which
 * combinations of the dependent choices are legal. */
#include "lab/verify/matrix.h"

#include <stdlib.h>

#include "lab/verify/cover.h"

enum { DP, TP, PP, SCHEDULE, SEQUENCE, SHARES, BOUND, ZERO = BOUND, MICRO, RECOMPUTE, DIVISION, THREADS, ISA, FACTORS };
enum { LEVELS_MAX = 64 };

typedef struct matrix {
    const ls_layout_task *task;
    const ls_verify_limits *limits;
    ls_cover_task cover;
    int value[FACTORS][LEVELS_MAX]; /* the value of a level of a factor: dp 5, zero 3, … */
    bool *legal;                    /* by combination of the bound factors */
} matrix;

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* Sets clearly different speeds of the replicas, from which unequal shares follow. */
static void unequal_speeds(double speeds[LS_WORKERS_MAX]) {
    for (int d = 0; d < LS_WORKERS_MAX; d++) speeds[d] = d % 3 + 1;
}

ls_status ls_verify_row_layout(const ls_verify_row *row, const ls_layout_task *task, ls_layout *out) {
    double speeds[LS_WORKERS_MAX];
    ls_layout_request request = {.knobs = row->knobs, .given = ~(1u << LS_KNOB_virtual_stages)};
    ls_knobs *k = &request.knobs;
    unequal_speeds(speeds);
    request.shares = row->unequal ? "auto" : NULL;
    request.speeds = speeds;
    request.stages = row->by_count ? "count" : "cost";
    if (task->ghost > 1) k->micro = (k->micro + task->ghost - 1) / task->ghost * task->ghost;
    if (task->bn_sync) k->micro = task->B; /* a share must not be cut, and sharded gradients cut it into groups */
    if (task->bn_sync && k->zero > 1 && k->dp < task->G) k->zero = 1;
    int most = task->model->nblocks / k->pp;
    if (k->schedule == LS_SCHEDULE_INTERLEAVED)
        ls_knob_give(&request, LS_KNOB_virtual_stages, row->by_count && most > 2 ? most : 2);
    return ls_layout_make(&request, task, out);
}

/* Translates the level that a cover row has for each factor into the row's values; a factor that the cover row leaves
 * open (level −1) gets its first level. */
static ls_verify_row make_row(const matrix *m, const ls_cover_row *chosen) {
    static const struct {
        int factor;
        ls_knob knob;
    } knobs[] = {{DP, LS_KNOB_dp},
                 {TP, LS_KNOB_tp},
                 {PP, LS_KNOB_pp},
                 {SCHEDULE, LS_KNOB_schedule},
                 {SEQUENCE, LS_KNOB_sequence_parallel},
                 {ZERO, LS_KNOB_zero},
                 {MICRO, LS_KNOB_micro},
                 {RECOMPUTE, LS_KNOB_recompute}};
    int v[FACTORS];
    for (int f = 0; f < FACTORS; f++) v[f] = m->value[f][chosen->level[f] < 0 ? 0 : chosen->level[f]];
    ls_verify_row row = {.knobs = ls_knobs_neutral(),
                         .unequal = v[SHARES],
                         .by_count = v[DIVISION],
                         .threads = v[THREADS],
                         .isa = (ls_trial_isa)v[ISA]};
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        ls_knob_set(&row.knobs, knobs[i].knob, v[knobs[i].factor]);
    return row;
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* Adds a value to the levels of a factor, once; none beyond LEVELS_MAX. */
static void add_level(matrix *m, int factor, int value) {
    for (int i = 0; i < m->cover.levels[factor]; i++)
        if (m->value[factor][i] == value) return;
    if (m->cover.levels[factor] < LEVELS_MAX) m->value[factor][m->cover.levels[factor]++] = value;
}

/* Adds the values first … last. */
static void add_range(matrix *m, int factor, int first, int last) {
    for (int i = first; i <= last; i++) add_level(m, factor, i);
}

/* Chooses the levels of dp, tp and pp for the tier, model and number of workers. */
static void make_mesh_levels(matrix *m, ls_verify_tier tier) {
    static const int quick_dp[] = {1, 2, 3, 4, 5, 8};
    int most = m->limits->workers_max, G = m->task->G, nblocks = m->task->model->nblocks;
    for (size_t i = 0; tier == LS_VERIFY_QUICK && i < sizeof quick_dp / sizeof *quick_dp; i++)
        if (quick_dp[i] <= G) add_level(m, DP, quick_dp[i]);
    if (tier != LS_VERIFY_QUICK) add_range(m, DP, 1, G < most ? G : most);
    for (int tp = 1; tp <= m->task->model->S && tp <= most; tp *= 2) add_level(m, TP, tp);
    if (tier == LS_VERIFY_QUICK && most > 4) most = 4;
    add_range(m, PP, 1, nblocks < most ? nblocks : most);
}

/* Chooses the levels of each factor for the tier. */
static void make_levels(matrix *m, ls_verify_tier tier) {
    int B = (int)m->task->B;
    make_mesh_levels(m, tier);
    add_range(m, SCHEDULE, 0, LS_KNOB_LAST_schedule);
    add_range(m, SEQUENCE, 0, LS_KNOB_LAST_sequence_parallel);
    add_range(m, SHARES, 0, 1);
    add_range(m, ZERO, 0, LS_KNOB_LAST_zero);
    add_level(m, MICRO, 1);
    add_level(m, MICRO, B < 2 ? B : 2);
    add_level(m, MICRO, B);
    add_range(m, RECOMPUTE, 0, LS_KNOB_LAST_recompute);
    add_range(m, DIVISION, 0, 1);
    if (m->limits->threads > 0)
        add_level(m, THREADS, m->limits->threads);
    else
        add_range(m, THREADS, 1, 2);
    add_range(m, ISA, 0, LS_TRIAL_ISAS - 1);
}

/* Returns whether a row is a legal layout within the limits of workers. Unequal shares are legal only if the replicas
 * can have different numbers of groups (parts of the batch). */
static bool is_legal(const matrix *m, const ls_cover_row *chosen) {
    ls_layout layout;
    ls_verify_row row = make_row(m, chosen);
    int workers = row.knobs.dp * row.knobs.tp * row.knobs.pp;
    if (workers < m->limits->workers_min || workers > m->limits->workers_max) return false;
    if (row.unequal && (row.knobs.dp == 1 || row.knobs.dp == m->task->G)) return false;
    return ls_verify_row_layout(&row, m->task, &layout) == LS_OK;
}

static const int bound_factors[] = {DP, TP, PP, SCHEDULE, SEQUENCE, SHARES};

/* Returns the number of combinations of levels of these factors. */
static size_t count_combinations(const matrix *m, const int *factor, int factors) {
    size_t n = 1;
    for (int k = 0; k < factors; k++) n *= (size_t)m->cover.levels[factor[k]];
    return n;
}

/* Finds which combinations of the bound factors are legal; *any: one is. */
static ls_status make_legal(matrix *m, bool *any) {
    size_t count = count_combinations(m, bound_factors, BOUND);
    m->legal = calloc(count, sizeof *m->legal);
    if (!m->legal) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu layouts", count);
    for (size_t i = 0; i < count; i++) {
        ls_cover_row chosen = ls_cover_combination(&m->cover, bound_factors, BOUND, i);
        m->legal[i] = is_legal(m, &chosen);
        *any = *any || m->legal[i];
    }
    m->cover.legal = m->legal;
    return LS_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Lists all possible combinations of the first `factors` factors, each of which must occur at least once. */
static ls_status make_given(const matrix *m, const int *factor, int factors, ls_cover_row **out, int *count) {
    size_t n = count_combinations(m, factor, factors);
    *out = malloc(n * sizeof **out);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu layouts", n);
    for (size_t i = 0; i < n; i++) {
        ls_cover_row row = ls_cover_combination(&m->cover, factor, factors, i);
        if (ls_cover_possible(&m->cover, &row)) (*out)[(*count)++] = row;
    }
    return LS_OK;
}

/* Makes the rows; the combinations of the mesh (and for ALL of schedule and zero) come first. */
static ls_status make_rows(const matrix *m, ls_verify_tier tier, ls_verify_row **rows, int *count) {
    static const int must[] = {DP, TP, PP, SCHEDULE, ZERO};
    ls_status status = LS_OK;
    ls_cover_row *given = NULL, *chosen = NULL;
    int given_count = 0;
    if (tier != LS_VERIFY_QUICK) LS_TRY_OUT(make_given(m, must, tier == LS_VERIFY_ALL ? 5 : 3, &given, &given_count));
    LS_TRY_OUT(ls_cover_make(&m->cover, given, given_count, &chosen, count));
    *rows = malloc((size_t)*count * sizeof **rows);
    if (!*rows) status = ls_fail(LS_ERR_RESOURCE, "out of memory for %d rows", *count);
    for (int i = 0; *rows && i < *count; i++) (*rows)[i] = make_row(m, &chosen[i]);
out:
    free(given);
    free(chosen);
    return status;
}

ls_status ls_verify_matrix_make(const ls_layout_task *task, ls_verify_tier tier, const ls_verify_limits *limits,
                                ls_verify_row **rows, int *count) {
    matrix m = {.task = task, .limits = limits};
    m.cover = (ls_cover_task){
        .factors = FACTORS, .strength = tier == LS_VERIFY_ALL ? 3 : 2, .bound = BOUND, .seed = limits->seed};
    bool any = false;
    *rows = NULL;
    *count = 0;
    make_levels(&m, tier);
    ls_status status = make_legal(&m, &any);
    if (status == LS_OK && any) status = make_rows(&m, tier, rows, count);
    free(m.legal);
    return status;
}
