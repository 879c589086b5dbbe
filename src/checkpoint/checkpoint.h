/* checkpoint.h: reads and verifies one checkpoint: a folder whose complete.json (the marker) lists its files with size
 * and checksum. The store (store.h) writes checkpoints; resuming, eval, generate and export open them here.
 *
 *     {"format": 1, "step": 100, "files": [{"name": "weights.safetensors", "bytes": 1234, "xxh3_128": "…"}, …]}
 *
 * Files of tensors have "sum128" (byte_sum.h) instead of "xxh3_128"; older versions wrote "xxh3_128" for them, which is
 * still verified. With it comes one such sum for each tensor: {"tensors": {"wte": "…", …}}, so that an error names the
 * damaged tensor. All checksums are computed from the bytes in memory before they are written.
 *
 * complete.json ends with a hash of itself (marker.h) and is written last, so a folder that has one was saved
 * completely. This module does not interpret the files' content; its callers do. */
#ifndef LS_CHECKPOINT_CHECKPOINT_H
#define LS_CHECKPOINT_CHECKPOINT_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

#define LS_CHECKPOINT_WEIGHTS "weights.safetensors"
#define LS_CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define LS_CHECKPOINT_STATE "state.json"
#define LS_CHECKPOINT_MARKER "complete.json"

typedef struct ls_checkpoint ls_checkpoint;

/* Callback for progress while files are verified: bytes read so far, and bytes of all files. Called in the caller's
 * thread. */
typedef void (*ls_checkpoint_progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);

/* Reads the marker and checks that all files that it lists exist with the listed sizes, but no checksums. LS_ERR_INPUT
 * says what is missing or damaged. The caller closes *out, which is NULL on failure. */
ls_status ls_checkpoint_open(const char *folder, ls_checkpoint **out);
void ls_checkpoint_close(ls_checkpoint *checkpoint);

/* Reads every file completely and compares its checksums with the marker's. LS_ERR_INPUT names the first file, and the
 * tensor, that differ. `progress` may be NULL. */
ls_status ls_checkpoint_verify(const ls_checkpoint *checkpoint, ls_checkpoint_progress progress, void *ctx);

/* Returns the folder that was opened; borrowed. */
const char *ls_checkpoint_path(const ls_checkpoint *checkpoint);
/* Returns the number of steps completed when the checkpoint was saved, as the marker has it. */
int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint);
/* Returns the bytes of all files that the marker lists, without the marker itself. */
uint64_t ls_checkpoint_bytes(const ls_checkpoint *checkpoint);
/* Returns whether the marker lists a file of this name. Other files in the folder do not count. */
bool ls_checkpoint_has(const ls_checkpoint *checkpoint, const char *name);

/* Opens a safetensors file of the checkpoint; LS_ERR_INPUT if the marker does not list it. Compares no checksum. The
 * caller closes *out, before or after the checkpoint. */
ls_status ls_checkpoint_open_tensors(const ls_checkpoint *checkpoint, const char *name, ls_safetensors **out);
/* Loads a JSON file of the checkpoint, at most 64 MiB; LS_ERR_INPUT if the marker does not list it. The caller releases
 * *out with json_decref(). */
ls_status ls_checkpoint_load_json(const ls_checkpoint *checkpoint, const char *name, json_t **out);

#endif
