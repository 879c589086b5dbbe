/* cover.h: a covering array (pairwise testing): few rows that contain every pair, or every triple, of choices. matrix.c
 * makes the layouts of `lockstep verify` from it.
 *
 * A factor has levels 0, 1, …; a row takes one level of each factor. Not every row is legal: the first `bound` factors
 * constrain each other, the others are free. A tuple is `strength` levels of as many factors. The rows contain every
 * tuple that any legal row contains. They follow from the task alone, so they are the same on every machine. */
#ifndef LS_LAB_VERIFY_COVER_H
#define LS_LAB_VERIFY_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { LS_COVER_FACTORS_MAX = 16, LS_COVER_STRENGTH_MAX = 3 };

typedef struct ls_cover_task {
    int factors, levels[LS_COVER_FACTORS_MAX]; /* number of factors; number of levels of each */
    int strength;                              /* factors of a tuple: 2 or 3 */
    int bound;                                 /* the first ones, which constrain each other */
    const bool *legal; /* for each combination of levels of the bound factors, the last factor changing fastest */
    uint64_t seed;
} ls_cover_task;

/* Levels by factor; −1 where the choice is open. */
typedef struct ls_cover_row {
    int level[LS_COVER_FACTORS_MAX];
} ls_cover_row;

/* Makes the rows: completes the `given` ones, which come first and in their order, then adds rows until they contain
 * every tuple. Each given row must be possible (ls_cover_possible). The caller frees *out. LS_ERR_RESOURCE is the only
 * failure. */
ls_status ls_cover_make(const ls_cover_task *task, const ls_cover_row *given, int given_count, ls_cover_row **out,
                        int *count);
/* Returns combination `number` of the levels of some factors, the last factor changing fastest. The other factors of
 * the row are open. */
ls_cover_row ls_cover_combination(const ls_cover_task *task, const int *factor, int factors, size_t number);
/* Returns whether a legal row has these levels; open factors may take any. */
bool ls_cover_possible(const ls_cover_task *task, const ls_cover_row *row);

#endif
