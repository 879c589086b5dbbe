/* map_file.c: maps files, and turns SIGBUS into an error with the file's name.
 *
 * The list of mapped ranges ("notes") only grows; removed notes stay in the list and are reused. So the signal handler
 * can walk it without a lock: it reads `begin` first (0: free), which is written after everything else. */
#include "data/text/map_file.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"

enum { PATH_BYTES = 1024, SHOWN = 200 };

/* A mapped range and the file it is of. */
typedef struct ls_map_note {
    atomic_uintptr_t begin; /* 0: free */
    size_t bytes;
    struct ls_map_note *next; /* never changes once the note is in the list */
    dev_t device;
    ino_t inode;
    struct timespec written;
    atomic_bool warned;
    char path[PATH_BYTES];
} ls_map_note;

/* A call of ls_map_guard() in progress on this thread. */
typedef struct guard {
    sigjmp_buf jump;
    struct guard *outer;
    const ls_map_note *volatile hit; /* written by the handler */
} guard;

static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(ls_map_note *) notes;
static struct sigaction before;
static _Thread_local guard *innermost;

/* ---- the handler ------------------------------------------------------------------------------------------------- */

/* Returns the note of the mapped range that contains the address. Takes no lock: runs in the handler. */
static const ls_map_note *find_note(uintptr_t at) {
    for (const ls_map_note *note = atomic_load(&notes); note; note = note->next) {
        uintptr_t begin = atomic_load(&note->begin);
        if (begin && at >= begin && at - begin < note->bytes) return note;
    }
    return NULL;
}

/* Writes to stderr, with write(2) only, as a signal handler must. */
static void write_text(const char *text) {
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t put = write(STDERR_FILENO, text, left);
        if (put <= 0) return;
        text += put;
        left -= (size_t)put;
    }
}

/* Handles SIGBUS: jumps to the innermost guard of this thread; without one, names the file and exits. */
static void on_bus(int number, siginfo_t *info, void *context) {
    (void)context;
    const ls_map_note *note = info->si_code > 0 ? find_note((uintptr_t)info->si_addr) : NULL;
    if (note && innermost) {
        innermost->hit = note;
        siglongjmp(innermost->jump, 1);
    }
    if (note) {
        write_text("lockstep: error: ");
        write_text(note->path);
        write_text(" was truncated while it was being read: leave data files alone while a run uses them\n");
        _exit(1);
    }
    /* Not a mapped file: the instruction is retried under the previous handler. */
    sigaction(SIGBUS, &before, NULL);
    if (info->si_code <= 0) (void)raise(number);
}

/* Installs on_bus(), unless it is the handler already. Uses SA_NODEFER, because the handler is left by a jump and
 * must not leave the signal blocked. */
static ls_status install_bus_handler(void) {
    struct sigaction now, action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus) return LS_OK;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &before) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot set the handler of SIGBUS");
    return LS_OK;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

/* Returns a note that is free, or a new one in the list; NULL if memory is short. The caller has the lock. */
static ls_map_note *take_free_note(void) {
    for (ls_map_note *note = atomic_load(&notes); note; note = note->next)
        if (atomic_load(&note->begin) == 0) return note;
    ls_map_note *note = calloc(1, sizeof *note);
    if (!note) return NULL;
    note->next = atomic_load(&notes);
    atomic_store(&notes, note);
    return note;
}

/* Adds the range to the list; the note must be removed before the range is unmapped. Installs the SIGBUS handler if
 * needed; signals that are not about mapped files go to the previous handler. */
static ls_status add_note(const char *path, int fd, const void *data, size_t bytes, ls_map_note **out) {
    struct stat about;
    ls_status status;
    if (fstat(fd, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot examine %s", path);
    (void)pthread_mutex_lock(&changes);
    LS_TRY_OUT(install_bus_handler());
    ls_map_note *note = *out = take_free_note();
    if (!note) {
        status = ls_fail(LS_ERR_RESOURCE, "no memory to open %s", path);
        goto out;
    }
    note->bytes = bytes;
    note->device = about.st_dev;
    note->inode = about.st_ino;
    note->written = about.st_mtim;
    atomic_store(&note->warned, false);
    snprintf(note->path, sizeof note->path, "%s", path);
    atomic_store(&note->begin, (uintptr_t)data);
out:
    (void)pthread_mutex_unlock(&changes);
    return status;
}

/* Frees the note for reuse; it stays in the list. */
static void remove_note(ls_map_note *note) {
    (void)pthread_mutex_lock(&changes);
    atomic_store(&note->begin, 0);
    (void)pthread_mutex_unlock(&changes);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

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
            status = add_note(path, fd, data, (size_t)bytes, &out->note);
            if (status != LS_OK) (void)munmap(data, (size_t)bytes);
        }
    }
    (void)close(fd); /* nothing was written, and the mapping stays */
    if (status != LS_OK) *out = (ls_map){0};
    return status;
}

void ls_map_close(ls_map *map) {
    /* Casts a const away: the owner unmaps or frees the memory. */
    void *memory = (void *)(uintptr_t)map->data;
    if (map->note) {
        remove_note(map->note);
        (void)munmap(memory, map->bytes);
    } else {
        free(memory);
    }
    *map = (ls_map){0};
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

ls_status ls_map_guard(ls_status (*work)(void *ctx), void *ctx) {
    guard here = {.outer = innermost};
    if (sigsetjmp(here.jump, 0) != 0) {
        innermost = here.outer;
        return ls_fail(LS_ERR_INPUT,
                       "%.*s was truncated while it was being read: leave data files alone while a run uses them",
                       SHOWN, here.hit->path);
    }
    innermost = &here;
    ls_status status = work(ctx);
    innermost = here.outer;
    return status;
}

/* Accepts a file that was removed or replaced, because existing mappings of it do not change. */
ls_status ls_map_check(const ls_map *map) {
    struct stat now;
    ls_map_note *note = map->note;
    if (!note || stat(note->path, &now) != 0 || now.st_ino != note->inode || now.st_dev != note->device) return LS_OK;
    if ((uint64_t)now.st_size < note->bytes)
        return ls_fail(
            LS_ERR_INPUT,
            "%.*s was truncated from %zu to %lld bytes while it was being read: leave data files alone while a "
            "run uses them",
            SHOWN, note->path, note->bytes, (long long)now.st_size);
    bool is_same = now.st_mtim.tv_sec == note->written.tv_sec && now.st_mtim.tv_nsec == note->written.tv_nsec;
    if (!is_same && !atomic_exchange(&note->warned, true))
        ls_log_warn("%.*s is being changed while it is read: what is read from now on may differ from what the run's "
                    "identity says",
                    SHOWN, note->path);
    return LS_OK;
}
