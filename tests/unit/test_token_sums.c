/* test_token_sums.c: large files of the token cache are verified piece by piece. "Large" is one byte here, and a file
 * of the cache has 120,000 tokens of 2 bytes: three pieces and a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "token_cache.h"
#include "data/text/token_sums.h"

enum { TOKENS = 200000, SHARD = 120000, PIECE = LS_TOKEN_PIECE_BYTES / 2, HEADER = 1024, SUMS_HEADER = 56 };

static char text[TOKENS + 1], text_path[128];
static int32_t ids[TOKENS];

static int setup_text(void **state) {
    for (size_t i = 0; i < TOKENS; i++) text[i] = (char)('a' + i * i % 23);
    return setup(state);
}

static ls_corpus_options options_of(const char *cache) {
    return (ls_corpus_options){
        .tokenizer = bytes, .cache_dir = cache, .say = note, .pieces_from_bytes = 1, .cache_shard_tokens = SHARD};
}

static ls_status open_in(const char *cache, ls_corpus **corpus) {
    ls_corpus_options options = options_of(cache);
    said[0] = warned[0] = '\0';
    return ls_corpus_open(text_path, &options, corpus);
}

static void assert_reads(const ls_corpus *corpus, uint64_t begin, size_t count) {
    if (ls_corpus_read(corpus, begin, count, ids) != LS_OK) fail_msg("%s", ls_status_message());
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], text[begin + i]);
}

/* Opens, reads everything and closes; `how` is part of what the cache says. */
static void assert_sound(const char *cache, const char *how) {
    ls_corpus *corpus = NULL;
    if (open_in(cache, &corpus) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_corpus_count(corpus), TOKENS);
    assert_reads(corpus, 0, TOKENS);
    ls_corpus_close(corpus);
    if (!strstr(said, how)) fail_msg("'%s' does not say '%s'", said, how);
}

/* A new cache with both files in it. */
static const char *fill(const char *name) {
    const char *cache = in_folder(name);
    snprintf(text_path, sizeof text_path, "%s", put_text("text.txt", text));
    assert_sound(cache, "tokens from");
    assert_string_equal(warned, "");
    return cache;
}

static void change_token(const char *shard, uint64_t token) { change_byte(shard, (off_t)(HEADER + 2 * token)); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void only_large_files_have_sums(void **state) {
    (void)state;
    const char *cache = fill("large");
    char sums[600], shard[600];
    struct stat about, of_shard;
    assert_int_equal(count_entries(cache), 4);
    for (int number = 1; number <= 2; number++) {
        find_in(cache, number == 1 ? "_000001.bin.sums" : "_000002.bin.sums", sums);
        find_in(cache, number == 1 ? "_000001.bin" : "_000002.bin", shard);
        assert_int_equal(stat(sums, &about), 0);
        assert_int_equal(stat(shard, &of_shard), 0);
        assert_int_equal(about.st_size, SUMS_HEADER + 8 * (number == 1 ? 4 : 3) + 16);
        assert_int_equal(about.st_mode, of_shard.st_mode);
    }
    /* The second file is just below the limit. */
    ls_corpus_options options = options_of(in_folder("small"));
    ls_corpus *corpus = NULL;
    options.pieces_from_bytes = 2 * (TOKENS - SHARD) + 1;
    assert_int_equal(ls_corpus_open(text_path, &options, &corpus), LS_OK);
    assert_reads(corpus, 0, TOKENS);
    ls_corpus_close(corpus);
    assert_int_equal(count_entries(options.cache_dir), 3);
    /* Both are far below the usual one. */
    options = (ls_corpus_options){.tokenizer = bytes, .cache_dir = in_folder("usual"), .say = note};
    assert_int_equal(ls_corpus_open(text_path, &options, &corpus), LS_OK);
    ls_corpus_close(corpus);
    assert_int_equal(count_entries(options.cache_dir), 1);
    /* A folder of token files is its token files. */
    options = (ls_corpus_options){.tokenizer = bytes};
    assert_int_equal(ls_corpus_open(cache, &options, &corpus), LS_OK);
    assert_int_equal(ls_corpus_files(corpus), 2);
    ls_corpus_close(corpus);
}

static void a_link_in_the_way_is_not_followed(void **state) {
    (void)state;
    char name[128];
    struct stat about;
    write_beside_a_link("t_000001.bin.sums.tmp", true);
    assert_int_equal(lstat(in_folder("t_000001.bin.sums"), &about), 0);
    assert_true(S_ISREG(about.st_mode));
    snprintf(name, sizeof name, "t_000001.bin.sums.tmp-%d-0", (int)getpid());
    assert_false(ls_file_exists(in_folder(name)));
}

static void unfinished_sums_do_not_stay(void **state) {
    (void)state;
    ls_token_origin origin = {.vocab = 256};
    ls_token_writer *writer = NULL;
    int32_t some[5] = {1, 2, 3, 4, 5};
    assert_int_equal(ls_dir_make(in_folder("given_up")), LS_OK);
    assert_int_equal(ls_token_writer_open(in_folder("given_up/t"), &origin, 2, &writer), LS_OK);
    ls_token_writer_keep_sums(writer, 1);
    assert_int_equal(ls_token_writer_add(writer, some, 5, 0), LS_OK);
    assert_int_equal(count_entries(in_folder("given_up")), 5);
    ls_token_writer_close(writer);
    assert_int_equal(count_entries(in_folder("given_up")), 0);
    /* A folder has the name of the first shard: nothing gets a name. */
    assert_int_equal(ls_dir_make(in_folder("given_up/t_000001.bin")), LS_OK);
    assert_int_equal(ls_token_writer_open(in_folder("given_up/t"), &origin, 2, &writer), LS_OK);
    ls_token_writer_keep_sums(writer, 1);
    assert_int_equal(ls_token_writer_add(writer, some, 5, 0), LS_OK);
    assert_int_equal(ls_token_writer_finish(writer), LS_ERR_FAILED);
    ls_token_writer_close(writer);
    assert_false(ls_file_exists(in_folder("given_up/t_000002.bin")));
    assert_false(ls_file_exists(in_folder("given_up/t_000002.bin.sums")));
}

static void what_killed_processes_leave_is_removed(void **state) {
    (void)state;
    const char *cache = fill("left");
    char name[128], shard[600];
    pid_t gone = fork();
    if (gone == 0) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    snprintf(name, sizeof name, "left/00000000000000000000000000000002_000001.bin.sums.tmp-%d-0", (int)gone);
    put_text(name, "x");
    snprintf(name, sizeof name, "left/00000000000000000000000000000003_000001.bin.sums.tmp-%d-0", (int)getpid());
    const char *of_running = put_text(name, "x");
    find_in(cache, "_000001.bin", shard);
    unlink(shard);
    /* The folder is cleaned when a process first uses a cache, and whenever it makes an entry: that of its own key. */
    snprintf(name, sizeof name, "left/%.32s_000007.bin.sums.tmp-%d-9", strrchr(shard, '/') + 1, (int)getpid());
    const char *of_entry = put_text(name, "x");
    assert_sound(cache, "tokens from");
    assert_false(ls_file_exists(of_entry));
    assert_true(ls_file_exists(of_running));
    assert_int_equal(count_entries(cache), 5);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void assert_damaged(const ls_corpus *corpus, uint64_t begin, size_t count, const char *shard,
                           const char *tokens) {
    assert_refused(ls_corpus_read(corpus, begin, count, ids), shard);
    assert_refused(ls_corpus_read(corpus, begin, count, ids), tokens);
    assert_refused(ls_corpus_read(corpus, begin, count, ids), "delete this file");
}

static void only_what_is_read_is_verified(void **state) {
    (void)state;
    const char *cache = fill("read");
    ls_corpus *corpus = NULL;
    char first[600], second[600];
    find_in(cache, "_000001.bin", first);
    find_in(cache, "_000002.bin", second);
    change_token(first, PIECE + 5);           /* in the second piece */
    change_token(second, TOKENS - SHARD - 1); /* the last token of all, in a short piece */
    assert_int_equal(open_in(cache, &corpus), LS_OK);
    assert_non_null(strstr(said, "tokenized before"));
    assert_string_equal(warned, "");
    assert_reads(corpus, 0, PIECE);
    assert_reads(corpus, 2 * PIECE, SHARD); /* over the end of the first file */
    assert_reads(corpus, PIECE, 0);
    assert_damaged(corpus, PIECE - 1, 2, first, "tokens 32768 … 65535 do not have the checksum");
    assert_damaged(corpus, 2 * PIECE - 1, 1, first, "tokens 32768 … 65535");
    assert_damaged(corpus, 2 * PIECE - 1, 2, first, "tokens 32768 … 65535");
    assert_damaged(corpus, PIECE + 100, 10, first, "tokens 32768 … 65535");
    assert_reads(corpus, PIECE - 1, 1);
    assert_reads(corpus, 2 * PIECE, 1);
    assert_damaged(corpus, SHARD + 2 * PIECE, 1, second, "tokens 65536 … 79999");
    assert_damaged(corpus, TOKENS - 1, 1, second, "tokens 65536 … 79999");
    ls_hash128 hash;
    assert_refused(ls_corpus_hash(corpus, &hash), first);
    ls_corpus_close(corpus);
    unlink(second);
    assert_sound(cache, "tokens from");
    assert_sound(cache, "tokenized before");
}

/* So that reading costs a hash of each piece once, and not at each read. */
static void a_piece_is_verified_once(void **state) {
    (void)state;
    const char *cache = fill("once");
    ls_corpus *corpus = NULL;
    char shard[600];
    find_in(cache, "_000001.bin", shard);
    assert_int_equal(open_in(cache, &corpus), LS_OK);
    assert_reads(corpus, 3 * PIECE, 1);
    change_token(shard, 3 * PIECE + 1);
    change_token(shard, 1);
    assert_reads(corpus, 3 * PIECE, 1);
    assert_damaged(corpus, 0, 1, shard, "tokens 0 … 32767");
    ls_corpus_close(corpus);
}

static void headers_are_verified_at_once(void **state) {
    (void)state;
    const char *cache = fill("headers");
    char shard[600];
    const off_t places[] = {4 * 9, 4 * 16, 600}; /* bytes of text, the checksum, a word that is free */
    find_in(cache, "_000001.bin", shard);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte(shard, places[i]);
        assert_sound(cache, "tokens from");
        assert_non_null(strstr(warned, shard));
        assert_non_null(strstr(warned, "is tokenized again"));
        assert_sound(cache, "tokenized before");
        assert_string_equal(warned, "");
    }
}

/* ---- sums that are gone, damaged or of another file -------------------------------------------------------------- */

/* The file is sound and verified whole; when it is damaged as well, it is made again. */
static void assert_whole(const char *cache, const char *shard, const char *warning) {
    assert_sound(cache, "tokenized before");
    if (!strstr(warned, warning)) fail_msg("'%s' does not say '%s'", warned, warning);
    if (*warning) assert_non_null(strstr(warned, "verified whole instead"));
    if (!*warning) assert_string_equal(warned, "");
    change_token(shard, 2);
    assert_sound(cache, "tokens from");
    assert_non_null(strstr(warned, "is tokenized again"));
    assert_non_null(strstr(warned, shard));
    assert_sound(cache, "tokenized before");
    assert_string_equal(warned, "");
}

static void without_sums_the_file_is_verified_whole(void **state) {
    (void)state;
    const char *cache = fill("gone");
    char shard[600], sums[600], other[600], command[1300];
    find_in(cache, "_000001.bin", shard);
    find_in(cache, "_000001.bin.sums", sums);
    find_in(cache, "_000002.bin.sums", other);
    unlink(sums);
    assert_whole(cache, shard, "");
    /* Magic, version, size and number of pieces, both checksums of the shard, sums, their own checksum. */
    const off_t places[] = {0, 8, 12, 16, 24, 40, SUMS_HEADER, SUMS_HEADER + 8 * 4 - 1, SUMS_HEADER + 8 * 4 + 15};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        change_byte(sums, places[i]);
        assert_sound(cache, "tokenized before");
        assert_non_null(strstr(warned, sums));
        assert_non_null(strstr(warned, "verified whole instead"));
        change_byte(sums, places[i]);
    }
    change_byte(sums, SUMS_HEADER);
    assert_whole(cache, shard, sums);
    for (int size = 0; size < SUMS_HEADER + 8 * 4 + 16; size += 17) {
        assert_int_equal(truncate(sums, size), 0);
        assert_sound(cache, "tokenized before");
        assert_non_null(strstr(warned, "is damaged"));
    }
    unlink(sums);
    assert_whole(cache, shard, "");
    snprintf(command, sizeof command, "echo >> %s", sums);
    assert_int_equal(system(command), 0);
    assert_whole(cache, shard, sums);
    snprintf(command, sizeof command, "cp %s %s", other, sums);
    assert_int_equal(system(command), 0);
    assert_whole(cache, shard, "is of another token file");
    unlink(sums);
    assert_int_equal(mkdir(sums, 0700), 0);
    assert_sound(cache, "tokenized before");
    assert_non_null(strstr(warned, sums));
    assert_int_equal(rmdir(sums), 0);
    /* A pipe is not waited for. */
    assert_int_equal(mkfifo(sums, 0600), 0);
    assert_sound(cache, "tokenized before");
}

/* Sums of another text of the same length: sound, and of as many pieces. */
static void sums_of_another_text_are_refused(void **state) {
    (void)state;
    const char *cache = fill("mine_and_other");
    char sums[600], shard[600], command[1300];
    find_in(cache, "_000001.bin.sums", sums);
    find_in(cache, "_000001.bin", shard);
    text[5]++;
    fill("other");
    text[5]--;
    put_text("text.txt", text);
    snprintf(command, sizeof command, "cp %s/*_000001.bin.sums %s", in_folder("other"), sums);
    assert_int_equal(system(command), 0);
    assert_whole(cache, shard, "is of another token file");
}

/* ---- what keeps its whole check ---------------------------------------------------------------------------------- */

static void files_that_the_user_names_are_verified_whole(void **state) {
    (void)state;
    const char *cache = fill("named");
    ls_corpus_options options = options_of(NULL);
    ls_corpus *corpus = NULL;
    char shard[600];
    find_in(cache, "_000001.bin", shard);
    change_token(shard, PIECE);
    assert_refused(ls_corpus_open(shard, &options, &corpus), "is damaged: its tokens do not have the checksum");
}

/* The sums cannot tell that every id is in a vocabulary that is smaller than the tokenizer's. */
static void a_smaller_vocabulary_is_checked_at_once(void **state) {
    (void)state;
    const char *cache = fill("vocabulary");
    ls_corpus_options options = options_of(cache);
    ls_corpus *corpus = NULL;
    options.vocab = 'b';
    assert_refused(ls_corpus_open(text_path, &options, &corpus), "but the vocabulary has 98");
    options.vocab = 'a' + 23;
    assert_int_equal(ls_corpus_open(text_path, &options, &corpus), LS_OK);
    ls_corpus_close(corpus);
}

/* The message says to delete the file: of JSON lines, whose length in tokens nothing else tells, as well. */
static void a_deleted_file_is_missed(void **state) {
    (void)state;
    static char line[TOKENS + 32];
    ls_corpus_options options = options_of(in_folder("jsonl"));
    char shard[600];
    snprintf(line, sizeof line, "{\"text\": \"%s\"}\n", text);
    const char *path = put_text("text.jsonl", line);
    for (int round = 0; round < 4; round++) {
        ls_corpus *corpus = NULL;
        said[0] = '\0';
        assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
        assert_reads(corpus, 0, TOKENS);
        ls_corpus_close(corpus);
        assert_non_null(strstr(said, round == 3 ? "tokenized before" : "tokens from"));
        find_in(options.cache_dir, round == 0 ? "_000002.bin" : "_000001.bin", shard);
        if (round < 2) unlink(shard);
    }
}

static void *read_all(void *corpus) {
    int32_t some[999];
    for (uint64_t at = 0; at + 999 <= TOKENS; at += 500) {
        if (ls_corpus_read(corpus, at, 999, some) != LS_OK) return corpus;
        for (size_t i = 0; i < 999; i++) {
            if (some[i] != text[at + i]) return corpus;
        }
    }
    return NULL;
}

static void threads_verify_together(void **state) {
    (void)state;
    const char *cache = fill("threads");
    ls_corpus *corpus = NULL;
    pthread_t threads[4];
    assert_int_equal(open_in(cache, &corpus), LS_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_all, corpus), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    ls_corpus_close(corpus);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_large_files_have_sums),
        cmocka_unit_test(a_link_in_the_way_is_not_followed),
        cmocka_unit_test(unfinished_sums_do_not_stay),
        cmocka_unit_test(what_killed_processes_leave_is_removed),
        cmocka_unit_test(only_what_is_read_is_verified),
        cmocka_unit_test(a_piece_is_verified_once),
        cmocka_unit_test(headers_are_verified_at_once),
        cmocka_unit_test(without_sums_the_file_is_verified_whole),
        cmocka_unit_test(sums_of_another_text_are_refused),
        cmocka_unit_test(files_that_the_user_names_are_verified_whole),
        cmocka_unit_test(a_smaller_vocabulary_is_checked_at_once),
        cmocka_unit_test(a_deleted_file_is_missed),
        cmocka_unit_test(threads_verify_together),
    };
    return cmocka_run_group_tests(tests, setup_text, teardown);
}
