/* run_parts.h: what the files of the reader of runs (run_read.h) share. */
#ifndef LS_OBSERVE_RUN_PARTS_H
#define LS_OBSERVE_RUN_PARTS_H

#include "observe/run_read.h"

enum {
    LS_RUN_ARRAY_STEPS,
    LS_RUN_ARRAY_VALIDATIONS,
    LS_RUN_ARRAY_NUMERICS,
    LS_RUN_ARRAY_BLOCKS,
    LS_RUN_ARRAY_NOISES,
    LS_RUN_ARRAY_EVENTS,
    LS_RUN_ARRAY_USAGE,
    LS_RUN_ARRAY_USAGE_MS,
    LS_RUN_ARRAY_OPTIONS,
    LS_RUN_ARRAYS
};

/* Space for one more element behind `count`. */
ls_status ls_run_grow(void **array, size_t *capacity, size_t count, size_t size);
/* Text of at most `capacity` bytes with its NUL: no control characters, and no half of a character at the end. */
void ls_run_log_copy_text(char *out, size_t capacity, const char *from);
/* The run goes on with `step`: what was told of it and of later steps is dropped. */
void ls_run_log_cut(ls_run_log *run, int64_t step);

#endif
