/* cmd_bisect.c: `lockstep bisect RUN`: finds the first step of a run whose state is wrong.
 *
 * Training is deterministic, so a run can be replayed. The replay is a run of its own, in a folder inside RUN that is
 * removed at the end. It resumes RUN's oldest intact checkpoint before recorded steps, or starts from the beginning of
 * RUN, and compares the hash of each state with the hash that RUN recorded for that step. It ends at the first
 * difference. The sums that the workers keep of their last steps then name the tensors that differ and the workers that
 * hold them.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "config/saved_config.h"
#include "device/calls.h"
#include "numerics/state_sum.h"
#include "observe/run_read.h"
#include "run/folder/run_dir.h"
#include "run/folder/state_log.h"

enum { FILE_BYTES_MAX = 1 << 26, TENSORS_SHOWN = 8 };

/* State hashes by step, 0 … last ("": not recorded), and losses, which are all that a run without hashes has. */
typedef struct series {
    long long last;
    char (*state)[LS_HASH_TEXT_BYTES];
    double *loss;      /* of each step; NaN: not recorded */
    long long damaged; /* lines of the metrics that were skipped */
} series;

/* How far two runs were compared, and where they differ. */
typedef struct verdict {
    long long from, to; /* steps that were compared: states after from … to */
    long long compared; /* number of steps in that range whose hash or loss both runs recorded */
    long long hashes;   /* number of hashes among them */
    long long differs;  /* first step after which the states differ; −1: none */
    bool by_loss;       /* the loss of this step differs; there is no hash */
    char recorded[LS_HASH_TEXT_BYTES], replayed[LS_HASH_TEXT_BYTES];
} verdict;

/* ---- what a run recorded ----------------------------------------------------------------------------------------- */

/* Frees the arrays and leaves an empty series. */
static void free_series(series *s) {
    free(s->state);
    free(s->loss);
    *s = (series){.last = -1};
}

/* Adds the state hashes that checkpoints hold, for steps without one: the state after the last step is recorded only
 * there. Unreadable checkpoints are skipped. */
static void add_checkpoints(const char *run, series *s) {
    ls_store *store = NULL;
    ls_store_entry *entries = NULL;
    int count = 0;
    if (ls_store_open(run, LS_STORE_READ, &store) != LS_OK) return;
    if (ls_store_list(store, &entries, &count) != LS_OK) count = 0;
    for (int i = 0; i < count; i++) {
        ls_checkpoint *checkpoint = NULL;
        json_t *state = NULL;
        if (!entries[i].is_complete || entries[i].step > s->last || s->state[entries[i].step][0]) continue;
        if (ls_checkpoint_open(ls_store_folder(store, entries[i].step).text, &checkpoint) == LS_OK &&
            ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state) == LS_OK) {
            const char *text = json_string_value(json_object_get(state, LS_SAVED_STATE));
            if (text && strlen(text) == 32) memcpy(s->state[entries[i].step], text, sizeof s->state[0]);
        }
        json_decref(state);
        ls_checkpoint_close(checkpoint);
    }
    free(entries);
    ls_store_close(store);
}

/* Reads loss and state hash of each step from the run's metrics and checkpoints; a step that was not recorded has NaN
 * and "". On failure the caller still calls free_series(). */
static ls_status read_series(const char *run, series *s) {
    static ls_run_log log;
    *s = (series){.last = -1};
    LS_TRY(ls_run_log_open(run, &log));
    s->last = log.step_count > 0 ? log.steps[log.step_count - 1].step : 0;
    s->state = calloc((size_t)s->last + 1, sizeof *s->state);
    s->loss = calloc((size_t)s->last + 1, sizeof *s->loss);
    bool whole = s->state && s->loss;
    for (long long i = 0; whole && i <= s->last; i++) s->loss[i] = (double)NAN;
    for (size_t i = 0; whole && i < log.step_count; i++) {
        const ls_run_log_step *step = &log.steps[i];
        if (step->step < 1) continue;
        s->loss[step->step] = step->loss;
        memcpy(s->state[step->step - 1], step->state_before, sizeof s->state[0]);
    }
    s->damaged = log.damaged_lines;
    ls_run_log_free(&log);
    if (whole) add_checkpoints(run, s);
    return whole ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for %lld steps", s->last);
}

/* Returns whether two losses have the same bits. */
static bool same_loss(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Compares the steps after v->to that both runs have recorded, up to the first difference, and updates the verdict.
 * Called again as a replay goes on. A step without both hashes is compared by its loss. */
static void compare_recorded_steps(const series *run, const series *other, verdict *v) {
    for (long long s = v->to + 1; s <= run->last && s <= other->last && v->differs < 0; s++) {
        bool both = run->state[s][0] && other->state[s][0];
        /* The next step records the hash of this one. */
        if (run->state[s][0] && !other->state[s][0] && s == other->last) return;
        bool losses = !isnan(run->loss[s]) && !isnan(other->loss[s]);
        if (both && strcmp(run->state[s], other->state[s]) != 0) {
            v->differs = s;
            memcpy(v->recorded, run->state[s], sizeof v->recorded);
            memcpy(v->replayed, other->state[s], sizeof v->replayed);
        } else if (!both && losses && !same_loss(run->loss[s], other->loss[s])) {
            v->differs = s;
            v->by_loss = true;
        }
        v->to = s;
        v->hashes += both;
        v->compared += both || losses;
    }
}

/* ---- the replay -------------------------------------------------------------------------------------------------- */

/* The process that trains again, and its temporary folder. */
typedef struct replay {
    char folder[PATH_MAX / 2], run[PATH_MAX]; /* `run` is inside `folder` */
    long long from;                           /* step after which it begins; 0: the start of the run */
    bool resumes;                             /* from a linked checkpoint */
    pid_t child;                              /* 0: it is not running */
    char config[PATH_MAX];                    /* the file of the run that has its options */
} replay;

/* Copies the file `from` to folder `to` under the name `name`. */
static ls_status copy_as(const char *from, const char *to, const char *name) {
    char path[PATH_MAX];
    char *data = NULL;
    size_t bytes;
    LS_TRY(ls_file_read(from, FILE_BYTES_MAX, &data, &bytes));
    ls_status status = snprintf(path, sizeof path, "%s/%s", to, name) < PATH_MAX
                           ? ls_file_write_atomic(path, data, bytes)
                           : ls_fail(LS_ERR_INPUT, "%s: too long", to);
    free(data);
    return status;
}

/* Copies the file `name` from folder `from` to folder `to`. Returns LS_OK if `from` has no such file. */
static ls_status copy_file_if_present(const char *from, const char *to, const char *name) {
    char path[PATH_MAX];
    if (!ls_folder_has(from, name)) return LS_OK;
    if (snprintf(path, sizeof path, "%s/%s", from, name) >= PATH_MAX)
        return ls_fail(LS_ERR_INPUT, "%s: too long", from);
    return copy_as(path, to, name);
}

/* Finds the file with the run's saved options. Fails if they are damaged, because a replay with other options would
 * report correct steps as wrong. */
static ls_status find_config(const char *run, char path[PATH_MAX]) {
    switch (ls_saved_config_find(run, path)) {
    case LS_CONFIG_SOUND: return LS_OK;
    case LS_CONFIG_OF_COPY:
        ls_log_warn("%s/" LS_CONFIG_FILE " is damaged or was edited; the replay uses the options of its copy", run);
        return LS_OK;
    default:
        return ls_fail(LS_ERR_INPUT,
                       "%.200s cannot be replayed: its " LS_CONFIG_FILE " is damaged or missing, and it has no sound "
                       "copy",
                       run);
    }
}

/* Hard-links the files of a checkpoint of `store` into folder `to`. No copy is necessary, because they never change. */
static ls_status link_checkpoint(const ls_store *store, const char *to, int64_t step) {
    ls_path from = ls_store_folder(store, step);
    const char *slash = strrchr(from.text, '/');
    ls_path into = ls_path_format("%s/%s", to, slash ? slash + 1 : from.text);
    ls_status status = LS_OK;
    LS_TRY(ls_dir_make(into.text));
    DIR *folder = opendir(from.text);
    if (!folder) return ls_fail_errno(LS_ERR_RESOURCE, "cannot read %s", from.text);
    for (const struct dirent *entry; status == LS_OK && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        ls_path a = ls_path_format("%s/%s", from.text, entry->d_name),
                b = ls_path_format("%s/%s", into.text, entry->d_name);
        if (link(a.text, b.text) != 0) status = ls_fail_errno(LS_ERR_RESOURCE, "cannot link %s to %s", a.text, b.text);
    }
    closedir(folder);
    return status;
}

/* Sets *step to the oldest intact checkpoint before step `last` or, if `most` is not negative, to the newest intact one
 * up to step `most`; −1: none, so the replay starts from the beginning, as for a short run without --save-every, whose
 * only checkpoint is that of its last step. most 0: −1. */
static ls_status choose_checkpoint(const ls_store *store, int64_t most, int64_t last, int64_t *step) {
    ls_store_entry *entries = NULL;
    int count = 0;
    *step = -1;
    LS_TRY(ls_store_list(store, &entries, &count));
    for (int i = 0; i < count; i++) {
        bool wanted = most < 0 ? *step < 0 && entries[i].step < last : entries[i].step <= most && most > 0;
        if (wanted && entries[i].is_complete && ls_store_verify(store, entries[i].step, NULL, NULL) == LS_OK)
            *step = entries[i].step;
    }
    free(entries);
    return LS_OK;
}

/* Makes a run in a temporary folder inside `run`, with its options and a link to the checkpoint that
 * choose_checkpoint() selects, from which it trains to step `last`. Without a checkpoint only the folder is made. */
static ls_status prepare_replay(const char *run, int64_t most, int64_t last, replay *r) {
    static const char *const names[] = {"identity.json", "layout.json", "parent.json", "device.json"};
    ls_store *store = NULL;
    int64_t step = -1;
    if (snprintf(r->folder, sizeof r->folder, "%s/bisect-%ld", run, (long)getpid()) >= (int)sizeof r->folder)
        return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", run);
    snprintf(r->run, sizeof r->run, "%s/replay", r->folder);
    ls_path checkpoints = ls_path_format("%s/checkpoints", r->run);
    LS_TRY(find_config(run, r->config));
    LS_TRY(ls_store_open(run, LS_STORE_READ, &store));
    ls_status status = choose_checkpoint(store, most, last, &step);
    if (status == LS_OK) status = ls_dir_make(r->folder);
    if (status == LS_OK && step >= 0) status = ls_dir_make(r->run);
    if (status == LS_OK && step >= 0) status = copy_as(r->config, r->run, LS_CONFIG_FILE);
    for (size_t i = 0; i < sizeof names / sizeof *names && step >= 0 && status == LS_OK; i++)
        status = copy_file_if_present(run, r->run, names[i]);
    if (status == LS_OK && step >= 0) status = link_checkpoint(store, checkpoints.text, step);
    ls_store_close(store);
    r->resumes = step >= 0;
    r->from = step >= 0 ? step : 0;
    return status;
}

/* Starts `lockstep train` for the replay as a child process, without checkpoints and evaluations, with its output in
 * folder/log. Sets r->child. */
static ls_status start_replay(const char *run, replay *r) {
    char log[PATH_MAX], folder[PATH_MAX];
    if (snprintf(log, sizeof log, "%s/log", r->folder) >= PATH_MAX)
        return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", run);
    const char *const again[] = {"lockstep", "train",          "--resume", "--out",      r->run,     "--save-every",
                                 "0",        "--keep",         "0",        "--check",    "replicas", "--eval-every",
                                 "0",        "--sample-every", "0",        "--restarts", "0",        NULL};
    const char *const anew[] = {
        "lockstep", "train",    "--config",     r->config, "--out",          r->run, "--save-every", "0", "--keep", "0",
        "--check",  "replicas", "--eval-every", "0",       "--sample-every", "0",    "--restarts",   "0", NULL};
    r->child = fork();
    if (r->child < 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot start the replay");
    if (r->child > 0) return LS_OK;
    int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0) _exit(127);
    /* The options have paths relative to the folder in which the run was started. */
    if (!r->resumes && ls_run_dir_started_in(run, folder) && chdir(folder) != 0) _exit(127);
    /* The casts remove a const that execv() respects. */
    execv("/proc/self/exe", (char *const *)(uintptr_t)(r->resumes ? again : anew));
    _exit(127);
}

/* Returns LS_ERR_FAILED with the exit status and the last line of the replay's log. */
static ls_status fail_with_log(const replay *r, int rc) {
    char path[PATH_MAX], last[400] = "";
    char *data = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/log", r->folder);
    if (ls_file_read(path, FILE_BYTES_MAX, &data, &bytes) == LS_OK) {
        size_t end = bytes, begin;
        while (end > 0 && data[end - 1] == '\n') end--;
        for (begin = end; begin > 0 && data[begin - 1] != '\n';) begin--;
        snprintf(last, sizeof last, "%.*s", (int)(end - begin), data + begin);
    }
    free(data);
    return ls_fail(LS_ERR_FAILED, "the replay ended with %d: %s", rc, last);
}

/* Compares what the replay has recorded so far. Metrics that do not exist yet, or cannot be read now, are no
 * failure. */
static ls_status compare_replay(const replay *r, const series *run, verdict *v) {
    series other;
    if (!ls_folder_has(r->run, "metrics.jsonl")) return LS_OK;
    if (read_series(r->run, &other) == LS_OK) compare_recorded_steps(run, &other, v);
    free_series(&other);
    return LS_OK;
}

/* Compares every 0.2 s until the replay ends; asks it to end (SIGTERM) at the first difference or when it has reached
 * the run's last step. Sets r->child to 0. Fails if the replay itself failed. */
static ls_status follow(replay *r, const series *run, verdict *v) {
    int rc = 0;
    bool ended = false, asked = false;
    while (!ended) {
        pid_t pid = waitpid(r->child, &rc, WNOHANG);
        ended = pid == r->child;
        if (!ended) ls_clock_sleep_us(200000);
        LS_TRY(compare_replay(r, run, v));
        ls_cli_progress("replayed up to step %lld of %lld", v->to, run->last);
        bool done = v->differs >= 0 || v->to >= run->last;
        if (!ended && done && !asked) kill(r->child, SIGTERM);
        asked = asked || done;
    }
    ls_cli_progress_end();
    r->child = 0;
    if (asked || (WIFEXITED(rc) && WEXITSTATUS(rc) == 0)) return LS_OK;
    return fail_with_log(r, WIFEXITED(rc) ? WEXITSTATUS(rc) : 128 + WTERMSIG(rc));
}

/* ---- verdict ----------------------------------------------------------------------------------------------------- */

static const char *const tensor_names[LS_STATE_TENSORS] = {"weight", "moment 1", "moment 2"};

/* Returns a new list of the tensors (weight, moments of each parameter) whose sums over all workers differ and, if both
 * runs have the same number of workers, the workers whose sums differ. */
static json_t *list_tensors(const ls_state_record *a, const ls_state_record *b) {
    json_t *list = json_array();
    size_t count = (size_t)a->params * LS_STATE_TENSORS;
    bool alike = a->workers == b->workers;
    for (size_t t = 0; t < count; t++) {
        ls_hash128 x = {0, 0}, y = {0, 0};
        json_t *workers = json_array();
        for (int w = 0; w < a->workers; w++) ls_state_add(&x, a->parts[(size_t)w * count + t]);
        for (int w = 0; w < b->workers; w++) ls_state_add(&y, b->parts[(size_t)w * count + t]);
        for (int w = 0; alike && w < a->workers; w++)
            if (!ls_hash_equal(a->parts[(size_t)w * count + t], b->parts[(size_t)w * count + t]))
                json_array_append_new(workers, json_integer(w));
        if (!ls_hash_equal(x, y))
            json_array_append_new(list, json_pack("{s:s, s:s, s:O}", "parameter", a->names[t / LS_STATE_TENSORS],
                                                  "tensor", tensor_names[t % LS_STATE_TENSORS], "workers", workers));
        json_decref(workers);
    }
    return list;
}

/* Returns a new list of the tensors that differ after a step, or NULL if one of the runs has no record of it or other
 * parameters. *all is set to the number of tensors. */
static json_t *find_tensors(const char *run, const char *other, long long step, size_t *all) {
    ls_state_record a, b;
    json_t *list = NULL;
    bool both = ls_state_record_read(run, step, &a);
    if (both && !ls_state_record_read(other, step, &b)) {
        ls_state_record_free(&a);
        both = false;
    }
    if (!both) return NULL;
    if (a.params == b.params) list = list_tensors(&a, &b);
    *all = (size_t)a.params * LS_STATE_TENSORS;
    ls_state_record_free(&a);
    ls_state_record_free(&b);
    return list;
}

/* Returns whether all tensors of the list belong to the same parameter. */
static bool are_of_one_parameter(const json_t *tensors) {
    const char *first = json_string_value(json_object_get(json_array_get(tensors, 0), "parameter"));
    for (size_t i = 1; i < json_array_size(tensors); i++)
        if (strcmp(first, json_string_value(json_object_get(json_array_get(tensors, i), "parameter"))) != 0)
            return false;
    return true;
}

/* Prints the tensors that differ, at most TENSORS_SHOWN, and what that suggests; `all`: how many were compared. */
static void print_tensors(const json_t *tensors, size_t all) {
    size_t count = json_array_size(tensors);
    printf("tensors that differ: %zu of %zu\n", count, all);
    for (size_t i = 0; i < count && i < TENSORS_SHOWN; i++) {
        const json_t *t = json_array_get(tensors, i), *workers = json_object_get(t, "workers");
        printf("  %s, %s", json_string_value(json_object_get(t, "parameter")),
               json_string_value(json_object_get(t, "tensor")));
        for (size_t w = 0; w < json_array_size(workers); w++)
            printf("%s %lld", w == 0 ? "; worker" : ",", (long long)json_integer_value(json_array_get(workers, w)));
        putchar('\n');
    }
    if (count > TENSORS_SHOWN) printf("  …\n");
    puts(are_of_one_parameter(tensors)
             ? "only one parameter differs: its memory was corrupted, or its update was wrong"
             : "several parameters differ: the gradient of that step was wrong, or the weights it was computed from");
}

/* Prints the verdict. last: step recorded last; other: "other" or "replayed"; tensors: those that differ, or NULL if
 * unknown. */
static void print_verdict(const verdict *v, long long last, const char *other, const json_t *tensors, size_t all) {
    if (v->from > 0) printf("not replayed: steps 1 to %lld (--from 0 replays all)\n", v->from);
    printf("compared: steps %lld to %lld, by state hashes in %lld of them\n", v->from + 1, v->to, v->hashes);
    if (v->compared < v->to - v->from)
        printf("not compared: %lld of these steps, because one run recorded neither hash nor loss\n",
               v->to - v->from - v->compared);
    if (v->differs < 0 && v->to < last) printf("not compared: steps %lld to %lld\n", v->to + 1, last);
    if (v->hashes == 0)
        puts("no hashes were recorded (--check off, or an older version), so only losses were compared: they do not "
             "show damaged optimizer state");
    if (v->differs < 0) {
        puts(v->hashes > 0 ? "no difference" : "no difference in the losses");
        return;
    }
    if (v->by_loss) {
        printf("first difference: the loss of step %lld; without hashes the tensor is unknown\n", v->differs);
        return;
    }
    printf("first difference: the state after step %lld\n  recorded  %s\n  %-8s  %s\n", v->differs, v->recorded, other,
           v->replayed);
    if (tensors)
        print_tensors(tensors, all);
    else
        puts("tensor and worker are unknown: RUN/state no longer has the hashes of that step");
}

/* Fails with LS_ERR_INPUT if no step was compared, because "no difference" would then be misleading. */
static ls_status check_something_was_compared(const ls_options *options, const series *run, const verdict *v) {
    if (v->compared > 0 || v->differs >= 0) return LS_OK;
    if (options->against)
        return ls_fail(LS_ERR_INPUT, "nothing was compared: %s and %s recorded no step in common", options->run,
                       options->against);
    if (run->last < 1) return ls_fail(LS_ERR_INPUT, "nothing was compared: %s recorded no step", options->run);
    return ls_fail(LS_ERR_INPUT,
                   "nothing was compared: no recorded step follows step %lld, where the replay began, and the last "
                   "recorded one is %lld; --from 0 replays the run from its beginning",
                   v->from, run->last);
}

/* Warns about damaged lines of the metrics. They are not compared, because a wrong number in them would incriminate a
 * correct step. */
static void warn_damaged(const char *run, const series *s) {
    if (s->damaged > 0)
        ls_log_warn("%s: metrics.jsonl has %lld damaged line%s, not compared here; --resume sets damaged lines aside",
                    run, s->damaged, s->damaged == 1 ? "" : "s");
}

/* Prints the verdict as text or JSON. other: folder of the run that was compared, to find the tensors that differ. */
static ls_status report_verdict(const ls_options *options, const char *other, const series *run, const verdict *v) {
    LS_TRY(check_something_was_compared(options, run, v));
    size_t all = 0;
    json_t *tensors = v->differs >= 0 && !v->by_loss ? find_tensors(options->run, other, v->differs, &all) : NULL;
    if (!options->json) {
        print_verdict(v, run->last, options->against ? "other" : "replayed", tensors, all);
        json_decref(tensors);
        return LS_OK;
    }
    return ls_cli_print_json_lines(
        json_pack("{s:I, s:I, s:I, s:I, s:o, s:b, s:s, s:s, s:I, s:o}", "from", (json_int_t)v->from, "to",
                  (json_int_t)v->to, "compared", (json_int_t)v->compared, "hashes", (json_int_t)v->hashes, "differs",
                  v->differs >= 0 ? json_integer(v->differs) : json_null(), "by_loss", v->by_loss, "recorded",
                  v->recorded, "replayed", v->replayed, "damaged_lines", (json_int_t)run->damaged, "tensors",
                  tensors ? tensors : json_null()));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Returns LS_ERR_FAILED if the runs differ, so that a script sees it in the exit status. */
static ls_status fail_on_difference(const verdict *v) {
    if (v->differs < 0) return LS_OK;
    return ls_fail(LS_ERR_FAILED, "step %lld was computed wrongly; continue from a checkpoint before it", v->differs);
}

/* Compares with another recorded run (`lockstep bisect A B`), without a replay, and reports. */
static ls_status compare_with_run(const ls_options *options, const series *run, verdict *v) {
    series other;
    LS_TRY(read_series(options->against, &other));
    warn_damaged(options->against, &other);
    compare_recorded_steps(run, &other, v);
    free_series(&other);
    return report_verdict(options, options->against, run, v);
}

/* Replays the run, compares, reports, and removes the replay's folder in every case. */
static ls_status compare_with_replay(const ls_options *options, const series *run, verdict *v) {
    replay r = {.child = 0};
    char path[PATH_MAX];
    if (!realpath(options->run, path)) return ls_fail_errno(LS_ERR_INPUT, "cannot find %s", options->run);
    int64_t most = options->source[LS_OPT_from].origin == LS_ORIGIN_DEFAULT ? -1 : options->from;
    ls_status status = prepare_replay(path, most, run->last, &r);
    v->from = v->to = r.from;
    if (status == LS_OK && v->to < run->last) status = start_replay(path, &r);
    if (status == LS_OK && r.child > 0) status = follow(&r, run, v);
    if (r.child > 0) {
        kill(r.child, SIGKILL);
        (void)waitpid(r.child, NULL, 0);
    }
    if (status == LS_OK) status = report_verdict(options, r.run, run, v);
    ls_status removed = r.folder[0] ? ls_folder_remove(r.folder) : LS_OK;
    return status == LS_OK ? removed : status;
}

/* Runs `lockstep bisect`. LS_ERR_FAILED if a step differs, LS_ERR_INPUT if nothing could be compared. */
ls_status ls_cmd_bisect(const ls_options *options) {
    verdict v = {.differs = -1};
    series run;
    if (!options->run) return ls_fail(LS_ERR_INPUT, "bisect needs a run directory: lockstep bisect RUN");
    LS_TRY(read_series(options->run, &run));
    warn_damaged(options->run, &run);
    ls_status status = options->against ? compare_with_run(options, &run, &v) : compare_with_replay(options, &run, &v);
    free_series(&run);
    return status == LS_OK ? fail_on_difference(&v) : status;
}
