/* ppm.c: decodes binary PGM (P5, grey) and PPM (P6, colour) pictures with at most 256 levels. The header has words
 * separated by white space, with comments from # to the end of the line: magic, width, height, highest level. After one
 * white-space character follow the pixels with interleaved channels. */
#include <inttypes.h>
#include <string.h>

#include "data/images/sources.h"

enum { LEVEL_MAX = 255, DIGITS_MAX = 9 };

/* A parsed file: size and channels, the highest level, and the pixels inside the file. */
typedef struct ppm {
    ls_picture picture;
    uint32_t highest;
    const uint8_t *pixels;
} ppm;

typedef struct reader {
    const uint8_t *data;
    size_t bytes, at;
} reader;

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Skips white space and comments. */
static void skip_space(reader *r) {
    for (bool in_comment = false; r->at < r->bytes; r->at++) {
        uint8_t c = r->data[r->at];
        if (c == '#') in_comment = true;
        if (!in_comment && !is_space(c)) return;
        if (c == '\n' || c == '\r') in_comment = false;
    }
}

/* Skips white space and reads a decimal number of at most nine digits. Returns false if there is none, or it is
 * longer. */
static bool read_number(reader *r, uint32_t *out) {
    size_t begin;
    skip_space(r);
    begin = r->at;
    *out = 0;
    while (r->at < r->bytes && r->at - begin < DIGITS_MAX && r->data[r->at] >= '0' && r->data[r->at] <= '9')
        *out = *out * 10 + (uint32_t)(r->data[r->at++] - '0');
    return r->at > begin && (r->at == r->bytes || r->data[r->at] < '0' || r->data[r->at] > '9');
}

/* Parses the header and checks that exactly the pixels follow. `out` points into `data`. */
static ls_status parse_ppm(const char *path, const uint8_t *data, size_t bytes, ppm *out) {
    reader r = {.data = data, .bytes = bytes, .at = 2};
    ls_picture *picture = &out->picture;
    if (bytes < 2 || data[0] != 'P' || (data[1] != '5' && data[1] != '6'))
        return ls_fail(LS_ERR_INPUT,
                       "%.*s is not a picture: it begins neither as PNG nor with P5 or P6 (binary PGM or PPM)",
                       LS_IMAGES_SHOWN, path);
    picture->channels = data[1] == '6' ? 3 : 1;
    if (!read_number(&r, &picture->width) || !read_number(&r, &picture->height) || !read_number(&r, &out->highest) ||
        r.at == bytes || !is_space(data[r.at]))
        return ls_fail(LS_ERR_INPUT,
                       "%.*s has a damaged header: width, height, highest level and one white space were expected "
                       "behind P%c, up to byte %zu",
                       LS_IMAGES_SHOWN, path, data[1], r.at);
    LS_TRY(ls_picture_check_size(path, picture->width, picture->height));
    if (!out->highest || out->highest > LEVEL_MAX)
        return ls_fail(LS_ERR_INPUT, "%.*s has %" PRIu32 " as its highest level; 1 to %d are read", LS_IMAGES_SHOWN,
                       path, out->highest, LEVEL_MAX);
    out->pixels = data + r.at + 1;
    size_t want = (size_t)picture->width * picture->height * picture->channels, found = bytes - r.at - 1;
    if (found != want)
        return ls_fail(LS_ERR_INPUT, "%.*s is %s: %" PRIu32 " × %" PRIu32 " pixels are %zu bytes, but %zu follow",
                       LS_IMAGES_SHOWN, path, found < want ? "truncated" : "too long", picture->width, picture->height,
                       want, found);
    return LS_OK;
}

ls_status ls_ppm_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out) {
    ppm file;
    LS_TRY(parse_ppm(path, data, bytes, &file));
    *out = file.picture;
    return LS_OK;
}

ls_status ls_ppm_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out) {
    ppm file;
    LS_TRY(parse_ppm(path, data, bytes, &file));
    size_t pixels = (size_t)want->width * want->height, channels = file.picture.channels;
    for (size_t i = 0; i < pixels * channels; i++) {
        uint32_t level = file.pixels[i];
        if (level > file.highest)
            return ls_fail(LS_ERR_INPUT,
                           "%.*s: pixel %zu has level %" PRIu32 ", above the highest of its header, %" PRIu32,
                           LS_IMAGES_SHOWN, path, i / channels, level, file.highest);
        out[i % channels * pixels + i / channels] = (uint8_t)((level * LEVEL_MAX + file.highest / 2) / file.highest);
    }
    for (size_t c = channels; c < want->channels; c++) memcpy(out + c * pixels, out, pixels);
    return LS_OK;
}
