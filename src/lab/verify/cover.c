/* cover.c: builds a covering array greedily: every row takes, factor by factor in a random order, the level that brings
 * most new tuples; of several such rows the best is kept.
 *
 *     sets     all choices of `strength` factors
 *     seen     for each set one flag for each tuple of levels; tuples that no legal row has count as seen */
#include "lab/verify/cover.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/rng.h"

enum { SETS_MAX = 560 /* 3 of 16 */, CANDIDATES = 12, PURPOSE = 0x7EC0 };

typedef struct factor_set {
    int factor[LS_COVER_STRENGTH_MAX];
    size_t first; /* of its flags */
} factor_set;

typedef struct cover {
    const ls_cover_task *task;
    int sets;
    factor_set set[SETS_MAX];
    bool *seen;          /* [tuples] */
    size_t tuples, left; /* of all sets; those not seen yet */
    uint64_t drawn;      /* random numbers used so far */
    ls_cover_row *rows;
    int count;
} cover;

/* Returns the next random number from 0 to n − 1, which follows from the task's seed. */
static int draw_below(cover *c, int n) {
    ls_rng_key key = ls_rng_key_make(c->task->seed, PURPOSE, 0);
    return (int)ls_rng_below(key, c->drawn++, (uint64_t)n);
}

/* ---- legal rows -------------------------------------------------------------------------------------------------- */

/* Returns whether the open factors from `factor` on can make the row legal; `index` is the combination of the factors
 * before, as an index into task->legal. */
static bool possible_from(const ls_cover_task *task, const ls_cover_row *row, int factor, size_t index) {
    if (factor == task->bound) return task->legal[index];
    size_t next = index * (size_t)task->levels[factor];
    if (row->level[factor] >= 0) return possible_from(task, row, factor + 1, next + (size_t)row->level[factor]);
    for (int level = 0; level < task->levels[factor]; level++)
        if (possible_from(task, row, factor + 1, next + (size_t)level)) return true;
    return false;
}

bool ls_cover_possible(const ls_cover_task *task, const ls_cover_row *row) { return possible_from(task, row, 0, 0); }

ls_cover_row ls_cover_combination(const ls_cover_task *task, const int *factor, int factors, size_t number) {
    ls_cover_row row;
    for (int f = 0; f < LS_COVER_FACTORS_MAX; f++) row.level[f] = -1;
    for (int k = factors - 1; k >= 0; k--) {
        size_t levels = (size_t)task->levels[factor[k]];
        row.level[factor[k]] = (int)(number % levels);
        number /= levels;
    }
    return row;
}

/* ---- tuples ------------------------------------------------------------------------------------------------------ */

/* Returns the number of tuples of a set. */
static size_t set_tuples(const cover *c, const factor_set *set) {
    size_t n = 1;
    for (int k = 0; k < c->task->strength; k++) n *= (size_t)c->task->levels[set->factor[k]];
    return n;
}

/* Returns a row with the levels of tuple `number` of the set, all other factors open. */
static ls_cover_row tuple_row(const cover *c, const factor_set *set, size_t number) {
    return ls_cover_combination(c->task, set->factor, c->task->strength, number);
}

/* Returns the flag of the row's tuple, or NULL if the row has no level for one of its factors yet. */
static bool *flag_of(const cover *c, const factor_set *set, const ls_cover_row *row) {
    size_t number = 0;
    for (int k = 0; k < c->task->strength; k++) {
        int level = row->level[set->factor[k]];
        if (level < 0) return NULL;
        number = number * (size_t)c->task->levels[set->factor[k]] + (size_t)level;
    }
    return &c->seen[set->first + number];
}

/* Returns whether the factor is one of the set's. */
static bool has_factor(const cover *c, const factor_set *set, int factor) {
    for (int k = 0; k < c->task->strength; k++)
        if (set->factor[k] == factor) return true;
    return false;
}

/* Lists all choices of `strength` factors. */
static void make_sets(cover *c) {
    int n = c->task->factors, third = c->task->strength == 3;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            for (int k = third ? j + 1 : n - 1; k < n; k++) {
                factor_set *set = &c->set[c->sets++];
                *set = (factor_set){{i, j, k}, c->tuples};
                c->tuples += set_tuples(c, set);
            }
}

/* Marks the tuples that no legal row has as seen, and counts the others. */
static ls_status open_cover(cover *c) {
    make_sets(c);
    c->seen = calloc(c->tuples + 1, sizeof *c->seen);
    if (!c->seen) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu combinations", c->tuples);
    for (int s = 0; s < c->sets; s++)
        for (size_t t = 0; t < set_tuples(c, &c->set[s]); t++) {
            ls_cover_row row = tuple_row(c, &c->set[s], t);
            bool can = ls_cover_possible(c->task, &row);
            c->seen[c->set[s].first + t] = !can;
            c->left += can;
        }
    return LS_OK;
}

/* Returns how many uncovered tuples a row covers, of one factor or of all (−1). */
static int count_new_tuples(const cover *c, const ls_cover_row *row, int factor) {
    int n = 0;
    for (int s = 0; s < c->sets; s++) {
        if (factor >= 0 && !has_factor(c, &c->set[s], factor)) continue;
        const bool *flag = flag_of(c, &c->set[s], row);
        n += flag && !*flag;
    }
    return n;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Sets the level of one factor that brings most new tuples and keeps the row possible; of several at random. */
static void choose_level(cover *c, ls_cover_row *row, int factor) {
    int best = -1, best_gain = -1, ties = 0;
    for (int level = 0; level < c->task->levels[factor]; level++) {
        row->level[factor] = level;
        if (!ls_cover_possible(c->task, row)) continue;
        int g = count_new_tuples(c, row, factor);
        if (g > best_gain) ties = 0;
        if (g < best_gain || draw_below(c, ++ties) > 0) continue;
        best = level;
        best_gain = g;
    }
    assert(best >= 0); /* a row that can be completed has a level for each of its factors */
    row->level[factor] = best;
}

/* Chooses the levels of all open factors, in a random order. */
static void complete_row(cover *c, ls_cover_row *row) {
    int order[LS_COVER_FACTORS_MAX] = {0}, n = c->task->factors;
    for (int f = 0; f < n; f++) { /* a random permutation */
        int at = draw_below(c, f + 1);
        order[f] = order[at];
        order[at] = f;
    }
    for (int i = 0; i < n; i++)
        if (row->level[order[i]] < 0) choose_level(c, row, order[i]);
}

/* Adds the best of several random completions of `begin`, and marks its tuples as seen. */
static ls_status add_row(cover *c, const ls_cover_row *begin) {
    ls_cover_row best = {{0}};
    int most = -1;
    for (int i = 0; i < CANDIDATES; i++) {
        ls_cover_row row = *begin;
        complete_row(c, &row);
        int g = count_new_tuples(c, &row, -1);
        if (g > most) best = row;
        if (g > most) most = g;
    }
    LS_TRY(ls_array_grow(&c->rows, (size_t)c->count, sizeof *c->rows, "rows"));
    for (int s = 0; s < c->sets; s++) *flag_of(c, &c->set[s], &best) = true;
    c->left -= (size_t)most;
    c->rows[c->count++] = best;
    return LS_OK;
}

/* Returns a row with the first tuple not seen yet, from a random position on. There must be one. */
static ls_cover_row next_tuple(cover *c) {
    size_t at = (size_t)draw_below(c, (int)c->tuples);
    while (c->seen[at]) at = (at + 1) % c->tuples;
    int s = c->sets - 1;
    while (c->set[s].first > at) s--;
    return tuple_row(c, &c->set[s], at - c->set[s].first);
}

ls_status ls_cover_make(const ls_cover_task *task, const ls_cover_row *given, int given_count, ls_cover_row **out,
                        int *count) {
    ls_status status = LS_OK;
    assert(task->strength >= 2 && task->strength <= task->factors && task->factors <= LS_COVER_FACTORS_MAX);
    cover *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return ls_fail(LS_ERR_RESOURCE, "out of memory for a set of rows");
    c->task = task;
    LS_TRY_OUT(open_cover(c));
    for (int i = 0; i < given_count; i++) LS_TRY_OUT(add_row(c, &given[i]));
    while (c->left > 0) {
        ls_cover_row row = next_tuple(c);
        LS_TRY_OUT(add_row(c, &row));
    }
    *out = c->rows;
    *count = c->count;
    c->rows = NULL;
out:
    free(c->rows);
    free(c->seen);
    free(c);
    return status;
}
