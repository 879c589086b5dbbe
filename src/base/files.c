/* files.c: reading, atomic writing and folders.
 *
 * Invariant of ls_file_write_atomic: `path` is only ever changed by one rename(2) of a file that is complete and on
 * disk. The folder is forced to disk afterwards, because the rename is a change of the folder. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_CHUNK_BYTES = 64 * 1024, TEMPORARY_TRIES = 100 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads until `capacity` bytes are there or the file ends; −1 with errno. */
static ssize_t read_fully(int fd, char *data, size_t capacity) {
    size_t used = 0;
    while (used < capacity) {
        ssize_t got = read(fd, data + used, capacity - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

/* The size a file claims is a hint only: files in /proc say 0, and a log may grow meanwhile. */
static ls_status read_all(int fd, const char *path, size_t hint, size_t max_bytes, char **data, size_t *bytes) {
    size_t capacity = (hint < max_bytes ? hint : max_bytes) + 1, used = 0;
    char *text = NULL;
    for (;;) {
        char *larger = realloc(text, capacity + 1);
        if (!larger) {
            free(text);
            return ls_fail(LS_ERR_RESOURCE, "out of memory to read %s (%zu bytes)", path, capacity);
        }
        text = larger;
        ssize_t got = read_fully(fd, text + used, capacity - used);
        if (got < 0) {
            ls_status status = ls_fail_errno(LS_ERR_INPUT, "cannot read %s", path);
            free(text);
            return status;
        }
        used += (size_t)got;
        if (used < capacity) break;
        if (used > max_bytes) {
            free(text);
            return ls_fail(LS_ERR_INPUT, "%s is larger than the limit of %zu bytes", path, max_bytes);
        }
        size_t grow = capacity < READ_CHUNK_BYTES ? READ_CHUNK_BYTES : capacity;
        capacity = max_bytes - capacity < grow ? max_bytes + 1 : capacity + grow;
    }
    text[used] = '\0';
    *data = text;
    *bytes = used;
    return LS_OK;
}

const char *ls_file_kind(mode_t mode) {
    if (S_ISREG(mode)) return "a file";
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

/* O_NONBLOCK: opening a pipe that nobody writes to would wait for ever. It means nothing for a regular file. */
ls_status ls_file_open_regular(const char *path, int *fd, uint64_t *bytes) {
    struct stat about;
    ls_status status = LS_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 && errno == ENXIO) return ls_fail(LS_ERR_INPUT, "cannot read %s: it is a socket or a device", path);
    if (*fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
    if (fstat(*fd, &about) != 0)
        status = ls_fail_errno(LS_ERR_INPUT, "cannot look at %s", path);
    else if (!S_ISREG(about.st_mode))
        status =
            ls_fail(LS_ERR_INPUT, "cannot read %s: it is %s; name a regular file", path, ls_file_kind(about.st_mode));
    if (status == LS_OK) {
        if (bytes) *bytes = (uint64_t)about.st_size;
        return LS_OK;
    }
    (void)close(*fd);
    *fd = -1;
    return status;
}

ls_status ls_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes) {
    uint64_t size;
    int fd;
    *data = NULL;
    *bytes = 0;
    if (max_bytes > SIZE_MAX / 4) max_bytes = SIZE_MAX / 4;
    LS_TRY(ls_file_open_regular(path, &fd, &size));
    ls_status status = read_all(fd, path, (size_t)size, max_bytes, data, bytes);
    (void)close(fd); /* nothing was written */
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static ls_status write_fully(int fd, const char *path, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t put = write(fd, data, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot write %s", path);
        data += put;
        bytes -= (size_t)put;
    }
    return LS_OK;
}

static int fsync_retry(int fd) {
    int rc;
    do rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc;
}

static void folder_of(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(folder, PATH_MAX, ".");
    else
        snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Some file systems cannot force a folder to disk and say EINVAL; there is nothing more to do on those. */
static ls_status sync_parent(const char *path) {
    char folder[PATH_MAX];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot open folder %s to sync it to disk", folder);
    ls_status status = LS_OK;
    if (fsync_retry(fd) != 0 && errno != EINVAL)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot sync folder %s to disk", folder);
    (void)close(fd);
    return status;
}

/* A name beside `path`, new also among processes of other machines on a shared disk. */
static ls_status open_temporary(const char *path, char *name, size_t capacity, int *fd) {
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        if (snprintf(name, capacity, "%s.tmp-%ld-%d", path, (long)getpid(), i) >= (int)capacity)
            return ls_fail(LS_ERR_INPUT, "cannot write %s: the name is too long", path);
        *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return LS_OK;
        if (errno != EEXIST) break;
    }
    return ls_fail_errno(LS_ERR_FAILED, "cannot create a temporary file for %s", path);
}

/* As root, a rename onto /dev/null would replace the device for everybody. */
static ls_status check_target(const char *path, bool *is_there, mode_t *mode) {
    struct stat about;
    *is_there = stat(path, &about) == 0;
    if (!*is_there) return LS_OK;
    *mode = about.st_mode & 07777;
    if (S_ISREG(about.st_mode)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "cannot write %s: it is a %s, not a regular file", path,
                   S_ISDIR(about.st_mode) ? "folder" : "device, pipe or socket");
}

ls_status ls_file_can_write(const char *path) {
    char folder[PATH_MAX];
    bool is_there;
    mode_t mode;
    LS_TRY(check_target(path, &is_there, &mode));
    folder_of(path, folder);
    if (access(folder, W_OK | X_OK) == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_INPUT, "cannot write to the folder of %s", path);
}

ls_status ls_file_write_atomic(const char *path, const void *data, size_t bytes) {
    char temporary[PATH_MAX];
    bool is_there = false, made = false;
    mode_t mode = 0;
    int fd = -1;
    ls_status status;
    LS_TRY_OUT(check_target(path, &is_there, &mode));
    LS_TRY_OUT(open_temporary(path, temporary, sizeof temporary, &fd));
    made = true;
    LS_TRY_OUT(write_fully(fd, path, data, bytes));
    if (is_there && fchmod(fd, mode) != 0) {
        status = ls_fail_errno(LS_ERR_FAILED, "cannot set the permissions of %s", path);
        goto out;
    }
    if (fsync_retry(fd) != 0) {
        status = ls_fail_errno(LS_ERR_FAILED, "cannot sync %s to disk", path);
        goto out;
    }
    int rc = close(fd);
    fd = -1;
    if (rc != 0) {
        status = ls_fail_errno(LS_ERR_FAILED, "cannot close %s", path);
        goto out;
    }
    if (rename(temporary, path) != 0) {
        status = ls_fail_errno(LS_ERR_FAILED, "cannot rename the temporary file to %s", path);
        goto out;
    }
    made = false;
    status = sync_parent(path);
out:
    if (fd >= 0) (void)close(fd);
    if (made) (void)unlink(temporary);
    return status;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

bool ls_file_has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && strcasecmp(path + length - tail, suffix) == 0;
}

bool ls_file_exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

static ls_status make_one(const char *path) {
    struct stat about;
    if (mkdir(path, 0777) == 0) return LS_OK;
    int error = errno;
    if (stat(path, &about) == 0) {
        if (S_ISDIR(about.st_mode)) return LS_OK;
        return ls_fail(LS_ERR_INPUT, "cannot create folder %s: a file of that name exists", path);
    }
    errno = error;
    return ls_fail_errno(LS_ERR_INPUT, "cannot create folder %s", path);
}

ls_status ls_dir_make(const char *path) {
    char part[PATH_MAX];
    if (*path == '\0') return ls_fail(LS_ERR_INPUT, "cannot create a folder: the name is empty");
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return ls_fail(LS_ERR_INPUT, "cannot create folder %.64s…: the name is too long", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        LS_TRY(make_one(part));
        *slash = '/';
    }
    return make_one(part);
}
