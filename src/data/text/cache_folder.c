/* cache_folder.c: see cache_folder.h. */
#include "data/text/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

enum { SHOWN = 160, KEY_BYTES = LS_HASH_TEXT_BYTES - 1, OWNER_BYTES = 32 };

static const double TELL_S = 1, LOOK_S = 0.05;

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Returns whether this errno says that the folder cannot be written. */
static bool forbids_writing(int cause) {
    return cause == EACCES || cause == EPERM || cause == EROFS || cause == ENOSPC || cause == EDQUOT;
}

/* Adds the advice to the message of the last failure. Returns `status`. */
static ls_status add_advice(ls_status status) {
    return ls_fail(status, "%s; choose another folder for the cache with XDG_CACHE_HOME", ls_status_message());
}

ls_status ls_cache_folder_advise(ls_status status) {
    return forbids_writing(ls_fail_cause()) ? add_advice(status) : status;
}

/* Creates the folder with mode 0700, and its parents. */
static ls_status make_private(const char *folder) {
    ls_status status = ls_dir_make(ls_path_beside(folder, ".").text);
    if (status == LS_OK && mkdir(folder, 0700) != 0 && errno != EEXIST)
        status = ls_fail_errno(LS_ERR_INPUT, "cannot make the token cache %.*s", SHOWN, folder);
    return status == LS_OK ? LS_OK : add_advice(status);
}

ls_status ls_cache_folder_open(const char *folder) {
    struct stat about;
    ls_status status = LS_OK;
    LS_TRY(make_private(folder));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0)
        status = ls_fail_errno(LS_ERR_INPUT, "cannot open the token cache %.*s; name another with XDG_CACHE_HOME",
                               SHOWN, folder);
    else if (about.st_uid != geteuid())
        status = ls_fail(LS_ERR_INPUT,
                         "the token cache %.*s belongs to another user (%ld), who could change what is trained on: "
                         "name a folder of your own with XDG_CACHE_HOME",
                         SHOWN, folder, (long)about.st_uid);
    else if ((about.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
        ls_log_warn("the token cache %.*s is open to other users, and this cannot be changed: %s", SHOWN, folder,
                    strerror(errno));
    if (fd >= 0) (void)close(fd);
    return status;
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* Returns whether the path still names the open file. */
static bool is_same_file(const char *path, int fd) {
    struct stat by_name, by_fd;
    return lstat(path, &by_name) == 0 && fstat(fd, &by_fd) == 0 && by_name.st_ino == by_fd.st_ino &&
           by_name.st_dev == by_fd.st_dev;
}

/* Opens or creates the file of the lock, without locking it. LS_ERR_INPUT if it is not a regular file of this user. */
static ls_status open_lock(ls_cache_lock *lock) {
    struct stat about;
    lock->fd = open(lock->path.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (lock->fd < 0 && forbids_writing(errno))
        return add_advice(ls_fail_errno(LS_ERR_INPUT, "cannot write in the token cache: %.*s", SHOWN, lock->path.text));
    if (lock->fd < 0)
        return ls_fail_errno(LS_ERR_INPUT, "cannot open %.*s in the token cache; delete it", SHOWN, lock->path.text);
    if (fstat(lock->fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid()) return LS_OK;
    (void)close(lock->fd);
    lock->fd = -1;
    return ls_fail(LS_ERR_INPUT, "%.*s in the token cache is not a file of yours; delete it", SHOWN, lock->path.text);
}

/* Returns the process that holds the lock; 0 if it has not written its number yet. */
static long owner_of(int fd) {
    char text[OWNER_BYTES];
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return strtol(text, NULL, 10);
}

/* Writes "process N, which is tokenizing FILE" for messages. */
static void describe_owner(long pid, const char *source, char *out, size_t capacity) {
    if (pid > 0)
        snprintf(out, capacity, "process %ld, which is tokenizing %.*s", pid, SHOWN, source);
    else
        snprintf(out, capacity, "another process, which is tokenizing %.*s", SHOWN, source);
}

/* Sleeps for so long; less if a signal arrives. */
static void sleep_s(double seconds) {
    struct timespec rest = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&rest, NULL);
}

/* What a waiting process knows about the progress of the lock's owner. */
typedef struct waiting {
    double since_s;
    struct timespec seen;
    long pid;
    bool told;
} waiting;

/* Waits 50 ms for the owner of the lock, which makes progress as long as it changes the time of the file. Reports the
 * wait once through `say`. LS_ERR_DEADLINE after wait_s seconds without progress. */
static ls_status keep_waiting(const ls_cache_lock *lock, waiting *w, const char *source, double wait_s,
                              void (*say)(void *ctx, const char *message), void *say_ctx) {
    char message[LS_MESSAGE_MAX], owner[LS_MESSAGE_MAX / 2];
    struct stat about;
    double now_s = ls_clock_seconds();
    if (fstat(lock->fd, &about) == 0 &&
        (about.st_mtim.tv_sec != w->seen.tv_sec || about.st_mtim.tv_nsec != w->seen.tv_nsec)) {
        w->seen = about.st_mtim;
        w->since_s = now_s;
    }
    w->pid = owner_of(lock->fd);
    describe_owner(w->pid, source, owner, sizeof owner);
    if (now_s - w->since_s > wait_s)
        return ls_fail(LS_ERR_DEADLINE,
                       "waited %.3g s for %s and has made no progress; stop it, or delete %.*s if it hangs", wait_s,
                       owner, SHOWN, lock->path.text);
    if (!w->told) {
        snprintf(message, sizeof message, "waiting for %s …", owner);
        say(say_ctx, message);
        w->told = true;
    }
    sleep_s(LOOK_S);
    return LS_OK;
}

/* Writes the number of this process into the lock's file. */
static void write_owner(int fd) {
    char text[OWNER_BYTES];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, text, (size_t)length, 0); /* only for messages */
}

ls_status ls_cache_lock_take(ls_cache_lock *lock, const char *folder, const char *key, const char *source,
                             double wait_s, void (*say)(void *ctx, const char *message), void *say_ctx) {
    waiting w = {.since_s = ls_clock_seconds()};
    lock->fd = -1;
    lock->told_s = w.since_s;
    lock->path = ls_path_format("%s/%s.lock", folder, key);
    for (;;) {
        LS_TRY(open_lock(lock));
        ls_status status = LS_OK;
        if (flock(lock->fd, LOCK_EX | LOCK_NB) == 0) {
            /* Its last owner may have removed the file between the two calls above; then the lock is void. */
            if (is_same_file(lock->path.text, lock->fd)) {
                write_owner(lock->fd);
                return LS_OK;
            }
        } else if (errno == EWOULDBLOCK) {
            status = keep_waiting(lock, &w, source, wait_s, say, say_ctx);
        } else if (errno != EINTR) {
            (void)close(lock->fd); /* the file system has no locks */
            lock->fd = -1;
            return LS_OK;
        }
        (void)close(lock->fd);
        lock->fd = -1;
        LS_TRY(status);
    }
}

void ls_cache_lock_tell(ls_cache_lock *lock) {
    double now_s = ls_clock_seconds();
    if (lock->fd < 0 || now_s - lock->told_s < TELL_S) return;
    lock->told_s = now_s;
    (void)futimens(lock->fd, NULL);
}

void ls_cache_lock_release(ls_cache_lock *lock) {
    if (lock->fd < 0) return;
    (void)unlink(lock->path.text); /* while it is held: see ls_cache_lock_take() */
    (void)close(lock->fd);
    lock->fd = -1;
}

/* ---- what was left behind ---------------------------------------------------------------------------------------- */

/* Splits the name of a file of the cache into its key and the rest; returns false if it does not begin with a key. */
static bool split_name(const char *name, char key[KEY_BYTES + 1], const char **rest) {
    if (strspn(name, "0123456789abcdef") != KEY_BYTES) return false;
    memcpy(key, name, KEY_BYTES);
    key[KEY_BYTES] = '\0';
    *rest = name + KEY_BYTES;
    return true;
}

/* Returns whether the process exists. */
static bool is_running(long pid) { return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno != ESRCH); }

/* Removes the lock of a key. Returns whether the key has no lock now: false if a process holds it. */
static bool remove_free_lock(int folder, const char *key) {
    char name[KEY_BYTES + 8];
    snprintf(name, sizeof name, "%s.lock", key);
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (is_free) (void)unlinkat(folder, name, 0);
    (void)close(fd);
    return is_free;
}

/* Finds the process that wrote a temporary file; returns false if the name is not that of one. */
static bool split_temporary(const char *rest, long *pid) {
    static const char *const marks[] = {".bin.tmp-", ".bin.sums.tmp-"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *mark = strstr(rest, marks[i]);
        if (!mark) continue;
        *pid = strtol(mark + strlen(marks[i]), NULL, 10);
        return true;
    }
    return false;
}

/* Removes the file `name` if it is a stale temporary file or a free lock. */
static void clean_entry(int folder, const char *name, const char *held) {
    char key[KEY_BYTES + 1];
    const char *rest;
    if (!split_name(name, key, &rest)) return;
    bool is_own = held && strcmp(key, held) == 0;
    long pid;
    if (split_temporary(rest, &pid)) {
        bool is_stale = is_own || (!is_running(pid) && remove_free_lock(folder, key));
        if (is_stale) (void)unlinkat(folder, name, 0);
    } else if (strcmp(rest, ".lock") == 0 && !is_own) {
        (void)remove_free_lock(folder, key);
    }
}

void ls_cache_folder_clean(const char *folder, const char *held) {
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) clean_entry(dirfd(dir), entry->d_name, held);
    (void)closedir(dir);
}
