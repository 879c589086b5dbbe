/* test_checkpoint.c: saving, listing, verifying, replacing and removing the checkpoints of a run. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test_checkpoint_store.h"

static ls_store *open_store(ls_store_mode mode) {
    ls_store *store;
    if (ls_store_open(folder, mode, &store) != LS_OK) fail_msg("%s", ls_status_message());
    return store;
}

static void save_or_fail(ls_store *store, int64_t step) {
    if (save_step(store, step, (unsigned)step) != LS_OK) fail_msg("%s", ls_status_message());
}

/* `expected` is "1 2! 3": steps ascending, those without a marker with a '!'. */
static void check_list(const ls_store *store, const char *expected) {
    ls_store_entry *entries;
    int count;
    char text[256] = "";
    assert_int_equal(ls_store_list(store, &entries, &count), LS_OK);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%lld%s", i ? " " : "", (long long)entries[i].step,
                 entries[i].is_complete ? "" : "!");
    }
    free(entries);
    assert_string_equal(text, expected);
}

/* ---- saving and reading ------------------------------------------------------------------------------------------ */

static void what_is_saved_is_found(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    check_list(store, "");
    assert_int_equal(read_latest(), -1);
    save_or_fail(store, 100);
    save_or_fail(store, 0);
    save_or_fail(store, 12345678901);
    check_list(store, "0 100 12345678901");
    assert_int_equal(read_latest(), 12345678901);
    check_content(store, 100, 100);
    check_content(store, 0, 0);
    check_content(store, 12345678901, (unsigned)12345678901);
    assert_int_equal(count_names(in_folder("checkpoints")), 4);
    assert_int_equal(count_names(in_folder("checkpoints/step-000000100")), 4);
    ls_store_close(store);
    store = open_store(LS_STORE_READ);
    check_list(store, "0 100 12345678901");
    ls_store_close(store);
    ls_store_close(NULL);
}

/* The sizes and checksums of the marker against those of the files, taken apart from the code under test. */
static void marker_tells_the_truth(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    save_or_fail(store, 7);
    json_t *root, *files;
    int64_t step = 0;
    assert_int_equal(ls_json_load_file(in_folder("checkpoints/step-000000007/complete.json"), 1 << 20, &root), LS_OK);
    assert_int_equal(ls_json_get_i64(root, "step", &step), LS_OK);
    assert_int_equal(step, 7);
    assert_int_equal(ls_json_get_array(root, "files", &files), LS_OK);
    assert_int_equal(json_array_size(files), 3);
    for (size_t i = 0; i < 3; i++) {
        const char *name, *hash;
        int64_t bytes = 0;
        char path[512], *data, text[LS_HASH_TEXT_BYTES];
        size_t read_bytes;
        const json_t *file = json_array_get(files, i);
        assert_int_equal(ls_json_get_text(file, "name", &name), LS_OK);
        assert_int_equal(ls_json_get_i64(file, "bytes", &bytes), LS_OK);
        assert_int_equal(ls_json_get_text(file, "xxh3_128", &hash), LS_OK);
        snprintf(path, sizeof path, "%s/checkpoints/step-000000007/%s", folder, name);
        assert_int_equal(ls_file_read(path, 1 << 24, &data, &read_bytes), LS_OK);
        assert_int_equal(read_bytes, bytes);
        ls_hash_text(ls_hash_bytes(data, read_bytes), text);
        assert_string_equal(hash, text);
        free(data);
    }
    json_decref(root);
    ls_store_close(store);
}

static uint64_t progress_done, progress_total;

static void note_progress(void *ctx, uint64_t done_bytes, uint64_t total_bytes) {
    (*(int *)ctx)++;
    assert_true(done_bytes > progress_done && done_bytes <= total_bytes);
    progress_done = done_bytes;
    progress_total = total_bytes;
}

static void a_folder_is_opened_by_its_path(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    save_or_fail(store, 5);
    assert_int_equal(rename(ls_store_folder(store, 5).text, in_folder("elsewhere")), 0);
    ls_store_close(store);
    ls_checkpoint *checkpoint;
    json_t *json;
    int calls = 0;
    assert_int_equal(ls_checkpoint_open(in_folder("elsewhere"), &checkpoint), LS_OK);
    assert_int_equal(ls_checkpoint_verify(checkpoint, note_progress, &calls), LS_OK);
    assert_true(calls >= 3);
    assert_int_equal(progress_done, progress_total);
    assert_int_equal(progress_total, ls_checkpoint_bytes(checkpoint));
    assert_int_equal(ls_checkpoint_step(checkpoint), 5);
    assert_string_equal(ls_checkpoint_path(checkpoint), in_folder("elsewhere"));
    assert_true(ls_checkpoint_has(checkpoint, LS_CHECKPOINT_STATE));
    assert_false(ls_checkpoint_has(checkpoint, LS_CHECKPOINT_MARKER));
    assert_int_equal(ls_checkpoint_load_json(checkpoint, "other.json", &json), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has no other.json"));
    ls_checkpoint_close(checkpoint);
    assert_int_equal(ls_checkpoint_open(in_folder("nowhere"), &checkpoint), LS_ERR_INPUT);
    assert_int_equal(ls_checkpoint_open(folder, &checkpoint), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has no complete.json"));
    assert_null(checkpoint);
}

static void a_save_is_seen_only_when_it_is_done(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    ls_store_save *save, *second;
    save_or_fail(store, 1);
    assert_int_equal(ls_store_begin(store, 2, &save), LS_OK);
    assert_int_equal(ls_store_begin(store, 3, &second), LS_ERR_INPUT);
    assert_null(second);
    assert_int_equal(ls_store_put_bytes(save, "state.json", "{}", 2), LS_OK);
    assert_int_equal(ls_store_put_bytes(save, "state.json", "{}", 2), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "twice"));
    assert_int_equal(ls_store_put_bytes(save, "complete.json", "{}", 2), LS_ERR_INPUT);
    assert_int_equal(ls_store_put_bytes(save, "../state.json", "{}", 2), LS_ERR_INPUT);
    check_list(store, "1");
    assert_int_equal(read_latest(), 1);
    ls_store_abort(save);
    assert_int_equal(count_names(in_folder("checkpoints")), 2);
    assert_int_equal(ls_store_begin(store, -1, &save), LS_ERR_INPUT);
    ls_store_abort(NULL);
    ls_store_close(store);
    store = open_store(LS_STORE_READ);
    assert_int_equal(ls_store_begin(store, 2, &save), LS_ERR_INPUT);
    ls_store_close(store);
}

static void a_file_of_others_is_added(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    ls_store_save *save;
    char path[512];
    assert_int_equal(ls_store_begin(store, 4, &save), LS_OK);
    snprintf(path, sizeof path, "%s/extra", ls_store_save_folder(save));
    assert_int_equal(ls_file_write_atomic(path, "hello", 5), LS_OK);
    assert_int_equal(ls_store_add_file(save, "extra"), LS_OK);
    assert_int_equal(ls_store_add_file(save, "missing"), LS_ERR_INPUT);
    assert_int_equal(ls_store_commit(save), LS_OK);
    assert_int_equal(ls_store_verify(store, 4, NULL, NULL), LS_OK);
    flip_byte(in_folder("checkpoints/step-000000004/extra"), 2);
    assert_int_equal(ls_store_verify(store, 4, NULL, NULL), LS_ERR_INPUT);
    ls_store_close(store);
}

/* ---- removing and replacing -------------------------------------------------------------------------------------- */

static void old_checkpoints_go(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    for (int step = 1; step <= 4; step++) save_or_fail(store, step);
    check_list(store, "1 2 3 4");
    assert_int_equal(unlink(in_folder("checkpoints/step-000000002/complete.json")), 0);
    ls_store_set_keep(store, 3);
    save_or_fail(store, 5);
    check_list(store, "2! 3 4 5");
    ls_store_set_keep(store, 1);
    save_or_fail(store, 6);
    check_list(store, "2! 6");
    save_or_fail(store, 6);
    check_list(store, "2! 6");
    check_content(store, 6, 6);
    /* One that is saved behind others is kept, and so are they. */
    save_or_fail(store, 4);
    check_list(store, "2! 4 6");
    ls_store_close(store);
}

static void check_best(const char *expected) {
    char *text = NULL;
    size_t bytes;
    if (!expected) {
        assert_false(ls_file_exists(in_folder("checkpoints/best")));
        return;
    }
    assert_int_equal(ls_file_read(in_folder("checkpoints/best"), 64, &text, &bytes), LS_OK);
    assert_string_equal(text, expected);
    free(text);
}

static void the_best_one_stays(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    ls_store_set_keep(store, 2);
    save_or_fail(store, 1);
    check_best(NULL);
    ls_store_set_best(store, 2);
    for (int step = 2; step <= 6; step++) save_or_fail(store, step);
    check_list(store, "2 5 6");
    check_best("step-000000002\n");
    ls_store_close(store);
    /* It is known again, and goes once another one is the best; what a crash in its writing left goes, too. */
    assert_int_equal(ls_file_write_atomic(in_folder("checkpoints/best.tmp-1-0"), "step", 4), LS_OK);
    store = open_store(LS_STORE_WRITE);
    assert_false(ls_file_exists(in_folder("checkpoints/best.tmp-1-0")));
    ls_store_set_keep(store, 2);
    save_or_fail(store, 7);
    check_list(store, "2 6 7");
    ls_store_set_best(store, 8);
    save_or_fail(store, 8);
    check_list(store, "7 8");
    check_best("step-000000008\n");
    /* One that is not there is not named. */
    ls_store_set_best(store, 3);
    save_or_fail(store, 9);
    check_best(NULL);
    check_list(store, "8 9");
    ls_store_close(store);
}

static void a_step_is_replaced(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    assert_int_equal(save_step(store, 3, 1), LS_OK);
    check_content(store, 3, 1);
    assert_int_equal(save_step(store, 3, 2), LS_OK);
    check_content(store, 3, 2);
    assert_int_equal(count_names(in_folder("checkpoints")), 2);
    ls_store_close(store);
}

static void what_a_crash_left_is_put_right(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    for (int step = 1; step <= 3; step++) save_or_fail(store, step);
    ls_store_close(store);
    /* Before a name was taken; between the two renames; after them; before `latest`. */
    assert_int_equal(mkdir(in_folder("checkpoints/step-000000009.partial"), 0777), 0);
    assert_int_equal(ls_file_write_atomic(in_folder("checkpoints/step-000000009.partial/state.json"), "{", 1), LS_OK);
    assert_int_equal(rename(in_folder("checkpoints/step-000000001"), in_folder("checkpoints/step-000000001.replaced")),
                     0);
    assert_int_equal(mkdir(in_folder("checkpoints/step-000000002.replaced"), 0777), 0);
    assert_int_equal(ls_file_write_atomic(in_folder("checkpoints/latest"), "step-000000002\n", 15), LS_OK);
    assert_int_equal(ls_file_write_atomic(in_folder("checkpoints/latest.tmp-1-0"), "step", 4), LS_OK);
    store = open_store(LS_STORE_READ);
    check_list(store, "2 3");
    ls_store_close(store);
    assert_int_equal(count_names(in_folder("checkpoints")), 7);
    store = open_store(LS_STORE_WRITE);
    check_list(store, "1 2 3");
    for (int step = 1; step <= 3; step++) check_content(store, step, (unsigned)step);
    assert_int_equal(read_latest(), 3);
    assert_int_equal(count_names(in_folder("checkpoints")), 4);
    ls_store_close(store);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void check_damage(const ls_store *store, int64_t step, const char *message) {
    assert_int_equal(ls_store_verify(store, step, NULL, NULL), LS_ERR_INPUT);
    if (!strstr(ls_status_message(), message)) fail_msg("%s; expected '%s'", ls_status_message(), message);
}

static void any_damaged_byte_is_found(void **state) {
    (void)state;
    static const char *const files[] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
    ls_store *store = open_store(LS_STORE_WRITE);
    save_or_fail(store, 1);
    for (int i = 0; i < 3; i++) {
        char name[128], message[128];
        snprintf(name, sizeof name, "checkpoints/step-000000001/%s", files[i]);
        snprintf(message, sizeof message, "%s is damaged: its checksum is", files[i]);
        for (int at = -1; at <= 1; at++) {
            flip_byte(in_folder(name), at);
            check_damage(store, 1, message);
            flip_byte(in_folder(name), at);
            assert_int_equal(ls_store_verify(store, 1, NULL, NULL), LS_OK);
        }
    }
    ls_store_close(store);
}

/* No byte of the marker can change without notice, but for those that mean nothing. */
static void a_damaged_marker_is_found(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    save_or_fail(store, 1);
    const char *path = in_folder("checkpoints/step-000000001/complete.json");
    char *data;
    size_t bytes;
    assert_int_equal(ls_file_read(path, 1 << 20, &data, &bytes), LS_OK);
    for (size_t at = 0; at < bytes; at++) {
        if (data[at] == ' ' || data[at] == '\n') continue;
        flip_byte(in_folder("checkpoints/step-000000001/complete.json"), (long)at);
        if (ls_store_verify(store, 1, NULL, NULL) != LS_ERR_INPUT) fail_msg("byte %zu, '%c'", at, data[at]);
        flip_byte(in_folder("checkpoints/step-000000001/complete.json"), (long)at);
    }
    assert_int_equal(ls_store_verify(store, 1, NULL, NULL), LS_OK);
    free(data);
    ls_store_close(store);
}

/* Single bits, anywhere in the files of a checkpoint whose tensors are listed: all are found, and those in tensors by
 * the name of the tensor. TIER=long tries ten thousand. */
static void any_flipped_bit_is_found(void **state) {
    (void)state;
    static const char *const files[] = {"weights.safetensors", "state.json", "complete.json"};
    enum { PARTS = 2 };
    const char *tier = getenv("TIER");
    int tries = tier && strcmp(tier, "long") == 0 ? 10000 : 400, named = 0;
    ls_store *store = open_store(LS_STORE_WRITE);
    ls_store_save *save;
    ls_safetensors_writer *writer;
    assert_int_equal(ls_store_begin(store, 1, &save), LS_OK);
    assert_int_equal(ls_store_begin_tensors(save, files[0], &store_plan, &writer), LS_OK);
    for (int i = 0; i < store_plan.count; i++) {
        unsigned char data[60 * 70 * 4];
        size_t bytes = i == 0 ? sizeof data : i == 1 ? 8 : 120;
        for (size_t at = 0; at < bytes; at++) data[at] = known_byte(i, at, 1);
        assert_int_equal(ls_safetensors_write_at(writer, i, 0, data, bytes), LS_OK);
    }
    assert_int_equal(ls_store_end_tensors(save, files[0], &store_plan, writer), LS_OK);
    assert_int_equal(ls_store_put_bytes(save, files[1], "{\"step\": 1}", 11), LS_OK);
    assert_int_equal(ls_store_commit(save), LS_OK);
    assert_int_equal(ls_store_verify(store, 1, NULL, NULL), LS_OK);
    srand(1);
    for (int t = 0; t < tries; t++) {
        char name[128], *data;
        size_t bytes;
        snprintf(name, sizeof name, "checkpoints/step-000000001/%s", files[t % 3]);
        assert_int_equal(ls_file_read(in_folder(name), 1 << 20, &data, &bytes), LS_OK);
        size_t bit = (((size_t)rand() << 15) ^ (size_t)rand()) % (8 * bytes);
        for (int twice = 0; twice < PARTS; twice++) {
            data[bit / 8] = (char)(data[bit / 8] ^ (1 << bit % 8));
            int fd = open(in_folder(name), O_WRONLY);
            assert_int_equal(pwrite(fd, &data[bit / 8], 1, (off_t)(bit / 8)), 1);
            close(fd);
            ls_status status = ls_store_verify(store, 1, NULL, NULL);
            if ((status == LS_OK) != (twice == 1)) fail_msg("bit %zu of %s: %d", bit, files[t % 3], (int)status);
            named += twice == 0 && strstr(ls_status_message(), "is damaged in tensor '") != NULL;
        }
        free(data);
    }
    assert_true(named > tries / 4);
    ls_store_close(store);
}

static void milestones_stay(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    ls_store_set_keep(store, 2);
    ls_store_set_keep_every(store, 10);
    for (int step = 3; step <= 60; step += step % 2 ? 4 : 3) save_or_fail(store, step);
    check_list(store, "11 23 31 43 51 55 59");
    ls_store_close(store);
}

static void missing_and_changed_files_are_named(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    for (int step = 1; step <= 4; step++) save_or_fail(store, step);
    assert_int_equal(unlink(in_folder("checkpoints/step-000000001/optimizer.safetensors")), 0);
    check_damage(store, 1, "optimizer.safetensors is missing");
    assert_int_equal(truncate(in_folder("checkpoints/step-000000002/weights.safetensors"), 1000), 0);
    check_damage(store, 2, "weights.safetensors is damaged: it has 1000 bytes; ");
    assert_int_equal(unlink(in_folder("checkpoints/step-000000003/complete.json")), 0);
    check_damage(store, 3, "has no complete.json");
    assert_int_equal(rename(in_folder("checkpoints/step-000000004"), in_folder("checkpoints/step-000000005")), 0);
    check_damage(store, 5, "is that of step 4");
    check_damage(store, 4, "cannot open checkpoint");
    ls_store_close(store);
}

static void markers_that_lie_are_refused(void **state) {
    (void)state;
#define FILES(text) "{\"format\":1,\"step\":1,\"files\":[" text "]}"
#define ZEROS "00000000000000000000000000000000"
    static const struct {
        const char *marker, *message;
    } lies[] = {
        {"", "complete.json:"},
        {"[]", "complete.json: field \"format\""},
        {"{\"format\":2,\"step\":1,\"files\":[]}", "has format 2; this lockstep reads format 1"},
        {"{\"format\":1,\"step\":-1,\"files\":[]}", "the step is -1"},
        {"{\"format\":1,\"step\":1,\"files\":{}}", "\"files\" is an object"},
        {FILES("1"), "complete.json: "},
        {FILES("{\"name\":\"/etc/passwd\",\"bytes\":1,\"xxh3_128\":\"" ZEROS "\"}"), "'/etc/passwd' cannot be"},
        {FILES("{\"name\":\"..\",\"bytes\":1,\"xxh3_128\":\"" ZEROS "\"}"), "'..' cannot be"},
        {FILES("{\"name\":\"complete.json\",\"bytes\":1,\"xxh3_128\":\"" ZEROS "\"}"), "cannot be the name"},
        {FILES("{\"name\":\"a\",\"bytes\":-1,\"xxh3_128\":\"" ZEROS "\"}"), "-1 bytes"},
        {FILES("{\"name\":\"a\",\"bytes\":1,\"xxh3_128\":\"0\"}"), "not a checksum"},
        {FILES("{\"name\":\"a\",\"bytes\":1,\"xxh3_128\":\"0000000000000000000000000000000G\"}"), "not a checksum"},
        {FILES("{\"name\":\"a\",\"bytes\":1,\"xxh3_128\":\"" ZEROS "\"}"), "a is missing"},
    };
    ls_store *store = open_store(LS_STORE_WRITE);
    assert_int_equal(mkdir(in_folder("checkpoints/step-000000001"), 0777), 0);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        assert_int_equal(ls_file_write_atomic(in_folder("checkpoints/step-000000001/complete.json"), lies[i].marker,
                                              strlen(lies[i].marker)),
                         LS_OK);
        check_damage(store, 1, lies[i].message);
    }
    ls_store_close(store);
}

/* In a child that is not root, since root may read everything. 2: it could not change its user. */
static int find_as_nobody(const char *message) {
    enum { NOBODY = 65534 };
    ls_store *store = NULL;
    int64_t step = 7;
    char *skipped = NULL;
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) return 2;
    ls_status status = ls_store_open(in_folder(""), LS_STORE_READ, &store);
    if (status == LS_OK) status = ls_store_newest_sound(store, NULL, NULL, &step, &skipped);
    bool told = strstr(ls_status_message(), message) && strstr(ls_status_message(), "Permission denied");
    return status == LS_ERR_INPUT && told && !(skipped && *skipped) ? 0 : 3;
}

static void check_unreadable(const char *name, mode_t mode, const char *message) {
    char path[PATH_MAX];
    int wait_status;
    snprintf(path, sizeof path, "%s", in_folder(name));
    assert_int_equal(chmod(path, 0), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(find_as_nobody(message));
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    assert_true(WIFEXITED(wait_status));
    if (WEXITSTATUS(wait_status) != 2) assert_int_equal(WEXITSTATUS(wait_status), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* A checkpoint that cannot be read is not damaged: going on from an older one would throw work away. */
static void what_cannot_be_read_is_not_passed_over(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    for (int i = 1; i <= 2; i++) save_or_fail(store, i);
    ls_store_close(store);
    assert_int_equal(chmod(in_folder(""), 0755), 0);
    check_unreadable("checkpoints/step-000000002/weights.safetensors", 0644, "weights.safetensors");
    check_unreadable("checkpoints/step-000000002/complete.json", 0644, "complete.json");
    check_unreadable("checkpoints/step-000000002", 0755, "step-000000002");
    check_unreadable("checkpoints", 0755, "checkpoints");
}

static void the_newest_sound_one_is_found(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_WRITE);
    int64_t step;
    char *skipped;
    assert_int_equal(ls_store_newest_sound(store, NULL, NULL, &step, &skipped), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "there is no checkpoint in"));
    assert_int_equal(step, -1);
    free(skipped);
    for (int i = 1; i <= 4; i++) save_or_fail(store, i);
    assert_int_equal(ls_store_newest_sound(store, NULL, NULL, &step, &skipped), LS_OK);
    assert_int_equal(step, 4);
    assert_string_equal(skipped, "");
    free(skipped);
    flip_byte(in_folder("checkpoints/step-000000004/weights.safetensors"), -3);
    assert_int_equal(unlink(in_folder("checkpoints/step-000000003/complete.json")), 0);
    assert_int_equal(ls_store_newest_sound(store, NULL, NULL, &step, &skipped), LS_OK);
    assert_int_equal(step, 2);
    const char *first = strstr(skipped, "step 4 was skipped: "), *second = strstr(skipped, "\nstep 3 was skipped: ");
    assert_non_null(first);
    assert_non_null(second);
    assert_non_null(strstr(skipped, "weights.safetensors is damaged"));
    assert_non_null(strstr(second, "has no complete.json"));
    free(skipped);
    /* A run that goes on from 2 is not disturbed by 3 and 4, and in the end they go. */
    assert_int_equal(ls_store_rewind(store, 2), LS_OK);
    check_list(store, "1 2");
    assert_int_equal(read_latest(), 2);
    ls_store_set_keep(store, 2);
    save_or_fail(store, 3);
    check_list(store, "2 3");
    assert_int_equal(count_names(in_folder("checkpoints")), 4);
    save_or_fail(store, 4);
    check_list(store, "3 4");
    assert_int_equal(count_names(in_folder("checkpoints")), 3);
    flip_byte(in_folder("checkpoints/step-000000003/state.json"), 0);
    flip_byte(in_folder("checkpoints/step-000000004/state.json"), 0);
    assert_int_equal(ls_store_newest_sound(store, NULL, NULL, &step, &skipped), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "none of the 2 checkpoints in"));
    assert_int_equal(step, -1);
    free(skipped);
    ls_store_close(store);
}

static void unfit_folders_are_named(void **state) {
    (void)state;
    ls_store *store = open_store(LS_STORE_READ);
    check_list(store, "");
    assert_int_equal(count_names(folder), 0);
    ls_store_close(store);
    assert_int_equal(ls_file_write_atomic(in_folder("checkpoints"), "", 0), LS_OK);
    assert_int_equal(ls_store_open(folder, LS_STORE_WRITE, &store), LS_ERR_INPUT);
    assert_null(store);
    assert_non_null(strstr(ls_status_message(), "a file of that name exists"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_in_memory, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(what_is_saved_is_found),
        TEST(marker_tells_the_truth),
        TEST(a_folder_is_opened_by_its_path),
        TEST(a_save_is_seen_only_when_it_is_done),
        TEST(a_file_of_others_is_added),
        TEST(old_checkpoints_go),
        TEST(the_best_one_stays),
        TEST(a_step_is_replaced),
        TEST(what_a_crash_left_is_put_right),
        TEST(any_damaged_byte_is_found),
        TEST(a_damaged_marker_is_found),
        TEST(any_flipped_bit_is_found),
        TEST(milestones_stay),
        TEST(missing_and_changed_files_are_named),
        TEST(markers_that_lie_are_refused),
        TEST(what_cannot_be_read_is_not_passed_over),
        TEST(the_newest_sound_one_is_found),
        TEST(unfit_folders_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
