/* not_text.c: see not_text.h. */
#include "data/text/not_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alive.h"
#include "base/files.h"

enum { SHOWN = 150, HEAD_BYTES = 4096 };

/* A file format by its first bytes: `mark` at offset `at`. `advice` follows "FILE is KIND: " in the message; %s in
 * it, at most one, stands for the file. */
typedef struct format {
    size_t at, length;
    const char *mark, *kind, *advice;
} format;

#define EXPORT "export the text column as JSONL (one {\"text\": …} a line) and name that file"

static const format formats[] = {
    {0, 4, "PAR1", "a Parquet file", EXPORT ": duckdb -c \"COPY (SELECT text FROM '%s') TO 'text.jsonl'\""},
    {0, 2, "\x1f\x8b", "gzip-compressed", "decompress it first: gunzip -k %s"},
    {0, 4, "\x28\xb5\x2f\xfd", "zstd-compressed", "decompress it first: zstd -d -k %s"},
    {4, 6, "1AY&SY", "bzip2-compressed", "decompress it first: bunzip2 -k %s"},
    {0, 6, "\3757zXZ\0", "xz-compressed", "decompress it first: unxz -k %s"},
    {0, 4, "\x04\x22\x4d\x18", "lz4-compressed", "decompress it first: lz4 -d %s"},
    {0, 6, "7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first: 7z x %s"},
    {0, 4, "PK\x03\x04", "a zip archive (or a document made like one)", "unpack it first: unzip %s"},
    {0, 4, "PK\x05\x06", "an empty zip archive", "name the text itself"},
    {257, 5, "ustar", "a tar archive", "unpack it first: tar xf %s"},
    {0, 5, "%PDF-", "a PDF document", "extract its text first: pdftotext %s text.txt"},
    {0, 8, "\x89PNG\r\n\x1a\n", "a PNG image", "a language model needs text; models of images take a folder of images"},
    {0, 3, "\xff\xd8\xff", "a JPEG image", "a language model needs text; models of images take a folder of PNG images"},
    {0, 4, "\177ELF", "a program (ELF)", "name the text itself"},
    {0, 16, "SQLite format 3\0", "a SQLite database",
     EXPORT ": sqlite3 %s \"SELECT json_object('text', …) FROM …\" > text.jsonl"},
    {0, 8, "ARROW1\0\0", "an Arrow file", EXPORT},
    {0, 4, "\xff\xff\xff\xff", "an Arrow stream", EXPORT},
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file", EXPORT},
    {0, 6, "\x93NUMPY", "a numpy array",
     "write its token ids without a header, numpy.load('%s').astype('uint16').tofile('tokens.bin'), and name "
     "tokens.bin"},
    {0, 4, "\xff\xfe\0\0", "UTF-32 text", "convert it first: iconv -f UTF-32 -t UTF-8 %s > text.txt"},
    {0, 4, "\0\0\xfe\xff", "UTF-32 text", "convert it first: iconv -f UTF-32 -t UTF-8 %s > text.txt"},
    {0, 2, "\xff\xfe", "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8 %s > text.txt"},
    {0, 2, "\xfe\xff", "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8 %s > text.txt"},
};

/* Replaces %s in the advice by the name without printf, because the format is not a literal here. */
static void put_name(const char *advice, const char *path, char out[LS_MESSAGE_MAX]) {
    const char *mark = strstr(advice, "%s");
    if (!mark)
        snprintf(out, LS_MESSAGE_MAX, "%s", advice);
    else
        snprintf(out, LS_MESSAGE_MAX, "%.*s%.*s%s", (int)(mark - advice), advice, SHOWN, path, mark + 2);
}

/* Returns the first byte that is not blank, after a UTF-8 byte-order mark. */
static uint8_t first_byte(const uint8_t *data, size_t bytes) {
    size_t at = bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < bytes && at < HEAD_BYTES && strchr(" \t\r\n", data[at]) && data[at]) at++;
    return at < bytes ? data[at] : 0;
}

ls_status ls_not_text_check(const char *path, const uint8_t *data, size_t bytes) {
    char advice[LS_MESSAGE_MAX];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const format *f = &formats[i];
        if (bytes < f->at + f->length || memcmp(data + f->at, f->mark, f->length) != 0) continue;
        put_name(f->advice, path, advice);
        return ls_fail(LS_ERR_INPUT, "%.*s is %s: %s", SHOWN, path, f->kind, advice);
    }
    if (ls_ends_with(path, ".json") && first_byte(data, bytes) == '[')
        return ls_fail(
            LS_ERR_INPUT,
            "%.*s is a JSON array: write one object a line and name that file: jq -c '.[]' %.*s > text.jsonl", SHOWN,
            path, SHOWN, path);
    return ls_not_text_check_nul(path, data, bytes < HEAD_BYTES ? bytes : HEAD_BYTES);
}

ls_status ls_not_text_check_nul(const char *path, const uint8_t *data, size_t bytes) {
    const uint8_t *nul = NULL;
    for (size_t done = 0; done < bytes && !nul; done += LS_ALIVE_BYTES, ls_alive_turn())
        nul = memchr(data + done, 0, bytes - done < LS_ALIVE_BYTES ? bytes - done : LS_ALIVE_BYTES);
    if (!nul) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "%.*s is not text: byte %" PRIu64 " is NUL. Name a text file; a file of 16-bit token ids must be "
                   "named .bin; UTF-16 is converted with: iconv -f UTF-16LE -t UTF-8",
                   SHOWN, path, (uint64_t)(nul - data));
}
