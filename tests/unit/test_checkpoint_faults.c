/* test_checkpoint_faults.c: a save that is killed at any moment, or that finds no room, costs nothing that was saved
 * before.
 *
 * The kills work in memory (/dev/shm) where there is such a folder: saves are short there, so that fifty kills hit many
 * different moments. With LS_TEST_LONG there are two thousand. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "test_checkpoint_store.h"

/* ---- kills ------------------------------------------------------------------------------------------------------- */

/* What the child tells the parent; it outlives the child. */
struct told {
    _Atomic int64_t committed; /* −1: none yet */
    atomic_int is_running, has_failed;
};

/* Saves every step `times` times, from behind the newest one on, until it is killed. */
static void save_for_ever(struct told *told, int times) {
    ls_store *store;
    if (ls_store_open(folder, LS_STORE_WRITE, &store) == LS_OK) {
        ls_store_set_keep(store, 3);
        atomic_store(&told->committed, read_latest());
        atomic_store(&told->is_running, 1);
        for (int64_t step = read_latest() + 1;; step++) {
            for (int i = 0; i < times; i++) {
                if (save_step(store, step, (unsigned)step) != LS_OK) goto failed;
                atomic_store(&told->committed, step);
            }
        }
    }
failed:
    fprintf(stderr, "the saving process failed: %s\n", ls_status_message());
    atomic_store(&told->has_failed, 1);
    _exit(1);
}

static void sleep_us(long us) {
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) continue;
}

static void run_and_kill(struct told *told, int times, long delay_us) {
    atomic_store(&told->is_running, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) save_for_ever(told, times);
    /* The very first save is left to end: before it there is nothing to keep. */
    while (!atomic_load(&told->has_failed) && (!atomic_load(&told->is_running) || atomic_load(&told->committed) < 0))
        sleep_us(50);
    sleep_us(delay_us);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(atomic_load(&told->has_failed), 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int64_t newest_of(const ls_store *store) {
    int64_t step;
    char *skipped;
    assert_int_equal(ls_store_newest_sound(store, NULL, NULL, &step, &skipped), LS_OK);
    /* A save that was cut off must never look like one. */
    assert_string_equal(skipped, "");
    free(skipped);
    check_content(store, step, (unsigned)step);
    return step;
}

/* As a reader finds it, with nothing cleaned up yet. */
static void check_as_left(int64_t committed) {
    ls_store *store;
    assert_int_equal(ls_store_open(folder, LS_STORE_READ, &store), LS_OK);
    int64_t newest = newest_of(store), latest = read_latest();
    assert_true(newest == committed || newest == committed + 1);
    assert_true(latest == newest || latest == newest - 1);
    check_content(store, latest, (unsigned)latest);
    ls_store_close(store);
}

static void check_cleaned(int64_t committed) {
    ls_store *store;
    ls_store_entry *entries;
    int count;
    if (ls_store_open(folder, LS_STORE_WRITE, &store) != LS_OK) fail_msg("%s", ls_status_message());
    int64_t newest = newest_of(store);
    assert_true(newest == committed || newest == committed + 1);
    assert_int_equal(read_latest(), newest);
    assert_int_equal(ls_store_list(store, &entries, &count), LS_OK);
    for (int i = 0; i < count; i++) check_content(store, entries[i].step, (unsigned)entries[i].step);
    free(entries);
    assert_int_equal(count_names(in_folder("checkpoints")), count + 1);
    ls_store_close(store);
}

/* Every kill may have come before an old checkpoint went; the next save that ends makes up for all of them. */
static void check_pruned(int64_t committed) {
    ls_store *store;
    assert_int_equal(ls_store_open(folder, LS_STORE_WRITE, &store), LS_OK);
    ls_store_set_keep(store, 3);
    assert_int_equal(save_step(store, committed + 2, 0), LS_OK);
    assert_true(count_names(in_folder("checkpoints")) <= 3 + 1);
    ls_store_close(store);
}

static void kill_many_times(int times) {
    struct told *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(told, MAP_FAILED);
    atomic_store(&told->committed, -1);
    unsigned random = 12345;
    int kills = getenv("LS_TEST_LONG") ? 1000 : 25;
    for (int i = 0; i < kills; i++) {
        random = random * 1664525u + 1013904223u;
        run_and_kill(told, times, (long)(random >> 8) % 20000);
        int64_t committed = atomic_load(&told->committed);
        /* A reader may find a step without its folder for the moment in which it is replaced. */
        if (times == 1) check_as_left(committed);
        check_cleaned(committed);
    }
    check_pruned(atomic_load(&told->committed));
    print_message("%d kills, %lld saves\n", kills, (long long)atomic_load(&told->committed) * times);
    munmap(told, sizeof *told);
}

static void kills_cost_nothing(void **state) {
    (void)state;
    kill_many_times(1);
}

static void kills_while_replacing_cost_nothing(void **state) {
    (void)state;
    kill_many_times(2);
}

/* ---- no room ----------------------------------------------------------------------------------------------------- */

static ls_status save_under_limit(ls_store *store, int64_t step, rlim_t limit_bytes) {
    struct rlimit limit, old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = limit_bytes;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ls_status status = save_step(store, step, (unsigned)step);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    return status;
}

/* Each limit stops another of the writes; in the end none does. */
static void files_that_may_not_grow_leave_nothing_behind(void **state) {
    (void)state;
    ls_store *store;
    int refused = 0;
    assert_int_equal(ls_store_open(folder, LS_STORE_WRITE, &store), LS_OK);
    ls_store_set_keep(store, 1);
    assert_int_equal(save_step(store, 1, 1), LS_OK);
    for (rlim_t limit = 0; limit < 20000; limit += limit < 64 ? 7 : 2500) {
        ls_status status = save_under_limit(store, 2, limit);
        if (status == LS_OK) continue;
        refused++;
        assert_int_equal(status, LS_ERR_RESOURCE);
        assert_non_null(strstr(ls_status_message(), "File too large"));
        assert_int_equal(count_names(in_folder("checkpoints")), 2);
        assert_int_equal(read_latest(), 1);
        check_content(store, 1, 1);
    }
    assert_true(refused > 10);
    assert_int_equal(save_step(store, 2, 2), LS_OK);
    check_content(store, 2, 2);
    ls_store_close(store);
}

enum { CHILD_SKIPS = 77 };

/* In a process and a mount namespace of its own. Says what went wrong and returns what the process ends with. */
static int fill_a_small_disk(void) {
    ls_store *store;
    ls_status status = LS_OK;
    int64_t step = 0, newest;
    char *skipped;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("ls_test", folder, "tmpfs", 0, "size=1m") != 0)
        return CHILD_SKIPS;
    if (ls_store_open(folder, LS_STORE_WRITE, &store) != LS_OK) return 1;
    while (status == LS_OK && step < 100) {
        status = save_step(store, step, (unsigned)step);
        step += status == LS_OK;
    }
    fprintf(stderr, "after %lld checkpoints: %s\n", (long long)step, ls_status_message());
    if (status != LS_ERR_RESOURCE || step < 10 || step > 30) return 2;
    if (!strstr(ls_status_message(), "No space left on device")) return 3;
    if (count_names(in_folder("checkpoints")) != step + 1) return 4;
    if (read_latest() != step - 1) return 5;
    for (int64_t i = 0; i < step; i++)
        if (ls_store_verify(store, i, NULL, NULL) != LS_OK) return 6;
    if (ls_store_newest_sound(store, NULL, NULL, &newest, &skipped) != LS_OK || newest != step - 1) return 7;
    free(skipped);
    /* One that is far too large is refused before anything of it is written, and names the bytes it wants. */
    const int64_t many = 1 << 20;
    const ls_safetensors_decl decl = {.name = "large", .dtype = LS_F32, .dims = 1, .shape = &many};
    const ls_safetensors_plan plan = {.tensors = &decl, .count = 1};
    unsigned salt = 1;
    status = save_tensors(in_folder("large"), &plan, read_known, &salt, NULL);
    fprintf(stderr, "%s\n", ls_status_message());
    if (status != LS_ERR_RESOURCE || !strstr(ls_status_message(), "cannot reserve 4194432 bytes")) return 8;
    if (count_names(folder) != 1) return 9;
    ls_store_close(store);
    return 0;
}

static void a_full_disk_leaves_nothing_behind(void **state) {
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(fill_a_small_disk());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_SKIPS) {
        print_message("skipped: only root may mount a small disk\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kills_cost_nothing, make_folder_in_memory, remove_folder),
        cmocka_unit_test_setup_teardown(kills_while_replacing_cost_nothing, make_folder_in_memory, remove_folder),
        cmocka_unit_test_setup_teardown(files_that_may_not_grow_leave_nothing_behind, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_nothing_behind, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
