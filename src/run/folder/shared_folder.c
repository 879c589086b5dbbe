/* shared_folder.c: checks whether all workers see one folder: ls_save_check_shared().
 *
 * Each machine may well have a folder of the same name, so rank 0 puts a file of random content there, which the others
 * look for and open for writing. Workers that one process has forked need not ask: they see what it sees.
 *
 * Signals that would end this process are held until the file is removed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "comm/launch/signals.h"
#include "comm/world/world.h"
#include "run/folder/save.h"
#include "run/agree.h"

enum { LOOKS = 40, LOOK_EVERY_US = 25000, SECRET_BYTES = 32 };

/* The file that rank 0 has written, as it is broadcast. */
typedef struct note {
    char folder[PATH_MAX], path[PATH_MAX];
    ls_host_name host;
    char secret[SECRET_BYTES + 1];
} note;

/* Writes the file on rank 0 and fills in the note. */
static ls_status put_note(const char *folder, note *n) {
    uint64_t number[2] = {0, 0};
    if (getrandom(number, sizeof number, 0) != sizeof number) number[0] = ls_clock_ns() ^ (uint64_t)getpid();
    snprintf(n->secret, sizeof n->secret, "%016llx%016llx", (unsigned long long)number[0],
             (unsigned long long)number[1]);
    ls_host_name_get(n->host);
    int room = PATH_MAX;
    if (snprintf(n->folder, sizeof n->folder, "%s", folder) >= room ||
        snprintf(n->path, sizeof n->path, "%s/.shared-%.8s", folder, n->secret) >= room) {
        n->path[0] = 0;
        return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", folder);
    }
    LS_TRY(ls_file_can_write(n->path)); /* a folder that is wrong is bad input */
    return ls_file_write_atomic(n->path, n->secret, SECRET_BYTES);
}

/* Returns whether this worker can read the file with the content of the note. */
static bool sees(const note *n) {
    char *text = NULL;
    size_t bytes = 0;
    bool same = ls_file_read(n->path, SECRET_BYTES, &text, &bytes) == LS_OK && bytes == SECRET_BYTES &&
                memcmp(text, n->secret, SECRET_BYTES) == 0;
    free(text);
    return same;
}

/* Waits up to a second until this worker sees the file of rank 0: a shared file system may take a moment to show a new
 * name. LS_ERR_INPUT if it does not, or cannot write to it. */
static ls_status look_for_note(const note *n, int rank) {
    ls_host_name host;
    int look = 0;
    ls_host_name_get(host);
    while (!sees(n) && ++look < LOOKS) ls_clock_sleep_us(LOOK_EVERY_US);
    if (look == LOOKS)
        return ls_fail(LS_ERR_INPUT,
                       "worker %d on %s does not see files that worker 0 on %s writes into %.200s; all workers write "
                       "checkpoints, so --out must be on a file system that all machines share",
                       rank, host, n->host, n->folder);
    int fd = open(n->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return ls_fail_errno(LS_ERR_INPUT,
                             "worker %d on %s cannot write into %.200s, where all workers write the "
                             "checkpoints of a run",
                             rank, host, n->folder);
    (void)close(fd); /* nothing was written */
    return LS_OK;
}

/* Writes, looks for and removes the file. Collective. */
static ls_status check_folder_is_shared(ls_world *world, const char *folder) {
    note n = {.path = ""};
    int rank = ls_world_rank(world);
    ls_status status = rank == 0 ? put_note(folder, &n) : LS_OK;
    status = ls_agree(world, status);
    if (status == LS_OK) status = ls_agree_tell(world, &n, sizeof n);
    if (status == LS_OK) status = ls_agree(world, rank == 0 ? LS_OK : look_for_note(&n, rank));
    ls_status removed = LS_OK;
    if (rank == 0 && n.path[0] && unlink(n.path) != 0 && errno != ENOENT && status == LS_OK)
        removed = ls_fail_errno(LS_ERR_INPUT, "cannot remove %s", n.path);
    return status == LS_OK ? ls_agree(world, removed) : ls_agree_fail(world, status);
}

ls_status ls_save_check_shared(ls_world *world, const char *folder) {
    ls_held_signals held;
    if (!world || ls_world_size(world) == 1) return LS_OK;
    ls_signals_hold(&held, 0);
    ls_status status = check_folder_is_shared(world, folder);
    ls_signals_let_go(&held);
    return status;
}
