/* test_corpus.c: several files as one sequence; text that is tokenized once; lists of files; documents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "data_files.h"
#include "data/text/corpus.h"
#include "data/text/text.h"

#define TINY "tests/data/tiny_bpe"

enum { EOT = 281 };

static ls_tokenizer *tiny;
static char said[1024];
static int said_count;
static bool worked; /* "3 tokens from 11 bytes" was said: not found, but made */

static void note(void *ctx, const char *message) {
    (void)ctx;
    snprintf(said, sizeof said, "%s", message);
    said_count++;
    worked |= strstr(message, " tokens from ") != NULL;
}

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    if (ls_tokenizer_open(TINY, &tiny) == LS_OK) return 0;
    fprintf(stderr, "%s (run this at the top of the tree)\n", ls_status_message());
    return -1;
}

static int teardown(void **state) {
    ls_tokenizer_close(tiny);
    return remove_folder(state);
}

static ls_corpus_options options_of(const char *cache) {
    said_count = 0;
    worked = false;
    return (ls_corpus_options){.tokenizer = tiny, .cache_dir = cache, .say = note};
}

static void check_tokens(const ls_corpus *corpus, uint64_t begin, const int32_t *expected, size_t count) {
    int32_t ids[64];
    assert_int_equal(ls_corpus_read(corpus, begin, count, ids), LS_OK);
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], expected[i]);
}

#define CHECK(corpus, begin, ...)                                                                                      \
    check_tokens(corpus, begin, (const int32_t[]){__VA_ARGS__},                                                        \
                 sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void files_follow_each_other(void **state) {
    (void)state;
    const uint16_t a[] = {1, 2, 3}, b[] = {4}, c[] = {5, 6, 7, 8};
    ls_corpus *corpus;
    char list[512];
    ls_corpus_options options = options_of(NULL);
    ls_hash128 whole, parts;
    snprintf(list, sizeof list, "%s,%s,%s", put_file("a.bin", a, sizeof a), put_file("b.bin", b, sizeof b),
             put_file("c.bin", c, sizeof c));
    assert_int_equal(ls_corpus_open(list, &options, &corpus), LS_OK);
    assert_int_equal(ls_corpus_count(corpus), 8);
    assert_int_equal(ls_corpus_files(corpus), 3);
    assert_int_equal(ls_corpus_text_bytes(corpus), 0);
    CHECK(corpus, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    CHECK(corpus, 2, 3, 4, 5);
    CHECK(corpus, 3, 4);
    CHECK(corpus, 7, 8);
    int32_t id;
    assert_refused(ls_corpus_read(corpus, 7, 2, &id), "has 8 tokens; 2 from 7");
    assert_int_equal(ls_corpus_hash(corpus, &parts), LS_OK);
    ls_corpus_close(corpus);

    /* The same ids in one file, of another width, are the same data. */
    const uint32_t head[256] = {20240801, 7, 8};
    const uint32_t all[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t file[sizeof head + sizeof all];
    memcpy(file, head, sizeof head);
    memcpy(file + sizeof head, all, sizeof all);
    assert_int_equal(ls_corpus_open(put_file("all.bin", file, sizeof file), &options, &corpus), LS_OK);
    assert_int_equal(ls_corpus_hash(corpus, &whole), LS_OK);
    assert_true(ls_hash_equal(whole, parts));
    ls_corpus_close(corpus);
    for (const char *name = "abc"; *name; name++) {
        char path[16] = {*name, '.', 'b', 'i', 'n', 0};
        unlink(in_folder(path));
    }
    unlink(in_folder("all.bin"));
}

static void ids_beyond_the_vocabulary_are_found(void **state) {
    (void)state;
    const uint16_t ids[] = {1, 2, 300, 3};
    ls_corpus *corpus = NULL;
    ls_corpus_options options = options_of(NULL);
    const char *path = put_file("high.bin", ids, sizeof ids);
    assert_refused(ls_corpus_open(path, &options, &corpus), "token 2 has id 300, but the vocabulary has 282");
    options.vocab = 300;
    assert_refused(ls_corpus_open(path, &options, &corpus), "vocabulary has 300");
    options.vocab = 301;
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    ls_corpus_close(corpus);
    unlink(path);
}

static void text_is_tokenized_once(void **state) {
    (void)state;
    ls_corpus *corpus;
    const char *path = put_text("book.txt", "hello world"), *cache = in_folder("cache/deep");
    ls_corpus_options options = options_of(cache);
    for (int round = 0; round < 3; round++) {
        said_count = 0;
        assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
        CHECK(corpus, 0, 270, 268, EOT);
        assert_int_equal(ls_corpus_count(corpus), 3);
        assert_int_equal(ls_corpus_text_bytes(corpus), 11);
        ls_corpus_close(corpus);
        assert_non_null(strstr(said, round ? "tokenized before" : "3 tokens from 11 bytes"));
        assert_int_equal(said_count, round ? 1 : 2);
        assert_int_equal(count_entries(cache), 1); /* no lock stays */
    }
    /* Other text, the same name. */
    put_text("book.txt", "hello");
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    CHECK(corpus, 0, 270, EOT);
    ls_corpus_close(corpus);
    assert_int_equal(count_entries(cache), 2);
    /* Another tokenizer, the same text. */
    ls_tokenizer *bytes;
    assert_int_equal(ls_tokenizer_open("bytes", &bytes), LS_OK);
    options.tokenizer = bytes;
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    CHECK(corpus, 0, 'h', 'e', 'l', 'l', 'o');
    ls_corpus_close(corpus);
    ls_tokenizer_close(bytes);
    assert_int_equal(count_entries(cache), 3);
    options.tokenizer = tiny;
    options.cache_dir = NULL;
    assert_refused(ls_corpus_open(path, &options, &corpus), "lockstep tokenize");
    options.tokenizer = NULL;
    assert_refused(ls_corpus_open(path, &options, &corpus),
                   "book.txt is text and this model has no tokenizer; add --tokenizer FOLDER");
    put_text("book.txt", "");
    options = options_of(cache);
    assert_refused(ls_corpus_open(path, &options, &corpus), "is empty");
    unlink(path);
}

static void damaged_caches_are_made_again(void **state) {
    (void)state;
    ls_corpus *corpus;
    const char *path = put_text("again.txt", "hello hello"), *cache = in_folder("cache2");
    ls_corpus_options options = options_of(cache);
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    ls_corpus_close(corpus);
    char command[256];
    snprintf(command, sizeof command, "for f in %s/*.bin; do truncate -s -1 $f; done", cache);
    assert_int_equal(system(command), 0);
    said_count = 0;
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    assert_int_equal(said_count, 2);
    assert_int_equal(ls_corpus_count(corpus), 4); /* hello, space, hello, end */
    ls_corpus_close(corpus);
    unlink(path);
}

/* Several processes want the same text at the same moment: one works, the others wait. */
static void processes_share_the_work(void **state) {
    (void)state;
    enum { PROCESSES = 4 };
    const char *cache = in_folder("cache3"), *path = put_text("shared.txt", "hello world and the ring");
    int workers = 0;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            ls_corpus *corpus = NULL;
            ls_corpus_options options = options_of(cache);
            ls_status status = ls_corpus_open(path, &options, &corpus);
            ls_corpus_close(corpus);
            _exit(status == LS_OK ? worked : 99);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_in_range(WEXITSTATUS(status), 0, 1);
        workers += WEXITSTATUS(status);
    }
    assert_int_equal(workers, 1);
    assert_int_equal(count_entries(cache), 1);
    unlink(path);
}

static void jsonl_is_one_document_a_line(void **state) {
    (void)state;
    ls_corpus *corpus;
    ls_corpus_options options = options_of(in_folder("cache4"));
    const char *path =
        put_text("a.jsonl", "{\"text\": \"hello\"}\n\n  \r\n{\"x\": 1, \"text\": \"in\\u0000\"}\r\n{\"text\": \"\"}");
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    CHECK(corpus, 0, 270, EOT, 258, 188, EOT, EOT);
    assert_int_equal(ls_corpus_count(corpus), 6);
    assert_int_equal(ls_corpus_text_bytes(corpus), 8);
    ls_corpus_close(corpus);
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"{\"text\": \"a\"}\n{\"text\": 3}\n", "a.jsonl:2: the member \"text\" is not a string"},
        {"{\"body\": \"a\"}\n", "a.jsonl:1: the member \"text\" is missing"},
        {"[1]\n", "a.jsonl:1: not a JSON object"},
        {"{\"text\": \"a\"\n", "a.jsonl:1: not a JSON object"},
        {"{\"text\": \"\xff\"}\n", "a.jsonl:1: not a JSON object"},
        {"{\"text\": \"a\"}\nhello\n", "a.jsonl:2: not a JSON object"},
        {"\n\n", "has no documents"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_text("a.jsonl", wrong[i].text);
        assert_refused(ls_corpus_open(path, &options, &corpus), wrong[i].message);
    }
    put_text("a.jsonl", "{\"body\": \"in\"}\n");
    options.text_field = "body";
    assert_int_equal(ls_corpus_open(path, &options, &corpus), LS_OK);
    CHECK(corpus, 0, 258, EOT);
    ls_corpus_close(corpus);
    unlink(path);
}

/* ---- splits ------------------------------------------------------------------------------------------------------ */

/* Tokenizes with bytes (no end-of-text) into train and val; gives what each holds as text. */
static void split_text(const char *name, const char *text, double fraction, char train[256], char val[256]) {
    ls_tokenizer *bytes;
    ls_token_writer *writers[2];
    ls_text_counts counts = {0};
    ls_token_origin origin = {.vocab = 256};
    ls_map map = {.data = (const uint8_t *)text, .bytes = strlen(text)};
    assert_int_equal(ls_tokenizer_open("bytes", &bytes), LS_OK);
    ls_text_options how = {.tokenizer = bytes, .val_fraction = fraction};
    assert_int_equal(ls_token_writer_open(in_folder("s_train"), &origin, 1000, &writers[0]), LS_OK);
    assert_int_equal(ls_token_writer_open(in_folder("s_val"), &origin, 1000, &writers[1]), LS_OK);
    if (ls_text_tokenize(name, &map, &how, writers[0], writers[1], &counts) != LS_OK)
        fail_msg("%s", ls_status_message());
    for (int i = 0; i < 2; i++) {
        int32_t ids[256];
        ls_token_file *file;
        char *out = i ? val : train;
        assert_int_equal(ls_token_writer_finish(writers[i]), LS_OK);
        assert_int_equal(ls_token_file_open(in_folder(i ? "s_val_000001.bin" : "s_train_000001.bin"), &file), LS_OK);
        size_t count = ls_token_file_count(file);
        assert_int_equal(ls_token_file_read(file, 0, count, ids), LS_OK);
        for (size_t j = 0; j < count; j++) out[j] = (char)ids[j];
        out[count] = '\0';
        ls_token_file_close(file);
        ls_token_writer_close(writers[i]);
    }
    ls_tokenizer_close(bytes);
}

static void validation_is_the_end(void **state) {
    (void)state;
    char train[256], val[256];
    split_text("x.txt", "line one\nline two\nline three\n", 0.5, train, val);
    assert_string_equal(train, "line one\nline two\n");
    assert_string_equal(val, "line three\n");
    split_text("x.txt", "0123456789", 0.2, train, val);
    assert_string_equal(train, "01234567");
    assert_string_equal(val, "89");
    split_text("x.txt", "abc\xe6\xbc\xa2z", 0.4, train, val); /* not inside a character */
    assert_string_equal(train, "abc\xe6\xbc\xa2");
    assert_string_equal(val, "z");
    const char *lines = "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"}\n{\"text\":\"d\"}\n";
    split_text("x.jsonl", lines, 0.5, train, val);
    assert_string_equal(train, "ab");
    assert_string_equal(val, "cd");
    split_text("x.jsonl", lines, 0.01, train, val);
    assert_string_equal(train, "abc");
    assert_string_equal(val, "d");
    split_text("x.jsonl", lines, 0.99, train, val);
    assert_string_equal(train, "a");
    assert_string_equal(val, "bcd");
}

static void lists_of_files(void **state) {
    (void)state;
    ls_paths paths;
    char list[512];
    static const char *const val[] = {"val.bin",  "news_val_000001.bin", "x/y_valid.txt", "valid-2.jsonl",
                                      "val1.bin", "validation.txt"};
    static const char *const train[] = {"train.bin", "value.txt", "interval.txt", "val/x.bin", "train.val.bin"};
    for (size_t i = 0; i < sizeof val / sizeof *val; i++) assert_true(ls_path_is_val(val[i]));
    for (size_t i = 0; i < sizeof train / sizeof *train; i++) assert_false(ls_path_is_val(train[i]));
    assert_int_equal(ls_dir_make(in_folder("set/inside")), LS_OK);
    put_text("set/b_train.txt", "x");
    put_text("set/a.txt", "x");
    put_text("set/val.txt", "x");
    put_text("set/.hidden", "x");
    put_text("set/p.idx", "x");
    assert_int_equal(ls_paths_expand(in_folder("set"), LS_SPLIT_TRAIN, &paths), LS_OK);
    assert_int_equal(paths.count, 2);
    assert_string_equal(paths.names[0], in_folder("set/a.txt"));
    assert_string_equal(paths.names[1], in_folder("set/b_train.txt"));
    ls_paths_fini(&paths);
    assert_true(ls_paths_any(in_folder("set"), LS_SPLIT_VAL));
    assert_false(ls_paths_any(in_folder("set/val.txt"), LS_SPLIT_VAL));
    snprintf(list, sizeof list, "%s/set/*.txt,%s/set/val.txt", folder, folder);
    assert_int_equal(ls_paths_expand(list, LS_SPLIT_TRAIN, &paths), LS_OK);
    assert_int_equal(paths.count, 4);
    assert_string_equal(paths.names[3], in_folder("set/val.txt"));
    ls_paths_fini(&paths);
    assert_refused(ls_paths_expand(in_folder("set/inside"), LS_SPLIT_ALL, &paths), "has no files");
    assert_refused(ls_paths_expand(in_folder("gone"), LS_SPLIT_ALL, &paths), "there is no file or folder");
    assert_refused(ls_paths_expand(in_folder("gone*"), LS_SPLIT_ALL, &paths), "there is no file or folder");
    assert_refused(ls_paths_expand("a,,b", LS_SPLIT_ALL, &paths), "there is no file");
    assert_refused(ls_paths_expand("", LS_SPLIT_ALL, &paths), "empty name");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_follow_each_other),  cmocka_unit_test(ids_beyond_the_vocabulary_are_found),
        cmocka_unit_test(text_is_tokenized_once),   cmocka_unit_test(damaged_caches_are_made_again),
        cmocka_unit_test(processes_share_the_work), cmocka_unit_test(jsonl_is_one_document_a_line),
        cmocka_unit_test(validation_is_the_end),    cmocka_unit_test(lists_of_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
