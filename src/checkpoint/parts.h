/* parts.h: progress of the workers that write the tensor files of one checkpoint together, as small files in its
 * folder. Rank 0 alone waits for the others, to collect the checksums (byte_sum.h) of what each wrote; so each may
 * write in the background, at its own pace. Called by the saver (run/folder/saver.c).
 *
 *     writing-3   worker 3 is not done; rank 0 creates it before any worker begins
 *     part-3      the sums of what worker 3 has written and synced to disk; then writing-3 is removed
 *
 * A worker that fails removes its writing-3 and leaves no part-3, which needs no space on a full disk. A worker that is
 * lost leaves its writing-3, so rank 0 needs a limit of its own (saver.c). */
#ifndef LS_CHECKPOINT_PARTS_H
#define LS_CHECKPOINT_PARTS_H

#include <stdbool.h>

#include "base/status.h"
#include "checkpoint/byte_sum.h"

/* Creates writing-0 … writing-(workers − 1). Called by rank 0, before any worker writes; fails if one exists. */
ls_status ls_parts_announce(const char *folder, int workers);
/* Reports that this worker is done: writes part-R with the `count` sums of the bytes that it has written and synced to
 * disk, then removes writing-R. All workers pass equally many sums, in the same order. */
ls_status ls_parts_put(const char *folder, int rank, const ls_byte_sum *sums, size_t count);
/* Reports that this worker has failed, by removing its writing-R. Ignores errors, and leaves the message of the failure
 * unchanged. */
void ls_parts_give_up(const char *folder, int rank);

typedef struct ls_parts_state {
    int waiting; /* number of workers that are not done; 0 with failed −1: all are, and have their part files */
    int failed;  /* lowest rank that gave up: it has neither file; −1: none */
} ls_parts_state;

/* Counts the workers that are not done and looks for one that gave up. Does not wait: rank 0 polls it. */
ls_parts_state ls_parts_look(const char *folder, int workers);
/* Overwrites sums[0 … count − 1] with the totals of all workers, and removes their part files. Call it once
 * ls_parts_look() says that none is waiting or failed. LS_ERR_FAILED for a damaged file; files of earlier ranks are
 * then removed already. */
ls_status ls_parts_take(const char *folder, int workers, ls_byte_sum *sums, size_t count);

#endif
