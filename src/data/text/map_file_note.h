/* map_file_note.h: which file is mapped where, for the handler of SIGBUS. For map.c alone. */
#ifndef LS_DATA_TEXT_MAP_FILE_NOTE_H
#define LS_DATA_TEXT_MAP_FILE_NOTE_H

#include <stddef.h>

#include "data/text/map_file.h"

/* Notes the range until it is removed, before it is unmapped. Sets the handler of SIGBUS unless it is set; signals
 * that have nothing to do with mapped files go to the handler that was there before. */
ls_status ls_map_note_add(const char *path, int fd, const void *data, size_t bytes, struct ls_map_note **out);
void ls_map_note_remove(struct ls_map_note *note);

#endif
