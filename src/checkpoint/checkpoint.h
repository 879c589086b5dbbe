/* checkpoint.h: one checkpoint: a folder whose complete.json lists its files with size and checksum.
 *
 *     {"format": 1, "step": 100, "files": [{"name": "weights.safetensors", "bytes": 1234, "xxh3_128": "…"}, …]}
 *
 * Files of tensors have "sum128" (byte_sum.h) instead of "xxh3_128", which older versions wrote, and the same for each
 * tensor: {"tensors": {"wte": "…", …}}, so that an error names the damaged tensor. All checksums are computed from the
 * bytes in memory before they are written.
 *
 * complete.json is written last, so a folder that has one was saved completely. The caller knows what the files mean.
 */
#ifndef LS_CHECKPOINT_CHECKPOINT_H
#define LS_CHECKPOINT_CHECKPOINT_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

#define LS_CHECKPOINT_WEIGHTS "weights.safetensors"
#define LS_CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define LS_CHECKPOINT_STATE "state.json"
#define LS_CHECKPOINT_MARKER "complete.json"

typedef struct ls_checkpoint ls_checkpoint;

/* Callback for progress while files are verified. */
typedef void (*ls_checkpoint_progress)(void *ctx, uint64_t done_bytes, uint64_t total_bytes);

/* Reads the marker and checks names and sizes of all files, but no checksums. LS_ERR_INPUT says what is damaged. */
ls_status ls_checkpoint_open(const char *folder, ls_checkpoint **out);
void ls_checkpoint_close(ls_checkpoint *checkpoint);

/* Reads every file and compares its checksum. LS_ERR_INPUT names the file and the tensor that differ. `progress` may be
 * NULL. */
ls_status ls_checkpoint_verify(const ls_checkpoint *checkpoint, ls_checkpoint_progress progress, void *ctx);

const char *ls_checkpoint_path(const ls_checkpoint *checkpoint);
int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint);
/* Returns the bytes of all files. */
uint64_t ls_checkpoint_bytes(const ls_checkpoint *checkpoint);
/* Returns whether the marker lists a file of this name. */
bool ls_checkpoint_has(const ls_checkpoint *checkpoint, const char *name);

/* Opens a safetensors file of the checkpoint. The caller closes it, before or after the checkpoint. */
ls_status ls_checkpoint_open_tensors(const ls_checkpoint *checkpoint, const char *name, ls_safetensors **out);
/* Loads a JSON file of the checkpoint. The caller releases it with json_decref(). */
ls_status ls_checkpoint_load_json(const ls_checkpoint *checkpoint, const char *name, json_t **out);

#endif
