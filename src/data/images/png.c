/* png.c: decodes PNG pictures with libpng. Palettes and depths below 8 bits are expanded, 16-bit values lose the lower
 * 8 bits, transparency is dropped, and no gamma is applied: all in integers, so that every machine reads the same
 * pixels. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/images/sources.h"

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool ls_png_is(const uint8_t *data, size_t bytes) {
    return bytes >= sizeof signature && memcmp(data, signature, sizeof signature) == 0;
}

#ifdef LS_HAVE_PNG

#    include <png.h>
#    include <setjmp.h>

enum { CHUNK_BYTES_MAX = 1 << 24, WHY_BYTES = 128 };

/* State that must survive libpng's longjmp() on an error. */
typedef struct png_reader {
    const uint8_t *data;
    size_t bytes, at;
    png_structp png;
    png_infop info;
    uint8_t *rows; /* interleaved channels */
    png_bytep *row;
    char why[WHY_BYTES];
} png_reader;

/* Keeps libpng's message and leaves the decoder by a jump. */
static void on_error(png_structp png, png_const_charp message) {
    png_reader *r = png_get_error_ptr(png);
    size_t length = strnlen(message, WHY_BYTES - 1);
    memcpy(r->why, message, length);
    r->why[length] = '\0';
    png_longjmp(png, 1);
}

/* libpng calls it for harmless flaws; ignored. */
static void on_warning(png_structp png, png_const_charp message) { (void)png, (void)message; }

/* libpng calls it for the next bytes of the file. */
static void on_read(png_structp png, png_bytep out, size_t bytes) {
    png_reader *r = png_get_io_ptr(png);
    if (bytes > r->bytes - r->at) png_error(png, "the file ends too early");
    memcpy(out, r->data + r->at, bytes);
    r->at += bytes;
}

/* Creates libpng's structures; close_reader() releases them, also after a failure. */
static ls_status open_reader(png_reader *r, const char *path) {
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info) return ls_fail(LS_ERR_RESOURCE, "no memory to read %.*s", LS_IMAGES_SHOWN, path);
    return LS_OK;
}

/* Frees libpng's structures and the rows. */
static void close_reader(png_reader *r) {
    png_destroy_read_struct(&r->png, &r->info, NULL);
    free(r->rows);
    free(r->row);
}

/* Reads size and channels of the picture into *out. May be left by on_error()'s longjmp(). */
static void read_header(png_reader *r, ls_picture *out) {
    png_set_read_fn(r->png, r, on_read);
    png_set_user_limits(r->png, LS_IMAGES_SIDE_MAX, LS_IMAGES_SIDE_MAX);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES_MAX);
    png_read_info(r->png, r->info);
    out->width = png_get_image_width(r->png, r->info);
    out->height = png_get_image_height(r->png, r->info);
    out->channels = png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
}

/* Decodes the picture into r->rows, interleaved, with want->channels. May be left by on_error()'s longjmp(). */
static void read_rows(png_reader *r, const ls_picture *want) {
    size_t row_bytes = (size_t)want->width * want->channels;
    png_set_expand(r->png);
    png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
    if (want->channels == 3) png_set_gray_to_rgb(r->png);
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != row_bytes)
        png_error(r->png, "rows have another length than its header says");
    r->rows = calloc(want->height, row_bytes);
    r->row = calloc(want->height, sizeof *r->row);
    if (!r->rows || !r->row) png_error(r->png, "no memory for its pixels");
    for (size_t y = 0; y < want->height; y++) r->row[y] = r->rows + y * row_bytes;
    png_read_image(r->png, r->row);
    png_read_end(r->png, NULL);
}

/* Reads the header into `found` and, unless `want` is NULL, the rows. */
static ls_status read_png(png_reader *r, const char *path, ls_picture *found, const ls_picture *want) {
    LS_TRY(open_reader(r, path));
    if (setjmp(png_jmpbuf(r->png)))
        return ls_fail(LS_ERR_INPUT, "%.*s is a damaged PNG file: %s", LS_IMAGES_SHOWN, path, r->why);
    read_header(r, found);
    if (!want) return LS_OK;
    if (found->width != want->width || found->height != want->height || found->channels > want->channels)
        png_error(r->png, "it has changed while it was read");
    read_rows(r, want);
    return LS_OK;
}

ls_status ls_png_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out) {
    png_reader r = {.data = data, .bytes = bytes};
    ls_status status = read_png(&r, path, out, NULL);
    close_reader(&r);
    if (status == LS_OK) status = ls_picture_check_size(path, out->width, out->height);
    return status;
}

ls_status ls_png_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out) {
    png_reader r = {.data = data, .bytes = bytes};
    ls_picture found;
    size_t pixels = (size_t)want->width * want->height, channels = want->channels;
    ls_status status = read_png(&r, path, &found, want);
    for (size_t i = 0; status == LS_OK && i < pixels * channels; i++)
        out[i % channels * pixels + i / channels] = r.rows[i];
    close_reader(&r);
    return status;
}

#else

/* Fails, because this program was built without libpng. */
static ls_status fail_without_png(const char *path) {
    return ls_fail(LS_ERR_INPUT,
                   "%.*s is a PNG picture, and this lockstep was built without libpng: convert it to PPM, or "
                   "install libpng-dev and build again",
                   LS_IMAGES_SHOWN, path);
}

ls_status ls_png_look(const char *path, const uint8_t *data, size_t bytes, ls_picture *out) {
    (void)data, (void)bytes, (void)out;
    return fail_without_png(path);
}

ls_status ls_png_decode(const char *path, const uint8_t *data, size_t bytes, const ls_picture *want, uint8_t *out) {
    (void)data, (void)bytes, (void)want, (void)out;
    return fail_without_png(path);
}

#endif
