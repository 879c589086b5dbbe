/* fuzz_images.c: files of images. The first byte says which parser: IDX images, IDX labels, CIFAR-10, a picture (PNG,
 * PPM, PGM), or gzip around IDX images. What is accepted lies inside the bytes, and a picture fills exactly its pixels.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/images/sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Pictures larger than this are only looked at. */
enum { PIXELS_MAX = 1 << 16, EXPANDED_MAX = 1 << 20 };

static void parse_idx(const uint8_t *data, size_t bytes, unsigned dims) {
    ls_idx idx;
    if (ls_idx_parse("fuzz", data, bytes, dims, &idx) != LS_OK) return;
    size_t values = idx.size[0];
    if (dims == 3) values *= (size_t)idx.size[1] * idx.size[2];
    if (idx.values < data || (size_t)(data + bytes - idx.values) != values) abort();
}

static void parse_cifar(const uint8_t *data, size_t bytes) {
    uint64_t count;
    if (ls_cifar_parse("fuzz", data, bytes, &count) == LS_OK && count * LS_CIFAR_RECORD != bytes) abort();
}

static void parse_picture(const uint8_t *data, size_t bytes) {
    ls_picture picture;
    if (ls_picture_look("fuzz", data, bytes, &picture) != LS_OK) return;
    size_t pixels = (size_t)picture.width * picture.height;
    if (!pixels || (picture.channels != 1 && picture.channels != 3)) abort();
    if (pixels > PIXELS_MAX) return;
    /* Exactly as much memory as needed: the sanitizer sees a byte too many. */
    uint8_t *out = malloc(3 * pixels);
    if (!out) abort();
    (void)ls_picture_decode("fuzz", data, bytes, &picture, out + (3 - picture.channels) * pixels);
    picture.channels = 3;
    (void)ls_picture_decode("fuzz", data, bytes, &picture, out);
    free(out);
}

static void parse_gzip(const uint8_t *data, size_t bytes) {
    ls_map map;
    if (ls_gzip_expand("fuzz", data, bytes, EXPANDED_MAX, &map) != LS_OK) return;
    if (map.bytes > EXPANDED_MAX) abort();
    parse_idx(map.data, map.bytes, 3);
    ls_map_close(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (!bytes) return 0;
    switch (data[0] % 5) {
    case 0: parse_idx(data + 1, bytes - 1, 3); break;
    case 1: parse_idx(data + 1, bytes - 1, 1); break;
    case 2: parse_cifar(data + 1, bytes - 1); break;
    case 3: parse_picture(data + 1, bytes - 1); break;
    default: parse_gzip(data + 1, bytes - 1);
    }
    return 0;
}
