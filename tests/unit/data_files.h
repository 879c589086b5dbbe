/* data_files.h: a scratch folder and files in it, for the tests of src/data. */
#ifndef LS_TESTS_DATA_FILES_H
#define LS_TESTS_DATA_FILES_H

#include <dirent.h>
#include <stdarg.h>

#include "base/files.h"
#include "base/status.h"
#include "scratch.h"

static inline const char *put_file(const char *name, const void *data, size_t bytes) {
    const char *path = in_folder(name);
    assert_int_equal(ls_file_write_atomic(path, data, bytes), LS_OK);
    return path;
}

static inline const char *put_text(const char *name, const char *text) { return put_file(name, text, strlen(text)); }

static inline int count_entries(const char *path) {
    int count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

#define assert_refused(call, part)                                                                                     \
    do {                                                                                                               \
        assert_int_equal((call), LS_ERR_INPUT);                                                                        \
        if (!strstr(ls_status_message(), part)) fail_msg("'%s' does not say '%s'", ls_status_message(), part);         \
    } while (0)

#endif
