/* marker.c: writes and reads complete.json. Its format number grows with a change that older readers would misread. */
#include "checkpoint/marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"

enum { FORMAT = 1, MARKER_BYTES_MAX = 64 << 20 };

#define HASH_MEMBER "xxh3_128"
#define SUM_MEMBER "sum128"
#define TENSORS_MEMBER "tensors"
/* The last member: the hash of every byte before the comma in front of it. */
#define SELF_MEMBER "marker_xxh3_128"

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_marker_memory(void) {
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
    ls_marker_file file = *about, *files = realloc(marker->files, ((size_t)marker->count + 1) * sizeof *files);
    file.name = strdup(name);
    if (files) marker->files = files;
    if (files && file.name) {
        files[marker->count++] = file;
        return LS_OK;
    }
    ls_marker_file_fini(&file);
    return fail_marker_memory();
}

ls_status ls_marker_add_tensor(ls_marker_file *file, const char *name, ls_hash128 sum) {
    LS_TRY(ls_array_grow(&file->tensors, (size_t)file->tensor_count, sizeof *file->tensors, "tensors of a file"));
    file->tensors[file->tensor_count] = (ls_marker_tensor){.name = strdup(name), .sum = sum};
    return file->tensors[file->tensor_count++].name ? LS_OK : fail_marker_memory();
}

void ls_marker_file_fini(ls_marker_file *file) {
    for (int i = 0; i < file->tensor_count; i++) free(file->tensors[i].name);
    free(file->tensors);
    free(file->name);
    *file = (ls_marker_file){.bytes = 0};
}

void ls_marker_fini(ls_marker *marker) {
    for (int i = 0; i < marker->count; i++) ls_marker_file_fini(&marker->files[i]);
    free(marker->files);
    *marker = (ls_marker){.count = 0};
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Sets entry[member] to the checksum as 32 hexadecimal digits. Returns false if memory is short. */
static bool add_checksum(json_t *entry, const char *member, ls_hash128 value) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(value, text);
    return json_object_set_new(entry, member, json_string(text)) == 0;
}

/* Adds {"name": "sum", …} to the entry; names are unique in a file. Returns false if memory is short. */
static bool add_tensor_sums(json_t *entry, const ls_marker_file *file) {
    json_t *tensors = json_object();
    bool is_made = json_object_set_new(entry, TENSORS_MEMBER, tensors) == 0;
    for (int i = 0; i < file->tensor_count && is_made; i++)
        is_made = add_checksum(tensors, file->tensors[i].name, file->tensors[i].sum);
    return is_made;
}

/* Returns the JSON of the marker, without its own hash: a new reference; NULL if memory is short. */
static json_t *make_root(const ls_marker *marker) {
    json_t *files = json_array();
    bool is_made = files;
    for (int i = 0; i < marker->count && is_made; i++) {
        const ls_marker_file *file = &marker->files[i];
        json_t *entry = json_pack("{s:s, s:I}", "name", file->name, "bytes", (json_int_t)file->bytes);
        is_made = (!file->has_hash || add_checksum(entry, HASH_MEMBER, file->hash)) &&
                  (!file->has_sum || add_checksum(entry, SUM_MEMBER, file->sum)) &&
                  (!file->tensors || add_tensor_sums(entry, file));
        is_made = json_array_append_new(files, entry) == 0 && is_made;
    }
    if (is_made)
        return json_pack("{s:i, s:I, s:o}", "format", (int)FORMAT, "step", (json_int_t)marker->step, "files", files);
    json_decref(files);
    return NULL;
}

ls_status ls_marker_write(const ls_marker *marker, const char *path) {
    json_t *root = make_root(marker);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL, *signed_text = NULL, hash[LS_HASH_TEXT_BYTES];
    size_t bytes = text ? strlen(text) - 2 : 0; /* without "\n}" */
    int length = -1;
    if (text) ls_hash_text(ls_hash_bytes(text, bytes), hash);
    if (text) length = asprintf(&signed_text, "%.*s,\n  \"%s\": \"%s\"\n}", (int)bytes, text, SELF_MEMBER, hash);
    json_decref(root);
    free(text);
    if (length < 0) return fail_marker_memory();
    ls_status status = ls_file_write_atomic(path, signed_text, (size_t)length);
    free(signed_text);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Parses 32 lower-case hexadecimal digits; false for any other text, which leaves *out unchanged. */
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

/* Reads the checksum in entry[member]; LS_ERR_INPUT if it is missing or malformed. */
static ls_status read_checksum(const json_t *entry, const char *member, ls_hash128 *out) {
    const char *text;
    LS_TRY(ls_json_get_text(entry, member, &text));
    if (parse_hash(text, out)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "'%.40s' is not a checksum of 32 hexadecimal digits", text);
}

/* Appends the tensors of a marker's entry and their sums to *file; an entry without them, of an older version, leaves
 * it unchanged. */
static ls_status read_tensors(json_t *entry, ls_marker_file *file) {
    json_t *tensors, *value;
    const char *name;
    if (!json_object_get(entry, TENSORS_MEMBER)) return LS_OK;
    LS_TRY(ls_json_get_object(entry, TENSORS_MEMBER, &tensors));
    if (!file->has_sum) return ls_fail(LS_ERR_INPUT, "a file whose tensors are listed has no %s", SUM_MEMBER);
    json_object_foreach(tensors, name, value) {
        ls_hash128 sum;
        LS_TRY(read_checksum(tensors, name, &sum));
        LS_TRY(ls_marker_add_tensor(file, name, sum));
    }
    return LS_OK;
}

/* Reads one file's entry and adds it to the marker. A file has an XXH3 hash if it has no sum: those of older versions,
 * and those that hold no tensors. */
static ls_status read_file_entry(json_t *entry, ls_marker *marker) {
    const char *name;
    int64_t bytes = 0;
    ls_marker_file file = {.has_sum = json_object_get(entry, SUM_MEMBER) != NULL};
    ls_status status;
    file.has_hash = !file.has_sum || json_object_get(entry, HASH_MEMBER);
    LS_TRY_OUT(ls_json_get_text(entry, "name", &name));
    LS_TRY_OUT(ls_json_get_i64(entry, "bytes", &bytes));
    if (file.has_hash) LS_TRY_OUT(read_checksum(entry, HASH_MEMBER, &file.hash));
    if (file.has_sum) LS_TRY_OUT(read_checksum(entry, SUM_MEMBER, &file.sum));
    LS_TRY_OUT(read_tensors(entry, &file));
    LS_TRY_OUT(ls_marker_check_name(marker, name));
    if (bytes < 0) {
        status = ls_fail(LS_ERR_INPUT, "file '%.100s' is listed with %" PRId64 " bytes", name, bytes);
        goto out;
    }
    file.bytes = (uint64_t)bytes;
    return ls_marker_add(marker, name, &file);
out:
    ls_marker_file_fini(&file);
    return status;
}

/* Compares the marker's text with its own hash, its last member. Markers of older versions (three members, no tensors)
 * have none and pass. */
static ls_status check_self(const char *text, const json_t *root, const ls_marker *marker) {
    ls_hash128 hash;
    const char *end = NULL;
    bool is_new = json_object_size(root) != 3;
    for (int i = 0; i < marker->count; i++) is_new = is_new || marker->files[i].tensors;
    if (!is_new) return LS_OK;
    LS_TRY(read_checksum(root, SELF_MEMBER, &hash));
    for (const char *at = text; (at = strstr(at, ",\n  \"" SELF_MEMBER "\"")) != NULL; at++) end = at;
    if (end && ls_hash_equal(ls_hash_bytes(text, (size_t)(end - text)), hash)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "it is damaged: its content has another checksum than the one recorded in it");
}

/* Checks the format number, and reads step and files of the parsed marker. */
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
    json_t *root = NULL;
    char *text = NULL;
    size_t bytes;
    *marker = (ls_marker){.count = 0};
    LS_TRY(ls_json_load_file(path, MARKER_BYTES_MAX, &root));
    ls_status status = read_root(root, marker);
    if (status == LS_OK) status = ls_file_read(path, MARKER_BYTES_MAX, &text, &bytes);
    if (status == LS_OK) status = check_self(text, root, marker);
    free(text);
    json_decref(root);
    if (status == LS_OK) return LS_OK;
    ls_marker_fini(marker);
    return ls_fail_at(status, "%s: ", path);
}
