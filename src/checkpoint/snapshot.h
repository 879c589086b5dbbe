/* snapshot.h: a copy, in the host's memory, of what one worker saves: it can be written while the partition goes on.
 *
 *     plan ── alloc ── take ── write, write … ── take ── … ── fini
 *
 * The memory is taken once and used again. Planning takes none, so it also counts what a snapshot would need. */
#ifndef LS_CHECKPOINT_SNAPSHOT_H
#define LS_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/partition_tensors.h"

/* Elements first … first + count − 1 of a tensor of a file, at `at` in the copy. */
typedef struct ls_snapshot_piece {
    int file, tensor;
    size_t first, count, at;
} ls_snapshot_piece;

/* Zeroed: nothing planned. */
typedef struct ls_snapshot {
    ls_snapshot_piece *piece;
    size_t count, capacity;
    size_t bytes; /* of the copy */
    float *data;  /* NULL: no memory yet */
    ls_device *device;
} ls_snapshot;

/* What the partition reports of the files, in their order. */
ls_status ls_snapshot_plan(const ls_partition *partition, const ls_partition_tensors *const *files, int count,
                           ls_snapshot *out);
/* Memory that copies from the device are fastest to. LS_ERR_RESOURCE where there is none. */
ls_status ls_snapshot_alloc(ls_snapshot *snapshot, ls_device *device);
/* Touches every page, so that the first copy is as fast as the others. Any thread. */
void ls_snapshot_touch(const ls_snapshot *snapshot);
/* Copies: what the training waits for. */
ls_status ls_snapshot_take(const ls_snapshot *snapshot, const ls_partition_tensors *const *files,
                           ls_partition *partition);
/* What belongs to file number `file`, to its writer. Any thread. */
ls_status ls_snapshot_write(const ls_snapshot *snapshot, int file, ls_safetensors_writer *writer);
void ls_snapshot_fini(ls_snapshot *snapshot);

/* ---- whether it fits --------------------------------------------------------------------------------------------- */

/* Of one worker: its machine, what it needs, and what is available there. */
typedef struct ls_snapshot_need {
    int64_t host, bytes, available;
} ls_snapshot_need;

/* Whether all of them fit where they are, an eighth of what is available left free. Otherwise *short_of is the first
 * worker for which there is no room. */
bool ls_snapshot_fits(const ls_snapshot_need *needs, int workers, int *short_of);

#endif
