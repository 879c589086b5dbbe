/* status_page.c: fills this process's status page, shared memory in which other processes read what the workers do, and
 * finds that of another process. */
#include "comm/world/status_page.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/world/beat.h"
#include "comm/world/request.h"

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* This process's page; NULL: none. Readers find it by the descriptor, which stays open while the page exists. */
static ls_status_page *own_page;
static int own_fd;

/* Returns the process of a worker of this machine. */
static int pid_of(const ls_world *world, int rank) {
    return rank == world->rank ? (int)getpid()
                               : atomic_load(&world->segment.header->workers[world->machines.local_of[rank]].pid);
}

/* Copies the heartbeats of this machine's workers into the page; the heartbeat thread calls it with each heartbeat. */
static void fill_page(void *ctx, const ls_world *world) {
    ls_status_page *page = ctx;
    for (int rank = 0; rank < world->size && rank < LS_WORKERS_MAX; rank++) {
        const ls_beat *beat = ls_beat_get(world, rank);
        ls_status_worker *w = &page->worker[rank];
        if (!beat) continue;
        atomic_store_explicit(&w->pid, pid_of(world, rank), memory_order_relaxed);
        atomic_store_explicit(&w->phase, atomic_load(&beat->phase), memory_order_relaxed);
        atomic_store_explicit(&w->kind, atomic_load(&beat->kind), memory_order_relaxed);
        atomic_store_explicit(&w->waits_for, atomic_load(&beat->waits_for), memory_order_relaxed);
        atomic_store_explicit(&w->moved_ns, atomic_load(&beat->moved_ns), memory_order_relaxed);
        atomic_store_explicit(&w->beat_ns, atomic_load(&beat->beat_ns), memory_order_relaxed);
    }
    atomic_store_explicit(&page->workers, world->size, memory_order_release);
}

void ls_status_page_begin(ls_world *world) {
    int fd = memfd_create(LS_STATUS_PAGE_NAME, MFD_CLOEXEC);
    if (fd < 0) return;
    ls_status_page *page = MAP_FAILED;
    if (ftruncate(fd, sizeof *page) == 0) page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        (void)close(fd);
        return;
    }
    page->version = LS_STATUS_PAGE_VERSION;
    page->bytes = sizeof *page;
    (void)snprintf(page->magic, sizeof page->magic, "%s", LS_STATUS_PAGE_NAME);
    own_page = page;
    own_fd = fd;
    ls_beat_observe(world, fill_page, page);
}

void ls_status_page_end(ls_world *world) {
    ls_beat_observe(world, NULL, NULL);
    if (!own_page) return;
    (void)munmap(own_page, sizeof *own_page);
    (void)close(own_fd);
    own_page = NULL;
}

void ls_status_page_set_resizes(ls_status_resizes resizes) {
    if (own_page) atomic_store(&own_page->resizes, (int)resizes);
}

double ls_status_memory(const ls_world *world) {
    double own = 0, shared = 0;
    for (int rank = 0; rank < (world ? world->size : 1); rank++) {
        ls_memory_use use;
        if (world && rank != world->rank && !ls_beat_get(world, rank)) continue; /* of another machine */
        if (!ls_memory_of_process(world ? pid_of(world, rank) : (int)getpid(), &use)) continue;
        own += use.bytes - use.shared;
        if (use.shared > shared) shared = use.shared;
    }
    return own + shared;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* Maps the file read-only; NULL if it is not a status page of this version. */
static const ls_status_page *map_page(const char *path) {
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    void *memory = MAP_FAILED;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == (off_t)sizeof(ls_status_page))
        memory = mmap(NULL, sizeof(ls_status_page), PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (memory == MAP_FAILED) return NULL;
    const ls_status_page *page = memory;
    bool is_one = memcmp(page->magic, LS_STATUS_PAGE_NAME, sizeof LS_STATUS_PAGE_NAME) == 0 &&
                  page->version == LS_STATUS_PAGE_VERSION && page->bytes == sizeof *page;
    if (is_one) return page;
    (void)munmap(memory, sizeof *page);
    return NULL;
}

/* Looks among the open files of a process for a status page, and maps it; NULL: none, or this user may not look. */
static const ls_status_page *find_page(long pid) {
    static const char wanted[] = "/memfd:" LS_STATUS_PAGE_NAME;
    char folder[64];
    const ls_status_page *page = NULL;
    (void)snprintf(folder, sizeof folder, "/proc/%ld/fd", pid);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && !page && (entry = readdir(dir)) != NULL;) {
        char path[sizeof folder + sizeof entry->d_name + 1], target[64];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < (ssize_t)sizeof wanted - 1 || memcmp(target, wanted, sizeof wanted - 1) != 0) continue;
        page = map_page(path);
    }
    if (dir) (void)closedir(dir);
    return page;
}

const ls_status_page *ls_status_page_open(const char *folder) {
    char path[4352], text[512] = "";
    (void)snprintf(path, sizeof path, "%s/lock", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *number = bytes > 0 ? strstr(text, "process ") : NULL;
    long pid = number ? strtol(number + strlen("process "), NULL, 10) : 0;
    if (pid <= 0) return NULL;
    const ls_status_page *page = find_page(pid);
    if (page) return page;
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", pid, pid);
    FILE *children = fopen(path, "re");
    for (long child; children && !page && fscanf(children, "%ld", &child) == 1;) page = find_page(child);
    if (children) (void)fclose(children);
    return page;
}

void ls_status_page_close(const ls_status_page *page) {
    union {
        const void *from;
        void *memory;
    } of = {page};
    if (page) (void)munmap(of.memory, sizeof *page);
}

ls_status_kind ls_status_page_kind(const ls_status_page *page, int worker) {
    const ls_status_worker *w = &page->worker[worker];
    uint64_t beat = atomic_load(&w->beat_ns), now = ls_clock_ns();
    if (beat == 0 || (now > beat && now - beat > 3000000000u)) return LS_STATUS_SILENT;
    if (atomic_load(&w->waits_for) != LS_WAITS_FOR_NONE) return LS_STATUS_WAITS;
    switch ((ls_phase)atomic_load(&w->phase)) {
    case LS_PHASE_STEP:
    case LS_PHASE_UPDATE: return LS_STATUS_COMPUTES;
    case LS_PHASE_EVALUATE:
    case LS_PHASE_SAMPLE: return LS_STATUS_EVALUATES;
    case LS_PHASE_SAVE: return LS_STATUS_SAVES;
    default: return LS_STATUS_STARTS;
    }
}

void ls_status_page_text(const ls_status_page *page, int worker, char *text, size_t room) {
    const ls_status_worker *w = &page->worker[worker];
    int waits = atomic_load(&w->waits_for), kind = atomic_load(&w->kind), phase = atomic_load(&w->phase);
    if (ls_status_page_kind(page, worker) == LS_STATUS_SILENT)
        (void)snprintf(text, room, "no sign of life");
    else if (waits > 0 && kind >= 0 && kind < LS_TRAFFIC_KINDS)
        (void)snprintf(text, room, "waiting for worker %d in %s", waits - 1,
                       ls_traffic_kind_name((ls_traffic_kind)kind));
    else if (waits != 0)
        (void)snprintf(text, room, "waiting");
    else
        (void)snprintf(text, room, "%s", phase >= 0 && phase < LS_PHASES ? ls_phase_text((ls_phase)phase) : "");
}
