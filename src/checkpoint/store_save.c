/* store_save.c: saves a checkpoint.
 *
 *     begin    creates step-N.partial/
 *     put      writes its files and syncs each to disk
 *     commit   complete.json ── step-N → step-N.replaced, if it exists ── step-N.partial → step-N ── latest, best ──
 *              prune
 *
 * After a crash before the second rename the step has its old checkpoint or none; after a later crash, the new one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hash.h"
#include "checkpoint/marker.h"
#include "checkpoint/store_folder.h"

struct ls_store_save {
    ls_store *store;
    ls_path folder; /* step-N.partial */
    ls_marker marker;
};

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Removes all step-N.partial folders: of failed saves, which could not be removed while another worker still wrote into
 * them. */
static ls_status remove_partial(const ls_store *store) {
    ls_store_name *names = NULL;
    int count = 0;
    ls_status status = ls_store_names(store, &names, &count);
    for (int i = 0; i < count && status == LS_OK; i++)
        if (strcmp(names[i].suffix, LS_STORE_PARTIAL) == 0)
            status = ls_store_remove(store, names[i].step, names[i].suffix);
    free(names);
    return status;
}

ls_status ls_store_begin(ls_store *store, int64_t step, ls_store_save **out) {
    *out = NULL;
    if (store->mode != LS_STORE_WRITE)
        return ls_fail(LS_ERR_INPUT, "%s was opened for reading; it cannot be saved to", store->folder.text);
    if (step < 0) return ls_fail(LS_ERR_INPUT, "cannot save a checkpoint of step %" PRId64, step);
    if (store->is_saving) return ls_fail(LS_ERR_INPUT, "a checkpoint is being saved in %s already", store->folder.text);
    ls_store_save *save = calloc(1, sizeof *save);
    if (!save) return ls_fail(LS_ERR_RESOURCE, "cannot save a checkpoint in %s: out of memory", store->folder.text);
    *save = (ls_store_save){
        .store = store, .folder = ls_store_path(store, step, LS_STORE_PARTIAL), .marker = {.step = step}};
    ls_status status = remove_partial(store);
    if (status == LS_OK && mkdir(save->folder.text, 0777) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot create folder %s", save->folder.text);
    store->is_saving = status == LS_OK;
    if (status == LS_OK)
        *out = save;
    else
        free(save);
    return status;
}

const char *ls_store_save_folder(const ls_store_save *save) { return save->folder.text; }

/* Adds a file that has an XXH3 hash to the marker of the save. */
static ls_status add_hashed(ls_store_save *save, const char *name, uint64_t bytes, ls_hash128 hash) {
    return ls_marker_add(&save->marker, name, &(ls_marker_file){.bytes = bytes, .has_hash = true, .hash = hash});
}

ls_status ls_store_begin_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                                 ls_safetensors_writer **out) {
    *out = NULL;
    LS_TRY(ls_marker_check_name(&save->marker, name));
    return ls_safetensors_create(ls_path_in(save->folder.text, name).text, plan, out);
}

/* Adds a file of tensors with its sums (header, then tensors) to the marker. Sums do not depend on the layout, so
 * complete.json does not either. LS_ERR_FAILED if the sums cover other than `bytes` bytes. */
static ls_status add_summed(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                            const ls_byte_sum *sums, uint64_t bytes) {
    ls_byte_sum all = sums[0];
    ls_marker_file file = {.bytes = bytes, .has_sum = true};
    ls_status status = LS_OK;
    for (int i = 0; i < plan->count && status == LS_OK; i++) {
        ls_byte_sum_join(&all, &sums[i + 1]);
        status = ls_marker_add_tensor(&file, plan->tensors[i].name, ls_byte_sum_value(&sums[i + 1]));
    }
    if (status == LS_OK && all.bytes != bytes)
        status = ls_fail(LS_ERR_FAILED, "%s/%s: the workers wrote %" PRIu64 " bytes; the file has %" PRIu64,
                         save->folder.text, name, all.bytes, bytes);
    file.sum = ls_byte_sum_value(&all);
    if (status == LS_OK) return ls_marker_add(&save->marker, name, &file);
    ls_marker_file_fini(&file);
    return status;
}

ls_status ls_store_end_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               ls_safetensors_writer *writer) {
    uint64_t bytes = ls_safetensors_writer_bytes(writer);
    ls_status status = add_summed(save, name, plan, ls_safetensors_byte_sums(writer), bytes);
    if (status == LS_OK) return ls_safetensors_finish(writer, NULL);
    ls_safetensors_abort(writer);
    return status;
}

ls_status ls_store_add_tensors(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                               const ls_byte_sum *sums) {
    struct stat about;
    ls_path path = ls_path_in(save->folder.text, name);
    LS_TRY(ls_marker_check_name(&save->marker, name));
    if (stat(path.text, &about) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot examine %s", path.text);
    return add_summed(save, name, plan, sums, (uint64_t)about.st_size);
}

ls_status ls_store_put_bytes(ls_store_save *save, const char *name, const void *data, size_t bytes) {
    LS_TRY(ls_marker_check_name(&save->marker, name));
    ls_hash128 hash = ls_hash_bytes(data, bytes);
    LS_TRY(ls_file_write_atomic(ls_path_in(save->folder.text, name).text, data, bytes));
    return add_hashed(save, name, bytes, hash);
}

/* Syncs a file to disk, which another process may have written and not synced. */
static ls_status sync_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
    ls_status status = ls_fd_sync(fd) == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot sync %s to disk", path);
    (void)close(fd); /* nothing was written through it */
    return status;
}

ls_status ls_store_add_file(ls_store_save *save, const char *name) {
    ls_hash128 hash;
    uint64_t bytes;
    ls_path path = ls_path_in(save->folder.text, name);
    LS_TRY(ls_marker_check_name(&save->marker, name));
    LS_TRY(sync_file(path.text));
    LS_TRY(ls_hash_file(path.text, &hash, &bytes));
    return add_hashed(save, name, bytes, hash);
}

/* ---- commit ------------------------------------------------------------------------------------------------------ */

/* Renames step-N.partial to step-N, after renaming an old step-N to .replaced; if the second rename fails, the old one
 * gets its name back. */
static ls_status rename_to_final(const ls_store *store, int64_t step) {
    bool has_old = ls_file_exists(ls_store_folder(store, step).text);
    if (has_old) LS_TRY(ls_store_rename(store, step, "", LS_STORE_REPLACED));
    ls_status status = ls_store_rename(store, step, LS_STORE_PARTIAL, "");
    if (status == LS_OK) return LS_OK;
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    if (has_old) (void)ls_store_rename(store, step, LS_STORE_REPLACED, ""); /* the first failure is the one reported */
    return ls_fail(status, "%s", message);
}

/* Returns whether a multiple of keep_every lies above `before` and up to `step`, so that this checkpoint is kept.
 * `before` is the checkpoint before it; earlier saves may have removed that, but only if it was no milestone itself, so
 * the answer stays the same. */
static bool is_milestone(const ls_store *store, int64_t before, int64_t step) {
    return store->keep_every > 0 && step / store->keep_every > before / store->keep_every;
}

/* Removes checkpoints older than the newest `keep`, except the best, the newest clean one and milestones. Checkpoints
 * above `step` are from before a rewind: they neither count nor are removed. */
static ls_status prune_checkpoints(const ls_store *store, int64_t step) {
    ls_store_entry *entries = NULL;
    int count = 0, complete = 0;
    ls_status status;
    if (store->keep == 0) return LS_OK;
    LS_TRY_OUT(ls_store_list(store, &entries, &count));
    for (int i = 0; i < count; i++) complete += entries[i].is_complete && entries[i].step <= step;
    int64_t before = 0, clean = -1;
    for (int i = 0; i < count; i++)
        if (entries[i].is_complete && entries[i].step <= store->clean) clean = entries[i].step;
    for (int i = 0; i < count && complete > store->keep; i++) {
        if (!entries[i].is_complete || entries[i].step >= step) continue;
        if (entries[i].step != store->best && entries[i].step != clean && !is_milestone(store, before, entries[i].step))
            LS_TRY_OUT(ls_store_remove(store, entries[i].step, ""));
        before = entries[i].step;
        complete--;
    }
out:
    free(entries);
    return status;
}

/* Removes the replaced checkpoint of this step and, if old checkpoints are removed at all, the checkpoints put aside
 * whose step is at most this one. */
static ls_status remove_replaced_and_aside(const ls_store *store, int64_t step) {
    ls_store_name *names = NULL;
    int count = 0;
    ls_status status;
    LS_TRY_OUT(ls_store_names(store, &names, &count));
    for (int i = 0; i < count; i++) {
        bool is_old = names[i].step == step && strcmp(names[i].suffix, LS_STORE_REPLACED) == 0;
        bool is_passed = store->keep > 0 && names[i].step <= step && strcmp(names[i].suffix, LS_STORE_ASIDE) == 0;
        if (is_old || is_passed) LS_TRY_OUT(ls_store_remove(store, names[i].step, names[i].suffix));
    }
out:
    free(names);
    return status;
}

/* Frees the save, so that another can begin; leaves its folder. */
static void end_save(ls_store_save *save) {
    save->store->is_saving = false;
    ls_marker_fini(&save->marker);
    free(save);
}

/* Adds the carried files that the save does not have. */
static ls_status write_carried(ls_store_save *save) {
    for (int i = 0; i < save->store->carried_count; i++) {
        const ls_store_file *file = &save->store->carried[i];
        if (!ls_marker_find(&save->marker, file->name))
            LS_TRY(ls_store_put_bytes(save, file->name, file->data, file->bytes));
    }
    return LS_OK;
}

ls_status ls_store_commit(ls_store_save *save) {
    const ls_store *store = save->store;
    int64_t step = save->marker.step;
    ls_status status = write_carried(save);
    if (status == LS_OK)
        status = ls_marker_write(&save->marker, ls_path_in(save->folder.text, LS_CHECKPOINT_MARKER).text);
    if (status == LS_OK) status = rename_to_final(store, step);
    if (status != LS_OK) {
        ls_store_abort(save);
        return status;
    }
    end_save(save);
    status = ls_folder_sync(store->folder.text);
    if (status == LS_OK) status = ls_store_fix_latest(store);
    if (status == LS_OK) status = ls_store_fix_best(store);
    if (status == LS_OK) status = prune_checkpoints(store, step);
    if (status == LS_OK) status = remove_replaced_and_aside(store, step);
    if (status != LS_OK) return ls_fail_at(status, "the checkpoint of step %" PRId64 " was saved, but: ", step);
    return LS_OK;
}

void ls_store_abort(ls_store_save *save) {
    if (!save) return;
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    /* What cannot be removed now is removed when the store is opened again; the caller's failure stays the one
     * reported. */
    if (ls_folder_remove(save->folder.text) != LS_OK) (void)ls_fail(LS_OK, "%s", message);
    end_save(save);
}

ls_status ls_store_rewind(ls_store *store, int64_t step) {
    ls_store_entry *entries = NULL;
    int count = 0;
    ls_status status;
    LS_TRY_OUT(ls_store_list(store, &entries, &count));
    for (int i = 0; i < count; i++)
        if (entries[i].step > step) LS_TRY_OUT(ls_store_rename(store, entries[i].step, "", LS_STORE_ASIDE));
    LS_TRY_OUT(ls_store_fix_latest(store));
    status = ls_folder_sync(store->folder.text);
out:
    free(entries);
    return status;
}
