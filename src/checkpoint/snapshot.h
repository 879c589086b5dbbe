/* snapshot.h: a copy in host memory of what one worker saves, which is written while training continues.
 *
 *     plan ── alloc ── take ── write, write … ── take ── … ── fini
 *
 * The memory is allocated once and reused. Planning allocates none, so it can also tell how much a snapshot needs. */
#ifndef LS_CHECKPOINT_SNAPSHOT_H
#define LS_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/partition_tensors.h"

/* Elements first … first + count − 1 of a tensor of a file, at `at` in the copy. */
typedef struct ls_snapshot_piece {
    int file, tensor;
    size_t first, count, at;
} ls_snapshot_piece;

/* All zeros: nothing planned. */
typedef struct ls_snapshot {
    ls_snapshot_piece *piece;
    size_t count, capacity;
    size_t bytes; /* of the copy */
    float *data;  /* NULL: no memory yet */
    ls_device *device;
} ls_snapshot;

/* Lists the elements of the files that this partition reports, and the bytes of their copy. Empty on failure. */
ls_status ls_snapshot_plan(const ls_partition *partition, const ls_partition_tensors *const *files, int count,
                           ls_snapshot *out);
/* Allocates the memory of a plan, pinned if the device supports it. LS_ERR_RESOURCE if there is too little. */
ls_status ls_snapshot_alloc(ls_snapshot *snapshot, ls_device *device);
/* Touches every page with zeros, so that the first copy is as fast as the others. Any thread, before the first take. */
void ls_snapshot_touch(const ls_snapshot *snapshot);
/* Copies the elements into the snapshot; training waits for this. `files` are those of the plan. */
ls_status ls_snapshot_take(const ls_snapshot *snapshot, const ls_partition_tensors *const *files,
                           ls_partition *partition);
/* Writes the elements of file number `file` with its writer. Any thread. */
ls_status ls_snapshot_write(const ls_snapshot *snapshot, int file, ls_safetensors_writer *writer);
/* Frees the memory and leaves the snapshot as before the plan. */
void ls_snapshot_fini(ls_snapshot *snapshot);

/* ---- whether it fits --------------------------------------------------------------------------------------------- */

/* One worker's machine, the bytes it needs, and the bytes available there. */
typedef struct ls_snapshot_need {
    int64_t host, bytes, available;
} ls_snapshot_need;

/* Returns whether all snapshots fit on their machines, with an eighth of the available memory left free. *short_of is
 * the first worker for which there is no room; −1: they fit. */
bool ls_snapshot_fits(const ls_snapshot_need *needs, int workers, int *short_of);

#endif
