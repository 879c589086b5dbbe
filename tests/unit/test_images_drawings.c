/* test_images_drawings.c: the built-in drawings: the same bytes everywhere, each on its own; strokes where they belong;
 * threads that ask for the same ones. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "data/images/images.h"
#include "data/images/drawings.h"
#include "data/images/raster.h"

enum { SOME = 200 };

static void hash_of_some(const ls_drawing_spec *spec, char text[LS_HASH_TEXT_BYTES]) {
    size_t bytes = (size_t)spec->size * spec->size * spec->channels;
    uint8_t *all = malloc(SOME * bytes);
    assert_non_null(all);
    for (size_t i = 0; i < SOME; i++) ls_drawing_make(spec, i, all + i * bytes);
    ls_hash_text(ls_hash_bytes(all, SOME * bytes), text);
    free(all);
}

static void bytes_are_golden(void **state) {
    (void)state;
    static const struct {
        ls_drawing_spec spec;
        const char *hash;
    } golden[] = {
        {{.seed = 1, .part = LS_IMAGES_TRAIN, .size = 28, .channels = 1}, "b46a220b68237b423990e5a9a802329b"},
        {{.seed = 1, .part = LS_IMAGES_TEST, .size = 28, .channels = 1}, "fb3073a9ecd18705a867fa70c7d06073"},
        {{.seed = 7, .part = LS_IMAGES_TRAIN, .size = 32, .channels = 3}, "22f55bfaf235bdab8de8399d013ce2dd"},
        {{.seed = 7, .part = LS_IMAGES_TRAIN, .size = 64, .channels = 1}, "b2c114ddb8c2ba1e6509f9f389043a4d"},
    };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        char text[LS_HASH_TEXT_BYTES];
        hash_of_some(&golden[i].spec, text);
        assert_string_equal(text, golden[i].hash);
    }
}

static void sines_are_rounded(void **state) {
    (void)state;
    for (int32_t angle = -LS_TURN; angle <= 2 * LS_TURN; angle += 7) {
        double exact = LS_SINE_ONE * sin(6.283185307179586 * angle / LS_TURN);
        assert_true(fabs(ls_outline_sine(angle) - exact) < 0.5001);
    }
}

/* How far a point is from a line between two points, in plain double. */
static double distance(double x, double y, ls_raster_point a, ls_raster_point b) {
    double dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
    double t = length2 > 0 ? ((x - a.x) * dx + (y - a.y) * dy) / length2 : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(x - a.x - t * dx, y - a.y - t * dy);
}

static void strokes_are_where_they_belong(void **state) {
    (void)state;
    static ls_raster raster;
    static const struct {
        ls_raster_point a, b;
        int32_t radius;
    } strokes[] = {{{300, 200}, {900, 1500}, 70},  {{1000, 1000}, {1000, 1000}, 130}, {{-400, 900}, {300, 950}, 60},
                   {{1700, 30}, {2500, -200}, 90}, {{100, 1780}, {1700, 1780}, 8},    {{896, 0}, {896, 1791}, 1}};
    uint8_t cover[28 * 28];
    for (size_t k = 0; k < sizeof strokes / sizeof *strokes; k++) {
        int expected[28 * 28] = {0};
        size_t begin, end;
        ls_raster_clear(&raster, 28);
        ls_raster_stroke(&raster, strokes[k].a, strokes[k].b, strokes[k].radius);
        ls_raster_cover(&raster, cover, &begin, &end);
        assert_true(begin <= end && end <= sizeof cover);
        for (int i = 0; i < 112 * 112; i++) {
            double x = i % 112 * 16 + 8, y = i / 112 * 16 + 8;
            double beyond = distance(x, y, strokes[k].a, strokes[k].b) - strokes[k].radius;
            /* On the edge itself the double may err; the integers say that it belongs to the stroke. */
            bool is_in = beyond < 1e-9;
            assert_int_equal(raster.points[i], is_in);
            expected[i / 112 / 4 * 28 + i % 112 / 4] += is_in;
        }
        for (size_t i = 0; i < sizeof cover; i++) assert_int_equal(i >= begin && i < end ? cover[i] : 0, expected[i]);
    }
}

static void seeds_parts_and_numbers_differ(void **state) {
    (void)state;
    uint8_t first[28 * 28], other[28 * 28];
    ls_drawing_spec spec = {.seed = 3, .size = 28, .channels = 1};
    ls_drawing_make(&spec, 20, first);
    ls_drawing_make(&spec, 20, other);
    assert_memory_equal(first, other, sizeof first);
    ls_drawing_make(&spec, 30, other);
    assert_memory_not_equal(first, other, sizeof first);
    spec.part = LS_IMAGES_TEST;
    ls_drawing_make(&spec, 20, other);
    assert_memory_not_equal(first, other, sizeof first);
    spec.part = LS_IMAGES_TRAIN;
    spec.seed = 4;
    ls_drawing_make(&spec, 20, other);
    assert_memory_not_equal(first, other, sizeof first);
}

/* The constants that pixels are normalised with are about those of the drawings. */
static void levels_are_as_the_constants_say(void **state) {
    (void)state;
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        ls_images_options options = {.source = "drawings", .count = 1000, .channels = channels};
        ls_images *images;
        uint8_t pixels[3 * 28 * 28];
        int32_t label;
        double sum = 0, square = 0, count = 1000.0 * channels * 28 * 28;
        assert_int_equal(ls_images_open(&images, &options), LS_OK);
        for (uint64_t i = 0; i < 1000; i++) {
            assert_int_equal(ls_images_pixels(images, i, pixels, &label), LS_OK);
            assert_int_equal(label, i % 10);
            for (size_t k = 0; k < channels * 784; k++) sum += pixels[k], square += (double)pixels[k] * pixels[k];
        }
        double mean = sum / count / 255, deviation = sqrt(square / count / 65025 - mean * mean);
        assert_true(fabs(mean - ls_images_get_about(images)->mean[0]) < 0.02);
        assert_true(fabs(deviation - ls_images_get_about(images)->std[0]) < 0.02);
        ls_images_close(images);
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, KEPT = 400 };

static void *read_all(void *context) {
    const ls_images *images = context;
    uint8_t pixels[28 * 28];
    uint64_t sum = 0;
    int32_t label;
    for (uint64_t i = 0; i < KEPT; i++) {
        if (ls_images_pixels(images, i, pixels, &label) != LS_OK) return NULL;
        sum += ls_hash_bytes(pixels, sizeof pixels).lo;
    }
    uint64_t *result = malloc(sizeof *result);
    if (result) *result = sum;
    return result;
}

static void threads_see_the_same(void **state) {
    (void)state;
    ls_images_options options = {.source = "drawings", .count = KEPT, .seed = 5};
    ls_drawing_spec spec = {.seed = 5, .size = 28, .channels = 1};
    ls_images *images;
    pthread_t threads[THREADS];
    uint8_t pixels[28 * 28];
    uint64_t expected = 0;
    assert_int_equal(ls_images_open(&images, &options), LS_OK);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_all, images), 0);
    for (uint64_t i = KEPT; i-- > 0;) {
        ls_drawing_make(&spec, i, pixels);
        expected += ls_hash_bytes(pixels, sizeof pixels).lo;
    }
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
        assert_true(*(uint64_t *)result == expected);
        free(result);
    }
    ls_images_close(images);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    static const struct {
        ls_images_options options;
        const char *says;
    } wrong[] = {{{.size = 15}, "16 to 64 pixels a side, not 15"},
                 {{.size = 65}, "not 65"},
                 {{.channels = 2}, "not 2"},
                 {{.count = 10000001}, "the most is 10000000"},
                 {{.classes = 11}, "has 10 classes, but 11"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_images_options options = wrong[i].options;
        ls_images *images;
        options.source = "drawings";
        assert_int_equal(ls_images_open(&images, &options), LS_ERR_INPUT);
        assert_null(images);
        if (!strstr(ls_status_message(), wrong[i].says)) fail_msg("'%s'", ls_status_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_golden),
        cmocka_unit_test(sines_are_rounded),
        cmocka_unit_test(strokes_are_where_they_belong),
        cmocka_unit_test(seeds_parts_and_numbers_differ),
        cmocka_unit_test(levels_are_as_the_constants_say),
        cmocka_unit_test(threads_see_the_same),
        cmocka_unit_test(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
