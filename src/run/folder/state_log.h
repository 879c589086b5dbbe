/* state_log.h: the state sums of the last steps by tensor, in one file per worker, for `lockstep bisect`:
 *
 *     DIR/state/worker-N.sums    names of the parameters, then up to LS_STATE_LOG_SLOTS slots of one step each, used in
 * turn
 *
 * The hash of a whole state is in the metrics (run/state_hash.h); this shows in which tensor, and in which worker's
 * part of it, two runs of the same steps first differ. At most about LS_STATE_LOG_BYTES per worker, unless two slots
 * take more. Each worker writes its own file; bisect reads all. */
#ifndef LS_RUN_FOLDER_STATE_LOG_H
#define LS_RUN_FOLDER_STATE_LOG_H

#include "base/hash.h"
#include "nn/blocks.h"

/* Name of the member of a checkpoint's state.json with the hash of the whole state; absent if the run made none. */
#define LS_SAVED_STATE "state_hash"
/* Likewise of the last step whose audits passed, if that is not the checkpoint's own. */
#define LS_SAVED_AUDITED "audited_step"

enum { LS_STATE_LOG_BYTES = 4 << 20, LS_STATE_LOG_SLOTS = 4096 };

typedef struct ls_state_log ls_state_log;

/* Opens or creates the file of this worker in run directory `dir`; replaces one that was written for another number of
 * parameters. `workers`: their number, recorded with each step. The caller closes *out. */
ls_status ls_state_log_open(const char *dir, const ls_model *model, int worker, int workers, ls_state_log **out);
/* Closes the file; NULL does nothing. */
void ls_state_log_close(ls_state_log *log);
/* Writes the parts of this worker after `step`, LS_STATE_TENSORS for each parameter, into the slot of its number modulo
 * the slots, over the step that was there; `sum` is the sum of all workers' parts. */
ls_status ls_state_log_write(ls_state_log *log, int64_t step, ls_hash128 sum, const ls_hash128 *parts);

/* The records of all workers about one step. */
typedef struct ls_state_record {
    int workers, params;
    char (*names)[LS_PARAM_NAME_MAX]; /* of the parameters */
    ls_hash128 *parts;                /* by worker, then parameter, then tensor */
} ls_state_record;

/* Reads what all workers recorded about a step. Returns false, with nothing to free, if one did not record it, or if
 * the parts do not add up to the sum. The caller frees the record. */
bool ls_state_record_read(const char *dir, int64_t step, ls_state_record *out);
/* Frees the lists of the record and zeroes it. */
void ls_state_record_free(ls_state_record *record);

#endif
