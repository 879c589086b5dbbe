/* scratch.h: a folder of a test's own: set up before it, removed with all that is in it behind it. */
#ifndef LS_TESTS_SCRATCH_H
#define LS_TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ls_test.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Where nothing waits for a disk: a save takes a millisecond. */
static inline int make_folder_in_memory(void **state) {
    snprintf(folder, sizeof folder, "/dev/shm/ls_test.XXXXXX");
    return mkdtemp(folder) ? 0 : make_folder(state);
}

static inline int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Sixteen at a time: the next call reuses the memory of the first. */
static inline const char *in_folder(const char *name) {
    static char paths[16][512];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

#endif
