/* not_text.h: recognizes files that are not text by their first bytes, so that no run trains on a compressed or
 * binary file by mistake. Corpora and `lockstep tokenize` check with it. */
#ifndef LS_DATA_TEXT_NOT_TEXT_H
#define LS_DATA_TEXT_NOT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Refuses a file that begins like one of another format: LS_ERR_INPUT, with what to do instead. `data` may be the whole
 * file or its beginning; at most 4 KiB are examined. */
ls_status ls_not_text_check(const char *path, const uint8_t *data, size_t bytes);
/* Refuses a NUL anywhere in the data (LS_ERR_INPUT), because text has none. */
ls_status ls_not_text_check_nul(const char *path, const uint8_t *data, size_t bytes);

#endif
