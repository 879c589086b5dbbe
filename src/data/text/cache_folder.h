/* cache_folder.h: the folder that keeps tokenized text: private to its user, with a lock for each entry, and without
 * what killed processes left behind.
 *
 *     <key>_000001.bin …              the shards of one entry
 *     <key>_000001.bin.sums …         checksums of the pieces of large shards (data/text/token_sums.h)
 *     <key>_000001.bin.tmp-PID-N …    shards while they are written, and so .bin.sums.tmp-PID-N
 *     <key>.lock                      held while an entry is made; it says which process makes it. Gone afterwards */
#ifndef LS_DATA_TEXT_CACHE_FOLDER_H
#define LS_DATA_TEXT_CACHE_FOLDER_H

#include "base/files.h"

/* Makes the folder, with mode 0700. One that belongs to another user is LS_ERR_INPUT. */
ls_status ls_cache_folder_open(const char *folder);

/* Adds to the message of a failure that the cache cannot be written, where its errno says so, how to choose another
 * folder. Returns `status`. */
ls_status ls_cache_folder_advise(ls_status status);

/* Starts as {.fd = -1}. */
typedef struct ls_cache_lock {
    int fd; /* −1: none is held, or the file system has no locks */
    double told_s;
    ls_path path;
} ls_cache_lock;

/* Waits while another process has the lock of the entry, and says so once; LS_ERR_DEADLINE when that process has made
 * no progress for wait_s seconds. Where the file system has no locks, two processes do the same work; each puts whole
 * files in place, so that is a waste and no harm. `source` is what is being tokenized, for messages. */
ls_status ls_cache_lock_take(ls_cache_lock *lock, const char *folder, const char *key, const char *source,
                             double wait_s, void (*say)(void *ctx, const char *message), void *say_ctx);
/* Tells those who wait that the work goes on; cheap, to be called often. */
void ls_cache_lock_tell(ls_cache_lock *lock);
/* Does nothing where none is held. */
void ls_cache_lock_release(ls_cache_lock *lock);

/* Removes temporary files whose process is gone and whose lock nobody holds, those of `held` (a key whose lock the
 * caller has; NULL: none) in any case, and locks that nobody holds. Failures are passed over: the files are only in
 * the way. */
void ls_cache_folder_clean(const char *folder, const char *held);

#endif
