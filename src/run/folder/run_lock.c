/* run_lock.c: takes the lock of a folder without touching files that are not lockstep's. */
#include "run/folder/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum { OWNER_MAX = 128, HOST_MAX = 64, SHOWN = 200, TRIES = 100 };
enum { GONE_TRIES = 300, GONE_WAIT_NS = 10000000 }; /* three seconds */

static const char owner_start[] = "process ";

/* Writes FOLDER/lock; LS_ERR_INPUT if it is too long. */
static ls_status path_of(const char *folder, char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/lock", folder) < PATH_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the path %.*s… is too long; choose a shorter --out", SHOWN, folder);
}

/* ---- content ----------------------------------------------------------------------------------------------------- */

/* Reads the begin of the file as text; returns the bytes read, 0 also on an error. */
static size_t read_start(int fd, char text[OWNER_MAX]) {
    ssize_t bytes = pread(fd, text, OWNER_MAX - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Reads the owner, such as "process 123 on host"; "another process" if it has not written its name yet. */
static void read_owner(int fd, char owner[OWNER_MAX]) {
    (void)read_start(fd, owner);
    owner[strcspn(owner, "\n")] = '\0';
    for (char *c = owner; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    if (!*owner) snprintf(owner, OWNER_MAX, "another process");
}

/* Returns whether the content is that of a lock file. Empty counts: its process was killed before it wrote its name. */
static bool has_owner(int fd) {
    char text[OWNER_MAX];
    struct stat about;
    if (fstat(fd, &about) != 0 || about.st_size >= OWNER_MAX) return false;
    size_t bytes = read_start(fd, text);
    if (bytes == 0) return about.st_size == 0;
    return strncmp(text, owner_start, sizeof owner_start - 1) == 0 && strstr(text, " on ") && text[bytes - 1] == '\n' &&
           strlen(text) == bytes;
}

/* Replaces the content by this process's id and machine. */
static ls_status write_owner(int fd, const char *path) {
    char host[HOST_MAX] = "", owner[OWNER_MAX];
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "an unknown machine");
    snprintf(owner, sizeof owner, "%s%ld on %s\n", owner_start, (long)getpid(), host);
    ssize_t bytes = (ssize_t)strlen(owner);
    errno = ENOSPC; /* where only a part was written */
    if (ftruncate(fd, 0) == 0 && pwrite(fd, owner, (size_t)bytes, 0) == bytes) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot write %.*s", SHOWN, path);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* A pipe in its place must not make this wait, and a link is not followed. */
enum { OPEN_FLAGS = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };

bool ls_run_lock_is_ours(const char *folder) {
    char path[PATH_MAX];
    struct stat about;
    if (path_of(folder, path) != LS_OK || lstat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_ours = fd >= 0 && has_owner(fd);
    if (fd >= 0) (void)close(fd);
    return is_ours;
}

/* Fails with LS_ERR_INPUT: the file is `what`, not a lock file. */
static ls_status foreign(const char *path, const char *what) {
    return ls_fail(LS_ERR_INPUT, "%.*s is %s, not a lock file of lockstep; it was left alone: choose another --out",
                   SHOWN, path, what);
}

/* Opens or creates the lock file. Returns LS_OK without a descriptor if the file was removed meanwhile; the caller
 * tries again. */
static ls_status open_file(ls_run_lock *lock) {
    const char *path = lock->path;
    lock->fd = open(path, OPEN_FLAGS | O_CREAT | O_EXCL, 0666);
    lock->made = lock->fd >= 0;
    if (lock->made) return LS_OK;
    if (errno == EEXIST) lock->fd = open(path, OPEN_FLAGS);
    if (lock->fd >= 0) return LS_OK;
    if (errno == ELOOP) return foreign(path, "a symbolic link");
    if (errno == EISDIR) return foreign(path, "a folder");
    return errno == ENOENT ? LS_OK : ls_fail_errno(LS_ERR_INPUT, "cannot open the lock %.*s", SHOWN, path);
}

/* Fails with LS_ERR_INPUT unless the open file is a regular one with one name and, unless any_content, that of a lock
 * file. */
static ls_status check_file(int fd, const char *path, bool any_content) {
    struct stat about;
    if (fstat(fd, &about) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot look at %.*s", SHOWN, path);
    if (!S_ISREG(about.st_mode)) return foreign(path, "no regular file");
    if (about.st_nlink > 1) return foreign(path, "a file with a second name");
    return any_content || has_owner(fd) ? LS_OK : foreign(path, "a file of yours");
}

/* Locks without waiting; returns 0, or −1 with errno. */
static int try_lock(int fd) {
    int rc;
    do rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    return rc;
}

/* Returns whether the process that took the lock has ended, as far as this machine knows. Its workers share the lock
 * and end a moment later. */
static bool is_gone(int fd) {
    char owner[OWNER_MAX], host[HOST_MAX] = "";
    long pid = 0;
    int host_at = 0;
    read_owner(fd, owner);
    if (sscanf(owner, "process %ld on %n", &pid, &host_at) != 1 || pid <= 0 || host_at == 0) return false;
    if (gethostname(host, sizeof host - 1) != 0 || strcmp(owner + host_at, host) != 0) return false;
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Locks; waits up to 3 s if only the workers of a process that has ended hold the lock. Returns 0, or −1 with errno. */
static int lock_soon(int fd) {
    int rc = try_lock(fd);
    for (int i = 0; i < GONE_TRIES && rc != 0 && errno == EWOULDBLOCK && is_gone(fd); i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = GONE_WAIT_NS}, NULL);
        rc = try_lock(fd);
    }
    if (rc != 0) rc = try_lock(fd); /* for its errno */
    return rc;
}

/* Locks the open file. LS_ERR_INPUT, naming the owner, if another process holds it; a file system without locks is only
 * a warning. */
static ls_status lock_file(const char *folder, const char *path, int fd) {
    char owner[OWNER_MAX];
    if (lock_soon(fd) == 0) return LS_OK;
    if (errno == EWOULDBLOCK) {
        read_owner(fd, owner);
        return ls_fail(LS_ERR_INPUT, "%.*s is in use by %s; wait for it, stop it, or choose another --out", SHOWN,
                       folder, owner);
    }
    if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS)
        return ls_fail_errno(LS_ERR_FAILED, "cannot lock %.*s", SHOWN, path);
    ls_log_warn("the file system of %.*s has no locks: make sure that no other run uses this folder", SHOWN, folder);
    return LS_OK;
}

bool ls_run_lock_is_held(const ls_run_lock *lock) {
    struct stat held, there;
    return lock->fd >= 0 && fstat(lock->fd, &held) == 0 && lstat(lock->path, &there) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

ls_status ls_run_lock_take(const char *folder, bool any_content, ls_run_lock *lock) {
    /* Retries, because a failing start removes its lock file, possibly between our open and lock. */
    ls_status status = LS_OK;
    *lock = LS_RUN_LOCK_NONE;
    LS_TRY(path_of(folder, lock->path));
    for (int i = 0; i < TRIES; i++) {
        LS_TRY(open_file(lock));
        if (lock->fd < 0) continue;
        LS_TRY_OUT(check_file(lock->fd, lock->path, any_content));
        LS_TRY_OUT(lock_file(folder, lock->path, lock->fd));
        if (ls_run_lock_is_held(lock)) {
            status = write_owner(lock->fd, lock->path);
            if (status == LS_OK) return LS_OK;
            ls_run_lock_remove(lock);
            goto out;
        }
        ls_run_lock_release(lock);
    }
    errno = ENOENT;
    return ls_fail_errno(LS_ERR_INPUT, "cannot open the lock %.*s", SHOWN, lock->path);
out:
    ls_run_lock_release(lock);
    return status;
}

void ls_run_lock_release(ls_run_lock *lock) {
    if (lock->fd >= 0) (void)close(lock->fd);
    lock->fd = -1;
}

void ls_run_lock_remove(const ls_run_lock *lock) {
    if (lock->made && ls_run_lock_is_held(lock)) (void)unlink(lock->path);
}
