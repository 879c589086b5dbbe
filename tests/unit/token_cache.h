/* token_cache.h: for the tests of the token cache: what it says, and files of it found and damaged. */
#ifndef LS_TESTS_TOKEN_CACHE_H
#define LS_TESTS_TOKEN_CACHE_H

#include <fcntl.h>

#include "data_files.h"
#include "base/log.h"
#include "data/text/corpus.h"

static ls_tokenizer *bytes;
static char said[4096], warned[4096];

static inline void note(void *ctx, const char *message) {
    (void)ctx;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
}

static void note_log(void *ctx, ls_log_level level, const char *line, size_t length) {
    (void)ctx;
    (void)level;
    snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%.*s", (int)length, line);
}

static int setup(void **state) {
    ls_log_set_sink(note_log, NULL);
    return make_folder(state) == 0 && ls_tokenizer_open("bytes", &bytes) == LS_OK ? 0 : -1;
}

static int teardown(void **state) {
    ls_tokenizer_close(bytes);
    return remove_folder(state);
}

/* The file of the cache whose name ends so; empty: there is none. */
static void find_in(const char *cache, const char *ending, char path[600]) {
    DIR *dir = opendir(cache);
    path[0] = '\0';
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name), tail = strlen(ending);
        if (length > tail && strcmp(entry->d_name + length - tail, ending) == 0)
            snprintf(path, 600, "%s/%s", cache, entry->d_name);
    }
    closedir(dir);
}

static void change_byte(const char *path, off_t at) {
    char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* A link to a file of the user's has the name of a temporary file that the writer makes: the file stays as it is, and
 * the writer makes another one. */
static void write_beside_a_link(const char *temporary, bool keep_sums) {
    ls_token_origin origin = {.vocab = 256};
    ls_token_writer *writer = NULL;
    int32_t id = 7;
    char name[128], *kept;
    size_t length;
    const char *mine = put_text("precious.txt", "precious");
    snprintf(name, sizeof name, "%s-%d-0", temporary, (int)getpid());
    assert_int_equal(symlink(mine, in_folder(name)), 0);
    assert_int_equal(ls_token_writer_open(in_folder("t"), &origin, 1000, &writer), LS_OK);
    if (keep_sums) ls_token_writer_keep_sums(writer, 1);
    assert_int_equal(ls_token_writer_add(writer, &id, 1, 0), LS_OK);
    assert_int_equal(ls_token_writer_finish(writer), LS_OK);
    ls_token_writer_close(writer);
    assert_int_equal(ls_file_read(mine, 100, &kept, &length), LS_OK);
    assert_string_equal(kept, "precious");
    free(kept);
    assert_true(ls_file_exists(in_folder("t_000001.bin")));
}

#endif
