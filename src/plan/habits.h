/* habits.h: whether an answer depends on what the training framework keeps in memory: main gradients in fp32 or in 16
 * bits, weights in 16 bits beside the fp32 shards of ZeRO 3 or not. Frameworks, and their versions, differ in both. */
#ifndef LS_PLAN_HABITS_H
#define LS_PLAN_HABITS_H

#include "plan/search.h"

enum { LS_PLAN_HABITS = 2 };
/* Answers whose times differ by no more than this share count as equal. */
#define LS_PLAN_HABIT_MATTERS .03

typedef struct ls_plan_habit {
    const char *what;    /* the other convention: "with gradients kept in 16 bits instead of fp32" */
    ls_plan_choice best; /* with it; seconds 0: nothing fits then */
} ls_plan_habit;

/* Writes the conventions that change whether any layout fits, or change the best time `seconds` (0: nothing fits now)
 * by more than that share; out has room for LS_PLAN_HABITS. *count is 0 in fp32 and for CPU workers, which have no such
 * choice. */
ls_status ls_plan_habits_find(const ls_plan_task *task, const ls_layout_request *request, double seconds,
                              ls_plan_habit *out, int *count);

#endif
