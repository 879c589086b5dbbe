/* sample_frame.h: a text that the model made, set apart from the lines of the log.
 *
 *     --- sample at step 100 ---
 *       | It was the best of
 *       | times
 *
 * Logs are shown on terminals, which a text must not control: it becomes valid UTF-8, with symbols in place of control
 * characters (data/utf8_stream.h). */
#ifndef LS_RUN_PROGRESS_SAMPLE_FRAME_H
#define LS_RUN_PROGRESS_SAMPLE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The caller frees *out, a text without a newline at its end. */
ls_status ls_sample_frame(int64_t step, const char *text, size_t bytes, char **out);

#endif
