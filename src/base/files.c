/* files.c: reading, atomic writing and folders.
 *
 * Invariant of ls_file_write_atomic: `path` is only ever changed by one rename(2) of a file that is complete and on
 * disk. The folder is forced to disk afterwards, because the rename is a change of the folder. */
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"

enum { READ_CHUNK_BYTES = 64 * 1024, SCAN_BYTES = 1 << 20, TEMPORARY_TRIES = 100, OPEN_FOLDERS_MAX = 8 };

/* ---- names ------------------------------------------------------------------------------------------------------- */

ls_path ls_path_format(const char *format, ...) {
    ls_path path;
    va_list values;
    va_start(values, format);
    if (vsnprintf(path.text, sizeof path.text, format, values) < 0) path.text[0] = '\0';
    va_end(values);
    return path;
}

ls_path ls_path_in(const char *folder, const char *name) {
    return ls_path_format("%s%s%s", folder, *folder == '\0' || ls_ends_with(folder, "/") ? "" : "/", name);
}

ls_path ls_path_beside(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return ls_path_format("%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

bool ls_ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool ls_file_has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && strcasecmp(path + length - tail, suffix) == 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

size_t ls_fd_read(int fd, void *data, size_t bytes, off_t offset) {
    size_t done = 0;
    while (done < bytes) {
        char *at = (char *)data + done;
        ssize_t got = offset < 0 ? read(fd, at, bytes - done) : pread(fd, at, bytes - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) break;
        ls_alive_turn();
        done += (size_t)got;
    }
    return done;
}

/* Reads to the end of the file, at most max_bytes, and adds a NUL. Its size is only a hint: files in /proc have size
 * 0, and a log may grow meanwhile. The caller frees *data. */
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
        used += ls_fd_read(fd, text + used, capacity - used, -1);
        if (used < capacity && errno != 0) {
            ls_status status = ls_fail_errno(LS_ERR_INPUT, "cannot read %s", path);
            free(text);
            return status;
        }
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

ls_status ls_file_fail_open(const char *path) {
    if (errno == ENOENT) return ls_fail(LS_ERR_INPUT, "there is no file or folder '%s'", path);
    return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
}

/* Opens with O_NONBLOCK, because opening a pipe without a writer would block forever. A regular file ignores it. */
ls_status ls_file_open_regular(const char *path, int *fd, uint64_t *bytes) {
    struct stat about;
    ls_status status = LS_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 && errno == ENXIO) return ls_fail(LS_ERR_INPUT, "cannot read %s: it is a socket or a device", path);
    if (*fd < 0) return ls_file_fail_open(path);
    if (fstat(*fd, &about) != 0)
        status = ls_fail_errno(LS_ERR_INPUT, "cannot examine %s", path);
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

ls_status ls_file_scan(const char *path, void (*take)(void *ctx, const void *data, size_t bytes), void *ctx) {
    int fd;
    LS_TRY(ls_file_open_regular(path, &fd, NULL));
    ls_status status = LS_OK;
    char *piece = malloc(SCAN_BYTES);
    if (!piece) status = ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", path);
    for (size_t got = SCAN_BYTES; status == LS_OK && got == SCAN_BYTES;) {
        got = ls_fd_read(fd, piece, SCAN_BYTES, -1);
        if (got < SCAN_BYTES && errno != 0)
            status = ls_fail_errno(LS_ERR_INPUT, "cannot read %s", path);
        else if (got > 0)
            take(ctx, piece, got);
    }
    (void)close(fd); /* nothing was written */
    free(piece);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

size_t ls_fd_write(int fd, const void *data, size_t bytes, off_t offset) {
    size_t done = 0;
    while (done < bytes) {
        const char *at = (const char *)data + done;
        ssize_t put = offset < 0 ? write(fd, at, bytes - done) : pwrite(fd, at, bytes - done, offset + (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = ENOSPC;
        if (put <= 0) break;
        ls_alive_turn();
        done += (size_t)put;
    }
    return done;
}

/* Writes a large file to disk piece by piece and reports progress after each, because fsync() alone may take minutes
 * without any. Returns -1 if a piece failed (the system reports an error once, so fsync() would not repeat it); 0
 * otherwise, also if the file system cannot do it. */
static int sync_pieces(int fd) {
    const off_t piece = 32 << 20;
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= piece) return 0;
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* starts writing all of it */
    for (off_t at = 0; at < about.st_size; at += piece) {
        if (sync_file_range(fd, at, piece,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0)
            return errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == ESPIPE || errno == EOPNOTSUPP ? 0
                                                                                                                  : -1;
        ls_alive_turn();
    }
    return 0;
}

int ls_fd_sync(int fd) {
    int rc = sync_pieces(fd);
    if (rc != 0) return rc;
    do rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc;
}

/* Tries names until one is free: another process, also of another machine on a shared disk, may have taken it. */
ls_status ls_new_file_open(const char *path, ls_new_file *file) {
    *file = (ls_new_file){.path = ls_path_format("%s", path), .fd = -1};
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        file->temporary = ls_path_format("%s.tmp-%ld-%d", path, (long)getpid(), i);
        file->fd = open(file->temporary.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        file->has_temporary = file->fd >= 0;
        if (file->has_temporary) return LS_OK;
        if (errno != EEXIST) break;
    }
    return ls_fail_errno(errno == ENAMETOOLONG ? LS_ERR_INPUT : LS_ERR_FAILED, "cannot create a temporary file for %s",
                         path);
}

ls_status ls_new_file_settle(ls_new_file *file) {
    if (ls_fd_sync(file->fd) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot sync %s to disk", file->path.text);
    int rc = close(file->fd);
    file->fd = -1;
    return rc == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot close %s", file->path.text);
}

ls_status ls_new_file_commit(ls_new_file *file) {
    if (file->fd >= 0) LS_TRY(ls_new_file_settle(file));
    if (rename(file->temporary.text, file->path.text) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot rename the temporary file to %s", file->path.text);
    file->has_temporary = false;
    return ls_folder_sync_parent(file->path.text);
}

void ls_new_file_close(ls_new_file *file) {
    if (file->fd >= 0) (void)close(file->fd);
    if (file->has_temporary) (void)unlink(file->temporary.text);
    file->fd = -1;
    file->has_temporary = false;
}

/* Sets *is_there to whether `path` exists, and *mode to its permissions. Refuses all but regular files: as root, a
 * rename onto /dev/null would replace the device for all processes. */
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
    bool is_there;
    mode_t mode;
    LS_TRY(check_target(path, &is_there, &mode));
    if (access(ls_path_beside(path, ".").text, W_OK | X_OK) == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_INPUT, "cannot write to the folder of %s", path);
}

ls_status ls_file_write_atomic(const char *path, const void *data, size_t bytes) {
    ls_new_file file;
    bool is_there = false;
    mode_t mode = 0;
    LS_TRY(check_target(path, &is_there, &mode));
    LS_TRY(ls_new_file_open(path, &file));
    ls_status status = LS_OK;
    if (ls_fd_write(file.fd, data, bytes, -1) < bytes)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot write %s", path);
    else if (is_there && fchmod(file.fd, mode) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot set the permissions of %s", path);
    if (status == LS_OK) status = ls_new_file_commit(&file);
    ls_new_file_close(&file);
    return status;
}

bool ls_file_exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

bool ls_folder_exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool ls_folder_has(const char *folder, const char *name) { return ls_file_exists(ls_path_in(folder, name).text); }

bool ls_folder_is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Ignores EINVAL, which file systems return that cannot sync a folder. */
ls_status ls_folder_sync(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot open folder %s to sync it to disk", folder);
    ls_status status = LS_OK;
    if (ls_fd_sync(fd) != 0 && errno != EINVAL)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot sync folder %s to disk", folder);
    (void)close(fd); /* nothing was written */
    return status;
}

ls_status ls_folder_sync_parent(const char *path) { return ls_folder_sync(ls_path_beside(path, ".").text); }

/* Removes one entry, for nftw(). An entry that is gone already is no error. */
static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

ls_status ls_folder_remove(const char *folder) {
    if (nftw(folder, remove_one, OPEN_FOLDERS_MAX, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot remove folder %s", folder);
}

/* Creates one folder, whose parent exists; an existing folder is no error. */
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
