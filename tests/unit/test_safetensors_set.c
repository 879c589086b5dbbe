/* test_safetensors_set.c: one model in several files, indexes that lie, and files that are none. */
#include <sys/stat.h>

#include "test_checkpoint_folder.h"
#include "checkpoint/safetensors.h"

/* A file with tensors of one byte each, named in `names` by one letter; the byte is the letter. */
static ls_status read_letter(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    assert_int_equal(byte_offset, 0);
    assert_int_equal(bytes, 1);
    *(char *)host = ((const char *)ctx)[tensor];
    return LS_OK;
}

static void write_file(const char *name, const char *letters) {
    const int64_t one = 1;
    char names[8][2] = {{0}}, copy[9];
    ls_safetensors_decl decls[8];
    int count = (int)strlen(letters);
    snprintf(copy, sizeof copy, "%s", letters);
    for (int i = 0; i < count; i++) {
        names[i][0] = letters[i];
        decls[i] = (ls_safetensors_decl){.name = names[i], .dtype = LS_U8, .dims = 1, .shape = &one};
    }
    const ls_safetensors_plan plan = {.tensors = decls, .count = count};
    assert_int_equal(save_tensors(in_folder(name), &plan, read_letter, copy, NULL), LS_OK);
}

static void write_index(const char *text) {
    assert_int_equal(ls_file_write_atomic(in_folder("model.safetensors.index.json"), text, strlen(text)), LS_OK);
}

static void check_letters(const char *path, const char *letters) {
    ls_safetensors *set;
    if (ls_safetensors_open_set(path, &set) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_safetensors_count(set), strlen(letters));
    for (int i = 0; letters[i]; i++) {
        const ls_safetensor *tensor = ls_safetensors_get(set, i), *needed;
        const char name[2] = {letters[i], 0};
        const int64_t one = 1;
        char byte = 0;
        assert_string_equal(tensor->name, name);
        assert_ptr_equal(ls_safetensors_find(set, name), tensor);
        assert_int_equal(ls_safetensors_need(set, name, 1, &one, &needed), LS_OK);
        assert_int_equal(ls_safetensor_read(tensor, 0, &byte, 1), LS_OK);
        assert_int_equal(byte, letters[i]);
    }
    assert_null(ls_safetensors_find(set, "-"));
    ls_safetensors_close(set);
}

static void a_set_is_a_file_an_index_or_a_folder(void **state) {
    (void)state;
    write_file("one.safetensors", "dac");
    write_file("two.safetensors", "bxe");
    write_index("{\"metadata\":{\"total_size\":5},\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\","
                "\"c\":\"one.safetensors\",\"d\":\"one.safetensors\",\"e\":\"two.safetensors\"}}");
    check_letters(in_folder("one.safetensors"), "dac");
    check_letters(in_folder("model.safetensors.index.json"), "abcde");
    check_letters(folder, "abcde");
    write_file("model.safetensors", "zy");
    check_letters(folder, "zy");
}

/* Shared caches hold the files elsewhere and link to them. */
static void links_are_followed(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_folder("blobs"), 0700), 0);
    write_file("blobs/1234", "ab");
    assert_int_equal(symlink("blobs/1234", in_folder("one.safetensors")), 0);
    write_index("{\"weight_map\":{\"a\":\"one.safetensors\"}}");
    check_letters(folder, "a");
}

static void indexes_that_lie_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *index, *message;
    } lies[] = {
        {"", "index.json"},
        {"[]", "\"weight_map\" was requested"},
        {"{}", "\"weight_map\" is missing"},
        {"{\"weight_map\":[]}", "\"weight_map\" is an array"},
        {"{\"weight_map\":{\"a\":1}}", "the file name of tensor 'a' is not a string"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"}}", "duplicate object key"},
        {"{\"weight_map\":{\"q\":\"one.safetensors\"}}",
         "tensor 'q' is listed in one.safetensors, which does not have it"},
        {"{\"weight_map\":{\"a\":\"two.safetensors\"}}",
         "lists tensor 'a' in two.safetensors: there is no file or folder"},
        {"{\"weight_map\":{\"a\":\"broken.safetensors\"}}", "lists tensor 'a' in broken.safetensors: "},
        {"{\"weight_map\":{\"a\":\"\"}}", "must be a file in the folder of the index"},
        {"{\"weight_map\":{\"a\":\".\"}}", "must be a file in the folder of the index"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "must be a file in the folder of the index"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "must be a file in the folder of the index"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "must be a file in the folder of the index"},
        {"{\"weight_map\":{\"a\":\"./one.safetensors\"}}", "must be a file in the folder of the index"},
    };
    write_file("one.safetensors", "ab");
    assert_int_equal(ls_file_write_atomic(in_folder("broken.safetensors"), "no", 2), LS_OK);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        ls_safetensors *set;
        write_index(lies[i].index);
        assert_int_equal(ls_safetensors_open_set(folder, &set), LS_ERR_INPUT);
        assert_null(set);
        if (!strstr(ls_status_message(), lies[i].message) || !strstr(ls_status_message(), "index.json"))
            fail_msg("%s: %s; expected '%s'", lies[i].index, ls_status_message(), lies[i].message);
    }
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    ls_safetensors *set;
    const ls_safetensor *tensor;
    assert_int_equal(ls_safetensors_open_set(in_folder("none"), &set), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_open_set(folder, &set), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has neither model.safetensors nor model.safetensors.index.json"));
    write_file("model.safetensors", "a");
    assert_int_equal(ls_safetensors_open_set(folder, &set), LS_OK);
    assert_int_equal(ls_safetensors_need(set, "b", 0, NULL, &tensor), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has no tensor 'b'"));
    assert_int_equal(ls_safetensors_need(set, "a", 0, NULL, &tensor), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "tensor 'a' is [1]; it must be []"));
    ls_safetensors_close(set);
    ls_safetensors_close(NULL);
}

static void unfit_files_are_named(void **state) {
    (void)state;
    ls_safetensors *file;
    assert_int_equal(ls_safetensors_open(in_folder("none"), &file), LS_ERR_INPUT);
    assert_null(file);
    assert_non_null(strstr(ls_status_message(), "/none'"));
    assert_int_equal(ls_safetensors_open(folder, &file), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "name a regular file"));
    assert_int_equal(ls_file_write_atomic(in_folder("a"), "", 0), LS_OK);
    assert_int_equal(ls_safetensors_open(in_folder("a"), &file), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "is empty"));
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(ls_safetensors_open(in_folder("pipe"), &file), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "name a regular file"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_set_is_a_file_an_index_or_a_folder),
        TEST(links_are_followed),
        TEST(indexes_that_lie_are_refused),
        TEST(what_is_missing_is_named),
        TEST(unfit_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
