/* guard.c: measures norms of gradient groups while their gradients are computed, and exchanges them. */
#include "run/guard/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_guard_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory for the norms of groups"); }

_Static_assert(sizeof(ls_loss_sum) == 3 * sizeof(int64_t), "sums of losses are added as a list of int64");
enum { LOSS_WORDS = sizeof(ls_loss_sum) / sizeof(int64_t) };

/* Returns the words of the exact sums: two for each group and one for the whole batch. The sums of losses follow
 * them. */
static size_t exact_words(int groups) { return (2 * (size_t)groups + 1) * LS_EXACT_WORDS; }

size_t ls_guard_words(int groups) { return exact_words(groups) + (size_t)groups * LOSS_WORDS; }

ls_status ls_guard_open(ls_guard *guard, const ls_settings *s, bool outliers, int blocks) {
    size_t G = (size_t)s->groups;
    *guard = (ls_guard){.groups = s->groups, .blocks = blocks};
    guard->absent = calloc(G, sizeof *guard->absent);
    if (!guard->absent) return fail_guard_memory();
    if (!outliers && !ls_settings_watch_groups(s)) return LS_OK;
    guard->parts = calloc(2 * G, sizeof *guard->parts);
    guard->sums = calloc(G, sizeof *guard->sums);
    guard->squares = calloc(4 * G, sizeof *guard->squares);
    guard->tokens = calloc(G, sizeof *guard->tokens);
    guard->findings = calloc(G, sizeof *guard->findings);
    bool there = guard->parts && guard->sums && guard->squares && guard->tokens && guard->findings;
    if (!there) return fail_guard_memory();
    guard->all_squares = guard->squares + G;
    guard->before = guard->all_squares + G;
    guard->losses = guard->before + G;
    if (s->options.numerics > 0 && !(guard->numerics = calloc((size_t)blocks, sizeof *guard->numerics)))
        return fail_guard_memory();
    if (!outliers) return LS_OK;
    return ls_outlier_create(G, s->options.outlier_threshold, &guard->outlier);
}

void ls_guard_close(ls_guard *guard) {
    free(guard->absent);
    free(guard->parts);
    free(guard->sums);
    free(guard->squares);
    free(guard->tokens);
    free(guard->findings);
    free(guard->numerics);
    ls_outlier_destroy(guard->outlier);
    ls_contribution_close(&guard->contribution);
    ls_audit_close(&guard->audit);
    *guard = (ls_guard){0};
}

/* Returns the number of sequences of group g. */
static size_t group_sequences(const ls_settings *s, int g) {
    return ls_slice_begin(s->B, s->groups, g + 1) - ls_slice_begin(s->B, s->groups, g);
}

int64_t ls_guard_tokens(const ls_guard *guard, const ls_settings *s) {
    int64_t tokens = 0;
    for (int g = 0; g < guard->groups; g++)
        if (!guard->absent[g]) tokens += (int64_t)(group_sequences(s, g) * s->T);
    return tokens;
}

/* Hashes and squares the finished gradient of one group and parameter, as far as this is needed; the observer that the
 * partition calls. The uses of a tied table are measured on their own. */
static ls_status add_leaf(void *ctx, const ls_param *param, bool is_lookup, int group, float *leaf, size_t elems) {
    ls_guard *guard = ctx;
    (void)elems;
    LS_TRY(ls_audit_leaf(&guard->audit, guard->partition, param, is_lookup, group, leaf));
    if (!guard->measures) return LS_OK;
    int part = ls_partition_is_tied(guard->partition, param) ? guard->groups + group : group;
    return ls_partition_leaf_squares(guard->partition, param, leaf, part);
}

void ls_guard_begin(ls_guard *guard, ls_partition *partition, bool measures) {
    guard->partition = partition;
    guard->measures = measures;
    memset(guard->parts, 0, 2 * (size_t)guard->groups * sizeof *guard->parts);
    memset(guard->sums, 0, (size_t)guard->groups * sizeof *guard->sums);
    ls_partition_watch(partition, (ls_leaf_watch){.leaf = add_leaf, .ctx = guard});
    ls_partition_watch_groups(partition, guard->sums, measures ? guard->parts : NULL);
    ls_audit_begin(&guard->audit, partition);
}

/* Returns the value of an exact sum, or NaN if a term was not finite. */
static double value_of(const int64_t *words) {
    ls_exact_sum sum;
    memcpy(sum.words, words, sizeof sum.words);
    return ls_exact_sum_non_finite(&sum) ? (double)NAN : ls_exact_sum_value(&sum);
}

void ls_guard_end(ls_guard *guard) {
    if (!guard->partition) return;
    ls_partition_watch(guard->partition, (ls_leaf_watch){.leaf = NULL});
    ls_partition_watch_groups(guard->partition, NULL, NULL);
    guard->partition = NULL;
}

void ls_guard_give(ls_guard *guard, ls_exact_sum *whole, int64_t *words) {
    int parts = 2 * guard->groups;
    ls_exact_sum_settle(whole);
    for (int i = 0; i < parts; i++) {
        ls_exact_sum_settle(&guard->parts[i]);
        memcpy(words + (size_t)i * LS_EXACT_WORDS, guard->parts[i].words, sizeof guard->parts[i].words);
    }
    memcpy(words + (size_t)parts * LS_EXACT_WORDS, whole->words, sizeof whole->words);
    memcpy(words + exact_words(guard->groups), guard->sums, (size_t)guard->groups * sizeof *guard->sums);
}

/* Reads squares, loss and tokens of group g from the summed words. */
static void take_group(ls_guard *guard, const ls_settings *s, const int64_t *words, int g) {
    const ls_loss_sum *loss = &guard->sums[g];
    guard->squares[g] = value_of(words + (size_t)g * LS_EXACT_WORDS);
    guard->all_squares[g] = guard->squares[g] + value_of(words + (size_t)(guard->groups + g) * LS_EXACT_WORDS);
    guard->losses[g] = loss->count == 0 || loss->bad ? (double)NAN : ls_loss_sum_mean(loss);
    guard->tokens[g] = guard->absent[g] ? 0 : (int64_t)(group_sequences(s, g) * s->T);
}

void ls_guard_take(ls_guard *guard, const ls_settings *s, const int64_t *words) {
    int G = guard->groups;
    ls_exact_sum whole = {0};
    memcpy(guard->sums, words + exact_words(G), (size_t)G * sizeof *guard->sums);
    for (int g = 0; g < G; g++) take_group(guard, s, words, g);
    memcpy(whole.words, words + (size_t)(2 * G) * LS_EXACT_WORDS, sizeof whole.words);
    guard->whole_squares = ls_exact_sum_value(&whole);
}
