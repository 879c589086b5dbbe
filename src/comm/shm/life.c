/* life.c: robust mutexes that workers hold while they live, and threads of the supervisor that wait for them to die. */
#include "comm/shm/life.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

void ls_life_init(ls_segment *segment) {
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    for (int l = 0; l < segment->workers; l++) pthread_mutex_init(&segment->header->workers[l].life.held, &robust);
    pthread_mutexattr_destroy(&robust);
}

void ls_life_hold(ls_life *life) { (void)pthread_mutex_lock(&life->held); }

/* Thread of the supervisor: waits until the worker that holds the mutex dies, then sends SIGCHLD to its own process. */
static void *wait_for_death(void *arg) {
    struct ls_life_watcher *w = arg;
    if (pthread_mutex_lock(&w->life->held) == EOWNERDEAD) {
        atomic_store(&w->died, true);
        (void)kill(getpid(), SIGCHLD);
    }
    (void)pthread_mutex_unlock(&w->life->held);
    return NULL;
}

void ls_life_watch_begin(ls_life_watch *watch, ls_segment *segment) {
    sigset_t all, before;
    pthread_attr_t small;
    pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (watch->count = 0; watch->count < segment->workers; watch->count++) {
        struct ls_life_watcher *w = &watch->of[watch->count];
        w->life = &segment->header->workers[watch->count].life;
        atomic_store(&w->died, false);
        if (pthread_create(&w->thread, &small, wait_for_death, w) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
}

void ls_life_watch_end(ls_life_watch *watch) {
    for (int i = 0; i < watch->count; i++) pthread_join(watch->of[i].thread, NULL);
    watch->count = 0;
}

/* Reads the exit code, the last of the 52 fields of /proc/PID/stat. The second field, a name in parentheses, may
 * contain any bytes. */
bool ls_life_status(int pid, int *wait_status) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[bytes] = '\0';
    const char *behind = strrchr(text, ')'), *last = strrchr(text, ' ');
    if (!behind || !last || last < behind) return false;
    *wait_status = (int)strtol(last, NULL, 10);
    return *wait_status != 0;
}
