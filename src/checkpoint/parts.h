/* parts.h: how far the workers are that write one checkpoint, told by small files in its folder. Nobody waits for
 * anybody else but the first worker, which collects: so each may write in the background, at its own pace.
 *
 *     writing-3   worker 3 is not done; made by the first worker before anybody begins
 *     part-3      the sums of what worker 3 has written and forced to disk; then writing-3 goes
 *
 * A worker that fails takes its writing-3 away and leaves no part-3: that needs no space on a disk that is full. */
#ifndef LS_CHECKPOINT_PARTS_H
#define LS_CHECKPOINT_PARTS_H

#include <stdbool.h>

#include "base/status.h"
#include "checkpoint/byte_sum.h"

/* By the first worker. */
ls_status ls_parts_announce(const char *folder, int workers);
/* By each: it is done, and has written bytes with these sums. */
ls_status ls_parts_put(const char *folder, int rank, const ls_byte_sum *sums, size_t count);
/* Or it has failed. The message of the failure stays. */
void ls_parts_give_up(const char *folder, int rank);

typedef struct ls_parts_state {
    int waiting; /* workers that are not done */
    int failed;  /* the first that gave up; −1: none */
} ls_parts_state;

ls_parts_state ls_parts_look(const char *folder, int workers);
/* When all are done: adds up the sums of all, and removes the files. */
ls_status ls_parts_take(const char *folder, int workers, ls_byte_sum *sums, size_t count);

#endif
