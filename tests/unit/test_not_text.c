/* test_not_text.c: files of other formats are refused as text by their first bytes, each with what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_files.h"
#include "data/text/corpus.h"
#include "data/text/not_text.h"

static void other_formats_are_refused(void **state) {
    (void)state;
    static char tar[512];
    memset(tar, 'x', sizeof tar);
    memcpy(tar + 257, "ustar", 5);
    const struct {
        const char *name, *data;
        size_t bytes;
        const char *kind, *remedy;
    } cases[] = {
        {"a.parquet", "PAR1\x15\x04", 6, "is a Parquet file", "as JSONL"},
        {"a.txt.gz", "\x1f\x8b\x08\0", 4, "is gzip-compressed", "gunzip -k a.txt.gz"},
        {"a.zst", "\x28\xb5\x2f\xfd\x04", 5, "is zstd-compressed", "zstd -d -k a.zst"},
        {"a.bz2", "BZh91AY&SY", 10, "is bzip2-compressed", "bunzip2 -k a.bz2"},
        {"a.xz", "\3757zXZ\0", 6, "is xz-compressed", "unxz -k a.xz"},
        {"a.lz4", "\x04\x22\x4d\x18", 4, "is lz4-compressed", "lz4 -d a.lz4"},
        {"a.7z", "7z\xbc\xaf\x27\x1c", 6, "is a 7-Zip archive", "7z x a.7z"},
        {"a.zip", "PK\x03\x04\x14", 5, "is a zip archive", "unzip a.zip"},
        {"a.tar", tar, sizeof tar, "is a tar archive", "tar xf a.tar"},
        {"a.pdf", "%PDF-1.7\n", 9, "is a PDF document", "pdftotext a.pdf"},
        {"a.png", "\x89PNG\r\n\x1a\n", 8, "is a PNG image", "needs text"},
        {"a.jpg", "\xff\xd8\xff\xe0", 4, "is a JPEG image", "needs text"},
        {"a", "\177ELF\x02", 5, "is a program", "name the text"},
        {"a.db", "SQLite format 3\0", 16, "is a SQLite database", "sqlite3 a.db"},
        {"a.arrow", "ARROW1\0\0", 8, "is an Arrow file", "as JSONL"},
        {"a.arrows", "\xff\xff\xff\xff\x10", 5, "is an Arrow stream", "as JSONL"},
        {"a.h5", "\x89HDF\r\n\x1a\n", 8, "is an HDF5 file", "as JSONL"},
        {"a.npy", "\x93NUMPY\x01\0", 8, "is a numpy array", "tofile('tokens.bin')"},
        {"a.json", "[{\"text\": 1}]", 13, "is a JSON array", "jq -c '.[]' a.json > text.jsonl"},
        {"b.json", "\xef\xbb\xbf \r\n[1]", 9, "is a JSON array", "jq -c '.[]' b.json"},
        {"a.txt", "\xff\xfeh\0i\0", 6, "is UTF-16 text", "iconv -f UTF-16 -t UTF-8 a.txt"},
        {"b.txt", "\xfe\xff\0h", 4, "is UTF-16 text", "iconv"},
        {"c.txt", "\xff\xfe\0\0h\0\0\0", 8, "is UTF-32 text", "iconv -f UTF-32"},
        {"d.txt", "plain\0text", 10, "byte 5 is NUL", "named .bin"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_status status = ls_not_text_check(cases[i].name, (const uint8_t *)cases[i].data, cases[i].bytes);
        const char *message = ls_status_message();
        if (status != LS_ERR_INPUT || strncmp(message, cases[i].name, strlen(cases[i].name)) != 0 ||
            !strstr(message, cases[i].kind) || !strstr(message, cases[i].remedy))
            fail_msg("%s: %s", cases[i].name, status == LS_OK ? "taken as text" : message);
    }
}

static void text_is_text(void **state) {
    (void)state;
    const struct {
        const char *name, *data;
    } cases[] = {
        {"a.txt", "[Chapter 1]\n"},
        {"a.jsonl", "[1]\n"},
        {"a.json", "{\"a\": [1]}\n"},
        {"a.txt", "BZhang wrote"},
        {"a.txt", "\xef\xbb\xbfTEXT with UTF-8's mark"},
        {"a.txt", "\x80\x81 not UTF-8"},
        {"a.txt", "P"},
        {"a.txt", "PK was here"},
        {"a.txt", "\x1f"},
        {"a.txt", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ls_not_text_check(cases[i].name, (const uint8_t *)cases[i].data, strlen(cases[i].data)) != LS_OK)
            fail_msg("%s", ls_status_message());
}

/* Through the corpus, whatever the tokenizer: also without one, a compressed file gets its own advice. */
static void corpora_refuse_them(void **state) {
    (void)state;
    ls_tokenizer *bytes;
    ls_corpus *corpus = NULL;
    char late[10001];
    assert_int_equal(ls_tokenizer_open("bytes", &bytes), LS_OK);
    ls_corpus_options options = {.tokenizer = bytes, .cache_dir = in_folder("cache")};
    const char *zipped = put_file("a.gz", "\x1f\x8b\x08\0", 4);
    assert_refused(ls_corpus_open(zipped, &options, &corpus), "is gzip-compressed");
    options.tokenizer = NULL;
    assert_refused(ls_corpus_open(zipped, &options, &corpus), "is gzip-compressed");
    options.tokenizer = bytes;
    memset(late, 'x', sizeof late);
    late[9999] = '\0';
    assert_refused(ls_corpus_open(put_file("late.txt", late, sizeof late), &options, &corpus), "byte 9999 is NUL");
    assert_int_equal(count_entries(in_folder("cache")), 0); /* nothing half-done, no lock */
    /* 16-bit ids without a header are nothing but NULs to the eye; by their name they are tokens. */
    assert_int_equal(ls_corpus_open(put_file("ids.bin", "h\0i\0", 4), &options, &corpus), LS_OK);
    ls_corpus_close(corpus);
    assert_int_equal(ls_corpus_open(put_file("magic.bin", "\x1f\x8b\x08\0", 4), &(ls_corpus_options){0}, &corpus),
                     LS_OK);
    ls_corpus_close(corpus);
    ls_tokenizer_close(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_formats_are_refused),
        cmocka_unit_test(text_is_text),
        cmocka_unit_test(corpora_refuse_them),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
