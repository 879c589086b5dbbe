/* test_images_folder.c: pictures in class folders: PNG, PPM and PGM; classes and parts by name; what is wrong is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "data_files.h"
#include "pictures.h"
#include "data/images/images.h"
#include "data/images/sources.h"

static void make_dir(const char *name) { assert_int_equal(mkdir(in_folder(name), 0700), 0); }

static ls_status try_open(const char *name, ls_images_part part, ls_images **out) {
    ls_images_options options = {.source = in_folder(name), .part = part};
    return ls_images_open(out, &options);
}

static void refuse(const char *name, const char *says) {
    ls_images *images;
    assert_refused(try_open(name, LS_IMAGES_TRAIN, &images), says);
    assert_null(images);
}

/* A grey picture of 1 × 1. */
static void put_dot(const char *name, uint8_t level) {
    char data[16];
    int bytes = snprintf(data, sizeof data, "P5 1 1 255\n%c", level);
    put_file(name, data, (size_t)bytes);
}

static void assert_image(const ls_images *images, uint64_t index, int32_t label, const void *pixels, size_t bytes) {
    uint8_t found[64];
    int32_t found_label;
    assert_int_equal(ls_images_pixels(images, index, found, &found_label), LS_OK);
    assert_int_equal(found_label, label);
    assert_memory_equal(found, pixels, bytes);
}

static void pictures_of_all_kinds(void **state) {
    (void)state;
    static const uint8_t ppm[] = "P6 # three by two\n3 2\n# levels:\n255\nabcdefghijklmnopqr",
                         pgm[] = "P5\t3\n2 5 \0\1\2\3\4\5";
    static const uint8_t ppm_pixels[] = "adgjmpbehknqcfilor", pgm_pixels[] = {0, 51, 102, 153, 204, 255};
    ls_images *images;
    make_dir("all");
    make_dir("all/Zebra");
    make_dir("all/ant");
    put_file("all/ant/a.ppm", ppm, sizeof ppm - 1);
    put_file("all/ant/b.PGM", pgm, sizeof pgm - 1);
    put_file("all/Zebra/grey.pgm", pgm, sizeof pgm - 1);
    put_text("all/README", "beside the classes");
    put_text("all/ant/.hidden", "");
    assert_int_equal(try_open("all", LS_IMAGES_TRAIN, &images), LS_OK);
    const ls_images_about *about = ls_images_get_about(images);
    assert_string_equal(about->format, "pictures");
    assert_int_equal(about->count, 3);
    assert_int_equal(about->channels, 3);
    assert_int_equal(about->height, 2);
    assert_int_equal(about->width, 3);
    assert_int_equal(about->classes, 2);
    assert_string_equal(ls_images_class_name(images, 0), "Zebra"); /* by bytes: capitals first */
    assert_string_equal(ls_images_class_name(images, 1), "ant");
    /* The first of each class, then the second; grey has three equal channels. */
    assert_image(images, 0, 0, pgm_pixels, 6);
    assert_image(images, 1, 1, ppm_pixels, 18);
    uint8_t grey[18];
    for (size_t i = 0; i < 18; i++) grey[i] = pgm_pixels[i % 6];
    assert_image(images, 2, 1, grey, 18);
    ls_images_close(images);
}

#ifdef LS_HAVE_PNG
static void png_is_read(void **state) {
    (void)state;
    ls_images *images;
    make_dir("png");
    make_dir("png/one");
    put_file("png/one/1.png", png_grey16, sizeof png_grey16);
    put_file("png/one/2.png", png_alpha, sizeof png_alpha);
    assert_int_equal(try_open("png", LS_IMAGES_TRAIN, &images), LS_OK);
    assert_int_equal(ls_images_get_about(images)->channels, 1);
    assert_image(images, 0, 0, png_grey16_pixels, 6);
    assert_image(images, 1, 0, png_alpha_pixels, 6);
    ls_images_close(images);
    put_file("png/one/3.png", png_rgb, sizeof png_rgb);
    put_file("png/one/4.png", png_palette, sizeof png_palette);
    assert_int_equal(try_open("png", LS_IMAGES_TRAIN, &images), LS_OK);
    assert_int_equal(ls_images_get_about(images)->channels, 3);
    assert_image(images, 2, 0, png_rgb_pixels, 18);
    assert_image(images, 3, 0, png_palette_pixels, 18);
    assert_image(images, 0, 0, png_grey16_pixels, 6);
    ls_images_close(images);
}

static ls_status decode(const uint8_t *data, size_t bytes) {
    ls_picture picture;
    uint8_t pixels[18];
    LS_TRY(ls_picture_look("x.png", data, bytes, &picture));
    if (picture.width != 3 || picture.height != 2) return ls_fail(LS_ERR_INPUT, "another size");
    return ls_picture_decode("x.png", data, bytes, &picture, pixels);
}

static void damaged_png_is_refused(void **state) {
    (void)state;
    uint8_t damaged[sizeof png_rgb];
    assert_int_equal(decode(png_rgb, sizeof png_rgb), LS_OK);
    for (size_t cut = 8; cut < sizeof png_rgb; cut++)
        assert_refused(decode(png_rgb, cut), "x.png is a damaged PNG file: ");
    for (size_t at = 0; at < sizeof png_rgb; at++) {
        memcpy(damaged, png_rgb, sizeof png_rgb);
        damaged[at] ^= 0x40;
        ls_status status = decode(damaged, sizeof damaged);
        assert_true(status == LS_OK || status == LS_ERR_INPUT);
        /* The header, and the data with their checksum; the rest may be skipped. */
        if (at < 33 || (at >= 37 && at < 68)) assert_int_equal(status, LS_ERR_INPUT);
    }
    make_dir("broken");
    make_dir("broken/one");
    put_file("broken/one/1.png", png_rgb, 50);
    refuse("broken", "1.png is a damaged PNG file: ");
}
#else
static void png_is_refused(void **state) {
    (void)state;
    make_dir("png");
    make_dir("png/one");
    put_file("png/one/1.png", png_rgb, sizeof png_rgb);
    refuse("png", "built without libpng");
}
#endif

static void wrong_pictures_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *data, *says;
        size_t bytes;
    } wrong[] = {{"", "is not a picture", 0},
                 {"P", "is not a picture", 1},
                 {"GIF89a", "neither as PNG nor with P5 or P6", 6},
                 {"P2 1 1 9 1", "is not a picture", 10},
                 {"P5 1 1", "has a damaged header", 6},
                 {"P5 1 1 255", "has a damaged header", 10},
                 {"P5 1 -1 255\nx", "has a damaged header", 13},
                 {"P5 1x1 255\nx", "has a damaged header", 12},
                 {"P5 1 # 1 255\nx", "has a damaged header", 14},
                 {"P5 1000000000 1 255\nx", "has a damaged header", 21},
                 {"P5 0 1 255\nx", "0 × 1 pixels", 12},
                 {"P5 1 4097 255\nx", "1 × 4097 pixels; 1 to 4096", 15},
                 {"P5 4096 4096 255\nx", "are 16777216 bytes, but 1 follow", 18},
                 {"P5 1 1 0\nx", "0 as its highest level", 10},
                 {"P5 1 1 256\nxx", "256 as its highest level", 13},
                 {"P5 2 1 255\nx", "is truncated: 2 × 1 pixels are 2 bytes, but 1 follow", 12},
                 {"P6 1 1 255\nxxxx", "is too long", 15},
                 {"P5 2 1 100\ndx", "pixel 1 has level 120, above the highest of its header, 100", 13}};
    make_dir("wrong");
    make_dir("wrong/class");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_file("wrong/class/x.pgm", wrong[i].data, wrong[i].bytes);
        refuse("wrong", wrong[i].says);
        refuse("wrong", "/wrong/class/x.pgm");
    }
}

static void wrong_folders_are_refused(void **state) {
    (void)state;
    make_dir("odd");
    refuse("odd", "holds no images: a folder of pictures for each class was expected");
    make_dir("odd/a");
    refuse("odd", "odd/a is empty: pictures of its class were expected");
    put_dot("odd/a/1.pgm", 1);
    make_dir("odd/b");
    put_text("odd/b/photo.jpg", "x");
    refuse("odd", "photo.jpg is not a picture: .png, .ppm and .pgm are read");
    assert_int_equal(rename(in_folder("odd/b/photo.jpg"), in_folder("odd/b/photo.pgm")), 0);
    put_text("odd/b/photo.pgm", "P5 2 1 255\nxx");
    refuse("odd", "images of mixed sizes: ");
    refuse("odd", "1.pgm is 1 × 1, but ");
    refuse("odd", "photo.pgm is 2 × 1: bring all to one size");
    assert_int_equal(remove(in_folder("odd/b/photo.pgm")), 0);
    make_dir("odd/b/deep");
    refuse("odd", "odd/b/deep is not a picture");
}

static void parts_by_folder(void **state) {
    (void)state;
    ls_images *images;
    make_dir("set");
    make_dir("set/train");
    make_dir("set/train/a");
    make_dir("set/train/b");
    put_dot("set/train/a/1.pgm", 'a');
    put_dot("set/train/b/1.pgm", 'b');
    assert_refused(try_open("set", LS_IMAGES_TEST, &images), "has a folder train, but neither test nor val");
    make_dir("set/val");
    make_dir("set/val/b");
    put_dot("set/val/b/7.pgm", 'v');
    assert_int_equal(try_open("set", LS_IMAGES_TEST, &images), LS_OK);
    assert_int_equal(ls_images_get_about(images)->count, 1);
    assert_int_equal(ls_images_get_about(images)->classes, 2);
    assert_image(images, 0, 1, "v", 1); /* the label that training gave to b */
    ls_images_close(images);
    make_dir("set/test");
    make_dir("set/test/c");
    put_dot("set/test/c/7.pgm", 'c');
    assert_refused(try_open("set", LS_IMAGES_TEST, &images), "class 'c' of folder");
    assert_int_equal(try_open("set", LS_IMAGES_TRAIN, &images), LS_OK);
    assert_image(images, 0, 0, "a", 1);
    assert_image(images, 1, 1, "b", 1);
    ls_images_close(images);
}

/* Without folders for the parts every tenth picture is for tests. */
static void parts_by_number(void **state) {
    (void)state;
    ls_images *images;
    char name[64];
    make_dir("cut");
    make_dir("cut/x");
    make_dir("cut/y");
    for (int i = 0; i < 25; i++) {
        snprintf(name, sizeof name, "cut/x/%02d.pgm", i);
        put_dot(name, (uint8_t)('A' + i));
        snprintf(name, sizeof name, "cut/y/%02d.pgm", i);
        if (i < 9) put_dot(name, (uint8_t)('a' + i));
    }
    assert_int_equal(try_open("cut", LS_IMAGES_TEST, &images), LS_OK);
    assert_int_equal(ls_images_get_about(images)->count, 2);
    assert_image(images, 0, 0, "J", 1);
    assert_image(images, 1, 0, "T", 1);
    ls_images_close(images);
    assert_int_equal(try_open("cut", LS_IMAGES_TRAIN, &images), LS_OK);
    assert_int_equal(ls_images_get_about(images)->count, 23 + 9);
    assert_image(images, 0, 0, "A", 1);
    assert_image(images, 1, 1, "a", 1);
    assert_image(images, 17, 1, "i", 1);
    assert_image(images, 18, 0, "K", 1);
    assert_image(images, 31, 0, "Y", 1);
    ls_images_close(images);
    ls_images_options few = {.source = in_folder("cut"), .count = 4};
    assert_int_equal(ls_images_open(&images, &few), LS_OK);
    assert_int_equal(ls_images_get_about(images)->count, 4);
    assert_image(images, 3, 1, "b", 1);
    ls_images_close(images);
    few.count = 33;
    assert_refused(ls_images_open(&images, &few), "has 32 images, not 33");
    few = (ls_images_options){.source = in_folder("cut/none")};
    make_dir("cut/none");
    make_dir("cut/none/k");
    put_dot("cut/none/k/1.pgm", 'k');
    few.part = LS_IMAGES_TEST;
    assert_refused(ls_images_open(&images, &few), "has no test images: every tenth");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_of_all_kinds),
#ifdef LS_HAVE_PNG
        cmocka_unit_test(png_is_read),
        cmocka_unit_test(damaged_png_is_refused),
#else
        cmocka_unit_test(png_is_refused),
#endif
        cmocka_unit_test(wrong_pictures_are_refused),
        cmocka_unit_test(wrong_folders_are_refused),
        cmocka_unit_test(parts_by_folder),
        cmocka_unit_test(parts_by_number),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
