/* test_files.c: whole files in and out, and what is left after a write that fails. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "scratch.h"

static int entries(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void check_content(const char *path, const void *expected, size_t expected_bytes) {
    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(ls_file_read(path, 1 << 20, &data, &bytes), LS_OK);
    assert_int_equal(bytes, expected_bytes);
    assert_memory_equal(data, expected, expected_bytes);
    assert_int_equal(data[bytes], 0);
    free(data);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    static char large[300000];
    for (size_t i = 0; i < sizeof large; i++) large[i] = (char)(i * 31 % 251);
    assert_int_equal(ls_file_write_atomic(in_folder("a"), large, sizeof large), LS_OK);
    check_content(in_folder("a"), large, sizeof large);
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "new\0er", 6), LS_OK);
    check_content(in_folder("a"), "new\0er", 6);
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "", 0), LS_OK);
    check_content(in_folder("a"), "", 0);
    assert_int_equal(entries(), 1);
}

static void size_limit_is_exact(void **state) {
    (void)state;
    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "12345", 5), LS_OK);
    assert_int_equal(ls_file_read(in_folder("a"), 5, &data, &bytes), LS_OK);
    assert_string_equal(data, "12345");
    free(data);
    assert_int_equal(ls_file_read(in_folder("a"), 4, &data, &bytes), LS_ERR_INPUT);
    assert_null(data);
    assert_non_null(strstr(ls_status_message(), "larger than the limit of 4 bytes"));
    assert_int_equal(ls_file_read(in_folder("a"), SIZE_MAX, &data, &bytes), LS_OK);
    free(data);
    assert_int_equal(ls_file_read("/dev/zero", 100000, &data, &bytes), LS_ERR_INPUT);
}

static void files_without_a_size_are_read(void **state) {
    (void)state;
    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(ls_file_read("/proc/self/status", 1 << 20, &data, &bytes), LS_OK);
    assert_true(bytes > 100);
    assert_int_equal(strlen(data), bytes);
    assert_non_null(strstr(data, "Threads:"));
    free(data);
}

static void missing_and_unfit_files_are_named(void **state) {
    (void)state;
    char *data = (char *)folder;
    size_t bytes = 0;
    assert_int_equal(ls_file_read(in_folder("none"), 10, &data, &bytes), LS_ERR_INPUT);
    assert_null(data);
    assert_non_null(strstr(ls_status_message(), "/none'"));
    assert_int_equal(ls_file_read(folder, 10, &data, &bytes), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "it is a folder"));
    assert_int_equal(ls_file_write_atomic(folder, "x", 1), LS_ERR_INPUT);
    assert_int_equal(ls_file_write_atomic("/dev/null", "x", 1), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "/dev/null"));
    assert_int_equal(ls_file_write_atomic(in_folder("no/such/folder"), "x", 1), LS_ERR_FAILED);
    assert_non_null(strstr(ls_status_message(), "No such file or directory"));
    static char name[5000];
    memset(name, 'n', sizeof name - 1);
    assert_int_equal(ls_file_write_atomic(name, "x", 1), LS_ERR_INPUT);
}

static void names_are_joined_and_a_cut_one_leads_nowhere(void **state) {
    (void)state;
    assert_string_equal(ls_path_in("a/b", "c").text, "a/b/c");
    assert_string_equal(ls_path_in("a/b/", "c").text, "a/b/c");
    assert_string_equal(ls_path_in("", "c").text, "c");
    assert_string_equal(ls_path_beside("a/b", "c").text, "a/c");
    assert_string_equal(ls_path_beside("/b", ".").text, "/.");
    assert_string_equal(ls_path_beside("b", "c").text, "c");
    char name[PATH_MAX] = {0}; /* "./././…", as long as a name may be; what follows is cut off */
    for (size_t i = 0; i < sizeof name - 1; i++) name[i] = i % 2 ? '/' : '.';
    assert_true(ls_folder_exists(name));
    assert_false(ls_file_exists(ls_path_in(name, "./.").text));
    assert_true(ls_folder_has(folder, "."));
    assert_false(ls_folder_has(folder, "none"));
    assert_true(ls_ends_with("a.bin", ".bin") && !ls_ends_with("a.BIN", ".bin") && !ls_ends_with("n", ".bin"));
}

static void permissions_are_kept(void **state) {
    (void)state;
    struct stat about;
    mode_t before = umask(027);
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "x", 1), LS_OK);
    umask(before);
    assert_int_equal(stat(in_folder("a"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_int_equal(chmod(in_folder("a"), 0604), 0);
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "y", 1), LS_OK);
    assert_int_equal(stat(in_folder("a"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0604);
}

static void left_over_temporary_is_no_obstacle(void **state) {
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "a.tmp-%ld-0", (long)getpid());
    assert_int_equal(ls_file_write_atomic(in_folder(name), "stale", 5), LS_OK);
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "x", 1), LS_OK);
    check_content(in_folder("a"), "x", 1);
    check_content(in_folder(name), "stale", 5);
}

/* A file-size limit makes write(2) first short and then fail, as a disk that fills up does. */
static void failed_write_leaves_the_old_file(void **state) {
    (void)state;
    static char large[100000];
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "old", 3), LS_OK);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 50000, .rlim_max = before.rlim_max};
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ls_status status = ls_file_write_atomic(in_folder("a"), large, sizeof large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "/a: File too large"));
    check_content(in_folder("a"), "old", 3);
    assert_int_equal(entries(), 1);
}

static void folders_are_made(void **state) {
    (void)state;
    assert_int_equal(ls_dir_make(in_folder("x/y//z")), LS_OK);
    assert_true(ls_file_exists(in_folder("x/y/z")));
    assert_int_equal(ls_dir_make(in_folder("x/y/z/")), LS_OK);
    assert_int_equal(ls_dir_make("/"), LS_OK);
    assert_int_equal(ls_dir_make(""), LS_ERR_INPUT);
    assert_int_equal(ls_file_write_atomic(in_folder("file"), "x", 1), LS_OK);
    assert_int_equal(ls_dir_make(in_folder("file")), LS_ERR_INPUT);
    assert_int_equal(ls_dir_make(in_folder("file/below")), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "a file of that name exists"));
    assert_false(ls_file_exists(in_folder("file/below")));
    assert_false(ls_file_exists(in_folder("none")));
}

static void a_name_without_folder_works(void **state) {
    (void)state;
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    ls_status written = ls_file_write_atomic("plain", "x", 1), made = ls_dir_make("p/q");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(written, LS_OK);
    assert_int_equal(made, LS_OK);
    check_content(in_folder("plain"), "x", 1);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_is_read),
        IN_FOLDER(size_limit_is_exact),
        IN_FOLDER(files_without_a_size_are_read),
        IN_FOLDER(missing_and_unfit_files_are_named),
        IN_FOLDER(names_are_joined_and_a_cut_one_leads_nowhere),
        IN_FOLDER(permissions_are_kept),
        IN_FOLDER(left_over_temporary_is_no_obstacle),
        IN_FOLDER(failed_write_leaves_the_old_file),
        IN_FOLDER(folders_are_made),
        IN_FOLDER(a_name_without_folder_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
