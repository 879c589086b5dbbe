/* ends.c: writes hosts.json and the files of RUN/ends. */
#include "run/recover/ends.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "comm/world/world.h"
#include "run/agree.h"

/* Less than other workers wait for this one to end the job (comm/transports/mpi.c). */
enum { PATIENCE_S = 3 };

/* Writes a file of one line. Takes ownership of `json`; NULL means that memory ran out. */
static ls_status write_line(const char *path, json_t *json) {
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    size_t bytes = text ? strlen(text) : 0;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for %s", path);
    text[bytes] = '\n'; /* over the NUL, which is not written */
    ls_status status = ls_file_write_atomic(path, text, bytes + 1);
    free(text);
    return status;
}

/* ---- the start --------------------------------------------------------------------------------------------------- */

/* Writes hosts.json: the machine of each worker. Rank 0. */
static ls_status write_hosts(const ls_ends *ends, const ls_world *world) {
    char path[PATH_MAX + 16];
    json_t *hosts = json_array();
    for (int r = 0; r < ls_world_size(world); r++) {
        const char *host = ls_world_host(world, r);
        json_array_append_new(hosts, json_string(host ? host : "?"));
    }
    snprintf(path, sizeof path, "%s/hosts.json", ends->run);
    return write_line(path, json_pack("{s:s, s:o}", "start", ends->start, "hosts", hosts));
}

/* Removes temporary files of workers that were killed while they wrote. */
static void remove_unfinished(const ls_ends *ends) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/ends", ends->run);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        if (strstr(entry->d_name, ".json.tmp-")) (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
}

ls_status ls_ends_begin(ls_ends *ends, ls_world *world, const char *run) {
    ls_ends made = {.run = ""};
    if (ls_world_rank(world) == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(made.start, sizeof made.start, "%010lld%09ld", (long long)now.tv_sec, now.tv_nsec);
        snprintf(made.run, sizeof made.run, "%s", run);
        remove_unfinished(&made);
    }
    LS_TRY(ls_agree(world, made.run[0] ? write_hosts(&made, world) : LS_OK));
    LS_TRY(ls_agree_tell(world, &made, sizeof made));
    *ends = made;
    return LS_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* A file to write, and its content. */
typedef struct note {
    char path[PATH_MAX + 64];
    json_t *json;
} note;

/* Writes the note in a thread and frees it; a failure is only logged. */
static void *write_note(void *arg) {
    note *n = arg;
    char folder[sizeof n->path];
    snprintf(folder, sizeof folder, "%s", n->path);
    *strrchr(folder, '/') = '\0';
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        ls_log_warn("cannot make the folder %s: the blamed worker is not recorded", folder);
    else if (write_line(n->path, n->json) != LS_OK)
        ls_log_warn("the blamed worker is not recorded: %s", ls_status_message());
    free(n);
    return NULL;
}

/* Writes the note in a thread, which takes it over, and waits for a bounded time, because a file system of a lost
 * machine may never answer. */
static void write_soon(note *n) {
    pthread_t thread;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_create(&thread, NULL, write_note, n) != 0) {
        json_decref(n->json);
        free(n);
    } else if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        (void)pthread_detach(thread);
    }
}

/* Returns the rank at fault that this worker must report, or −1, and in *found the word for it. All workers know of a
 * worker with a wrong result, so only rank 0 reports it; a hung worker is known only to the workers that waited for
 * it. */
static int find_blamed(const ls_world *world, const ls_wrong *blame, ls_status status, const char **found) {
    if (blame && blame->is_found) {
        *found = blame->event.kind == LS_EVENT_AUDIT ? "wrong" : "damaged";
        return ls_world_rank(world) == 0 ? blame->worker : -1;
    }
    *found = "hung";
    return status == LS_ERR_DEADLINE ? ls_world_late(world) : -1;
}

/* Writes the file of this worker, if it must report a worker at fault. */
static void record_end(const ls_ends *ends, const ls_world *world, const ls_wrong *blame, int64_t step,
                       ls_status status) {
    const char *found;
    int worker = find_blamed(world, blame, status, &found);
    const char *host = worker >= 0 ? ls_world_host(world, worker) : NULL;
    note *n = host && ends->run[0] ? calloc(1, sizeof *n) : NULL;
    if (!n) return;
    bool persistent = blame && blame->is_found && blame->event.persistent;
    snprintf(n->path, sizeof n->path, "%s/ends/%s-%d.json", ends->run, ends->start, ls_world_rank(world));
    n->json =
        json_pack("{s:s, s:I, s:s, s:i, s:s, s:b, s:s}", "start", ends->start, "step", (json_int_t)step, "host", host,
                  "worker", worker, "found", found, "persistent", (int)persistent, "text", ls_status_message());
    write_soon(n);
}

void ls_ends_write(ls_ends *ends, ls_world *world, const ls_wrong *blame, int64_t step, ls_status status) {
    if (ends->is_written) return;
    ends->is_written = true;
    record_end(ends, world, blame, step, status);
    /* A worker that exited now would end the whole job, including the worker that reports. */
    if (blame && blame->is_found) (void)ls_agree_fail(world, status);
}
