/* test_tensorboard.c: event files, read back by a decoder that shares nothing with the writer: framing, checksums and
 * messages; a board over a run that goes back. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "observe/metrics.h"
#include "observe/tensorboard/board.h"
#include "observe/tensorboard/event_file.h"

static char folder[64], file[96];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lockstep-board-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/metrics.jsonl", folder);
    return 0;
}
static int remove_folder(void **state) {
    (void)state;
    return ls_folder_remove(folder) == LS_OK ? 0 : -1;
}

/* ---- a decoder --------------------------------------------------------------------------------------------------- */

/* Bit by bit, as the polynomial is written: x^32 + x^28 + x^27 + …, reflected. */
static uint32_t crc_of(const unsigned char *p, size_t n) {
    uint32_t crc = 0xFFFFFFFFU;
    while (n-- > 0) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++) crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1)));
    }
    return crc ^ 0xFFFFFFFFU;
}

static uint32_t unmask(uint32_t masked) {
    uint32_t rotated = masked - 0xA282EAD8U;
    return rotated >> 17 | rotated << 15;
}

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | p[i];
    return value;
}

typedef struct field {
    unsigned number, wire;
    uint64_t value; /* of a number */
    const unsigned char *data;
    size_t bytes;
} field;

static uint64_t varint(const unsigned char **p, const unsigned char *end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        assert_true(*p < end);
        value |= (uint64_t)(**p & 0x7F) << shift;
        if (!(*(*p)++ & 0x80)) return value;
    }
    fail_msg("a number without end");
    return 0;
}

static bool next(const unsigned char **p, const unsigned char *end, field *f) {
    if (*p == end) return false;
    uint64_t key = varint(p, end);
    *f = (field){.number = (unsigned)(key >> 3), .wire = (unsigned)(key & 7)};
    if (f->wire == 0) {
        f->value = varint(p, end);
    } else {
        f->bytes = f->wire == 1 ? 8 : f->wire == 5 ? 4 : (size_t)varint(p, end);
        assert_true(f->wire == 1 || f->wire == 2 || f->wire == 5);
        assert_true((size_t)(end - *p) >= f->bytes);
        f->data = *p;
        *p += f->bytes;
    }
    return true;
}

/* The field of this number, which is there once at most; false: not at all. */
static bool get(const field *message, unsigned number, field *out) {
    const unsigned char *p = message->data, *end = p + message->bytes;
    int found = 0;
    for (field f; next(&p, end, &f);)
        if (f.number == number) *out = f, found++;
    assert_true(found <= 1);
    return found == 1;
}

typedef struct point {
    long long step;
    float value;
} point;

typedef struct curve {
    char tag[64];
    point points[4096];
    int count;
} curve;

static curve curves[24];
static int curve_count, starts, texts, versions;
static char last_text[256], last_text_tag[64];
static double last_time;

static curve *curve_of(const field *tag) {
    assert_true(tag->bytes < sizeof curves[0].tag);
    for (int i = 0; i < curve_count; i++)
        if (strlen(curves[i].tag) == tag->bytes && memcmp(curves[i].tag, tag->data, tag->bytes) == 0) return &curves[i];
    assert_true(curve_count < 24);
    curve *c = &curves[curve_count++];
    memset(c, 0, sizeof *c);
    memcpy(c->tag, tag->data, tag->bytes);
    return c;
}

static void take_value(const field *value, long long step) {
    field tag, number, tensor, metadata, part;
    assert_true(get(value, 1, &tag));
    if (get(value, 2, &number)) {
        uint32_t bits = (uint32_t)little(number.data, 4);
        curve *c = curve_of(&tag);
        assert_true(number.wire == 5 && c->count < 4096);
        c->points[c->count].step = step;
        memcpy(&c->points[c->count++].value, &bits, 4);
        return;
    }
    assert_true(get(value, 8, &tensor) && get(value, 9, &metadata));
    assert_true(get(&tensor, 1, &part) && part.value == 7); /* DT_STRING */
    assert_true(get(&tensor, 2, &part) && get(&part, 2, &part) && get(&part, 1, &part) && part.value == 1);
    assert_true(get(&metadata, 1, &part) && get(&part, 1, &part) && part.bytes == 4 &&
                memcmp(part.data, "text", 4) == 0);
    assert_true(get(&tensor, 8, &part) && part.bytes < sizeof last_text && tag.bytes < sizeof last_text_tag);
    memcpy(last_text, part.data, part.bytes);
    last_text[part.bytes] = '\0';
    memcpy(last_text_tag, tag.data, tag.bytes);
    last_text_tag[tag.bytes] = '\0';
    texts++;
}

/* As TensorBoard does: a session start voids what has its step or a later one. */
static void void_from(long long step) {
    for (int i = 0; i < curve_count; i++) {
        int kept = 0;
        for (int k = 0; k < curves[i].count; k++)
            if (curves[i].points[k].step < step) curves[i].points[kept++] = curves[i].points[k];
        curves[i].count = kept;
    }
}

static void take_event(const field *event) {
    field f;
    assert_true(get(event, 1, &f) && f.wire == 1);
    uint64_t bits = little(f.data, 8);
    memcpy(&last_time, &bits, 8);
    assert_true(last_time > 1e9);
    long long step = get(event, 2, &f) ? (long long)f.value : 0;
    if (get(event, 3, &f)) {
        assert_true(f.bytes == 13 && memcmp(f.data, "brain.Event:2", 13) == 0);
        versions++;
    }
    if (get(event, 7, &f)) {
        field status;
        assert_true(get(&f, 1, &status) && status.value == 1);
        starts++;
        void_from(step);
    }
    if (get(event, 5, &f)) {
        const unsigned char *p = f.data, *end = p + f.bytes;
        for (field value; next(&p, end, &value);) {
            assert_true(value.number == 1 && value.wire == 2);
            take_value(&value, step);
        }
    }
}

static void decode(const char *path) {
    char *data;
    size_t bytes;
    assert_int_equal(ls_file_read(path, 1 << 26, &data, &bytes), LS_OK);
    const unsigned char *p = (const unsigned char *)data, *end = p + bytes;
    while (p < end) {
        assert_true(end - p >= 16);
        uint64_t length = little(p, 8);
        assert_int_equal(unmask((uint32_t)little(p + 8, 4)), crc_of(p, 8));
        assert_true(length <= (uint64_t)(end - p) - 16);
        field event = {.data = p + 12, .bytes = length};
        assert_int_equal(unmask((uint32_t)little(p + 12 + length, 4)), crc_of(p + 12, length));
        take_event(&event);
        p += 16 + length;
    }
    free(data);
}

/* The one event file of a folder. */
static void decode_folder(const char *in) {
    DIR *dir = opendir(in);
    int found = 0;
    curve_count = starts = texts = versions = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) != 0) continue;
        ls_path path = ls_path_in(in, entry->d_name);
        decode(path.text);
        found++;
    }
    assert_int_equal(closedir(dir), 0);
    assert_int_equal(found, 1);
    assert_int_equal(versions, 1);
}

static const curve *find(const char *tag) {
    for (int i = 0; i < curve_count; i++)
        if (strcmp(curves[i].tag, tag) == 0) return &curves[i];
    fail_msg("no curve %s", tag);
    return NULL;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_crc(void **state) {
    (void)state;
    unsigned char zeros[32] = {0};
    assert_int_equal(ls_crc32c("123456789", 9), 0xE3069283U);
    assert_int_equal(ls_crc32c(zeros, 32), 0x8A9136AAU); /* RFC 3720, B.4 */
    assert_int_equal(ls_crc32c("", 0), 0);
    assert_int_equal(unmask(ls_crc32c_masked("123456789", 9)), 0xE3069283U);
}

static void test_file(void **state) {
    (void)state;
    ls_event_file *f;
    const ls_event_scalar scalars[] = {{"a", 1.5F}, {"b/c", -HUGE_VALF}, {"nan", NAN}};
    assert_int_equal(ls_event_file_create(folder, &f), LS_OK);
    for (int64_t step = 0; step < 3000; step++)
        assert_int_equal(ls_event_file_add_scalars(f, 1.7e9 + (double)step, step, scalars, 3), LS_OK);
    assert_int_equal(ls_event_file_add_text(f, 1.8e9, INT64_C(1) << 40, "text", "    <b>ä</b>"), LS_OK);
    assert_int_equal(ls_event_file_flush(f), LS_OK);
    ls_event_file_close(f);
    decode_folder(folder);
    assert_int_equal(curve_count, 3);
    assert_int_equal(find("a")->count, 3000);
    for (int i = 0; i < 3000; i++) assert_true(find("b/c")->points[i].step == i && isinf(find("b/c")->points[i].value));
    assert_true(isnan(find("nan")->points[7].value) && last_time == 1.8e9);
    assert_string_equal(last_text, "    <b>ä</b>");
    assert_string_equal(last_text_tag, "text");
}

static double loss_of(int64_t step, int pass) { return 5.0 / (double)step + 1e-3 * pass; }

static void write_steps(int64_t from, int64_t to, int pass) {
    ls_metrics *m;
    assert_int_equal(ls_metrics_cut(file, from - 1, NULL), LS_OK);
    assert_int_equal(ls_metrics_open(file, &m), LS_OK);
    for (int64_t s = from; s <= to; s++) {
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", s);
        ls_metrics_add_hex(m, "loss", loss_of(s, pass));
        ls_metrics_add_f64(m, "norm", s == 3 ? (double)NAN : 2.0);
        ls_metrics_add_i64(m, "unix_ms", 1700000000000 + s);
        assert_int_equal(ls_metrics_end(m), LS_OK);
        if (s % 10 != 0) continue;
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", s);
        ls_metrics_add_hex(m, "val_loss", loss_of(s, pass) + 1);
        assert_int_equal(ls_metrics_end(m), LS_OK);
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", s);
        ls_metrics_add_text(m, "sample", "one\ntwo");
        assert_int_equal(ls_metrics_end(m), LS_OK);
    }
    assert_int_equal(ls_metrics_close(m), LS_OK);
}

static void check_curves(const char *in, int last, int redone) {
    decode_folder(in);
    const curve *loss = find("train/loss"), *val = find("validation/loss"), *norm = find("train/norm");
    assert_int_equal(loss->count, last);
    assert_int_equal(norm->count, last);
    assert_true(isnan(norm->points[2].value));
    for (int i = 0; i < last; i++) {
        assert_int_equal(loss->points[i].step, i + 1);
        assert_true(loss->points[i].value == (float)loss_of(i + 1, i + 1 >= redone));
    }
    assert_int_equal(val->count, last / 10);
    for (int i = 0; i < last / 10; i++) assert_int_equal(val->points[i].step, 10 * (i + 1));
    assert_string_equal(last_text, "    one\n    two");
}

static void test_board(void **state) {
    (void)state;
    ls_board *b;
    char in[96];
    snprintf(in, sizeof in, "%s/tensorboard", folder);
    write_steps(1, 30, 0);
    assert_int_equal(ls_board_open(folder, in, &b), LS_OK);
    check_curves(in, 30, 99);
    write_steps(31, 50, 0);
    assert_int_equal(ls_board_update(b), LS_OK);
    assert_int_equal(ls_board_update(b), LS_OK);
    check_curves(in, 50, 99);
    assert_int_equal(starts, 1);
    write_steps(41, 80, 1); /* back to 40, and on */
    assert_int_equal(ls_board_update(b), LS_OK);
    check_curves(in, 80, 41);
    assert_int_equal(starts, 2);
    ls_board_close(b);
    write_steps(71, 90, 1);
    assert_int_equal(ls_board_open(folder, in, &b), LS_OK); /* the file before goes */
    check_curves(in, 90, 41);
    ls_board_close(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc),
        cmocka_unit_test_setup_teardown(test_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_board, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
