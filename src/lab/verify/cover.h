/* cover.h: few rows that try every pair, or every triple, of choices.
 *
 * A factor has levels 0, 1, …; a row takes one level of each factor. Not every row is legal: the first `bound` factors
 * depend on each other, the others are free. A tuple is `strength` levels of as many factors; the rows made here hold
 * every tuple that any legal row holds. They follow from the task alone: the same on every machine. */
#ifndef LS_LAB_VERIFY_COVER_H
#define LS_LAB_VERIFY_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { LS_COVER_FACTORS_MAX = 16, LS_COVER_STRENGTH_MAX = 3 };

typedef struct ls_cover_task {
    int factors, levels[LS_COVER_FACTORS_MAX];
    int strength; /* 2 or 3 */
    int bound;
    const bool *legal; /* by the levels of the bound factors, the last one changing fastest */
    uint64_t seed;
} ls_cover_task;

/* Levels by factor; −1 where the choice is open. */
typedef struct ls_cover_row {
    int level[LS_COVER_FACTORS_MAX];
} ls_cover_row;

/* Completes the `given` rows, which come first and in their order (each can be completed), then adds rows until every
 * tuple is there. The caller frees *out. */
ls_status ls_cover_make(const ls_cover_task *task, const ls_cover_row *given, int given_count, ls_cover_row **out,
                        int *count);
/* The combination of levels of some factors with this number, the last one changing fastest; the others are open. */
ls_cover_row ls_cover_combination(const ls_cover_task *task, const int *factor, int factors, size_t number);
/* Whether some legal row has these levels. */
bool ls_cover_possible(const ls_cover_task *task, const ls_cover_row *row);

#endif
