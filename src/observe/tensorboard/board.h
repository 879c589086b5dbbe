/* board.h: exports a run, while it trains or later, as event files that TensorBoard reads.
 *
 * `lockstep metrics --tensorboard` calls it. Scalars are the columns of the series (series.h): "train/loss",
 * "train/norm", … of steps, "validation/loss" of evaluations; samples are texts, "sample". Values are those of
 * metrics.jsonl as 32-bit floats, which is what TensorBoard keeps.
 *
 * A board removes the event files that an earlier board left in the folder and writes the whole series to a new file.
 * Its first event, a session start at step 0, makes a TensorBoard that is open drop what it read before. If the run
 * goes back to a checkpoint, another session start drops the repeated steps. So every curve has each step once. */
#ifndef LS_OBSERVE_TENSORBOARD_BOARD_H
#define LS_OBSERVE_TENSORBOARD_BOARD_H

#include <stdbool.h>

#include "base/status.h"
#include "observe/series.h"

typedef struct ls_board ls_board;

/* Writes what the run directory has recorded so far, with the steps of its parents, to `folder`, creating that if
 * needed. Fails if `run` is no run directory. The caller closes *out. */
ls_status ls_board_open(const char *run, const char *folder, ls_board **out);
/* Writes what the run has recorded since the last call. What could be read is written even if reading fails, whose
 * status it returns. */
ls_status ls_board_update(ls_board *board);
/* Returns the records read so far; they belong to the board and are valid until the next update. */
const ls_run_log *ls_board_log(const ls_board *board);
/* NULL does nothing. */
void ls_board_close(ls_board *board);

#endif
