/* test_images_files.c: files of images, written here byte by byte: IDX, gzip, CIFAR-10. What is wrong with one is said,
 * with its name, what was expected and what was found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "data_files.h"
#include "data/images/images.h"
#include "data/images/sources.h"

enum { ROOM = 4096, RECORD = 3073 };

static void put_u32(uint8_t *out, uint32_t value) {
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* n images of 3 × 2 whose bytes are 0, 1, 2, …. */
static size_t make_pixels(uint8_t *out, uint32_t n, uint32_t stored) {
    static const uint8_t magic[] = {0, 0, 8, 3};
    memcpy(out, magic, 4);
    put_u32(out + 4, n);
    put_u32(out + 8, 3);
    put_u32(out + 12, 2);
    for (size_t i = 0; i < 6 * (size_t)stored; i++) out[16 + i] = (uint8_t)i;
    return 16 + 6 * (size_t)stored;
}

static size_t make_labels(uint8_t *out, uint32_t n, uint32_t stored) {
    static const uint8_t magic[] = {0, 0, 8, 1};
    memcpy(out, magic, 4);
    put_u32(out + 4, n);
    for (size_t i = 0; i < stored; i++) out[8 + i] = (uint8_t)(i * 3 % 10);
    return 8 + stored;
}

/* A gzip member with the bytes as they are: a stored block, and the checksum of RFC 1952. */
static size_t make_gzip(const uint8_t *data, size_t bytes, uint8_t *out) {
    static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1};
    uint32_t crc = 0xffffffff, length = (uint32_t)bytes;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    crc = ~crc;
    memcpy(out, head, sizeof head);
    size_t at = sizeof head;
    for (int i = 0; i < 2; i++) out[at + (size_t)i] = (uint8_t)(length >> 8 * i);
    for (int i = 0; i < 2; i++) out[at + 2 + (size_t)i] = (uint8_t)(~length >> 8 * i);
    memcpy(out + at + 4, data, bytes);
    at += 4 + bytes;
    for (int i = 0; i < 4; i++) out[at + (size_t)i] = (uint8_t)(crc >> 8 * i);
    for (int i = 0; i < 4; i++) out[at + 4 + (size_t)i] = (uint8_t)(length >> 8 * i);
    return at + 8;
}

static const char *pair(const char *pixels, const char *labels) {
    static char list[600];
    snprintf(list, sizeof list, "%s,%s", pixels, labels);
    return list;
}

static ls_status try_open(const char *source, ls_images_part part, ls_images **out) {
    ls_images_options options = {.source = source, .part = part};
    return ls_images_open(out, &options);
}

static void refuse(const char *source, const char *part) {
    ls_images *images;
    assert_refused(try_open(source, LS_IMAGES_TRAIN, &images), part);
    assert_null(images);
}

static void check_idx(const char *source, ls_images_part part, uint32_t count) {
    ls_images *images;
    uint8_t pixels[6];
    int32_t label;
    if (try_open(source, part, &images) != LS_OK) fail_msg("%s", ls_status_message());
    const ls_images_about *about = ls_images_get_about(images);
    assert_string_equal(about->format, "IDX");
    assert_int_equal(about->count, count);
    assert_int_equal(about->height, 3);
    assert_int_equal(about->width, 2);
    assert_int_equal(about->channels, 1);
    assert_int_equal(about->classes, 10);
    assert_string_equal(ls_images_class_name(images, 9), "9");
    assert_null(ls_images_class_name(images, 10));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(ls_images_pixels(images, i, pixels, &label), LS_OK);
        assert_int_equal(label, i * 3 % 10);
        for (uint32_t k = 0; k < 6; k++) assert_int_equal(pixels[k], (uint8_t)(6 * i + k));
    }
    ls_images_close(images);
}

static void idx_folders_and_pairs(void **state) {
    (void)state;
    uint8_t pixels[ROOM], labels[ROOM];
    mkdir(in_folder("mnist"), 0700);
    put_file("mnist/train-images-idx3-ubyte", pixels, make_pixels(pixels, 50, 50));
    put_file("mnist/train-labels.idx1-ubyte", labels, make_labels(labels, 50, 50));
    put_file("mnist/t10k-images-idx3-ubyte", pixels, make_pixels(pixels, 7, 7));
    check_idx(in_folder("mnist"), LS_IMAGES_TRAIN, 50);
    ls_images *images;
    assert_refused(try_open(in_folder("mnist"), LS_IMAGES_TEST, &images), "has no t10k-labels-idx1-ubyte");
    put_file("mnist/t10k-labels-idx1-ubyte", labels, make_labels(labels, 7, 7));
    check_idx(in_folder("mnist"), LS_IMAGES_TEST, 7);
    check_idx(pair(in_folder("mnist/t10k-images-idx3-ubyte"), in_folder("mnist/t10k-labels-idx1-ubyte")),
              LS_IMAGES_TRAIN, 7);
}

static void wrong_idx_is_refused(void **state) {
    (void)state;
    uint8_t good[ROOM], bad[ROOM], labels[ROOM];
    size_t bytes = make_pixels(good, 9, 9), label_bytes = make_labels(labels, 9, 9);
    char good_labels[256], good_pixels[256];
    snprintf(good_labels, sizeof good_labels, "%s", put_file("labels", labels, label_bytes));
    snprintf(good_pixels, sizeof good_pixels, "%s", put_file("pixels", good, bytes));
    static const struct {
        size_t at;
        uint8_t value;
        const char *says;
    } wrong[] = {{0, 1, "not 01 00 08 03"},
                 {2, 13, "00 00 08 03, not 00 00 0d 03"},
                 {3, 1, "not 00 00 08 01"},
                 {7, 0, "has no images"},
                 {7, 10, "is truncated: its header says 10 images, 60 bytes, but 54 follow"},
                 {7, 8, "is too long"},
                 {4, 255, "is truncated"},
                 {11, 0, "2 × 0 pixels"},
                 {8, 255, "× 4278190083 pixels; 1 to 4096"},
                 {14, 15, "is truncated"},
                 {12, 1, "16777218 × 3"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bad, good, bytes);
        bad[wrong[i].at] = wrong[i].value;
        refuse(pair(put_file("bad", bad, bytes), good_labels), wrong[i].says);
    }
    ls_idx idx;
    for (size_t cut = 0; cut < bytes; cut++) assert_refused(ls_idx_parse("cut", good, cut, 3, &idx), "cut is ");
    for (size_t cut = 0; cut < label_bytes; cut++) assert_refused(ls_idx_parse("cut", labels, cut, 1, &idx), "cut is ");
    refuse(pair(put_file("cut", good, 0), good_labels), "(0 bytes in all)");
    refuse(pair(good_pixels, put_file("cut", labels, 16)), "/cut is truncated");
    refuse(pair(good_pixels, put_file("few", labels, make_labels(labels, 8, 8))), "has 9 images, but");
    make_labels(labels, 9, 9);
    labels[8 + 4] = 10;
    refuse(pair(good_pixels, put_file("range", labels, 17)), "label 4 is 10, but there are 10 classes");
    refuse(pair(good_labels, good_pixels), "not an IDX file of images");
    refuse(pair(good_pixels, in_folder("missing")), "missing");
    refuse(good_pixels, "names 1 file:");
    refuse(in_folder("nothing"), "there is no file or folder");
    refuse("", "no images are named");
}

static void requests_are_compared(void **state) {
    (void)state;
    uint8_t pixels[ROOM], labels[ROOM];
    ls_images *images;
    const char *source =
        pair(put_file("p", pixels, make_pixels(pixels, 9, 9)), put_file("l", labels, make_labels(labels, 9, 9)));
    static const struct {
        ls_images_options options;
        const char *says;
    } wrong[] = {{{.count = 10}, "has 9 images, not 10"},
                 {{.size = 3}, "2 × 3 pixels, but size 3"},
                 {{.channels = 3}, "1 channel, but 3"},
                 {{.classes = 9}, "label 3 is 9, but there are 9 classes"},
                 {{.classes = 257}, "257 classes are too many"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_images_options options = wrong[i].options;
        options.source = source;
        assert_refused(ls_images_open(&images, &options), wrong[i].says);
    }
    ls_images_options options = {.source = source, .count = 4, .classes = 47};
    assert_int_equal(ls_images_open(&images, &options), LS_OK);
    assert_int_equal(ls_images_get_about(images)->count, 4);
    assert_int_equal(ls_images_get_about(images)->classes, 47);
    ls_images_close(images);
}

static void gzip_is_expanded(void **state) {
    (void)state;
    uint8_t plain[ROOM], packed[ROOM];
    size_t bytes = make_labels(plain, 50, 50);
    mkdir(in_folder("zipped"), 0700);
    size_t packed_bytes = make_gzip(plain, bytes, packed);
    put_file("zipped/train-labels-idx1-ubyte.gz", packed, packed_bytes);
    bytes = make_pixels(plain, 50, 50);
    /* Two members, as parallel programs write them. */
    packed_bytes = make_gzip(plain, 100, packed);
    packed_bytes += make_gzip(plain + 100, bytes - 100, packed + packed_bytes);
    char labels[256];
    snprintf(labels, sizeof labels, "%s", in_folder("zipped/train-labels-idx1-ubyte.gz"));
    put_file("zipped/train-images-idx3-ubyte.gz", packed, packed_bytes);
#ifdef LS_HAVE_ZLIB
    check_idx(in_folder("zipped"), LS_IMAGES_TRAIN, 50);
    packed_bytes = make_gzip(plain, bytes, packed);
    ls_map map;
    for (size_t cut = 2; cut < packed_bytes; cut++)
        assert_refused(ls_gzip_expand("cut.gz", packed, cut, ROOM, &map), "cut.gz is truncated");
    refuse(pair(put_file("cut.gz", packed, 99), labels), "cut.gz is truncated");
    packed[packed_bytes - 6] ^= 1;
    refuse(pair(put_file("sum.gz", packed, packed_bytes), labels), "sum.gz is damaged");
    packed[packed_bytes - 6] ^= 1;
    packed[10] = 7; /* no kind of block */
    refuse(pair(put_file("kind.gz", packed, packed_bytes), labels), "kind.gz is damaged");
    packed[10] = 1;
    memset(packed + packed_bytes, 'x', 20);
    refuse(pair(put_file("more.gz", packed, packed_bytes + 20), labels), "more.gz is damaged");
    assert_int_equal(ls_gzip_expand("g", packed, packed_bytes, bytes, &map), LS_OK);
    assert_int_equal(map.bytes, bytes);
    assert_memory_equal(map.data, plain, bytes);
    ls_map_close(&map);
    assert_refused(ls_gzip_expand("g", packed, packed_bytes, bytes - 1, &map), "more than 315 bytes");
#else
    refuse(pair(in_folder("zipped/train-images-idx3-ubyte.gz"), labels), "built without zlib");
#endif
}

static void cifar_folders_and_files(void **state) {
    (void)state;
    static uint8_t records[3 * RECORD], pixels[RECORD];
    ls_images *images;
    int32_t label;
    mkdir(in_folder("cifar"), 0700);
    for (size_t i = 0; i < sizeof records; i++) records[i] = (uint8_t)(i % RECORD ? i * 7 : i / RECORD * 4);
    put_file("cifar/data_batch_1.bin", records, 2 * RECORD);
    put_file("cifar/data_batch_3.bin", records, 1 * RECORD);
    put_file("cifar/test_batch.bin", records, 3 * RECORD);
    refuse(in_folder("cifar"), "data_batch_2.bin is missing");
    put_file("cifar/data_batch_2.bin", records + RECORD, 2 * RECORD);
    assert_int_equal(try_open(in_folder("cifar"), LS_IMAGES_TRAIN, &images), LS_OK);
    static const size_t order[] = {0, 1, 1, 2, 0};
    assert_int_equal(ls_images_get_about(images)->count, 5);
    assert_string_equal(ls_images_class_name(images, 8), "ship");
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(ls_images_pixels(images, i, pixels, &label), LS_OK);
        assert_int_equal(label, order[i] * 4);
        assert_memory_equal(pixels, records + order[i] * RECORD + 1, RECORD - 1);
    }
    ls_images_close(images);
    assert_int_equal(try_open(in_folder("cifar"), LS_IMAGES_TEST, &images), LS_OK);
    assert_int_equal(ls_images_get_about(images)->count, 3);
    ls_images_close(images);
    refuse(put_file("cut.bin", records, 2 * RECORD - 1),
           "cut.bin is truncated or not a CIFAR-10 file: it has 6145 bytes");
    refuse(put_file("empty.bin", records, 0), "empty.bin is empty");
    records[RECORD] = 10;
    refuse(put_file("range.bin", records, sizeof records), "image 1 has label 10");
    assert_int_equal(remove(in_folder("cifar/test_batch.bin")), 0);
    assert_refused(try_open(in_folder("cifar"), LS_IMAGES_TEST, &images), "test_batch.bin is missing");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_folders_and_pairs),   cmocka_unit_test(wrong_idx_is_refused),
        cmocka_unit_test(requests_are_compared),   cmocka_unit_test(gzip_is_expanded),
        cmocka_unit_test(cifar_folders_and_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
