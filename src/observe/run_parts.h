/* run_parts.h: what the files of the reader of runs (run_read.h) share. */
#ifndef LS_OBSERVE_RUN_PARTS_H
#define LS_OBSERVE_RUN_PARTS_H

#include "observe/run_read.h"

enum {
    LS_ROOM_STEPS,
    LS_ROOM_VALIDATIONS,
    LS_ROOM_NUMERICS,
    LS_ROOM_BLOCKS,
    LS_ROOM_NOISES,
    LS_ROOM_EVENTS,
    LS_ROOM_USAGE,
    LS_ROOM_USAGE_MS,
    LS_ROOM_OPTIONS,
    LS_BUFFERS
};

/* Room for one more element behind `count`. */
ls_status ls_run_log_make_room(void **array, size_t *room, size_t count, size_t size);
/* Text of at most `room` bytes with its NUL: no control characters, and no half of a character at the end. */
void ls_run_log_copy_text(char *out, size_t room, const char *from);
/* The run goes on with `step`: what was told of it and of later steps is dropped. */
void ls_run_log_cut(ls_run_log *run, int64_t step);

#endif
