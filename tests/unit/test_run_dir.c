/* test_run_dir.c: permissions and locks of run directories, their contents, and what is left after a failure. */
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "config/saved_config.h"
#include "run/folder/run_dir.h"
#include "scratch.h"

enum { NOBODY = 65534 };
#define COMMAND LS_COMMAND_BENCH_COMM

static char path[128];

static int make_files(void **state) {
    if (make_folder_in_memory(state) != 0) return -1;
    snprintf(path, sizeof path, "%s/runs/a", folder);
    return 0;
}

/* One at a time: the next call reuses the memory. */
static const char *in_run(const char *name) {
    static char full[512];
    snprintf(full, sizeof full, "%s/%s", path, name);
    return full;
}

static ls_identity *identity_of(int64_t seed) {
    ls_identity *identity;
    assert_int_equal(ls_identity_create(&identity), LS_OK);
    assert_int_equal(ls_identity_add_i64(identity, "seed", seed, LS_IDENTITY_FIXED), LS_OK);
    return identity;
}

static ls_status begin(ls_run_dir *dir, int64_t seed, const ls_run_parent *parent) {
    ls_options options;
    ls_options_defaults(&options);
    ls_identity *identity = identity_of(seed);
    ls_status status = ls_run_dir_begin(dir, identity, &options, COMMAND, parent);
    ls_identity_destroy(identity);
    ls_options_fini(&options);
    return status;
}

static void make_run(int64_t seed) {
    ls_run_dir *dir;
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(begin(dir, seed, NULL), LS_OK);
    ls_run_dir_close(dir);
}

static void check_refused(const char *where, ls_run_mode mode, const char *message) {
    ls_run_dir *dir = (ls_run_dir *)path;
    assert_int_equal(ls_run_dir_open(where, mode, &dir), LS_ERR_INPUT);
    assert_null(dir);
    if (!strstr(ls_status_message(), message)) fail_msg("%s", ls_status_message());
}

/* ---- starting and resuming --------------------------------------------------------------------------------------- */

static void a_run_is_started_once_and_resumed(void **state) {
    (void)state;
    ls_run_dir *dir;
    assert_false(ls_run_dir_holds_run(path));
    check_refused(path, LS_RUN_RESUME, "there is no run in");
    assert_false(ls_file_exists(path));
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_string_equal(ls_run_dir_path(dir), path);
    ls_run_dir_close(dir);
    /* A run that ended before it began is none. */
    check_refused(path, LS_RUN_RESUME, "leave --resume out");
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(begin(dir, 5, NULL), LS_OK);
    ls_run_dir_close(dir);
    assert_true(ls_run_dir_holds_run(path));
    check_refused(path, LS_RUN_START, "holds a run already; continue it with --resume, or choose another --out");
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    ls_identity *identity, *expected = identity_of(5);
    assert_int_equal(ls_run_dir_read_identity(dir, &identity), LS_OK);
    assert_int_equal(ls_identity_check(identity, expected, "the test"), LS_OK);
    ls_identity_destroy(identity);
    ls_identity_destroy(expected);
    /* Going on replaces the two files. */
    assert_int_equal(begin(dir, 6, NULL), LS_OK);
    assert_int_equal(ls_run_dir_read_identity(dir, &identity), LS_OK);
    int64_t seed;
    assert_true(ls_identity_get_i64(identity, "seed", &seed) && seed == 6);
    ls_identity_destroy(identity);
    ls_run_dir_close(dir);
    ls_run_dir_close(NULL);
}

static void other_traces_of_a_run_count(void **state) {
    (void)state;
    assert_int_equal(ls_dir_make(in_run("checkpoints")), LS_OK);
    check_refused(path, LS_RUN_START, "holds a run already");
    assert_int_equal(rmdir(in_run("checkpoints")), 0);
    assert_int_equal(ls_file_write_atomic(in_run("metrics.jsonl"), "", 0), LS_OK);
    check_refused(path, LS_RUN_START, "holds a run already");
}

/* A model's folder must neither be overwritten nor get a lock file. */
static void foreign_files_are_safe(void **state) {
    (void)state;
    static const char *const names[] = {"config.json", "parent.json"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ls_dir_make(path), LS_OK);
        assert_int_equal(ls_file_write_atomic(in_run(names[i]), "{}", 2), LS_OK);
        check_refused(path, LS_RUN_START, "that is not part of a run; choose another --out");
        assert_false(ls_file_exists(in_run("lock")));
        assert_int_equal(unlink(in_run(names[i])), 0);
    }
    /* Other files are no matter. */
    assert_int_equal(ls_file_write_atomic(in_run("notes.txt"), "x", 1), LS_OK);
    make_run(1);
    assert_true(ls_file_exists(in_run("notes.txt")));
}

static void unfit_places_are_named(void **state) {
    (void)state;
    char file[160], below[200], deep[5000];
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(below, sizeof below, "%s/run", file);
    assert_int_equal(ls_file_write_atomic(file, "x", 1), LS_OK);
    check_refused(file, LS_RUN_START, "is a file, and a run needs a folder");
    check_refused(file, LS_RUN_RESUME, "is a file, and a run needs a folder");
    check_refused(below, LS_RUN_START, "a file of that name exists");
    check_refused("", LS_RUN_START, "the name is empty");
    memset(deep, 'x', sizeof deep);
    deep[0] = '/';
    deep[sizeof deep - 1] = '\0';
    check_refused(deep, LS_RUN_START, "too long");
    deep[300] = '\0';
    check_refused(deep, LS_RUN_START, "name too long");
}

/* In a child that is not root: to root every folder is writable. */
static int try_as_nobody(void) {
    ls_run_dir *dir;
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) return 2;
    if (ls_run_dir_open(path, LS_RUN_START, &dir) != LS_ERR_INPUT) return 3;
    if (!strstr(ls_status_message(), "cannot write in the folder")) return 4;
    return strstr(ls_status_message(), "Permission denied") ? 0 : 5;
}

static void a_folder_that_is_not_ours_is_named(void **state) {
    (void)state;
    assert_int_equal(ls_dir_make(path), LS_OK);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(path, 0555), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(try_as_nobody());
    int wait_status;
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    if (WEXITSTATUS(wait_status) != 2) assert_int_equal(WEXITSTATUS(wait_status), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static void a_checkpoint_knows_its_run(void **state) {
    (void)state;
    char run[PATH_MAX], checkpoint[PATH_MAX], *full = NULL;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-000000001", path);
    assert_false(ls_run_dir_of_checkpoint(checkpoint, run));
    make_run(5);
    assert_int_equal(ls_dir_make(checkpoint), LS_OK);
    full = realpath(path, NULL);
    assert_non_null(full);
    assert_true(ls_run_dir_of_checkpoint(checkpoint, run));
    assert_string_equal(run, full);
    strcat(checkpoint, "/../step-000000001/");
    assert_true(ls_run_dir_of_checkpoint(checkpoint, run));
    assert_string_equal(run, full);
    assert_false(ls_run_dir_of_checkpoint(path, run));
    assert_false(ls_run_dir_of_checkpoint(in_run("checkpoints"), run));
    assert_false(ls_run_dir_of_checkpoint("/", run));
    free(full);
}

/* ---- starts that failed ------------------------------------------------------------------------------------------ */

static void put(const char *name, const char *text) {
    assert_int_equal(ls_dir_make(path), LS_OK);
    assert_int_equal(ls_file_write_atomic(in_run(name), text, strlen(text)), LS_OK);
}

static void put_bytes(const char *name, const char *data, size_t bytes) {
    FILE *file = fopen(in_run(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void check_text(const char *name, const char *expected) {
    char *text = NULL;
    size_t bytes;
    assert_int_equal(ls_file_read(in_run(name), 1000, &text, &bytes), LS_OK);
    assert_string_equal(text, expected);
    free(text);
}

/* Each state in which a kill leaves a start, in the order of its writes and in that of version 0.1. */
static void a_start_that_was_killed_is_started_again(void **state) {
    (void)state;
    static const char *const states[][4] = {
        {NULL},
        {"config.json"},
        {"parent.json"},
        {"parent.json", "config.json"},
        {"parent.json", "config.json", "identity.json"},
        {"parent.json", "config.json", "identity.json", "layout.json"},
        {"identity.json"},
        {"parent.json", "identity.json"},
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        ls_run_dir *dir;
        snprintf(path, sizeof path, "%s/state-%zu", folder, i);
        put("lock", i % 2 ? "process 12 on host\n" : "");
        for (int k = 0; k < 4 && states[i][k]; k++) put(states[i][k], "{\"started-in\": \"/\"}");
        assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
        assert_false(ls_file_exists(in_run("parent.json")));
        assert_int_equal(begin(dir, 3, NULL), LS_OK);
        ls_run_dir_close(dir);
        check_refused(path, LS_RUN_START, "holds a run already");
        assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
        ls_run_dir_close(dir);
    }
}

/* What a step or a checkpoint has come of is a run, and what lockstep did not write is not touched. */
static void a_start_does_not_take_what_is_not_its_own(void **state) {
    (void)state;
    put("lock", "process 12 on host\n");
    put("identity.json", "{}");
    put("metrics.jsonl", "{\"step\":1}\n");
    check_refused(path, LS_RUN_START, "holds a run already");
    assert_int_equal(unlink(in_run("metrics.jsonl")), 0);
    assert_int_equal(ls_dir_make(in_run("checkpoints/step-000000001")), LS_OK);
    check_refused(path, LS_RUN_START, "holds a run already");
    snprintf(path, sizeof path, "%s/model", folder);
    put("lock", "process 12 on host\n");
    put("config.json", "{\"hidden_size\": 4}");
    check_refused(path, LS_RUN_START, "has a config.json that is not part of a run");
    check_text("config.json", "{\"hidden_size\": 4}");
}

static void a_failed_start_leaves_nothing(void **state) {
    (void)state;
    ls_run_dir *dir;
    char above[128];
    snprintf(above, sizeof above, "%s/runs", folder);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    (void)ls_fail(LS_ERR_INPUT, "the reason");
    ls_run_dir_abandon(dir);
    assert_string_equal(ls_status_message(), "the reason");
    assert_false(ls_file_exists(above));
    /* With its files, in a folder that was there. */
    put("notes.txt", "x");
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(begin(dir, 1, NULL), LS_OK);
    assert_int_equal(ls_dir_make(in_run("checkpoints")), LS_OK);
    ls_run_dir_abandon(dir);
    assert_int_equal(unlink(in_run("notes.txt")), 0);
    assert_int_equal(rmdir(path), 0);
    /* A step that was recorded makes it a run. */
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(begin(dir, 1, NULL), LS_OK);
    put("metrics.jsonl", "{\"step\":1}\n");
    ls_run_dir_abandon(dir);
    assert_true(ls_run_dir_holds_run(path));
    /* So does going on, which fails more often than not for another reason. */
    assert_int_equal(unlink(in_run("metrics.jsonl")), 0);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    ls_run_dir_abandon(dir);
    assert_true(ls_run_dir_holds_run(path));
    ls_run_dir_abandon(NULL);
}

/* Each of many gets a folder of its own. */
static void folders_are_numbered(void **state) {
    (void)state;
    enum { STARTERS = 10 };
    pid_t pids[STARTERS];
    for (int i = 0; i < STARTERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0) continue;
        ls_run_dir *dir;
        if (ls_run_dir_open_next(path, &dir) != LS_OK) _exit(1);
        _exit(begin(dir, i, NULL) == LS_OK ? 0 : 2);
    }
    for (int i = 0; i < STARTERS; i++) {
        int wait_status;
        assert_int_equal(waitpid(pids[i], &wait_status, 0), pids[i]);
        assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
    }
    for (int i = 1; i <= STARTERS; i++) {
        char one[256];
        snprintf(one, sizeof one, "%s-%d", path, i);
        assert_true(ls_run_dir_holds_run(one));
    }
}

static void checkpoints_that_are_gone_are_missed(void **state) {
    (void)state;
    ls_run_dir *dir;
    make_run(1);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    assert_int_equal(ls_run_dir_check_checkpoints(dir), LS_OK); /* killed before its first step */
    put("metrics.jsonl", "{\"step\":1,\"loss\":5}\n");
    assert_int_equal(ls_run_dir_check_checkpoints(dir), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has recorded 1 steps but its folder checkpoints is missing"));
    assert_int_equal(ls_dir_make(in_run("checkpoints")), LS_OK);
    assert_int_equal(ls_run_dir_check_checkpoints(dir), LS_OK); /* killed before its first checkpoint */
    put("checkpoints/latest", "step-000000001\n");
    assert_int_equal(ls_run_dir_check_checkpoints(dir), LS_ERR_INPUT);
    assert_int_equal(unlink(in_run("checkpoints/latest")), 0);
    put("metrics.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":1,\"saved\":true}\n");
    assert_int_equal(ls_run_dir_check_checkpoints(dir), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has saved checkpoints, but there is none in"));
    assert_int_equal(ls_dir_make(in_run("checkpoints/step-000000001")), LS_OK);
    assert_int_equal(ls_run_dir_check_checkpoints(dir), LS_OK);
    ls_run_dir_close(dir);
}

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* A child that opens the folder, says so, and stays until it is killed. */
static pid_t start_holder(ls_run_mode mode) {
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        ls_run_dir *dir;
        (void)close(ready[0]);
        if (ls_run_dir_open(path, mode, &dir) != LS_OK) _exit(1);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    return pid;
}

static void a_run_in_use_is_refused(void **state) {
    (void)state;
    char expected[64];
    ls_run_dir *dir;
    make_run(1);
    pid_t pid = start_holder(LS_RUN_RESUME);
    snprintf(expected, sizeof expected, "is in use by process %d on ", (int)pid);
    check_refused(path, LS_RUN_RESUME, expected);
    check_refused(path, LS_RUN_RESUME, "choose another --out");
    /* Killed without a chance to clean up: its lock is gone, though its name still stands in the file. */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    char *text;
    size_t bytes;
    assert_int_equal(ls_file_read(in_run("lock"), 1000, &text, &bytes), LS_OK);
    assert_non_null(strstr(text, expected + strlen("is in use by ")));
    free(text);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    /* Also inside one process. */
    check_refused(path, LS_RUN_RESUME, "is in use by process");
    ls_run_dir_close(dir);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    ls_run_dir_close(dir);
}

static void an_odd_lock_file_is_no_obstacle(void **state) {
    (void)state;
    static char rubbish[10000];
    make_run(1);
    memset(rubbish, '\x01', sizeof rubbish);
    assert_int_equal(ls_file_write_atomic(in_run("lock"), rubbish, sizeof rubbish), LS_OK);
    int fd = open(in_run("lock"), O_RDWR);
    assert_true(fd >= 0);
    ls_run_dir *dir;
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    /* The holder may not have written its name yet, or rubbish. */
    assert_int_equal(pwrite(fd, "\x01\x1b[2J\n", 6, 0), 6);
    check_refused(path, LS_RUN_RESUME, "in use by ??[2J;");
    assert_int_equal(ftruncate(fd, 0), 0);
    check_refused(path, LS_RUN_RESUME, "in use by another process;");
    ls_run_dir_close(dir);
    (void)close(fd);
}

/* A user's file of that name, and whatever a link of that name leads to, stay as they are. */
static void a_foreign_lock_is_left_alone(void **state) {
    (void)state;
    char target[160];
    snprintf(target, sizeof target, "%s/precious", folder);
    assert_int_equal(ls_file_write_atomic(target, "precious\n", 9), LS_OK);
    for (int holds_run = 0; holds_run < 2; holds_run++) {
        if (holds_run) make_run(1);
        ls_run_mode mode = holds_run ? LS_RUN_RESUME : LS_RUN_START;
        (void)unlink(in_run("lock"));
        assert_int_equal(ls_dir_make(path), LS_OK);
        assert_int_equal(symlink(target, in_run("lock")), 0);
        check_refused(path, mode, "/lock is a symbolic link, not a lock file of lockstep");
        assert_int_equal(unlink(in_run("lock")), 0);
        assert_int_equal(link(target, in_run("lock")), 0);
        check_refused(path, mode, "/lock is a file with a second name");
        assert_int_equal(unlink(in_run("lock")), 0);
        assert_int_equal(mkfifo(in_run("lock"), 0600), 0);
        check_refused(path, mode, "/lock is no regular file");
        assert_int_equal(unlink(in_run("lock")), 0);
        assert_int_equal(mkdir(in_run("lock"), 0700), 0);
        check_refused(path, mode, "/lock is a folder");
        assert_int_equal(rmdir(in_run("lock")), 0);
    }
    char *text = NULL;
    size_t bytes;
    assert_int_equal(ls_file_read(target, 100, &text, &bytes), LS_OK);
    assert_string_equal(text, "precious\n");
    free(text);
    snprintf(path, sizeof path, "%s/other", folder);
    put("lock", "combination: 1234\n");
    check_refused(path, LS_RUN_START, "/lock is a file of yours, not a lock file of lockstep; it was left alone");
    check_text("lock", "combination: 1234\n");
}

/* Opens until it has won often enough, and makes a file that must not be there while it is inside. 1: it was. */
static int fight(int wins) {
    char inside[160];
    snprintf(inside, sizeof inside, "%s/inside", folder);
    while (wins > 0) {
        ls_run_dir *dir;
        ls_status status = ls_run_dir_open(path, LS_RUN_RESUME, &dir);
        if (status == LS_ERR_INPUT && strstr(ls_status_message(), "is in use by")) {
            sched_yield();
            continue;
        }
        if (status != LS_OK) return 2;
        int fd = open(inside, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0) return 1;
        (void)close(fd);
        sched_yield();
        if (unlink(inside) != 0) return 1;
        ls_run_dir_close(dir);
        sched_yield();
        wins--;
    }
    return 0;
}

static void one_process_at_a_time_wins(void **state) {
    (void)state;
    enum { FIGHTERS = 4, WINS = 100 };
    pid_t pids[FIGHTERS];
    make_run(1);
    for (int i = 0; i < FIGHTERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) _exit(fight(WINS));
    }
    for (int i = 0; i < FIGHTERS; i++) {
        int wait_status;
        assert_int_equal(waitpid(pids[i], &wait_status, 0), pids[i]);
        assert_true(WIFEXITED(wait_status));
        assert_int_equal(WEXITSTATUS(wait_status), 0);
    }
}

/* Of several that start in the same new folder, one gets it; the rest find it in use or holding a run. */
static int start_once(void) {
    ls_run_dir *dir;
    if (ls_run_dir_open(path, LS_RUN_START, &dir) != LS_OK)
        return strstr(ls_status_message(), "in use") || strstr(ls_status_message(), "holds a run") ? 0 : 2;
    ls_status status = begin(dir, getpid(), NULL);
    ls_run_dir_close(dir);
    return status == LS_OK ? 1 : 2;
}

static void one_of_many_starts(void **state) {
    (void)state;
    enum { FIGHTERS = 6 };
    for (int round = 0; round < 10; round++) {
        pid_t pids[FIGHTERS];
        int started = 0;
        snprintf(path, sizeof path, "%s/round-%d", folder, round);
        for (int i = 0; i < FIGHTERS; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) _exit(start_once());
        }
        for (int i = 0; i < FIGHTERS; i++) {
            int wait_status;
            assert_int_equal(waitpid(pids[i], &wait_status, 0), pids[i]);
            assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) < 2);
            started += WEXITSTATUS(wait_status);
        }
        assert_int_equal(started, 1);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* What is in config.json gives the same options with --config. */
static void config_can_be_given_back(void **state) {
    (void)state;
    ls_options options, back;
    ls_run_dir *dir;
    ls_options_defaults(&options);
    assert_int_equal(ls_options_put(&options, LS_OPT_seed, "42", LS_ORIGIN_FLAG, 0), LS_OK);
    assert_int_equal(ls_options_put(&options, LS_OPT_min_size, "64KiB", LS_ORIGIN_FLAG, 0), LS_OK);
    assert_int_equal(ls_options_put(&options, LS_OPT_timeout, "2min", LS_ORIGIN_ENV, 0), LS_OK);
    assert_int_equal(ls_options_put(&options, LS_OPT_ops, "a \"b\"", LS_ORIGIN_FLAG, 0), LS_OK);
    assert_int_equal(ls_options_put(&options, LS_OPT_print_config, "true", LS_ORIGIN_FLAG, 0), LS_OK);
    ls_identity *identity = identity_of(42);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(ls_run_dir_begin(dir, identity, &options, COMMAND, NULL), LS_OK);
    ls_run_dir_close(dir);
    ls_identity_destroy(identity);
    char flag[] = "--config", file[512];
    snprintf(file, sizeof file, "%s", in_run("config.json"));
    char *argv[] = {flag, file};
    assert_int_equal(ls_options_parse(&back, COMMAND, 2, argv), LS_OK);
    assert_int_equal(back.seed, 42);
    assert_int_equal(back.min_size, 65536);
    assert_true(back.timeout == 120);
    assert_string_equal(back.ops, "a \"b\"");
    assert_int_equal(back.rounds, options.rounds);
    assert_null(back.peer);
    assert_false(back.print_config);
    ls_options_fini(&options);
    ls_options_fini(&back);
}

/* Whichever bit flips, the options that are read are those that were written. */
static void no_bit_of_config_changes_the_options(void **state) {
    (void)state;
    ls_options options;
    ls_run_dir *dir;
    ls_identity *identity = identity_of(42);
    char found[PATH_MAX], *text, *copy;
    size_t bytes, copy_bytes;
    ls_options_defaults(&options);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_ABSENT);
    assert_int_equal(ls_run_dir_begin(dir, identity, &options, COMMAND, NULL), LS_OK);
    ls_run_dir_close(dir);
    assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_SOUND);
    assert_string_equal(found, in_run("config.json"));
    assert_int_equal(ls_file_read(found, 1 << 20, &text, &bytes), LS_OK);
    assert_int_equal(ls_file_read(in_run("config.json.copy"), 1 << 20, &copy, &copy_bytes), LS_OK);
    assert_int_equal(bytes, copy_bytes);
    assert_memory_equal(text, copy, bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        text[bit / 8] ^= (char)(1 << bit % 8);
        put_bytes("config.json", text, bytes);
        assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_OF_COPY);
        text[bit / 8] ^= (char)(1 << bit % 8);
    }
    /* The copy does not matter while config.json is sound, and is all there is where both are damaged but one. */
    put_bytes("config.json", text, bytes);
    put_bytes("config.json.copy", "{}", 2);
    assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_SOUND);
    text[bytes / 2] ^= 1;
    put_bytes("config.json", text, bytes);
    assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_DAMAGED);
    /* One of an older version, or made by hand. */
    put_bytes("config.json", "{\"steps\": 3}", 12);
    assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_SOUND);
    free(text);
    free(copy);
    ls_options_fini(&options);
    ls_identity_destroy(identity);
}

/* What could not be read is kept when the run goes on. */
static void damaged_config_is_set_aside(void **state) {
    (void)state;
    ls_options options;
    ls_run_dir *dir;
    ls_identity *identity = identity_of(42);
    char found[PATH_MAX];
    ls_options_defaults(&options);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(ls_run_dir_begin(dir, identity, &options, COMMAND, NULL), LS_OK);
    ls_run_dir_close(dir);
    put_bytes("config.json", "{\"steps", 7);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    assert_int_equal(ls_run_dir_begin(dir, identity, &options, COMMAND, NULL), LS_OK);
    assert_int_equal(ls_saved_config_find(path, found), LS_CONFIG_SOUND);
    check_text("config.json.damaged-1", "{\"steps");
    /* One that is sound is written over. */
    assert_int_equal(ls_run_dir_begin(dir, identity, &options, COMMAND, NULL), LS_OK);
    assert_false(ls_file_exists(in_run("config.json.damaged-2")));
    ls_run_dir_close(dir);
    ls_options_fini(&options);
    ls_identity_destroy(identity);
}

static void damaged_identity_is_named(void **state) {
    (void)state;
    ls_run_dir *dir;
    ls_identity *identity;
    make_run(1);
    assert_int_equal(ls_file_write_atomic(in_run("identity.json"), "{}", 2), LS_OK);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_RESUME, &dir), LS_OK);
    assert_int_equal(ls_run_dir_read_identity(dir, &identity), LS_ERR_INPUT);
    assert_null(identity);
    assert_non_null(strstr(ls_status_message(), "identity.json: field \"fields\" is missing"));
    assert_int_equal(unlink(in_run("identity.json")), 0);
    assert_int_equal(ls_run_dir_read_identity(dir, &identity), LS_ERR_INPUT);
    ls_run_dir_close(dir);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    ls_run_dir *dir;
    struct rlimit before, limit;
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    static const int limits[] = {10, 200};
    for (int i = 0; i < 2; i++) {
        limit = (struct rlimit){.rlim_cur = (rlim_t)limits[i], .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        ls_status status = begin(dir, 1, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, LS_ERR_RESOURCE);
        assert_non_null(strstr(ls_status_message(), "config.json"));
        assert_non_null(strstr(ls_status_message(), "File too large"));
        assert_false(ls_file_exists(in_run("config.json")));
        assert_false(ls_file_exists(in_run("identity.json"))); /* so it is no run yet */
    }
    assert_int_equal(begin(dir, 1, NULL), LS_OK);
    ls_run_dir_close(dir);
    limit = (struct rlimit){.rlim_cur = 4, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ls_status status = ls_run_dir_open(path, LS_RUN_RESUME, &dir);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "/lock"));
    assert_null(dir);
}

static char logged[512];

static void note_log(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    (void)ctx;
    (void)level;
    snprintf(logged, sizeof logged, "%.*s", (int)bytes, line);
}

static void metrics_go_on_from_the_checkpoint(void **state) {
    (void)state;
    ls_run_dir *dir;
    ls_metrics *metrics;
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    assert_int_equal(ls_run_dir_open_metrics(dir, 0, &metrics), LS_OK);
    for (int64_t step = 1; step <= 5; step++) {
        ls_metrics_begin(metrics);
        ls_metrics_add_i64(metrics, "step", step);
        assert_int_equal(ls_metrics_end(metrics), LS_OK);
    }
    assert_int_equal(ls_metrics_close(metrics), LS_OK);
    FILE *file = fopen(in_run("metrics.jsonl"), "a");
    assert_non_null(file);
    assert_true(fputs("{\"step\":6,", file) >= 0);
    assert_int_equal(fclose(file), 0);

    ls_log_set_sink(note_log, NULL);
    assert_int_equal(ls_run_dir_open_metrics(dir, 3, &metrics), LS_OK);
    ls_log_set_sink(NULL, NULL);
    assert_non_null(strstr(logged, "metrics.jsonl: 1 line could not be read and was set aside in "));
    assert_non_null(strstr(logged, "metrics.jsonl.damaged-1"));
    ls_metrics_begin(metrics);
    ls_metrics_add_i64(metrics, "step", 4);
    assert_int_equal(ls_metrics_end(metrics), LS_OK);
    assert_int_equal(ls_metrics_close(metrics), LS_OK);
    char *text;
    size_t bytes;
    assert_int_equal(ls_file_read(in_run("metrics.jsonl"), 1000, &text, &bytes), LS_OK);
    static const char *const begins[] = {"{\"step\":1,\"checksum\":\"", "{\"step\":2,", "{\"step\":3,", "{\"step\":4,"};
    const char *line = text;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        assert_memory_equal(line, begins[i], strlen(begins[i]));
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(line - text, bytes);
    free(text);
    ls_run_dir_close(dir);
}

static const char *text_at(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void a_fork_records_its_parent(void **state) {
    (void)state;
    ls_run_dir *dir;
    ls_identity *parent = identity_of(1);
    json_t *json;
    assert_int_equal(ls_identity_add_f64(parent, "lr", 0.0006, LS_IDENTITY_FIXED), LS_OK);
    assert_int_equal(ls_run_dir_open(path, LS_RUN_START, &dir), LS_OK);
    char relative[256], real[PATH_MAX];
    snprintf(relative, sizeof relative, "%s/../../", path);
    assert_non_null(realpath(folder, real));
    assert_int_equal(begin(dir, 2, &(ls_run_parent){.path = relative, .step = 300, .identity = parent}), LS_OK);
    assert_int_equal(ls_json_load_file(in_run("parent.json"), 10000, &json), LS_OK);
    assert_string_equal(text_at(json, "path"), real);
    assert_int_equal(json_integer_value(json_object_get(json, "step")), 300);
    json_t *changed = json_object_get(json, "changed");
    assert_int_equal(json_array_size(changed), 2);
    assert_string_equal(text_at(json_array_get(changed, 0), "field"), "seed");
    assert_string_equal(text_at(json_array_get(changed, 0), "was"), "1");
    assert_string_equal(text_at(json_array_get(changed, 0), "is"), "2");
    assert_string_equal(text_at(json_array_get(changed, 1), "was"), "0.0006");
    assert_string_equal(text_at(json_array_get(changed, 1), "is"), "absent");
    ls_identity *back;
    assert_int_equal(ls_identity_from_json("parent.json", json_object_get(json, "identity"), &back), LS_OK);
    assert_int_equal(ls_identity_diff(back, parent, NULL, 0), 0);
    ls_identity_destroy(back);
    json_decref(json);
    /* Going on keeps it. */
    assert_int_equal(begin(dir, 2, NULL), LS_OK);
    assert_true(ls_file_exists(in_run("parent.json")));
    ls_run_dir_close(dir);
    ls_identity_destroy(parent);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_files, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_run_is_started_once_and_resumed),
        IN_FOLDER(a_checkpoint_knows_its_run),
        IN_FOLDER(other_traces_of_a_run_count),
        IN_FOLDER(foreign_files_are_safe),
        IN_FOLDER(unfit_places_are_named),
        IN_FOLDER(a_folder_that_is_not_ours_is_named),
        IN_FOLDER(a_start_that_was_killed_is_started_again),
        IN_FOLDER(a_start_does_not_take_what_is_not_its_own),
        IN_FOLDER(a_failed_start_leaves_nothing),
        IN_FOLDER(folders_are_numbered),
        IN_FOLDER(checkpoints_that_are_gone_are_missed),
        IN_FOLDER(a_foreign_lock_is_left_alone),
        IN_FOLDER(a_run_in_use_is_refused),
        IN_FOLDER(an_odd_lock_file_is_no_obstacle),
        IN_FOLDER(one_process_at_a_time_wins),
        IN_FOLDER(one_of_many_starts),
        IN_FOLDER(config_can_be_given_back),
        IN_FOLDER(no_bit_of_config_changes_the_options),
        IN_FOLDER(damaged_config_is_set_aside),
        IN_FOLDER(damaged_identity_is_named),
        IN_FOLDER(a_full_disk_is_an_error),
        IN_FOLDER(metrics_go_on_from_the_checkpoint),
        IN_FOLDER(a_fork_records_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
