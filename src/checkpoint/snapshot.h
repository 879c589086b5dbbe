/* snapshot.h: a copy in host memory of what one worker saves of a checkpoint. A step waits only for the copy; a
 * background thread of the saver (run/folder/saver.c) then writes it to disk while training continues.
 *
 *     plan ── alloc ── take ── write, write … ── take ── … ── fini
 *
 * The memory is allocated once and reused. Planning allocates no copy, so it can also tell how much memory a snapshot
 * needs. */
#ifndef LS_CHECKPOINT_SNAPSHOT_H
#define LS_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/partition_tensors.h"

/* One run of consecutive elements, first … first + count − 1 in canonical order, of tensor `tensor` of file number
 * `file` of the plan, kept at element `at` of the copy. */
typedef struct ls_snapshot_piece {
    int file, tensor;
    size_t first, count, at;
} ls_snapshot_piece;

/* All zeros: nothing planned. */
typedef struct ls_snapshot {
    ls_snapshot_piece *piece; /* list of `count` pieces */
    size_t count, capacity;
    size_t bytes;      /* of the copy, also before it is allocated */
    float *data;       /* NULL: no memory yet */
    ls_device *device; /* whose allocator `data` comes from; borrowed */
} ls_snapshot;

/* Lists the elements of the `count` files that this partition reports (an element that several workers hold is
 * reported by one of them), and computes the bytes of their copy. Empty on failure. ls_snapshot_fini() ends *out. */
ls_status ls_snapshot_plan(const ls_partition *partition, const ls_partition_tensors *const *files, int count,
                           ls_snapshot *out);
/* Allocates the copy of a plan: pinned host memory if the device supports it. Borrows the device. LS_ERR_RESOURCE if
 * there is too little. */
ls_status ls_snapshot_alloc(ls_snapshot *snapshot, ls_device *device);
/* Writes to every page of the allocated copy, so that the first take is as fast as later ones. Any thread, before the
 * first take. */
void ls_snapshot_touch(const ls_snapshot *snapshot);
/* Copies the planned elements from the device into the snapshot; training waits for this. `files` are those of the
 * plan, all elements as fp32. Must not run during a write. */
ls_status ls_snapshot_take(const ls_snapshot *snapshot, const ls_partition_tensors *const *files,
                           ls_partition *partition);
/* Writes the pieces of file number `file` of the plan from the copy, with a writer of that file. Any thread; does not
 * use the device. */
ls_status ls_snapshot_write(const ls_snapshot *snapshot, int file, ls_safetensors_writer *writer);
/* Frees copy and list, and zeroes the snapshot. */
void ls_snapshot_fini(ls_snapshot *snapshot);

/* ---- whether it fits --------------------------------------------------------------------------------------------- */

/* One worker: a number that is the same for all workers of its machine, the bytes that its snapshot needs, and the
 * bytes of memory that it found available there. */
typedef struct ls_snapshot_need {
    int64_t host, bytes, available;
} ls_snapshot_need;

/* Returns whether on each machine the snapshots of all its workers together leave at least an eighth of the available
 * memory free. If workers of a machine found different amounts available, the smallest
 * counts. *short_of is the first worker on a machine
 * without room; −1: they fit. */
bool ls_snapshot_fits(const ls_snapshot_need *needs, int workers, int *short_of);

#endif
