/* run_dir.c: the folder of a run, its lock and its small files. */
#include "train/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"

enum { IDENTITY_BYTES_MAX = 1 << 20, OWNER_MAX = 128, HOST_MAX = 64, SHOWN = 200 };

static const char not_utf8[] = "(not UTF-8)";

struct ls_run_dir {
    int lock_fd;
    char path[PATH_MAX];
    char checkpoints[PATH_MAX];
    char metrics[PATH_MAX];
};

/* ---- what is there ----------------------------------------------------------------------------------------------- */

static ls_status join(char out[PATH_MAX], const char *folder, const char *name) {
    int bytes = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    if (bytes >= 0 && bytes < PATH_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the name of the folder %.*s… is too long; choose a shorter --out", SHOWN, folder);
}

static bool has(const char *folder, const char *name) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && ls_file_exists(path);
}

bool ls_run_dir_holds_run(const char *path) {
    return has(path, "identity.json") || has(path, "metrics.jsonl") || has(path, "checkpoints");
}

/* Cuts the last name off an absolute path; false when it is not `name` (NULL: any). */
static bool cut_name(char *path, const char *name) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path || (name && strcmp(slash + 1, name) != 0)) return false;
    *slash = '\0';
    return true;
}

bool ls_run_dir_of_checkpoint(const char *checkpoint, char run[PATH_MAX]) {
    return realpath(checkpoint, run) && cut_name(run, NULL) && cut_name(run, "checkpoints") &&
           ls_run_dir_holds_run(run);
}

static ls_status check_mode(const char *path, ls_run_mode mode) {
    bool holds = ls_run_dir_holds_run(path);
    if (mode == LS_RUN_RESUME)
        return holds ? LS_OK
                     : ls_fail(LS_ERR_INPUT, "there is no run in %.*s to resume; leave --resume out to start one there",
                               SHOWN, path);
    if (holds)
        return ls_fail(LS_ERR_INPUT, "%.*s holds a run already; continue it with --resume, or choose another --out",
                       SHOWN, path);
    /* A model's folder has a config.json too, and it must not be lost. */
    static const char *const foreign[] = {"config.json", "parent.json", "layout.json"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (has(path, foreign[i]))
            return ls_fail(LS_ERR_INPUT, "%.*s has a %s that belongs to no run; choose another --out", SHOWN, path,
                           foreign[i]);
    return LS_OK;
}

static ls_status check_folder(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot look at %.*s", SHOWN, path);
    if (!S_ISDIR(about.st_mode))
        return ls_fail(LS_ERR_INPUT, "%.*s is a file, and a run needs a folder; choose another --out", SHOWN, path);
    if (access(path, W_OK | X_OK) != 0)
        return ls_fail_errno(LS_ERR_INPUT, "cannot write in the folder %.*s; choose another --out", SHOWN, path);
    return LS_OK;
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* "process 123 on host", as its holder wrote it; it may be about to. */
static void read_owner(int fd, char owner[OWNER_MAX]) {
    ssize_t bytes = pread(fd, owner, OWNER_MAX - 1, 0);
    owner[bytes > 0 ? bytes : 0] = '\0';
    owner[strcspn(owner, "\n")] = '\0';
    for (char *c = owner; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    if (!*owner) snprintf(owner, OWNER_MAX, "another process");
}

static ls_status write_owner(int fd, const char *path) {
    char host[HOST_MAX] = "", owner[OWNER_MAX];
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "an unknown machine");
    snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    size_t bytes = strlen(owner), done = 0;
    if (ftruncate(fd, 0) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot write %.*s", SHOWN, path);
    while (done < bytes) {
        ssize_t put = pwrite(fd, owner + done, bytes - done, (off_t)done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot write %.*s", SHOWN, path);
        done += (size_t)put;
    }
    return LS_OK;
}

static ls_status take_lock(ls_run_dir *dir) {
    char path[PATH_MAX], owner[OWNER_MAX];
    LS_TRY(join(path, dir->path, "lock"));
    dir->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (dir->lock_fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open the lock %.*s", SHOWN, path);
    int rc;
    do rc = flock(dir->lock_fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    if (rc == 0) return write_owner(dir->lock_fd, path);
    if (errno == EWOULDBLOCK) {
        read_owner(dir->lock_fd, owner);
        return ls_fail(LS_ERR_INPUT, "%.*s is in use by %s; wait for it, stop it, or choose another --out", SHOWN,
                       dir->path, owner);
    }
    if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS)
        return ls_fail_errno(LS_ERR_FAILED, "cannot lock %.*s", SHOWN, path);
    ls_log_warn("the file system of %.*s has no locks: take care that no other run uses it", SHOWN, dir->path);
    return LS_OK;
}

/* A process that was killed inside ls_file_write_atomic() leaves a temporary file; the lock is held. */
static ls_status clean_up(const char *path) {
    static const char *const written[] = {"parent.json.tmp-", "identity.json.tmp-", "config.json.tmp-",
                                          "layout.json.tmp-", "trace.json.tmp-"};
    DIR *folder = opendir(path);
    if (!folder) return ls_fail_errno(LS_ERR_INPUT, "cannot open the folder %.*s", SHOWN, path);
    ls_status status = LS_OK;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(folder)) != NULL;)
        for (size_t i = 0; i < sizeof written / sizeof *written; i++)
            if (strncmp(entry->d_name, written[i], strlen(written[i])) == 0 &&
                unlinkat(dirfd(folder), entry->d_name, 0) != 0)
                status = ls_fail_errno(LS_ERR_INPUT, "cannot remove %.*s/%s", SHOWN, path, entry->d_name);
    (void)closedir(folder);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

ls_status ls_run_dir_open(const char *path, ls_run_mode mode, ls_run_dir **out) {
    ls_status status;
    *out = NULL;
    ls_run_dir *dir = calloc(1, sizeof *dir);
    if (!dir) return ls_fail(LS_ERR_RESOURCE, "out of memory for a run directory");
    dir->lock_fd = -1;
    LS_TRY_OUT(join(dir->checkpoints, path, "checkpoints"));
    LS_TRY_OUT(join(dir->metrics, path, "metrics.jsonl"));
    snprintf(dir->path, sizeof dir->path, "%s", path);
    if (ls_file_exists(path)) LS_TRY_OUT(check_folder(path));
    /* That a run is at work here says more than that there is one. */
    if (ls_run_dir_holds_run(path) && has(path, "lock")) LS_TRY_OUT(take_lock(dir));
    /* Before the lock, so that a refusal leaves a foreign folder untouched; and after it, since a run may have begun
     * meanwhile. */
    LS_TRY_OUT(check_mode(path, mode));
    LS_TRY_OUT(ls_dir_make(path));
    if (dir->lock_fd < 0) LS_TRY_OUT(take_lock(dir));
    LS_TRY_OUT(check_mode(path, mode));
    LS_TRY_OUT(clean_up(path));
    *out = dir;
    dir = NULL;
out:
    ls_run_dir_close(dir);
    return status;
}

/* The lock file stays: whoever removed it could remove the lock of a process that just took it. */
void ls_run_dir_close(ls_run_dir *dir) {
    if (!dir) return;
    if (dir->lock_fd >= 0) (void)close(dir->lock_fd);
    free(dir);
}

const char *ls_run_dir_path(const ls_run_dir *dir) { return dir->path; }
const char *ls_run_dir_checkpoints(const ls_run_dir *dir) { return dir->checkpoints; }
const char *ls_run_dir_metrics(const ls_run_dir *dir) { return dir->metrics; }

/* ---- files ------------------------------------------------------------------------------------------------------- */

static ls_status write_file(const ls_run_dir *dir, const char *name, const char *text, size_t bytes) {
    char path[PATH_MAX];
    LS_TRY(join(path, dir->path, name));
    return ls_file_write_atomic(path, text, bytes);
}

/* Takes `json` over; NULL is memory that ran out. */
static ls_status write_json(const ls_run_dir *dir, const char *name, json_t *json) {
    char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    size_t bytes = text ? strlen(text) : 0;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for %s", name);
    text[bytes] = '\n'; /* over the NUL, which is not written */
    ls_status status = write_file(dir, name, text, bytes + 1);
    free(text);
    return status;
}

/* How a run is begun is no property of the run: given back with --config, these would begin it in the same way. */
static bool is_about_starting(const char *option) {
    static const char *const names[] = {"config", "print-config", "resume", "fork"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], option) == 0) return true;
    return false;
}

/* Values in the words of the user, or of the table: reading them gives the same value. */
static json_t *config_json(const ls_options *options, ls_command command) {
    json_t *object = json_object();
    for (ls_option_id id = 0; object && id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        const char *text = options->source[id].text ? options->source[id].text : info->value;
        if (!(info->commands & (1u << command)) || !text || is_about_starting(info->name)) continue;
        json_t *value = json_string(text);
        if (!value) value = json_string(not_utf8);
        if (json_object_set_new(object, info->name, value) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

ls_status ls_run_dir_read_identity(const ls_run_dir *dir, ls_identity **out) {
    char path[PATH_MAX], *text;
    size_t bytes;
    *out = NULL;
    LS_TRY(join(path, dir->path, "identity.json"));
    LS_TRY(ls_file_read(path, IDENTITY_BYTES_MAX, &text, &bytes));
    ls_status status = ls_identity_from_text(path, text, bytes, out);
    free(text);
    return status;
}

ls_status ls_run_dir_open_metrics(ls_run_dir *dir, int64_t step, ls_metrics **out) {
    ls_metrics_cut_report report;
    *out = NULL;
    LS_TRY(ls_metrics_cut(dir->metrics, step, &report));
    if (report.damaged_bytes > 0)
        ls_log_warn("%.*s: the last %" PRId64 " bytes were damaged and are removed", SHOWN, dir->metrics,
                    report.damaged_bytes);
    return ls_metrics_open(dir->metrics, out);
}

/* ---- beginning a run --------------------------------------------------------------------------------------------- */

static json_t *changes_json(const ls_identity *own, const ls_identity *parent) {
    size_t count = ls_identity_diff(own, parent, NULL, 0);
    ls_identity_change *changes = calloc(count + 1, sizeof *changes);
    json_t *array = json_array();
    if (changes) (void)ls_identity_diff(own, parent, changes, count);
    for (size_t i = 0; changes && array && i < count; i++) {
        json_t *change =
            json_pack("{s:s, s:s, s:s}", "field", changes[i].name, "was", changes[i].there, "is", changes[i].here);
        if (json_array_append_new(array, change) == 0) continue;
        json_decref(array);
        array = NULL;
    }
    if (!changes) {
        json_decref(array);
        array = NULL;
    }
    free(changes);
    return array;
}

static ls_status write_parent(const ls_run_dir *dir, const ls_run_parent *parent, const ls_identity *own) {
    json_t *identity;
    LS_TRY(ls_identity_to_json(parent->identity, &identity));
    char *full = realpath(parent->path, NULL);
    json_t *path = json_string(full ? full : parent->path);
    free(full);
    if (!path) path = json_string(not_utf8);
    /* Takes all of them over, also when it fails. */
    json_t *json = json_pack("{s:o, s:I, s:o, s:o}", "path", path, "step", (json_int_t)parent->step, "changed",
                             changes_json(own, parent->identity), "identity", identity);
    return write_json(dir, "parent.json", json);
}

/* identity.json last but one: from then on the folder holds a run. */
ls_status ls_run_dir_begin(ls_run_dir *dir, const ls_identity *identity, const ls_options *options, ls_command command,
                           const ls_run_parent *parent) {
    char *text;
    size_t bytes;
    if (parent) LS_TRY(write_parent(dir, parent, identity));
    LS_TRY(ls_identity_to_text(identity, &text, &bytes));
    ls_status status = write_file(dir, "identity.json", text, bytes);
    free(text);
    LS_TRY(status);
    return write_json(dir, "config.json", config_json(options, command));
}

ls_status ls_run_dir_write_layout(const ls_run_dir *dir, json_t *json) { return write_json(dir, "layout.json", json); }
