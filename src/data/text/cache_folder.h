/* cache_folder.h: the folder of the token cache, where the ids of a tokenized text are kept for later runs: private
 * to its user, with a lock for each entry, and cleaned of files that killed processes left. For corpus_cache.c. A key
 * is the hash of everything that the ids depend on, as 32 hexadecimal digits.
 *
 *     <key>_000001.bin …              the shards of one entry
 *     <key>_000001.bin.sums …         checksums of the pieces of large shards (data/text/token_sums.h)
 *     <key>_000001.bin.tmp-PID-N …    shards while they are written; likewise .bin.sums.tmp-PID-N
 *     <key>.lock                      held by the process that makes the entry, whose number it has; removed afterwards
 */
#ifndef LS_DATA_TEXT_CACHE_FOLDER_H
#define LS_DATA_TEXT_CACHE_FOLDER_H

#include "base/files.h"

/* Creates the folder, or makes it private (mode 0700); a warning if that is impossible. LS_ERR_INPUT if it belongs to
 * another user, who could change the tokens. Leaves nothing open. */
ls_status ls_cache_folder_open(const char *folder);

/* Adds the advice to choose another folder to the message of the last failure, if its errno says that the cache cannot
 * be written. Returns `status`. */
ls_status ls_cache_folder_advise(ls_status status);

/* The lock of an entry. Starts as {.fd = -1}. */
typedef struct ls_cache_lock {
    int fd;        /* −1: none is held, or the file system has no locks */
    double told_s; /* when progress was last reported */
    ls_path path;  /* of the lock's file */
} ls_cache_lock;

/* Takes the lock of an entry. While another process holds it, waits and reports that once through `say`;
 * LS_ERR_DEADLINE if that process has made no progress for wait_s seconds. Without file locks it succeeds without a
 * lock: then two processes may do the same work, which is harmless, because each renames complete files into place.
 * `source` is the text's name, for messages. */
ls_status ls_cache_lock_take(ls_cache_lock *lock, const char *folder, const char *key, const char *source,
                             double wait_s, void (*say)(void *ctx, const char *message), void *say_ctx);
/* Reports progress to waiting processes by the time of the lock's file, at most once a second; to be called often. */
void ls_cache_lock_tell(ls_cache_lock *lock);
/* Removes the lock's file and releases the lock, if one is held. */
void ls_cache_lock_release(ls_cache_lock *lock);

/* Removes locks that no process holds, temporary files of exited processes whose lock is free, and all temporary files
 * of the key `held`, whose lock the caller has (NULL: none). Ignores failures, because the files only take space. */
void ls_cache_folder_clean(const char *folder, const char *held);

#endif
