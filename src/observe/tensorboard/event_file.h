/* event_file.h: a file of events as TensorBoard reads it: records of TFRecord, each a message Event of protocol
 * buffers.
 *
 *     length, 8 bytes │ its masked CRC-32C │ message │ its masked CRC-32C        little-endian
 *
 * The few messages are encoded by hand; their fields and numbers are those of event.proto, summary.proto and
 * tensor.proto. Records are put together in memory and leave whole, with ls_event_file_flush() or when a few of them
 * are due. One thread at a time. */
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

/* A new file in `folder`, which is made: events.out.tfevents.TIME.HOST.PID.lockstep, with its first record. */
ls_status ls_event_file_create(const char *folder, ls_event_file **out);
/* What was not flushed is dropped. */
void ls_event_file_close(ls_event_file *file);

/* Scalars of one step, all in one event. */
ls_status ls_event_file_add_scalars(ls_event_file *file, double unix_s, int64_t step, const ls_event_scalar *scalars,
                                    size_t count);
/* A text, which TensorBoard takes for Markdown. */
ls_status ls_event_file_add_text(ls_event_file *file, double unix_s, int64_t step, const char *tag, const char *text);
/* A session begins: what was written of `step` and later is void. */
ls_status ls_event_file_add_start(ls_event_file *file, double unix_s, int64_t step);
ls_status ls_event_file_flush(ls_event_file *file);

/* CRC-32C (Castagnoli), and as TFRecord keeps it. */
uint32_t ls_crc32c(const void *data, size_t bytes);
uint32_t ls_crc32c_masked(const void *data, size_t bytes);

#endif
