/* parts.h: what the files of the schedule share with each other and with the simulator. */
#ifndef LS_PARALLEL_SCHEDULE_PARTS_H
#define LS_PARALLEL_SCHEDULE_PARTS_H

#include "parallel/schedule/schedule.h"

/* Fills count and actions, which have room for all of them, but for the slots; from kind and sizes. */
ls_status ls_schedule_order(ls_schedule *schedule);

/* Called with each action once, after those of other stages that it waits for. */
typedef void ls_schedule_visit(void *context, int stage, int index);
/* Walks lists whose chunks and micro-batches are in range. LS_ERR_FAILED when they lock up. */
ls_status ls_schedule_replay(const ls_schedule *schedule, ls_schedule_visit *visit, void *context);

/* "forward", "backward", "backward-input", "backward-weights" */
const char *ls_action_kind_name(ls_action_kind kind);

#endif
