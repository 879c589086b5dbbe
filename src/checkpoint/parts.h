/* parts.h: progress of the workers that write one checkpoint, as small files in its folder. Only the first worker waits
 * for others, to collect their sums; so each may write in the background, at its own pace.
 *
 *     writing-3   worker 3 is not done; the first worker creates it before any worker begins
 *     part-3      the sums of what worker 3 has written and synced to disk; then writing-3 is removed
 *
 * A worker that fails removes its writing-3 and leaves no part-3, which needs no space on a full disk. */
#ifndef LS_CHECKPOINT_PARTS_H
#define LS_CHECKPOINT_PARTS_H

#include <stdbool.h>

#include "base/status.h"
#include "checkpoint/byte_sum.h"

/* Creates the files writing-…; called by the first worker. */
ls_status ls_parts_announce(const char *folder, int workers);
/* Reports that this worker is done and has synced bytes with these sums to disk. */
ls_status ls_parts_put(const char *folder, int rank, const ls_byte_sum *sums, size_t count);
/* Reports that this worker has failed. Leaves the message of its failure unchanged. */
void ls_parts_give_up(const char *folder, int rank);

typedef struct ls_parts_state {
    int waiting; /* number of workers that are not done */
    int failed;  /* rank of the first worker that gave up; −1: none */
} ls_parts_state;

/* Counts the workers that are not done. Does not wait. */
ls_parts_state ls_parts_look(const char *folder, int workers);
/* Adds up the sums of all workers in `sums`, and removes the files. Call it once no worker is waiting or failed.
 * LS_ERR_FAILED for a damaged file. */
ls_status ls_parts_take(const char *folder, int workers, ls_byte_sum *sums, size_t count);

#endif
