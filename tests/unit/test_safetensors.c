/* test_safetensors.c: what is written is read again, whatever the order of writing; files that the format's own library
 * would make; hashes; what is left behind by writes that fail. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "test_checkpoint_folder.h"
#include "checkpoint/safetensors.h"

#define SHAPE(...)                                                                                                     \
    (const int64_t[]) { __VA_ARGS__ }

static const ls_safetensors_decl odd[] = {
    {.name = "f32", .dtype = LS_F32, .dims = 2, .shape = SHAPE(3, 5)},
    {.name = "scalar", .dtype = LS_F32},
    {.name = "bytes", .dtype = LS_U8, .dims = 1, .shape = SHAPE(7)},
    {.name = "none", .dtype = LS_BF16, .dims = 3, .shape = SHAPE(4, 0, 9)},
    {.name = "bf16 – ü \"quoted\" \\ \n", .dtype = LS_BF16, .dims = 4, .shape = SHAPE(1, 3, 1, 11)},
    {.name = "f16", .dtype = LS_F16, .dims = 1, .shape = SHAPE(1)},
    {.name = "", .dtype = LS_I64, .dims = 1, .shape = SHAPE(13)},
    {.name = "large", .dtype = LS_F32, .dims = 1, .shape = SHAPE(1200000)},
    {.name = "last and empty", .dtype = LS_I64, .dims = 1, .shape = SHAPE(0)},
};
enum { ODD_COUNT = sizeof odd / sizeof odd[0] };

static const ls_safetensors_text texts[] = {{"format", "pt"}, {"note", "line\nbreak, \"ü\""}};

static const ls_safetensors_plan odd_plan = {
    .tensors = odd, .count = ODD_COUNT, .metadata = texts, .metadata_count = 2};

static size_t bytes_of(const ls_safetensors_decl *decl) {
    size_t bytes = ls_dtype_bytes(decl->dtype);
    for (int i = 0; i < decl->dims; i++) bytes *= (size_t)decl->shape[i];
    return bytes;
}

static void check_tensor(const ls_safetensor *tensor, int index, unsigned salt) {
    assert_string_equal(tensor->name, odd[index].name);
    assert_int_equal(tensor->dtype, odd[index].dtype);
    assert_int_equal(ls_safetensor_check_shape(tensor, odd[index].dims, odd[index].shape), LS_OK);
    assert_int_equal(tensor->bytes, bytes_of(&odd[index]));
    unsigned char *expected = malloc(tensor->bytes + 1), *read = malloc(tensor->bytes + 1);
    assert_int_equal(read_known(&salt, index, 0, expected, tensor->bytes), LS_OK);
    assert_int_equal(ls_safetensor_read(tensor, 0, read, tensor->bytes), LS_OK);
    assert_memory_equal(read, expected, tensor->bytes);
    size_t third = tensor->bytes / 3;
    assert_int_equal(ls_safetensor_read(tensor, third, read, third), LS_OK);
    assert_memory_equal(read, expected + third, third);
    assert_int_equal(ls_safetensor_read(tensor, third, read, tensor->bytes - third + 1), LS_ERR_INPUT);
    assert_int_equal(ls_safetensor_read(tensor, SIZE_MAX, read, 2), LS_ERR_INPUT);
    free(expected);
    free(read);
}

static void check_file(const char *path, unsigned salt) {
    ls_safetensors *file;
    assert_int_equal(ls_safetensors_open(path, &file), LS_OK);
    assert_string_equal(ls_safetensors_path(file), path);
    assert_int_equal(ls_safetensors_count(file), ODD_COUNT);
    for (int i = 0; i < ODD_COUNT; i++) {
        check_tensor(ls_safetensors_get(file, i), i, salt);
        assert_ptr_equal(ls_safetensors_find(file, odd[i].name), ls_safetensors_get(file, i));
    }
    assert_null(ls_safetensors_find(file, "f3"));
    assert_string_equal(ls_safetensors_metadata_find(file, "note"), texts[1].value);
    assert_string_equal(ls_safetensors_metadata_find(file, "format"), "pt");
    assert_null(ls_safetensors_metadata_find(file, "nothing"));
    ls_safetensors_close(file);
}

static void check_hash(const char *path, ls_hash128 hash) {
    char *data;
    size_t bytes;
    assert_int_equal(ls_file_read(path, 1 << 26, &data, &bytes), LS_OK);
    assert_true(ls_hash_equal(hash, ls_hash_bytes(data, bytes)));
    free(data);
}

/* ---- round trips ------------------------------------------------------------------------------------------------- */

static size_t planned_bytes(const ls_safetensors_plan *plan) {
    ls_safetensors_writer *writer;
    assert_int_equal(ls_safetensors_create(in_folder("planned"), plan, &writer), LS_OK);
    size_t bytes = ls_safetensors_writer_bytes(writer);
    ls_safetensors_abort(writer);
    return bytes;
}

static void what_is_saved_is_read(void **state) {
    (void)state;
    unsigned salt = 1;
    ls_hash128 hash;
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_known, &salt, &hash), LS_OK);
    check_file(in_folder("a"), 1);
    check_hash(in_folder("a"), hash);
    assert_int_equal(count_names(folder), 1);
    char *data;
    size_t bytes;
    assert_int_equal(ls_file_read(in_folder("a"), 1 << 26, &data, &bytes), LS_OK);
    assert_int_equal(bytes, planned_bytes(&odd_plan));
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | (unsigned char)data[i];
    assert_int_equal((8 + header) % 64, 0);
    assert_int_equal(data[8], '{');
    free(data);
    salt = 2;
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_known, &salt, NULL), LS_OK);
    check_file(in_folder("a"), 2);
    assert_int_equal(count_names(folder), 1);
}

/* Byte for byte what the format says, worked out by hand. */
static void bytes_on_disk_are_those_of_the_format(void **state) {
    (void)state;
    const ls_safetensors_decl decls[] = {{.name = "b", .dtype = LS_U8, .dims = 1, .shape = SHAPE(3)},
                                         {.name = "a", .dtype = LS_F16}};
    const ls_safetensors_plan plan = {.tensors = decls, .count = 2};
    const char header[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                          "\"a\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[3,5]}}";
    unsigned char expected[133];
    memset(expected, ' ', sizeof expected);
    memcpy(expected, "\x78\0\0\0\0\0\0\0", 8);
    memcpy(expected + 8, header, sizeof header - 1);
    memcpy(expected + 128, "xyz\x00\x3c", 5);
    ls_safetensors_writer *writer;
    assert_int_equal(ls_safetensors_create(in_folder("a"), &plan, &writer), LS_OK);
    assert_int_equal(ls_safetensors_write_at(writer, 0, 0, "xyz", 3), LS_OK);
    assert_int_equal(ls_safetensors_write_at(writer, 1, 0, "\x00\x3c", 2), LS_OK);
    assert_int_equal(ls_safetensors_finish(writer, NULL), LS_OK);
    char *data;
    size_t bytes;
    assert_int_equal(ls_file_read(in_folder("a"), 1 << 20, &data, &bytes), LS_OK);
    assert_int_equal(bytes, sizeof expected);
    assert_memory_equal(data, expected, sizeof expected);
    free(data);
}

static void a_file_without_tensors_is_fine(void **state) {
    (void)state;
    const ls_safetensors_plan plan = {.count = 0};
    ls_safetensors *file;
    assert_int_equal(save_tensors(in_folder("a"), &plan, read_known, NULL, NULL), LS_OK);
    assert_int_equal(ls_safetensors_open(in_folder("a"), &file), LS_OK);
    assert_int_equal(ls_safetensors_count(file), 0);
    assert_null(ls_safetensors_find(file, "a"));
    ls_safetensors_close(file);
    ls_safetensors_close(NULL);
}

static void write_piece(ls_safetensors_writer *writer, int tensor, size_t elem, size_t elems) {
    unsigned salt = 3;
    size_t size = ls_dtype_bytes(odd[tensor].dtype);
    char *piece = malloc(elems * size + 1);
    assert_int_equal(read_known(&salt, tensor, elem * size, piece, elems * size), LS_OK);
    assert_int_equal(ls_safetensors_write_at(writer, tensor, elem, piece, elems * size), LS_OK);
    free(piece);
}

static void order_of_writing_does_not_matter(void **state) {
    (void)state;
    ls_safetensors_writer *writer;
    ls_hash128 file_hash;
    assert_int_equal(ls_safetensors_create(in_folder("a"), &odd_plan, &writer), LS_OK);
    for (int i = ODD_COUNT - 1; i >= 0; i--) {
        size_t elems = bytes_of(&odd[i]) / ls_dtype_bytes(odd[i].dtype);
        write_piece(writer, i, elems / 2, elems - elems / 2);
        write_piece(writer, i, 0, elems / 2);
    }
    assert_int_equal(ls_safetensors_finish(writer, &file_hash), LS_OK);
    check_file(in_folder("a"), 3);
    check_hash(in_folder("a"), file_hash);
}

/* The second process writes the second half of every tensor, and may well be there first. */
static void two_processes_write_one_file(void **state) {
    (void)state;
    unsigned salt = 3;
    ls_safetensors_writer *writer;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (ls_safetensors_share(in_folder("a"), &odd_plan, false, &writer) != LS_OK) _exit(1);
        for (int i = 0; i < ODD_COUNT; i++) {
            size_t elems = bytes_of(&odd[i]) / ls_dtype_bytes(odd[i].dtype);
            write_piece(writer, i, elems / 2, elems - elems / 2);
        }
        _exit(ls_safetensors_finish(writer, NULL) == LS_OK ? 0 : 2);
    }
    assert_int_equal(ls_safetensors_share(in_folder("a"), &odd_plan, true, &writer), LS_OK);
    for (int i = 0; i < ODD_COUNT; i++) write_piece(writer, i, 0, bytes_of(&odd[i]) / ls_dtype_bytes(odd[i].dtype) / 2);
    assert_int_equal(ls_safetensors_finish(writer, NULL), LS_OK);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_file(in_folder("a"), salt);
    assert_int_equal(count_names(folder), 1);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void needed_tensors_are_checked(void **state) {
    (void)state;
    unsigned salt = 1;
    ls_safetensors *file;
    const ls_safetensor *tensor;
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_known, &salt, NULL), LS_OK);
    assert_int_equal(ls_safetensors_open(in_folder("a"), &file), LS_OK);
    assert_int_equal(ls_safetensors_need(file, "f32", 2, SHAPE(3, 5), &tensor), LS_OK);
    assert_string_equal(tensor->name, "f32");
    assert_int_equal(ls_safetensors_need(file, "scalar", 0, NULL, &tensor), LS_OK);
    assert_int_equal(ls_safetensors_need(file, "f32", 2, SHAPE(5, 3), &tensor), LS_ERR_INPUT);
    assert_null(tensor);
    assert_non_null(strstr(ls_status_message(), "/a: tensor 'f32' is [3, 5]; it must be [5, 3]"));
    assert_int_equal(ls_safetensors_need(file, "f32", 1, SHAPE(3), &tensor), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_need(file, "f64", 1, SHAPE(3), &tensor), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "/a has no tensor 'f64'"));
    ls_safetensors_close(file);
}

static void refuse_plan(const ls_safetensors_decl *decls, int count, const char *message) {
    const ls_safetensors_plan plan = {.tensors = decls, .count = count};
    ls_safetensors_writer *writer;
    assert_int_equal(ls_safetensors_create(in_folder("a"), &plan, &writer), LS_ERR_INPUT);
    assert_null(writer);
    if (!strstr(ls_status_message(), message)) fail_msg("%s; expected '%s'", ls_status_message(), message);
    assert_int_equal(count_names(folder), 0);
}

static void bad_plans_are_refused(void **state) {
    (void)state;
    const int64_t large = INT64_C(1) << 62;
    ls_safetensors_decl decls[2] = {{.name = "a", .dtype = LS_U8}, {.name = "a", .dtype = LS_U8}};
    refuse_plan(decls, 2, "'a' is declared twice");
    decls[1] = (ls_safetensors_decl){.name = "__metadata__", .dtype = LS_U8};
    refuse_plan(decls, 2, "__metadata__");
    decls[1] = (ls_safetensors_decl){.name = "\xff", .dtype = LS_U8};
    refuse_plan(decls, 2, "not UTF-8");
    decls[1] = (ls_safetensors_decl){.name = "b", .dtype = LS_DTYPE_COUNT};
    refuse_plan(decls, 2, "not an element type");
    decls[1] = (ls_safetensors_decl){.name = "b", .dtype = LS_U8, .dims = 1, .shape = SHAPE(-1)};
    refuse_plan(decls, 2, "dimension 0 is -1");
    decls[1] = (ls_safetensors_decl){.name = "b", .dtype = LS_F32, .dims = 1, .shape = &large};
    refuse_plan(decls, 2, "more than 2^63 bytes");
    decls[0] = decls[1] = (ls_safetensors_decl){.name = "b", .dtype = LS_U8, .dims = 1, .shape = &large};
    decls[0].name = "a";
    refuse_plan(decls, 2, "have more than 2^63 bytes");
}

static void bad_writes_are_refused(void **state) {
    (void)state;
    ls_safetensors_writer *writer;
    char data[64] = {0};
    assert_int_equal(ls_safetensors_create(in_folder("a"), &odd_plan, &writer), LS_OK);
    assert_int_equal(ls_safetensors_write_at(writer, -1, 0, data, 4), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_write_at(writer, ODD_COUNT, 0, data, 4), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_write_at(writer, 0, 0, data, 6), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_write_at(writer, 0, 14, data, 8), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_write_at(writer, 0, 16, data, 0), LS_ERR_INPUT);
    assert_int_equal(ls_safetensors_write_at(writer, 0, SIZE_MAX / 4 + 1, data, 4), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "'f32' has 60 bytes in elements of 4"));
    assert_int_equal(ls_safetensors_write_at(writer, 0, 0, data, 60), LS_OK);
    assert_int_equal(ls_safetensors_finish(writer, NULL), LS_ERR_FAILED);
    assert_non_null(strstr(ls_status_message(), "0 bytes of tensor 'scalar' were written; it has 4"));
    assert_int_equal(count_names(folder), 0);
}

static ls_status read_fails(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    (void)ctx, (void)byte_offset;
    if (tensor == 4) return ls_fail(LS_ERR_FAILED, "the device is gone");
    memset(host, 0, bytes);
    return LS_OK;
}

static void failures_leave_the_old_file(void **state) {
    (void)state;
    unsigned salt = 1;
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_known, &salt, NULL), LS_OK);
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_fails, NULL, NULL), LS_ERR_FAILED);
    assert_string_equal(ls_status_message(), "the device is gone");
    check_file(in_folder("a"), 1);
    assert_int_equal(count_names(folder), 1);
    assert_int_equal(save_tensors("/dev/null", &odd_plan, read_known, &salt, NULL), LS_ERR_INPUT);
    assert_int_equal(save_tensors(folder, &odd_plan, read_known, &salt, NULL), LS_ERR_INPUT);
    assert_int_equal(save_tensors(in_folder("no/a"), &odd_plan, read_known, &salt, NULL), LS_ERR_INPUT);
}

static void limit_file_size(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_file_too_large_is_seen_at_once(void **state) {
    (void)state;
    unsigned salt = 1;
    size_t bytes = planned_bytes(&odd_plan);
    ls_safetensors_writer *writer = NULL;
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_known, &salt, NULL), LS_OK);
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    limit_file_size(bytes - 1);
    ls_status status = ls_safetensors_create(in_folder("a"), &odd_plan, &writer);
    limit_file_size(RLIM_INFINITY);
    signal(SIGXFSZ, old);
    char expected[256];
    snprintf(expected, sizeof expected, "cannot reserve %zu bytes for %s", bytes, in_folder("a"));
    assert_int_equal(status, LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), expected));
    assert_int_equal(count_names(folder), 1);
    check_file(in_folder("a"), 1);
}

/* The limit comes after the space was reserved, as a full disk does where nothing can be reserved. */
static void a_write_that_fails_is_named(void **state) {
    (void)state;
    ls_safetensors_writer *writer;
    char data[60] = {0};
    assert_int_equal(ls_safetensors_create(in_folder("a"), &odd_plan, &writer), LS_OK);
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    limit_file_size(700);
    ls_status status = LS_OK;
    for (size_t i = 0; i < 4 && status == LS_OK; i++) status = ls_safetensors_write_at(writer, 7, i * 15, data, 60);
    limit_file_size(RLIM_INFINITY);
    signal(SIGXFSZ, old);
    assert_int_equal(status, LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "/a: "));
    assert_non_null(strstr(ls_status_message(), "of 60 bytes are missing from byte"));
    ls_safetensors_abort(writer);
    assert_int_equal(count_names(folder), 0);
}

/* The header is read as a whole, the data piece by piece: no signal, whichever is gone. */
static void a_file_that_shrinks_is_an_error(void **state) {
    (void)state;
    unsigned salt = 1;
    ls_safetensors *file;
    char data[60];
    assert_int_equal(save_tensors(in_folder("a"), &odd_plan, read_known, &salt, NULL), LS_OK);
    assert_int_equal(ls_safetensors_open(in_folder("a"), &file), LS_OK);
    assert_int_equal(truncate(in_folder("a"), 100), 0);
    assert_int_equal(ls_safetensor_read(ls_safetensors_get(file, 0), 0, data, 60), LS_ERR_FAILED);
    assert_non_null(strstr(ls_status_message(), "became shorter"));
    ls_safetensors_close(file);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(what_is_saved_is_read),          TEST(bytes_on_disk_are_those_of_the_format),
        TEST(a_file_without_tensors_is_fine), TEST(order_of_writing_does_not_matter),
        TEST(two_processes_write_one_file),   TEST(needed_tensors_are_checked),
        TEST(bad_plans_are_refused),          TEST(bad_writes_are_refused),
        TEST(failures_leave_the_old_file),    TEST(a_file_too_large_is_seen_at_once),
        TEST(a_write_that_fails_is_named),    TEST(a_file_that_shrinks_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
