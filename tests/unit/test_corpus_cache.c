/* test_corpus_cache.c: the token cache under attack: altered and cut shards, what killed processes leave, locks that
 * are held, links in the way, and permissions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "token_cache.h"
#include "data/text/cache_folder.h"

#define TEXT "hello world, hello ring\n"

/* Opens the text through the cache; the ids must be the bytes of the text. */
static ls_status open_text(const char *path, const char *cache, double wait_s) {
    ls_corpus_options options = {.tokenizer = bytes, .cache_dir = cache, .say = note, .wait_s = wait_s};
    ls_corpus *corpus = NULL;
    int32_t ids[sizeof TEXT];
    said[0] = warned[0] = '\0';
    ls_status status = ls_corpus_open(path, &options, &corpus);
    if (status != LS_OK) return status;
    assert_int_equal(ls_corpus_count(corpus), strlen(TEXT));
    assert_int_equal(ls_corpus_read(corpus, 0, strlen(TEXT), ids), LS_OK);
    for (size_t i = 0; i < strlen(TEXT); i++) assert_int_equal(ids[i], TEXT[i]);
    ls_corpus_close(corpus);
    return LS_OK;
}

static void altered_tokens_are_not_trained_on(void **state) {
    (void)state;
    const char *cache = in_folder("altered"), *path = put_text("a.txt", TEXT);
    assert_int_equal(open_text(path, cache, 0), LS_OK);
    /* A token, the last one, what the header says of the text, the checksum itself. */
    const off_t places[] = {1024, 1024 + 2 * (off_t)strlen(TEXT) - 2, 4 * 9, 4 * 16, 600};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char shard[600];
        find_in(cache, ".bin", shard);
        change_byte(shard, places[i]);
        assert_int_equal(open_text(path, cache, 0), LS_OK);
        assert_non_null(strstr(warned, shard));
        assert_non_null(strstr(warned, "is damaged"));
        assert_non_null(strstr(said, "tokens from"));
        assert_int_equal(open_text(path, cache, 0), LS_OK);
        assert_string_equal(warned, "");
        assert_non_null(strstr(said, "tokenized before"));
    }
    unlink(path);
}

/* Files of `lockstep tokenize` have the same checksum; there the user must make them again. */
static void altered_token_files_are_refused(void **state) {
    (void)state;
    const char *cache = in_folder("files"), *path = put_text("b.txt", TEXT);
    assert_int_equal(open_text(path, cache, 0), LS_OK);
    char shard[600];
    find_in(cache, ".bin", shard);
    change_byte(shard, 1030);
    ls_corpus_options options = {.tokenizer = bytes};
    ls_corpus *corpus = NULL;
    assert_refused(ls_corpus_open(shard, &options, &corpus), "is damaged: its tokens do not have the checksum");
    assert_non_null(strstr(ls_status_message(), shard));
    unlink(path);
}

static void what_killed_processes_leave_is_removed(void **state) {
    (void)state;
    const char *cache = in_folder("left"), *path = put_text("c.txt", TEXT);
    char name[128];
    assert_int_equal(ls_dir_make(cache), LS_OK);
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    /* Two of a process that has exited, as 0.1.0 and this version name them; one of a process that runs (this one); one
     * whose lock is held. */
    snprintf(name, sizeof name, "left/00000000000000000000000000000001_000001.bin.tmp-%d", (int)gone);
    put_text(name, "x");
    snprintf(name, sizeof name, "left/00000000000000000000000000000002_000001.bin.tmp-%d-0", (int)gone);
    put_text(name, "x");
    snprintf(name, sizeof name, "left/00000000000000000000000000000003_000001.bin.tmp-%d-0", (int)getpid());
    const char *of_running = put_text(name, "x");
    snprintf(name, sizeof name, "left/00000000000000000000000000000004_000001.bin.tmp-%d-0", (int)gone);
    const char *of_locked = put_text(name, "x");
    int held = open(put_text("left/00000000000000000000000000000004.lock", "1\n"), O_RDWR);
    assert_int_equal(flock(held, LOCK_EX), 0);
    put_text("left/00000000000000000000000000000005.lock", "1\n");
    put_text("left/mine.tmp-1", "x"); /* no name of the cache's: not touched */
    assert_int_equal(open_text(path, cache, 0), LS_OK);
    assert_true(ls_file_exists(of_running));
    assert_true(ls_file_exists(of_locked));
    assert_true(ls_file_exists(in_folder("left/mine.tmp-1")));
    assert_int_equal(count_entries(cache), 5); /* these three, the lock that is held, and the tokens */
    close(held);
    unlink(path);
}

/* The lock of the entry of this text, held by this process under another descriptor. */
static int hold_lock(const char *path, const char *cache, char lock[600]) {
    assert_int_equal(open_text(path, cache, 0), LS_OK);
    char shard[600];
    find_in(cache, ".bin", shard);
    snprintf(lock, 600, "%.*s.lock", (int)(strlen(shard) - strlen("_000001.bin")), shard);
    unlink(shard);
    int fd = open(lock, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    dprintf(fd, "4711\n");
    return fd;
}

static void a_lock_that_is_held_has_a_deadline(void **state) {
    (void)state;
    const char *cache = in_folder("held"), *path = put_text("d.txt", TEXT);
    char lock[600];
    int fd = hold_lock(path, cache, lock);
    assert_int_equal(open_text(path, cache, 0.01), LS_ERR_DEADLINE);
    assert_non_null(strstr(said, "waiting for process 4711, which is tokenizing"));
    assert_non_null(strstr(said, "d.txt …"));
    assert_non_null(strstr(ls_status_message(), "process 4711"));
    assert_non_null(strstr(ls_status_message(), lock));
    /* Another text has another lock. */
    assert_int_equal(open_text(put_text("e.txt", TEXT), in_folder("held2"), 0.01), LS_OK);
    close(fd); /* as the system does for a process that is killed */
    assert_int_equal(open_text(path, cache, 0.01), LS_OK);
    assert_int_equal(count_entries(cache), 1);
    unlink(path);
}

static void a_link_in_the_way_is_not_followed(void **state) {
    (void)state;
    const char *cache = in_folder("links"), *path = put_text("f.txt", TEXT), *mine = put_text("mine", "precious");
    char lock[600], name[700];
    int fd = hold_lock(path, cache, lock);
    close(fd);
    unlink(lock);
    assert_int_equal(symlink(mine, lock), 0);
    assert_refused(open_text(path, cache, 0.01), lock);
    unlink(lock);
    /* The name that the next temporary file would have. */
    snprintf(name, sizeof name, "%.*s_000001.bin.tmp-%d-0", (int)(strlen(lock) - strlen(".lock")), lock, (int)getpid());
    assert_int_equal(symlink(mine, name), 0);
    assert_int_equal(open_text(path, cache, 0.01), LS_OK);
    char *text;
    size_t length;
    assert_int_equal(ls_file_read(mine, 100, &text, &length), LS_OK);
    assert_string_equal(text, "precious");
    free(text);
    unlink(path);
}

/* The writer itself, without the cache that cleans up before it. */
static void temporary_files_are_new(void **state) {
    (void)state;
    write_beside_a_link("t_000001.bin.tmp", false);
}

static void the_folder_is_private(void **state) {
    (void)state;
    const char *cache = in_folder("open/to/all"), *path = put_text("g.txt", TEXT);
    struct stat about;
    assert_int_equal(open_text(path, cache, 0), LS_OK);
    assert_int_equal(stat(cache, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(chmod(cache, 0777), 0);
    assert_int_equal(open_text(path, cache, 0), LS_OK);
    assert_int_equal(stat(cache, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    /* Only root can create another user's folder; other users find one in the system. */
    const char *foreign = in_folder("foreign");
    if (geteuid() == 0) {
        assert_int_equal(mkdir(foreign, 0777), 0);
        assert_int_equal(chown(foreign, 12345, 12345), 0);
    } else {
        foreign = "/tmp";
    }
    assert_refused(open_text(path, foreign, 0), "belongs to another user");
    assert_non_null(strstr(ls_status_message(), "XDG_CACHE_HOME"));
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(altered_tokens_are_not_trained_on),
        cmocka_unit_test(altered_token_files_are_refused),
        cmocka_unit_test(what_killed_processes_leave_is_removed),
        cmocka_unit_test(a_lock_that_is_held_has_a_deadline),
        cmocka_unit_test(a_link_in_the_way_is_not_followed),
        cmocka_unit_test(temporary_files_are_new),
        cmocka_unit_test(the_folder_is_private),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
