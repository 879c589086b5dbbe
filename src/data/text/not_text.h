/* not_text.h: files that are no text, told by their first bytes, so that no run trains on a compressed or binary file
 * by mistake. */
#ifndef LS_DATA_TEXT_NOT_TEXT_H
#define LS_DATA_TEXT_NOT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* LS_ERR_INPUT, with what to do instead, for a file that begins like one of another format. `data` may be all of the
 * file or its first bytes; a few kilobytes are looked at. */
ls_status ls_not_text_check(const char *path, const uint8_t *data, size_t bytes);
/* LS_ERR_INPUT when there is a NUL anywhere: text has none. */
ls_status ls_not_text_check_nul(const char *path, const uint8_t *data, size_t bytes);

#endif
