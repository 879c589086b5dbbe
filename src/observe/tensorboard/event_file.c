/* event_file.c: encodes records and the protobuf messages in them, by field number:
 *
 *     Event    1 wall_time double · 2 step int64 · 3 file_version string · 5 summary · 7 session_log
 *     Summary  1 value …     Value  1 tag · 2 simple_value float · 8 tensor · 9 metadata
 *     metadata 1 plugin_data { 1 plugin_name }     tensor 1 dtype · 2 shape { 2 dim { 1 size } } · 8 string_val
 *     session  1 status (1: start)
 *
 * A nested message is preceded by its length, so it is encoded first, in a buffer of its own. */
#include "observe/tensorboard/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"

enum { FLUSH_BYTES = 1 << 18, HOST_MAX = 65, NAMES_MAX = 1000 };
enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };
enum { DT_STRING = 7, SESSION_START = 1 };

/* Bytes that grow. `failed`: memory ran out, and nothing more is added. */
typedef struct bytes {
    unsigned char *data;
    size_t used, room;
    bool failed;
} bytes;

struct ls_event_file {
    int fd;
    ls_path path;
    bytes out;              /* records that are due */
    bytes event, part, sub; /* messages in the making */
};

uint32_t ls_crc32c(const void *data, size_t count) {
    static uint32_t table[256];
    static bool made;
    const unsigned char *p = data;
    if (!made) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82F63B78U : c >> 1;
            table[i] = c;
        }
        made = true;
    }
    uint32_t crc = ~0U;
    for (size_t i = 0; i < count; i++) crc = table[(crc ^ p[i]) & 0xFF] ^ crc >> 8;
    return ~crc;
}

uint32_t ls_crc32c_masked(const void *data, size_t count) {
    uint32_t crc = ls_crc32c(data, count);
    return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Appends bytes; without memory sets b->failed and appends nothing. */
static void append_event_bytes(bytes *b, const void *data, size_t count) {
    if (b->used + count > b->room) {
        size_t room = (b->used + count) * 2;
        unsigned char *larger = b->failed ? NULL : realloc(b->data, room);
        if (!larger) b->failed = true;
        if (!larger) return;
        b->data = larger;
        b->room = room;
    }
    if (count > 0) memcpy(b->data + b->used, data, count);
    b->used += count;
}

/* Appends the lowest `count` bytes of the value, little-endian. */
static void put_little(bytes *b, uint64_t value, int count) {
    unsigned char text[8];
    for (int i = 0; i < count; i++) text[i] = (unsigned char)(value >> 8 * i);
    append_event_bytes(b, text, (size_t)count);
}

/* Appends the value as a protobuf varint: seven bits a byte, lowest first. */
static void put_varint(bytes *b, uint64_t value) {
    unsigned char text[10];
    size_t count = 0;
    do {
        text[count++] = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    append_event_bytes(b, text, count);
}

/* Appends the key of a field: its number and wire type. */
static void put_key(bytes *b, unsigned field, unsigned wire) { put_varint(b, (uint64_t)field << 3 | wire); }

/* Appends a whole number as a field. */
static void put_int(bytes *b, unsigned field, int64_t value) {
    put_key(b, field, WIRE_VARINT);
    put_varint(b, (uint64_t)value);
}

/* Appends a field of bytes, preceded by their length. */
static void put_bytes(bytes *b, unsigned field, const void *data, size_t count) {
    put_key(b, field, WIRE_BYTES);
    put_varint(b, count);
    append_event_bytes(b, data, count);
}

/* Appends a text as a field. */
static void put_text(bytes *b, unsigned field, const char *text) { put_bytes(b, field, text, strlen(text)); }

/* Appends a nested message as a field, and empties its buffer. */
static void put_message(bytes *b, unsigned field, bytes *message) {
    put_bytes(b, field, message->data, message->used);
    b->failed = b->failed || message->failed;
    message->used = 0;
}

/* Appends a 32-bit number as a field. */
static void put_float(bytes *b, unsigned field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(b, field, WIRE_32);
    put_little(b, bits, 4);
}

/* Appends a 64-bit number as a field. */
static void put_double(bytes *b, unsigned field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(b, field, WIRE_64);
    put_little(b, bits, 8);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* Begins an event in f->event with its time and step; the nested messages are empty then. */
static void begin_event(ls_event_file *f, double unix_s, int64_t step) {
    f->event.used = f->part.used = f->sub.used = 0;
    put_double(&f->event, 1, unix_s);
    if (step != 0) put_int(&f->event, 2, step);
}

/* Frames the event as a record in f->out, with its checksums, and flushes the file if enough records have collected. */
static ls_status end_event(ls_event_file *f) {
    unsigned char length[8];
    if (f->event.failed || f->part.failed || f->sub.failed)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for an event of %s", f->path.text);
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)f->event.used >> 8 * i);
    append_event_bytes(&f->out, length, sizeof length);
    put_little(&f->out, ls_crc32c_masked(length, sizeof length), 4);
    append_event_bytes(&f->out, f->event.data, f->event.used);
    put_little(&f->out, ls_crc32c_masked(f->event.data, f->event.used), 4);
    if (f->out.failed) return ls_fail(LS_ERR_RESOURCE, "out of memory for events of %s", f->path.text);
    return f->out.used >= FLUSH_BYTES ? ls_event_file_flush(f) : LS_OK;
}

ls_status ls_event_file_add_scalars(ls_event_file *f, double unix_s, int64_t step, const ls_event_scalar *scalars,
                                    size_t count) {
    begin_event(f, unix_s, step);
    for (size_t i = 0; i < count; i++) {
        put_text(&f->sub, 1, scalars[i].tag);
        put_float(&f->sub, 2, scalars[i].value);
        put_message(&f->part, 1, &f->sub);
    }
    put_message(&f->event, 5, &f->part);
    return end_event(f);
}

ls_status ls_event_file_add_text(ls_event_file *f, double unix_s, int64_t step, const char *tag, const char *text) {
    static const unsigned char shape_1[] = {2 << 3 | WIRE_BYTES, 2, 1 << 3 | WIRE_VARINT, 1};
    static const char plugin[] = {1 << 3 | WIRE_BYTES, 4, 't', 'e', 'x', 't'};
    bytes tensor = {0};
    begin_event(f, unix_s, step);
    put_int(&tensor, 1, DT_STRING);
    put_bytes(&tensor, 2, shape_1, sizeof shape_1);
    put_text(&tensor, 8, text);
    put_text(&f->sub, 1, tag);
    put_message(&f->sub, 8, &tensor);
    free(tensor.data);
    bytes metadata = {0};
    put_bytes(&metadata, 1, plugin, sizeof plugin);
    put_message(&f->sub, 9, &metadata);
    free(metadata.data);
    put_message(&f->part, 1, &f->sub);
    put_message(&f->event, 5, &f->part);
    return end_event(f);
}

ls_status ls_event_file_add_start(ls_event_file *f, double unix_s, int64_t step) {
    begin_event(f, unix_s, step);
    put_int(&f->part, 1, SESSION_START);
    put_message(&f->event, 7, &f->part);
    return end_event(f);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Truncates after a partial write, so that the file ends with a whole record. */
ls_status ls_event_file_flush(ls_event_file *f) {
    size_t due = f->out.used;
    if (due == 0) return LS_OK;
    errno = 0;
    size_t done = ls_fd_write(f->fd, f->out.data, due, -1);
    f->out.used = 0;
    if (done == due) return LS_OK;
    ls_status status = ls_fail_errno(LS_ERR_FAILED, "cannot write events to %s", f->path.text);
    off_t end = done > 0 ? lseek(f->fd, 0, SEEK_END) : -1;
    if (end >= (off_t)done && ftruncate(f->fd, end - (off_t)done) != 0)
        return ls_fail_at(status, "an incomplete record remains: ");
    return status;
}

/* Creates a file that does not exist yet. The name begins with the time, because TensorBoard reads the files of a
 * folder in the order of their names. */
static ls_status open_new(ls_event_file *f, const char *folder) {
    char host[HOST_MAX] = "";
    if (gethostname(host, sizeof host - 1) != 0 || !host[0]) snprintf(host, sizeof host, "localhost");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '-';
    time_t now = time(NULL);
    for (int n = 0; f->fd < 0 && n < NAMES_MAX; n++) {
        f->path = ls_path_format("%s/events.out.tfevents.%010lld.%s.%ld.%d.lockstep", folder, (long long)now, host,
                                 (long)getpid(), n);
        f->fd = open(f->path.text, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    return f->fd >= 0 ? LS_OK : ls_fail_errno(LS_ERR_INPUT, "cannot make %s", f->path.text);
}

ls_status ls_event_file_create(const char *folder, ls_event_file **out) {
    ls_status status;
    *out = NULL;
    ls_event_file *f = calloc(1, sizeof *f);
    if (!f) return ls_fail(LS_ERR_RESOURCE, "out of memory for event files");
    f->fd = -1;
    LS_TRY_OUT(ls_dir_make(folder));
    LS_TRY_OUT(open_new(f, folder));
    begin_event(f, (double)time(NULL), 0);
    put_text(&f->event, 3, "brain.Event:2");
    LS_TRY_OUT(end_event(f));
    LS_TRY_OUT(ls_event_file_flush(f));
    *out = f;
    return LS_OK;
out:
    ls_event_file_close(f);
    return status;
}

void ls_event_file_close(ls_event_file *f) {
    if (!f) return;
    if (f->fd >= 0) (void)close(f->fd);
    free(f->out.data);
    free(f->event.data);
    free(f->part.data);
    free(f->sub.data);
    free(f);
}
