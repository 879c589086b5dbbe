/* test_images.c: batches of images: values, layouts, augmentation beside a plain reference written from images.h, the
 * order of training, hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "data_files.h"
#include "base/rng.h"
#include "data/images/images.h"
#include "data/sampler.h"

enum { COUNT = 7, RECORD = 3073, SIDE = 32, PLANE = SIDE * SIDE };

static uint8_t records[COUNT * RECORD];

/* Byte k of image i, label first; the labels are 3, 4, …. */
static uint8_t made(size_t i, size_t k) { return (uint8_t)(k ? i * 37 + k * 11 + k / 7 : 3 + i); }

static ls_images *open_made(uint64_t count) {
    ls_images *images;
    for (size_t i = 0; i < COUNT * RECORD; i++) records[i] = made(i / RECORD, i % RECORD);
    ls_images_options options = {.source = put_file("made.bin", records, sizeof records), .count = count};
    assert_int_equal(ls_images_open(&images, &options), LS_OK);
    return images;
}

static float normal(uint8_t x, int c) {
    static const double mean[] = {0.4914, 0.4822, 0.4465}, deviation[] = {0.2470, 0.2435, 0.2616};
    return (float)((x / 255.0 - mean[c]) / deviation[c]);
}

static void values_in_both_layouts(void **state) {
    (void)state;
    ls_images *images = open_made(0);
    static float last[2 * 3 * PLANE], first[2 * 3 * PLANE];
    uint64_t index[2] = {5, 2};
    int32_t labels[2];
    assert_int_equal(ls_images_fill(images, index, 2, NULL, LS_IMAGES_NHWC, last, labels), LS_OK);
    assert_int_equal(ls_images_fill(images, index, 2, NULL, LS_IMAGES_NCHW, first, NULL), LS_OK);
    assert_int_equal(labels[0], 8);
    assert_int_equal(labels[1], 5);
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < PLANE; i++) {
                float expected = normal(made(index[n], 1 + (size_t)(c * PLANE + i)), c);
                assert_memory_equal(&last[(n * PLANE + i) * 3 + c], &expected, sizeof expected);
                assert_memory_equal(&first[(n * 3 + c) * PLANE + i], &expected, sizeof expected);
            }
    ls_images_close(images);
}

/* The pixel of the padded image at (y, x), both counted from its upper left corner. */
static float padded(uint64_t index, int c, int64_t y, int64_t x, const ls_augment *augment) {
    int64_t row = y - augment->pad, column = x - augment->pad;
    bool is_inside = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
    return normal(is_inside ? made(index, (size_t)(1 + c * PLANE + row * SIDE + column)) : 0, c);
}

static void check_augmented(const ls_images *images, const ls_augment *augment, uint64_t index, int64_t out_side) {
    static float out[3 * 50 * 50];
    uint32_t word[4], height, width;
    uint64_t spare = (uint64_t)(SIDE + 2 * (int64_t)augment->pad - out_side);
    ls_rng_u32x4(ls_rng_key_make(augment->seed, LS_RNG_PURPOSE_AUGMENT, augment->step), index, word);
    int64_t top = (int64_t)(word[1] * (spare + 1) / 4294967296), left = (int64_t)(word[2] * (spare + 1) / 4294967296);
    bool is_mirrored = augment->flip && word[0] >= 2147483648;
    if (augment->fixed) top = left = (int64_t)spare / 2, is_mirrored = false;
    assert_int_equal(ls_augment_size(images, augment, &height, &width), LS_OK);
    assert_int_equal(height, out_side);
    assert_int_equal(width, out_side);
    assert_int_equal(ls_images_fill(images, &index, 1, augment, LS_IMAGES_NHWC, out, NULL), LS_OK);
    for (int64_t y = 0; y < out_side; y++)
        for (int64_t x = 0; x < out_side; x++)
            for (int c = 0; c < 3; c++) {
                int64_t from = is_mirrored ? out_side - 1 - x : x;
                assert_true(out[(y * out_side + x) * 3 + c] == padded(index, c, top + y, left + from, augment));
            }
}

static void augmentation_is_that_of_the_description(void **state) {
    (void)state;
    ls_images *images = open_made(0);
    static const ls_augment kinds[] = {{.seed = 9, .flip = true},
                                       {.seed = 9, .pad = 4},
                                       {.seed = 10, .flip = true, .pad = 3, .crop = 30},
                                       {.seed = 11, .crop = 20},
                                       {.seed = 12, .pad = 8, .crop = 48, .flip = true},
                                       {.flip = true, .fixed = true, .crop = 25},
                                       {0}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint64_t step = 0; step < 12; step++) {
            ls_augment augment = kinds[k];
            augment.step = step;
            check_augmented(images, &augment, step % COUNT, augment.crop ? augment.crop : SIDE);
        }
    ls_images_close(images);
}

/* Over many steps every shift and both sides come up, about equally often. */
static void every_shift_comes_up(void **state) {
    (void)state;
    ls_images *images = open_made(0);
    static float out[3 * PLANE], plain[3 * PLANE];
    uint64_t index = 1;
    int seen[5] = {0}, mirrored = 0;
    assert_int_equal(ls_images_fill(images, &index, 1, NULL, LS_IMAGES_NCHW, plain, NULL), LS_OK);
    for (uint64_t step = 0; step < 500; step++) {
        ls_augment shift = {.seed = 1, .step = step, .pad = 2}, flip = {.seed = 1, .step = step, .flip = true};
        assert_int_equal(ls_images_fill(images, &index, 1, &shift, LS_IMAGES_NCHW, out, NULL), LS_OK);
        int top = 0;
        while (top < 2 && out[top * SIDE + 16] == normal(0, 0) && out[top * SIDE + 10] == normal(0, 0)) top++;
        if (!top) {
            int bottom = 0;
            while (bottom < 2 && out[(31 - bottom) * SIDE + 16] == normal(0, 0)) bottom++;
            top = -bottom;
        }
        seen[top + 2]++;
        assert_int_equal(ls_images_fill(images, &index, 1, &flip, LS_IMAGES_NCHW, out, NULL), LS_OK);
        mirrored += memcmp(out, plain, sizeof plain) != 0;
    }
    for (int i = 0; i < 5; i++) assert_in_range(seen[i], 60, 140);
    assert_in_range(mirrored, 200, 300);
    ls_images_close(images);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    ls_images *images = open_made(5);
    float out[1];
    uint64_t beyond = 5;
    uint8_t pixels[1];
    int32_t label;
    ls_augment augment = {.crop = 37, .pad = 2};
    uint32_t height, width;
    assert_int_equal(ls_images_get_about(images)->count, 5);
    assert_refused(ls_augment_size(images, &augment, &height, &width), "a crop of 37 pixels");
    assert_refused(ls_images_fill(images, &beyond, 1, &augment, LS_IMAGES_NHWC, out, NULL), "a crop of 37 pixels");
    augment = (ls_augment){.pad = 1u << 31};
    assert_refused(ls_augment_size(images, &augment, &height, &width), "2147483648 pixels of padding");
    assert_refused(ls_images_fill(images, &beyond, 1, NULL, LS_IMAGES_NHWC, out, NULL), "number 5 is not there");
    assert_refused(ls_images_pixels(images, beyond, pixels, &label), "number 5 is not there");
    ls_images_close(images);
}

static void an_epoch_has_every_image_once(void **state) {
    (void)state;
    ls_sampler sampler;
    int seen[3][100] = {{0}};
    uint64_t order[3] = {0};
    assert_int_equal(ls_sampler_init(&sampler, 4, 100 + 1, 1, true), LS_OK);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t image = ls_sampler_start(&sampler, i);
        assert_true(image < 100);
        seen[i / 100][image]++;
        order[i / 100] = order[i / 100] * 31 + image;
    }
    for (int i = 0; i < 300; i++) assert_int_equal(seen[i / 100][i % 100], 1);
    assert_true(order[0] != order[1] && order[1] != order[2]);
}

static ls_hash128 hash_of(const ls_images_options *options) {
    ls_images *images;
    ls_hash128 hash;
    assert_int_equal(ls_images_open(&images, options), LS_OK);
    assert_int_equal(ls_images_hash(images, &hash), LS_OK);
    ls_images_close(images);
    return hash;
}

static void hashes_are_of_the_content(void **state) {
    (void)state;
    ls_images_close(open_made(0));
    char list[600];
    ls_images_options one = {.source = in_folder("made.bin")}, two = {.source = list}, fewer = {.source = one.source};
    snprintf(list, sizeof list, "%s,%s", put_file("a.bin", records, 2 * RECORD),
             put_file("b.bin", records + 2 * RECORD, 5 * RECORD));
    ls_hash128 hash = hash_of(&one);
    assert_true(ls_hash_equal(hash, hash_of(&two)));
    fewer.count = 6;
    assert_false(ls_hash_equal(hash, hash_of(&fewer)));
    records[RECORD] ^= 1;
    put_file("made.bin", records, sizeof records);
    assert_false(ls_hash_equal(hash, hash_of(&one)));

    ls_images_options drawings = {.source = "drawings", .seed = 1}, other = drawings;
    assert_true(ls_hash_equal(hash_of(&drawings), hash_of(&other)));
    other.seed = 2;
    assert_false(ls_hash_equal(hash_of(&drawings), hash_of(&other)));
    other = drawings;
    other.count = 59999;
    assert_false(ls_hash_equal(hash_of(&drawings), hash_of(&other)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_in_both_layouts),        cmocka_unit_test(augmentation_is_that_of_the_description),
        cmocka_unit_test(every_shift_comes_up),          cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(an_epoch_has_every_image_once), cmocka_unit_test(hashes_are_of_the_content),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
