/* event_file.h: writes a file of events that TensorBoard reads: TFRecord records, each of them a protobuf message
 * Event.
 *
 *     length, 8 bytes │ its masked CRC-32C │ message │ its masked CRC-32C        little-endian
 *
 * The few messages are encoded by hand; their fields and numbers are those of event.proto, summary.proto and
 * tensor.proto. Records collect in memory; ls_event_file_flush(), or 256 KiB of them, writes them, whole records only.
 * The functions that return a status fail for lack of memory or if writing fails. One thread at a time. */
#ifndef LS_OBSERVE_TENSORBOARD_EVENT_FILE_H
#define LS_OBSERVE_TENSORBOARD_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_event_file ls_event_file;

typedef struct ls_event_scalar {
    const char *tag;
    float value;
} ls_event_scalar;

/* Creates events.out.tfevents.TIME.HOST.PID.N.lockstep with its version record in `folder`, creating that if needed.
 * The caller closes *out; after a failure it is NULL. */
ls_status ls_event_file_create(const char *folder, ls_event_file **out);
/* Closes the file and frees it. Drops records that were not flushed. NULL does nothing. */
void ls_event_file_close(ls_event_file *file);

/* Adds the scalars of one step as one event. `unix_s`: wall time in seconds. */
ls_status ls_event_file_add_scalars(ls_event_file *file, double unix_s, int64_t step, const ls_event_scalar *scalars,
                                    size_t count);
/* Adds a text, which TensorBoard shows as Markdown. */
ls_status ls_event_file_add_text(ls_event_file *file, double unix_s, int64_t step, const char *tag, const char *text);
/* Adds a session start, after which TensorBoard drops what was written for `step` and later. */
ls_status ls_event_file_add_start(ls_event_file *file, double unix_s, int64_t step);
/* Writes all records that have collected. If that fails, they are lost and the file is truncated to its last whole
 * record; later records can still be added. */
ls_status ls_event_file_flush(ls_event_file *file);

/* Returns the CRC-32C (Castagnoli) of the bytes. */
uint32_t ls_crc32c(const void *data, size_t bytes);
/* Returns the CRC-32C of the bytes masked (rotated, and a constant added), as TFRecord stores it. */
uint32_t ls_crc32c_masked(const void *data, size_t bytes);

#endif
