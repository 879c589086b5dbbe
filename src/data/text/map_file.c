/* map_file.c: see map.h. */
#include "data/text/map_file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/files.h"
#include "data/text/map_file_note.h"

ls_status ls_map_open(const char *path, ls_map *out) {
    uint64_t bytes;
    int fd;
    ls_status status = LS_OK;
    *out = (ls_map){0};
    LS_TRY(ls_file_open_regular(path, &fd, &bytes));
    if (bytes > 0) {
        void *data = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            status = ls_fail_errno(LS_ERR_FAILED, "cannot map %s into memory", path);
        } else {
            *out = (ls_map){.data = data, .bytes = (size_t)bytes};
            status = ls_map_note_add(path, fd, data, (size_t)bytes, &out->note);
            if (status != LS_OK) (void)munmap(data, (size_t)bytes);
        }
    }
    (void)close(fd); /* nothing was written, and the mapping stays */
    if (status != LS_OK) *out = (ls_map){0};
    return status;
}

void ls_map_close(ls_map *map) {
    /* Casts through an integer: the memory is read-only to everybody but its owner. */
    void *memory = (void *)(uintptr_t)map->data;
    if (map->note) {
        ls_map_note_remove(map->note);
        (void)munmap(memory, map->bytes);
    } else {
        free(memory);
    }
    *map = (ls_map){0};
}
