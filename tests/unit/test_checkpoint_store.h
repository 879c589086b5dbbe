/* test_checkpoint_store.h: checkpoints of known content, made and checked again. */
#ifndef LS_TESTS_TEST_CHECKPOINT_STORE_H
#define LS_TESTS_TEST_CHECKPOINT_STORE_H

#include <inttypes.h>

#include "test_checkpoint_folder.h"
#include "checkpoint/store.h"

static const int64_t store_shape[] = {60, 70};
static const ls_safetensors_decl store_decls[] = {
    {.name = "wte", .dtype = LS_F32, .dims = 2, .shape = store_shape},
    {.name = "step", .dtype = LS_I64},
    {.name = "ln", .dtype = LS_BF16, .dims = 1, .shape = store_shape},
};
static const ls_safetensors_plan store_plan = {.tensors = store_decls, .count = 3};

static inline ls_status put_tensors(ls_store_save *save, const char *name, unsigned salt) {
    LS_TRY(save_tensors(ls_path_in(ls_store_save_folder(save), name).text, &store_plan, read_known, &salt, NULL));
    return ls_store_add_file(save, name);
}

/* Saves a checkpoint whose bytes follow from `salt`; returns the first failure. */
static inline ls_status save_step(ls_store *store, int64_t step, unsigned salt) {
    ls_store_save *save;
    char text[64];
    int used = snprintf(text, sizeof text, "{\"step\": %" PRId64 ", \"salt\": %u}", step, salt);
    LS_TRY(ls_store_begin(store, step, &save));
    ls_status status = put_tensors(save, LS_CHECKPOINT_WEIGHTS, salt);
    if (status == LS_OK) status = put_tensors(save, LS_CHECKPOINT_OPTIMIZER, salt + 1);
    if (status == LS_OK) status = ls_store_put_bytes(save, LS_CHECKPOINT_STATE, text, (size_t)used);
    if (status == LS_OK) return ls_store_commit(save);
    ls_store_abort(save);
    return status;
}

static inline void check_tensors(const ls_checkpoint *checkpoint, const char *name, unsigned salt) {
    ls_safetensors *file;
    assert_int_equal(ls_checkpoint_open_tensors(checkpoint, name, &file), LS_OK);
    assert_int_equal(ls_safetensors_count(file), 3);
    for (int i = 0; i < 3; i++) {
        const ls_safetensor *tensor = ls_safetensors_get(file, i);
        unsigned char *bytes = malloc(tensor->bytes);
        assert_int_equal(ls_safetensor_read(tensor, 0, bytes, tensor->bytes), LS_OK);
        for (size_t at = 0; at < tensor->bytes; at++) assert_int_equal(bytes[at], known_byte(i, at, salt));
        free(bytes);
    }
    ls_safetensors_close(file);
}

/* The checkpoint of a step is sound and holds what save_step() put there. */
static inline void check_content(const ls_store *store, int64_t step, unsigned salt) {
    ls_checkpoint *checkpoint;
    json_t *json;
    int64_t value = -1;
    if (ls_store_verify(store, step, NULL, NULL) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_checkpoint_open(ls_store_folder(store, step).text, &checkpoint), LS_OK);
    assert_int_equal(ls_checkpoint_step(checkpoint), step);
    check_tensors(checkpoint, LS_CHECKPOINT_WEIGHTS, salt);
    check_tensors(checkpoint, LS_CHECKPOINT_OPTIMIZER, salt + 1);
    assert_int_equal(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &json), LS_OK);
    assert_int_equal(ls_json_get_i64(json, "step", &value), LS_OK);
    assert_int_equal(value, step);
    assert_int_equal(ls_json_get_i64(json, "salt", &value), LS_OK);
    assert_int_equal(value, salt);
    json_decref(json);
    ls_checkpoint_close(checkpoint);
}

/* −1 when there is none. */
static inline int64_t read_latest(void) {
    char *text;
    size_t bytes;
    long long step = -1;
    int end = 0;
    if (ls_file_read(in_folder("checkpoints/latest"), 100, &text, &bytes) != LS_OK) return -1;
    assert_int_equal(sscanf(text, "step-%lld%n", &step, &end), 1);
    assert_string_equal(text + end, "\n");
    free(text);
    return step;
}

#endif
