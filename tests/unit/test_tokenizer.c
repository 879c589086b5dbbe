/* test_tokenizer.c: tokenizers against ids worked out by hand from tests/data/tiny_bpe and tiny_llama (the same
 * vocabulary: 256 bytes in GPT-2's order, 25 merges), against a plain implementation of BPE, and against what must be
 * refused. Runs at the top of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_files.h"
#include "base/rng.h"
#include "data/tokenizer/tokenizer.h"

#define TINY "tests/data/tiny_bpe"
#define TINY_LLAMA "tests/data/tiny_llama"

static ls_tokenizer *open_tokenizer(const char *path) {
    ls_tokenizer *tokenizer = NULL;
    if (ls_tokenizer_open(path, &tokenizer) != LS_OK) fail_msg("%s", ls_status_message());
    return tokenizer;
}

static void check_ids(ls_tokenizer *tokenizer, const char *text, size_t bytes, unsigned flags, const int32_t *ids,
                      size_t count) {
    ls_tokens tokens = {0};
    char *back = NULL;
    size_t back_bytes = 0;
    /* Twice: the second time from the cache. */
    for (int round = 0; round < 2; round++) {
        tokens.count = 0;
        assert_int_equal(ls_tokenizer_encode(tokenizer, text, bytes, flags, &tokens), LS_OK);
        assert_int_equal(tokens.count, count);
        for (size_t i = 0; i < count; i++) assert_int_equal(tokens.ids[i], ids[i]);
    }
    assert_int_equal(ls_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &back, &back_bytes), LS_OK);
    assert_int_equal(back_bytes, bytes);
    assert_memory_equal(back, text, bytes);
    free(back);
    ls_tokens_fini(&tokens);
}

#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)
#define CHECK(tokenizer, text, flags, ...) check_ids(tokenizer, text, sizeof text - 1, flags, IDS(__VA_ARGS__))

static void bytes_are_their_own_ids(void **state) {
    (void)state;
    ls_tokenizer *tokenizer = open_tokenizer("bytes");
    size_t files = 9;
    CHECK(tokenizer, "A\0\xff\n", 0, 65, 0, 255, 10);
    assert_int_equal(ls_tokenizer_vocab(tokenizer), 256);
    assert_int_equal(ls_tokenizer_eot(tokenizer), -1);
    assert_int_equal(ls_tokenizer_bos(tokenizer), -1);
    assert_string_equal(ls_tokenizer_name(tokenizer), "bytes");
    (void)ls_tokenizer_files(tokenizer, &files);
    assert_int_equal(files, 0);
    ls_tokenizer_close(tokenizer);
}

static void gpt2_by_hand(void **state) {
    (void)state;
    ls_tokenizer *tokenizer = open_tokenizer(TINY);
    const char *data;
    size_t bytes, files;
    CHECK(tokenizer, "hello world", 0, 270, 268);
    CHECK(tokenizer, "the herring and 12345's\n\n   x\xc3\xa9 aaaaa", 0, 83, 257, 220, 262, 81, 263, 278, 220, 274, 18,
          19, 20, 275, 276, 272, 220, 87, 271, 259, 280);
    CHECK(tokenizer, "\xc3", 0, 127);                     /* half of a character */
    CHECK(tokenizer, "hello\xffhello", 0, 270, 187, 270); /* a byte that is never in UTF-8 cuts words */
    CHECK(tokenizer, "<|endoftext|>hello", LS_ENCODE_SPECIAL, 281, 270);
    CHECK(tokenizer, "<|hello", LS_ENCODE_SPECIAL, 27, 91, 270);
    CHECK(tokenizer, "<|endoftext|>", 0, 27, 91, 68, 277, 78, 69, 83, 68, 87, 83, 91, 29);
    assert_int_equal(ls_tokenizer_vocab(tokenizer), 282);
    assert_int_equal(ls_tokenizer_eot(tokenizer), 281);
    assert_int_equal(ls_tokenizer_token(tokenizer, 268, &data, &bytes), LS_OK);
    assert_int_equal(bytes, 6);
    assert_memory_equal(data, " world", 6);
    assert_refused(ls_tokenizer_token(tokenizer, 282, &data, &bytes), "id 282 is not in the vocabulary");
    assert_refused(ls_tokenizer_token(tokenizer, -1, &data, &bytes), "id -1");
    const char *const *names = ls_tokenizer_files(tokenizer, &files);
    assert_int_equal(files, 2);
    assert_string_equal(names[0], TINY "/vocab.json");
    assert_string_equal(names[1], TINY "/merges.txt");
    ls_tokenizer_close(tokenizer);
}

static void llama3_by_hand(void **state) {
    (void)state;
    ls_tokenizer *tokenizer = open_tokenizer(TINY_LLAMA "/tokenizer.json");
    CHECK(tokenizer, "hello world", 0, 270, 268);
    CHECK(tokenizer, "1212", 0, 274, 16, 17); /* digits by three: 121, 2 */
    CHECK(tokenizer, "12\n\nin", 0, 274, 276, 258);
    CHECK(tokenizer, "<think>in<|end_of_text|>", LS_ENCODE_SPECIAL, 283, 258, 282);
    CHECK(tokenizer, "<think>|>", 0, 283, 91, 29); /* not special: always found */
    assert_int_equal(ls_tokenizer_vocab(tokenizer), 284);
    assert_int_equal(ls_tokenizer_bos(tokenizer), 281);
    assert_int_equal(ls_tokenizer_eot(tokenizer), 282);
    ls_tokenizer_close(tokenizer);
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Byte-pair encoding as its definition has it, on texts: merges are (left, right), the earlier the better. */
static size_t merge_plainly(char tokens[][8], size_t count, const char *const merges[][2], size_t merge_count) {
    for (size_t rank = 0; rank < merge_count;) {
        size_t i = 0;
        while (i + 1 < count &&
               (strcmp(tokens[i], merges[rank][0]) != 0 || strcmp(tokens[i + 1], merges[rank][1]) != 0))
            i++;
        if (i + 1 >= count) {
            rank++;
            continue;
        }
        char both[16];
        snprintf(both, sizeof both, "%s%s", tokens[i], tokens[i + 1]);
        snprintf(tokens[i], sizeof tokens[i], "%.7s", both);
        memmove(tokens + i + 1, tokens + i + 2, (count - i - 2) * sizeof tokens[0]);
        count--;
        rank = 0; /* what this merge made may be the better pair now */
    }
    return count;
}

static void merges_are_those_of_the_definition(void **state) {
    (void)state;
    /* The second one undoes the order that training would give: its product is merged by an earlier rule. */
    static const char *const merges[][2] = {{"ab", "c"}, {"a", "b"},  {"b", "c"},   {"c", "a"}, {"bc", "a"},
                                            {"a", "a"},  {"aa", "b"}, {"ca", "ca"}, {"b", "b"}, {"abc", "abc"}};
    enum { MERGES = sizeof merges / sizeof *merges, LONGEST = 200 };
    char vocab[1024] = "{\"a\": 0, \"b\": 1, \"c\": 2", text_merges[512] = "", names[3 + MERGES][8] = {"a", "b", "c"};
    for (size_t i = 0; i < MERGES; i++) {
        snprintf(names[3 + i], 8, "%s%s", merges[i][0], merges[i][1]);
        char part[64];
        snprintf(part, sizeof part, ", \"%s\": %zu", names[3 + i], 3 + i);
        strcat(vocab, part);
        snprintf(part, sizeof part, "%s %s\n", merges[i][0], merges[i][1]);
        strcat(text_merges, part);
    }
    strcat(vocab, "}");
    ls_tokenizer *tokenizer;
    if (ls_tokenizer_from_merges("x", vocab, strlen(vocab), text_merges, strlen(text_merges), &tokenizer) != LS_OK)
        fail_msg("%s", ls_status_message());
    ls_rng_key key = ls_rng_key_make(5, 5, 5);
    ls_tokens out = {0};
    for (uint64_t round = 0; round < 3000; round++) {
        char text[LONGEST + 1] = "", tokens[LONGEST][8];
        size_t bytes = 1 + ls_rng_below(key, 300 * round, round % 10 ? 20 : LONGEST);
        for (size_t i = 0; i < bytes; i++) {
            text[i] = (char)('a' + ls_rng_below(key, 300 * round + 1 + i, 3));
            snprintf(tokens[i], 8, "%c", text[i]);
        }
        size_t count = merge_plainly(tokens, bytes, merges, MERGES);
        out.count = 0;
        assert_int_equal(ls_tokenizer_encode(tokenizer, text, bytes, 0, &out), LS_OK);
        assert_int_equal(out.count, count);
        for (size_t i = 0; i < count; i++) assert_string_equal(names[out.ids[i]], tokens[i]);
    }
    assert_refused(ls_tokenizer_encode(tokenizer, "abd", 3, 0, &out), "the byte 0x64, for which");
    ls_tokens_fini(&out);
    ls_tokenizer_close(tokenizer);
}

static void long_words_do_not_take_for_ever(void **state) {
    (void)state;
    enum { BYTES = 1000000 };
    ls_tokenizer *tokenizer = open_tokenizer(TINY);
    ls_tokens out = {0};
    char *text = malloc(BYTES);
    memset(text, 'a', BYTES);
    assert_int_equal(ls_tokenizer_encode(tokenizer, text, BYTES, 0, &out), LS_OK);
    assert_int_equal(out.count, BYTES / 4);
    for (size_t i = 0; i < out.count; i++) assert_int_equal(out.ids[i], 280);
    free(text);
    ls_tokens_fini(&out);
    ls_tokenizer_close(tokenizer);
}

static ls_status count_ids(void *ctx, const int32_t *ids, size_t count, size_t bytes_done) {
    size_t *seen = ctx;
    (void)ids;
    seen[0] += count;
    assert_true(bytes_done >= seen[1]);
    seen[1] = bytes_done;
    return LS_OK;
}

static void any_bytes_come_back(void **state) {
    (void)state;
    enum { BYTES = 100000 };
    const char *const paths[] = {"bytes", TINY, TINY_LLAMA};
    uint8_t *text = malloc(BYTES);
    ls_rng_key key = ls_rng_key_make(8, 8, 8);
    for (size_t i = 0; i < BYTES; i++) {
        /* Half of it in a small alphabet, so that pieces get long; the rest anything. */
        uint32_t number = ls_rng_u32(key, i);
        text[i] = i % 512 < 256 ? (uint8_t)number : (uint8_t) "aeh lr\n'<\xc3\xa9|1"[number % 13];
    }
    for (size_t p = 0; p < 3; p++) {
        ls_tokenizer *tokenizer = open_tokenizer(paths[p]);
        for (unsigned flags = 0; flags < 2; flags++) {
            ls_tokens out = {0};
            char *back;
            size_t bytes, seen[2] = {0, 0};
            assert_int_equal(ls_tokenizer_encode(tokenizer, text, BYTES, flags, &out), LS_OK);
            assert_int_equal(ls_tokenizer_decode(tokenizer, out.ids, out.count, &back, &bytes), LS_OK);
            assert_int_equal(bytes, BYTES);
            assert_memory_equal(back, text, BYTES);
            assert_int_equal(ls_tokenizer_encode_to(tokenizer, text, BYTES, flags, count_ids, seen), LS_OK);
            assert_int_equal(seen[0], out.count);
            assert_int_equal(seen[1], BYTES);
            free(back);
            ls_tokens_fini(&out);
        }
        ls_tokenizer_close(tokenizer);
    }
    free(text);
}

/* ---- tokenizer.json ---------------------------------------------------------------------------------------------- */

/* tokenizer.json of two letters, with parts to be replaced. */
static ls_status from_json(const char *model, const char *pretok, const char *more, ls_tokenizer **out) {
    char text[2048];
    snprintf(text, sizeof text, "{\"model\": {%s}, \"pre_tokenizer\": %s %s}", model, pretok, more);
    return ls_tokenizer_from_json("t.json", text, strlen(text), out);
}

#define MODEL "\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]"
#define LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"

static void what_cannot_be_done_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *model, *pretok, *more, *message;
    } cases[] = {
        {"\"type\": \"Unigram\", \"vocab\": []", LEVEL, "",
         "t.json: the model is of type Unigram; only byte-level BPE"},
        {"\"type\": \"WordPiece\", \"vocab\": {}", LEVEL, "", "type WordPiece"},
        {MODEL ", \"byte_fallback\": true", LEVEL, "", "SentencePiece"},
        {MODEL ", \"dropout\": 0.1", LEVEL, "", "dropout"},
        {MODEL ", \"end_of_word_suffix\": \"</w>\"", LEVEL, "", "end_of_word_suffix '</w>'"},
        {"\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]", LEVEL, "", "merge 1, 'a b': the second token is not in"},
        {"\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [[\"a\", \"b\"]]", LEVEL, "", "the token they give"},
        {"\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"ab\"]", LEVEL, "", "merge 1 is not a pair"},
        {"\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [[\"a\"]]", LEVEL, "", "merge 1 is not a pair"},
        {"\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [7]", LEVEL, "", "merge 1 is not a pair"},
        {"\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []", LEVEL, "", "two tokens have the id 0"},
        {"\"vocab\": {\"a\": -1}, \"merges\": []", LEVEL, "", "id -1"},
        {"\"vocab\": {\"a\": 1000000000}, \"merges\": []", LEVEL, "",
         "id 1000000000; in a vocabulary of 1 token, ids must be between 0 and"},
        {"\"vocab\": {\"a\": \"x\"}, \"merges\": []", LEVEL, "", "must be a whole number"},
        {"\"vocab\": {}, \"merges\": []", LEVEL, "", "is empty"},
        {"\"merges\": []", LEVEL, "", "\"vocab\" is missing"},
        {MODEL, "null", "", "has no step ByteLevel"},
        {MODEL, "{\"type\": \"Metaspace\"}", "", "is of type Metaspace"},
        {MODEL, "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL ", " LEVEL "]}", "",
         "ByteLevel behind ByteLevel"},
        {MODEL, "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x\"}, \"behavior\": \"MergedWithNext\"}", "",
         "behavior MergedWithNext"},
        {MODEL, LEVEL, ", \"normalizer\": {\"type\": \"NFC\"}", "normalizer is of type NFC"},
        {MODEL, LEVEL, ", \"added_tokens\": [{\"id\": 3, \"content\": \"x\", \"single_word\": true}]", "single_word"},
        {MODEL, LEVEL, ", \"added_tokens\": [{\"id\": 3, \"content\": \"\"}]", "is empty"},
        {MODEL, LEVEL, ", \"added_tokens\": [{\"content\": \"x\"}]", "\"id\" is missing"},
        {MODEL, LEVEL, ", \"added_tokens\": [{\"id\": 99999999, \"content\": \"x\"}]", "id 99999999"},
        {MODEL, LEVEL, ", ]", "t.json:1:"},
    };
    ls_tokenizer *tokenizer = NULL;
    assert_int_equal(from_json(MODEL, LEVEL, "", &tokenizer), LS_OK);
    ls_tokenizer_close(tokenizer);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(from_json(cases[i].model, cases[i].pretok, cases[i].more, &tokenizer), cases[i].message);
        assert_null(tokenizer);
    }
}

static void added_tokens_and_holes(void **state) {
    (void)state;
    ls_tokenizer *tokenizer;
    const char *data;
    size_t bytes;
    assert_int_equal(
        from_json(
            MODEL, LEVEL,
            ", \"added_tokens\": [{\"id\": 7, \"content\": \"<m>\", \"lstrip\": true, \"special\": true},"
            "{\"id\": 5, \"content\": \"<m\", \"rstrip\": true}, {\"id\": 9, \"content\": \"</s>\"}],"
            "\"post_processor\": {\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 9], \"cls\": [\"<m>\", 7]}",
            &tokenizer),
        LS_OK);
    ls_tokens out = {0};
    const char text[] = "ab \t<m>ab<m  b";
    assert_int_equal(ls_tokenizer_encode(tokenizer, text, sizeof text - 1, LS_ENCODE_SPECIAL, &out), LS_OK);
    const int32_t expected[] = {2, 7, 2, 5, 1};
    assert_int_equal(out.count, 5);
    assert_memory_equal(out.ids, expected, sizeof expected);
    assert_int_equal(ls_tokenizer_vocab(tokenizer), 10);
    assert_int_equal(ls_tokenizer_eot(tokenizer), 9);
    assert_int_equal(ls_tokenizer_bos(tokenizer), 7);
    assert_int_equal(ls_tokenizer_token(tokenizer, 4, &data, &bytes), LS_OK); /* an id that no token has */
    assert_int_equal(bytes, 0);
    ls_tokens_fini(&out);
    ls_tokenizer_close(tokenizer);
}

static void folders_and_hashes(void **state) {
    (void)state;
    ls_tokenizer *a = open_tokenizer(TINY), *b = open_tokenizer(TINY "/vocab.json"), *c = open_tokenizer(TINY_LLAMA),
                 *d = NULL;
    assert_true(ls_hash_equal(ls_tokenizer_hash(a), ls_tokenizer_hash(b)));
    assert_false(ls_hash_equal(ls_tokenizer_hash(a), ls_tokenizer_hash(c)));
    assert_refused(ls_tokenizer_open(folder, &d), "has neither tokenizer.json nor vocab.json");
    assert_refused(ls_tokenizer_open("/nowhere", &d), "there is no file or folder '/nowhere'");
    put_text("vocab.json", "{\"a\": 0}");
    assert_refused(ls_tokenizer_open(folder, &d), "merges.txt");
    put_text("merges.txt", "#version: 0.2\n\na  b\n");
    assert_refused(ls_tokenizer_open(folder, &d), "merge 1, 'a  b'");
    put_text("merges.txt", "ab\n");
    assert_refused(ls_tokenizer_open(folder, &d), "line 1 of the merges is not two tokens");
    put_text("merges.txt", "");
    d = open_tokenizer(folder);
    assert_int_equal(ls_tokenizer_vocab(d), 1);
    ls_tokenizer_close(a);
    ls_tokenizer_close(b);
    ls_tokenizer_close(c);
    ls_tokenizer_close(d);
    ls_tokenizer_close(NULL);
}

int main(void) {
    if (access(TINY, R_OK) != 0) {
        fprintf(stderr, "there is no " TINY ": run this at the top of the tree\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_their_own_ids),
        cmocka_unit_test(gpt2_by_hand),
        cmocka_unit_test(llama3_by_hand),
        cmocka_unit_test(merges_are_those_of_the_definition),
        cmocka_unit_test(long_words_do_not_take_for_ever),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(what_cannot_be_done_is_refused),
        cmocka_unit_test(added_tokens_and_holes),
        cmocka_unit_test(folders_and_hashes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
