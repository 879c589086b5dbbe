/* How workers decide together: all go on or all fail, with the message of one; and whether they see one folder. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "data_files.h"
#include "run/folder/save.h"
#include "run/agree.h"

enum { WORKERS = 4, TURNS = 3 };

/* What the workers do, and find. */
typedef struct board {
    ls_status bring[WORKERS];
    int killed; /* worker that is lost before the agreement; −1: none */
    int blind;  /* worker that does not see the folder; −1: none */
    bool skipped;
    _Atomic int through; /* workers that have been through their turns */
    int64_t told[WORKERS];
    ls_status got[WORKERS];
    char message[WORKERS][LS_MESSAGE_MAX];
} board;

static board *shared;

static void note(int rank, ls_status status) {
    shared->got[rank] = status;
    snprintf(shared->message[rank], LS_MESSAGE_MAX, "%s", ls_status_message());
}

static ls_status run(ls_worker_fn fn) {
    ls_workers_options options = {.workers = WORKERS, .threads = 1, .timeout_s = 120, .no_pin = 1};
    return ls_workers_run(&options, fn, NULL);
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* The lost worker exits when no worker is in an earlier turn any more, which its exit would abort. */
static void be_lost(void) {
    while (atomic_load(&shared->through) < WORKERS) sched_yield();
    (void)kill(getpid(), SIGKILL);
}

static ls_status agree(ls_world *world, void *arg) {
    (void)arg;
    int rank = ls_world_rank(world);
    for (int turn = 0; turn < TURNS; turn++) LS_TRY(ls_agree(world, LS_OK));
    atomic_fetch_add(&shared->through, 1);
    ls_status mine = shared->bring[rank];
    if (rank == shared->killed) be_lost();
    if (mine != LS_OK) (void)ls_fail(mine, "trouble number %d", rank);
    ls_status status = ls_agree(world, mine);
    note(rank, status);
    if (status != LS_OK) return ls_agree_fail(world, status);
    shared->told[rank] = rank + 7;
    return ls_agree_tell(world, &shared->told[rank], sizeof shared->told[rank]);
}

static void set_board(void) {
    memset(shared, 0, sizeof *shared);
    shared->killed = shared->blind = -1;
}

static void all_go_on(void **state) {
    (void)state;
    set_board();
    assert_int_equal(run(agree), LS_OK);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(shared->got[i], LS_OK);
        assert_int_equal(shared->told[i], 7);
    }
}

static void one_is_enough(void **state) {
    (void)state;
    for (int who = 0; who < WORKERS; who++) {
        char text[64];
        set_board();
        shared->bring[who] = LS_ERR_RESOURCE;
        snprintf(text, sizeof text, "trouble number %d", who);
        assert_int_equal(run(agree), LS_ERR_RESOURCE);
        assert_non_null(strstr(ls_status_message(), text));
        for (int i = 0; i < WORKERS; i++) {
            assert_int_equal(shared->got[i], i == who ? LS_ERR_RESOURCE : LS_ERR_PEER);
            assert_non_null(strstr(shared->message[i], text));
            assert_int_equal(shared->told[i], 0);
        }
    }
}

static void of_several_the_first_tells(void **state) {
    (void)state;
    set_board();
    shared->bring[1] = LS_ERR_INPUT;
    shared->bring[3] = LS_ERR_RESOURCE;
    assert_int_equal(run(agree), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "worker 1: trouble number 1");
    assert_string_equal(shared->message[1], "trouble number 1");
    for (int i = 0; i < WORKERS; i++) assert_int_equal(shared->got[i], i == 1 ? LS_ERR_INPUT : LS_ERR_PEER);
    assert_string_equal(shared->message[3], "worker 1 failed: trouble number 1");
}

/* No worker waits for it, and a worker with a failure of its own keeps that failure. */
static void a_lost_worker_delays_no_other(void **state) {
    (void)state;
    set_board();
    shared->killed = 2;
    shared->bring[1] = LS_ERR_INPUT;
    uint64_t begin = ls_clock_ns();
    assert_int_not_equal(run(agree), LS_OK);
    assert_true(ls_clock_ns() - begin < 60000000000u); /* the timeout is twice that */
    assert_int_equal(shared->got[1], LS_ERR_INPUT);
    assert_string_equal(shared->message[1], "trouble number 1");
    assert_int_not_equal(shared->got[0], LS_OK);
    assert_int_not_equal(shared->got[3], LS_OK);
}

static void alone_nothing_is_asked(void **state) {
    (void)state;
    int64_t value = 5;
    assert_int_equal(ls_agree(NULL, LS_OK), LS_OK);
    (void)ls_fail(LS_ERR_INPUT, "mine");
    assert_int_equal(ls_agree(NULL, LS_ERR_INPUT), LS_ERR_INPUT);
    assert_int_equal(ls_agree_fail(NULL, LS_ERR_INPUT), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "mine");
    assert_int_equal(ls_agree_tell(NULL, &value, sizeof value), LS_OK);
    assert_int_equal(value, 5);
    assert_int_equal(ls_save_check_shared(NULL, "/nowhere"), LS_OK);
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

/* A worker that is blind sees another file system under the name of the folder; without permission to create it,
 * none is. */
static ls_status look(ls_world *world, void *arg) {
    (void)arg;
    int rank = ls_world_rank(world);
    if (rank == shared->blind &&
        (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
         mount("none", folder, "tmpfs", 0, "size=64k") != 0))
        shared->skipped = true;
    LS_TRY(ls_agree(world, LS_OK));
    ls_status status = ls_save_check_shared(world, rank == 0 ? folder : NULL);
    note(rank, status);
    return status;
}

/* Names that begin with a dot are counted too. */
static void expect_empty(void) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) fail_msg("%s is left", entry->d_name);
    closedir(dir);
}

static void a_folder_that_all_see(void **state) {
    (void)state;
    set_board();
    assert_int_equal(run(look), LS_OK);
    expect_empty();
}

static void a_folder_that_one_does_not_see(void **state) {
    (void)state;
    set_board();
    shared->blind = 2;
    ls_status status = run(look);
    if (shared->skipped) skip();
    assert_int_equal(status, LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "worker 2 on "));
    assert_non_null(strstr(ls_status_message(), "does not see files that worker 0 on "));
    assert_non_null(strstr(ls_status_message(), folder));
    assert_non_null(strstr(ls_status_message(), "--out"));
    for (int i = 0; i < WORKERS; i++) assert_int_equal(shared->got[i], i == 2 ? LS_ERR_INPUT : LS_ERR_PEER);
    expect_empty();
}

static void a_folder_that_is_not_there(void **state) {
    (void)state;
    char there[sizeof folder];
    set_board();
    memcpy(there, folder, sizeof there);
    snprintf(folder, sizeof folder, "/nowhere");
    ls_status status = run(look);
    memcpy(folder, there, sizeof there);
    assert_int_equal(status, LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "worker 0: "));
    assert_non_null(strstr(ls_status_message(), "/nowhere"));
}

static int set_up(void **state) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : make_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_go_on),
        cmocka_unit_test(one_is_enough),
        cmocka_unit_test(of_several_the_first_tells),
        cmocka_unit_test(a_lost_worker_delays_no_other),
        cmocka_unit_test(alone_nothing_is_asked),
        cmocka_unit_test(a_folder_that_all_see),
        cmocka_unit_test(a_folder_that_one_does_not_see),
        cmocka_unit_test(a_folder_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
