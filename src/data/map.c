/* map.c: see map.h. */
#include "data/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

ls_status ls_map_open(const char *path, ls_map *out) {
    struct stat about;
    ls_status status = LS_OK;
    *out = (ls_map){0};
    if (stat(path, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
    if (!S_ISREG(about.st_mode)) {
        char *text = NULL;
        LS_TRY(ls_file_read(path, SIZE_MAX, &text, &out->bytes));
        out->data = (uint8_t *)text;
        return LS_OK;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
    if (fstat(fd, &about) != 0) {
        status = ls_fail_errno(LS_ERR_INPUT, "cannot look at %s", path);
    } else if (about.st_size > 0) {
        void *data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            status = ls_fail_errno(LS_ERR_FAILED, "cannot map %s into memory", path);
        } else {
            *out = (ls_map){.data = data, .bytes = (size_t)about.st_size, .is_mapped = true};
        }
    }
    (void)close(fd); /* nothing was written, and the mapping stays */
    return status;
}

void ls_map_close(ls_map *map) {
    /* Casts through an integer: the memory is read-only to everybody but its owner. */
    void *memory = (void *)(uintptr_t)map->data;
    if (map->is_mapped) {
        (void)munmap(memory, map->bytes);
    } else {
        free(memory);
    }
    *map = (ls_map){0};
}
