/* checkpoint.c: opens one checkpoint folder, compares its files with their recorded checksums, and reads them. */
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/hash.h"
#include "checkpoint/byte_sum.h"
#include "checkpoint/marker.h"

/* Far more than the JSON files of a run need. */
enum { JSON_BYTES_MAX = 64 << 20 };

struct ls_checkpoint {
    ls_marker marker;
    char folder[];
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Reads complete.json of checkpoint->folder; LS_ERR_INPUT with its own message if there is no folder, no marker, or a
 * bad one. */
static ls_status read_marker(ls_checkpoint *checkpoint) {
    struct stat about;
    ls_path path = ls_path_in(checkpoint->folder, LS_CHECKPOINT_MARKER);
    if (stat(checkpoint->folder, &about) != 0)
        return ls_fail_errno(LS_ERR_INPUT, "cannot open checkpoint %s", checkpoint->folder);
    if (!S_ISDIR(about.st_mode))
        return ls_fail(LS_ERR_INPUT, "cannot open checkpoint %s: not a folder", checkpoint->folder);
    if (stat(path.text, &about) != 0 && errno == ENOENT)
        return ls_fail(LS_ERR_INPUT, "%s has no %s: not a checkpoint, or one whose save did not finish",
                       checkpoint->folder, LS_CHECKPOINT_MARKER);
    return ls_marker_read(path.text, &checkpoint->marker);
}

/* Fails with LS_ERR_INPUT if the listed file is missing, is not a regular file, or has another size than the marker
 * says. */
static ls_status check_size(const ls_checkpoint *checkpoint, const ls_marker_file *file) {
    struct stat about;
    ls_path path = ls_path_in(checkpoint->folder, file->name);
    if (stat(path.text, &about) != 0)
        return ls_fail_errno(LS_ERR_INPUT, errno == ENOENT ? "%s is missing" : "cannot examine %s", path.text);
    if (!S_ISREG(about.st_mode)) return ls_fail(LS_ERR_INPUT, "%s is not a regular file", path.text);
    if ((uint64_t)about.st_size != file->bytes)
        return ls_fail(LS_ERR_INPUT, "%s is damaged: it has %lld bytes; %" PRIu64 " were saved", path.text,
                       (long long)about.st_size, file->bytes);
    return LS_OK;
}

ls_status ls_checkpoint_open(const char *folder, ls_checkpoint **out) {
    *out = NULL;
    size_t length = strlen(folder);
    ls_checkpoint *checkpoint = calloc(1, sizeof *checkpoint + length + 1);
    if (!checkpoint) return ls_fail(LS_ERR_RESOURCE, "out of memory to open checkpoint %s", folder);
    memcpy(checkpoint->folder, folder, length);
    ls_status status = read_marker(checkpoint);
    for (int i = 0; i < checkpoint->marker.count && status == LS_OK; i++)
        status = check_size(checkpoint, &checkpoint->marker.files[i]);
    if (status == LS_OK)
        *out = checkpoint;
    else
        ls_checkpoint_close(checkpoint);
    return status;
}

void ls_checkpoint_close(ls_checkpoint *checkpoint) {
    if (!checkpoint) return;
    ls_marker_fini(&checkpoint->marker);
    free(checkpoint);
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

/* The state of ls_checkpoint_verify(), which reads each file once for all of its checksums. */
typedef struct verification {
    ls_checkpoint_progress progress;
    void *ctx;
    uint64_t done_bytes, total_bytes; /* of all files */
    const ls_marker_file *file;
    uint64_t done_in_file;  /* bytes of `file` that were read so far */
    ls_hash_stream *stream; /* XXH3 of `file`, if the marker has one */
    ls_byte_sum sum;        /* of the whole file */
    /* if the marker lists tensors: */
    uint64_t *ends;    /* offsets of the ends of the header and of each tensor */
    ls_byte_sum *sums; /* of the header and of each tensor */
    int at;            /* the one that is being read: 0 the header, i + 1 tensor i */
} verification;

/* Splits `bytes` bytes from file offset `offset` on at the ends of header and tensors, and adds each part to the sum of
 * its tensor; v->at moves on. */
static void add_to_tensors(verification *v, const char *data, uint64_t offset, size_t bytes) {
    while (bytes > 0 && v->at <= v->file->tensor_count) {
        uint64_t room = v->ends[v->at] - offset;
        size_t n = room < bytes ? (size_t)room : bytes;
        ls_byte_sum_add(&v->sums[v->at], offset, data, n);
        data += n;
        offset += n;
        bytes -= n;
        if (offset == v->ends[v->at]) v->at++;
    }
}

/* Adds the next piece of the file to its checksums and reports progress; the callback of ls_file_scan(), which passes
 * pieces in order. */
static void add_piece(void *ctx, const void *data, size_t bytes) {
    verification *v = ctx;
    if (v->file->has_hash) ls_hash_stream_add(v->stream, data, bytes);
    if (v->sums)
        add_to_tensors(v, data, v->done_in_file, bytes);
    else if (v->file->has_sum)
        ls_byte_sum_add(&v->sum, v->sum.bytes, data, bytes);
    v->done_in_file += bytes;
    v->done_bytes += bytes;
    if (v->progress) v->progress(v->ctx, v->done_bytes, v->total_bytes);
}

/* Fails with LS_ERR_INPUT if the checksums differ; `what` follows "is damaged" in the message. */
static ls_status compare_checksum(const char *path, const char *what, ls_hash128 is, ls_hash128 was) {
    char is_text[LS_HASH_TEXT_BYTES], was_text[LS_HASH_TEXT_BYTES];
    if (ls_hash_equal(is, was)) return LS_OK;
    ls_hash_text(is, is_text);
    ls_hash_text(was, was_text);
    return ls_fail(LS_ERR_INPUT, "%s is damaged%s: its checksum is %s, not the recorded %s", path, what, is_text,
                   was_text);
}

/* Compares each tensor's sum with the marker's, and leaves the sum of the whole file in v->sum. LS_ERR_INPUT names the
 * first tensor that differs and counts the others; the header is compared later, by the sum of the file. */
static ls_status compare_tensors(verification *v, const char *path) {
    int first = -1, count = 0;
    char what[256], more[48] = "";
    for (int i = 0; i < v->file->tensor_count; i++) {
        ls_byte_sum_join(&v->sum, &v->sums[i + 1]);
        if (ls_hash_equal(ls_byte_sum_value(&v->sums[i + 1]), v->file->tensors[i].sum)) continue;
        if (count++ == 0) first = i;
    }
    ls_byte_sum_join(&v->sum, &v->sums[0]);
    if (first < 0) return LS_OK;
    if (count > 1) snprintf(more, sizeof more, " and %d more", count - 1);
    snprintf(what, sizeof what, " in tensor '%.100s'%s", v->file->tensors[first].name, more);
    return compare_checksum(path, what, ls_byte_sum_value(&v->sums[first + 1]), v->file->tensors[first].sum);
}

/* Allocates v->ends and v->sums, which verify_file() frees, and fills the ends from the file's header. LS_ERR_INPUT if
 * the header has other tensors, or another order, than the marker lists. */
static ls_status find_tensors(verification *v, const char *path) {
    ls_safetensors *file;
    const ls_marker_file *listed = v->file;
    size_t count = (size_t)listed->tensor_count + 1;
    LS_TRY(ls_safetensors_open(path, &file));
    ls_status status = LS_OK;
    v->at = 0;
    v->ends = calloc(count, sizeof *v->ends);
    v->sums = calloc(count, sizeof *v->sums);
    if (!v->ends || !v->sums) status = ls_fail(LS_ERR_RESOURCE, "out of memory to verify %s", path);
    if (status == LS_OK && ls_safetensors_count(file) != listed->tensor_count)
        status = ls_fail(LS_ERR_INPUT, "%s is damaged: it has %d tensors; %d were saved", path,
                         ls_safetensors_count(file), listed->tensor_count);
    if (status == LS_OK) v->ends[0] = listed->bytes;
    for (int i = 0; i < listed->tensor_count && status == LS_OK; i++) {
        const ls_safetensor *tensor = ls_safetensors_get(file, i);
        if (i == 0) v->ends[0] = listed->bytes - ls_safetensors_data_bytes(file);
        v->ends[i + 1] = v->ends[i] + tensor->bytes;
        if (strcmp(tensor->name, listed->tensors[i].name) != 0 || tensor->begin != v->ends[i] - v->ends[0])
            status = ls_fail(LS_ERR_INPUT, "%s is damaged: its header has tensor '%.100s' where '%.100s' was saved",
                             path, tensor->name, listed->tensors[i].name);
    }
    ls_safetensors_close(file);
    return status;
}

/* Compares all checksums of the file, which was read completely, with the marker's. */
static ls_status compare_file(verification *v, const char *path) {
    const ls_marker_file *file = v->file;
    if (file->has_hash) LS_TRY(compare_checksum(path, "", ls_hash_stream_value(v->stream), file->hash));
    if (!file->has_sum) return LS_OK;
    if (v->done_in_file != file->bytes) /* it changed after its size was checked */
        return ls_fail(LS_ERR_INPUT, "%s is damaged: it has %" PRIu64 " bytes, not %" PRIu64, path, v->done_in_file,
                       file->bytes);
    if (v->sums) LS_TRY(compare_tensors(v, path));
    return compare_checksum(path, v->sums ? " in its header" : "", ls_byte_sum_value(&v->sum), file->sum);
}

/* Reads a file once and compares its checksums. */
static ls_status verify_file(verification *v, const char *path, const ls_marker_file *file) {
    ls_status status = LS_OK;
    v->file = file;
    v->sum = (ls_byte_sum){.bytes = 0};
    v->done_in_file = 0;
    ls_hash_stream_restart(v->stream);
    if (file->tensors) LS_TRY_OUT(find_tensors(v, path));
    LS_TRY_OUT(ls_file_scan(path, add_piece, v));
    status = compare_file(v, path);
out:
    free(v->ends);
    free(v->sums);
    v->ends = NULL;
    v->sums = NULL;
    return status;
}

ls_status ls_checkpoint_verify(const ls_checkpoint *checkpoint, ls_checkpoint_progress progress, void *ctx) {
    verification v = {.progress = progress, .ctx = ctx, .total_bytes = ls_checkpoint_bytes(checkpoint)};
    v.stream = ls_hash_stream_create();
    ls_status status = v.stream ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory to verify %s", checkpoint->folder);
    for (int i = 0; i < checkpoint->marker.count && status == LS_OK; i++) {
        const ls_marker_file *file = &checkpoint->marker.files[i];
        status = verify_file(&v, ls_path_in(checkpoint->folder, file->name).text, file);
    }
    ls_hash_stream_destroy(v.stream);
    return status;
}

/* ---- content ----------------------------------------------------------------------------------------------------- */

const char *ls_checkpoint_path(const ls_checkpoint *checkpoint) { return checkpoint->folder; }

int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint) { return checkpoint->marker.step; }

uint64_t ls_checkpoint_bytes(const ls_checkpoint *checkpoint) {
    uint64_t bytes = 0;
    for (int i = 0; i < checkpoint->marker.count; i++) bytes += checkpoint->marker.files[i].bytes;
    return bytes;
}

bool ls_checkpoint_has(const ls_checkpoint *checkpoint, const char *name) {
    return ls_marker_find(&checkpoint->marker, name);
}

/* Fails with LS_ERR_INPUT unless the marker lists a file of this name. */
static ls_status need_file(const ls_checkpoint *checkpoint, const char *name) {
    if (ls_checkpoint_has(checkpoint, name)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "checkpoint %s has no %s", checkpoint->folder, name);
}

ls_status ls_checkpoint_open_tensors(const ls_checkpoint *checkpoint, const char *name, ls_safetensors **out) {
    *out = NULL;
    LS_TRY(need_file(checkpoint, name));
    return ls_safetensors_open(ls_path_in(checkpoint->folder, name).text, out);
}

ls_status ls_checkpoint_load_json(const ls_checkpoint *checkpoint, const char *name, json_t **out) {
    *out = NULL;
    LS_TRY(need_file(checkpoint, name));
    return ls_json_load_file(ls_path_in(checkpoint->folder, name).text, JSON_BYTES_MAX, out);
}
