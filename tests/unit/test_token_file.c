/* test_token_file.c: token files of all formats, written here byte by byte; what is wrong with one is said; what the
 * writer leaves behind. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "data_files.h"
#include "data/text/token_file.h"
#include "data/text/token_layout.h"

enum { HEADER = 1024 };

/* A token file of llm.c with `count` ids that are i·7 mod 1000, of 2 or 4 bytes each. */
static size_t make_llmc(uint8_t *out, uint32_t magic, uint32_t version, uint32_t count, uint32_t stored, size_t width) {
    uint32_t head[3] = {magic, version, count};
    memset(out, 0, HEADER);
    memcpy(out, head, sizeof head);
    for (uint32_t i = 0; i < stored; i++) {
        uint32_t id = i * 7 % 1000;
        memcpy(out + HEADER + i * width, &id, width); /* little-endian */
    }
    return HEADER + stored * width;
}

static void llmc_of_both_widths(void **state) {
    (void)state;
    static uint8_t data[HEADER + 4 * 5000];
    static const struct {
        uint32_t magic, version;
        size_t width;
    } kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
    for (size_t k = 0; k < 2; k++) {
        ls_token_file *file;
        int32_t ids[5000];
        bool is_tokens = false;
        size_t bytes = make_llmc(data, kinds[k].magic, kinds[k].version, 5000, 5000, kinds[k].width);
        const char *path = put_file("odd-name", data, bytes);
        assert_int_equal(ls_token_file_detect(path, &is_tokens), LS_OK);
        assert_true(is_tokens);
        assert_int_equal(ls_token_file_open(path, &file), LS_OK);
        assert_int_equal(ls_token_file_count(file), 5000);
        assert_string_equal(ls_token_file_format(file), "llm.c");
        assert_int_equal(ls_token_file_origin(file).vocab, 0);
        assert_int_equal(ls_token_file_read(file, 0, 5000, ids), LS_OK);
        for (int i = 0; i < 5000; i++) assert_int_equal(ids[i], i * 7 % 1000);
        assert_int_equal(ls_token_file_read(file, 4999, 1, ids), LS_OK);
        assert_int_equal(ids[0], 4999 * 7 % 1000);
        assert_int_equal(ls_token_file_read(file, 5000, 0, ids), LS_OK);
        assert_refused(ls_token_file_read(file, 4999, 2, ids), "has 5000 tokens; 2 from 4999");
        assert_refused(ls_token_file_read(file, UINT64_MAX, 2, ids), "not there");
        assert_int_equal(ls_token_file_check(file, 1000, NULL, NULL), LS_OK);
        assert_refused(ls_token_file_check(file, 999, NULL, NULL), "token 857 has id 999");
        ls_token_file_close(file);
    }
}

static void nanogpt(void **state) {
    (void)state;
    static uint16_t ids[10000];
    int32_t out[10000];
    ls_token_file *file;
    for (int i = 0; i < 10000; i++) ids[i] = (uint16_t)(i * 13);
    assert_int_equal(ls_token_file_open(put_file("train.bin", ids, sizeof ids), &file), LS_OK);
    assert_string_equal(ls_token_file_format(file), "nanoGPT");
    assert_int_equal(ls_token_file_count(file), 10000);
    assert_int_equal(ls_token_file_read(file, 1, 9999, out), LS_OK);
    for (int i = 1; i < 10000; i++) assert_int_equal(out[i - 1], ids[i]);
    assert_int_equal(ls_token_file_check(file, 65536, NULL, NULL), LS_OK);
    assert_refused(ls_token_file_check(file, 50257, NULL, NULL), "token 3866 has id 50258");
    ls_token_file_close(file);
}

static void wrong_files_are_named(void **state) {
    (void)state;
    static uint8_t data[HEADER + 2000];
    ls_token_file *file = NULL;
    bool is_tokens = true;
    static const struct {
        uint32_t magic, version, count, stored;
        int extra;
        const char *message;
    } cases[] = {
        {20240520, 1, 100, 99, 0, "is truncated: its header says 100 tokens, which are 1224 bytes, but it has 1222"},
        {20240520, 1, 100, 100, 1, "is too long"},
        {20240520, 2, 100, 100, 0, "of version 2; only 1 is known"},
        {20240801, 1, 100, 100, 0, "of version 1; only 7 is known"},
        {20240520, 1, 0, 0, 0, "holds no tokens"},
        {20240520, 1, 0xFFFFFFFF, 10, 0, "holds no tokens: its header says -1"},
        {20240520, 1, 0x7FFFFFFF, 10, 0, "is truncated"},
        {20240520, 1, 5, 0, -1000, "less than the header"},
        {20240326, 1, 100, 100, 0, "as models of llm.c do"},
        {7, 1, 1, 0, 1, "would be 16-bit ids, but has 1025 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = make_llmc(data, cases[i].magic, cases[i].version, cases[i].count, cases[i].stored, 2);
        bytes = (size_t)((long)bytes + cases[i].extra);
        assert_refused(ls_token_file_open(put_file("x.bin", data, bytes), &file), cases[i].message);
        assert_null(file);
    }
    assert_refused(ls_token_file_open(put_file("x.bin", data, 0), &file), "is empty");
    assert_refused(ls_token_file_open(in_folder("absent.bin"), &file), "there is no file or folder");
    assert_refused(ls_token_file_open(folder, &file), "folder");
    assert_int_equal(ls_token_file_detect(put_text("note.txt", "hello"), &is_tokens), LS_OK);
    assert_false(is_tokens);
    assert_int_equal(ls_token_file_detect(put_text("tiny", "x"), &is_tokens), LS_OK);
    assert_false(is_tokens);
}

/* ---- Megatron ---------------------------------------------------------------------------------------------------- */

enum { SEQUENCES = 3, INDEX_BYTES = 34 + SEQUENCES * 12 + 8 * 4 };

static void make_index(uint8_t out[INDEX_BYTES], uint8_t type, const int32_t lengths[SEQUENCES], int64_t width) {
    uint64_t version = 1, sequences = SEQUENCES, documents = SEQUENCES + 1;
    int64_t start = 0;
    memset(out, 0, INDEX_BYTES);
    memcpy(out, "MMIDIDX", 7);
    memcpy(out + 9, &version, 8);
    out[17] = type;
    memcpy(out + 18, &sequences, 8);
    memcpy(out + 26, &documents, 8);
    for (int i = 0; i < SEQUENCES; i++) {
        memcpy(out + 34 + 4 * i, &lengths[i], 4);
        memcpy(out + 34 + 4 * SEQUENCES + 8 * i, &start, 8);
        start += lengths[i] * width;
    }
}

static void megatron_of_all_types(void **state) {
    (void)state;
    static const struct {
        uint8_t code;
        size_t width;
    } types[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
    static const int32_t lengths[SEQUENCES] = {5, 0, 7};
    uint8_t index[INDEX_BYTES], data[12 * 8];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        ls_token_file *file;
        int32_t ids[12];
        for (int64_t i = 0; i < 12; i++) {
            int64_t id = i * 11;
            memcpy(data + (size_t)i * types[t].width, &id, types[t].width);
        }
        make_index(index, types[t].code, lengths, (int64_t)types[t].width);
        put_file("pile.idx", index, sizeof index);
        put_file("pile.bin", data, 12 * types[t].width);
        const char *const names[] = {"pile.bin", "pile.idx", "pile"};
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(ls_token_file_open(in_folder(names[i]), &file), LS_OK);
            assert_string_equal(ls_token_file_format(file), "Megatron");
            assert_int_equal(ls_token_file_count(file), 12);
            assert_int_equal(ls_token_file_read(file, 0, 12, ids), LS_OK);
            for (int j = 0; j < 12; j++) assert_int_equal(ids[j], j * 11);
            ls_token_file_close(file);
        }
    }
    unlink(in_folder("pile.idx"));
}

static void negative_and_huge_ids_are_found(void **state) {
    (void)state;
    static const int32_t lengths[SEQUENCES] = {1, 1, 1};
    uint8_t index[INDEX_BYTES];
    int64_t ids[3] = {5, -1, INT64_C(1) << 40};
    int32_t out[3];
    ls_token_file *file;
    make_index(index, 5, lengths, 8);
    put_file("far.idx", index, sizeof index);
    assert_int_equal(ls_token_file_open(put_file("far.bin", ids, sizeof ids), &file), LS_OK);
    assert_refused(ls_token_file_check(file, UINT32_MAX, NULL, NULL), "token 1 has id -1");
    assert_refused(ls_token_file_read(file, 0, 3, out), "token 1 has the impossible id -1");
    assert_refused(ls_token_file_read(file, 2, 1, out), "id 1099511627776");
    ls_token_file_close(file);
}

static void wrong_indexes_are_named(void **state) {
    (void)state;
    static const int32_t lengths[SEQUENCES] = {5, 0, 7};
    static const struct {
        size_t at;
        uint8_t value;
        const char *message;
    } cases[] = {
        {0, 'm', "does not begin with MMIDIDX"},
        {9, 2, "has version 2"},
        {17, 7, "one of fractions"},
        {17, 77, "is not known"},
        {18, 4, "is truncated"},
        {25, 0xFF, "is truncated"},
        {26, 5, "is truncated"},
        {33, 0xFF, "is truncated"},
        {34, 6, "sequence 1 has 0 tokens from byte 10"},
        {37, 0x80, "sequence 0 has -"},
        {34 + 8, 8, "is truncated: its index has sequence 2 end at byte 26"},
        {34 + 8, 6, "is longer than its index says"},
        {34 + 12, 2, "sequence 0 has 5 tokens from byte 2"},
    };
    uint8_t index[INDEX_BYTES], data[24] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_token_layout layout;
        make_index(index, 8, lengths, 2);
        assert_int_equal(ls_token_layout_parse("x", data, sizeof data, index, sizeof index, &layout), LS_OK);
        index[cases[i].at] = cases[i].value;
        assert_refused(ls_token_layout_parse("x", data, sizeof data, index, sizeof index, &layout), cases[i].message);
    }
    ls_token_layout layout;
    for (size_t bytes = 0; bytes < INDEX_BYTES; bytes++) {
        make_index(index, 8, lengths, 2);
        assert_int_equal(ls_token_layout_parse("x", data, sizeof data, index, bytes, &layout), LS_ERR_INPUT);
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static const ls_token_origin origin = {.vocab = 50257, .tokenizer = {.lo = UINT64_C(0x123456789ABCDEF0), .hi = 42}};

static void shards_hold_what_was_added(void **state) {
    (void)state;
    static int32_t ids[300000];
    ls_token_writer *writer;
    ls_token_file *file;
    uint64_t begin = 0, text_bytes = 0;
    for (int i = 0; i < 300000; i++) ids[i] = (int32_t)((uint32_t)i * 2654435761u % 50257u);
    assert_int_equal(ls_token_writer_open(in_folder("many"), &origin, 100000, &writer), LS_OK);
    for (size_t at = 0, part = 1; at < 250001; at += part, part = part * 3 % 70001 + 1) {
        if (part > 250001 - at) part = 250001 - at;
        assert_int_equal(ls_token_writer_add(writer, ids + at, part, part * 2), LS_OK);
    }
    assert_false(ls_file_exists(in_folder("many_000001.bin")));
    assert_int_equal(ls_token_writer_finish(writer), LS_OK);
    assert_int_equal(ls_token_writer_count(writer), 250001);
    assert_int_equal(ls_token_writer_shards(writer), 3);
    ls_token_writer_close(writer);
    static int32_t out[100000];
    static const uint64_t sizes[3] = {100000, 100000, 50001};
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "many_00000%zu.bin", i + 1);
        assert_int_equal(ls_token_file_open(in_folder(name), &file), LS_OK);
        assert_int_equal(ls_token_file_count(file), sizes[i]);
        assert_int_equal(ls_token_file_read(file, 0, sizes[i], out), LS_OK);
        assert_memory_equal(out, ids + begin, sizes[i] * sizeof *out);
        ls_token_origin read = ls_token_file_origin(file);
        assert_int_equal(read.vocab, 50257);
        assert_true(ls_hash_equal(read.tokenizer, origin.tokenizer));
        text_bytes += read.text_bytes;
        begin += sizes[i];
        ls_token_file_close(file);
    }
    assert_int_equal(text_bytes, 2 * 250001);
}

static void large_vocabularies_take_four_bytes(void **state) {
    (void)state;
    const int32_t ids[] = {0, 65536, 128255};
    ls_token_origin wide = {.vocab = 128256};
    ls_token_writer *writer;
    char *data;
    size_t bytes;
    assert_int_equal(ls_token_writer_open(in_folder("wide"), &wide, 10, &writer), LS_OK);
    assert_int_equal(ls_token_writer_add(writer, ids, 3, 0), LS_OK);
    assert_int_equal(ls_token_writer_finish(writer), LS_OK);
    ls_token_writer_close(writer);
    assert_int_equal(ls_file_read(in_folder("wide_000001.bin"), 1 << 20, &data, &bytes), LS_OK);
    const int32_t head[] = {20240801, 7, 3};
    assert_int_equal(bytes, HEADER + 12);
    assert_memory_equal(data, head, sizeof head);
    assert_memory_equal(data + HEADER, ids, sizeof ids);
    free(data);
}

static void nothing_is_left_of_unfinished_work(void **state) {
    (void)state;
    const int32_t ids[] = {1, 2, 3, 50257};
    ls_token_writer *writer;
    int before = count_entries(folder);
    assert_int_equal(ls_token_writer_open(in_folder("half"), &origin, 2, &writer), LS_OK);
    assert_int_equal(ls_token_writer_add(writer, ids, 3, 3), LS_OK);
    assert_refused(ls_token_writer_add(writer, ids + 3, 1, 1), "token id 50257 is not below 50257");
    assert_int_equal(count_entries(folder), before + 2);
    ls_token_writer_close(writer);
    assert_int_equal(count_entries(folder), before);
    assert_int_equal(ls_token_writer_open(in_folder("none"), &origin, 2, &writer), LS_OK);
    assert_refused(ls_token_writer_finish(writer), "no tokens");
    ls_token_writer_close(writer);
    assert_refused(ls_token_writer_open(in_folder("none"), &origin, 0, &writer), "not possible");
    assert_int_equal(ls_token_writer_open(in_folder("absent/x"), &origin, 2, &writer), LS_OK);
    assert_refused(ls_token_writer_add(writer, ids, 1, 1), "cannot make");
    ls_token_writer_close(writer);
    assert_int_equal(count_entries(folder), before);
}

/* A limit on the size of files stands for a disk that is full. */
static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    static int32_t ids[100000];
    ls_token_writer *writer;
    struct rlimit old, small;
    int before = count_entries(folder);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 100000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(ls_token_writer_open(in_folder("full"), &origin, 1000000, &writer), LS_OK);
    ls_status status = ls_token_writer_add(writer, ids, 100000, 0);
    if (status == LS_OK) status = ls_token_writer_finish(writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "cannot write shard 1"));
    ls_token_writer_close(writer);
    assert_int_equal(count_entries(folder), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llmc_of_both_widths),
        cmocka_unit_test(nanogpt),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(megatron_of_all_types),
        cmocka_unit_test(negative_and_huge_ids_are_found),
        cmocka_unit_test(wrong_indexes_are_named),
        cmocka_unit_test(shards_hold_what_was_added),
        cmocka_unit_test(large_vocabularies_take_four_bytes),
        cmocka_unit_test(nothing_is_left_of_unfinished_work),
        cmocka_unit_test(a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
