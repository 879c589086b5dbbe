/* parts.c: the small files by which workers report that they are done writing a checkpoint: creates, counts, adds up
 * and removes them. */
#include "checkpoint/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hash.h"

/* Returns FOLDER/WHAT-RANK, such as "…/writing-3". */
static ls_path part_path(const char *folder, const char *what, int rank) {
    return ls_path_format("%s/%s-%d", folder, what, rank);
}

ls_status ls_parts_announce(const char *folder, int workers) {
    for (int r = 0; r < workers; r++) {
        ls_path path = part_path(folder, "writing", r);
        int fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot create %s", path.text);
        (void)close(fd); /* nothing was written */
    }
    return LS_OK;
}

ls_status ls_parts_put(const char *folder, int rank, const ls_byte_sum *sums, size_t count) {
    /* The file has the XXH3 of the sums, then the sums as they are in memory. */
    size_t bytes = sizeof(ls_hash128) + count * sizeof *sums;
    char *data = malloc(bytes);
    if (!data) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu checksums", count);
    ls_hash128 hash = ls_hash_bytes(sums, count * sizeof *sums);
    memcpy(data, &hash, sizeof hash);
    memcpy(data + sizeof hash, sums, count * sizeof *sums);
    ls_status status = ls_file_write_atomic(part_path(folder, "part", rank).text, data, bytes);
    free(data);
    LS_TRY(status);
    ls_path writing = part_path(folder, "writing", rank);
    return unlink(writing.text) == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot remove %s", writing.text);
}

void ls_parts_give_up(const char *folder, int rank) {
    /* If this fails, too, rank 0 waits until the run has failed. */
    (void)unlink(part_path(folder, "writing", rank).text);
}

/* Returns whether FOLDER/WHAT-RANK exists. */
static bool is_there(const char *folder, const char *what, int rank) {
    return ls_file_exists(part_path(folder, what, rank).text);
}

ls_parts_state ls_parts_look(const char *folder, int workers) {
    /* Checks part-R after writing-R, because it exists before writing-R is removed. Opens the folder first, so that a
     * network file system does not answer from a stale cache of names. */
    ls_parts_state state = {.failed = -1};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int r = 0; r < workers; r++) {
        bool writes = is_there(folder, "writing", r);
        state.waiting += writes;
        if (!writes && state.failed < 0 && !is_there(folder, "part", r)) state.failed = r;
    }
    if (fd >= 0) (void)close(fd);
    return state;
}

/* Adds the sums of worker `rank` to `sums`, after comparing the hash of its part file, and removes the file. */
static ls_status take_part(const char *folder, int rank, ls_byte_sum *sums, size_t count) {
    ls_path path = part_path(folder, "part", rank);
    char *data = NULL;
    size_t bytes = 0, expected = sizeof(ls_hash128) + count * sizeof *sums;
    LS_TRY(ls_file_read(path.text, expected, &data, &bytes));
    ls_hash128 hash = {0};
    ls_byte_sum sum;
    const char *at = data + sizeof hash;
    if (bytes == expected) memcpy(&hash, data, sizeof hash);
    bool is_sound = bytes == expected && ls_hash_equal(hash, ls_hash_bytes(at, count * sizeof *sums));
    for (size_t i = 0; i < count && is_sound; i++) {
        memcpy(&sum, at + i * sizeof sum, sizeof sum);
        ls_byte_sum_join(&sums[i], &sum);
    }
    free(data);
    if (!is_sound)
        return ls_fail(LS_ERR_FAILED, "%s is damaged: it is not the %zu bytes that worker %d wrote", path.text,
                       expected, rank);
    return unlink(path.text) == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot remove %s", path.text);
}

ls_status ls_parts_take(const char *folder, int workers, ls_byte_sum *sums, size_t count) {
    memset(sums, 0, count * sizeof *sums);
    for (int r = 0; r < workers; r++) LS_TRY(take_part(folder, r, sums, count));
    return LS_OK;
}
