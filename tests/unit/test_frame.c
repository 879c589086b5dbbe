/* test_frame.c: the tokens around a text, as the files of a tokenizer say: documents, prompts, caches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data_files.h"
#include "data/text/corpus.h"
#include "data/text/text.h"

#define LLAMA "tests/data/tiny_llama"

enum { BOS = 281, EOT = 282 };

/* A tokenizer of three letters with this post_processor. */
static ls_status make(const char *post, ls_tokenizer **out) {
    char text[2048];
    int length =
        snprintf(text, sizeof text,
                 "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]},"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                 "\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true},"
                 "{\"id\":4,\"content\":\"</s>\",\"special\":true},{\"id\":5,\"content\":\"<x>\",\"special\":true}],"
                 "\"post_processor\":%s}",
                 post);
    assert_true(length < (int)sizeof text);
    return ls_tokenizer_from_json("mine", text, (size_t)length, out);
}

#define SPECIALS                                                                                                       \
    "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[3]},\"</s>\":{\"id\":\"</s>\",\"ids\":[4]},"                 \
    "\"two\":{\"id\":\"two\",\"ids\":[5,3]},\"far\":{\"id\":\"far\",\"ids\":[6]}}"
#define TEMPLATE(list) "{\"type\":\"TemplateProcessing\",\"single\":[" list "]," SPECIALS "}"
#define TOKEN(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define A "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"

static void post_processors_are_read(void **state) {
    (void)state;
    static const struct {
        const char *post, *frame;
    } cases[] = {
        {"null", ""},
        {"{\"type\":\"ByteLevel\"}", ""},
        {TEMPLATE(A), ""},
        {TEMPLATE(TOKEN("<s>") "," A), "3"},
        {TEMPLATE(TOKEN("<s>") "," A "," TOKEN("</s>")), "3"}, /* </s> ends each document anyway */
        {TEMPLATE(A "," TOKEN("two") "," TOKEN("</s>")), "text 5 3"},
        {TEMPLATE(TOKEN("two") "," A), "5 3"},
        {"{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," TEMPLATE(TOKEN("<s>") "," A) "]}", "3"},
        {"{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",3],\"sep\":[\"</s>\",4]}", "3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_tokenizer *tokenizer;
        ls_frame frame;
        char text[LS_FRAME_TEXT_BYTES];
        if (make(cases[i].post, &tokenizer) != LS_OK) fail_msg("%s", ls_status_message());
        assert_int_equal(ls_frame_of(tokenizer, LS_BOS_AUTO, &frame), LS_OK);
        ls_frame_describe(&frame, text);
        assert_string_equal(text, cases[i].frame);
        assert_int_equal(ls_frame_is_empty(&frame), !*cases[i].frame);
        ls_tokenizer_close(tokenizer);
    }
    static const struct {
        const char *post, *message;
    } wrong[] = {
        {TEMPLATE(TOKEN("far") "," A), "not in the vocabulary"},
        {TEMPLATE(TOKEN("none") "," A), "names the token 'none' without its ids"},
        {TEMPLATE(A "," A), "has the text 2 times"},
        {"{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(TOKEN("<s>") "," A) "," TEMPLATE(TOKEN("two") "," A) "]}",
         "two templates"},
        {"{\"type\":\"Foreign\"}", "the post_processor is of type Foreign"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_tokenizer *tokenizer;
        assert_refused(make(wrong[i].post, &tokenizer), wrong[i].message);
    }
}

static void the_option_decides(void **state) {
    (void)state;
    ls_tokenizer *llama, *plain, *bytes;
    ls_frame frame;
    assert_int_equal(ls_tokenizer_open(LLAMA, &llama), LS_OK);
    assert_int_equal(make("null", &plain), LS_OK);
    assert_int_equal(ls_tokenizer_open("bytes", &bytes), LS_OK);
    assert_int_equal(ls_frame_of(llama, LS_BOS_AUTO, &frame), LS_OK);
    assert_int_equal(frame.before_count, 1);
    assert_int_equal(frame.before[0], BOS);
    assert_int_equal(ls_frame_of(llama, LS_BOS_YES, &frame), LS_OK);
    assert_int_equal(frame.before_count, 1);
    assert_int_equal(ls_frame_of(llama, LS_BOS_NO, &frame), LS_OK);
    assert_true(ls_frame_is_empty(&frame));
    assert_int_equal(ls_frame_of(plain, LS_BOS_YES, &frame), LS_OK);
    assert_int_equal(frame.before[0], 3);
    assert_int_equal(ls_frame_of(bytes, LS_BOS_AUTO, &frame), LS_OK);
    assert_true(ls_frame_is_empty(&frame));
    assert_refused(ls_frame_of(bytes, LS_BOS_YES, &frame), "--bos yes: the tokenizer bytes has no beginning-of-text");
    ls_tokenizer_close(llama);
    ls_tokenizer_close(plain);
    ls_tokenizer_close(bytes);
}

/* As Hugging Face: add_bos_token counts where there is no tokenizer.json. */
static void configs_are_read_without_a_tokenizer_json(void **state) {
    (void)state;
    ls_tokenizer *tokenizer;
    ls_frame frame;
    put_text("vocab.json", "{\"a\":0,\"b\":1,\"<|endoftext|>\":2}");
    put_text("merges.txt", "#version: 0.2\n");
    put_text("tokenizer_config.json", "{\"add_bos_token\": true, \"bos_token\": \"<|endoftext|>\"}");
    if (ls_tokenizer_open(folder, &tokenizer) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_frame_of(tokenizer, LS_BOS_AUTO, &frame), LS_OK);
    assert_int_equal(frame.before_count, 1);
    assert_int_equal(frame.before[0], 2);
    ls_tokenizer_close(tokenizer);
    put_text("tokenizer_config.json", "{\"add_bos_token\": false, \"bos_token\": \"<|endoftext|>\"}");
    assert_int_equal(ls_tokenizer_open(folder, &tokenizer), LS_OK);
    assert_int_equal(ls_frame_of(tokenizer, LS_BOS_AUTO, &frame), LS_OK);
    assert_true(ls_frame_is_empty(&frame));
    ls_tokenizer_close(tokenizer);
}

static void prompts_have_it_once(void **state) {
    (void)state;
    static const char spelled[] = "<|begin_of_text|>hello";
    ls_tokenizer *llama;
    ls_frame frame;
    ls_tokens one = {0}, two = {0}, plain = {0};
    assert_int_equal(ls_tokenizer_open(LLAMA, &llama), LS_OK);
    assert_int_equal(ls_frame_of(llama, LS_BOS_AUTO, &frame), LS_OK);
    assert_int_equal(ls_tokenizer_encode(llama, "hello", 5, 0, &plain), LS_OK);
    assert_int_equal(ls_frame_prompt(llama, &frame, "hello", 5, LS_ENCODE_SPECIAL, &one), LS_OK);
    assert_int_equal(ls_frame_prompt(llama, &frame, spelled, strlen(spelled), LS_ENCODE_SPECIAL, &two), LS_OK);
    assert_int_equal(one.count, plain.count + 1);
    assert_int_equal(one.ids[0], BOS);
    assert_memory_equal(one.ids + 1, plain.ids, plain.count * sizeof *plain.ids);
    assert_int_equal(two.count, one.count);
    assert_memory_equal(two.ids, one.ids, one.count * sizeof *one.ids);
    ls_tokens_fini(&one);
    ls_tokens_fini(&two);
    ls_tokens_fini(&plain);
    ls_tokenizer_close(llama);
}

static void check_corpus(const char *path, const ls_corpus_options *options, const int32_t *expected, size_t count) {
    ls_corpus *corpus;
    int32_t ids[64];
    if (ls_corpus_open(path, options, &corpus) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_corpus_count(corpus), count);
    assert_int_equal(ls_corpus_read(corpus, 0, count, ids), LS_OK);
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], expected[i]);
    ls_corpus_close(corpus);
}

#define CHECK(path, options, ...)                                                                                      \
    check_corpus(path, options, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4)

/* The cache keeps both, under two names; the end-of-text token stays where it was. */
static void documents_have_it_each(void **state) {
    (void)state;
    ls_tokenizer *llama, *same, *both;
    const char *path = put_text("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
    assert_int_equal(ls_tokenizer_open(LLAMA, &llama), LS_OK);
    ls_tokens ids = {0};
    assert_int_equal(ls_tokenizer_encode(llama, "a", 1, 0, &ids), LS_OK);
    assert_int_equal(ls_tokenizer_encode(llama, "b", 1, 0, &ids), LS_OK);
    assert_int_equal(ids.count, 2);
    ls_corpus_options options = {.tokenizer = llama, .cache_dir = in_folder("cache")};
    CHECK(path, &options, ids.ids[0], EOT, ids.ids[1], EOT); /* as version 0.1.0 did, and --bos no does */
    assert_int_equal(ls_frame_of(llama, LS_BOS_AUTO, &options.frame), LS_OK);
    for (int round = 0; round < 2; round++) CHECK(path, &options, BOS, ids.ids[0], EOT, BOS, ids.ids[1], EOT);
    assert_int_equal(count_entries(in_folder("cache")), 2);
    /* A token that begins and ends documents is not there twice between them. */
    assert_int_equal(make(TEMPLATE(TOKEN("</s>") "," A), &same), LS_OK);
    options.tokenizer = same;
    assert_int_equal(ls_frame_of(same, LS_BOS_AUTO, &options.frame), LS_OK);
    CHECK(path, &options, 4, 0, 4, 1, 4);
    /* One that comes behind, and is not the mark between documents, is there beside it. */
    assert_int_equal(make(TEMPLATE(TOKEN("<s>") "," A "," TOKEN("two") "," TOKEN("</s>")), &both), LS_OK);
    options.tokenizer = both;
    assert_int_equal(ls_frame_of(both, LS_BOS_AUTO, &options.frame), LS_OK);
    CHECK(path, &options, 3, 0, 5, 3, 4, 3, 1, 5, 3, 4);
    ls_tokens_fini(&ids);
    ls_tokenizer_close(llama);
    ls_tokenizer_close(same);
    ls_tokenizer_close(both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post_processors_are_read),
        cmocka_unit_test(the_option_decides),
        cmocka_unit_test(configs_are_read_without_a_tokenizer_json),
        cmocka_unit_test(prompts_have_it_once),
        cmocka_unit_test(documents_have_it_each),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
