/* test_map_file.c: files that are cut or changed while they are mapped are errors that name the file; what is no
 * regular file is refused at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "data_files.h"
#include "base/json.h"
#include "base/log.h"
#include "data/text/corpus.h"
#include "data/images/images.h"
#include "data/text/map_file.h"

enum { IDS = 40000 }; /* several pages */

static char warned[1024];

static void note_log(void *ctx, ls_log_level level, const char *line, size_t length) {
    (void)ctx;
    (void)level;
    snprintf(warned, sizeof warned, "%.*s", (int)length, line);
}

static int setup(void **state) {
    ls_log_set_sink(note_log, NULL);
    return make_folder(state);
}

static const char *put_ids(const char *name) {
    static uint16_t ids[IDS];
    for (size_t i = 0; i < IDS; i++) ids[i] = (uint16_t)(i % 250);
    return put_file(name, ids, sizeof ids);
}

static ls_corpus *open_ids(const char *path) {
    ls_corpus_options options = {.vocab = 256};
    ls_corpus *corpus = NULL;
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    return corpus;
}

static void a_cut_file_is_named(void **state) {
    (void)state;
    const char *path = put_ids("cut.bin");
    int32_t ids[8];
    ls_hash128 hash;
    ls_corpus *corpus = open_ids(path);
    assert_int_equal(truncate(path, 0), 0);
    assert_refused(ls_corpus_read(corpus, IDS / 2, 8, ids), "cut.bin was truncated while it was being read");
    assert_refused(ls_corpus_read(corpus, 0, 8, ids), "cut.bin was truncated while it was being read");
    assert_refused(ls_corpus_hash(corpus, &hash), "cut.bin was truncated while it was being read");
    ls_corpus_close(corpus);
}

/* The rest of the last page reads as zeros, without a signal. */
static void a_file_cut_inside_a_page_is_named(void **state) {
    (void)state;
    const char *path = put_ids("little.bin");
    int32_t ids[8];
    ls_corpus *corpus = open_ids(path);
    assert_int_equal(truncate(path, 2 * IDS - 100), 0);
    assert_refused(ls_corpus_read(corpus, 0, 8, ids), "little.bin was truncated from 80000 to 79900 bytes");
    ls_corpus_close(corpus);
}

static void write_id(const char *path, size_t at, uint16_t id) {
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &id, sizeof id, (off_t)(2 * at)), sizeof id);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}}; /* the clock may not have moved */
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void changed_ids_are_found_when_they_are_read(void **state) {
    (void)state;
    const char *path = put_ids("changed.bin");
    int32_t ids[8];
    ls_corpus *corpus = open_ids(path);
    warned[0] = '\0';
    write_id(path, 101, 999);
    assert_refused(ls_corpus_read(corpus, 100, 8, ids),
                   "changed.bin: token 101 has id 999, but the vocabulary has 256: the file was changed");
    assert_int_equal(ls_corpus_read(corpus, 0, 8, ids), LS_OK);
    assert_non_null(strstr(warned, "changed.bin is being changed while it is read"));
    warned[0] = '\0';
    assert_int_equal(ls_corpus_read(corpus, 0, 8, ids), LS_OK);
    assert_string_equal(warned, ""); /* once */
    ls_corpus_close(corpus);
}

/* Replacing a mapped file does no harm: the old one stays mapped. */
static void a_replaced_file_stays_as_it_was(void **state) {
    (void)state;
    const char *path = put_ids("replaced.bin");
    int32_t id;
    ls_corpus *corpus = open_ids(path);
    put_text("replaced.bin", "x");
    assert_int_equal(ls_corpus_read(corpus, IDS - 1, 1, &id), LS_OK);
    assert_int_equal(id, (IDS - 1) % 250);
    ls_corpus_close(corpus);
}

static ls_status read_end(void *map) {
    const ls_map *m = map;
    return m->data[m->bytes - 1] == 'x' ? LS_OK : ls_fail(LS_ERR_FAILED, "no x");
}

static ls_status read_inside(void *map) { return ls_map_guard(read_end, map); }

static void guards_are_nested_and_end(void **state) {
    (void)state;
    ls_map map;
    char text[9000];
    memset(text, 'x', sizeof text);
    const char *path = put_file("nested", text, sizeof text);
    assert_int_equal(ls_map_open(path, &map), LS_OK);
    assert_int_equal(ls_map_guard(read_inside, &map), LS_OK);
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < 3; i++) assert_refused(ls_map_guard(read_inside, &map), "nested was truncated");
    ls_map_close(&map);
}

/* Outside a guard the process ends, but says why; another SIGBUS ends it as ever. */
static void a_process_says_why_it_ends(void **state) {
    (void)state;
    char text[9000] = "";
    const char *path = put_file("bare", text, sizeof text);
    for (int round = 0; round < 2; round++) {
        int ends[2], status;
        char out[512] = "";
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            ls_map map;
            dup2(ends[1], STDERR_FILENO);
            signal(SIGBUS, SIG_DFL); /* of the sanitizer's, where there is one */
            if (ls_map_open(path, &map) != LS_OK) _exit(90);
            if (round == 1) raise(SIGBUS);
            if (truncate(path, 0) != 0) _exit(91);
            _exit(((const volatile uint8_t *)map.data)[8192] ? 92 : 93);
        }
        close(ends[1]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(read(ends[0], out, sizeof out - 1) >= 0);
        close(ends[0]);
        if (round == 0) {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 1);
            assert_non_null(strstr(out, "lockstep: error: "));
            assert_non_null(strstr(out, "bare was truncated while it was being read"));
            put_file("bare", text, sizeof text);
        } else {
            assert_true(WIFSIGNALED(status));
            assert_int_equal(WTERMSIG(status), SIGBUS);
        }
    }
}

/* The handler was set in this process already, and is inherited. */
static void images_that_are_cut_are_named(void **state) {
    (void)state;
    enum { COUNT = 20, RECORD = 3073 };
    static char records[COUNT * RECORD];
    const char *path = put_file("data_batch_1.bin", records, sizeof records);
    ls_images_options options = {.source = path};
    ls_images *images = NULL;
    static float pixels[3072];
    int32_t label;
    uint64_t last = COUNT - 1;
    ls_augment augment = {0};
    assert_int_equal(ls_images_open(&images, &options), LS_OK);
    assert_int_equal(ls_images_fill(images, &last, 1, &augment, LS_IMAGES_NHWC, pixels, &label), LS_OK);
    assert_int_equal(truncate(path, 100), 0);
    assert_refused(ls_images_fill(images, &last, 1, &augment, LS_IMAGES_NHWC, pixels, &label),
                   "data_batch_1.bin was truncated");
    ls_hash128 hash;
    assert_refused(ls_images_hash(images, &hash), "data_batch_1.bin was truncated");
    ls_images_close(images);
}

static void what_is_no_file_is_refused_at_once(void **state) {
    (void)state;
    ls_corpus_options options = {.vocab = 256};
    ls_corpus *corpus = NULL;
    ls_map map;
    json_t *json;
    char pattern[128];
    assert_int_equal(mkdir(in_folder("odd"), 0777), 0);
    const char *pipe_path = in_folder("odd/pipe.bin"), *socket_path = in_folder("odd/socket");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_refused(ls_corpus_open(pipe_path, &options, &corpus), "odd/pipe.bin is a pipe: data must be regular files");
    assert_refused(ls_corpus_open("/dev/zero", &options, &corpus), "/dev/zero is a device");
    assert_refused(ls_corpus_open(in_folder("odd"), &options, &corpus), "odd/pipe.bin is a pipe");
    snprintf(pattern, sizeof pattern, "%s*", in_folder("odd/p"));
    assert_refused(ls_corpus_open(pattern, &options, &corpus), "odd/pipe.bin is a pipe");
    assert_refused(ls_map_open(pipe_path, &map), "it is a pipe");
    assert_refused(ls_json_load_file(pipe_path, 1000, &json), "odd/pipe.bin: it is a pipe; name a regular file");
    assert_refused(ls_json_load_file("/dev/zero", 1000, &json), "it is a device");
    assert_refused(ls_json_load_file(in_folder("odd"), 1000, &json), "it is a folder");
    ls_images_options images_options = {.source = pipe_path};
    ls_images *images = NULL;
    assert_refused(ls_images_open(&images, &images_options), "it is a pipe");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", socket_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_refused(ls_corpus_open(socket_path, &options, &corpus), "odd/socket is a socket");
    assert_refused(ls_map_open(socket_path, &map), "it is a socket or a device");
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_file_is_named),
        cmocka_unit_test(a_file_cut_inside_a_page_is_named),
        cmocka_unit_test(changed_ids_are_found_when_they_are_read),
        cmocka_unit_test(a_replaced_file_stays_as_it_was),
        cmocka_unit_test(guards_are_nested_and_end),
        cmocka_unit_test(a_process_says_why_it_ends),
        cmocka_unit_test(images_that_are_cut_are_named),
        cmocka_unit_test(what_is_no_file_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, setup, remove_folder);
}
