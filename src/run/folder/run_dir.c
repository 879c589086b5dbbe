/* run_dir.c: opens, checks and cleans up the folder of a run, and writes its small files. */
#include "run/folder/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "config/saved_config.h"
#include "run/folder/run_lock.h"

enum {
    IDENTITY_BYTES_MAX = 1 << 20,
    CONFIG_BYTES_MAX = 1 << 20,
    NUMBER_MAX = 1000000,
    DAMAGED_MAX = 10000,
    SHOWN = 200
};

static const char not_utf8[] = "(not UTF-8)";

/* What a run writes here. identity.json first: without it the rest is no run. A trace may be of any run. */
static const char *const files[] = {"identity.json", LS_CONFIG_FILE,  LS_CONFIG_COPY, "parent.json", "layout.json",
                                    "device.json",   "metrics.jsonl", "hosts.json",   "trace.json"};
enum { FILES = sizeof files / sizeof *files, TRACE = FILES - 1 };

struct ls_run_dir {
    ls_run_lock lock;
    ls_run_mode mode;
    bool opened;       /* with the lock held and all checks passed: files with a run's names are this run's */
    size_t first_made; /* bytes of the part of `path` that is the topmost folder made here; 0: all were there */
    char path[PATH_MAX];
    char checkpoints[PATH_MAX];
    char metrics[PATH_MAX];
};

/* ---- what is there ----------------------------------------------------------------------------------------------- */

/* Writes FOLDER/NAME; LS_ERR_INPUT if it is too long. */
static ls_status join_folder_path(char out[PATH_MAX], const char *folder, const char *name) {
    int bytes = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    if (bytes >= 0 && bytes < PATH_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the name of the folder %.*s… is too long; choose a shorter --out", SHOWN, folder);
}

/* Returns whether the folder has a file of this name. */
static bool has(const char *folder, const char *name) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && ls_file_exists(path);
}

bool ls_run_dir_holds_run(const char *path) {
    return has(path, "identity.json") || has(path, "metrics.jsonl") || has(path, "checkpoints");
}

/* Cuts the last name off an absolute path; returns false, without a change, if it is not `name` (NULL: any). */
static bool cut_name(char *path, const char *name) {
    char *slash = strrchr(path, '/');
    if (!slash || slash == path || (name && strcmp(slash + 1, name) != 0)) return false;
    *slash = '\0';
    return true;
}

bool ls_run_dir_of_checkpoint(const char *checkpoint, char run[PATH_MAX]) {
    ls_path named;
    if (ls_store_follow(checkpoint, &named)) checkpoint = named.text;
    return realpath(checkpoint, run) && cut_name(run, NULL) && cut_name(run, "checkpoints") &&
           ls_run_dir_holds_run(run);
}

/* Counts the checkpoints of the run directory, complete or not. */
static ls_status count_checkpoints(const char *path, int *count) {
    ls_store *store = NULL;
    ls_store_entry *entries = NULL;
    LS_TRY(ls_store_open(path, LS_STORE_READ, &store));
    ls_status status = ls_store_list(store, &entries, count);
    free(entries);
    ls_store_close(store);
    return status;
}

/* Returns whether the folder has a recorded step or a checkpoint, which cannot be remade at once. */
static bool has_work(const char *path) {
    char name[PATH_MAX];
    struct stat about;
    int count = 0;
    if (snprintf(name, sizeof name, "%s/metrics.jsonl", path) >= PATH_MAX) return true;
    if (lstat(name, &about) == 0 && !(S_ISREG(about.st_mode) && about.st_size == 0)) return true;
    return count_checkpoints(path, &count) != LS_OK || count > 0;
}

/* Returns whether the folder belongs to a start that was killed before its first step and that --resume cannot
 * continue: without identity.json or config.json nothing describes the run, and a fork begins at its first
 * checkpoint. */
static bool is_unstarted(const char *path) {
    char started_in[PATH_MAX];
    if (!ls_run_lock_is_ours(path)) return false;
    /* A config.json alone may be a model's. */
    if (!has(path, "identity.json") && has(path, "config.json") && !ls_run_dir_started_in(path, started_in))
        return false;
    if (!has(path, "identity.json") && has(path, "layout.json")) return false;
    return (!has(path, "identity.json") || !has(path, "config.json") || has(path, "parent.json")) && !has_work(path);
}

ls_status ls_run_dir_check_resume(const char *path) {
    if (ls_run_dir_holds_run(path)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "there is no run in %.*s to resume; leave --resume out to start one there", SHOWN,
                   path);
}

/* Fails with LS_ERR_INPUT if the folder does not fit the mode: one to resume holds no run, or one to start holds a run
 * or files of something else. */
static ls_status check_mode(const char *path, ls_run_mode mode) {
    bool holds = ls_run_dir_holds_run(path);
    if (mode == LS_RUN_RESUME) return ls_run_dir_check_resume(path);
    if (is_unstarted(path)) return LS_OK;
    if (holds)
        return ls_fail(LS_ERR_INPUT, "%.*s holds a run already; continue it with --resume, or choose another --out",
                       SHOWN, path);
    /* A model's folder has a config.json too, and it must not be lost. */
    static const char *const foreign[] = {"config.json", "parent.json", "layout.json"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (has(path, foreign[i]))
            return ls_fail(LS_ERR_INPUT, "%.*s has a %s that is not part of a run; choose another --out", SHOWN, path,
                           foreign[i]);
    return LS_OK;
}

/* Fails with LS_ERR_INPUT if `path` is not a folder that this process can write to. */
static ls_status check_folder(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot look at %.*s", SHOWN, path);
    if (!S_ISDIR(about.st_mode))
        return ls_fail(LS_ERR_INPUT, "%.*s is a file, and a run needs a folder; choose another --out", SHOWN, path);
    if (access(path, W_OK | X_OK) != 0)
        return ls_fail_errno(LS_ERR_INPUT, "cannot write in the folder %.*s; choose another --out", SHOWN, path);
    return LS_OK;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Creates the folder and those above it, and notes in dir->first_made which of them were not there. */
static ls_status make_folders(ls_run_dir *dir, const char *path) {
    char part[PATH_MAX];
    size_t length = strlen(path);
    for (size_t n = 1; n <= length && length < sizeof part; n++) {
        if (path[n] != '/' && path[n] != '\0') continue;
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        if (mkdir(part, 0777) == 0 && dir->first_made == 0) dir->first_made = n;
    }
    return ls_dir_make(path); /* says what is wrong where there is still no folder */
}

/* Removes the folders that this start created, from the innermost, as long as they are empty: another process may have
 * put files there. */
static void remove_folders(const ls_run_dir *dir) {
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", dir->path);
    while (dir->first_made > 0 && strlen(part) >= dir->first_made && rmdir(part) == 0) {
        char *slash = strrchr(part, '/');
        if (!slash || slash == part) return;
        *slash = '\0';
    }
}

/* Removes the files of a run and an empty checkpoints/, but no trace, which may be of any run. */
static void remove_files(const ls_run_dir *dir) {
    char path[PATH_MAX];
    for (int i = 0; i < TRACE; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir->path, files[i]) < PATH_MAX) (void)unlink(path);
    (void)rmdir(dir->checkpoints);
}

/* Removes requests and answers of `lockstep resize` (run/recover/resize.h), which are for the process that holds the
 * lock. */
static void remove_notes(const ls_run_dir *dir) {
    static const char *const names[] = {"resize", "resize.answer"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s/%s", dir->path, names[i]) < PATH_MAX) (void)unlink(path);
}

/* Returns whether a name is that of a temporary file of a run. */
static bool is_temporary(const char *name) {
    if (strncmp(name, ".shared-", 8) == 0) return true; /* of workers that looked whether they share the folder */
    if (strncmp(name, "metrics-", 8) == 0 && strstr(name, ".jsonl.tmp-")) return true; /* of one that was thinned */
    for (int i = 0; i < FILES; i++) {
        size_t length = strlen(files[i]);
        if (strncmp(name, files[i], length) == 0 && strncmp(name + length, ".tmp-", 5) == 0) return true;
    }
    return false;
}

/* Removes temporary files of processes that were killed inside ls_file_write_atomic(), from the folder itself and not
 * from folders in it. LS_ERR_INPUT if one cannot be removed. The caller holds the lock. */
static ls_status clean_up(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) return ls_fail_errno(LS_ERR_INPUT, "cannot open the folder %.*s", SHOWN, path);
    ls_status status = LS_OK;
    for (struct dirent *entry; status == LS_OK && (entry = readdir(folder)) != NULL;)
        if (is_temporary(entry->d_name) && unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            status = ls_fail_errno(LS_ERR_INPUT, "cannot remove %.*s/%s", SHOWN, path, entry->d_name);
    (void)closedir(folder);
    return status;
}

ls_status ls_run_dir_clean_up(const ls_run_dir *dir) { return clean_up(dir->path); }

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Takes the lock. If the folder holds a run, its lock file is the run's, whatever its content. */
static ls_status take_lock(ls_run_dir *dir) {
    return ls_run_lock_take(dir->path, has(dir->path, "identity.json"), &dir->lock);
}

/* Allocates the struct; touches no files. *out may be set on failure, too. */
static ls_status create(const char *path, ls_run_mode mode, ls_run_dir **out) {
    ls_run_dir *dir = *out = calloc(1, sizeof *dir);
    if (!dir) return ls_fail(LS_ERR_RESOURCE, "out of memory for a run directory");
    dir->lock = LS_RUN_LOCK_NONE;
    dir->mode = mode;
    LS_TRY(join_folder_path(dir->checkpoints, path, "checkpoints"));
    LS_TRY(join_folder_path(dir->metrics, path, "metrics.jsonl"));
    snprintf(dir->path, sizeof dir->path, "%s", path);
    return LS_OK;
}

/* Checks the folder, creates and locks it, and removes what a killed process left. Checks before the lock is taken, so
 * that a refusal leaves a foreign folder untouched, and again with it: if a lock file of ours has appeared, another
 * start is at work, and only what it leaves counts. */
static ls_status enter(ls_run_dir *dir) {
    const char *path = dir->path;
    ls_status status = check_mode(path, dir->mode);
    if (status != LS_OK && (dir->lock.fd >= 0 || !ls_run_lock_is_ours(path))) return status;
    LS_TRY(make_folders(dir, path));
    if (dir->lock.fd < 0) LS_TRY(take_lock(dir));
    LS_TRY(check_mode(path, dir->mode));
    LS_TRY(clean_up(path));
    if (dir->mode == LS_RUN_RESUME) remove_notes(dir); /* of a run that was killed */
    if (dir->mode == LS_RUN_START) remove_files(dir);  /* of a start that was killed */
    dir->opened = true;
    return LS_OK;
}

ls_status ls_run_dir_open(const char *path, ls_run_mode mode, ls_run_dir **out) {
    ls_status status;
    ls_run_dir *dir = NULL;
    *out = NULL;
    LS_TRY_OUT(create(path, mode, &dir));
    if (ls_file_exists(path)) LS_TRY_OUT(check_folder(path));
    /* That a run is at work here says more than that there is one. */
    if (ls_run_dir_holds_run(path) && has(path, "lock")) LS_TRY_OUT(take_lock(dir));
    LS_TRY_OUT(enter(dir));
    *out = dir;
    return LS_OK;
out:
    ls_run_dir_abandon(dir);
    return status;
}

/* Creates the folder of dir->path. *made: this call created it; false: it was there. Retries, because a failing start
 * may remove the folder above it meanwhile. */
static ls_status claim(ls_run_dir *dir, bool *made) {
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%s", dir->path);
    char *slash = strrchr(above, '/');
    for (int tries = 0; tries < 100; tries++) {
        *made = mkdir(dir->path, 0777) == 0;
        if (*made || errno == EEXIST) break;
        if (errno != ENOENT || !slash) return ls_fail_errno(LS_ERR_INPUT, "cannot make folder %s", dir->path);
        *slash = '\0';
        LS_TRY(make_folders(dir, above));
        *slash = '/';
    }
    if (*made && dir->first_made == 0) dir->first_made = strlen(dir->path);
    return LS_OK;
}

ls_status ls_run_dir_open_next(const char *stem, ls_run_dir **out) {
    ls_status status = LS_OK;
    ls_run_dir *dir = NULL;
    bool made = false;
    *out = NULL;
    for (int n = 1; n < NUMBER_MAX && !made; n++) {
        char path[PATH_MAX];
        /* Nothing is removed: the folder is another start's, which may not have locked it yet. */
        ls_run_dir_close(dir);
        dir = NULL;
        if (snprintf(path, sizeof path, "%s-%d", stem, n) >= PATH_MAX) break;
        LS_TRY_OUT(create(path, LS_RUN_START, &dir));
        LS_TRY_OUT(claim(dir, &made));
    }
    if (made) LS_TRY_OUT(enter(dir));
    if (!made) {
        ls_run_dir_close(dir);
        return ls_fail(LS_ERR_INPUT, "%.*s-N: no number is free; name a folder with --out", SHOWN, stem);
    }
    *out = dir;
    return LS_OK;
out:
    ls_run_dir_abandon(dir);
    return status;
}

void ls_run_dir_close(ls_run_dir *dir) {
    /* Keeps the lock file, which the next process locks again. */
    if (!dir) return;
    ls_run_lock_release(&dir->lock);
    free(dir);
}

void ls_run_dir_abandon(ls_run_dir *dir) {
    /* Looks at the folder and not at what this process did: in a run of several workers another process wrote there. */
    if (!dir) return;
    char message[LS_MESSAGE_MAX]; /* of the failure that led here */
    snprintf(message, sizeof message, "%s", ls_status_message());
    bool held = ls_run_lock_is_held(&dir->lock);
    if (held && dir->opened) (void)clean_up(dir->path); /* of a worker that a signal has ended */
    if (held && dir->opened && dir->mode == LS_RUN_START && !has_work(dir->path)) remove_files(dir);
    if (!ls_run_dir_holds_run(dir->path)) ls_run_lock_remove(&dir->lock);
    if (held || !dir->opened) remove_folders(dir);
    if (strcmp(message, ls_status_message()) != 0) (void)ls_fail(LS_ERR_FAILED, "%s", message);
    ls_run_dir_close(dir);
}

const char *ls_run_dir_path(const ls_run_dir *dir) { return dir->path; }

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Writes a file atomically. Takes ownership of `json`; NULL means that memory ran out, and fails. */
static ls_status write_json(const ls_run_dir *dir, const char *name, json_t *json) {
    char path[PATH_MAX], *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    size_t bytes = text ? strlen(text) : 0;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for %s", name);
    text[bytes] = '\n'; /* over the NUL, which is not written */
    ls_status status = join_folder_path(path, dir->path, name);
    if (status == LS_OK) status = ls_file_write_atomic(path, text, bytes + 1);
    free(text);
    return status;
}

/* Returns a JSON string, "(not UTF-8)" for a text that is not UTF-8: a new reference; NULL if out of memory. */
static json_t *text_json(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string(not_utf8);
}

/* Returns whether an option only says how a run starts. config.json omits it, because --config would start the next run
 * in the same way. */
static bool is_about_starting(ls_option_id id) {
    return id == LS_OPT_config || id == LS_OPT_print_config || id == LS_OPT_resume || id == LS_OPT_fork;
}

/* Returns the options of the command as JSON, as the user spelled them, or as the table has them, so that reading them
 * gives the same values; NULL if out of memory. Records the working directory, too, so that relative paths keep their
 * meaning anywhere. */
static json_t *config_json(const ls_options *options, ls_command command) {
    char here[PATH_MAX];
    json_t *object = json_object();
    bool whole = !getcwd(here, sizeof here) || json_object_set_new(object, LS_CONFIG_STARTED_IN, text_json(here)) == 0;
    for (ls_option_id id = 0; whole && id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        const char *text = options->source[id].text ? options->source[id].text : info->value;
        if (!(info->commands & (1u << command)) || !text || is_about_starting(id)) continue;
        whole = json_object_set_new(object, info->name, text_json(text)) == 0;
    }
    if (whole) return object;
    json_decref(object);
    return NULL;
}

bool ls_run_dir_started_in(const char *run, char folder[PATH_MAX]) {
    char path[PATH_MAX];
    json_t *config = NULL;
    struct stat about;
    ls_saved_config kind = ls_saved_config_find(run, path);
    if (kind != LS_CONFIG_SOUND && kind != LS_CONFIG_OF_COPY) return false;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    if (ls_json_load_file(path, CONFIG_BYTES_MAX, &config) != LS_OK) return false;
    const char *text = json_string_value(json_object_get(config, LS_CONFIG_STARTED_IN));
    bool found = text && snprintf(folder, PATH_MAX, "%s", text) < PATH_MAX;
    json_decref(config);
    return found;
}

ls_status ls_run_dir_read_identity(const ls_run_dir *dir, ls_identity **out) {
    char path[PATH_MAX];
    json_t *json = NULL;
    *out = NULL;
    LS_TRY(join_folder_path(path, dir->path, "identity.json"));
    LS_TRY(ls_json_load_file(path, IDENTITY_BYTES_MAX, &json));
    ls_status status = ls_identity_from_json(path, json, out);
    json_decref(json);
    return status;
}

ls_status ls_run_dir_check_checkpoints(const ls_run_dir *dir) {
    /* `checkpoints` is created before the first line of metrics, and `latest` with the first checkpoint. */
    int count = 0;
    ls_metrics_about about;
    LS_TRY(count_checkpoints(dir->path, &count));
    if (count > 0) return LS_OK;
    LS_TRY(ls_metrics_look(dir->metrics, &about));
    if (about.last_step > 0 && !has(dir->path, "checkpoints"))
        return ls_fail(LS_ERR_INPUT,
                       "%.*s has recorded %" PRId64
                       " steps but its folder checkpoints is missing: put it back, or start "
                       "a new run in another --out",
                       SHOWN, dir->path, about.last_step);
    if (about.saved_step < 0 && !has(dir->checkpoints, "latest")) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "%.*s has saved checkpoints, but there is none in %.*s: put them back, or start a new run in another "
        "--out",
        SHOWN, dir->path, SHOWN, dir->checkpoints);
}

ls_status ls_run_dir_open_metrics(ls_run_dir *dir, int64_t step, ls_metrics **out) {
    ls_metrics_cut_report report;
    *out = NULL;
    LS_TRY(ls_metrics_cut(dir->metrics, step, &report));
    if (report.damaged > 0)
        ls_log_warn("%.*s: %" PRId64 " line%s could not be read and %s set aside in %s; the others are kept", SHOWN,
                    dir->metrics, report.damaged, report.damaged == 1 ? "" : "s", report.damaged == 1 ? "was" : "were",
                    report.aside);
    LS_TRY(ls_metrics_open(dir->metrics, out));
    const char *file_max = getenv("LS_FAULT_METRICS_BYTES"); /* for tests */
    if (file_max) ls_metrics_set_file_max(*out, strtoll(file_max, NULL, 10));
    return LS_OK;
}

/* ---- beginning a run --------------------------------------------------------------------------------------------- */

/* Returns the list of fields in which a fork differs from its parent; NULL if out of memory. */
static json_t *changes_json(const ls_identity *own, const ls_identity *parent) {
    size_t count = ls_identity_diff(own, parent, NULL, 0);
    ls_identity_change *changes = calloc(count + 1, sizeof *changes);
    json_t *array = json_array();
    bool whole = changes && array;
    if (whole) (void)ls_identity_diff(own, parent, changes, count);
    for (size_t i = 0; whole && i < count; i++)
        whole = json_array_append_new(array, json_pack("{s:s, s:s, s:s}", "field", changes[i].name, "was",
                                                       changes[i].there, "is", changes[i].here)) == 0;
    free(changes);
    if (whole) return array;
    json_decref(array);
    return NULL;
}

/* Writes parent.json of a fork. */
static ls_status write_parent(const ls_run_dir *dir, const ls_run_parent *parent, const ls_identity *own) {
    json_t *identity;
    LS_TRY(ls_identity_to_json(parent->identity, &identity));
    char *full = realpath(parent->path, NULL);
    json_t *path = text_json(full ? full : parent->path);
    free(full);
    /* Takes all of them over, also when it fails. */
    json_t *json = json_pack("{s:o, s:I, s:o, s:o}", "path", path, "step", (json_int_t)parent->step, "changed",
                             changes_json(own, parent->identity), "identity", identity);
    return write_json(dir, "parent.json", json);
}

/* Renames a damaged config.json of a resumed run, so that it is kept. */
static ls_status set_config_aside(const ls_run_dir *dir) {
    char found[PATH_MAX], path[PATH_MAX], aside[PATH_MAX];
    ls_saved_config kind = ls_saved_config_find(dir->path, found);
    LS_TRY(join_folder_path(path, dir->path, LS_CONFIG_FILE));
    if ((kind != LS_CONFIG_OF_COPY && kind != LS_CONFIG_DAMAGED) || !ls_file_exists(path)) return LS_OK;
    for (int n = 1; n < DAMAGED_MAX; n++) {
        if (snprintf(aside, sizeof aside, "%s.damaged-%d", path, n) >= PATH_MAX) break;
        if (ls_file_exists(aside)) continue;
        if (rename(path, aside) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot set %.*s aside", SHOWN, path);
        ls_log_warn("%.*s was set aside as %.*s", SHOWN, path, SHOWN, aside);
        return LS_OK;
    }
    return LS_OK;
}

/* Writes config.json with a checksum. Writes its copy first, so that one of the two files is complete at any moment. */
static ls_status write_config(const ls_run_dir *dir, const ls_options *options, ls_command command) {
    json_t *object = config_json(options, command);
    if (!object) return ls_fail(LS_ERR_RESOURCE, "out of memory for " LS_CONFIG_FILE);
    ls_status status = ls_saved_config_seal(object);
    if (status == LS_OK) status = write_json(dir, LS_CONFIG_COPY, json_incref(object));
    if (status == LS_OK) status = write_json(dir, LS_CONFIG_FILE, json_incref(object));
    json_decref(object);
    return status;
}

ls_status ls_run_dir_begin(ls_run_dir *dir, const ls_identity *identity, const ls_options *options, ls_command command,
                           const ls_run_parent *parent) {
    /* Writes identity.json last: once it exists, the folder holds a run and everything that --resume reads. */
    json_t *json;
    if (parent) LS_TRY(write_parent(dir, parent, identity));
    if (dir->mode == LS_RUN_RESUME) LS_TRY(set_config_aside(dir));
    LS_TRY(write_config(dir, options, command));
    LS_TRY(ls_identity_to_json(identity, &json));
    return write_json(dir, "identity.json", json);
}

ls_status ls_run_dir_write_layout(const ls_run_dir *dir, json_t *json) { return write_json(dir, "layout.json", json); }

ls_status ls_run_dir_write_device(const ls_run_dir *dir, json_t *json) { return write_json(dir, "device.json", json); }

bool ls_run_dir_has_device(const ls_run_dir *dir) { return has(dir->path, "device.json"); }
