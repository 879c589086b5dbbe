/* habits.c: repeats the search with one convention of the training framework changed. */
#include "plan/habits.h"

/* Returns whether two best times differ by more than the share LS_PLAN_HABIT_MATTERS of `now`, or exactly one of them
 * is 0 (nothing fits). */
static bool is_different(double now, double then) {
    if ((now > 0) != (then > 0)) return true;
    return now > 0 && (then < now * (1 - LS_PLAN_HABIT_MATTERS) || then > now * (1 + LS_PLAN_HABIT_MATTERS));
}

/* Searches `task`, in which one convention is changed, into out[*count]; counts it only if the answer is different. */
static ls_status try_habit(const ls_plan_task *task, const ls_layout_request *request, double seconds, const char *what,
                           ls_plan_habit *out, int *count) {
    ls_plan_habit *habit = &out[*count];
    habit->what = what;
    LS_TRY(ls_plan_fastest(task, request, 0, &habit->best));
    *count += is_different(seconds, habit->best.prediction.seconds);
    return LS_OK;
}

ls_status ls_plan_habits_find(const ls_plan_task *task, const ls_layout_request *request, double seconds,
                              ls_plan_habit *out, int *count) {
    ls_plan_type type =
        ls_knob_is_given(request, LS_KNOB_type) ? request->knobs.type : ls_plan_usual_type(&task->cluster);
    *count = 0;
    if (type == LS_PLAN_FP32 || task->cluster.site[0].chip.is_cpu) return LS_OK;
    ls_plan_task other = *task;
    bool wide = ls_plan_grad_bytes(&task->stack, type) >= 4;
    other.stack.grad_bytes = other.stack.grad_bytes_8bit = wide ? 2 : 4;
    LS_TRY(try_habit(&other, request, seconds,
                     wide ? "with gradients kept in 16 bits instead of fp32"
                          : "with gradients kept in fp32 instead of 16 bits",
                     out, count));
    other = *task;
    other.stack.weights_beside_shards = !task->stack.weights_beside_shards;
    return try_habit(&other, request, seconds,
                     task->stack.weights_beside_shards
                         ? "without 16-bit weights beside the fp32 shards of ZeRO 3, as FSDP has it"
                         : "with 16-bit weights beside the fp32 shards of ZeRO 3, as Megatron has it",
                     out, count);
}
