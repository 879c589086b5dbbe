/* marker.c: complete.json. The format number is raised when a reader of today would misread a file of tomorrow. */
#include "checkpoint/marker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"

enum { FORMAT = 1, MARKER_BYTES_MAX = 1 << 20 };

#define HASH_MEMBER "xxh3_128"
#define SUM_MEMBER "sum128"

static ls_status out_of_memory(void) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory to list the files of a checkpoint");
}

const ls_marker_file *ls_marker_find(const ls_marker *marker, const char *name) {
    for (int i = 0; i < marker->count; i++)
        if (strcmp(marker->files[i].name, name) == 0) return &marker->files[i];
    return NULL;
}

ls_status ls_marker_check_name(const ls_marker *marker, const char *name) {
    if (!ls_folder_is_plain_name(name) || strcmp(name, LS_CHECKPOINT_MARKER) == 0)
        return ls_fail(LS_ERR_INPUT, "'%.100s' cannot be the name of a file in a checkpoint", name);
    if (ls_marker_find(marker, name)) return ls_fail(LS_ERR_INPUT, "file '%.100s' is listed twice", name);
    return LS_OK;
}

ls_status ls_marker_add(ls_marker *marker, const char *name, const ls_marker_file *about) {
    ls_marker_file *files = realloc(marker->files, ((size_t)marker->count + 1) * sizeof *files);
    if (!files) return out_of_memory();
    marker->files = files;
    ls_marker_file *file = &files[marker->count];
    *file = *about;
    file->name = strdup(name);
    if (!file->name) return out_of_memory();
    marker->count++;
    return LS_OK;
}

void ls_marker_fini(ls_marker *marker) {
    for (int i = 0; i < marker->count; i++) free(marker->files[i].name);
    free(marker->files);
    *marker = (ls_marker){.count = 0};
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static bool put_checksum(json_t *entry, const char *member, ls_hash128 value) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(value, text);
    return json_object_set_new(entry, member, json_string(text)) == 0;
}

ls_status ls_marker_write(const ls_marker *marker, const char *path) {
    json_t *files = json_array();
    char *text = NULL;
    bool is_made = files;
    for (int i = 0; i < marker->count && is_made; i++) {
        const ls_marker_file *file = &marker->files[i];
        json_t *entry = json_pack("{s:s, s:I}", "name", file->name, "bytes", (json_int_t)file->bytes);
        is_made = (!file->has_hash || put_checksum(entry, HASH_MEMBER, file->hash)) &&
                  (!file->has_sum || put_checksum(entry, SUM_MEMBER, file->sum));
        is_made = json_array_append_new(files, entry) == 0 && is_made;
    }
    json_t *root =
        json_pack("{s:i, s:I, s:O}", "format", (int)FORMAT, "step", (json_int_t)marker->step, "files", files);
    if (is_made && root) text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    json_decref(files);
    ls_status status = text ? ls_file_write_atomic(path, text, strlen(text)) : out_of_memory();
    free(text);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool parse_hash(const char *text, ls_hash128 *out) {
    uint64_t half[2] = {0, 0};
    if (strlen(text) != LS_HASH_TEXT_BYTES - 1) return false;
    for (int i = 0; i < LS_HASH_TEXT_BYTES - 1; i++) {
        const char digits[] = "0123456789abcdef", *digit = strchr(digits, text[i]);
        if (!digit) return false;
        half[i / 16] = half[i / 16] << 4 | (uint64_t)(digit - digits);
    }
    *out = (ls_hash128){.hi = half[0], .lo = half[1]};
    return true;
}

static ls_status read_checksum(const json_t *entry, const char *member, ls_hash128 *out) {
    const char *text;
    LS_TRY(ls_json_get_text(entry, member, &text));
    if (parse_hash(text, out)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "'%.40s' is not a checksum of 32 hexadecimal digits", text);
}

/* A file without a sum has a hash: those of older versions, and those that one process wrote. */
static ls_status read_file_entry(const json_t *entry, ls_marker *marker) {
    const char *name;
    int64_t bytes = 0;
    ls_marker_file file = {.has_sum = json_object_get(entry, SUM_MEMBER) != NULL};
    file.has_hash = !file.has_sum || json_object_get(entry, HASH_MEMBER);
    LS_TRY(ls_json_get_text(entry, "name", &name));
    LS_TRY(ls_json_get_i64(entry, "bytes", &bytes));
    if (file.has_hash) LS_TRY(read_checksum(entry, HASH_MEMBER, &file.hash));
    if (file.has_sum) LS_TRY(read_checksum(entry, SUM_MEMBER, &file.sum));
    LS_TRY(ls_marker_check_name(marker, name));
    if (bytes < 0) return ls_fail(LS_ERR_INPUT, "file '%.100s' is listed with %" PRId64 " bytes", name, bytes);
    file.bytes = (uint64_t)bytes;
    return ls_marker_add(marker, name, &file);
}

static ls_status read_root(const json_t *root, ls_marker *marker) {
    int64_t format = 0;
    json_t *files = NULL;
    LS_TRY(ls_json_get_i64(root, "format", &format));
    if (format != FORMAT)
        return ls_fail(LS_ERR_INPUT, "the checkpoint has format %" PRId64 "; this lockstep reads format %d", format,
                       FORMAT);
    LS_TRY(ls_json_get_i64(root, "step", &marker->step));
    if (marker->step < 0) return ls_fail(LS_ERR_INPUT, "the step is %" PRId64 ", below zero", marker->step);
    LS_TRY(ls_json_get_array(root, "files", &files));
    for (size_t i = 0; i < json_array_size(files); i++) LS_TRY(read_file_entry(json_array_get(files, i), marker));
    return LS_OK;
}

ls_status ls_marker_read(const char *path, ls_marker *marker) {
    json_t *root;
    *marker = (ls_marker){.count = 0};
    LS_TRY(ls_json_load_file(path, MARKER_BYTES_MAX, &root));
    ls_status status = read_root(root, marker);
    json_decref(root);
    if (status == LS_OK) return LS_OK;
    ls_marker_fini(marker);
    return ls_fail_at(status, "%s: ", path);
}
